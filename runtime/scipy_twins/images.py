"""Filters of images, as ``scipy.ndimage`` has them: correlations with weights, axis by axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin


def started(input: Any, output: Any) -> Any:
    """The image in the dtype of the result."""
    x = np.asarray(input)
    if output is None:
        return x
    return x.astype(output.dtype if isinstance(output, np.ndarray) else output)


def stored(found: Any, output: Any) -> Any:
    """The result, in the array that is given for it."""
    if isinstance(output, np.ndarray):
        output[...] = found
        return output
    return found


def each(given: Any, count: int) -> list[Any]:
    """One value for each axis."""
    if isinstance(given, (list, tuple)):
        if len(given) != count:
            raise RuntimeError("sequence argument must have length equal to input rank")
        return list(given)
    return [given] * count


def axes_of(axes: Any, rank: int) -> list[int]:
    """The axes that are filtered."""
    if axes is None:
        return list(range(rank))
    return [a % rank for a in ([axes] if isinstance(axes, int) else axes)]


def _gaussian_weights(sigma: Any, order: int, radius: Any) -> Any:
    """The derivative of a Gaussian, sampled: a polynomial times it, by Hermite's recurrence."""
    if order < 0:
        raise ValueError("order must be non-negative")
    places = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 / (sigma * sigma) * places**2)
    weights = weights / np.sum(weights)
    factors = [1.0]
    for _ in range(order):
        slopes = [k * f for k, f in enumerate(factors)][1:] + [0.0, 0.0]
        moved = [0.0] + [-f / (sigma * sigma) for f in factors]
        factors = [a + b for a, b in zip(slopes, moved)]
    if order == 0:
        return weights
    return sum([f * places**k for k, f in enumerate(factors)]) * weights


@twin("scipy.ndimage", "gaussian_filter1d")
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    *,
    radius: Any = None,
) -> Any:
    """Along an axis, weighted by a Gaussian or its derivative."""
    from scipy import ndimage

    size = int(truncate * float(sigma) + 0.5) if radius is None else radius
    weights = _gaussian_weights(sigma, order, size)[::-1]
    x = started(input, output)
    return stored(ndimage.correlate1d(x, weights, axis, None, mode, cval, 0), output)


@twin("scipy.ndimage", "gaussian_filter")
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """Along each axis, weighted by a Gaussian or its derivative."""
    x = started(input, output)
    chosen = axes_of(axes, x.ndim)
    given = [each(v, len(chosen)) for v in (sigma, order, mode, radius)]
    for k, axis in enumerate(chosen):
        s, o, m, r = given[0][k], given[1][k], given[2][k], given[3][k]
        x = gaussian_filter1d(x, s, axis, o, None, m, cval, truncate, radius=r)
    return stored(x, output)


@twin("scipy.ndimage", "uniform_filter1d")
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The mean of neighbours along an axis."""
    from scipy import ndimage

    if size < 1:
        raise RuntimeError("incorrect filter size")
    x = started(input, output)
    weights = np.full(size, 1.0 / size)
    return stored(ndimage.correlate1d(x, weights, axis, None, mode, cval, origin), output)


@twin("scipy.ndimage", "uniform_filter")
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The mean of neighbours along each axis."""
    x = started(input, output)
    chosen = axes_of(axes, x.ndim)
    given = [each(v, len(chosen)) for v in (size, mode, origin)]
    for k, axis in enumerate(chosen):
        x = uniform_filter1d(x, given[0][k], axis, None, given[1][k], cval, given[2][k])
    return stored(x, output)


def _slope(x: Any, axis: int, mode: Any, cval: Any, across: list[float]) -> Any:
    """Differences along one axis, smoothed along the others."""
    from scipy import ndimage

    axis = axis % x.ndim
    modes = each(mode, x.ndim)
    found = ndimage.correlate1d(x, [-1, 0, 1], axis, None, modes[axis], cval, 0)
    for other in range(x.ndim):
        if other != axis:
            found = ndimage.correlate1d(found, across, other, None, modes[other], cval, 0)
    return found


@twin("scipy.ndimage", "sobel")
def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel's slope along an axis."""
    return stored(_slope(started(input, output), axis, mode, cval, [1, 2, 1]), output)


@twin("scipy.ndimage", "prewitt")
def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Prewitt's slope along an axis."""
    return stored(_slope(started(input, output), axis, mode, cval, [1, 1, 1]), output)


def _summed(x: Any, axes: Any, mode: Any, along: Callable[[Any, int, str], Any]) -> Any:
    """The sum of a function of the image and each axis."""
    chosen = axes_of(axes, x.ndim)
    modes = each(mode, len(chosen))
    parts = [along(x, axis, modes[k]) for k, axis in enumerate(chosen)]
    return sum(parts[1:], parts[0])


@twin("scipy.ndimage", "laplace")
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """The sum of second differences."""
    from scipy import ndimage

    def second(x: Any, axis: int, how: str) -> Any:
        return ndimage.correlate1d(x, [1, -2, 1], axis, None, how, cval, 0)

    return stored(_summed(started(input, output), axes, mode, second), output)


def _of_order(x: Any, sigma: Any, axis: int, order: int, mode: str, cval: Any, given: Any) -> Any:
    orders = [0] * x.ndim
    orders[axis] = order
    return gaussian_filter(x, sigma, orders, None, mode, cval, **given)


@twin("scipy.ndimage", "gaussian_laplace")
def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Any:
    """The sum of second derivatives of Gaussians."""

    def second(x: Any, axis: int, how: str) -> Any:
        return _of_order(x, sigma, axis, 2, how, cval, kwargs)

    return stored(_summed(started(input, output), axes, mode, second), output)


@twin("scipy.ndimage", "gaussian_gradient_magnitude")
def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Any:
    """The length of the gradient by derivatives of Gaussians."""

    def squared(x: Any, axis: int, how: str) -> Any:
        slope = _of_order(x, sigma, axis, 1, how, cval, kwargs)
        return slope * slope

    return stored(np.sqrt(_summed(started(input, output), axes, mode, squared)), output)
