"""NumPy functions that are a few lines of others, and have no record of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import (
    FUNCTIONS,
    METHODS,
    OPERATORS,
    Array,
    current,
    known_int,
    type_of,
)
from calque.transpiler.ir.types import INT, promote, sample
from calque.transpiler.primitives.base import finish, implements, operand
from calque.transpiler.primitives.creation import shape_tuple
from calque.transpiler.primitives.elementwise import cast
from calque.transpiler.primitives.reductions import normalize_axes
from calque.transpiler.primitives.scans import along
from calque.transpiler.primitives.shapes import (
    flattened,
    joined_axes,
    multiply_sizes,
    normalize_axis,
)
from calque.transpiler.primitives.statistics import QUANTILE_METHODS, quantile_position

# quantiles of what is not NaN


def _lines(x: Array, axes: tuple[int, ...] | None) -> Any:
    """The slices that are reduced, along the last axis."""
    if axes is None or len(axes) == x.ndim:
        return np.ravel(x)
    kept = [a for a in range(x.ndim) if a not in axes]
    moved = np.transpose(x, (*kept, *axes))
    return joined_axes(moved, len(kept)) if len(axes) > 1 else moved


def _nan_quantile(x: Array, q: Any, axis: Any, keepdims: bool, method: str) -> Any:
    """Sorted, NaN comes last: the quantile is looked for among those before."""
    axes = normalize_axes(axis, x.ndim)
    lines = np.sort(_lines(x, axes), axis=-1)
    count = np.sum(~np.isnan(lines), axis=-1, keepdims=True)
    below, part = quantile_position(q, count, method)
    first = np.maximum(below, 0.0).astype(int)
    low = np.take_along_axis(lines, first, axis=-1)
    if isinstance(part, float) and not part:
        found = low[..., 0]
    else:
        second = np.clip(first + 1, 0, np.maximum(count - 1, 0))
        high = np.take_along_axis(lines, second, axis=-1)
        found = _between(low, high, part, method)[..., 0]
    if x.dtype.kind == "f":
        found = FUNCTIONS["cast"](found, x.dtype)
    if not keepdims:
        return found
    reduced = range(x.ndim) if axes is None else axes
    return np.expand_dims(found, tuple(reduced))


def _between(low: Any, high: Any, part: Any, method: str) -> Any:
    """The number that lies ``part`` of the way from one to the next; a median is their mean."""
    if method == "median":
        return np.where(part == 0, low, (low + high) / 2.0)
    step = high - low  # NaN between equal infinities, as NumPy's
    return np.where(part < 0.5, low + step * part, high - step * (1.0 - part))


def _nan_quantiles(divisor: float, name: str) -> Callable[..., Any]:
    def call(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Any = None,
    ) -> Any:
        if weights is not None or method not in QUANTILE_METHODS:
            message = f"{name} with weights= or method={method!r}."
            raise UnsupportedFunction(message, current().origin)
        x = FUNCTIONS[np.asarray](operand(a))
        if isinstance(q, (list, tuple, np.ndarray)) and np.ndim(q):
            x = FUNCTIONS["cast"](x, np.result_type(x.dtype, np.float64))  # of an array of them
            rows = [_nan_quantile(x, v / divisor, axis, keepdims, method) for v in q]
            return finish(np.stack(rows), out)
        if type_of(operand(q)).ndim:
            raise UnsupportedFunction(f"{name} of an array of quantiles.", current().origin)
        return finish(_nan_quantile(x, operand(q) / divisor, axis, keepdims, method), out)

    return call


FUNCTIONS[np.nanquantile] = _nan_quantiles(1.0, "np.nanquantile")
FUNCTIONS[np.nanpercentile] = _nan_quantiles(100.0, "np.nanpercentile")


@implements(np.nanmedian)
def np_nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """``np.nanmedian``."""
    x = FUNCTIONS[np.asarray](operand(a))
    return finish(_nan_quantile(x, 0.5, axis, keepdims, "median"), out)


# shapes


@implements(np.resize)
def np_resize(a: Any, new_shape: Any) -> Any:
    """``np.resize``: the elements again and again until the shape is full."""
    flat = flattened(FUNCTIONS[np.asarray](operand(a)))
    shape = shape_tuple(new_shape)
    count: Any = 1
    for size in shape:
        count = count * size
    return np.reshape(flat[FUNCTIONS[np.arange](count) % flat.shape[0]], shape)


@dataclass
class Repeated:
    """A list of run-time length: a tree of arrays, in each a first axis that counts its items."""

    items: Any


@implements(np.block)
def block(arrays: Any) -> Any:
    """``np.block``: the innermost lists joined along the last axis, and so on outwards."""
    depth = _depth(arrays)
    rank = max(depth, *_ranks(arrays, 0))

    def joined(item: Any, level: int, counted: int) -> Any:
        if isinstance(item, Repeated):
            axis = rank + level - depth
            whole = np.moveaxis(joined(item.items, level + 1, 1), 0, axis)
            sizes = whole.shape
            both = multiply_sizes(sizes[axis], sizes[axis + 1])
            return np.reshape(whole, (*sizes[:axis], both, *sizes[axis + 2 :]))
        if isinstance(item, list):
            parts = [joined(i, level + 1, counted) for i in item]
            return np.concatenate(parts, axis=level - depth)
        if level != depth:
            raise ShapeError("List depths are mismatched in np.block.", current().origin)
        leaf = FUNCTIONS[np.asarray](operand(item))
        new = (None,) * (rank + counted - leaf.ndim)
        return leaf[(slice(None),) * counted + new] if new else leaf

    return joined(arrays, 0, 0)


def _depth(item: Any) -> int:
    if isinstance(item, Repeated):
        return 1 + _depth(item.items)
    return 1 + _depth(item[0]) if isinstance(item, list) and item else 0


def _ranks(item: Any, counted: int) -> list[int]:
    """The ranks of the arrays that are joined."""
    if isinstance(item, Repeated):
        return _ranks(item.items, counted + 1)
    if isinstance(item, list):
        return [rank for i in item for rank in _ranks(i, counted)]
    return [type_of(operand(item)).ndim - counted]


@implements(np.lib.stride_tricks.sliding_window_view)
def np_sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """``sliding_window_view``, as a copy: NumPy's view cannot be stored into either."""
    if writeable:
        raise UnsupportedFunction(
            "sliding_window_view with writeable=True.", current().origin, "store into x itself"
        )
    x = FUNCTIONS[np.asarray](operand(x))
    windows = shape_tuple(window_shape)
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else [axis]
    if len(windows) != len(axes):
        raise ShapeError("window_shape and axis have different lengths.", current().origin)
    for window, a in zip(windows, axes, strict=True):
        a = normalize_axis(a, x.ndim)
        places = FUNCTIONS[np.arange](x.shape[a] - window + 1)[:, None]
        taken = x[along(a, places + FUNCTIONS[np.arange](window))]
        x = np.moveaxis(taken, a + 1, -1)
    return x


@implements(np.apply_over_axes)
def np_apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """``np.apply_over_axes``."""
    x = FUNCTIONS[np.asarray](operand(a))
    for axis in axes if isinstance(axes, (tuple, list)) else [axes]:
        found = func(x, axis)
        x = found if found.ndim == x.ndim else np.expand_dims(found, axis)
    return x


# grids by index: np.mgrid[0:n, 0:m], np.ogrid[:n, :m]


@implements(type(np.mgrid).__getitem__)
def np_grid(grid: Any, key: Any) -> Any:
    """``np.mgrid`` and ``np.ogrid``: the coordinates of a box, written as slices."""
    if not isinstance(key, tuple):
        return _counted(key, False)
    if not grid.sparse and len(key) > 1 and all(map(_is_plain, key)):
        return FUNCTIONS[np.indices](tuple(k.stop for k in key))
    axes = [_counted(k, True) for k in key]
    dtype = np.result_type(*[a.dtype for a in axes])
    axes = [FUNCTIONS["cast"](a, dtype) for a in axes]
    made = FUNCTIONS[np.meshgrid](*axes, indexing="ij", sparse=grid.sparse)
    return tuple(made) if grid.sparse else np.stack(made)


def _is_plain(piece: slice) -> bool:
    """True for a slice of Python's integers from 0, as many as there are, one by one."""
    t = type_of(operand(piece.stop))
    counts = t.weak and t.dtype.kind == "i" and current().dims.nonnegative(
        current().dim_of(piece.stop)
    )
    return counts and piece.start in (None, 0) and piece.step in (None, 1)


def _counted(piece: slice, one_of_many: bool) -> Array:
    """The coordinates of one axis, computed as NumPy computes them, to the last bit."""
    start = 0 if piece.start is None else piece.start
    step = 1 if piece.step is None else piece.step
    if isinstance(step, complex):
        count = int(abs(step))
        step = (piece.stop - start) / float(count - 1) if count > 1 else 1
        return FUNCTIONS[np.arange](float(count)) * step + start
    if one_of_many and isinstance(step, float):
        count = known_int(FUNCTIONS[np.ceil]((piece.stop - start) / step), "The size of a grid")
        return FUNCTIONS[np.arange](count) * step + start
    return FUNCTIONS[np.arange](start, piece.stop, step)


@implements(type(np.s_).__getitem__)
def np_s(maker: Any, key: Any) -> Any:
    """``np.s_`` and ``np.index_exp``: the index itself."""
    return (key,) if maker.maketuple and not isinstance(key, tuple) else key


# joining by index: np.r_[a, b], np.c_[a, b]


def _items(key: Any, name: str) -> list[Any]:
    found = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(item, str) for item in found):
        raise UnsupportedFunction(
            f"{name} with texts.", current().origin, "use np.concatenate or np.stack"
        )
    values = [_spread(item) if isinstance(item, slice) else operand(item) for item in found]
    dtype, _ = promote([type_of(v) for v in values])  # numbers in it adapt to the arrays
    return [FUNCTIONS[np.atleast_1d](FUNCTIONS[np.asarray](v, dtype)) for v in values]


def _spread(piece: slice) -> Any:
    """The numbers that a slice stands for; a step of ``5j`` says how many."""
    if isinstance(piece.step, complex):
        return FUNCTIONS[np.linspace](piece.start or 0, piece.stop, int(abs(piece.step)))
    return _counted(piece, False)


@implements(type(np.r_).__getitem__)
def np_r(concatenator: Any, key: Any) -> Any:
    """``np.r_`` joins along the first axis, ``np.c_`` sets columns side by side."""
    if concatenator is np.r_:
        return np.concatenate(_items(key, "np.r_"))
    columns = [x if x.ndim > 1 else x[:, None] for x in _items(key, "np.c_")]
    return np.concatenate(columns, axis=-1)


# membership and types


@implements(np.isin)
def np_isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """``np.isin``."""
    x = FUNCTIONS[np.asarray](operand(element))
    tests = flattened(FUNCTIONS[np.asarray](operand(test_elements)))
    found = np.any(x[..., None] == tests, axis=-1)
    return ~found if invert else found


FUNCTIONS[np.astype] = lambda x, dtype, /, *, copy=True, device=None: METHODS["astype"](
    x, dtype, copy=copy
)
FUNCTIONS[np.iterable] = lambda y: bool(y.ndim) if isinstance(y, Array) else np.iterable(y)


def _typed(value: Any) -> Any:
    return sample(value.type) if isinstance(value, Array) else value


FUNCTIONS[np.result_type] = lambda *values: np.result_type(*map(_typed, values))
FUNCTIONS[np.common_type] = lambda *values: np.common_type(*[np.asarray(_typed(v)) for v in values])


# equations of tensors


@implements(np.linalg.tensorsolve)
def np_tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """``np.linalg.tensorsolve``: a solve of the matrix that the tensor is."""
    a, b = (FUNCTIONS[np.asarray](operand(v)) for v in (a, b))
    if axes is not None:
        moved = [normalize_axis(k, a.ndim) for k in axes]
        a = np.transpose(a, [k for k in range(a.ndim) if k not in moved] + moved)
    shape = a.shape[b.ndim :]
    size = known_int(b.size, "The number of equations")
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.ravel(b)), shape)


@implements(np.linalg.tensorinv)
def np_tensorinv(a: Any, ind: int = 2) -> Any:
    """``np.linalg.tensorinv``: the inverse of the matrix that the tensor is."""
    a = FUNCTIONS[np.asarray](operand(a))
    if ind <= 0:
        raise ShapeError("Invalid ind argument.", current().origin)
    size: Any = 1
    for length in a.shape[ind:]:
        size = size * length
    size = known_int(size, "The size of a tensor's inverse")
    return np.reshape(np.linalg.inv(np.reshape(a, (size, size))), a.shape[ind:] + a.shape[:ind])


_raised = OPERATORS["pow"]


@implements(op="pow")
def _power_operator(a: Any, b: Any) -> Any:
    """``a ** b``: of an array of truths NumPy takes the square, of the narrowest integers."""
    squared = isinstance(a, Array) and a.ndim and a.dtype.kind == "b" and type(b) is int and b == 2
    return FUNCTIONS[np.square](a) if squared else _raised(a, b)


_power_function = FUNCTIONS[np.power]


@implements(np.power)
def np_power(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """``np.power``: of truths to Python's integers, with integers of 64 bits."""
    a, b = operand(a), operand(b)
    if type_of(a).dtype.kind == "b" and type_of(a).ndim and type_of(b) == INT:
        a = cast(a, np.int64)
    return _power_function(a, b, *args, **kwargs)
