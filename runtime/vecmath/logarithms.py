"""Logarithms, and the inverse hyperbolic functions that are made of them, in float64.

Method: x = 2**k * m with m from sqrt(1/2) to sqrt(2); f = m - 1, s = f / (2 + f) and
log(m) = f - f**2 / 2 + s * (f**2 / 2 + s**2 * p(s**2)), after fdlibm's e_log.c (Sun Microsystems,
1993); p is minimax, benchmarks/minimax.py: "log".
"""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import INF, NAN, fma, split, vector, whole_sum, with_sign
from calque.runtime.vecmath.exponentials import (
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOG10_2_HIGH,
    LOG10_2_LOW,
    exp,
)

LOG10_E_HIGH = 0.4342944819032518
LOG10_E_LOW = 1.098319650216765e-17


@vector
def log_series(z):
    """p(z) of log(m) = 2 * s + s * z * p(z), z = s**2."""
    p = 0.1461832771819978
    p = fma(p, z, 0.15331560043791786)
    p = fma(p, z, 0.18182894332137188)
    p = fma(p, z, 0.22222211057520842)
    p = fma(p, z, 0.28571428626493629)
    p = fma(p, z, 0.3999999999989823)
    p = fma(p, z, 0.66666666666666697)
    return p


@vector
def log_near(m):
    """log(m) for m from sqrt(1/2) to sqrt(2), as f less a correction."""
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    square = 0.5 * f * f
    return f, square - s * fma(z, log_series(z), square)


@vector
def log_sum(x, low):
    """log(x + low) for a positive finite x, low a correction of x."""
    k, m = split(x)
    f, less = log_near(m)
    return fma(k, LN2_HIGH, f - (less - fma(k, LN2_LOW, low / x)))


@vector
def at_edges(y, x):
    """y, the logarithm of x, but what it is at 0, below 0, at infinity and NaN."""
    y = x if not x < INF else y
    y = -INF if x == 0.0 else y
    return NAN if x < 0.0 else y


@vector
def log(x):
    """The natural logarithm."""
    k, m = split(x)
    f, less = log_near(m)
    return at_edges(fma(k, LN2_HIGH, f - fma(k, -LN2_LOW, less)), x)


@vector
def log2(x):
    """The logarithm to base 2, exact for powers of 2."""
    k, m = split(x)
    f, less = log_near(m)
    return at_edges(fma(f - less, LOG2_E, k), x)


@vector
def log10(x):
    """The logarithm to base 10."""
    k, m = split(x)
    f, less = log_near(m)
    high = f - less
    low = (f - high) - less
    y = high * LOG10_E_HIGH
    rest = fma(high, LOG10_E_HIGH, -y) + fma(high, LOG10_E_LOW, low * LOG10_E_HIGH)
    total, error = whole_sum(k * LOG10_2_HIGH, y)
    return at_edges(total + (error + fma(k, LOG10_2_LOW, rest)), x)


@vector
def log1p(x):
    """log(1 + x): the rounding error of 1 + x comes in as a correction."""
    total, error = whole_sum(1.0, x)
    y = at_edges(log_sum(total, error), total)
    return x if x == 0.0 else y


@vector
def log_series_wide(z):
    """``log_series`` for z up to 1/9: m from 1/2 to 2 ("log1p_unit")."""
    p = 0.15661376367465405
    p = fma(p, z, 0.074752472697142713)
    p = fma(p, z, 0.10849117194668913)
    p = fma(p, z, 0.11733770830111381)
    p = fma(p, z, 0.13335218251784339)
    p = fma(p, z, 0.15384542053643879)
    p = fma(p, z, 0.18181819954077716)
    p = fma(p, z, 0.22222222197290561)
    p = fma(p, z, 0.28571428571608202)
    p = fma(p, z, 0.39999999999999496)
    p = fma(p, z, 0.66666666666666667)
    return p


@vector
def log_expit(x):
    """log(1 / (1 + e**-x)), log(1 + e) as 2 * atanh(e / (2 + e))."""
    e = exp(-abs(x))
    s = e / (2.0 + e)
    z = s * s
    return (x if x < 0.0 else -0.0) - fma(s * z, log_series_wide(z), 2.0 * s)


@vector
def logit(x):
    """log(x / (1 - x)); near 1/2, where that cancels, 2 * atanh(2 * x - 1)."""
    ratio = x / (1.0 - x)
    k, m = split(ratio)
    f = m - 1.0
    near = abs(x - 0.5) < 0.1666
    s = 2.0 * x - 1.0 if near else f / (2.0 + f)
    k = 0.0 if near else k
    z = s * s
    y = fma(s * z, log_series_wide(z), 2.0 * s)
    return at_edges(fma(k, LN2_HIGH, fma(k, LN2_LOW, y)), ratio)


@vector
def asinh(x):
    """log1p(a + a**2 / (1 + sqrt(a**2 + 1))), a = abs(x); log(2 * a) from 2**28."""
    a = abs(x)
    big = a > 268435456.0
    square = a * a
    u = a + square / (1.0 + np.sqrt(square + 1.0))
    total, error = whole_sum(0.0 if big else 1.0, a if big else u)
    y = log_sum(total, error) + (LN2 if big else 0.0)
    y = x if x == 0.0 or not a < INF else y
    return with_sign(abs(y), x)


@vector
def acosh(x):
    """log1p(t + sqrt(t * (t + 2))), t = x - 1; log(2 * x) from 2**28."""
    big = x > 268435456.0
    t = x - 1.0
    u = t + np.sqrt(t * (t + 2.0))
    total, error = whole_sum(0.0 if big else 1.0, x if big else u)
    y = log_sum(total, error) + (LN2 if big else 0.0)
    y = x if not x < INF else y
    return NAN if x < 1.0 else y


@vector
def atanh(x):
    """log1p(2 * a / (1 - a)) / 2, a = abs(x)."""
    a = abs(x)
    total, error = whole_sum(1.0, 2.0 * a / (1.0 - a))
    y = 0.5 * log_sum(total, error)
    y = INF if a == 1.0 else y
    y = NAN if not a <= 1.0 else y
    return with_sign(y, x)
