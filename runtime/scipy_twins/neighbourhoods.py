"""Filters of ``scipy.ndimage`` that see the neighbours of an element in all directions at once.

Each is a function of windows: the neighbours of every element, the image continued beyond its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.scipy_twins.images import axes_of, each, started, stored
from calque.transpiler.frontend.library.scipy_twins import read_source, twin
from calque.transpiler.frontend.library.twin_questions import (
    known_count,
    known_numbers,
    read_by_python,
)

read_source(
    "scipy.ndimage",
    *("grey_opening", "grey_closing", "morphological_gradient", "morphological_laplace"),
)
_MODES = "reflect grid-mirror constant grid-constant nearest mirror wrap grid-wrap".split()


def _place(i: Any, n: Any, mode: str) -> Any:
    """The element that serves for one beyond the ends."""
    if mode in ("reflect", "grid-mirror"):
        i = np.mod(i, 2 * n)
        return np.minimum(i, 2 * n - 1 - i)
    if mode == "mirror":
        period = np.maximum(2 * n - 2, 1)
        i = np.mod(i, period)
        return np.minimum(i, period - i)
    if mode == "nearest":
        return np.clip(i, 0, n - 1)
    return np.mod(i, n)


@read_by_python
def _seen_beyond(size: int, origin: int, mode: str) -> tuple[int, int]:
    """The numbers of elements that a window sees before and after the one that it is for."""
    before = size // 2 + origin
    if before < 0 or before >= size:
        raise ValueError("invalid origin")
    if mode not in _MODES:
        raise RuntimeError("boundary mode not supported")
    return before, size - 1 - before


def _continued(x: Any, axis: int, beyond: tuple[int, int], mode: str, cval: Any) -> Any:
    """The image with the elements before and after an axis that windows see."""
    (before, after), n = beyond, x.shape[axis]
    if before == 0 and after == 0:
        return x
    if mode in ("constant", "grid-constant"):
        widths = [(0, 0)] * x.ndim
        widths[axis] = (before, after)
        return np.pad(x, widths, mode="constant", constant_values=cval)
    return np.take(x, _place(np.arange(-before, n + after), n, mode), axis=axis)


def _whole(given: Any, axes: list[int], rank: int, usual: Any) -> list[Any]:
    """One value for each axis of the image: those that are filtered have their own."""
    found = [usual] * rank
    for axis, value in zip(axes, each(given, len(axes)), strict=True):
        found[axis] = value
    return found


def _padded(x: Any, sizes: Any, axes: list[int], mode: Any, cval: Any, origin: Any) -> Any:
    """The image continued in all directions."""
    modes, origins = _whole(mode, axes, x.ndim, "reflect"), _whole(origin, axes, x.ndim, 0)
    ends = [_seen_beyond(*given) for given in zip(sizes, origins, modes, strict=True)]
    for axis in range(x.ndim):
        x = _continued(x, axis, ends[axis], modes[axis], cval)
    return x


def real_image(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    return x


@read_by_python
def _other_axes(axes: list[int], rank: int) -> tuple[int, ...]:
    """The axes of an image that are not filtered."""
    return tuple(k for k in range(rank) if k not in axes)


def _filled(weights: Any, axes: list[int], rank: int) -> Any:
    """Weights, or a footprint, with an axis of one element for each that is not filtered."""
    if weights.ndim != len(axes):
        raise RuntimeError("filter weights array has incorrect shape.")
    return np.expand_dims(weights, _other_axes(axes, rank))


# weighted sums


@twin("scipy.ndimage", "correlate")
def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The sum of the neighbours times weights, in double precision as SciPy sums them."""
    from scipy import signal

    x, dtype = started(input, output)
    chosen = axes_of(axes, x.ndim)
    weights = _filled(np.asarray(weights), chosen, x.ndim)
    if x.dtype.kind == "c" or weights.dtype.kind == "c":
        raise NotImplementedError(
            "scipy.ndimage.correlate of complex numbers: call it with the real and imaginary parts"
        )
    sizes = [known_count(n, "The size of a filter") for n in weights.shape]
    padded = _padded(x.astype(np.float64), sizes, chosen, mode, cval, origin)
    found = signal.correlate(padded, weights.astype(np.float64), "valid", "direct")
    return stored(found, dtype, output)


@twin("scipy.ndimage", "convolve")
def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The sum of the neighbours times weights that are turned around."""
    w = np.asarray(weights)
    sizes = [known_count(n, "The size of a filter") for n in w.shape]
    origins = [-o - (n % 2 == 0) for o, n in zip(each(origin, w.ndim), sizes, strict=True)]
    return correlate(input, np.flip(w), output, mode, cval, origins, axes=axes)


# the smallest, the largest, and those between


@read_by_python
def _whole_footprint(size: Any, count: int) -> Any:
    """All neighbours of a size."""
    if size is None:
        raise RuntimeError("no footprint or filter size provided")
    sizes = [size] * count if np.ndim(size) == 0 else list(size)
    if len(sizes) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return np.ones([int(n) for n in sizes], bool)


@read_by_python
def _chosen(footprint: Any, axes: list[int], rank: int) -> tuple[Any, Any]:
    """The sizes of windows, and the places in them that are looked at, unless all are."""
    footprint = np.asarray(footprint, bool)
    if footprint.ndim != len(axes):
        raise RuntimeError("filter footprint array has incorrect shape.")
    if not np.any(footprint):
        raise ValueError("All-zero footprint is not supported.")
    footprint = np.expand_dims(footprint, _other_axes(axes, rank))
    return footprint.shape, None if footprint.all() else np.flatnonzero(footprint)


def looked_at(size: Any, footprint: Any, axes: list[int], rank: int) -> tuple[Any, Any, Any]:
    """The sizes of windows, the places in them that are looked at, and which these are.

    The places, where the program's text tells them, else which; None for all.
    """
    given = known_numbers(footprint)
    if footprint is None:
        given = _whole_footprint(known_numbers(size), len(axes))
    if given is not None:
        return (*_chosen(given, axes, rank), None)
    mask = _filled(np.asarray(footprint) != 0, axes, rank)
    if not np.any(mask):
        raise ValueError("All-zero footprint is not supported.")
    sizes = tuple(known_count(n, "The size of a filter") for n in mask.shape)
    return sizes, None, np.reshape(mask, (-1,))


def windows_of(
    x: Any, seen: Any, axes: list[int], mode: Any, cval: Any, origin: Any, added: Any = None
) -> Any:
    """The neighbours of each element along one axis more; ``added`` is a number for each."""
    sizes, places, _ = seen
    padded = _padded(x, sizes, axes, mode, cval, origin)
    views = np.lib.stride_tricks.sliding_window_view(padded, sizes)
    if added is not None:
        views = views + added
    views = np.reshape(views, (*x.shape, math.prod(sizes)))
    return views if places is None else views[..., places]


def _without_others(windows: Any, mask: Any, sign: int) -> Any:
    """The windows, in place of what is not looked at the smallest (sign 1) or largest number."""
    if mask is None:
        return windows
    dtype = windows.dtype
    most = np.inf if dtype.kind == "f" else np.iinfo(np.uint8 if dtype.kind == "b" else dtype).max
    least = -np.inf if dtype.kind == "f" else np.iinfo(np.uint8 if dtype.kind == "b" else dtype).min
    return np.where(mask, windows, np.asarray(least if sign > 0 else most).astype(dtype))


def _along(sign: int, x: Any, size: int, axis: int, origin: int, mode: str, cval: Any) -> Any:
    """The largest (sign 1) or the smallest of neighbours along an axis."""
    padded = _continued(x, axis, _seen_beyond(size, origin, mode), mode, cval)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=axis)
    return np.max(windows, axis=-1) if sign > 0 else np.min(windows, axis=-1)


def _extremes_along(sign: int) -> Callable[..., Any]:
    def along(
        input: Any,
        size: int,
        axis: int = -1,
        output: Any = None,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Any:
        x, dtype = started(input, output)
        if size < 1:
            raise RuntimeError("incorrect filter size")
        axis = axes_of(axis, x.ndim)[0]
        return stored(_along(sign, real_image(x), size, axis, origin, mode, cval), dtype, output)

    return along


def _extremes(sign: int) -> Callable[..., Any]:
    """A filter that takes the largest or smallest neighbour, as of SciPy's two."""

    def extremes(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        output: Any = None,
        mode: Any = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Any:
        return _extreme(sign, input, size, footprint, None, output, mode, cval, origin, axes)

    return extremes


def _extreme(
    sign: int,
    input: Any,
    size: Any,
    footprint: Any,
    structure: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
) -> Any:
    """The largest neighbour plus a structure, or the smallest one less a structure."""
    x, dtype = started(input, output)
    x, chosen = real_image(x), axes_of(axes, x.ndim)
    added = None
    if structure is not None:
        added = sign * _filled(np.asarray(structure).astype(np.float64), chosen, x.ndim)
        footprint = [[True]] if footprint is None else footprint
        footprint = np.broadcast_to(footprint, np.shape(structure))
    if footprint is None:
        modes, origins = each(mode, len(chosen)), each(origin, len(chosen))
        for k, count in enumerate(each(size, len(chosen))):
            if count is None:
                raise RuntimeError("no footprint provided")
            if count > 1:
                x = _along(sign, x, int(count), chosen[k], origins[k], modes[k], cval)
                x = x.astype(dtype)
        return stored(x, dtype, output)
    seen = looked_at(None, footprint, chosen, x.ndim)
    windows = windows_of(x, seen, chosen, mode, cval, origin, added)
    windows = _without_others(windows, seen[2], sign)
    return stored(np.max(windows, -1) if sign > 0 else np.min(windows, -1), dtype, output)


for _sign, _name in ((1, "maximum_filter"), (-1, "minimum_filter")):
    twin("scipy.ndimage", _name)(_extremes(_sign))
    twin("scipy.ndimage", f"{_name}1d")(_extremes_along(_sign))


@twin("scipy.ndimage", "grey_erosion")
def grey_erosion(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The smallest of neighbours less a structure."""
    if size is None and footprint is None and structure is None:
        raise ValueError("size, footprint, or structure must be specified")
    return _extreme(-1, input, size, footprint, structure, output, mode, cval, origin, axes)


@twin("scipy.ndimage", "grey_dilation")
def grey_dilation(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The largest of neighbours plus a structure, all turned around."""
    if size is None and footprint is None and structure is None:
        raise ValueError("size, footprint, or structure must be specified")
    count = len(axes_of(axes, np.ndim(input)))
    sizes = each(size, count)
    if structure is not None:
        structure, sizes = np.flip(structure), np.shape(structure)
    if footprint is not None:
        footprint, sizes = np.flip(footprint), np.shape(footprint)
    sizes = [known_count(n, "The size of a filter") for n in sizes]
    origins = [-o - (n % 2 == 0) for o, n in zip(each(origin, count), sizes, strict=True)]
    return _extreme(1, input, size, footprint, structure, output, mode, cval, origins, axes)


def _ranked(
    rank_of: Callable[[int], int],
    input: Any,
    size: Any,
    footprint: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
) -> Any:
    """The neighbour of a rank, which the number of neighbours decides."""
    x, dtype = started(input, output)
    chosen = axes_of(axes, x.ndim)
    seen = looked_at(size, footprint, chosen, x.ndim)
    windows = windows_of(real_image(x), seen, chosen, mode, cval, origin)
    count = windows.shape[-1] if seen[2] is None else np.sum(seen[2])
    ordered = np.sort(_without_others(windows, seen[2], -1), axis=-1)
    return stored(ordered[..., rank_of(count)], dtype, output)


@twin("scipy.ndimage", "rank_filter")
def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The neighbour of a rank."""

    def rank_of(count: int) -> int:
        found = rank + count if rank < 0 else rank
        if found < 0 or found >= count:
            raise RuntimeError("rank not within filter footprint size")
        return found

    return _ranked(rank_of, input, size, footprint, output, mode, cval, origin, axes)


@twin("scipy.ndimage", "median_filter")
def median_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The median of neighbours."""
    return _ranked(
        lambda count: count // 2, input, size, footprint, output, mode, cval, origin, axes
    )


@twin("scipy.ndimage", "percentile_filter")
def percentile_filter(
    input: Any,
    percentile: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The neighbour below which a percentage of them lies."""
    part = percentile + 100.0 if percentile < 0.0 else percentile
    if part < 0 or part > 100:
        raise RuntimeError("invalid percentile")

    def rank_of(count: int) -> int:
        return count - 1 if part == 100.0 else int(1.0 * count * part / 100.0)

    return _ranked(rank_of, input, size, footprint, output, mode, cval, origin, axes)
