"""Functions of complex numbers that kernels call: NumPy's meaning to the ends of their range.

Numba's own functions multiply overflowed intermediates, and so lose finite, infinite or zero
results. The cases and their signs are those of C's Annex G; most compute with a complex64 number as
complex128.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

# every sum is taken as it is written: the small part of one is what is sought
AS_WRITTEN = {"fastmath": False}
FAR = 709.0  # the largest whole number whose exponential is finite
LN2 = math.log(2.0)


@register_jitable(**AS_WRITTEN)
def _exp(x, y):
    if y == 0.0:
        return complex(math.exp(x), y)
    if not abs(y) < np.inf:
        if x == -np.inf:
            return complex(0.0, math.copysign(0.0, y))
        return complex(x if x == np.inf else np.nan, np.nan)
    if x > FAR:
        half = math.exp(0.5 * x)
        return complex(half * math.cos(y) * half, half * math.sin(y) * half)
    size = math.exp(x)
    return complex(size * math.cos(y), size * math.sin(y))


@register_jitable(**AS_WRITTEN)
def _hyperbolic(x):
    """The hyperbolic sine and cosine, of one exponential."""
    grown = math.expm1(abs(x))
    size = grown + 1.0
    return math.copysign(0.5 * (grown + grown / size), x), 0.5 * (size + 1.0 / size)


@register_jitable(**AS_WRITTEN)
def _sinh(x, y):
    if y == 0.0:
        return complex(math.sinh(x), y)
    if not abs(y) < np.inf:
        return complex(x if x == 0.0 else abs(x) if abs(x) == np.inf else np.nan, np.nan)
    if abs(x) > FAR:
        half = math.exp(0.5 * abs(x))
        real = half * math.cos(y) * (0.5 * half)
        return complex(real if x > 0.0 else -real, half * math.sin(y) * (0.5 * half))
    sine, cosine = _hyperbolic(x)
    return complex(sine * math.cos(y), cosine * math.sin(y))


@register_jitable(**AS_WRITTEN)
def _cosh(x, y):
    if y == 0.0:
        return complex(math.cosh(x), y if x != x else y * math.copysign(1.0, x))
    if not abs(y) < np.inf:
        return complex(abs(x) if abs(x) == np.inf else np.nan, 0.0 if x == 0.0 else np.nan)
    if abs(x) > FAR:
        half = math.exp(0.5 * abs(x))
        imag = half * math.sin(y) * (0.5 * half)
        return complex(half * math.cos(y) * (0.5 * half), imag if x > 0.0 else -imag)
    sine, cosine = _hyperbolic(x)
    return complex(cosine * math.cos(y), sine * math.sin(y))


@register_jitable(**AS_WRITTEN)
def _tanh(x, y):
    if not abs(y) < np.inf or x != x:
        if abs(x) == np.inf:
            return complex(math.copysign(1.0, x), math.copysign(0.0, y))
        return complex(x if x == 0.0 or y == 0.0 else np.nan, y if y == 0.0 else np.nan)
    sine, cosine = math.sin(y), math.cos(y)
    if abs(x) > 22.0:  # 1 to all of its digits
        small = math.exp(-abs(x))
        return complex(math.copysign(1.0, x), 4.0 * sine * cosine * small * small)
    steep, wide = _hyperbolic(x)
    square = steep * steep + cosine * cosine
    return complex(steep * wide / square, sine * cosine / square)


@register_jitable(**AS_WRITTEN)
def _square_less_1(a, b):
    """``a * a + b * b - 1`` in twice the digits, by T. J. Dekker's exact products."""
    plainly = (a - 1.0) * (a + 1.0) + b * b
    if a >= 1.0 or b < 1e-9 or abs(plainly) > 0.5:
        return plainly  # little or nothing cancels
    found, rest = -1.0, 0.0
    for part in (a, b):
        upper = part * 134217729.0  # 2 ** 27 + 1
        upper -= upper - part
        lower = part - upper
        square = part * part
        rest += (upper * upper - square) + 2.0 * upper * lower + lower * lower
        total = found + square
        other = total - found
        rest += (found - (total - other)) + (square - other)
        found = total
    return found + rest


@register_jitable(**AS_WRITTEN)
def _log(x, y):
    angle = math.atan2(y, x)
    if not (abs(x) < np.inf and abs(y) < np.inf):
        return complex(math.hypot(x, y), angle)
    a, b = max(abs(x), abs(y)), min(abs(x), abs(y))
    if 0.5 <= a < 2.0:
        return complex(0.5 * math.log1p(_square_less_1(a, b)), angle)
    if a > 1e300:
        return complex(math.log(math.hypot(0.5 * a, 0.5 * b)) + LN2, angle)
    if 0.0 < a < 1e-290:
        scale = 2.0**100
        return complex(math.log(math.hypot(a * scale, b * scale)) - 100.0 * LN2, angle)
    return complex(math.log(math.hypot(x, y)), angle)


@register_jitable(**AS_WRITTEN)
def _sqrt(x, y):
    if abs(y) == np.inf:
        return complex(abs(y), y)
    if abs(x) == np.inf:
        other = y if y != y else 0.0
        if x > 0.0:
            return complex(x, math.copysign(other, y))
        return complex(other, math.copysign(x, y))
    if y == 0.0 and x == x:
        root = math.sqrt(abs(x))
        return complex(root, y) if x >= 0.0 else complex(abs(y), math.copysign(root, y))
    scale, unscale = 1.0, 1.0
    if abs(x) > 1e300 or abs(y) > 1e300:
        scale, unscale = 2.0**-4, 2.0**2
    elif abs(x) < 1e-290 and abs(y) < 1e-290:
        scale, unscale = 2.0**108, 2.0**-54
    x, y = x * scale, y * scale
    root = math.sqrt(0.5 * (math.hypot(x, y) + abs(x)))
    other = 0.5 * (y / root)
    if x >= 0.0:
        return complex(root * unscale, other * unscale)
    return complex(abs(other) * unscale, math.copysign(root, y) * unscale)


@register_jitable(**AS_WRITTEN)
def _arctanh(x, y):
    if x == x and y == y:
        return np.arctanh(complex(x, y))
    real = 0.0 if x == 0.0 or abs(x) == np.inf or abs(y) == np.inf else np.nan
    imag = math.copysign(0.5 * math.pi, y) if abs(y) == np.inf else np.nan
    return complex(math.copysign(real, x), imag)


@register_jitable(**AS_WRITTEN)
def _arcsinh(x, y):
    return complex(x, y) if x != x and y == 0.0 else np.arcsinh(complex(x, y))


@register_jitable(**AS_WRITTEN)
def _arccos(x, y):
    return complex(0.5 * math.pi, y) if x == 0.0 and y != y else np.arccos(complex(x, y))


@register_jitable(**AS_WRITTEN)
def _arccosh(x, y):
    found = complex_arccos(complex(x, y))
    if found.real != found.real:
        return complex(abs(found.imag), found.real)
    return complex(abs(found.imag), math.copysign(found.real, y))


@register_jitable
def _swapped(z):
    """``i`` times the conjugate: what makes a sine of a hyperbolic one, and back."""
    return complex(z.imag, z.real)


@register_jitable
def _times(z, factor):
    return complex(z.real * factor, z.imag * factor)


@register_jitable
def complex_exp(z):
    """``np.exp`` of a complex number."""
    if abs(z.real) < 80.0 and abs(z.imag) < np.inf:
        size = math.exp(z.real)
        return complex(size * math.cos(z.imag), size * math.sin(z.imag))
    return type(z)(_exp(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_exp2(z):
    """``np.exp2`` of a complex number."""
    return complex_exp(_times(z, type(z.real)(LN2)))


@register_jitable(**AS_WRITTEN)
def complex_expm1(z):
    """``np.expm1`` of a complex number."""
    turn = math.sin(type(z.real)(0.5) * z.imag)  # NumPy overflows as this does
    size, less = math.exp(z.real), math.expm1(z.real) * math.cos(z.imag)
    return complex(less - (turn * turn + turn * turn), size * math.sin(z.imag))


@register_jitable
def complex_log(z):
    """``np.log`` of a complex number."""
    return type(z)(_log(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_log2(z):
    """``np.log2`` of a complex number."""
    return _times(complex_log(z), type(z.real)(1.0 / LN2))


@register_jitable
def complex_log10(z):
    """``np.log10`` of a complex number."""
    return _times(complex_log(z), type(z.real)(1.0 / math.log(10.0)))


@register_jitable
def complex_sqrt(z):
    """``np.sqrt`` of a complex number."""
    return type(z)(_sqrt(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_sin(z):
    """``np.sin`` of a complex number."""
    return _swapped(complex_sinh(_swapped(z)))


@register_jitable
def complex_cos(z):
    """``np.cos`` of a complex number."""
    return complex_cosh(complex(-z.imag, z.real))


@register_jitable
def complex_tan(z):
    """``np.tan`` of a complex number."""
    return _swapped(complex_tanh(_swapped(z)))


@register_jitable
def complex_arcsin(z):
    """``np.arcsin`` of a complex number."""
    return _swapped(complex_arcsinh(_swapped(z)))


@register_jitable
def complex_arccos(z):
    """``np.arccos`` of a complex number."""
    return type(z)(_arccos(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_arctan(z):
    """``np.arctan`` of a complex number."""
    return _swapped(complex_arctanh(_swapped(z)))


@register_jitable
def complex_sinh(z):
    """``np.sinh`` of a complex number."""
    return type(z)(_sinh(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_cosh(z):
    """``np.cosh`` of a complex number."""
    return type(z)(_cosh(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_tanh(z):
    """``np.tanh`` of a complex number."""
    return type(z)(_tanh(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_arcsinh(z):
    """``np.arcsinh`` of a complex number."""
    return type(z)(_arcsinh(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_arccosh(z):
    """``np.arccosh`` of a complex number."""
    return type(z)(_arccosh(np.float64(z.real), np.float64(z.imag)))


@register_jitable
def complex_arctanh(z):
    """``np.arctanh`` of a complex number."""
    return type(z)(_arctanh(np.float64(z.real), np.float64(z.imag)))
