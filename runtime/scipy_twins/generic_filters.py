"""Filters of ``scipy.ndimage`` by functions of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.api import vmap
from calque.runtime.scipy_twins.images import axes_of, started, stored, summed
from calque.runtime.scipy_twins.neighbourhoods import looked_at, real_image, windows_of
from calque.transpiler.frontend.library.scipy_twins import twin


def _given(extra_keywords: Any) -> Any:
    return {} if extra_keywords is None else extra_keywords


@twin("scipy.ndimage", "generic_filter")
def generic_filter(
    input: Any,
    function: Callable[..., Any],
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    extra_arguments: Any = (),
    extra_keywords: Any = None,
    *,
    axes: Any = None,
) -> Any:
    """A function of the neighbours of each element, which it gets as a vector of doubles."""
    x, dtype = started(input, output)
    chosen, named = axes_of(axes, x.ndim), _given(extra_keywords)
    seen = looked_at(size, footprint, chosen, x.ndim)
    if seen[2] is not None:
        raise NotImplementedError("generic_filter: write the footprint into the function's text")
    windows = windows_of(real_image(x).astype(np.float64), seen, chosen, mode, cval, origin)
    flat = np.reshape(windows, (-1, windows.shape[-1]))
    found = vmap(lambda near: function(near, *extra_arguments, **named))(flat)
    return stored(np.reshape(found, x.shape), dtype, output)


@twin("scipy.ndimage", "generic_laplace")
def generic_laplace(
    input: Any,
    derivative2: Callable[..., Any],
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    extra_arguments: Any = (),
    extra_keywords: Any = None,
    *,
    axes: Any = None,
) -> Any:
    """The sum of a function along each axis, such as a second difference."""
    more, named = extra_arguments, _given(extra_keywords)

    def along(x: Any, axis: int, how: str, dtype: Any) -> Any:
        return derivative2(x, axis, dtype, how, cval, *more, **named)

    x, dtype = started(input, output)
    return stored(summed(x, dtype, axes, mode, along), dtype, output)


@twin("scipy.ndimage", "generic_gradient_magnitude")
def generic_gradient_magnitude(
    input: Any,
    derivative: Callable[..., Any],
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    extra_arguments: Any = (),
    extra_keywords: Any = None,
    *,
    axes: Any = None,
) -> Any:
    """The length of a gradient, of which a function gives the part along an axis."""
    more, named = extra_arguments, _given(extra_keywords)

    def squared(x: Any, axis: int, how: str, dtype: Any) -> Any:
        slope = derivative(x, axis, dtype, how, cval, *more, **named)
        return slope * slope

    x, dtype = started(input, output)
    if not axes_of(axes, x.ndim):
        return stored(x, dtype, output)
    return stored(np.sqrt(summed(x, dtype, axes, mode, squared)), dtype, output)
