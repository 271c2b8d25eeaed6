"""Calls of collectives for one array: over several axes, tiled, of numbers.

``runtime/collectives.py`` calls these for each leaf; they record the primitives of
``axis_collectives.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnboundAxisName
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.primitives.axis_collectives import (
    NamedAxis,
    all_gather,
    all_to_all,
    axis_number,
    pcast,
    pmean,
    ppermute,
    psum_scatter,
    sum_over,
)
from calque.transpiler.primitives.base import Primitive, apply, as_array, operand
from calque.transpiler.primitives.shapes import multiply_sizes


def _is_bound(name: Any, bound: dict[Any, NamedAxis]) -> bool:
    try:
        return name in bound
    except TypeError:  # without a hash it is no name
        return False


def axes_named(names: Any, function: str) -> list[NamedAxis]:
    """The axes that a name, or several, stand for where the call stands."""
    bound = current().axes
    found = []
    for name in names if isinstance(names, (tuple, list)) else (names,):
        if not _is_bound(name, bound):
            have = ", ".join(map(repr, bound)) or "none"
            raise UnboundAxisName(
                f"{function}: unbound axis name {name!r}. Axis names in scope here: {have}.",
                current().origin,
                f"call it within vmap or pmap with axis_name={name!r}, or shard_map over it",
            )
        found.append(bound[name])
    if len(set(found)) < len(found):
        raise ValueError(f"{function}: an axis is named twice in {names!r}")
    return found


def size_of_axes(axes: Sequence[NamedAxis]) -> Any:
    """The number of examples along all of the axes: the product of their sizes."""
    total: Any = 1
    for axis in axes:
        total = multiply_sizes(total, axis.size)
    return total


def index_along(axes: Sequence[NamedAxis]) -> Any:
    """The number of one example, the last axis running fastest."""
    found: Any = None
    for axis in axes:
        number = axis.index if axis.index is not None else apply(axis_number, axis=axis)
        found = number if found is None else found * axis.size + number
    return found


def summed(x: Any, axes: Sequence[NamedAxis]) -> Any:
    """The sum over every axis; a number counts as often as there are examples."""
    x = operand(x)
    if not isinstance(x, Array):
        return x * size_of_axes(axes)
    if x.dtype.kind == "b":
        x = FUNCTIONS["cast"](x, int)
    for axis in reversed(axes):
        x = sum_over(x, axis)
    return x


def averaged(x: Any, axes: Sequence[NamedAxis]) -> Any:
    """The mean over every axis."""
    x = operand(x)
    if type_of(x).dtype.kind not in "fc":
        x = x / 1 if not isinstance(x, Array) else FUNCTIONS["cast"](x, float)
    for axis in reversed(axes):
        if isinstance(x, Array):
            x = sum_over(x, axis) / axis.size if axis.checked else apply(pmean, x, axis=axis)
    return x


def varying(x: Any, axes: Sequence[NamedAxis]) -> Any:
    """The value, taken to differ along these axes."""
    x = operand(x)
    for axis in axes:
        if axis.checked and isinstance(x, Array):
            x = apply(pcast, x, axis=axis)
    return x


def extreme(primitive: Primitive, x: Any, axes: Sequence[NamedAxis]) -> Any:
    """The greatest, or least, value over every axis."""
    x = operand(x)
    for axis in reversed(axes):
        x = apply(primitive, x, axis=axis) if isinstance(x, Array) else x
    return x


def gathered(x: Any, axes: Sequence[NamedAxis], axis: int, tiled: bool) -> Any:
    """Every example's values along one new axis, or one after the other along an old one."""
    x = as_array(x)
    rank = x.ndim + (not tiled)
    place = _place(axis, rank, "all_gather")
    for one in reversed(axes):
        x = apply(all_gather, x, axis=one, place=place)
    return _merged(x, place, len(axes) + tiled)


def _merged(x: Any, place: int, count: int) -> Any:
    """``count`` axes from ``place`` on as one."""
    if count == 1:
        return x
    shape = list(x.shape)
    total: Any = 1
    for size in shape[place : place + count]:
        total = multiply_sizes(total, size)
    return FUNCTIONS[np.reshape](x, (*shape[:place], total, *shape[place + count :]))


def _place(axis: int, rank: int, name: str) -> int:
    if not -rank <= axis < rank:
        raise ShapeError(f"{name}: axis {axis} is out of range for {rank} axes.", current().origin)
    return axis % rank


def _split(x: Any, place: int, axis: NamedAxis, name: str) -> Any:
    """Split one axis of a tiled array into two: the examples, and the part of each."""
    shape = list(x.shape)
    size, count = shape[place], axis.size
    known = not isinstance(size, Array) and not isinstance(count, Array)
    if known and (count == 0 or size % count):
        raise ShapeError(
            f"{name}: an axis with {size} elements cannot be dealt out to {count} examples.",
            current().origin,
        )
    return FUNCTIONS[np.reshape](x, (*shape[:place], count, size // count, *shape[place + 1 :]))


def scattered(x: Any, axis: NamedAxis, place: int, tiled: bool) -> Any:
    """The sum over the axis, of which each example keeps its own part."""
    x = as_array(x)
    place = _place(place, x.ndim, "psum_scatter")
    x = _split(x, place, axis, "psum_scatter") if tiled else x
    return apply(psum_scatter, x, axis=axis, place=place)


def exchanged(x: Any, axis: NamedAxis, split: int, concat: int, tiled: bool) -> Any:
    """Each example gives its k-th part to example k, and joins what it is given."""
    x = as_array(x)
    split = _place(split, x.ndim, "all_to_all")
    concat = _place(concat, x.ndim, "all_to_all")
    if not tiled:
        return apply(all_to_all, x, axis=axis, split=split, concat=concat)
    parts = _split(x, split, axis, "all_to_all")
    return _merged(apply(all_to_all, parts, axis=axis, split=split, concat=concat), concat, 2)


def permuted(x: Any, axis: NamedAxis, perm: Sequence[tuple[int, int]]) -> Any:
    """Each example's values sent to another; zeros where none are sent."""
    return apply(ppermute, as_array(x), axis=axis, perm=permutation(perm, axis))


def permutation(perm: Any, axis: NamedAxis) -> tuple[tuple[int, int], ...]:
    """The pairs of ``ppermute``, checked."""
    builder, size = current(), current().dim_of(axis.size)
    pairs = tuple((operator.index(a), operator.index(b)) for a, b in perm)
    for kind, numbers in (("source", [a for a, _ in pairs]), ("target", [b for _, b in pairs])):
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"ppermute: a {kind} stands twice in {list(pairs)}")
        wrong = [n for n in numbers if n < 0 or (isinstance(size, int) and n >= size)]
        if wrong:
            raise ShapeError(
                f"ppermute: {kind} {wrong[0]} is no example of the axis {axis.name!r}, which "
                f"has {size}.",
                builder.origin,
            )
    return pairs
