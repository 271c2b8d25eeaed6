"""Batch rules of what moves, joins, reduces or scans along axes: axes move up by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, type_of
from calque.transpiler.primitives import (
    axes,
    creation,
    diagonals,
    fourier,
    joining,
    norms,
    ranges,
    rearranging,
    reductions,
    scans,
    scipy_linalg,
    shapes,
    sorting,
    statistics,
)
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.batched import (
    Rule,
    aligned,
    all_batched,
    as_it_is,
    batches,
    counting,
    flat_rows,
    lift,
    new_zeros,
    rank_of,
    refuse,
    size_among,
    spread,
)
from calque.transpiler.primitives.growing import furthest, room, widened
from calque.transpiler.primitives.special import SPECIAL

Args = Sequence[Any]
Flags = tuple[bool, ...]
Params = dict[str, Any]

# creation


def _like(primitive: Primitive) -> Rule:
    return lambda args, batched, params: apply(primitive, *args, **params)


for _record in (creation.zeros_like, creation.ones_like, creation.empty_like):
    _record.batch = _like(_record)


@batches(creation.zeros, creation.ones, creation.empty)
def _sized(args: Args, batched: Flags, params: Params) -> Any:
    raise refuse("a new array", "its size differs from one example to the next.")


@batches(creation.space)
def _space(args: Args, batched: Flags, params: Params) -> Any:
    """Room for the example with the most iterations."""
    sizes = [
        apply(furthest, a, 0, up=True, axis=None) if b else a
        for a, b in zip(args, batched, strict=True)
    ]
    return apply(creation.space, size_among(args, batched), *sizes, **params)


@batches(creation.full)
def _full(args: Args, batched: Flags, params: Params) -> Any:
    value, *sizes = args
    if not batched[0]:
        raise refuse("np.full", "the shape depends on batched values.")
    value = FUNCTIONS["cast"](lift(value, len(sizes)), params["dtype"])
    return apply(shapes.broadcast_to, value, value.shape[0], *sizes)


@batches(creation.stack_rows)
def _array(args: Args, batched: Flags, params: Params) -> Any:
    rows, shape = all_batched(args, batched), params["shape"]
    stacked = np.stack([FUNCTIONS["cast"](r, params["dtype"]) for r in rows], axis=1)
    if len(shape) == 1:
        return stacked
    return np.reshape(stacked, (stacked.shape[0], *shape, *stacked.shape[2:]))


# shapes


@batches(shapes.reshape, shapes.reshape_in_loops)
def _reshape(args: Args, batched: Flags, params: Params) -> Any:
    x, *sizes = args
    holes = [k for k, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    for k in holes:
        sizes[k] = shapes.missing_size(x.shape[1:], sizes[:k] + sizes[k + 1 :])
    return np.reshape(x, (x.shape[0], *sizes))


@batches(shapes.flatten, shapes.flat)
def _flatten(args: Args, batched: Flags, params: Params) -> Any:
    return flat_rows(args[0]) if args[0].ndim > 1 else args[0][:, None]


@batches(shapes.broadcast_to)
def _broadcast_to(args: Args, batched: Flags, params: Params) -> Any:
    x, *sizes = args
    return apply(shapes.broadcast_to, lift(x, len(sizes)), x.shape[0], *sizes)


@batches(axes.transpose)
def _transpose(args: Args, batched: Flags, params: Params) -> Any:
    return np.transpose(args[0], (0, *(a + 1 for a in params["axes"])))


def _moved_up(primitive: Primitive, key: str = "axis") -> Rule:
    """``axis`` (one or several) counts from the batch axis on."""

    def rule(args: Args, batched: Flags, params: Params) -> Any:
        if not all(batched[1:]) and any(batched[1:]):
            raise refuse(primitive.name, "an argument other than the array is batched.")
        axis = params[key]
        up = tuple(a + 1 for a in axis) if isinstance(axis, tuple) else axis + 1
        return apply(primitive, *args, **{**params, key: up})

    return rule


for _record in (diagonals.diagonal, diagonals.trace):
    _record.batch = _moved_up(_record, "axes")
for _record in (
    *(axes.squeeze, axes.expand_dims, sorting.sort, sorting.argsort, sorting.argpartition),
    *(scans.cumsum, scans.cumprod, scans.cummax, scans.cummin, scans.diff),
):
    _record.batch = _moved_up(_record)


@batches(sorting.take_along_axis)
def _take_along_axis(args: Args, batched: Flags, params: Params) -> Any:
    x, indices = all_batched(args, batched)
    return np.take_along_axis(x, indices, params["axis"] + 1)


# reductions


# NumPy's own reshape to reduce along several axes, which fails where there are no examples
_ONE_AXIS = (statistics.median, statistics.quantile, statistics.percentile)


def reduction(primitive: Primitive) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        x, *rest = args
        if any(batched[1:]) or not batched[0]:
            raise refuse(primitive.name, "an argument other than the array is batched.")
        axis, rank = params["axis"], x.ndim - 1
        if rank == 0:
            result = apply(
                primitive, x[:, None], *rest, **{**params, "axis": (1,), "keepdims": False}
            )
            return result
        single = primitive in (reductions.argmax, reductions.argmin, norms.norm, scipy_linalg.norm)
        if axis is None and single and rank > 1:
            result = apply(
                primitive, flat_rows(x), *rest, **{**params, "axis": (1,), "keepdims": False}
            )
            return lift(result, rank) if params["keepdims"] else result
        up = tuple(range(1, rank + 1)) if axis is None else tuple(a + 1 for a in _tuple(axis))
        if primitive in _ONE_AXIS and len(up) > 1:
            rest_axes = tuple(a for a in range(rank + 1) if a not in up)
            moved = shapes.joined_axes(np.transpose(x, (*rest_axes, *up)), len(rest_axes))
            options = {**params, "axis": (len(rest_axes),), "keepdims": False}
            result = apply(primitive, moved, *rest, **options)
            return np.expand_dims(result, up) if params["keepdims"] else result
        return apply(primitive, x, *rest, **{**params, "axis": up})

    return rule


def _tuple(axis: Any) -> tuple[int, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


for _record in (
    *(reductions.sum_, reductions.mean, reductions.max_, reductions.min_, reductions.argmax),
    *(reductions.argmin, reductions.any_, reductions.all_, reductions.count_nonzero),
    *(reductions.prod, statistics.var, statistics.std, statistics.median),
    *(SPECIAL["logsumexp"], norms.norm),
):
    _record.batch = reduction(_record)

scipy_linalg.finite.batch = as_it_is(scipy_linalg.finite)


def _quantile(primitive: Primitive) -> Rule:
    reduce = reduction(primitive)

    def rule(args: Args, batched: Flags, params: Params) -> Any:
        if batched[1]:
            raise refuse(primitive.name, "the quantile is batched.")
        result, asked = reduce(args, batched, params), type_of(args[1]).ndim
        return np.moveaxis(result, asked, 0) if asked else result

    return rule


for _record in (statistics.quantile, statistics.percentile):
    _record.batch = _quantile(_record)


def _softmax(primitive: Primitive) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        axis, (x,) = params["axis"], args
        if axis is None:
            up: Any = tuple(range(1, x.ndim))
        else:
            up = tuple(a + 1 for a in axis) if isinstance(axis, tuple) else axis + 1
        if x.ndim == 1:
            return apply(primitive, x[:, None], **{**params, "axis": (1,)})[:, 0]
        return apply(primitive, x, **{**params, "axis": up})

    return rule


for _record in (SPECIAL["softmax"], SPECIAL["log_softmax"]):
    _record.batch = _softmax(_record)

# joining


def _join(axis: int, patterns: dict[int, tuple[Any, ...]]) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        parts = []
        for x in all_batched(args, batched):
            pattern = patterns.get(x.ndim - 1)
            parts.append(x if pattern is None else x[(slice(None), *pattern)])
        return np.concatenate(parts, axis=axis)

    return rule


_all = slice(None)
joining.vstack.batch = _join(1, {0: (None, None), 1: (None, _all)})
joining.column_stack.batch = _join(2, {0: (None, None), 1: (_all, None)})
joining.dstack.batch = _join(
    3, {0: (None, None, None), 1: (None, _all, None), 2: (_all, _all, None)}
)


@batches(joining.hstack)
def _hstack(args: Args, batched: Flags, params: Params) -> Any:
    low = all(rank_of(a, b) <= 1 for a, b in zip(args, batched, strict=True))
    return _join(1 if low else 2, {0: (None,)})(args, batched, params)


@batches(joining.concatenate)
def _concatenate(args: Args, batched: Flags, params: Params) -> Any:
    return np.concatenate(all_batched(args, batched), axis=params["axis"] + 1)


@batches(joining.stack)
def _stack(args: Args, batched: Flags, params: Params) -> Any:
    return np.stack(all_batched(args, batched), axis=params["axis"] + 1)


# repeating and shifting


def _only_first(name: str, batched: Flags) -> None:
    if any(batched[1:]):
        raise refuse(name, "a size depends on batched values.")


@batches(rearranging.tile)
def _tile(args: Args, batched: Flags, params: Params) -> Any:
    _only_first("np.tile", batched)
    x, *repeats = args
    x = lift(x, len(repeats))
    repeats = [1] * (x.ndim - len(repeats)) + repeats
    return np.tile(x, tuple(repeats))


@batches(rearranging.repeat)
def _repeat(args: Args, batched: Flags, params: Params) -> Any:
    _only_first("np.repeat", batched)
    return np.repeat(args[0], args[1], axis=params["axis"] + 1)


@batches(rearranging.roll)
def _roll(args: Args, batched: Flags, params: Params) -> Any:
    x, *shifts = args
    axis = params["axis"]
    if any(batched[1:]):
        if axis is None or len(axis) > 1:
            raise refuse("np.roll", "several shifts, or one of the flattened array, are batched.")
        x = x if batched[0] else spread(x, shifts[0].shape[0])
        x = np.moveaxis(x, axis[0] + 1, 1)
        places = (counting(x.shape[1]) - shifts[0][:, None]) % x.shape[1]
        rolled = x[np.arange(x.shape[0])[:, None], places]
        return np.moveaxis(rolled, 1, axis[0] + 1)
    if axis is None:
        rolled = apply(rearranging.roll, flat_rows(x), *shifts, axis=(1,))
        return np.reshape(rolled, x.shape)
    return apply(rearranging.roll, x, *shifts, axis=tuple(a + 1 for a in axis))


@batches(rearranging.pad)
def _pad(args: Args, batched: Flags, params: Params) -> Any:
    x, value = args
    widths = ((0, 0), *params["widths"])
    params = {**params, "widths": widths}
    if not batched[1]:
        return apply(rearranging.pad, x, value, **params)
    x = x if batched[0] else spread(x, value.shape[0])
    padded = apply(rearranging.pad, x, 0, **params)
    inside = apply(rearranging.pad, np.ones_like(x, dtype=bool), False, **params)
    return np.where(inside, padded, lift(value, x.ndim - 1))


@batches(ranges.meshgrid)
def _meshgrid(args: Args, batched: Flags, params: Params) -> Any:
    vectors = [v if v.ndim > 1 else v[:, None] for v in all_batched(args, batched)]  # or a number
    order = list(range(len(vectors)))
    if params["indexing"] == "xy" and len(vectors) > 1:
        order[0], order[1] = 1, 0
    sizes = [vectors[k].shape[1] for k in order]
    found = []
    for k, v in enumerate(vectors):
        index = [None] * len(vectors)
        at = order.index(k)
        index[at] = slice(None)  # type: ignore[call-overload]
        found.append(apply(shapes.broadcast_to, v[(slice(None), *index)], v.shape[0], *sizes))
    return tuple(found)


def _spaced(primitive: Primitive) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        start, stop, num = args
        if batched[2]:
            raise refuse(primitive.name, "the number of points is batched.")
        start, stop = aligned((start, stop), batched[:2])
        return np.moveaxis(apply(primitive, start, stop, num, **params), 0, 1)

    return rule


for _record in (ranges.linspace, ranges.geomspace):
    _record.batch = _spaced(_record)

# diagonals


@batches(diagonals.diag)
def _diag(args: Args, batched: Flags, params: Params) -> Any:
    (x,), k = args, params["k"]
    if x.ndim > 2:
        return np.diagonal(x, k, 1, 2)
    places = counting(x.shape[1])
    size = x.shape[1] + abs(k)
    result = new_zeros((x.shape[0], size, size), x.dtype)
    result[:, places + max(-k, 0), places + max(k, 0)] = x
    return result


def _triangle(primitive: Primitive) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        (x,) = args
        if x.ndim == 2:
            size = x.shape[1]
            x = apply(shapes.broadcast_to, x[:, None], x.shape[0], size, size)
        return apply(primitive, x, **params)

    return rule


for _record in (diagonals.tril, diagonals.triu):
    _record.batch = _triangle(_record)


@batches(diagonals.vander)
def _vander(args: Args, batched: Flags, params: Params) -> Any:
    (x,), n = args, params["n"]
    if n == 0:
        return new_zeros((*x.shape, 0), x.dtype)
    columns = [np.ones_like(x), *(x,) * (n - 1)]
    powers = np.cumprod(np.stack(columns, axis=2), axis=2)
    return powers if params["increasing"] else powers[:, :, ::-1]


# Fourier transforms


def _transform(primitive: Primitive) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        if any(batched[1:]):
            raise refuse(primitive.name, "the length is batched.")
        return apply(primitive, *args, **{**params, "axis": params["axis"] + 1})

    return rule


for _record in (fourier.fft, fourier.ifft, fourier.rfft, fourier.irfft):
    _record.batch = _transform(_record)


# arrays that grow


@batches(room)
def _room(args: Args, batched: Flags, params: Params) -> Any:
    x, count = args
    count = apply(furthest, count, 0, up=True, axis=None) if batched[1] else count
    x = x if batched[0] else spread(x, size_among(args, batched))
    return apply(room, x, count, **{**params, "axis": params.get("axis", 0) + 1})


@batches(widened)
def _widened(args: Args, batched: Flags, params: Params) -> Any:
    """The rows are all of one example's, and the array that has grown is alike for all."""
    x, like = all_batched(args, batched)
    return apply(widened, x, like, axis=params["axis"] + 1)


@batches(furthest)
def _furthest(args: Args, batched: Flags, params: Params) -> Any:
    x, start = args
    if batched[1]:
        rows = all_batched((x, start), batched)
        best = np.max if params["up"] else np.min
        return best(np.concatenate([rows[0], rows[1][:, None]], axis=1), axis=1)
    return apply(furthest, x, start, up=params["up"], axis=1)
