"""Powers of complex numbers that kernels call: NumPy's meaning to the ends of their range.

Numba's take a logarithm for any exponent, and give NaN where a result overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numba.core.types import Complex, Integer, complex64
from numba.extending import overload, register_jitable

from calque.runtime.kernels.complex_functions import AS_WRITTEN, complex_exp, complex_log, real_of
from calque.runtime.kernels.kernel_functions import _complex_quotient


def complex_reciprocal(z):
    """``np.reciprocal`` of a complex number."""
    return np.reciprocal(z)


@overload(complex_reciprocal, jit_options=AS_WRITTEN)
def _complex_reciprocal(z):
    one = real_of(z)(1.0)

    def found(z):
        if abs(z.imag) <= abs(z.real):
            ratio = z.imag / z.real
            scale = z.real + z.imag * ratio
            return complex(one / scale, -ratio / scale)
        ratio = z.real / z.imag
        scale = z.real * ratio + z.imag
        return complex(ratio / scale, -one / scale)

    return found


def complex_power(a, b):
    """``np.power`` of a complex number."""
    return np.power(a, b)


@overload(complex_power)
def _complex_power(a, b):
    kind = np.complex64 if a == complex64 else np.complex128
    if isinstance(b, Integer):
        return lambda a, b: kind(_whole_power(a, b, kind(1.0)))
    if isinstance(b, Complex):
        return lambda a, b: kind(_power(a, b, kind(1.0)))
    return lambda a, b: kind(_power(a, kind(b), kind(1.0)))


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
    return found if n > 0 else _complex_quotient(one, found)


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
