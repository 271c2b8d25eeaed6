"""Programs kept with the function they are made of, so that a fresh ``grad(f)`` finds them.

``def update(p): g = grad(loss)(p)`` makes a new ``grad(loss)`` in each call. What was generated for
an earlier one of the same function, transformations and options stands in the function's own
attributes: it lives as long as the function, and what it captured is checked at each call as ever.

Functions that are made anew, in each iteration of a loop, have their programs in a table by their
code. From the second function of a code on, these are programs of a copy (``function_copies``),
which read what is captured from the function of each call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from calque.transpiler.frontend.callables import is_library
from calque.transpiler.frontend.declared import DECLARED
from calque.transpiler.frontend.function_copies import has_twins, is_partial, kind_of, may_be_copied
from calque.transpiler.frontend.values.mutable_objects import Same
from calque.transpiler.ir.pytrees import REGISTERED

_MOST = 256  # kinds of functions made anew that are remembered
_by_code: dict[Any, _OfCode] = {}  # by what functions that are made anew have in common
_ATTRIBUTE = "_calque_programs"
_elsewhere: dict[int, _Shared] = {}  # of instances without a __dict__
_ENVIRONMENT = ("CALQUE_JIT", "CALQUE_CACHE", "CALQUE_DEBUG", "CALQUE_PRINT_AFTER")


class _Shared(dict[Any, Any]):
    """The programs generated of ``owner``; no copy or pickle of the owner takes them along."""

    def __init__(self, owner: Any = None):
        super().__init__()
        self.owner = owner  # functools.wraps, and a shallow copy, hand attributes on to another

    def __reduce__(self) -> Any:
        return _Shared, ()


def shared(function: Any, chain: Any, make: Callable[[], Any]) -> Any:
    """The object made before for a function and its transformations, else what ``make`` gives."""
    if type(function) is MethodType and isinstance(function.__self__, type):
        function, chain = function.__func__, (chain, function.__self__)
    if type(function) is not FunctionType and type(function) is not partial:
        return make()
    return kept(table_of(function), chain, make)


def table_of(owner: Any) -> dict[Any, Any]:
    """The programs of a function or an instance, kept among its own attributes if it has any."""
    try:
        attributes = vars(owner)
        table = attributes.get(_ATTRIBUTE)
        if not isinstance(table, _Shared) or table.owner is not owner:
            table = attributes[_ATTRIBUTE] = _Shared(owner)
    except (TypeError, AttributeError):
        table = _elsewhere.setdefault(id(owner), _Shared(owner))
    return table


def kept(table: dict[Any, Any], chain: Any, make: Callable[[], Any]) -> Any:
    """The entry of a table for transformations in the present environment, made if missing."""
    key = (chain, repr(chain), *_surroundings())
    try:
        found = table.get(key)
    except TypeError:  # axes in a dict
        return make()
    return table.setdefault(key, make()) if found is None else found


class _OfCode(dict[Any, Any]):
    """The programs of all functions of a code, from the second of them on."""

    def __init__(self, copies: bool):
        super().__init__()
        self.copies = copies  # whether they can be programs of a copy


def of_code(function: Any) -> dict[Any, Any] | None:
    """The table of programs of a function that is made anew; None for others, and the first."""
    key = _key_of(function)
    if key is None:
        return None
    found = _by_code.get(key)
    if found is None:
        while len(_by_code) >= _MOST:
            _by_code.pop(next(iter(_by_code)), None)
        plain = type(function) is FunctionType or is_partial(function)
        _by_code[key] = _OfCode(plain or has_twins(function))
        return None
    return found if found.copies else None


def _key_of(function: Any) -> tuple[Any, ...] | None:
    """All that functions which are made anew have in common; None for one that is not."""
    kind = type(function)
    if kind is FunctionType:
        return kind_of(function) if may_be_copied(function) else None
    if is_partial(function):
        if type(function.func) is not FunctionType or vars(function):
            return None
        return (Same(function.func), len(function.args), *function.keywords)
    owner = getattr(function, "__self__", None)
    if kind is MethodType and hasattr(owner, "__dict__") and not isinstance(owner, type):
        return (Same(function.__func__), type(owner))
    return (kind,) if _is_called_as_a_user_says(kind) else None


def _is_called_as_a_user_says(kind: type) -> bool:
    called: Any = getattr(kind, "__call__")  # noqa: B004, B009
    own = (kind.__module__ or "").startswith("calque.")
    return type(called) is FunctionType and not own and not is_library(called)


def _surroundings() -> tuple[Any, ...]:
    """The rest that a program depends on, which no check of its captures sees."""
    known = (len(DECLARED), len(REGISTERED))
    return (*known, *map(os.environ.get, _ENVIRONMENT))
