"""``bisect``: the place of a run-time number in a sorted list is searched in an array."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.comparisons import numeric
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.ir.builder import FUNCTIONS, Array, known, known_int

_PARAMETERS = ("a", "x", "lo", "hi")


def _searching(function: Callable[..., Any], side: str) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        given: dict[str, Any] = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
        if given.get("key") is not None and "a" in given:
            items = machine.known_items(given["a"], node)
            given["a"] = [machine.call_value(given["key"], [v], {}, node) for v in items]
            del given["key"]
        values, sought = gathered(given.get("a")), given.get("x")
        numbers = isinstance(values, Array) or all(map(numeric, values or ()))
        if known((values, sought)) or not numbers or not numeric(sought):
            return machine.native(function, [], given, node)
        return _place(values, sought, side, given)

    return call


def _place(values: Any, sought: Any, side: str, given: dict[str, Any]) -> Any:
    """The place where a number goes, before its equals or after them."""
    first, last = given.get("lo", 0), given.get("hi")
    if first != 0 or last is not None:
        first = known_int(first, "Where a search begins")
        last = None if last is None else known_int(last, "Where a search ends")
        if first < 0:
            raise ValueError("lo must be non-negative")
        values = values[first:last]
    array = values if isinstance(values, Array) else FUNCTIONS[np.array](values)
    found: Any = FUNCTIONS[int](FUNCTIONS[np.searchsorted](array, sought, side=side))
    if side == "left" and isinstance(sought, Array) and sought.dtype.kind == "f":
        found = FUNCTIONS[np.where](sought != sought, 0, found)  # every comparison is False
        found = FUNCTIONS[int](found)
    return first + found if first else found


for _name in ("bisect", "bisect_right"):
    BUILTINS[getattr(bisect, _name)] = _searching(getattr(bisect, _name), "right")
BUILTINS[bisect.bisect_left] = _searching(bisect.bisect_left, "left")
