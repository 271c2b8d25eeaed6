"""Elementary functions in plain Numba: polynomials that LLVM vectorizes, or the C library's.

At most 4 ulp from the true value. Sines and powers need products to twice the digits, and bits of
2 / pi, so that each is a call of the C library.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from calque.runtime.vecmath.random_numbers import tail_of_normal

# inlined by LLVM, where each instruction keeps its own flags: kernels may sum in any order, these
# may not
vector = njit(forceinline=True, fastmath=False, error_model="numpy", boundscheck=False)
fused = njit(forceinline=True, fastmath={"contract"}, error_model="numpy", boundscheck=False)


@fused
def fma(a, b, c):
    """a * b + c, rounded once where the processor can."""
    return a * b + c


@fused
def fmaf(a, b, c):
    """a * b + c in float32."""
    return np.float32(a) * np.float32(b) + np.float32(c)


@vector
def sin(x):
    """The sine."""
    return math.sin(x)


@vector
def cos(x):
    """The cosine."""
    return math.cos(x)


@vector
def tan(x):
    """The tangent."""
    return math.tan(x)


@vector
def sinf(x):
    """The sine."""
    return np.float32(math.sin(np.float64(x)))


@vector
def cosf(x):
    """The cosine."""
    return np.float32(math.cos(np.float64(x)))


@vector
def tanf(x):
    """The tangent."""
    return np.float32(math.tan(np.float64(x)))


@vector
def pow(x, y):
    """x**y."""
    return np.float64(x) ** np.float64(y)


@vector
def powf(x, y):
    """x**y."""
    return np.float32(np.float64(x) ** np.float64(y))


@vector
def normal_tail(w):
    """The polynomials of the rare numbers far from zero."""
    return tail_of_normal(w)
