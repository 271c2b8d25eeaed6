"""Functions as arguments: how many arguments they take, and the names of these."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from calque.transpiler.frontend.machine import Closure


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


def within(owner: str, name: str, numbers: Any, of: Any) -> None:
    """Raise where numbers of arguments are out of the range of what a function can take."""
    count = positional_count(of)
    for number in numbers if isinstance(numbers, tuple) else (numbers,):
        if count is not None and not -count <= number < count:
            kind = TypeError if number >= 0 and name == "argnums" else ValueError
            raise kind(
                f"{owner}: {name} {number} is out of range: {_called(of)} takes {count} positional "
                f"argument{'' if count == 1 else 's'}"
            )
    if name == "argnums" and isinstance(numbers, tuple) and len(set(numbers)) < len(numbers):
        raise TypeError(f"{owner}: {name} {numbers} names an argument of {_called(of)} twice")


def _called(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


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
