"""The rules of elements that move: reads, stores, and arrays put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.core import Atom, Slot, Var
from calque.transpiler.primitives import (
    complexes,
    creation,
    diagonals,
    elementwise,
    growing,
    histograms,
    indexing,
    joining,
    ranges,
    rearranging,
    shapes,
    sorting,
)
from calque.transpiler.primitives.templates import concrete_index
from calque.transpiler.sparsity.reached_inputs import (
    FEW,
    ReachedInputs,
    gathered_rows,
    none,
    together,
    union,
)
from calque.transpiler.sparsity.rules import Question, Shape, moving, of_all, reaches

reaches(diagonals.diag, diagonals.diagonal, diagonals.tril, diagonals.triu, rearranging.tile)(
    moving
)


@reaches(
    elementwise.astype,
    elementwise.to_float,
    elementwise.to_complex,
    complexes.real,
    complexes.imag,
    complexes.conj,
    indexing.copy,
    complexes.of_parts,
)
def _same(q: Question) -> ReachedInputs:
    return union([*q.unknown(), none((), q.inputs)], q.shapes[0])


@reaches(shapes.reshape, shapes.reshape_in_loops, shapes.flatten, shapes.flat)
def _reshape(q: Question) -> ReachedInputs:
    return q.reach(0).reshaped(q.shapes[0])


@reaches(shapes.broadcast_to, creation.full, growing.widened)
def _broadcast(q: Question) -> ReachedInputs:
    return q.reach(0).broadcast(q.shapes[0])


@reaches(rearranging.repeat, sorting.take_along_axis)
def _repeat(q: Question) -> ReachedInputs:
    if isinstance(q.operands[1], ReachedInputs):
        return _along_axis_unplaced(q)
    return moving(q)


def _along_axis_unplaced(q: Question) -> ReachedInputs:
    q.note("places depend on values here: each element is taken to be any of its axis")
    axis = q.params["axis"]
    found = q.reach(0).over([axis], keepdims=True)
    return found.broadcast(
        tuple(found.shape[: axis % found.ndim])
        + (q.shapes[0][axis],)
        + tuple(found.shape[axis % found.ndim + 1 :])
    )


@reaches(creation.stack_rows)
def _array(q: Question) -> ReachedInputs:
    every = [q.reach(k) for k in range(len(q.operands))]
    return together(every, lambda parts: np.array(parts).reshape(q.shapes[0]))


@reaches(
    joining.concatenate,
    joining.stack,
    joining.vstack,
    joining.hstack,
    joining.column_stack,
    joining.dstack,
)
def _join(q: Question) -> ReachedInputs:
    every = [q.reach(k) for k in range(len(q.operands))]
    function, params = q.apply.primitive.function, q.params
    return together(every, lambda parts: function(*parts, **params))


@reaches(ranges.meshgrid)
def _meshgrid(q: Question) -> tuple[ReachedInputs, ...]:
    function, params = q.apply.primitive.function, q.params
    every = [q.reach(k) for k in range(len(q.operands))]

    def of(k: int) -> ReachedInputs:
        rest = [np.zeros(v.shape, np.int32) for v in every]
        return every[k].moved(lambda plane: function(*rest[:k], plane, *rest[k + 1 :], **params)[k])

    return tuple(map(of, range(len(every))))


@reaches(rearranging.pad)
def _pad(q: Question) -> ReachedInputs:
    mode = q.params["mode"]
    if mode not in ("constant", "edge", "wrap", "reflect", "symmetric"):
        return of_all(q)[0]
    function, params = q.apply.primitive.function, q.params
    found = q.reach(0).moved(lambda plane: function(plane, 0, **params))
    value = q.operands[1]
    if not isinstance(value, ReachedInputs) or value.is_empty:
        return found
    inside = function(np.ones(q.reach(0).shape, bool), False, **params)
    return union([found, value.broadcast(found.shape).masked(~inside)], found.shape)


# reads and stores


@reaches(indexing.getitem)
def _getitem(q: Question) -> ReachedInputs:
    base, *dynamic = q.reach(0), *q.operands[1:]
    if not base.open and not any(isinstance(d, ReachedInputs) for d in dynamic):
        place = concrete_index(q.params["index"], dynamic)
        return base.moved(lambda plane: plane[place])
    found = _unknown_place(q, dynamic)
    if found is None or not _all_grow(q, found[0]):
        q.note("the place that is read depends on values: it is taken to be any")
    if found is None:
        return union([ReachedInputs((), q.inputs, (), None, base.all_of_them())], q.shapes[0])
    over, place = found
    return base.over(over, keepdims=True).moved(lambda plane: plane[place])


def _unknown_place(q: Question, dynamic: Sequence[Any]) -> tuple[list[int], Any] | None:
    """The axes along which the place of an index is not known, and the place, at 0 along them.

    None if it may be any place: unless each item of the index is for the axis at its own place.
    """
    if any(map(_is_of_axes, q.apply.args[len(q.operands) - len(dynamic) :])):
        return None
    base, index = q.reach(0), q.params["index"]
    known = [np.zeros(d.shape, int) if isinstance(d, ReachedInputs) else d for d in dynamic]
    over, place = [], list(concrete_index(index, known))
    for axis, item in enumerate(index):
        if item is None or item is Ellipsis or axis >= base.ndim:
            return None
        parts = (item.start, item.stop) if isinstance(item, slice) else (item,)
        slots = [p.position for p in parts if isinstance(p, Slot)]
        if axis not in base.open and not any(isinstance(dynamic[k], ReachedInputs) for k in slots):
            continue
        over.append(axis)
        if isinstance(item, slice):
            place[axis] = slice(None)
        elif slots and _is_mask(q.apply.args[len(q.operands) - len(dynamic) + slots[0]]):
            place[axis] = np.zeros(1, int)
        else:
            place[axis] = np.zeros(np.shape(place[axis]), int)
    return over, tuple(place)


def _all_grow(q: Question, axes: Sequence[int]) -> bool:
    """True if axes have no known size, as where a loop saves a value of each of its iterations."""
    base = q.apply.args[0]
    return isinstance(base, Var) and not any(isinstance(base.type.dims[k], int) for k in axes)


def _is_mask(atom: Atom) -> bool:
    return isinstance(atom, Var) and atom.type.dtype.kind == "b"


def _is_of_axes(atom: Atom) -> bool:
    """True if an item of an index is a mask for several axes."""
    return _is_mask(atom) and isinstance(atom, Var) and atom.type.ndim != 1


@reaches(indexing.update)
def _update(q: Question) -> ReachedInputs:
    dynamic = q.operands[2:]
    if q.reach(0).open or any(isinstance(d, ReachedInputs) for d in dynamic):
        return _stored_somewhere(q)
    return _stored(q.reach(0), q.reach(1), concrete_index(q.params["index"], dynamic))


def _stored_somewhere(q: Question) -> ReachedInputs:
    """The sets of an array into which a value may have been stored, along axes that are known."""
    base, value = q.reach(0), q.reach(1)
    found = _unknown_place(q, q.operands[2:])
    if found is None or not _all_grow(q, found[0]):
        q.note("the place of a store depends on values: it is taken to be any")
    if value.is_empty:
        return base
    every = ReachedInputs((), q.inputs, (), None, value.all_of_them())
    if found is None:
        return union([base, every], base.shape)
    over, place = found
    shape = tuple(1 if k in over else size for k, size in enumerate(base.shape))
    places = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)[place]
    try:
        spread = value.broadcast(places.shape)
    except ValueError:  # several elements for what stands as one here
        spread = every.broadcast(places.shape)
    return union([base, scattered(spread, places, shape)], base.shape)


@reaches(indexing.update_add)
def _update_add(q: Question) -> ReachedInputs:
    dynamic = q.operands[2:]
    if q.reach(0).open or any(isinstance(d, ReachedInputs) for d in dynamic):
        return _stored_somewhere(q)
    place = concrete_index(q.params["index"], dynamic)
    there = q.reach(0).moved(lambda plane: plane[place])
    return _stored(q.reach(0), union([there, q.reach(1)], there.shape), place)


def _stored(base: ReachedInputs, value: ReachedInputs, place: Any) -> ReachedInputs:
    """The sets of an array into which a value has been stored."""

    def stored(parts: list[Any]) -> Any:
        made = np.array(parts[0])
        made[place] = parts[1]
        return made

    return together([base, value], stored)


@reaches(indexing.add_at)
def _add_at(q: Question) -> ReachedInputs:
    dynamic = q.operands[2:]
    if q.reach(0).open or any(isinstance(d, ReachedInputs) for d in dynamic):
        return _stored_somewhere(q)
    place = concrete_index(q.params["index"], dynamic)
    places = np.arange(np.prod(q.shapes[0], dtype=int)).reshape(q.shapes[0])[place]
    return union(
        [q.reach(0), scattered(q.reach(1).broadcast(places.shape), places, q.shapes[0])],
        q.shapes[0],
    )


def scattered(values: ReachedInputs, places: Any, shape: Shape) -> ReachedInputs:
    """Sets of this shape, into each of which go the values whose flat place is the element's."""
    flat = np.asarray(places).reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = (
        np.concatenate([[True], ordered[1:] != ordered[:-1]]) if flat.size else np.zeros(0, bool)
    )
    starts = np.nonzero(first)[0]
    turn = np.arange(flat.size) - np.repeat(starts, np.diff([*starts, flat.size]))
    if turn.max(initial=-1) >= FEW and (rows := gathered_rows(values, flat, shape)) is not None:
        return rows
    sets = [none(shape, values.inputs)]
    for k in range(int(turn.max(initial=-1)) + 1):
        chosen = order[turn == k]

        def stored(parts: list[Any], chosen: Any = chosen) -> Any:
            made = np.zeros(int(np.prod(shape)), np.int64)
            made[flat[chosen]] = np.asarray(parts[0]).reshape(-1)[chosen]
            return made.reshape(shape)

        sets.append(together([values], stored))
        if len(sets) > 8:
            sets = [union(sets, shape)]
    return union(sets, shape)


@reaches(growing.room)
def _room(q: Question) -> ReachedInputs:
    function, params, rest = q.apply.primitive.function, q.params, q.operands[1:]
    if not any(isinstance(r, ReachedInputs) for r in rest):
        return q.reach(0).moved(lambda plane: function(plane, *rest, **params))
    if q.shapes[0] != q.reach(0).shape:
        return of_all(q)[0]
    return q.reach(0)  # nothing is in the places that it may have got


@reaches(histograms.bincount)
def _bincount(q: Question) -> ReachedInputs:
    places = q.operands[0]
    if isinstance(places, ReachedInputs):
        return of_all(q)[0]
    return scattered(q.reach(1), places, q.shapes[0])
