"""Sine, cosine and tangent in float64, for abs(x) <= 2**45; ``beyond`` tells what is further out.

Method: x = n * pi / 2 + r with |r| <= pi / 4, pi / 2 in three parts whose products with n are added
by fma (Cody and Waite): the first step is exact, so r keeps its relative accuracy next to the
multiples of pi / 2. Then polynomials for sin(r) and cos(r) (minimax, benchmarks/minimax.py: "sin",
"cos").
"""

from __future__ import annotations

import math

import numpy as np

from calque.runtime.vecmath.arithmetic import INF, NAN, ROUND, fma, vector

TWO_OVER_PI = 0.6366197723675814
HALF_PI_1 = 1.5707963267948966
HALF_PI_2 = 6.123233995736766e-17
HALF_PI_3 = -1.4973849048591698e-33
FAR = 35184372088832.0


@vector
def beyond(x):
    """1 where x is finite and too far out for sin, cos and tan here, else 0."""
    a = abs(x)
    return np.int64(a > FAR) & np.int64(a < INF)


@vector
def sin_cos_parts(x):
    """The bits of n, sin(r) and cos(r): x = n * pi / 2 + r. NaN where x is too far out."""
    rounded = fma(x, TWO_OVER_PI, ROUND)
    n = rounded - ROUND
    r = fma(n, -HALF_PI_3, fma(n, -HALF_PI_2, fma(n, -HALF_PI_1, x)))
    r = r if abs(x) <= FAR else NAN
    z = r * r
    s = 1.5895477483851171e-10
    s = fma(s, z, -2.5050736039939179e-8)
    s = fma(s, z, 2.7557313555511648e-6)
    s = fma(s, z, -0.00019841269829428966)
    s = fma(s, z, 0.00833333333332196)
    s = fma(s, z, -0.1666666666666663)
    c = -1.1358752166684633e-11
    c = fma(c, z, 2.0875706518905223e-9)
    c = fma(c, z, -2.7557314233372713e-7)
    c = fma(c, z, 2.4801587289086489e-5)
    c = fma(c, z, -0.0013888888888873518)
    c = fma(c, z, 0.041666666666666596)
    c = fma(c, z, -0.5)
    return np.float64(rounded).view(np.int64), fma(r * z, s, r), fma(c, z, 1.0)


@vector
def of_quadrant(n, s, c):
    """sin(r + n * pi / 2) of sin(r) and cos(r)."""
    y = c if n & 1 else s
    return -y if n & 2 else y


@vector
def sin(x, far):
    """The sine; where ``far`` is true that of libm."""
    n, s, c = sin_cos_parts(x)
    y = x if x == 0.0 else of_quadrant(n, s, c)
    return math.sin(x) if far else y


@vector
def cos(x, far):
    """The cosine: the sine a quarter of a turn on; where ``far`` is true that of libm."""
    n, s, c = sin_cos_parts(x)
    return math.cos(x) if far else of_quadrant(n + 1, s, c)


@vector
def tan(x, far):
    """sin(r) / cos(r), or -cos(r) / sin(r) in the odd quadrants; where ``far`` that of libm."""
    n, s, c = sin_cos_parts(x)
    odd = n & 1
    y = (-c if odd else s) / (s if odd else c)
    return math.tan(x) if far else (x if x == 0.0 else y)
