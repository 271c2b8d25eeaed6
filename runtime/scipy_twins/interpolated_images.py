"""Images between their elements, as ``scipy.ndimage`` has them: splines of orders 0 to 5.

Splines follow Thevenaz, Blu and Unser (IEEE Trans. Med. Imaging 19, 739, 2000). The derivative by
a place is that of the polynomial there; by the image it adds to the elements that were read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from calque.runtime.api import vmap
from calque.runtime.scipy_twins.images import each, started, stored
from calque.transpiler.frontend.library.scipy_twins import twin
from calque.transpiler.frontend.library.twin_questions import (
    known_count,
    known_numbers,
    read_by_python,
)

_PADDED = 12  # elements that SciPy adds beyond an image before it filters
_MODES = "constant grid-constant nearest mirror reflect grid-mirror wrap grid-wrap".split()


@twin("scipy.ndimage", "spline_filter")
def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The coefficients of the spline through the elements of an image."""
    from scipy import ndimage

    if order < 2 or order > 5:
        raise RuntimeError("spline order not supported")
    x, dtype = started(input, output)
    for axis in range(x.ndim):
        x = ndimage.spline_filter1d(x, order, axis, dtype, mode)
    return stored(x, dtype, output)


def _coefficients(x: Any, order: int, mode: str, cval: Any, prefilter: bool) -> tuple[Any, int]:
    """The coefficients of an image's spline, and how many were added before the image."""
    if order < 0 or order > 5:
        raise RuntimeError("spline order not supported")
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")
    if x.dtype.kind == "c":
        raise TypeError("take the real and the imaginary part of the image one after the other")
    x = x.astype(np.float64)
    if not prefilter or order < 2:
        return x, 0
    if mode == "nearest":
        return spline_filter(np.pad(x, _PADDED, mode="edge"), order, np.float64, mode), _PADDED
    if mode == "grid-constant":
        x = np.pad(x, _PADDED, mode="constant", constant_values=cval)
        return spline_filter(x, order, np.float64, mode), _PADDED
    return spline_filter(x, order, np.float64, mode), 0


def _inside(place: Any, n: Any, mode: str) -> Any:
    """A place of the image that serves for one beyond it."""
    if mode in ("reflect", "grid-mirror"):
        place = np.mod(place + 0.5, 2 * n)
        return np.minimum(place, 2 * n - place) - 0.5
    if mode == "mirror":
        period = np.maximum(2 * n - 2, 1)
        place = np.mod(place, period)
        return np.minimum(place, period - place)
    if mode == "wrap":
        period = np.maximum(n - 1, 1)
        beyond = np.where(place < 0, np.trunc(-place / period) + 1, -np.trunc(place / period))
        return np.where((place < 0) | (place > n - 1), place + period * beyond, place)
    if mode == "grid-wrap":
        return np.mod(place, n)
    return place


def _element(index: Any, n: Any, mode: str) -> Any:
    """The element that serves for one beyond the coefficients."""
    if mode in ("reflect", "grid-mirror"):
        index = np.mod(index, 2 * n)
        return np.minimum(index, 2 * n - 1 - index)
    if mode == "grid-wrap":
        return np.mod(index, n)
    if mode in ("nearest", "grid-constant"):
        return np.clip(index, 0, n - 1)
    period = np.maximum(2 * n - 2, 1)
    index = np.mod(index, period)
    return np.minimum(index, period - index)


def _weights(t: Any, order: int) -> list[Any]:
    """The uniform B-splines that are not zero at a place, by de Boor's recurrence."""
    weights = [1.0 + 0.0 * t]
    for k in range(1, order + 1):
        zero = [0.0 * t]
        right, left = weights + zero, zero + weights
        weights = [((j + 1 - t) * right[j] + (t + (k - j)) * left[j]) / k for j in range(k + 1)]
    return weights


def interpolated(x: Any, places: Any, order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """The spline through an image at places, one array of places for each axis."""
    found, before = _coefficients(x, order, mode, cval, prefilter)
    indices, weights, absent = [], [], []
    for axis in range(x.ndim):
        n = found.shape[axis]
        place = _inside(places[axis] + before, n, mode)
        absent.append((place < 0) | (place > n - 1))
        if mode == "constant":
            place = np.where(absent[axis], 0.0, place)
        half = 0.5 if order % 2 == 0 else 0.0
        first = np.floor(place + half)
        weights.append(_weights(place + half - first, order))
        start = first.astype(np.int64) - order // 2
        indices.append([start + k for k in range(order + 1)])
    total: Any = 0.0
    for chosen in product(range(order + 1), repeat=x.ndim):
        own = [indices[axis][k] for axis, k in enumerate(chosen)]
        part = found[tuple([_element(i, found.shape[a], mode) for a, i in enumerate(own)])]
        if mode == "grid-constant":
            for axis, index in enumerate(own):
                part = np.where((index < 0) | (index >= found.shape[axis]), cval, part)
        for axis, k in enumerate(chosen):
            part = part * weights[axis][k]
        total = total + part
    if mode == "constant":
        for missing in absent:
            total = np.where(missing, cval, total)
    return total


def _finished(found: Any, x: Any, output: Any) -> Any:
    """The result in its dtype: integers are rounded, halves away from zero, and within it."""
    _, dtype = started(x, output)
    if dtype.kind in "iu":
        found = np.where(found > 0, np.floor(found + 0.5), np.ceil(found - 0.5))
        if dtype.itemsize < 8:
            found = np.clip(found, float(np.iinfo(dtype).min), float(np.iinfo(dtype).max))
        elif dtype.kind == "u":
            found = np.maximum(found, 0.0)
    elif dtype.kind == "b":
        found = np.trunc(found) != 0
    return stored(found, dtype, output)


@twin("scipy.ndimage", "map_coordinates")
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image at places: the first axis of ``coordinates`` is that of the image's axes."""
    x, coordinates = np.asarray(input), np.asarray(coordinates)
    if x.ndim < 1 or coordinates.ndim < 2:
        raise RuntimeError("input and output rank must be > 0")
    if coordinates.shape[0] != x.ndim:
        raise RuntimeError("invalid shape for coordinate array")
    places = [coordinates[k] for k in range(x.ndim)]
    return _finished(interpolated(x, places, order, mode, cval, prefilter), x, output)


def _grid(shape: Any) -> list[Any]:
    """The index along each axis, of a shape that broadcasts with the others."""
    rank = len(shape)
    return [
        np.reshape(np.arange(n) * 1.0, [1] * k + [-1] + [1] * (rank - 1 - k))
        for k, n in enumerate(shape)
    ]


@twin("scipy.ndimage", "shift")
def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image, moved."""
    x = np.asarray(input)
    steps = each(shift, x.ndim)
    places = [index - steps[k] for k, index in enumerate(_grid(x.shape))]
    return _finished(interpolated(x, places, order, mode, cval, prefilter), x, output)


@twin("scipy.ndimage", "affine_transform")
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image at ``matrix @ index + offset`` for each index of the result."""
    x, matrix = np.asarray(input), np.asarray(matrix) * 1.0
    rank = x.ndim
    if matrix.ndim not in (1, 2):
        raise RuntimeError("no proper affine matrix provided")
    if matrix.ndim == 2 and matrix.shape[1] == rank + 1 and matrix.shape[0] in (rank, rank + 1):
        offset, matrix = matrix[:rank, rank], matrix[:rank, :rank]
    if matrix.shape[0] != rank:
        raise RuntimeError("affine matrix has wrong number of rows")
    shape = output_shape
    if shape is None:
        shape = output.shape if isinstance(output, np.ndarray) else x.shape
    if matrix.ndim == 2 and matrix.shape[1] != len(shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    grid = _grid(shape)
    offsets = each(offset, rank)
    places = []
    for k in range(rank):
        if matrix.ndim == 1:
            places.append((grid[k] + offsets[k] / matrix[k]) * matrix[k])
            continue
        place = offsets[k]
        for j in range(len(shape)):
            place = place + grid[j] * matrix[k, j]
        places.append(place)
    return _finished(interpolated(x, places, order, mode, cval, prefilter), x, output)


@twin("scipy.ndimage", "zoom")
def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """The image with other numbers of elements."""
    x = np.asarray(input)
    factors = each(zoom, x.ndim)
    shape = [round(n * z) for n, z in zip(x.shape, factors)]
    places = []
    for k, index in enumerate(_grid(shape)):
        if grid_mode:
            places.append((index + 0.5) * (x.shape[k] / shape[k]) - 0.5)
        else:
            places.append(index * ((x.shape[k] - 1) / np.maximum(shape[k] - 1, 1)))
    return _finished(interpolated(x, places, order, mode, cval, prefilter), x, output)


@read_by_python
def _turned_shape(cosine: Any, sine: Any, height: int, width: int) -> list[int]:
    """The sizes of the rectangle that holds a turned one."""
    corners = np.array([[cosine, sine], [-sine, cosine]]) @ np.array(
        [[0, 0, height, height], [0, width, 0, width]]
    )
    return [int(n) for n in np.ptp(corners, axis=1) + 0.5]


def _plane_axes(axes: Any, rank: int) -> list[int]:
    """The two axes of a plane, in order."""
    if rank < 2:
        raise ValueError("input array should be at least 2D")
    if len(axes) != 2:
        raise ValueError("axes should contain exactly two values")
    for axis in axes:
        if axis < -rank or axis >= rank:
            raise ValueError("invalid rotation plane specified")
    return sorted([axes[0] % rank, axes[1] % rank])


@twin("scipy.ndimage", "rotate")
def rotate(
    input: Any,
    angle: Any,
    axes: Any = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The image turned in a plane by an angle in degrees; with ``reshape`` all of it is kept."""
    from scipy import special

    x, dtype = started(input, output)
    first, second = _plane_axes(axes, x.ndim)
    turned = np.moveaxis(x, (first, second), (-2, -1))
    plane = turned.shape[-2:]
    cosine, sine = special.cosdg(angle), special.sindg(angle)
    shape = list(plane)
    if reshape:
        if known_numbers(angle) is None:
            raise NotImplementedError(
                "scipy.ndimage.rotate: the angle decides the result's size; write reshape=False"
            )
        sizes = [known_count(n, "The size of an image that is turned") for n in plane]
        shape = _turned_shape(known_numbers(cosine), known_numbers(sine), *sizes)
    matrix = np.array([[cosine, sine], [-sine, cosine]])
    middle = [(n - 1) / 2 for n in shape]
    offset = [
        (plane[k] - 1) / 2 - (matrix[k, 0] * middle[0] + matrix[k, 1] * middle[1]) for k in (0, 1)
    ]

    def one(of_plane: Any) -> Any:
        return affine_transform(
            of_plane, matrix, offset, shape, dtype, order, mode, cval, prefilter
        )

    if x.ndim == 2:
        return stored(one(turned), dtype, output)
    planes = vmap(one)(np.reshape(turned, (-1, *plane)))
    whole = np.reshape(planes, (*turned.shape[:-2], *shape))
    return stored(np.moveaxis(whole, (-2, -1), (first, second)), dtype, output)


@twin("scipy.ndimage", "geometric_transform")
def geometric_transform(
    input: Any,
    mapping: Callable[..., Any],
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    extra_arguments: Any = (),
    extra_keywords: Any = None,
) -> Any:
    """The image at the place that a function gives for each index of the result."""
    x, named = np.asarray(input), {} if extra_keywords is None else extra_keywords
    shape = x.shape if output_shape is None else tuple(output_shape)
    grid = [np.reshape(np.broadcast_to(i, shape), (-1,)) for i in _grid(shape)]
    places = vmap(lambda *index: mapping(index, *extra_arguments, **named))(*grid)
    placed = [np.reshape(place, shape) for place in places]
    return _finished(interpolated(x, placed, order, mode, cval, prefilter), x, output)
