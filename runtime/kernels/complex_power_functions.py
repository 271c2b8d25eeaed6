"""Powers of complex numbers that kernels call: NumPy's meaning to the ends of their range.

Numba's take a logarithm for any exponent, and give NaN where a result overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from calque.runtime.kernels.complex_functions import AS_WRITTEN, complex_exp, complex_log


@register_jitable
def complex_divide(a, b):
    """A quotient by the method of R. L. Smith, Algorithm 116 of the ACM, as in NumPy."""
    if abs(b.real) >= abs(b.imag):
        if b.real == 0 and b.imag == 0:
            return complex(a.real / abs(b.real), a.imag / abs(b.real))
        ratio = b.imag / b.real
        scale = 1.0 / (b.real + b.imag * ratio)
        return complex((a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale)
    ratio = b.real / b.imag
    scale = 1.0 / (b.imag + b.real * ratio)
    return complex((a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale)


@register_jitable(**AS_WRITTEN)
def complex_reciprocal(z):
    """``np.reciprocal`` of a complex number."""
    one = type(z.real)(1.0)
    if abs(z.imag) <= abs(z.real):
        ratio = z.imag / z.real
        scale = z.real + z.imag * ratio
        return complex(one / scale, -ratio / scale)
    ratio = z.real / z.imag
    scale = z.real * ratio + z.imag
    return complex(ratio / scale, -one / scale)


@register_jitable
def complex_power(a, b):
    """``np.power`` of a complex number."""
    kind = type(a)
    return kind(_power(a, kind(b), kind(1.0)))


@register_jitable
def complex_whole_power(a, n):
    """``np.power`` of a complex number by an integer."""
    kind = type(a)
    return kind(_whole_power(a, n, kind(1.0)))


@register_jitable(**AS_WRITTEN)
def _product(a, b):
    """Not Numba's, which is compiled once for all: as the first that called it wants its sums."""
    return complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


@register_jitable(**AS_WRITTEN)
def _whole_power(a, n, one):
    """A power by repeated squares, in the order of NumPy."""
    if a.real == 0.0 and a.imag == 0.0 and n != 0:
        return complex(0.0, 0.0) if n > 0 else complex(np.nan, np.nan)
    if n == 1:
        return a
    if n == 2:
        return _product(a, a)
    if n == 3:
        return _product(a, _product(a, a))
    found, square, rest = one, a, abs(n)
    while rest > 1:
        if rest & 1:
            found = _product(found, square)
        square = _product(square, square)
        rest >>= 1
    if n == 0:
        return one
    found = _product(found, square)
    return found if n > 0 else complex_divide(one, found)


@register_jitable(**AS_WRITTEN)
def _infinite_product(a, b):
    """The product of which one factor is infinite, though it may have a part that is no number."""
    found = _product(_direction(a), _direction(b))
    return complex(np.inf * found.real, np.inf * found.imag)


@register_jitable(**AS_WRITTEN)
def _direction(z):
    """The direction of an infinite number, of length 1 or so; 0 for a part that is NaN."""
    x, y = z.real, z.imag
    if abs(x) == np.inf or abs(y) == np.inf:
        x = math.copysign(1.0 if abs(x) == np.inf else 0.0, x)
        y = math.copysign(1.0 if abs(y) == np.inf else 0.0, y)
    x = math.copysign(0.0, x) if x != x else x
    return complex(x, math.copysign(0.0, y) if y != y else y)


@register_jitable(**AS_WRITTEN)
def _power(a, b, one):
    """A power by the logarithm, rounded as NumPy's."""
    n = int(b.real) if abs(b.real) < 100.0 else 100
    if b.imag == 0.0 and b.real == n and n < 100:
        return _whole_power(a, n, one)
    if a.real == 0.0 and a.imag == 0.0:
        return complex(0.0, 0.0) if b.real > 0.0 else complex(np.nan, np.nan)
    size = complex_log(a)
    found = _product(size, b)
    infinite = abs(size.real) == np.inf or abs(b.real) == np.inf or abs(b.imag) == np.inf
    if infinite and found.real != found.real and found.imag != found.imag:
        found = _infinite_product(size, b)
    return complex_exp(found)
