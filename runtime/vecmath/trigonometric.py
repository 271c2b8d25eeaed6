"""Sine, cosine and tangent in float64.

Method: x = n * pi / 2 + r with |r| <= pi / 4, pi / 2 in three parts whose products with n are added
by fma (Cody and Waite): the first step is exact, so r keeps its relative accuracy next to the
multiples of pi / 2. Then polynomials for sin(r) and cos(r) (minimax, benchmarks/minimax.py: "sin",
"cos").

Beyond abs(x) = 2**45, x * 2 / pi modulo 8 comes of those bits of 2 / pi alone that matter for the
exponent of x (Payne and Hanek), as a sum of two numbers of 107 bits.
"""

from __future__ import annotations

import math

import numpy as np

from calque.runtime.vecmath.arithmetic import ROUND, fma, ordered_sum, rarely, vector

TWO_OVER_PI = 0.6366197723675814
HALF_PI_1 = 1.5707963267948966
HALF_PI_2 = 6.123233995736766e-17
HALF_PI_3 = -1.4973849048591698e-33
FAR = 35184372088832.0
# adding and subtracting it rounds to a multiple of 8
ROUND_TO_8 = 54043195528445952.0


def inverse_tangent(n, one):
    """atan(1 / n) in units of 1 / one, by its series."""
    total, power, k = 0, one // n, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power, k = power // (n * n), k + 2
    return total


def two_over_pi_parts():
    """For each exponent from 2**45 to 2**1023 four numbers, for that of infinity and NaN four NaN.

    Their sum is 2 / pi * 2**exponent modulo 2**54, to 2**-157; the products of the first two with a
    number of 53 bits from 1 to 2 are whole multiples of 2**-50 and 2**-100, so that sums of what
    they leave are exact. Pi is Machin's: 16 * atan(1 / 5) - 4 * atan(1 / 239).
    """
    bits = 1280
    one = 1 << bits
    pi = 16 * inverse_tangent(5, one << 64) - 4 * inverse_tangent(239, one << 64)
    two_over_pi = (one * one << 65) // pi
    parts = []
    for exponent in range(45, 1024):
        unit = 1 << (bits - exponent)
        rest = (two_over_pi + (unit << 53)) % (unit << 54) - (unit << 53)
        for last in (unit << 2, unit >> 48, unit >> 102, unit >> 156):
            part = (rest + (last >> 1)) // last * last
            parts.append(part / unit)
            rest -= part
    return np.array([*parts, *[math.nan] * 4])


TWO_OVER_PI_PARTS = two_over_pi_parts()


@vector
def far_quadrant(x):
    """n, modulo 8 and as the low bits of an integer, and r, for abs(x) >= 2**45."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    at = 4 * (exponent - 1068 if exponent > 1068 else 0)
    m = np.int64((bits & -0x7FF0000000000001) | 0x3FF0000000000000).view(np.float64)
    q1, q2 = TWO_OVER_PI_PARTS[at], TWO_OVER_PI_PARTS[at + 1]
    q3, q4 = TWO_OVER_PI_PARTS[at + 2], TWO_OVER_PI_PARTS[at + 3]
    product = m * q1
    first = product - ((product + ROUND_TO_8) - ROUND_TO_8) + fma(m, q1, -product)
    product = m * q2
    turn, error = ordered_sum(first, product)
    second = error + fma(m, q2, -product)  # exact, as all above
    rounded = turn + ROUND
    product = m * q3
    second, error = ordered_sum(second, product)
    high, rest = ordered_sum(turn - (rounded - ROUND), second)
    low = rest + (error + fma(m, q4, fma(m, q3, -product)))
    r = fma(high, HALF_PI_1, fma(high, HALF_PI_2, low * HALF_PI_1))
    return np.float64(rounded).view(np.int64), r


@vector
def near_quadrant(x):
    """n as the low bits of an integer, and r, for abs(x) <= 2**45."""
    rounded = fma(x, TWO_OVER_PI, ROUND)
    n = rounded - ROUND
    r = fma(n, -HALF_PI_3, fma(n, -HALF_PI_2, fma(n, -HALF_PI_1, x)))
    return np.float64(rounded).view(np.int64), r


@vector
def sin_cos(r):
    """sin(r) and cos(r)."""
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
    return fma(r * z, s, r), fma(c, z, 1.0)


@vector
def of_quadrant(n, s, c):
    """sin(r + n * pi / 2) of sin(r) and cos(r)."""
    y = c if n & 1 else s
    return -y if n & 2 else y


@vector
def tan_of_quadrant(n, s, c):
    """tan(r + n * pi / 2) of sin(r) and cos(r)."""
    odd = n & 1
    return (-c if odd else s) / (s if odd else c)


@vector
def sin_beyond(x):
    """The sine for abs(x) >= 2**45."""
    n, r = far_quadrant(x)
    s, c = sin_cos(r)
    return of_quadrant(n, s, c)


@vector
def cos_beyond(x):
    """The cosine for abs(x) >= 2**45."""
    n, r = far_quadrant(x)
    s, c = sin_cos(r)
    return of_quadrant(n + 1, s, c)


@vector
def tan_beyond(x):
    """The tangent for abs(x) >= 2**45."""
    n, r = far_quadrant(x)
    s, c = sin_cos(r)
    return tan_of_quadrant(n, s, c)


far_sin = rarely(sin_beyond)
far_cos = rarely(cos_beyond)
far_tan = rarely(tan_beyond)


@vector
def sin(x):
    """The sine."""
    n, r = near_quadrant(x)
    s, c = sin_cos(r)
    y = x if x == 0.0 else of_quadrant(n, s, c)
    if abs(x) > FAR:
        y = far_sin(x)
    return y


@vector
def cos(x):
    """The cosine: the sine a quarter of a turn on."""
    n, r = near_quadrant(x)
    s, c = sin_cos(r)
    y = of_quadrant(n + 1, s, c)
    if abs(x) > FAR:
        y = far_cos(x)
    return y


@vector
def tan(x):
    """sin(r) / cos(r), or -cos(r) / sin(r) in the odd quadrants."""
    n, r = near_quadrant(x)
    s, c = sin_cos(r)
    y = x if x == 0.0 else tan_of_quadrant(n, s, c)
    if abs(x) > FAR:
        y = far_tan(x)
    return y
