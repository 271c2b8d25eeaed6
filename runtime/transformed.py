"""A transformed function: called, it runs the generated one; met by the interpreter, it is transformed there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from calque.runtime.dispatch import Dispatcher, Program
from calque.transpiler import transformations

SUFFIXES = {"value_and_grad": "value_and_grad", "identity": "numpy"}


class Transformed:
    """``grad(f)`` and the like. Keeps the function's name, docstring, signature and pickling."""

    def __init__(self, kind: str, function: Callable[..., Any], **options: Any):
        self.kind = kind
        self.function = function
        self.options = options
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        signature = extended_signature(kind, function)
        if signature is not None:
            self.__signature__ = signature
        self._dispatcher = Dispatcher(self, self.generated_name)

    def generated_name(self) -> str:
        """``f_grad``, ``f_grad_jvp``: what was done, in order."""
        inner = self.function
        stem = (
            inner.generated_name()
            if isinstance(inner, Transformed)
            else getattr(inner, "__name__", type(inner).__name__)
        )
        stem = "function" if stem == "<lambda>" else stem
        return stem if self.kind == "identity" else f"{stem}_{SUFFIXES.get(self.kind, self.kind)}"

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The generated program for arguments of these types."""
        return self._dispatcher.program(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        program = self._dispatcher.program(args, kwargs)
        if program.captures:
            return program.call(*args, **kwargs, **program.hidden())
        return program.call(*args, **kwargs)

    def source(self, *args: Any, stage: str = "numpy") -> str:
        """The generated source for arguments, or specs, of these types."""
        from calque.runtime.reading import source

        return source(self, *args, stage=stage)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundTransformed(self, instance)

    def __repr__(self) -> str:
        return f"<calque {self.kind} of {getattr(self.function, '__qualname__', self.function)}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "function": self.function, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["kind"], state["function"], **state["options"])  # type: ignore[misc]

    def __reduce__(self) -> Any:
        return _rebuild, (self.kind, self.function, self.options)

    def __calque_trace__(self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        return TRACE[self.kind](self, machine, args, kwargs, node)


class BoundTransformed:
    """A transformed method, bound to an instance, which is a known value of the generated code."""

    def __init__(self, transformed: Transformed, instance: Any):
        self.transformed, self.instance = transformed, instance
        self.__wrapped__ = transformed
        self.__name__ = getattr(transformed, "__name__", "method")
        self.__doc__ = transformed.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._bound()(*args, **kwargs)

    def source(self, *args: Any, stage: str = "numpy") -> str:
        """The generated source."""
        return self._bound().source(*args, stage=stage)

    def _bound(self) -> Transformed:
        return bound(self.transformed, self.instance)


def bound(transformed: Transformed, instance: Any) -> Transformed:
    """The transformation of the bound method; argnums do not count ``self``."""
    table = _bound_tables(instance)
    key = id(transformed)
    if key not in table:
        inner = transformed.function
        method = bound(inner, instance) if isinstance(inner, Transformed) else inner.__get__(instance)  # type: ignore[attr-defined]
        table[key] = (transformed, Transformed(transformed.kind, method, **transformed.options))
    return table[key][1]


_fallback_tables: dict[int, tuple[Any, dict[int, Any]]] = {}


def _bound_tables(instance: Any) -> dict[int, Any]:
    try:
        return vars(instance).setdefault("_calque_bound", {})
    except TypeError:
        return _fallback_tables.setdefault(id(instance), (instance, {}))[1]


def _rebuild(kind: str, function: Any, options: dict[str, Any]) -> Transformed:
    return Transformed(kind, function, **options)


def extended_signature(kind: str, function: Any) -> inspect.Signature | None:
    """The function's signature; with tangents for jvp, with the cotangent for vjp."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    if kind not in ("jvp", "vjp"):
        return signature
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != len(signature.parameters):
        return None
    plain = [p.replace(default=p.empty, annotation=p.empty) for p in positional]
    if kind == "jvp":
        extra = [p.replace(name=f"{p.name}_dot") for p in plain]
    else:
        extra = [inspect.Parameter("return_bar", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    return inspect.Signature([*plain, *extra])


def _trace_identity(self: Transformed, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    return machine.call_value(self.function, args, kwargs, node)


def _trace_grad(self: Transformed, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    _, gradient, aux = transformations.value_and_grad(
        machine, self.function, args, kwargs, node, name="grad", **self.options
    )
    return (gradient, aux) if self.options["has_aux"] else gradient


def _trace_value_and_grad(
    self: Transformed, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
) -> Any:
    value, gradient, aux = transformations.value_and_grad(
        machine, self.function, args, kwargs, node, name="value_and_grad", **self.options
    )
    return ((value, aux) if self.options["has_aux"] else value, gradient)


def _trace_jvp(self: Transformed, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    half = len(args) // 2
    value, tangent, aux = transformations.jvp(
        machine, self.function, args[:half], args[half:], node, self.options.get("has_aux", False)
    )
    return (value, tangent, aux) if self.options.get("has_aux") else (value, tangent)


def _trace_vjp(self: Transformed, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    _, cotangents, _ = transformations.vjp(
        machine, self.function, args[:-1], args[-1], node, self.options.get("has_aux", False)
    )
    return cotangents


TRACE: dict[str, Callable[..., Any]] = {
    "identity": _trace_identity,
    "grad": _trace_grad,
    "value_and_grad": _trace_value_and_grad,
    "jvp": _trace_jvp,
    "vjp": _trace_vjp,
}
