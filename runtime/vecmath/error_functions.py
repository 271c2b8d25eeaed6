"""The error functions in float64.

Method: exp(x**2) * erfc(x) = g(t) / (1 + 2 * x) with t = (x - 4) / (x + 4) and g a polynomial
(after M. Shepherd and J. Laframboise, Math. Comp. 36, 1981; minimax, benchmarks/minimax.py:
"erfcx"), and exp(-x**2) with the rounding error of x**2 put back; erf near 0 is an odd polynomial
("erf").
"""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import fma, vector, with_sign
from calque.runtime.vecmath.exponentials import exp_sum


@vector
def erfcx_positive(a):
    """exp(a**2) * erfc(a) for a >= 0."""
    b = 1e300 if a > 1e300 else a
    inverse = 1.0 / (b + 4.0)
    t = (b - 4.0) * inverse
    # the error of t, small as it is, would count: (b - 4) - t * (b + 4)
    t = fma(fma(-t, b, fma(-4.0, t + 1.0, b)), inverse, t)
    p = 9.0129006478942257e-10
    p = fma(p, t, 1.5801478055366203e-9)
    p = fma(p, t, -1.2175754053732645e-8)
    p = fma(p, t, -1.6406449528245094e-8)
    p = fma(p, t, 1.0591275719039958e-7)
    p = fma(p, t, 7.1235491929683472e-8)
    p = fma(p, t, -8.204902464243521e-7)
    p = fma(p, t, 2.9790366739448525e-7)
    p = fma(p, t, 5.7060673725783871e-6)
    p = fma(p, t, -1.1225010625045469e-5)
    p = fma(p, t, -2.4397435140588367e-5)
    p = fma(p, t, 0.00015062304853721637)
    p = fma(p, t, -0.00019925726477802578)
    p = fma(p, t, -0.00075777369040591485)
    p = fma(p, t, 0.0050319700964360096)
    p = fma(p, t, -0.016197733985007999)
    p = fma(p, t, 0.037167515522279003)
    p = fma(p, t, -0.066330365819869791)
    p = fma(p, t, 0.093732834999446979)
    p = fma(p, t, -0.10103906603589346)
    p = fma(p, t, 0.068097054254655696)
    p = fma(p, t, 0.015379652102611172)
    p = fma(p, t, -0.13962111684056214)
    p = fma(p, t, 1.2329951186255525)
    return 0.5 * p / (a + 0.5)


@vector
def exp_of_square(a, sign):
    """exp(sign * a**2); the square of the first 26 bits of a is exact, the rest a correction."""
    a = 30.0 if a > 30.0 else a
    first = np.int64(np.float64(a).view(np.int64) & -0x8000000).view(np.float64)
    return exp_sum(sign * first * first, sign * (a - first) * (a + first))


@vector
def erfc(x):
    """1 - erf(x), with its relative accuracy into the denormals."""
    a = abs(x)
    y = exp_of_square(a, -1.0) * erfcx_positive(a)
    return 2.0 - y if x < 0.0 else y


@vector
def erf(x):
    """The error function."""
    a = abs(x)
    far = 1.0 - exp_of_square(a, -1.0) * erfcx_positive(a)
    b = 1.0 if a > 1.0 else a
    z = b * b
    p = -7.8011892650144447e-10
    p = fma(p, z, 1.3722975025502394e-8)
    p = fma(p, z, -1.6209175234627057e-7)
    p = fma(p, z, 1.6447517529629733e-6)
    p = fma(p, z, -1.4924744645576299e-5)
    p = fma(p, z, 0.00012055295319211452)
    p = fma(p, z, -0.0008548325989639284)
    p = fma(p, z, 0.0052239776074218908)
    p = fma(p, z, -0.026866170643275967)
    p = fma(p, z, 0.11283791670945251)
    p = fma(p, z, -0.37612638903183547)
    p = fma(p, z, 0.12837916709551257)
    return with_sign(fma(b, p, b) if a < 1.0 else far, x)


@vector
def erfcx(x):
    """exp(x**2) * erfc(x)."""
    a = abs(x)
    y = erfcx_positive(a)
    return 2.0 * exp_of_square(a, 1.0) - y if x < 0.0 else y
