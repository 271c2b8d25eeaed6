"""Exponentials in float32 arithmetic: twice the lanes of float64.

As in float64: x = n * log(2) + r, e**x = 2**n * (1 + q) with q = expm1(r), a polynomial (minimax,
benchmarks/minimax.py: "expm1f"). log(2) is taken off in two parts, each with one rounding.
"""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import (
    SHIFT,
    fmaf,
    two_to_single,
    vector,
    with_sign_single,
)
from calque.runtime.vecmath.exponentials import LOG2_E

LN2_HIGH_SINGLE = 0.693145751953125
LN2_LOW_SINGLE = 1.4286068202862268e-06


@vector
def expm1_close(r):
    """expm1(r) for |r| <= log(2) / 2."""
    p = fmaf(0.00019910179128735682, r, 0.0013933541753947423)
    p = fmaf(p, r, 0.0083332813832825669)
    p = fmaf(p, r, 0.04166648010905622)
    p = fmaf(p, r, 0.16666666774933485)
    return fmaf(r * r, fmaf(p, r, 0.5), r)


@vector
def in_powers_of_two(x):
    """n and r with x = n * log(2) + r, abs(r) <= log(2) / 2."""
    n = fmaf(x, LOG2_E, SHIFT) - np.float32(SHIFT)
    return n, fmaf(n, -LN2_LOW_SINGLE, fmaf(n, -LN2_HIGH_SINGLE, x))


@vector
def scaled_by_two_to(n, q):
    """2**n * (1 + q) in two steps: one alone may be too small, or too large, for a float32."""
    first = fmaf(n, 0.5, SHIFT) - np.float32(SHIFT)
    scale = two_to_single(first)
    return fmaf(scale, q, scale) * two_to_single(n - first)


@vector
def expf(x):
    """e**x."""
    x = np.float32(89.0) if x > 89.0 else x
    x = np.float32(-105.0) if x < -105.0 else x
    n, r = in_powers_of_two(x)
    return scaled_by_two_to(n, expm1_close(r))


@vector
def exp2f(x):
    """2**x."""
    x = np.float32(129.0) if x > 129.0 else x
    x = np.float32(-151.0) if x < -151.0 else x
    n = np.float32(x + np.float32(SHIFT)) - np.float32(SHIFT)
    return scaled_by_two_to(n, expm1_close((x - n) * np.float32(0.6931471805599453)))


@vector
def expm1_bounded(x):
    """expm1(x) for x up to 89: from -20 down it is -1."""
    x = np.float32(-20.0) if x < -20.0 else x
    n, r = in_powers_of_two(x)
    scale = two_to_single(n - np.float32(1.0))
    return np.float32(2.0) * fmaf(scale, expm1_close(r), scale - np.float32(0.5))


@vector
def expm1f(x):
    """e**x - 1 without cancellation near 0."""
    return x if x == 0.0 else expm1_bounded(np.float32(89.0) if x > 89.0 else x)


@vector
def tanhf(x):
    """E / (E + 2) with E = expm1(2 * abs(x))."""
    a = abs(x)
    e = expm1_bounded(np.float32(2.0) * (np.float32(10.0) if a > 10.0 else a))
    return with_sign_single(e / (e + np.float32(2.0)), x)
