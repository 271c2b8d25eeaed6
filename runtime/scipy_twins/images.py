"""Filters of images, as ``scipy.ndimage`` has them: correlations with weights, axis by axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin


def started(input: Any, output: Any) -> tuple[Any, Any]:
    """The image, and the dtype of the result."""
    x = np.asarray(input)
    if output is None:
        return x, x.dtype
    return x, output.dtype if isinstance(output, np.ndarray) else np.dtype(output)


def stored(found: Any, dtype: Any, output: Any) -> Any:
    """The result in its dtype, in the array that is given for it."""
    found = found.astype(dtype)
    if isinstance(output, np.ndarray):
        if output.shape != found.shape:
            raise RuntimeError("output shape not correct")
        output[...] = found
        return output
    return found


def each(given: Any, count: int) -> list[Any]:
    """One value for each axis."""
    if isinstance(given, np.ndarray) and given.ndim:
        given = [given[k] for k in range(len(given))]
    if not isinstance(given, (list, tuple)):
        return [given] * count
    if len(given) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return list(given)


def axes_of(axes: Any, rank: int) -> list[int]:
    """The axes that are filtered."""
    if axes is None:
        return list(range(rank))
    chosen = [axes] if isinstance(axes, int) else list(axes)
    for a in chosen:
        if a < -rank or a >= rank:
            raise ValueError(f"specified axis: {a} is out of range")
    chosen = [a % rank for a in chosen]
    if len(set(chosen)) != len(chosen):
        raise ValueError("axes must be unique")
    return chosen


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
    if radius is not None and (not isinstance(radius, int) or radius < 0):
        raise ValueError("Radius must be a nonnegative integer.")
    weights = _gaussian_weights(sigma, order, size)[::-1]
    return ndimage.correlate1d(input, weights, axis, output, mode, cval, 0)


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
    """Along each axis that has a width, weighted by a Gaussian or its derivative."""
    x, dtype = started(input, output)
    chosen = axes_of(axes, x.ndim)
    given = [each(v, len(chosen)) for v in (sigma, order, mode, radius)]
    for k, axis in enumerate(chosen):
        s, o, m, r = given[0][k], given[1][k], given[2][k], given[3][k]
        if s > 1e-15:
            x = gaussian_filter1d(x, s, axis, o, dtype, m, cval, truncate, radius=r)
    return stored(x, dtype, output)


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
    x, dtype = started(input, output)
    total = ndimage.correlate1d(x, np.ones(size), axis, np.float64, mode, cval, origin)
    return stored(total / size, dtype, output)


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
    x, dtype = started(input, output)
    chosen = axes_of(axes, x.ndim)
    given = [each(v, len(chosen)) for v in (size, mode, origin)]
    for k, axis in enumerate(chosen):
        if given[0][k] > 1:
            x = uniform_filter1d(x, given[0][k], axis, dtype, given[1][k], cval, given[2][k])
    return stored(x, dtype, output)


def _slope(input: Any, axis: int, output: Any, mode: Any, cval: Any, across: list[float]) -> Any:
    """Differences along one axis, smoothed along the others."""
    from scipy import ndimage

    x, dtype = started(input, output)
    axis = axes_of(axis, x.ndim)[0]
    modes = each(mode, x.ndim)
    found = ndimage.correlate1d(x, [-1, 0, 1], axis, dtype, modes[axis], cval, 0)
    for other in range(x.ndim):
        if other != axis:
            found = ndimage.correlate1d(found, across, other, dtype, modes[other], cval, 0)
    return stored(found, dtype, output)


@twin("scipy.ndimage", "sobel")
def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel's slope along an axis."""
    return _slope(input, axis, output, mode, cval, [1, 2, 1])


@twin("scipy.ndimage", "prewitt")
def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Prewitt's slope along an axis."""
    return _slope(input, axis, output, mode, cval, [1, 1, 1])


def summed(
    x: Any, dtype: Any, axes: Any, mode: Any, along: Callable[[Any, int, str, Any], Any]
) -> Any:
    """The sum of a function of the image, each axis, its mode and the dtype of the result."""
    chosen = axes_of(axes, x.ndim)
    modes = each(mode, len(chosen))
    parts = [along(x, axis, modes[k], dtype) for k, axis in enumerate(chosen)]
    return sum(parts[1:], parts[0]) if parts else x


@twin("scipy.ndimage", "laplace")
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """The sum of second differences."""
    from scipy import ndimage

    def second(x: Any, axis: int, how: str, dtype: Any) -> Any:
        return ndimage.correlate1d(x, [1, -2, 1], axis, dtype, how, cval, 0)

    x, dtype = started(input, output)
    return stored(summed(x, dtype, axes, mode, second), dtype, output)


def _smoothed(order: int, sigma: Any, cval: Any, given: Any) -> Any:
    """A function of an image and an axis: its derivative along that, by Gaussians along all."""

    def along(x: Any, axis: int, mode: str, dtype: Any) -> Any:
        orders = [0] * x.ndim
        orders[axis] = order
        return gaussian_filter(x, sigma, orders, dtype, mode, cval, **given)

    return along


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
    x, dtype = started(input, output)
    chosen = axes_of(axes, x.ndim)
    sigmas = each(sigma, len(chosen))
    if len(chosen) < x.ndim:  # no smoothing along the others
        sigmas = [0] * x.ndim
        for a, s in zip(chosen, each(sigma, len(chosen)), strict=True):
            sigmas[a] = s
    along = _smoothed(2, sigmas, cval, kwargs)
    return stored(summed(x, dtype, axes, mode, along), dtype, output)


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
    along = _smoothed(1, sigma, cval, kwargs)

    def squared(x: Any, axis: int, how: str, dtype: Any) -> Any:
        slope = along(x, axis, how, dtype)
        return slope * slope

    x, dtype = started(input, output)
    if not axes_of(axes, x.ndim):
        return stored(x, dtype, output)
    return stored(np.sqrt(summed(x, dtype, axes, mode, squared)), dtype, output)


# filters of a Fourier transform


def _by_frequencies(
    input: Any, given: Any, n: int, axis: int, output: Any, usual: Any, of: Callable[..., Any]
) -> Any:
    """A transform times a function of a number and the frequencies along each axis.

    Along ``axis`` it is that of ``n`` real numbers, unless n is negative.
    """
    x = np.asarray(input)
    dtype = started(x, output)[1] if output is not None else usual(x.dtype)
    axis, numbers = axes_of(axis, x.ndim)[0], each(given, x.ndim)
    for k in range(x.ndim):
        size = x.shape[k]
        places = np.fft.fftfreq(size) if n < 0 or k != axis else np.arange(size) / n
        shape = [1] * x.ndim
        shape[k] = -1
        x = x * np.reshape(of(numbers[k], places), shape)
    return stored(x, dtype, output)


def _kept(dtype: Any) -> Any:
    return dtype if dtype in (np.complex64, np.complex128, np.float32) else np.dtype(np.float64)


def _complex(dtype: Any) -> Any:
    return dtype if dtype.kind == "c" else np.dtype(np.complex128)


@twin("scipy.ndimage", "fourier_gaussian")
def fourier_gaussian(
    input: Any, sigma: Any, n: int = -1, axis: int = -1, output: Any = None
) -> Any:
    """A transform times that of a Gaussian."""
    return _by_frequencies(
        *(input, sigma, n, axis, output, _kept),
        lambda width, place: np.exp(-2.0 * (np.pi * width * place) ** 2),
    )


@twin("scipy.ndimage", "fourier_uniform")
def fourier_uniform(input: Any, size: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """A transform times that of a box."""
    return _by_frequencies(
        *(input, size, n, axis, output, _kept), lambda width, place: np.sinc(width * place)
    )


@twin("scipy.ndimage", "fourier_shift")
def fourier_shift(input: Any, shift: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """The transform of a moved image."""
    return _by_frequencies(
        *(input, shift, n, axis, output, _complex),
        lambda step, place: np.exp(-2j * np.pi * step * place),
    )
