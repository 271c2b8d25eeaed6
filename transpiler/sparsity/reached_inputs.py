"""The inputs on which each element of a value may depend: a set of numbers for each element.

Inputs are numbered from 1. Most elements of most values depend on a few inputs, and neighbours on
neighbours: so a set stands in *planes*, integer arrays of the value's own shape, one number of each
element's set in each, and 0 where there is none. What NumPy does with the value's elements it does
with a plane's: a slice of the value has the same slice of its planes, which costs nothing. Long
sets stand in *rows* of bits, one for each element; and what all elements depend on is *common*, one
row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

Plane = np.ndarray[Any, Any]

FEW = 32  # planes of one value; longer sets are rows of bits where these take less memory
_MOST_BYTES = 2**28  # of the rows of one value; beyond it, all elements have the set of all
_HASHED = 1 << 12  # numbers of planes that are compared by a hash
_WORD = 64
_CHUNK = 2**26  # bits that are unpacked at a time


@dataclass(frozen=True, eq=False)
class ReachedInputs:
    """For each element of a value of this shape, the inputs on which it may depend.

    ``inputs`` is how many there are in all. An element's set is what its planes, its row and the
    common row name together. ``open`` and ``chosen`` are its axes of unknown size, and ``mask`` is
    the number of the mask that it is, or of whose places it consists: see ``unknown_sizes``.
    """

    shape: tuple[int, ...]
    inputs: int
    planes: tuple[Plane, ...] = ()
    rows: Plane | None = None
    common: Plane | None = None
    open: tuple[int, ...] = ()
    chosen: tuple[tuple[int, int], ...] = ()  # pairs of an axis and a mask's number
    mask: int | None = None

    def __post_init__(self) -> None:
        assert all(type(plane) is np.ndarray for plane in self.planes), "numbers are no planes"

    @property
    def ndim(self) -> int:
        """The number of the value's axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of the value's elements."""
        return prod(self.shape)

    @property
    def is_empty(self) -> bool:
        """True if no element depends on an input."""
        return not self.planes and self.rows is None and self.common is None

    def moved(self, function: Callable[[Any], Any]) -> ReachedInputs:
        """The sets of ``function(value)``, where ``function`` only moves elements, or drops them.

        What it fills with zeros depends on nothing.
        """
        planes = tuple(np.asarray(function(plane)) for plane in self.planes)
        shape = planes[0].shape if planes else None
        rows = self.rows
        if rows is not None or shape is None:
            places = np.asarray(function(np.arange(1, self.size + 1).reshape(self.shape)))
            shape = places.shape
            if rows is not None:
                flat = np.concatenate(
                    [np.zeros((1, rows.shape[-1]), rows.dtype), self._flat_rows()]
                )
                rows = flat[places]
        return ReachedInputs(shape, self.inputs, planes, rows, self.common)

    def broadcast(self, shape: tuple[int, ...]) -> ReachedInputs:
        """The sets of the value broadcast to a shape."""
        if shape == self.shape:
            return self
        return self.moved(lambda plane: np.broadcast_to(plane, shape))

    def reshaped(self, shape: tuple[int, ...]) -> ReachedInputs:
        """The sets of the elements, in C order, in another shape."""
        return self.moved(lambda plane: plane.reshape(shape))

    def over(self, axes: Sequence[int], keepdims: bool = False) -> ReachedInputs:
        """For each element of a reduction over these axes, the union of its elements' sets."""
        if self.open or self.chosen or self.mask is not None:
            return replace(self, open=(), chosen=(), mask=None).over(axes, keepdims)
        axes = tuple(a % self.ndim for a in axes)
        kept = tuple(n for k, n in enumerate(self.shape) if k not in axes)
        shape = tuple(1 if k in axes else n for k, n in enumerate(self.shape))
        shape = shape if keepdims else kept
        count = prod(self.shape[a] for a in axes)
        if not count:
            return replace(self, shape=shape, planes=(), rows=None, common=None)
        front = tuple(range(len(axes)))
        rows = self.rows
        if rows is not None:
            rows = np.bitwise_or.reduce(np.moveaxis(rows, axes, front), axis=front)
            rows = rows.reshape(*shape, _words(self.inputs))
        found = ReachedInputs(shape, self.inputs, (), rows, self.common)
        if count * len(self.planes) <= FEW:
            groups = [np.moveaxis(p, axes, front).reshape(count, *shape) for p in self.planes]
            planes = tuple(group[k, ...] for group in groups for k in range(count))
            return replace(found, planes=planes).compact()
        if _fits(prod(kept), self.inputs):
            gathered = np.zeros((prod(kept), _words(self.inputs)), np.uint64)
            for plane in self.planes:
                grouped = np.moveaxis(plane, axes, front).reshape(count, -1)
                _set_bits(gathered, np.broadcast_to(np.arange(prod(kept)), grouped.shape), grouped)
            return union(
                [found, replace(found, rows=gathered.reshape(*shape, _words(self.inputs)))], shape
            )
        return union([found, replace(found, rows=None, common=self.all_of_them())], shape)

    def everywhere(self) -> ReachedInputs:
        """All elements have the union of all sets."""
        return ReachedInputs(self.shape, self.inputs, (), None, self.all_of_them())

    def all_of_them(self) -> Plane:
        """The union of all sets, as one row of bits."""
        found = np.zeros((1, _words(self.inputs)), np.uint64)
        for plane in self.planes:
            used = np.unique(plane)
            _set_bits(found, np.zeros(used.shape, int), used)
        if self.rows is not None and self.size:
            found |= np.bitwise_or.reduce(self._flat_rows(), axis=0)
        if self.common is not None:
            found |= self.common
        return found[0]

    def masked(self, keep: Any) -> ReachedInputs:
        """The sets where ``keep`` holds, and none elsewhere; a common row stays."""
        return self.moved(lambda plane: np.where(keep, plane, 0))

    def compact(self) -> ReachedInputs:
        """The same sets in fewer planes, or in rows where they are long."""
        planes = _distinct(self.planes)
        if len(planes) > FEW // 2:
            planes = _packed(planes)
        found = replace(self, planes=tuple(planes))
        return found if len(planes) <= FEW else found.as_rows()

    def as_rows(self) -> ReachedInputs:
        """The same sets without planes: in rows, or common ones where there is no room for rows."""
        if not _fits(self.size, self.inputs):
            return self.everywhere()
        rows = np.zeros((self.size, _words(self.inputs)), np.uint64)
        if self.rows is not None:
            rows |= self._flat_rows()
        for plane in self.planes:
            _set_bits(rows, np.arange(self.size), plane.reshape(-1))
        return replace(self, planes=(), rows=rows.reshape(*self.shape, _words(self.inputs)))

    def sparse(self) -> tuple[Plane, Plane]:
        """``(indptr, indices)`` of the sets as sparse rows: element k's inputs, counted from 0."""
        if self.rows is None and self.common is None:
            numbers = np.zeros((self.size, max(1, len(self.planes))), np.int32)
            for k, plane in enumerate(self.planes):
                numbers[:, k] = plane.reshape(-1)
            numbers.sort(axis=1)
            keep = numbers > 0
            keep[:, 1:] &= numbers[:, 1:] != numbers[:, :-1]
            counts, indices = keep.sum(axis=1), numbers[keep] - 1
        else:
            counts, indices = self._sparse_rows()
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), indices.astype(np.int32)

    def _sparse_rows(self) -> tuple[Plane, Plane]:
        """The lengths of the elements' sets, and their inputs one after the other, by bits."""
        bits = self.as_rows()
        counts, indices = [], []
        some = max(1, _CHUNK // (_words(self.inputs) * _WORD))
        for start in range(0, self.size, some):
            rows = np.zeros((min(some, self.size - start), _words(self.inputs)), np.uint64)
            if bits.rows is not None:
                rows |= bits._flat_rows()[start : start + some]
            if bits.common is not None:
                rows |= bits.common
            flags = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")
            counts.append(flags.sum(axis=1, dtype=np.int64))
            indices.append(np.flatnonzero(flags) % flags.shape[1])
        return np.concatenate([*counts, []]), np.concatenate([*indices, []])

    def _flat_rows(self) -> Plane:
        assert self.rows is not None
        return self.rows.reshape(self.size, _words(self.inputs))


def none(shape: tuple[int, ...], inputs: int) -> ReachedInputs:
    """The sets of a value that depends on no input."""
    return ReachedInputs(shape, inputs)


def numbered(shape: tuple[int, ...], first: int, inputs: int) -> ReachedInputs:
    """The sets of an argument: each element is an input, numbered from ``first`` on."""
    plane = np.arange(first, first + prod(shape), dtype=np.int32).reshape(shape)
    return ReachedInputs(shape, inputs, (plane,))


def union(values: Iterable[ReachedInputs], shape: tuple[int, ...]) -> ReachedInputs:
    """Sets of this shape, with what each of the values, broadcast to it, has in its sets."""
    found = [v.broadcast(shape) for v in values]
    if len(found) == 1:
        return found[0]
    rows = [v.rows for v in found if v.rows is not None]
    common = [v.common for v in found if v.common is not None]
    made = ReachedInputs(
        shape,
        found[0].inputs,
        tuple(itertools.chain(*(v.planes for v in found))),
        np.bitwise_or.reduce(rows) if rows else None,
        np.bitwise_or.reduce(common) if common else None,
    )
    return made.compact()


def together(
    values: Sequence[ReachedInputs], function: Callable[[list[Any]], Any]
) -> ReachedInputs:
    """The sets of ``function(values)``, which moves the elements of several values."""
    count = max(len(v.planes) for v in values)
    shapes = [np.zeros(v.shape, np.int32) for v in values]
    common = union([none((), values[0].inputs), *(_common(v) for v in values)], ()).common
    planes = []
    for k in range(count):
        parts = [
            v.planes[k] if k < len(v.planes) else z for v, z in zip(values, shapes, strict=True)
        ]
        planes.append(np.asarray(function(parts)))
    rows, shape = None, planes[0].shape if planes else np.shape(function(shapes))
    if any(v.rows is not None for v in values):
        first = 1 + np.cumsum([0, *(v.size for v in values)])
        places = [
            np.arange(start, start + v.size).reshape(v.shape)
            for start, v in zip(first[:-1], values, strict=True)
        ]
        words = _words(values[0].inputs)
        blank = [np.zeros((v.size, words), np.uint64) if v.rows is None else None for v in values]
        every = [b if b is not None else v._flat_rows() for b, v in zip(blank, values, strict=True)]
        rows = np.concatenate([np.zeros((1, words), np.uint64), *every])[function(places)]
    return ReachedInputs(shape, values[0].inputs, tuple(planes), rows, common).compact()


def gathered_rows(
    values: ReachedInputs, places: Plane, shape: tuple[int, ...]
) -> ReachedInputs | None:
    """Sets of this shape as rows, the values' at their flat places; None if there is no room."""
    size, words = prod(shape), _words(values.inputs)
    if not _fits(size, values.inputs):
        return None
    rows = np.zeros((size, words), np.uint64)
    for plane in values.planes:
        _set_bits(rows, places, plane.reshape(-1))
    if values.rows is not None:
        np.bitwise_or.at(rows, places, values._flat_rows())
    return ReachedInputs(shape, values.inputs, (), rows.reshape(*shape, words), values.common)


def _common(value: ReachedInputs) -> ReachedInputs:
    return ReachedInputs((), value.inputs, (), None, value.common)


def _words(inputs: int) -> int:
    return -(-(inputs + 1) // _WORD)


def _fits(elements: int, inputs: int) -> bool:
    return elements * _words(inputs) * (_WORD // 8) <= _MOST_BYTES


def _set_bits(rows: Plane, places: Plane, numbers: Plane) -> None:
    """Set in the rows at these places the bits of these numbers; 0 is none."""
    used = numbers > 0
    number = numbers[used].astype(np.uint64) - np.uint64(1)
    flat = places[used] * rows.shape[1] + (number >> np.uint64(6)).astype(np.int64)
    np.bitwise_or.at(rows.reshape(-1), flat, np.uint64(1) << (number & np.uint64(63)))


def _distinct(planes: Sequence[Plane]) -> list[Plane]:
    """The planes without repetitions: one memory, or equal numbers."""
    found: list[Plane] = []
    seen = set[Any]()
    for plane in planes:
        if plane.size <= _HASHED:
            numbers = plane.dtype.char, plane.tobytes()
            if numbers not in seen:
                seen.add(numbers)
                found.append(plane)
            continue
        place = (plane.__array_interface__["data"][0], plane.strides)
        if place in seen or any(_are_equal(plane, other) for other in found):
            continue
        seen.add(place)
        found.append(plane)
    return found


def _are_equal(a: Plane, b: Plane) -> bool:
    if not a.size:
        return True
    middle = np.unravel_index(a.size // 2, a.shape)
    return bool(a[middle] == b[middle]) and np.array_equal(a, b)


def _packed(planes: Sequence[Plane]) -> list[Plane]:
    """The same sets with every number once, in as few planes as the longest set needs."""
    stack = np.sort(np.stack(planes), axis=0)
    stack[1:][stack[1:] == stack[:-1]] = 0
    stack = np.sort(stack, axis=0)
    return [stack[k, ...] for k in range(len(stack)) if stack[k].any()]
