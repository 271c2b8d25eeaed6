"""The rules of SciPy's filters: convolutions, correlations and recurrences along axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.primitives import scipy_convolutions, scipy_images, scipy_recurrences
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, union
from calque.transpiler.sparsity.rules import Question, Shape, accumulated, like, reaches

_MANY = 8  # sets that are put together at a time


@reaches(
    scipy_convolutions.convolve,
    scipy_convolutions.fftconvolve,
    scipy_convolutions.oaconvolve,
    scipy_convolutions.convolve2d,
)
def _convolve(q: Question) -> ReachedInputs:
    """Element i is made of those elements whose places add up to i, which modes cut."""
    first, second = (np.shape(like(a)) for a in q.operands)
    axes = q.params.get("axes", tuple(range(len(first))))
    full = tuple(
        m + n - 1 if k in axes else max(m, n)
        for k, (m, n) in enumerate(zip(first, second, strict=True))
    )
    sizes = ((q.reach(0), q.operands[1], second), (q.reach(1), q.operands[0], first))
    shifted = (
        x.moved(_shifted(shift, full, axes))
        for x, other, shape in sizes
        if not x.is_empty
        for shift in _shifts(other, shape, axes)
    )
    start = [0] * len(full)
    for k in axes:
        if q.params["mode"] == "same":
            start[k] = (full[k] - q.shapes[0][k]) // 2
        elif q.params["mode"] == "valid":
            start[k] = min(first[k], second[k]) - 1
    part = tuple(slice(s, s + n) for s, n in zip(start, q.shapes[0], strict=True))
    return _together(shifted, full, q.inputs).moved(lambda plane: plane[part])


def _shifts(kernel: Any, shape: Shape, axes: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """By how much a kernel shifts along these axes, where it is not known to be zero."""
    every = itertools.product(*(range(shape[k]) for k in axes))
    if isinstance(kernel, ReachedInputs):
        return every
    others = tuple(k for k in range(len(shape)) if k not in axes)
    used = np.any(np.asarray(kernel) != 0, axis=others)
    return (shift for shift in every if used[shift])


def _shifted(shift: Sequence[int], shape: Shape, axes: Sequence[int]) -> Callable[[Any], Any]:
    """Return the function that puts an array behind zeros, and others behind it."""

    def moved(plane: Any) -> Any:
        sides = [(0, 0)] * plane.ndim
        for k, n in zip(axes, shift, strict=True):
            sides[k] = (n, shape[k] - n - plane.shape[k])
        return np.broadcast_to(np.pad(plane, sides), shape)

    return moved


def _together(parts: Iterable[ReachedInputs], shape: Shape, inputs: int) -> ReachedInputs:
    """The union of many sets, a few at a time."""
    found = [none(shape, inputs)]
    for part in parts:
        found.append(part)
        if len(found) > _MANY:
            found = [union(found, shape)]
    return union(found, shape)


@reaches(scipy_images.correlate1d)
def _correlate1d(q: Question) -> ReachedInputs:
    """Element i is made of those around it, which the mode continues beyond the ends."""
    x, weights, shape = q.reach(0), q.operands[1], q.shapes[0]
    axis, mode, n = q.params["axis"], q.params["mode"], shape[q.params["axis"]]
    count = np.shape(like(weights))[0]
    first = count // 2 + q.params["origin"]
    is_known = not isinstance(weights, ReachedInputs)
    used = np.flatnonzero(weights).tolist() if is_known else range(count)

    def seen(k: int) -> ReachedInputs:
        places = np.arange(n) + k - first
        inside = (places >= 0) & (places < n)
        if mode in scipy_images.PLACES:
            inside, places = np.ones(n, bool), scipy_images.PLACES[mode](places, n)
        keep = np.expand_dims(inside, [a for a in range(len(shape)) if a != axis])
        places = np.where(inside, places, 0)
        return x.moved(lambda plane: np.where(keep, np.take(plane, places, axis), 0))

    parts = [] if x.is_empty or not x.size else [seen(k) for k in used]
    every = ReachedInputs((), q.inputs, (), None, q.reach(1).all_of_them())
    return union([_together(parts, shape, q.inputs), every], shape)


@reaches(scipy_recurrences.lfilter)
def _lfilter(q: Question) -> ReachedInputs:
    """Element i is made of those before it: of a few, where the filter does not feed back."""
    b, a, axis, shape = q.operands[0], q.operands[1], q.params["axis"], q.shapes[0]
    x = q.reach(2)
    coefficients = union([q.reach(k).over([0]) for k in (0, 1)], ())
    feeds_back = isinstance(a, ReachedInputs) or bool(np.any(np.asarray(a)[1:]))
    if feeds_back or isinstance(b, ReachedInputs):
        return union([accumulated(x, axis), coefficients], shape)

    def behind(k: int) -> ReachedInputs:
        sides = [(k if n == axis else 0, 0) for n in range(len(shape))]
        part = tuple(slice(0, n) for n in shape)
        return x.moved(lambda plane: np.pad(plane, sides)[part])

    delays = np.flatnonzero(np.asarray(b)).tolist()
    return union([_together(map(behind, delays), shape, q.inputs), coefficients], shape)
