"""Functions of numbers and vectors that kernels call, where Numba lacks them or differs."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable


@register_jitable
def maximum(a, b):
    """The larger number; NaN if one is NaN."""
    return a if a >= b or a != a else b


@register_jitable
def minimum(a, b):
    """The smaller number; NaN if one is NaN."""
    return a if a <= b or a != a else b


@register_jitable
def clipped(x, low, high):
    """A float between known bounds; what is equal to one stays, with its sign of zero."""
    kind = type(x)
    return kind(low) if x < low else kind(high) if x > high else x


@register_jitable
def heaviside(x, middle):
    """1 right of zero, 0 left of it, ``middle`` at it."""
    kind = type(x)
    return kind(0) if x < 0 else kind(1) if x > 0 else kind(middle) if x == 0 else x


@register_jitable
def sign(x):
    """-1, 0 or 1; NaN for NaN."""
    kind = type(x)
    return kind(1) if x > 0 else kind(-1) if x < 0 else kind(0) if x == 0 else x


@register_jitable
def fmod(a, b):
    """The remainder with the sign of ``a``."""
    return np.fmod(a, b)


@register_jitable
def divide(a, b):
    """``a / b`` of Python numbers: ZeroDivisionError for zero."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return a / b


@register_jitable
def running_sum(x):
    """``np.cumsum`` of a vector; the first is its first element, whatever its sign."""
    found = x.copy()
    for k in range(1, x.size):
        found[k] += found[k - 1]
    return found


@register_jitable
def running_max(x):
    """``np.maximum.accumulate`` of a vector: NaN from the first one on."""
    found = x.copy()
    for k in range(1, x.size):
        found[k] = maximum(found[k - 1], found[k])
    return found


@register_jitable
def running_min(x):
    """``np.minimum.accumulate`` of a vector: NaN from the first one on."""
    found = x.copy()
    for k in range(1, x.size):
        found[k] = minimum(found[k - 1], found[k])
    return found


@register_jitable
def array_max(x):
    """The largest number of a vector; NaN if one is NaN."""
    if x.size == 0:
        raise ValueError("zero-size array to reduction operation maximum")
    found = x[0]
    for k in range(1, x.size):
        found = maximum(found, x[k])
    return found


@register_jitable
def array_min(x):
    """The smallest number of a vector; NaN if one is NaN."""
    if x.size == 0:
        raise ValueError("zero-size array to reduction operation minimum")
    found = x[0]
    for k in range(1, x.size):
        found = minimum(found, x[k])
    return found


@register_jitable
def array_median(x):
    """The median of a vector; NaN if one is NaN, or there is none."""
    found = np.sort(x)
    half = x.size // 2
    if x.size == 0 or np.isnan(found[-1]):
        return np.nan
    return found[half] * 1.0 if x.size % 2 else (found[half - 1] + found[half]) * 0.5


@register_jitable
def array_quantile(x, q):
    """The number of which a part ``q`` of a vector's are smaller; NaN if one is NaN."""
    if not 0.0 <= q <= 1.0:
        raise ValueError("Quantiles must be in the range [0, 1]")
    if x.size == 0:
        raise IndexError("index -1 is out of bounds for axis 0 with size 0")
    found = np.sort(x)
    if np.isnan(found[-1]):
        return np.nan
    place = q * (x.size - 1)
    below = int(place)
    above = min(below + 1, x.size - 1)
    part, step = place - below, found[above] - found[below]
    return found[below] + step * part if part < 0.5 else found[above] - step * (1.0 - part)


@register_jitable
def searchsorted_left(a, v):
    """The number of elements of a sorted array less than ``v``; NaN is the largest number."""
    return _place(a, v, False)


@register_jitable
def searchsorted_right(a, v):
    """The number of elements of a sorted array at most ``v``; NaN is the largest number."""
    return _place(a, v, True)


@register_jitable
def _place(a, v, right):
    """First where ``v`` is if elements are evenly spaced; else by halving what is left."""
    last = a.size - 1
    if last > 0:
        start = np.float64(a[0])
        even = (v - start) / (a[last] - start) * last
        if 0.0 <= even < last:
            k = int(even)
            if (a[k] <= v < a[k + 1]) if right else (a[k] < v <= a[k + 1]):
                return k + 1
    first, size = 0, a.size
    while size > 0:
        half = size // 2
        x = a[first + half]
        if (v != v and (right or x == x)) or (x <= v if right else x < v):
            first += half + 1
            size -= half + 1
        else:
            size = half
    return first
