"""The state that functions called by Python read from outside, which guards compare at each call.

A library's function that is given one of the user's (``scipy.optimize.brentq(f, 0.0, 1.0)``) runs
it while the program is read: the program holds while all that ``f`` reads is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from calque.transpiler.frontend.values.mutable_objects import CACHING, Same, is_from_library, state


def function_state(function: Any) -> Any:
    """All state from outside that a user's function, and the functions that it calls, read.

    Raises ``Unguarded`` where an object's state cannot be told.

    >>> def scaled(x, by=[2.0]):
    ...     return by[0] * x
    >>> before = function_state(scaled)
    >>> scaled.__defaults__[0][0] = 3.0
    >>> function_state(scaled) == before
    False
    """
    return _FunctionState().of(function)


class _FunctionState:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            given = (*value.args, *value.keywords.values())
            return (self.of(value.func), tuple(value.keywords), *map(self.of, given))
        if isinstance(value, CACHING):
            return self.of(value.__wrapped__)
        if isinstance(value, MethodType):
            return (self.of(value.__func__), self.of(value.__self__))
        if not isinstance(value, FunctionType) or is_from_library(value):
            return state(value)
        if any(value is known for known in self.seen):
            return Same(value)
        self.seen.append(value)
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        names = [n for n in dict.fromkeys(_names(value.__code__)) if n in value.__globals__]
        read = [value.__globals__[n] for n in names]
        parts = map(self.of, (*defaults, *cells, *read))
        return (Same(value.__code__), tuple(names), *parts)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False  # the name has no value yet


def _names(code: CodeType) -> Iterator[str]:
    """The globals that a function may read, and attributes of the same names."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
