"""Batch rules of what moves, joins, reduces or scans along axes: axes move up by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.builder import FUNCTIONS, type_of
from calque.transpiler.primitives import axes, creation, diagonals, shapes, sorting
from calque.transpiler.primitives.base import PRIMITIVES, Primitive, apply
from calque.transpiler.primitives.batched import (
    Rule,
    aligned,
    all_batched,
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
    """Room for the example with the most rounds."""
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


for _name in ("np.squeeze", "np.expand_dims"):
    PRIMITIVES[_name].batch = _moved_up(PRIMITIVES[_name])
for _name in ("np.diagonal", "np.trace"):
    PRIMITIVES[_name].batch = _moved_up(PRIMITIVES[_name], "axes")
for _name in (
    *("np.cumsum", "np.cumprod", "np.maximum.accumulate", "np.minimum.accumulate", "np.diff"),
    *("np.sort", "np.argsort", "np.argpartition"),
):
    PRIMITIVES[_name].batch = _moved_up(PRIMITIVES[_name])


@batches(sorting.take_along_axis)
def _take_along_axis(args: Args, batched: Flags, params: Params) -> Any:
    x, indices = all_batched(args, batched)
    return np.take_along_axis(x, indices, params["axis"] + 1)


# reductions


# NumPy's own reshape to reduce along several axes, which fails where there are no examples
_ONE_AXIS = ("np.median", "np.quantile", "np.percentile")


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
        single = primitive.name in ("np.argmax", "np.argmin", "np.linalg.norm", "linalg.norm")
        if axis is None and single and rank > 1:
            result = apply(
                primitive, flat_rows(x), *rest, **{**params, "axis": (1,), "keepdims": False}
            )
            return lift(result, rank) if params["keepdims"] else result
        up = tuple(range(1, rank + 1)) if axis is None else tuple(a + 1 for a in _tuple(axis))
        if primitive.name in _ONE_AXIS and len(up) > 1:
            rest_axes = tuple(a for a in range(rank + 1) if a not in up)
            moved = shapes.joined_axes(np.transpose(x, (*rest_axes, *up)), len(rest_axes))
            options = {**params, "axis": (len(rest_axes),), "keepdims": False}
            result = apply(primitive, moved, *rest, **options)
            return np.expand_dims(result, up) if params["keepdims"] else result
        return apply(primitive, x, *rest, **{**params, "axis": up})

    return rule


def _tuple(axis: Any) -> tuple[int, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


for _name in (
    *("np.sum", "np.mean", "np.max", "np.min", "np.argmax", "np.argmin", "np.any", "np.all"),
    *("np.count_nonzero", "np.prod", "np.var", "np.std", "np.median", "special.logsumexp"),
    "np.linalg.norm",
):
    PRIMITIVES[_name].batch = reduction(PRIMITIVES[_name])


def _quantile(primitive: Primitive) -> Rule:
    reduce = reduction(primitive)

    def rule(args: Args, batched: Flags, params: Params) -> Any:
        if batched[1]:
            raise refuse(primitive.name, "the quantile is batched.")
        result, asked = reduce(args, batched, params), type_of(args[1]).ndim
        return np.moveaxis(result, asked, 0) if asked else result

    return rule


for _name in ("np.quantile", "np.percentile"):
    PRIMITIVES[_name].batch = _quantile(PRIMITIVES[_name])


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


for _name in ("special.softmax", "special.log_softmax"):
    PRIMITIVES[_name].batch = _softmax(PRIMITIVES[_name])

# joining

_JOINS: dict[str, tuple[int, dict[int, tuple[Any, ...]]]] = {
    "np.vstack": (1, {0: (None, None), 1: (None, slice(None))}),
    "np.column_stack": (2, {0: (None, None), 1: (slice(None), None)}),
    "np.dstack": (
        3,
        {
            0: (None, None, None),
            1: (None, slice(None), None),
            2: (slice(None), slice(None), None),
        },
    ),
}


def _join(axis: int, patterns: dict[int, tuple[Any, ...]]) -> Rule:
    def rule(args: Args, batched: Flags, params: Params) -> Any:
        parts = []
        for x in all_batched(args, batched):
            pattern = patterns.get(x.ndim - 1)
            parts.append(x if pattern is None else x[(slice(None), *pattern)])
        return np.concatenate(parts, axis=axis)

    return rule


for _name, (_axis, _patterns) in _JOINS.items():
    PRIMITIVES[_name].batch = _join(_axis, _patterns)


@batches("np.hstack")
def _hstack(args: Args, batched: Flags, params: Params) -> Any:
    low = all(rank_of(a, b) <= 1 for a, b in zip(args, batched, strict=True))
    return _join(1 if low else 2, {0: (None,)})(args, batched, params)


@batches("np.concatenate")
def _concatenate(args: Args, batched: Flags, params: Params) -> Any:
    return np.concatenate(all_batched(args, batched), axis=params["axis"] + 1)


@batches("np.stack")
def _stack(args: Args, batched: Flags, params: Params) -> Any:
    return np.stack(all_batched(args, batched), axis=params["axis"] + 1)


# repeating and shifting


def _only_first(name: str, batched: Flags) -> None:
    if any(batched[1:]):
        raise refuse(name, "a size depends on batched values.")


@batches("np.tile")
def _tile(args: Args, batched: Flags, params: Params) -> Any:
    _only_first("np.tile", batched)
    x, *repeats = args
    x = lift(x, len(repeats))
    repeats = [1] * (x.ndim - len(repeats)) + repeats
    return np.tile(x, tuple(repeats))


@batches("np.repeat")
def _repeat(args: Args, batched: Flags, params: Params) -> Any:
    _only_first("np.repeat", batched)
    return np.repeat(args[0], args[1], axis=params["axis"] + 1)


@batches("np.roll")
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
        rolled = apply(PRIMITIVES["np.roll"], flat_rows(x), *shifts, axis=(1,))
        return np.reshape(rolled, x.shape)
    return apply(PRIMITIVES["np.roll"], x, *shifts, axis=tuple(a + 1 for a in axis))


@batches("np.pad")
def _pad(args: Args, batched: Flags, params: Params) -> Any:
    x, value = args
    widths = ((0, 0), *params["widths"])
    params = {**params, "widths": widths}
    if not batched[1]:
        return apply(PRIMITIVES["np.pad"], x, value, **params)
    x = x if batched[0] else spread(x, value.shape[0])
    padded = apply(PRIMITIVES["np.pad"], x, 0, **params)
    inside = apply(PRIMITIVES["np.pad"], np.ones_like(x, dtype=bool), False, **params)
    return np.where(inside, padded, lift(value, x.ndim - 1))


@batches("np.meshgrid")
def _meshgrid(args: Args, batched: Flags, params: Params) -> Any:
    vectors = all_batched(args, batched)
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


for _name in ("np.linspace", "np.geomspace"):
    PRIMITIVES[_name].batch = _spaced(PRIMITIVES[_name])

# diagonals


@batches("np.diag")
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


@batches("np.vander")
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


for _name in ("np.fft.fft", "np.fft.ifft", "np.fft.rfft", "np.fft.irfft"):
    PRIMITIVES[_name].batch = _transform(PRIMITIVES[_name])


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
