"""Transformed functions that interpreted code calls: ``grad(f)`` and the like are inlined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.runtime.parameters import by_number
from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Var
from calque.transpiler.transformations import derivatives, jacobian, taylor, transpose, vmap


def _trace_identity(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    return machine.call_value(self.function, args, kwargs, node)


def _trace_observed(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """The function itself, its calls recorded with the rules that a derivative would use."""
    with machine.before_passes(1):
        return machine.call_value(self.function, args, kwargs, node)


def _trace_whole_batches(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """The function; no examples of its batches are taken apart. Its program is read, not run."""
    builder = machine.builder
    before, builder.whole_batches = builder.whole_batches, True
    try:
        return machine.call_value(self.function, args, kwargs, node)
    finally:
        builder.whole_batches = before


def _numbered(self: Any, args: Args, kwargs: Kwargs) -> tuple[Any, Args, Kwargs, dict[str, Any]]:
    """The function, the arguments of a call and the options, without names in ``argnums``."""
    argnums, function, args, kwargs = by_number(
        self.kind, self.options["argnums"], self.function, args, kwargs
    )
    return function, args, kwargs, {**self.options, "argnums": argnums}


def _trace_grad(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    function, args, kwargs, options = _numbered(self, args, kwargs)
    _, gradient, aux = derivatives.value_and_grad(
        machine, function, args, kwargs, node, name="grad", **options
    )
    return (gradient, aux) if self.options["has_aux"] else gradient


def _trace_value_and_grad(
    self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any
) -> Any:
    function, args, kwargs, options = _numbered(self, args, kwargs)
    value, gradient, aux = derivatives.value_and_grad(
        machine, function, args, kwargs, node, name="value_and_grad", **options
    )
    return ((value, aux) if self.options["has_aux"] else value, gradient)


def _by_position(self: Any, args: Args, kwargs: Kwargs) -> None:
    """Raise where arguments of ``f_jvp`` and the like are given by name, or are too few."""
    kind, name = self.kind, getattr(self.function, "__name__", type(self.function).__name__)
    if kwargs:
        raise TypeError(
            f"{name}_{kind}: arguments are given by position, and {next(iter(kwargs))} by name"
        )
    if kind in ("vjp", "linear_transpose"):
        if not args or (kind == "linear_transpose" and len(args) > 1):
            raise TypeError(f"{name}_{kind}: the cotangent is missing, or not the last argument")
    elif not args or len(args) % 2:
        raise TypeError(
            f"{name}_{kind}: there must be as many tangents as primals, and there are {len(args)} "
            "arguments"
        )


def _trace_jvp(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    _by_position(self, args, kwargs)
    half = len(args) // 2
    value, tangent, aux = derivatives.jvp(
        machine, self.function, args[:half], args[half:], node, self.options.get("has_aux", False)
    )
    return (value, tangent, aux) if self.options.get("has_aux") else (value, tangent)


def _trace_vjp(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    _by_position(self, args, kwargs)
    _, cotangents, _ = derivatives.vjp(
        machine, self.function, args[:-1], args[-1], node, self.options.get("has_aux", False)
    )
    return cotangents


def _trace_vmap(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    return vmap.vmap(machine, self.function, args, kwargs, node, self.options["axes"])


def _jacobian(kind: str) -> Callable[..., Any]:
    build = getattr(jacobian, kind)

    def trace(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        function, args, kwargs, options = _numbered(self, args, kwargs)
        found, aux = build(machine, function, args, kwargs, node, **options)
        return (found, aux) if self.options["has_aux"] else found

    return trace


def _trace_hessian(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    function, args, kwargs, options = _numbered(self, args, kwargs)
    inner = Nested("jacrev", function, options)
    found, aux = jacobian.jacfwd(machine, inner, args, kwargs, node, **options)
    return (found, aux) if self.options["has_aux"] else found


def _trace_jacobian(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    function, args, kwargs, options = _numbered(self, args, kwargs)
    found, value, aux = jacobian.jacobian(machine, function, args, kwargs, node, **options)
    if self.kind == "value_and_jacobian":
        return ((value, aux) if options["has_aux"] else value, found)
    return (found, aux) if options["has_aux"] else found


def _trace_value_and_hessian(
    self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any
) -> Any:
    function, args, kwargs, options = _numbered(self, args, kwargs)
    inner = Nested("jacrev", _WithValue(function, options["has_aux"]), {**options, "has_aux": True})
    options = {**options, "has_aux": True}
    found, value = jacobian.jacfwd(machine, inner, args, kwargs, node, **options)
    return value, found


class _WithValue:
    """A function that also gives its whole result as auxiliary output."""

    def __init__(self, function: Any, has_aux: bool):
        self.function, self.has_aux = function, has_aux
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        result = listed(machine.call_value(self.function, args, kwargs, node))
        if not self.has_aux:
            return result, result
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise NotDifferentiable(
                "has_aux=True: the function must return a pair (value, aux).",
                machine.builder.origin,
                "return value, aux",
            )
        return result[0], tuple(result)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


def _trace_second(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    function, args, kwargs, options = _numbered(self, args, kwargs)
    found, aux = taylor.second_derivatives(
        machine, function, args, kwargs, node, name=self.kind, **options
    )
    return (found, aux) if options["has_aux"] else found


def _trace_jet(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    count, order = self.options["count"], self.options["order"]
    rows = [args[k * count : (k + 1) * count] for k in range(order + 1)]
    return taylor.jet(machine, self.function, rows[0], rows[1:], node)


def _trace_hvp(self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    _by_position(self, args, kwargs)
    half = len(args) // 2
    options = {"argnums": 0 if half == 1 else tuple(range(half)), "has_aux": False}
    inner = Nested("grad", self.function, {**options, "holomorphic": False, "allow_int": False})
    return derivatives.jvp(machine, inner, args[:half], args[half:], node)[1]


def _trace_linear_transpose(
    self: Any, machine: Machine, args: Args, kwargs: Kwargs, node: Any
) -> Any:
    _by_position(self, args, kwargs)
    types, structure = self.options["types"]
    primals = pytrees.unflatten(structure, [Array(Var(t)) for t in types])
    return transpose.linear_transpose(machine, self.function, primals, args[0], node)


class Nested:
    """A transformation within one."""

    def __init__(self, kind: str, function: Any, options: dict[str, Any]):
        self.kind, self.function, self.options = kind, function, options
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return TRACE[self.kind](self, machine, args, kwargs, node)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


TRACE: dict[str, Callable[..., Any]] = {
    "identity": _trace_identity,
    "jit": _trace_identity,
    "observed": _trace_observed,
    "whole_batches": _trace_whole_batches,
    "grad": _trace_grad,
    "value_and_grad": _trace_value_and_grad,
    "jvp": _trace_jvp,
    "vjp": _trace_vjp,
    "vmap": _trace_vmap,
    "jacfwd": _jacobian("jacfwd"),
    "jacrev": _jacobian("jacrev"),
    "hessian": _trace_hessian,
    "jacobian": _trace_jacobian,
    "value_and_jacobian": _trace_jacobian,
    "value_and_hessian": _trace_value_and_hessian,
    "hessian_diag": _trace_second,
    "laplacian": _trace_second,
    "jet": _trace_jet,
    "hvp": _trace_hvp,
    "linear_transpose": _trace_linear_transpose,
}
