"""Exponentials and hyperbolic functions in float64.

Method: x = n * log(2) + r with |r| <= log(2) / 2 (Cody and Waite), then expm1(r) as a polynomial
(minimax, benchmarks/minimax.py: "expm1"), from which each function is put together without the
cancellation that it would have written in terms of exp.
"""

from __future__ import annotations

from calque.runtime.vecmath.arithmetic import ROUND, fma, two_to, vector, with_sign

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN10 = 2.302585092994046
LOG2_10 = 3.321928094887362
# in two parts; the first has zeros at its end: its whole multiples are exact, fused or not
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
LOG10_2_HIGH = 3.01029995663611771306e-01
LOG10_2_LOW = 3.69423907715893078616e-13


@vector
def expm1_near(r):
    """expm1(r) for |r| <= log(2) / 2: r + r**2 / 2 + r**3 * p(r)."""
    square = r * r
    even = 2.511262728820157e-8
    even = fma(even, square, 2.7557234434390444e-6)
    even = fma(even, square, 0.00019841269894939439)
    even = fma(even, square, 0.0083333333333187652)
    even = fma(even, square, 0.16666666666666679)
    odd = 2.7622623225516159e-7
    odd = fma(odd, square, 2.4801515461690081e-5)
    odd = fma(odd, square, 0.0013888888921118359)
    odd = fma(odd, square, 0.041666666666618739)
    p = fma(odd, r, even)
    return fma(r * r, fma(p, r, 0.5), r)


@vector
def exp_parts(x, low):
    """n and q with exp(x + low) = 2**n * (1 + q), low a correction, |x| < 2000."""
    n = fma(x, LOG2_E, ROUND) - ROUND
    return n, expm1_near(fma(n, -LN2_HIGH, x) + fma(n, -LN2_LOW, low))


@vector
def times_two_to(m, n):
    """m * 2**n in two steps, so that n may pass the exponents and a denormal is rounded once."""
    half = fma(n, 0.5, ROUND) - ROUND
    return m * two_to(half) * two_to(n - half)


@vector
def exp_sum(x, low):
    """exp(x + low), low a correction of x."""
    x = 800.0 if x > 800.0 else x
    x = -800.0 if x < -800.0 else x
    n, q = exp_parts(x, low)
    return times_two_to(1.0 + q, n)


@vector
def quarter_expm1(x):
    """expm1(x) / 4, which does not overflow where sinh does not."""
    x = 710.5 if x > 710.5 else x
    x = -50.0 if x < -50.0 else x
    n, q = exp_parts(x, 0.0)
    scale = two_to(n - 2.0)
    return fma(scale, q, scale - 0.25)


@vector
def exp(x):
    """e**x."""
    return exp_sum(x, 0.0)


@vector
def exp2(x):
    """2**x."""
    x = 1100.0 if x > 1100.0 else x
    x = -1100.0 if x < -1100.0 else x
    n = (x + ROUND) - ROUND
    return times_two_to(1.0 + expm1_near((x - n) * LN2), n)


@vector
def exp10(x):
    """10**x."""
    x = 330.0 if x > 330.0 else x
    x = -330.0 if x < -330.0 else x
    n = fma(x, LOG2_10, ROUND) - ROUND
    r = fma(n, -LOG10_2_LOW, fma(n, -LOG10_2_HIGH, x)) * LN10
    return times_two_to(1.0 + expm1_near(r), n)


@vector
def expm1(x):
    """e**x - 1 without cancellation near 0."""
    return x if x == 0.0 else 4.0 * quarter_expm1(x)


@vector
def sinh(x):
    """(E + E / (E + 1)) / 2 with E = expm1(abs(x))."""
    t = quarter_expm1(abs(x))
    return with_sign(2.0 * (t + t / fma(4.0, t, 1.0)), x)


@vector
def cosh(x):
    """(e**x + e**-x) / 2, at a quarter of its size so that it overflows where it should."""
    x = abs(x)
    x = 711.0 if x > 711.0 else x
    n, q = exp_parts(x, 0.0)
    t = (1.0 + q) * two_to(n - 3.0)
    return 4.0 * (t + 0.015625 / t)


@vector
def tanh(x):
    """E / (E + 2) with E = expm1(2 * abs(x))."""
    a = abs(x)
    t = quarter_expm1(2.0 * (20.0 if a > 20.0 else a))
    return with_sign(t / (t + 0.5), x)


@vector
def expit(x):
    """1 / (1 + e**-x), from e**-abs(x): right into the denormals."""
    z = exp(-abs(x))
    return (1.0 if x >= 0.0 else z) / (1.0 + z)
