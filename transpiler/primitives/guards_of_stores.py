"""The elements that a store leaves at zero, or fills: masks, diagonals, and indices under tests.

A read by a mask, by ``np.nonzero`` or by the indices of a triangle selects; so does a store by a
mask or by an array of indices, which drops what was there. Other indices select nothing by
themselves: a program that reads ``x[1:]`` shows no condition. Within loops, where tests say which
elements are used, flags are noted beside the stores into an adjoint (see autodiff.usage_flags).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.ir.core import Apply, Slot, Var
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.guards import (
    any_along,
    derived,
    guard_of,
    note_selected,
    ranked,
    vars_of,
    whole,
)
from calque.transpiler.primitives.indexing import add_at, getitem, update, update_add
from calque.transpiler.primitives.record import rule_of
from calque.transpiler.primitives.selecting import flatnonzero
from calque.transpiler.primitives.selections import (
    Selection,
    both,
    either,
    is_zero,
    key_of,
    written,
)


def note_selections(s: Apply, found: Any) -> None:
    """Note the adjoints that reversing ``s`` made zero where it selects something else."""
    noted = current().selections.noted
    if s.primitive.arithmetic == "where":
        for cotangent in found[1:]:
            note_selected(cotangent)
    elif s.primitive.kind == "indexing":
        places, index = s.args[1:], s.params["index"]
        mask = _mask(s.args[0], places, index)
        noted.update(_chosen_places(places, index) if mask is None else mask[:1])
    elif s.primitive is update and _array_places(s.args[2:], s.params["index"]):
        note_selected(found[0])


@rule_of("guard")(update, update_add, add_at)
def of_store(s: Apply, depth: int) -> Selection | None:
    """The selection after a sum into an adjoint at an index: these elements, and those before."""
    base, value = s.args[:2]
    before, stored = guard_of(base, depth), guard_of(value, depth)
    if not s.primitive.adds and not is_zero(value):
        return None
    if before is not None and before.places:
        return _flags_after(s, before, stored)
    if not s.primitive.adds:
        return _without(s, before)
    return either(_there(s, stored), before)


def _flags_after(s: Apply, before: Selection, stored: Selection | None) -> Selection:
    """Flags of an adjoint after a store into it: those at the index are the stored value's."""
    base, _, *places = s.args
    index = s.params["index"]

    def write() -> Any:
        flags, at = whole(written(before), base), tuple(map(wrap, places))
        if not s.primitive.adds:
            return apply(update, flags, False, *at, index=index)
        if stored is None:
            return apply(update, flags, True, *at, index=index)
        if s.primitive is add_at:  # a place may come twice
            counts = apply(add_at, flags.astype(int), _number(written(stored)), *at, index=index)
            return counts > 0
        there = apply(getitem, flags, *at, index=index)
        return apply(update, flags, there | written(stored), *at, index=index)

    needs = before.needs | vars_of((base, *places)) | (stored.needs if stored else frozenset())
    return derived(before, write, ("flags", s.out), needs=needs, places=True)


def _number(condition: Any) -> Any:
    return condition.astype(int) if isinstance(condition, Array) else int(condition)


def _without(s: Apply, before: Selection | None) -> Selection | None:
    """The selection ``before``, less the elements at a mask or at indices that a store cleared."""
    if s.out not in current().selections.noted:
        return before
    base, _, *places = s.args
    index = s.params["index"]
    mask = _mask(base, tuple(places), index)
    if mask is not None:
        at_mask = _at_mask(*mask)
        opposite = lambda: FUNCTIONS[np.logical_not](_spread(*mask))
        return both(derived(at_mask, opposite, ("not", at_mask.key)), before)

    def write() -> Any:
        kept = FUNCTIONS[np.ones](Array(s.out).shape, dtype=bool)
        return apply(update, kept, False, *map(wrap, places), index=index)

    key = ("without", base.type.dims, tuple(places), repr(index))
    return both(Selection(write, key, False, vars_of(s.args)), before)


def _there(s: Apply, guard: Selection | None) -> Selection | None:
    """The places that a store adds to, where what it adds can differ from zero."""
    if guard is not None and not guard.number:
        return _each_there(s, guard)
    base, _, *places = s.args
    index, noted = s.params["index"], current().selections.noted
    mask = _mask(base, tuple(places), index)
    if mask is not None and mask[0] in noted:
        return both(_at_mask(*mask), guard)
    chosen = _chosen_places(tuple(places), index)
    return both(_at_places(s), guard) if chosen and chosen <= noted else guard


def _each_there(s: Apply, guard: Selection) -> Selection:
    """The places of those elements of what a store adds that can differ from zero."""
    base, value, *places = s.args
    index = s.params["index"]
    added = tuple(a for a, item in enumerate(index) if item is None)
    if all(item in (None, slice(None)) for item in index):  # the whole array, with axes added

        def without_axes() -> Any:
            return any_along(ranked(written(guard), type_of(value).ndim), added, False)

        return derived(guard, without_axes, ("without", guard.key, added))

    def write() -> Any:
        used, at = _whole_of(written(guard), value), tuple(map(wrap, places))
        shape = Array(s.out).shape
        if s.primitive is add_at:  # a place may come twice
            counts = FUNCTIONS[np.zeros](shape, dtype=int)
            return apply(add_at, counts, _number(used), *at, index=index) > 0
        return apply(update, FUNCTIONS[np.zeros](shape, dtype=bool), used, *at, index=index)

    key = ("at", guard.key, base, tuple(places), repr(index))
    return derived(guard, write, key, needs=guard.needs | vars_of(s.args))


def _at_places(s: Apply) -> Selection:
    """The places of an index."""
    base, _, *places = s.args
    index = s.params["index"]

    def write() -> Any:
        there = FUNCTIONS[np.zeros](Array(s.out).shape, dtype=bool)
        return apply(update, there, True, *map(wrap, places), index=index)

    key = ("places", base.type.dims, tuple(places), repr(index))
    return Selection(write, key, False, vars_of((base, *places)))


def _whole_of(condition: Any, value: Any) -> Any:
    return whole(condition, value) if isinstance(value, Var) else condition


def _at_mask(mask: Var, trailing: int) -> Selection:
    key = ("mask", key_of(mask), trailing) if trailing else key_of(mask)
    return Selection(lambda: _spread(mask, trailing), key, False, frozenset([mask]))


def _spread(mask: Var, trailing: int) -> Array:
    """A mask with the axes that the array has behind it: it broadcasts against the array."""
    rest = (None,) * trailing
    return Array(mask)[(..., *rest)] if rest else Array(mask)


def _mask(array: Any, places: tuple[Any, ...], index: tuple[Any, ...]) -> tuple[Var, int] | None:
    """The mask that an index of an array consists of, and how many of its axes follow it."""
    slots = [item for item in index if isinstance(item, Slot)]
    if len(slots) != 1 or any(item not in (slots[0], slice(None)) for item in index):
        return None
    place = places[slots[0].position]
    made = current().definitions.get(place)
    if isinstance(made, Apply) and made.primitive is flatnonzero:
        place = made.args[0]
        if type_of(place).ndim != 1:
            return None
    if not isinstance(place, Var) or not place.type.ndim or place.type.dtype.kind != "b":
        return None
    before = index.index(slots[0])
    return place, type_of(array).ndim - before - place.type.ndim


def _chosen_places(places: tuple[Any, ...], index: tuple[Any, ...]) -> frozenset[Var]:
    """The arrays of an index, if all of them are places that a test or a triangle chose."""
    arrays = _array_places(places, index)
    chosen = [current().definitions.get(a) for a in arrays]
    all_chosen = all(isinstance(s, Apply) and s.primitive.chooses for s in chosen)
    return frozenset(arrays) if all_chosen else frozenset()


def _array_places(places: tuple[Any, ...], index: tuple[Any, ...]) -> list[Var]:
    """The arrays among the places of an index."""
    found = [places[item.position] for item in index if isinstance(item, Slot)]
    return [a for a in found if isinstance(a, Var) and a.type.ndim]
