"""Functions of complex numbers, as NumPy has them to the ends of their range.

All are computed with complex128 numbers: what uses one of complex64 casts it back.
"""

import math

import numpy as np

from calque.runtime.kernels.complex_functions import (
    LN2,
    _arccos,
    _arccosh,
    _arcsinh,
    _arctanh,
    _cosh,
    _exp,
    _log,
    _sinh,
    _sqrt,
    _swapped,
    _tanh,
    _times,
)
from calque.runtime.kernels.complex_power_functions import _power, _whole_power
from calque.runtime.kernels.kernel_functions import _complex_quotient
from calque.runtime.standalone.plain_integers import helper


@helper
def complex_exp(z):
    """``np.exp``."""
    return _exp(np.float64(z.real), np.float64(z.imag))


@helper
def complex_exp2(z):
    """``np.exp2``."""
    return complex_exp(_times(z, LN2))


@helper
def complex_expm1(z):
    """``np.expm1``, in the number's own precision: what overflows on the way is infinite."""
    size, turn = math.exp(z.real), math.sin(0.5 * z.imag)
    less = math.expm1(z.real) * math.cos(z.imag) - (turn * turn + turn * turn)
    return complex(less, size * math.sin(z.imag))


@helper
def complex_log(z):
    """``np.log``."""
    return _log(np.float64(z.real), np.float64(z.imag))


@helper
def complex_log2(z):
    """``np.log2``."""
    return _times(complex_log(z), 1.0 / LN2)


@helper
def complex_log10(z):
    """``np.log10``."""
    return _times(complex_log(z), 1.0 / math.log(10.0))


@helper
def complex_sqrt(z):
    """``np.sqrt``."""
    return _sqrt(np.float64(z.real), np.float64(z.imag))


@helper
def complex_sin(z):
    """``np.sin``."""
    return _swapped(complex_sinh(_swapped(z)))


@helper
def complex_cos(z):
    """``np.cos``."""
    return complex_cosh(complex(-z.imag, z.real))


@helper
def complex_tan(z):
    """``np.tan``."""
    return _swapped(complex_tanh(_swapped(z)))


@helper
def complex_arcsin(z):
    """``np.arcsin``."""
    return _swapped(complex_arcsinh(_swapped(z)))


@helper
def complex_arccos(z):
    """``np.arccos``."""
    return _arccos(np.float64(z.real), np.float64(z.imag))


@helper
def complex_arctan(z):
    """``np.arctan``."""
    return _swapped(complex_arctanh(_swapped(z)))


@helper
def complex_sinh(z):
    """``np.sinh``."""
    return _sinh(np.float64(z.real), np.float64(z.imag))


@helper
def complex_cosh(z):
    """``np.cosh``."""
    return _cosh(np.float64(z.real), np.float64(z.imag))


@helper
def complex_tanh(z):
    """``np.tanh``."""
    return _tanh(np.float64(z.real), np.float64(z.imag))


@helper
def complex_arcsinh(z):
    """``np.arcsinh``."""
    return _arcsinh(np.float64(z.real), np.float64(z.imag))


@helper
def complex_arccosh(z):
    """``np.arccosh``."""
    return _arccosh(np.float64(z.real), np.float64(z.imag))


@helper
def complex_arctanh(z):
    """``np.arctanh``."""
    return _arctanh(np.float64(z.real), np.float64(z.imag))


@helper
def complex_divide(a, b):
    """``a / b``."""
    return _complex_quotient(a, b)


@helper
def complex_reciprocal(z):
    """``np.reciprocal``."""
    if abs(z.imag) <= abs(z.real):
        ratio = z.imag / z.real
        scale = z.real + z.imag * ratio
        return complex(1.0 / scale, -ratio / scale)
    ratio = z.real / z.imag
    scale = z.real * ratio + z.imag
    return complex(ratio / scale, -1.0 / scale)


@helper
def complex_power(a, b, one):
    """``np.power`` of complex numbers; ``one`` is of their type."""
    return _power(a, b, one)


@helper
def complex_whole_power(a, n, one):
    """``np.power`` by an integer; ``one`` is of the number's type."""
    return _whole_power(a, n, one)
