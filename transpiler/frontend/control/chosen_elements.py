"""Elements of known lists, tuples and dicts at run-time places: taken from arrays.

``rows[i]`` of ``rows = [(1.0, 2), (3.0, 4)]`` is ``np.array([1.0, 3.0])[i], np.array([2, 4])[i]``:
there is an array for each part in which the elements differ. For ``table[k]`` of a dict, the place
of ``k`` among the keys that are numbers is searched first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from calque.transpiler.errors import BranchMismatch, NeedsKnownValue, SpecializationNeeded
from calque.transpiler.frontend.control.raising import Raising
from calque.transpiler.frontend.control.value_join import coerce, widen
from calque.transpiler.frontend.machine import Completion, Machine
from calque.transpiler.frontend.values.containers.container_kinds import is_mutable, kind_of
from calque.transpiler.frontend.values.descriptions import (
    Clash,
    Description,
    describe,
    is_number,
    same_constant,
)
from calque.transpiler.frontend.values.mixed_numbers import converted
from calque.transpiler.frontend.values.tagged import TaggedValue, can_be_tagged
from calque.transpiler.ir.arrays import link
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.logic import not_

KEY, NEW_KEY, ELEMENT = "A key", "A key of what is stored", "An element of a set"
CACHED = "The key under which a cache outside the function keeps a value"
_EXACT = 1 << 53  # beyond it, not every integer is a float


def common_description(values: Sequence[Any]) -> Description | None:
    """The description of any one of several values; None where they differ in structure."""
    if not values:
        return None
    found = reduce(partial(widen, spread=False), values[1:], describe(values[0]))
    if isinstance(found, Clash):
        return None
    columns = _columns(found, values)
    return found if all(map(_of_one_shape, columns)) else None


def _columns(description: Description, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """For each part in which values may differ, what it is in each of them."""
    return list(zip(*map(description.leaf_values, values), strict=True))


def _of_one_shape(column: tuple[Any, ...]) -> bool:
    """True if the arrays in a column have one shape; asks for sizes that may be equal."""
    builder = current()
    types = [type_of(v) for v in column if isinstance(v, Array)]
    shapes = {tuple(map(builder.dims.resolve, t.dims)) for t in types}
    if len(shapes) <= 1:
        return True
    unknown = [d for shape in shapes for d in shape if not isinstance(d, int)]
    wanted = builder.needs_dims(unknown, "The size of an element of a list") if unknown else None
    if isinstance(wanted, SpecializationNeeded):
        raise wanted
    return False


def may_be_tagged(machine: Machine, values: Sequence[Any], refused: Exception) -> bool:
    """True if a run-time place may choose one of several texts, functions or the like, by tags.

    Where values have no tags yet, ``refused`` asks for them, which is what is shown without.
    """
    if not values or not all(can_be_tagged(describe(value)) for value in values):
        return False
    if not machine.settings.tagging and isinstance(refused, NeedsKnownValue):
        hint = refused.hint
        if all(isinstance(value, str) for value in values):
            hint = "compare the text with others here, or return its index"
        raise BranchMismatch(refused.message, refused.origin, hint) from None
    return machine.settings.tagging


def _tagged(values: Sequence[Any], place: Any) -> Any:
    """The value at a place, counted from the start, by tags that compare the place."""
    ends = [k for k in range(1, len(values)) if not same_constant(values[k - 1], values[k])]
    starts = [0, *ends]

    def within(low: int, high: int) -> Any:
        if low + 1 == high:
            return values[starts[low]]
        middle = (low + high) // 2
        arms = within(low, middle), within(middle, high)
        return TaggedValue(place < starts[middle], *arms, "run-time data decides which one it is")

    return within(0, len(starts))


def place_in(values: Sequence[Any], index: Array) -> Array:
    """A run-time index of a sequence as an integer; TypeError for what is none in Python."""
    if index.dtype.kind not in "biu" or index.ndim:
        kind = next(k for k in (list, tuple, str) if isinstance(values, k)).__name__
        what = "numpy.ndarray" if index.ndim else index.dtype.name
        raise TypeError(f"{kind} indices must be integers or slices, not {what}")
    return FUNCTIONS[int](index) if index.dtype.kind == "b" else index


def element_at(machine: Machine, values: Sequence[Any], place: Any, node: Any) -> Any:
    """The value at a run-time place of several that have one description, or may have tags."""
    description = common_description(values)
    if description is None:
        count = len(values)
        _require_inside(machine, count, place, node)
        return _tagged(values, FUNCTIONS[np.where](place < 0, place + count, place))
    columns = _columns(description, values)
    if not columns:
        _require_inside(machine, len(values), place, node)
    rest = iter(columns)
    made = description.instantiate(lambda t: _taken(next(rest), t, place), lambda message: None)
    if columns:
        for value in (made, *values):
            _mark(machine, value)
    return made


def _taken(column: tuple[Any, ...], t: ArrayType, place: Array) -> Any:
    """One part of the value at a place, from the array of what it is in all values."""
    parts = [wrap(coerce(value, t)) for value in column]
    table = FUNCTIONS[np.stack](parts) if t.ndim else FUNCTIONS[np.array](parts, dtype=t.dtype)
    for part in column:
        if isinstance(part, Array) and part.ndim:
            link(table, part.root())  # in plain Python these are the same arrays
    found = table[place]
    return converted(found, t) if t.weak else found


def _require_inside(machine: Machine, count: int, place: Any, node: Any) -> None:
    outside = machine.short_circuit(place < -count, lambda: place >= count, node, is_and=False)
    raise_at_run_time(machine, outside, "raise IndexError('list index out of range')", [], node)


def raise_at_run_time(machine: Machine, test: Any, text: str, values: list[Any], node: Any) -> None:
    """Record an error for where a test holds; what follows is on the other path."""

    def refuse() -> Completion:
        machine.builder.effect(text, values)
        return Completion("raise")

    if isinstance(test, Array):
        machine.fork(test, refuse, lambda: None, node)


def _mark(machine: Machine, value: Any) -> None:
    """Refuse later changes of containers that may be one object with another."""
    if is_mutable(value):
        machine.undecided[id(value)] = value
    opened = kind_of(value).opened(value)
    for part in opened[2] if opened is not None else ():
        _mark(machine, part)


@dataclass(frozen=True)
class Lookup:
    """The place of a run-time number among the keys of a dict, if it is there."""

    values: list[Any]
    place: Any
    there: Any  # a test

    def value(self, machine: Machine, node: Any) -> Any:
        """The value under the key, which is there."""
        return element_at(machine, self.values, self.place, node)


def looked_up(
    machine: Machine, table: dict[Any, Any], key: Array, refused: Exception
) -> Lookup | None:
    """The place of a number among the keys of a dict; None if it cannot be looked up."""
    numbers = {k: v for k, v in table.items() if is_number(k) and k == k}
    if any(isinstance(k, (complex, np.complexfloating)) for k in numbers) or key.dtype.kind == "c":
        return None
    if key.dtype.kind == "f" and any(abs(k) >= _EXACT and abs(k) != math.inf for k in numbers):
        return None
    keys = sorted(numbers)
    values = [numbers[k] for k in keys]
    if common_description(values) is None and not may_be_tagged(machine, values, refused):
        return None
    first, last = keys[0], keys[-1]
    if first == int(first) and [float(k) for k in keys] == [first + i for i in range(len(keys))]:
        return _by_difference(values, int(first), int(last), key)
    return _by_search(values, keys, key)


def _by_difference(values: list[Any], first: int, last: int, key: Any) -> Lookup:
    """Of keys that are successive integers."""
    there: Any = FUNCTIONS[np.logical_and](key >= first, key <= last)
    if key.dtype.kind == "f":
        there = FUNCTIONS[np.logical_and](there, FUNCTIONS[np.floor](key) == key)
    inside: Any = FUNCTIONS[int](FUNCTIONS[np.where](there, key, first))
    return Lookup(values, inside - first if first else inside, there)


def _by_search(values: list[Any], keys: list[Any], key: Array) -> Lookup:
    array: Any = FUNCTIONS[np.array](keys)
    found = FUNCTIONS[np.minimum](FUNCTIONS[np.searchsorted](array, key), len(keys) - 1)
    return Lookup(values, found, array[found] == key)


def value_under(machine: Machine, found: Lookup, key: Array, node: Any) -> Any:
    """``table[key]`` of a run-time key; KeyError at run time where it is not there."""
    absent = apply(not_, found.there)
    raise_at_run_time(machine, absent, "raise KeyError({0})", [key], node)
    return found.value(machine, node)


def store_in_dict(machine: Machine, table: dict[Any, Any], key: Any, value: Any, node: Any) -> None:
    """``table[key] = value``; a run-time number must be a key that the dict has already.

    A dict cannot grow by a key that only the run knows: an error at run time says so.
    """
    cached, found = id(table) in machine.outside.containers, None
    if not cached:
        with suppress(BranchMismatch):  # it may lack some of its keys, or values are of two kinds
            found = machine.looked_up(table, key, node)
    if found is None:
        table[machine.hashable(key, node, CACHED if cached else NEW_KEY)] = value
        return
    text = "raise NotImplementedError('a run-time key that the dict does not have yet')"
    raise_at_run_time(machine, apply(not_, found.there), text, [], node)
    for own in [k for k in table if is_number(k)]:
        arms = partial(lambda given: given, value), partial(lambda given: given, table[own])
        table[own] = machine.choose(key == own, *arms, node)


def missing_key(machine: Machine, table: Any, key: Any, node: Any) -> list[Raising]:
    """The error of reading a dict under a run-time key that it lacks."""
    found = machine.looked_up(table, key, node) if isinstance(table, dict) else None
    return [] if found is None else [(apply(not_, found.there), KeyError, "")]


def value_or(machine: Machine, found: Lookup, default: Any, node: Any) -> Any:
    """``table.get(key, default)`` of a run-time key."""
    value: Callable[[], Any] = partial(found.value, machine, node)
    return machine.choose(found.there, value, lambda: default, node)
