"""Functions as arguments: how many arguments they take, and the names of these."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from calque.transpiler.frontend.machine import Args, Closure, Kwargs, Machine


def is_function(value: Any) -> bool:
    """True if a value can be called, by Python or in interpreted code."""
    return callable(value) or isinstance(value, Closure) or hasattr(type(value), "__calque_trace__")


def positional_count(value: Any) -> int | None:
    """The number of positional arguments that a function takes; None where open or unknown.

    >>> positional_count(lambda x, y=1: x), positional_count(lambda *xs: xs)
    (2, None)
    """
    if isinstance(value, FunctionType):
        code = value.__code__
        return None if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    if isinstance(value, MethodType):
        count = positional_count(value.__func__)
        return None if count is None else count - 1
    if isinstance(value, Closure):
        taken = value.node.args
        return None if taken.vararg else len(taken.posonlyargs) + len(taken.args)
    if isinstance(value, partial):
        count = positional_count(value.func)
        return None if count is None else count - len(value.args)
    inner = getattr(type(value), "calque_same_arguments", None)
    return None if inner is None else positional_count(inner(value))


def parameter_names(value: Any) -> tuple[list[str], list[str], bool] | None:
    """The names of parameters with a position, of those without, and if any other is taken.

    None where they are not known.

    >>> parameter_names(lambda x, y=1, *, z: x), parameter_names(lambda *xs, **named: named)
    ((['x', 'y'], ['z'], False), ([], [], True))
    """
    if isinstance(value, Closure):
        taken = value.node.args
        positional = [a.id for a in (*taken.posonlyargs, *taken.args)]
        return positional, [a.id for a in taken.kwonlyargs], taken.kwarg is not None
    inner = getattr(value, "calque_same_arguments", None)
    if inner is not None and not isinstance(value, type):
        found = inner()
        return None if found is None else parameter_names(found)
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    others = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return positional, others, any(p.kind is p.VAR_KEYWORD for p in parameters)


def within(owner: str, name: str, numbers: Any, of: Any) -> None:
    """Raise where numbers of arguments are out of the range of what a function can take."""
    count = positional_count(of)
    for number in numbers if isinstance(numbers, tuple) else (numbers,):
        if isinstance(number, str):
            _has_parameter(owner, number, of)
        elif count is not None and not -count <= number < count:
            kind = TypeError if number >= 0 and name == "argnums" else ValueError
            raise kind(
                f"{owner}: {name} {number} is out of range: {_called(of)} takes {count} positional "
                f"argument{'' if count == 1 else 's'}"
            )
    if name == "argnums" and isinstance(numbers, tuple) and len(set(numbers)) < len(numbers):
        raise TypeError(f"{owner}: {name} {numbers} names an argument of {_called(of)} twice")


def _has_parameter(owner: str, name: str, of: Any) -> None:
    """Raise where a function is known to have no parameter of this name."""
    known = parameter_names(of)
    if known is None or known[2] or name in known[0] or name in known[1]:
        return
    has = ", ".join([*known[0], *known[1]]) or "none"
    raise TypeError(
        f"{owner}: argnums or argnames has {name!r}, which is no parameter of {_called(of)}: "
        f"it has {has} (an integer counts them)"
    )


def _called(function: Any) -> str:
    named = (getattr(function, key, None) for key in ("__name__", "name"))
    return next((n for n in named if isinstance(n, str)), type(function).__name__)


class GivenByName:
    """A function of which some arguments that calls give by keyword are its last by position."""

    def __init__(self, function: Any, names: tuple[str, ...]):
        self.function, self.names = function, names
        self.__name__ = _called(function)

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        count = len(args) - len(self.names)
        named = dict(zip(self.names, args[count:], strict=True))
        return machine.call_value(self.function, args[:count], {**kwargs, **named}, node)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


def by_number(
    owner: str, argnums: Any, function: Any, args: Args, kwargs: Kwargs
) -> tuple[Any, Any, Args, Kwargs]:
    """``argnums`` without names, with the function and the arguments of a call that fit it.

    An argument that the call gives by keyword is moved behind those with a position.
    """
    wanted = argnums if isinstance(argnums, tuple) else (argnums,)
    if not any(isinstance(n, str) for n in wanted):
        return argnums, function, args, kwargs
    moved = tuple(dict.fromkeys(n for n in wanted if n in kwargs))
    found = [_number(owner, n, moved, function, len(args)) for n in wanted]
    if len(set(found)) < len(found):
        raise TypeError(
            f"{owner}: argnums {argnums} names an argument of {_called(function)} twice"
        )
    args = [*args, *(kwargs[n] for n in moved)]
    kwargs = {n: value for n, value in kwargs.items() if n not in moved}
    function = GivenByName(function, moved) if moved else function
    return tuple(found) if isinstance(argnums, tuple) else found[0], function, args, kwargs


def _number(owner: str, name: Any, moved: tuple[str, ...], function: Any, count: int) -> int:
    """The position of an argument of a call, which a number or a name says."""
    if not isinstance(name, str):
        if not -count <= name < count:
            raise TypeError(
                f"{owner}: argnums {name} is out of range: {_called(function)} was given {count} "
                "positional arguments"
            )
        return int(name) % count
    if name in moved:
        return count + moved.index(name)
    _has_parameter(owner, name, function)
    known = parameter_names(function)
    position = known[0].index(name) if known and name in known[0] else count
    if position < count:
        return position
    raise TypeError(
        f"{owner}: argnums or argnames has {name!r}, and the call of {_called(function)} does not "
        f"give it: pass {name}=..."
    )


def parameters_named(owner: str, name: str, names: tuple[str, ...], of: Any) -> None:
    """Raise where names of arguments are none of a function's."""
    if not names or not isinstance(of, (FunctionType, MethodType)):
        return
    code = of.__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    unknown = [n for n in names if n not in known]
    if unknown:
        raise ValueError(
            f"{owner}: {name} has {unknown[0]!r}, which is no parameter of {_called(of)}: "
            f"it has {', '.join(known) or 'none'}"
        )


def check_reach(kind: str, function: Any, options: dict[str, Any]) -> None:
    """Raise where options name arguments that the function cannot take."""
    for name in ("argnums", "static_argnums"):
        if name in options:
            within(kind, name, options[name], function)
    if options.get("static_argnames"):
        parameters_named(kind, "static_argnames", options["static_argnames"], function)
    axes, count = options.get("axes"), positional_count(function)
    if axes and isinstance(axes.in_axes, tuple) and count is not None and len(axes.in_axes) > count:
        raise ValueError(
            f"{kind}: in_axes has {len(axes.in_axes)} entries, and the function takes {count} "
            "positional arguments"
        )
