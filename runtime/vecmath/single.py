"""The other functions in float32, computed in float64 with polynomials of some 30 bits.

A float64 holds what float32 arithmetic would lose: no corrections, no scaling by halves, no
denormals; the result is rounded once. Methods as in float64 (minimax, benchmarks/minimax.py:
"expm1f", "logf", "sinf", "cosf").
"""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import (
    INF,
    ROUND,
    fma,
    split_normal,
    two_to,
    vector,
    with_sign,
)
from calque.runtime.vecmath.error_functions import erf, erfc, erfcx
from calque.runtime.vecmath.exponentials import LN2, LOG2_10, LOG2_E
from calque.runtime.vecmath.inverse_trigonometric import acos, asin, atan, atan2
from calque.runtime.vecmath.logarithms import acosh, asinh, at_edges, atanh, log1p
from calque.runtime.vecmath.powers import (
    bounded_exponent,
    cbrt,
    hypot,
    pow_five_halves,
    pow_minus_five_halves,
    pow_minus_half,
    pow_minus_three_halves,
    pow_three_halves,
    power_at_edges,
)
from calque.runtime.vecmath.trigonometric import (
    FAR,
    HALF_PI_1,
    HALF_PI_2,
    TWO_OVER_PI,
    far_cos,
    far_sin,
    far_tan,
    of_quadrant,
    tan_of_quadrant,
)

LOG10_E = 0.4342944819032518


@vector
def expm1_nearf(r):
    """expm1(r) for |r| <= log(2) / 2."""
    p = 0.00019910179128735682
    p = fma(p, r, 0.0013933541753947423)
    p = fma(p, r, 0.0083332813832825669)
    p = fma(p, r, 0.04166648010905622)
    p = fma(p, r, 0.16666666774933485)
    return fma(r * r, fma(p, r, 0.5), r)


@vector
def expm1_single(x):
    """expm1(x) for what float32 holds: 2**n * (1 + q) - 1 without cancellation."""
    x = 180.0 if x > 180.0 else x
    x = -180.0 if x < -180.0 else x
    n = fma(x, LOG2_E, ROUND) - ROUND
    scale = two_to(n)
    return fma(scale, expm1_nearf(fma(n, -LN2, x)), scale - 1.0)


@vector
def exp2_single(x):
    """2**x for what float32 holds."""
    x = 300.0 if x > 300.0 else x
    x = -300.0 if x < -300.0 else x
    n = (x + ROUND) - ROUND
    q = expm1_nearf((x - n) * LN2)
    scale = two_to(n)
    return fma(scale, q, scale)


@vector
def exp10f(x):
    """10**x."""
    return np.float32(exp2_single(LOG2_10 * np.float64(x)))


@vector
def sinhf(x):
    """(E + E / (E + 1)) / 2 with E = expm1(abs(x))."""
    e = expm1_single(abs(np.float64(x)))
    return np.float32(with_sign(0.5 * (e + e / (e + 1.0)), x))


@vector
def coshf(x):
    """(e**x + e**-x) / 2."""
    e = exp2_single(LOG2_E * abs(np.float64(x)))
    return np.float32(0.5 * (e + 1.0 / e))


@vector
def expitf(x):
    """1 / (1 + e**-x)."""
    return np.float32(1.0 / (1.0 + exp2_single(-LOG2_E * np.float64(x))))


@vector
def log_single(x):
    """log(x) for a positive normal float64 x."""
    k, m = split_normal(x)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 0.29582357459397862
    p = fma(p, z, 0.39988718396319448)
    p = fma(p, z, 0.66666685211410547)
    return fma(k, LN2, fma(s * z, p, 2.0 * s))


@vector
def logf(x):
    """The natural logarithm."""
    x = np.float64(x)
    return np.float32(at_edges(log_single(x), x))


@vector
def log2f(x):
    """The logarithm to base 2."""
    x = np.float64(x)
    return np.float32(at_edges(LOG2_E * log_single(x), x))


@vector
def log10f(x):
    """The logarithm to base 10."""
    x = np.float64(x)
    return np.float32(at_edges(LOG10_E * log_single(x), x))


@vector
def log1pf(x):
    """log(1 + x)."""
    return np.float32(log1p(np.float64(x)))


@vector
def log_expitf(x):
    """log(1 / (1 + e**-x)), log(1 + e) as 2 * atanh(e / (2 + e))."""
    x = np.float64(x)
    e = exp2_single(-LOG2_E * abs(x))
    s = e / (2.0 + e)
    z = s * s
    p = 0.20820394823018319
    p = fma(p, z, 0.17455744127164688)
    p = fma(p, z, 0.22265567772988776)
    p = fma(p, z, 0.2857027230605501)
    p = fma(p, z, 0.40000011226194554)
    p = fma(p, z, 0.66666666649022447)
    return np.float32((x if x < 0.0 else -0.0) - fma(s * z, p, 2.0 * s))


@vector
def logitf(x):
    """log(x / (1 - x))."""
    x = np.float64(x)
    ratio = x / (1.0 - x)
    return np.float32(at_edges(log_single(ratio), ratio))


@vector
def asinhf(x):
    """The inverse hyperbolic sine."""
    return np.float32(asinh(np.float64(x)))


@vector
def acoshf(x):
    """The inverse hyperbolic cosine."""
    return np.float32(acosh(np.float64(x)))


@vector
def atanhf(x):
    """The inverse hyperbolic tangent."""
    return np.float32(atanh(np.float64(x)))


@vector
def atanf(x):
    """The arc tangent."""
    return np.float32(atan(np.float64(x)))


@vector
def asinf(x):
    """The arc sine."""
    return np.float32(asin(np.float64(x)))


@vector
def acosf(x):
    """The arc cosine."""
    return np.float32(acos(np.float64(x)))


@vector
def erff(x):
    """The error function."""
    return np.float32(erf(np.float64(x)))


@vector
def erfcf(x):
    """1 - erf(x)."""
    return np.float32(erfc(np.float64(x)))


@vector
def erfcxf(x):
    """exp(x**2) * erfc(x)."""
    return np.float32(erfcx(np.float64(x)))


@vector
def cbrtf(x):
    """The cube root."""
    return np.float32(cbrt(np.float64(x)))


@vector
def pow_minus_halff(x):
    """x**-0.5."""
    return np.float32(pow_minus_half(np.float64(x)))


@vector
def pow_three_halvesf(x):
    """x**1.5."""
    return np.float32(pow_three_halves(np.float64(x)))


@vector
def pow_minus_three_halvesf(x):
    """x**-1.5."""
    return np.float32(pow_minus_three_halves(np.float64(x)))


@vector
def pow_five_halvesf(x):
    """x**2.5."""
    return np.float32(pow_five_halves(np.float64(x)))


@vector
def pow_minus_five_halvesf(x):
    """x**-2.5."""
    return np.float32(pow_minus_five_halves(np.float64(x)))


@vector
def atan2f(y, x):
    """The angle of the point (x, y)."""
    return np.float32(atan2(np.float64(y), np.float64(x)))


@vector
def hypotf(x, y):
    """sqrt(x**2 + y**2)."""
    return np.float32(hypot(np.float64(x), np.float64(y)))


@vector
def powf(x, y):
    """x**y: 2**(y * log2(x)) with a logarithm of some 43 bits."""
    y = bounded_exponent(np.float64(y))
    a = abs(np.float64(x))
    k, m = split_normal(a)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 0.19364770758909926
    p = fma(p, z, 0.22191279931154648)
    p = fma(p, z, 0.28571756692609989)
    p = fma(p, z, 0.39999998785021939)
    p = fma(p, z, 0.66666666667386144)
    logarithm = fma(LOG2_E, fma(s * z, p, 2.0 * s), k)
    logarithm = a if not a < INF else logarithm
    logarithm = -INF if a == 0.0 else logarithm
    return np.float32(power_at_edges(exp2_single(y * logarithm), np.float64(x), y))


@vector
def near_quadrant_single(x):
    """n as the low bits of an integer, and r = x - n * pi / 2, for abs(x) <= 2**45."""
    rounded = fma(x, TWO_OVER_PI, ROUND)
    n = rounded - ROUND
    return np.float64(rounded).view(np.int64), fma(n, -HALF_PI_2, fma(n, -HALF_PI_1, x))


@vector
def sin_cos_single(r):
    """sin(r) and cos(r)."""
    z = r * r
    s = -0.00019514618540923696
    s = fma(s, z, 0.0083321588763400591)
    s = fma(s, z, -0.16666654647980755)
    c = 2.4435470558255178e-5
    c = fma(c, z, -0.0013887342392924623)
    c = fma(c, z, 0.041666646373674073)
    c = fma(c, z, -0.5)
    return fma(r * z, s, r), fma(c, z, 1.0)


@vector
def sinf(x):
    """The sine."""
    x = np.float64(x)
    n, r = near_quadrant_single(x)
    s, c = sin_cos_single(r)
    y = x if x == 0.0 else of_quadrant(n, s, c)
    if abs(x) > FAR:
        y = far_sin(x)
    return np.float32(y)


@vector
def cosf(x):
    """The cosine: the sine a quarter of a turn on."""
    x = np.float64(x)
    n, r = near_quadrant_single(x)
    s, c = sin_cos_single(r)
    y = of_quadrant(n + 1, s, c)
    if abs(x) > FAR:
        y = far_cos(x)
    return np.float32(y)


@vector
def tanf(x):
    """sin(r) / cos(r), or -cos(r) / sin(r) in the odd quadrants."""
    x = np.float64(x)
    n, r = near_quadrant_single(x)
    s, c = sin_cos_single(r)
    y = x if x == 0.0 else tan_of_quadrant(n, s, c)
    if abs(x) > FAR:
        y = far_tan(x)
    return np.float32(y)
