"""Axes permuted, added and taken away: transpose, moveaxis, squeeze, expand_dims."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import (
    ATTRIBUTES,
    FUNCTIONS,
    METHODS,
    Array,
    current,
    known_int,
    type_of,
)
from calque.transpiler.ir.types import ArrayType, Dim
from calque.transpiler.primitives.base import apply, definition, implements, linear
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.shapes import common_shape, normalize_axis, normalize_tuple


def _transpose_text(args: Any, params: dict[str, Any]) -> str:
    axes = params["axes"]
    count = len(axes)
    if axes == tuple(reversed(range(count))):
        return "{0}.T"
    moved = [a for a in range(count) if axes[a] != a]
    if len(moved) == 2:
        first, second = (a - count if moved[1] == count - 1 else a for a in moved)
        return f"{{0}}.swapaxes({first}, {second})"
    for source in range(count):
        rest = [a for a in range(count) if a != source]
        target = axes.index(source)
        if axes == (*rest[:target], source, *rest[target:]):
            return f"np.moveaxis({{0}}, {source}, {target})"
    return "{0}.transpose(" + ", ".join(map(str, axes)) + ")"


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(a) for a in np.argsort(axes))


def _undone(builder: Any, args: Any, params: dict[str, Any]) -> Any:
    """``x.T.T`` is x."""
    made = definition(args[0])
    if made is None or made.primitive is not transpose:
        return None
    if made.params["axes"] != _inverse(params["axes"]):
        return None
    how = args[0].how
    if how is not None:
        return how[0]
    view = Array(made.args[0])  # a store into it is one into x.T
    view.become_view(args[0], transpose, (), params)
    return view


@linear(
    "np.transpose",
    lambda x, axes: np.transpose(x, axes),
    lambda x, axes: ArrayType(x.dtype, tuple(x.dims[a] for a in axes)),
    _transpose_text,
    view_back=lambda base, new, axes: np_transpose(new, _inverse(axes)),
    cheap=True,
    simplify=_undone,
    samples=cases(
        case((3, 4), axes=(1, 0)),
        case((2, 3, 4), axes=(2, 0, 1)),
        case((2, 0, 3), axes=(0, 2, 1)),
        case(single(2, 1), axes=(1, 0)),
        case((2, 3, 1, 4), axes=(3, 1, 0, 2)),
    ),
    moves=True,
    suffix="transposed",
)
def transpose(y_bar: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The inverse permutation."""
    return np_transpose(y_bar, _inverse(axes))


@implements(np.transpose)
def np_transpose(x: Any, axes: Any = None) -> Array:
    """``np.transpose``."""
    x = FUNCTIONS[np.asarray](x)
    order = tuple(reversed(range(x.ndim))) if axes is None else normalize_tuple(axes, x.ndim)
    if len(order) != x.ndim:
        raise ShapeError("axes don't match array", current().origin)
    if order == tuple(range(x.ndim)):
        return x
    return apply(transpose, x, axes=order)


ATTRIBUTES["T"] = lambda x: np_transpose(x)
METHODS["transpose"] = lambda x, *axes: np_transpose(
    x, (axes[0] if len(axes) == 1 else axes) or None
)


@implements(np.swapaxes, method="swapaxes")
def np_swapaxes(x: Any, axis1: Any, axis2: Any) -> Array:
    """``np.swapaxes``."""
    x = FUNCTIONS[np.asarray](x)
    first, second = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return np_transpose(x, order)


@implements(np.matrix_transpose, np.linalg.matrix_transpose, attribute="mT")
def np_matrix_transpose(x: Any) -> Array:
    """The last two axes swapped."""
    return np_swapaxes(x, -1, -2)


@implements(np.moveaxis)
def np_moveaxis(x: Any, source: Any, destination: Any) -> Array:
    """``np.moveaxis``."""
    x = FUNCTIONS[np.asarray](x)
    sources, targets = normalize_tuple(source, x.ndim), normalize_tuple(destination, x.ndim)
    if len(sources) != len(targets):
        raise ShapeError("moveaxis needs as many destinations as sources", current().origin)
    order = [a for a in range(x.ndim) if a not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return np_transpose(x, order)


@implements(np.rollaxis)
def np_rollaxis(x: Any, axis: Any, start: Any = 0) -> Array:
    """``np.rollaxis``."""
    x = FUNCTIONS[np.asarray](x)
    axis, start = normalize_axis(axis, x.ndim), known_int(start, "An axis")
    start = start + x.ndim if start < 0 else start
    return np_moveaxis(x, axis, start - 1 if axis < start else start)


# axes of size 1


def _infer_squeeze(x: Any, axis: tuple[int, ...]) -> ArrayType:
    for a in axis:
        if x.dims[a] != 1:
            current().unify(x.dims[a], 1)
    return ArrayType(x.dtype, tuple(d for a, d in enumerate(x.dims) if a not in axis))


def _axis_text(name: str) -> Any:
    def spell(args: Any, params: dict[str, Any]) -> str:
        axis = params["axis"]
        return f"{name}({{0}}, {axis[0] if len(axis) == 1 else axis})"

    return spell


@linear(
    "np.squeeze",
    lambda x, axis: np.squeeze(x, axis),
    _infer_squeeze,
    _axis_text("np.squeeze"),
    view_back=lambda base, new, axis: np_expand_dims(new, axis),
    keeps_layout=True,
    cheap=True,
    samples=cases(
        case((3, 1), axis=(1,)),
        case((1, 1), axis=(0, 1)),
        case(single(1, 0, 1), axis=(0,)),
    ),
    moves=True,
)
def squeeze(y_bar: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """The axes are put back."""
    return np_expand_dims(y_bar, axis)


@implements(np.squeeze, method="squeeze")
def np_squeeze(x: Any, axis: Any = None) -> Array:
    """``np.squeeze``; without ``axis``, whether a size is 1 must be known."""
    x = FUNCTIONS[np.asarray](x)
    if axis is not None:
        axes = normalize_tuple(axis, x.ndim)
    else:
        _settle_ones(x)
        axes = tuple(a for a, d in enumerate(x.dims) if d == 1)
    return apply(squeeze, x, axis=tuple(sorted(axes))) if axes else x


def _settle_ones(x: Array) -> None:
    arguments = current().dims.arguments
    for dim in x.dims:
        if isinstance(dim, Dim) and not (len(dim.terms) == 1 and dim.const == 0):
            raise current().needs_dims([dim], "Whether an axis has size 1")
        if isinstance(dim, Dim) and dim.terms[0][0] not in arguments:
            raise current().needs_dims([dim], "Whether an axis has size 1")


def _infer_expand_dims(x: Any, axis: tuple[int, ...]) -> ArrayType:
    rest = iter(type_of(x).dims)
    rank = type_of(x).ndim + len(axis)
    return ArrayType(type_of(x).dtype, tuple(1 if a in axis else next(rest) for a in range(rank)))


@linear(
    "np.expand_dims",
    lambda x, axis: np.expand_dims(x, axis),
    _infer_expand_dims,
    _axis_text("np.expand_dims"),
    view_back=lambda base, new, axis: np_squeeze(new, axis),
    keeps_layout=True,
    cheap=True,
    samples=cases(
        case((3, 4), axis=(1,)),
        case((), axis=(0,)),
        case((2, 0), axis=(0, 3)),
        case(single(2), axis=(1,)),
    ),
    moves=True,
)
def expand_dims(y_bar: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """The axes are taken away."""
    return np_squeeze(y_bar, axis)


@implements(np.expand_dims)
def np_expand_dims(x: Any, axis: Any) -> Array:
    """``np.expand_dims``."""
    x = FUNCTIONS[np.asarray](x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return apply(expand_dims, x, axis=tuple(sorted(normalize_tuple(axis, x.ndim + count))))


def _at_least(rank: int, *positions: tuple[int, ...]) -> Any:
    def make(*arrays: Any) -> Any:
        def one(x: Any) -> Array:
            x = FUNCTIONS[np.asarray](x)
            return np_expand_dims(x, positions[x.ndim]) if x.ndim < rank else x

        results = tuple(map(one, arrays))
        return results[0] if len(results) == 1 else results

    return make


FUNCTIONS[np.atleast_1d] = _at_least(1, (0,))
FUNCTIONS[np.atleast_2d] = _at_least(2, (0, 1), (0,))
FUNCTIONS[np.atleast_3d] = _at_least(3, (0, 1, 2), (0, 2), (2,))


class Broadcast:
    """The shape that arrays have together, as ``np.broadcast`` tells it."""

    def __init__(self, shape: tuple[Any, ...], count: int):
        self.shape, self.numiter = shape, count
        self.ndim = self.nd = len(shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for size in self.shape:
            total = total * size
        return total

    def __iter__(self) -> Any:
        raise UnsupportedFunction(
            "The elements of np.broadcast are not iterated over.",
            current().origin,
            "iterate over the arrays of np.broadcast_arrays",
        )


@implements(np.broadcast)
def np_broadcast(*arrays: Any) -> Broadcast:
    """``np.broadcast``, for the shape: the elements are not iterated over."""
    values = [FUNCTIONS[np.asarray](a) for a in arrays]
    return Broadcast(common_shape(values), len(values))
