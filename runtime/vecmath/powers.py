"""Powers, roots and lengths in float64."""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import (
    INF,
    NAN,
    ROUND,
    fma,
    ordered_sum,
    split,
    two_to,
    vector,
    with_sign,
)
from calque.runtime.vecmath.exponentials import LN2_HIGH, LN2_LOW, exp_sum

TWO_TO_400 = 2.0**400
TWO_TO_MINUS_400 = 2.0**-400
TWO_TO_600 = 2.0**600
TWO_TO_MINUS_600 = 2.0**-600
TWO_THIRDS_HIGH = 0.6666666666666666
TWO_THIRDS_LOW = 3.700743415417188e-17


@vector
def log_in_two(a):
    """log(a) as a sum of two, right to some 68 bits, for a positive finite a.

    As ``log``, but log(m) = 2 * s + s**3 * (2/3 + z * p(z)), z = s**2, s = f / (2 + f), with the
    rounding errors of the leading terms carried along (minimax, benchmarks/minimax.py: "log_5").
    """
    k, m = split(a)
    f = m - 1.0
    inverse = 1.0 / (2.0 + f)
    s = f * inverse
    s_low = fma(-s, f, fma(-2.0, s, f)) * inverse
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    square = z * z
    even = 0.11706084223426079
    even = fma(even, square, 0.15384594843823903)
    even = fma(even, square, 0.22222222221650112)
    even = fma(even, square, 0.4)
    odd = 0.1172468467247544
    odd = fma(odd, square, 0.1333481072825971)
    odd = fma(odd, square, 0.18181818336591683)
    odd = fma(odd, square, 0.28571428571429377)
    p = fma(odd, z, even)
    zp = z * p
    c = TWO_THIRDS_HIGH + zp
    c_low = (TWO_THIRDS_HIGH - c) + zp + TWO_THIRDS_LOW
    w = z * c
    w_low = fma(z, c, -w) + fma(z, c_low, z_low * c)
    cube = s * w
    cube_low = fma(s, w, -cube) + fma(s, w_low, s_low * w)
    total, error = ordered_sum(2.0 * s, cube)
    high, rest = ordered_sum(k * LN2_HIGH, total)
    return ordered_sum(high, rest + (error + fma(2.0, s_low, fma(k, LN2_LOW, cube_low))))


@vector
def power_at_edges(power, x, y):
    """abs(x)**y with the sign of x**y, NaN where there is none, and 1 where x**y is 1."""
    half = 0.5 * y
    odd = abs(half - np.rint(half)) == 0.5
    sign = np.float64(x).view(np.int64) & -0x8000000000000000
    bits = np.float64(power).view(np.int64) | (sign if odd else 0)
    power = NAN if (x < 0.0) & (x > -INF) & (np.rint(y) != y) else np.int64(bits).view(np.float64)
    return 1.0 if (x == 1.0) | (y == 0.0) else power


@vector
def bounded_exponent(y):
    """y, but at most 2**64, where all powers but those of 1 are 0 or infinite: times 0 it is 0."""
    y = 18446744073709551616.0 if y > 18446744073709551616.0 else y
    return -18446744073709551616.0 if y < -18446744073709551616.0 else y


@vector
def pow(x, y):
    """x**y, as C and NumPy define it: exp(y * log(x)) with the logarithm as a sum of two."""
    a = abs(x)
    y = bounded_exponent(y)
    high, low = log_in_two(a)
    high = a if not a < INF else high
    high = -INF if a == 0.0 else high
    product = y * high
    rest = fma(y, high, -product) + y * low
    power = exp_sum(product, rest if abs(product) < 800.0 else 0.0)
    return power_at_edges(power, x, y)


@vector
def cbrt(x):
    """The cube root: a polynomial guess of 9 bits, one step of Halley, one of Newton with fma."""
    a = abs(x)
    k, m = split(a)
    third = fma(k, 0.3333333333333333, ROUND) - ROUND
    m = m * two_to(fma(third, -3.0, k))
    t = -0.016322226642092554
    t = fma(t, m, 0.13413842290480779)
    t = fma(t, m, -0.43584674432445523)
    t = fma(t, m, 0.8697978448220353)
    t = fma(t, m, 0.45011282763381921)
    cube = t * t * t
    t = t * fma(2.0, m, cube) / fma(2.0, cube, m)
    square = t * t
    rest = fma(square, t, -m) + fma(t, t, -square) * t
    y = (t - rest / (3.0 * square)) * two_to(third)
    return x if x == 0.0 or not a < INF else with_sign(y, x)


@vector
def hypot(x, y):
    """sqrt(x**2 + y**2), scaled by a power of 2 where a square would leave the range."""
    a, b = abs(x), abs(y)
    larger, smaller = (b if b > a else a), (a if b > a else b)
    scale = 2.0**-600 if larger > 2.0**500 else (2.0**600 if larger < 2.0**-400 else 1.0)
    back = 2.0**600 if larger > 2.0**500 else (2.0**-600 if larger < 2.0**-400 else 1.0)
    large, small = larger * scale, smaller * scale
    length = np.sqrt(fma(large, large, small * small)) * back
    return INF if (a == INF) | (b == INF) else length


@vector
def root_base(x):
    """x as roots and products of it are powers: 0 for -0, and infinity for -infinity."""
    return INF if x == -INF else x + 0.0


@vector
def pow_minus_half(x):
    """x**-0.5."""
    return 1.0 / np.sqrt(root_base(x))


@vector
def pow_three_halves(x):
    """x**1.5."""
    a = root_base(x)
    return a * np.sqrt(a)


@vector
def pow_minus_three_halves(x):
    """x**-1.5: one division; scaled by powers of two, the product does not leave the range."""
    a = root_base(x)
    large = a > 1.0
    a = a * (TWO_TO_MINUS_400 if large else TWO_TO_400)
    return 1.0 / (a * np.sqrt(a)) * (TWO_TO_MINUS_600 if large else TWO_TO_600)


@vector
def pow_five_halves(x):
    """x**2.5."""
    a = root_base(x)
    return a * a * np.sqrt(a)


@vector
def pow_minus_five_halves(x):
    """x**-2.5."""
    a = root_base(x)
    return 1.0 / np.sqrt(a) / a / a
