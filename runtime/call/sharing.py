"""Programs kept with the function they are made of, so that a fresh ``grad(f)`` finds them.

``def update(p): g = grad(loss)(p)`` makes a new ``grad(loss)`` in each call. What was generated for
an earlier one of the same function, transformations and options stands in the function's own
attributes: it lives as long as the function, and what it captured is checked at each call as ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.ir.pytrees import REGISTERED
from calque.transpiler.primitives.record import PRIMITIVES

_ATTRIBUTE = "_calque_programs"
_ENVIRONMENT = ("CALQUE_JIT", "CALQUE_CACHE", "CALQUE_DEBUG", "CALQUE_PRINT_AFTER")


class _Shared(dict[Any, Any]):
    """The programs generated of ``owner``; no copy or pickle of the function takes them along."""

    def __init__(self, owner: Any = None):
        super().__init__()
        self.owner = owner  # functools.wraps hands a function's attributes on to another one

    def __reduce__(self) -> Any:
        return _Shared, ()


def shared(function: Any, chain: Any, make: Callable[[], Any]) -> Any:
    """The object made before for a function and its transformations, else what ``make`` gives."""
    if type(function) is MethodType and isinstance(function.__self__, type):
        function, chain = function.__func__, (chain, function.__self__)
    if type(function) is not FunctionType and type(function) is not partial:
        return make()
    attributes = vars(function)
    table = attributes.get(_ATTRIBUTE)
    if not isinstance(table, _Shared) or table.owner is not function:
        table = attributes[_ATTRIBUTE] = _Shared(function)
    return kept(table, chain, make)


def kept(table: dict[Any, Any], chain: Any, make: Callable[[], Any]) -> Any:
    """The entry of a table for transformations in the present environment, made if missing."""
    key = (chain, repr(chain), *_surroundings())
    try:
        found = table.get(key)
    except TypeError:  # axes in a dict
        return make()
    return table.setdefault(key, make()) if found is None else found


def _surroundings() -> tuple[Any, ...]:
    """The rest that a program depends on, which no check of its captures sees."""
    known = (len(FUNCTIONS), len(PRIMITIVES), len(REGISTERED))
    return (*known, *map(os.environ.get, _ENVIRONMENT))
