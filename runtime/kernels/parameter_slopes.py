"""Slopes of incomplete gamma and beta functions by their parameters, which kernels call.

The series and continued fractions of ``transpiler/prng/gammas.py`` and ``incomplete_betas.py``, for
one number each (DLMF 8.9.2, 8.11.4, 8.17.22; Boik and Robison-Cox, 1998).
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from calque.runtime.kernels.gamma_functions import digamma


@register_jitable
def shape_slope_of_gamma(a, x):
    """The slope of a gamma number ``x`` by its shape parameter; NaN where there is none."""
    kind = type(a)
    return kind(_slope_of_gamma(np.float64(a), np.float64(x)))


@register_jitable
def _slope_of_gamma(a, x):
    if a > 0.0 and x == 0.0:
        return 0.0
    if not (a > 0.0 and x > 0.0 and math.isfinite(a) and math.isfinite(x)):
        return math.nan
    return _gamma_by_series(a, x) if x <= a + 1.0 else _gamma_by_fraction(a, x)


@register_jitable
def _gamma_by_series(a, x):
    total, slope, term, reciprocals, n = 1.0, 0.0, 1.0, 0.0, 0.0
    while term * (1.0 + reciprocals) > 1e-17 * total:
        n += 1.0
        term *= x / (a + n)
        reciprocals += 1.0 / (a + n)
        total += term
        slope -= term * reciprocals
    return -(x / a) * (total * (math.log(x) - digamma(a + 1.0)) + slope)


@register_jitable
def _gamma_by_fraction(a, x):
    """By numerators and denominators of the convergents, and their derivatives by ``a``."""
    b = x + 1.0 - a
    top, bottom, top_slope, bottom_slope = 0.0, 1.0, 0.0, 0.0
    now, under, now_slope, under_slope = 1.0, b, 0.0, -1.0
    value, slope = now / under, (now_slope - now / under * under_slope) / under
    n, step, done = 0.0, math.inf, False
    while not done and n < 100000.0:
        n += 1.0
        b += 2.0
        factor = -n * (n - a)
        made, made_under = b * now + factor * top, b * under + factor * bottom
        made_slope = b * now_slope + factor * top_slope + n * top - now
        made_under_slope = b * under_slope + factor * bottom_slope + n * bottom - under
        scale = 1e-100 if abs(made_under) > 1e100 else 1.0
        top, bottom = now * scale, under * scale
        top_slope, bottom_slope = now_slope * scale, under_slope * scale
        now, under = made * scale, made_under * scale
        now_slope, under_slope = made_slope * scale, made_under_slope * scale
        last_value, last_slope, last_step = value, slope, step
        value = now / under
        slope = (now_slope - value * under_slope) / under
        step = abs(value / last_value - 1.0) + abs(slope / last_slope - 1.0)
        done = (step < 1e-12 and step >= last_step) or step == 0.0 or step != step
    return x * (value * (math.log(x) - digamma(a)) + slope)


@register_jitable
def first_slope_of_betainc(a, b, x):
    """The slope of ``betainc(a, b, x)`` by ``a``."""
    kind = type(a)
    return kind(_slopes_of_betainc(np.float64(a), np.float64(b), np.float64(x))[0])


@register_jitable
def second_slope_of_betainc(a, b, x):
    """The slope of ``betainc(a, b, x)`` by ``b``."""
    kind = type(a)
    return kind(_slopes_of_betainc(np.float64(a), np.float64(b), np.float64(x))[1])


@register_jitable
def _slopes_of_betainc(a, b, x):
    if not (a > 0.0 and b > 0.0 and math.isfinite(a) and math.isfinite(b)):
        return math.nan, math.nan
    if x == 0.0 or x == 1.0:
        return 0.0, 0.0
    if not 0.0 < x < 1.0:
        return math.nan, math.nan
    if x <= (a + 1.0) / (a + b + 2.0):
        return _betainc_by_fraction(a, b, x)
    by_b, by_a = _betainc_by_fraction(b, a, 1.0 - x)
    return -by_a, -by_b


@register_jitable
def _betainc_by_fraction(a, b, x):
    """The slopes by ``a`` and ``b``, from the convergents and their slopes by both."""
    top, top_a, top_b, bottom, bottom_a, bottom_b = 0.0, 0.0, 0.0, 1.0, 0.0, 0.0
    now, now_a, now_b, under, under_a, under_b = 1.0, 0.0, 0.0, 1.0, 0.0, 0.0
    value, value_a, value_b, quiet, n = math.inf, math.inf, math.inf, 0, 0
    while quiet < 3 and n < 20000:
        n += 1
        term, by_a, by_b = _beta_numerator(n, a, b, x)
        made, made_under = now + term * top, under + term * bottom
        made_a = now_a + term * top_a + by_a * top
        made_b = now_b + term * top_b + by_b * top
        made_under_a = under_a + term * bottom_a + by_a * bottom
        made_under_b = under_b + term * bottom_b + by_b * bottom
        scale = 1.0 / made_under
        top, top_a, top_b = now * scale, now_a * scale, now_b * scale
        bottom, bottom_a, bottom_b = under * scale, under_a * scale, under_b * scale
        now, now_a, now_b = made * scale, made_a * scale, made_b * scale
        under, under_a, under_b = 1.0, made_under_a * scale, made_under_b * scale
        last, last_a, last_b = value, value_a, value_b
        value, value_a, value_b = now, now_a - now * under_a, now_b - now * under_b
        near = 1e-15 * (abs(value) + abs(value_a) + abs(value_b))
        change = max(abs(value - last), abs(value_a - last_a), abs(value_b - last_b))
        quiet = quiet + 1 if change <= near else 0
    both = digamma(a + b)
    logarithms = a * math.log(x) + b * math.log1p(-x)
    logarithms += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithms) / a
    rate_a = math.log(x) - 1.0 / a - digamma(a) + both
    rate_b = math.log1p(-x) - digamma(b) + both
    return front * (rate_a * value + value_a), front * (rate_b * value + value_b)


@register_jitable
def _beta_numerator(n, a, b, x):
    """The partial numerator of a convergent, and its slopes by ``a`` and ``b``."""
    m = n // 2
    if n % 2:
        term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        rate = 1.0 / (a + m) - 1.0 / (a + 2 * m) - 1.0 / (a + 2 * m + 1)
        return term, term * (rate + 1.0 / (a + b + m)), term / (a + b + m)
    by_b = m * x / ((a + 2 * m - 1) * (a + 2 * m))
    term = (b - m) * by_b
    return term, -term * (1.0 / (a + 2 * m - 1) + 1.0 / (a + 2 * m)), by_b
