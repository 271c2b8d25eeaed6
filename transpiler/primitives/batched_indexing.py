"""Batch rules of reading and storing by index.

An index that all examples share gets ``:`` in front. Where it differs between examples it becomes
an advanced one, with the examples' own numbers in front: ``x[i]`` is ``x[np.arange(B), i]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array, type_of
from calque.transpiler.ir.core import Slot
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.batched import (
    batches,
    counting,
    lift,
    rank_of,
    refuse,
    size_among,
    spread,
)
from calque.transpiler.primitives.indexing import add_at, getitem, update, update_add
from calque.transpiler.primitives.templates import Template, _consumed

Args = Sequence[Any]
Flags = tuple[bool, ...]
Params = dict[str, Any]


@dataclass
class BatchedIndex:
    """An index of one example, and how the batched one lays out what it reads."""

    items: list[Any]  # the template without an ellipsis
    start: int  # the result axis at which gathered axes stand
    gathered: int  # how many there are
    adjacent: bool
    rank: int  # of what one example reads


def _examine(rank: int, template: Template, dynamic: Sequence[Any], flags: Flags) -> BatchedIndex:
    """``rank`` is the indexed array's, ``flags`` tells which dynamic arguments are batched."""
    ranks = [rank_of(d, f) for d, f in zip(dynamic, flags, strict=True)]
    singles = [_example(d, f) for d, f in zip(dynamic, flags, strict=True)]
    used = sum(_consumed(t, singles) for t in template)
    items = list(template)
    if not any(t is Ellipsis for t in items):
        items.append(Ellipsis)
    at = next(i for i, t in enumerate(items) if t is Ellipsis)
    items[at : at + 1] = [slice(None)] * (rank - used)
    advanced = any(isinstance(t, Slot) and ranks[t.position] for t in items)
    start, position, gathered, places = 0, 0, 0, []
    for number, item in enumerate(items):
        if item is None or isinstance(item, slice):
            position += 1
            continue
        if advanced:
            places.append(number)
            start = position if len(places) == 1 else start
            if isinstance(item, Slot):
                mask = type_of(dynamic[item.position]).dtype.kind == "b"
                gathered = max(gathered, 1 if mask else ranks[item.position])
    adjacent = not places or places == list(range(places[0], places[0] + len(places)))
    start = start if adjacent else 0
    return BatchedIndex(items, start, gathered, adjacent, position + gathered)


def _example(value: Any, has_batch: bool) -> Any:
    """Something with the type of one example's index."""
    if not has_batch:
        return value
    t = type_of(value)
    return _Typed(t.with_dims(t.dims[1:]))


class _Typed(Array):
    """A type alone, where only ``type_of`` is asked."""

    __slots__ = ("_type",)

    def __init__(self, type: Any):
        self._type = type

    @property
    def type(self) -> Any:
        """The type."""
        return self._type


def _shared(dynamic: Flags) -> bool:
    return not any(dynamic)


def _own_index(
    place: BatchedIndex, dynamic: Sequence[Any], flags: Flags, lanes: Any
) -> tuple[Template, list[Any]]:
    """The index of all examples; ``lanes`` is None where the array itself is not batched."""
    first = [] if lanes is None else [lanes]
    values: list[Any] = list(first)
    template: list[Any] = [Slot(k) for k in range(len(first))]
    for item in place.items:
        if isinstance(item, slice) and any(
            isinstance(b, Slot) and flags[b.position] for b in (item.start, item.stop)
        ):
            raise refuse("a slice", "its bounds differ from one example to the next.")
        if isinstance(item, slice):
            bounds = []
            for bound in (item.start, item.stop):
                if isinstance(bound, Slot):
                    values.append(dynamic[bound.position])
                    bound = Slot(len(values) - 1)
                bounds.append(bound)
            item = slice(bounds[0], bounds[1], item.step)
        elif isinstance(item, Slot):
            value, has = dynamic[item.position], flags[item.position]
            if type_of(value).dtype.kind == "b":
                raise refuse("a boolean index", "it differs from one example to the next.")
            values.append(lift(value, place.gathered, has))
            item = Slot(len(values) - 1)
        template.append(item)
    while len(template) > 1 and template[-1] == slice(None):
        template.pop()
    return tuple(template), values


def _lanes(size: Any, place: BatchedIndex) -> Any:
    return lift(counting(size), place.gathered)


def _all_first(index: Template) -> Template:
    return (slice(None), *index)


@batches(getitem)
def _getitem(args: Args, batched: Flags, params: Params) -> Any:
    x, *dynamic = args
    flags, index = batched[1:], params["index"]
    place = _examine(rank_of(x, batched[0]), index, dynamic, flags)
    if _shared(flags):
        result = apply(getitem, x, *dynamic, index=_all_first(index))
        return result if place.adjacent else np.moveaxis(result, place.gathered, 0)
    lanes = _lanes(x.shape[0], place) if batched[0] else None
    template, values = _own_index(place, dynamic, flags, lanes)
    result = apply(getitem, x, *values, index=template)
    if lanes is None:  # the batch axis stands where the gathered axes do
        return np.moveaxis(result, _front(place), 0)
    return _gathered_back(result, place)


def _front(place: BatchedIndex) -> int:
    """The position of gathered axes in the result of one example; ints are gathered too."""
    advanced = [k for k, t in enumerate(place.items) if isinstance(t, (int, Slot))]
    if advanced != list(range(advanced[0], advanced[0] + len(advanced))):
        return 0
    return sum(1 for t in place.items[: advanced[0]])


def _in_front(place: BatchedIndex) -> bool:
    """True if the advanced items come first, so that the examples' numbers adjoin them."""
    advanced = [k for k, t in enumerate(place.items) if isinstance(t, (int, Slot))]
    return advanced == list(range(len(advanced)))


def _gathered_back(result: Any, place: BatchedIndex) -> Any:
    """Permute the axes from (batch, gathered, rest) to (batch, before, gathered, after)."""
    if _in_front(place) or not place.gathered or not place.start:
        return result
    order = list(range(result.ndim))
    group = order[1 : 1 + place.gathered]
    rest = [0, *order[1 + place.gathered :]]
    at = 1 + place.start
    return np.transpose(result, rest[:at] + group + rest[at:])


def _gathered_front(value: Any, place: BatchedIndex) -> Any:
    """The inverse of ``_gathered_back``, of a value to be stored."""
    if _in_front(place) or not place.gathered or not place.start:
        return value
    order = list(range(value.ndim))
    at = 1 + place.start
    group = order[at : at + place.gathered]
    rest = order[:at] + order[at + place.gathered :]
    return np.transpose(value, [0, *group, *rest[1:]])


def _store(primitive: Primitive) -> Any:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        x, value, *dynamic = args
        flags, index = batched[2:], params["index"]
        size = size_among(args, batched)
        x = x if batched[0] else spread(x, size)
        mask = _whole_mask(x, value, dynamic, index, batched)
        if mask is not None and primitive is not add_at:
            new = value if primitive is update else x + lift(value, x.ndim - 1, batched[1])
            return np.where(lift(mask, x.ndim - 1), lift(new, x.ndim - 1, batched[1]), x)
        place = _examine(x.ndim - 1, index, dynamic, flags)
        value = _shortened(value, place.rank, batched[1])
        if _shared(flags):
            return _store_shared(primitive, (x, value, dynamic), index, place, batched[1])
        template, values = _own_index(place, dynamic, flags, _lanes(size, place))
        moved = not _in_front(place) and place.gathered and place.start
        if moved and isinstance(value, Array) and value.ndim:
            value = value if batched[1] else spread(value, size)
            value = _gathered_front(lift(value, place.rank), place)
        else:
            value = lift(value, place.rank, batched[1])
        return apply(primitive, x, value, *values, index=template)

    return rule


def _store_shared(
    primitive: Primitive,
    parts: tuple[Any, Any, list[Any]],
    index: Template,
    place: BatchedIndex,
    has: bool,
) -> Any:
    """A store at an index that all examples share."""
    x, value, dynamic = parts
    if place.adjacent:
        value = lift(value, place.rank, has)
    elif isinstance(value, Array) and value.ndim:
        value = lift(value if has else spread(value, x.shape[0]), place.rank)
        value = np.moveaxis(value, 0, place.gathered)
    return apply(primitive, x, value, *dynamic, index=_all_first(index))


def _shortened(value: Any, rank: int, has: bool) -> Any:
    """Leading axes of size 1 beyond those of the place are dropped, as NumPy does in a store."""
    while rank_of(value, has) > rank:
        value = value[:, 0] if has else value[0]
    return value


def _whole_mask(x: Any, value: Any, dynamic: Sequence[Any], index: Template, batched: Flags) -> Any:
    """The mask of ``x[mask] = value``, batched, where the value does not depend on the place."""
    if len(dynamic) != 1 or not batched[2] or not isinstance(index[0], Slot) or len(index) > 1:
        return None
    mask = dynamic[0]
    if type_of(mask).dtype.kind != "b":
        return None
    rest = x.ndim - 1 - (mask.ndim - 1)
    if rank_of(value, batched[1]) > rest:
        raise refuse("a store at a boolean index", "it differs from one example to the next.")
    kept = x.ndim - mask.ndim
    return mask[(..., *(None,) * kept)] if kept else mask


def of_rows(primitive: Primitive, args: Args, batched: Flags, params: Params, rows: Any) -> Any:
    """Read from, or store into, these rows of an array of all examples, in place.

    The index is made of numbers and of slices that all examples share.
    """
    x, *rest = args
    taken = 0 if primitive is getitem else 1
    dynamic, flags = rest[taken:], batched[1 + taken :]
    place = _examine(x.ndim - 1, params["index"], dynamic, flags)
    template, values = _own_index(place, dynamic, flags, rows)
    if primitive is getitem:
        return apply(getitem, x, *values, index=template)
    value = lift(_shortened(rest[0], place.rank, batched[1]), place.rank, batched[1])
    return apply(primitive, x, value, *values, index=template)


for _primitive in (update, update_add, add_at):
    _primitive.batch = _store(_primitive)
