"""Gamma numbers, by Marsaglia and Tsang, and what they change with the shape parameter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.prng.bits import split
from calque.transpiler.prng.normals import normal
from calque.transpiler.prng.standard import exponential
from calque.transpiler.prng.uniforms import uniform

_SMALL = 1e-17  # relative terms that change no sum
_LARGE = 1e100


def gamma(keys: np.ndarray, a: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw gamma numbers with shape parameter ``a``, each with a key of its own."""
    return _gamma(keys, a, shape, dtype, False)


def loggamma(keys: np.ndarray, a: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw the logarithms of gamma numbers."""
    return _gamma(keys, a, shape, dtype, True)


def _gamma(
    keys: np.ndarray, a: Any, shape: tuple[int, ...], dtype: np.dtype, logarithm: bool
) -> Any:
    batch = keys.shape[:-1]
    a = np.broadcast_to(np.asarray(a, dtype), (*batch, *shape)).reshape(-1)
    each = split(keys, (math.prod(shape),)).reshape(-1, 2)
    return _gamma_numbers(each, a, logarithm).reshape((*batch, *shape))[()]


def _gamma_numbers(keys: np.ndarray, a: np.ndarray, logarithm: bool) -> np.ndarray:
    """One number with each key."""
    one, third = a.dtype.type(1), a.dtype.type(1.0 / 3.0)
    with np.errstate(all="ignore"):
        large = a >= one
        d = np.where(large, a, a + one) - third
        c = third / np.sqrt(d)
        halves = split(keys, (2,))
        v = _accepted(halves[:, 0], c, d)
        last = halves[:, 1]
        if logarithm:
            power = -exponential(last, (), a.dtype)
            boost = np.where(large | (power == 0), a.dtype.type(0), power * (one / a))
            return np.log(d) + np.log(v) + boost
        base = one - uniform(last, (), a.dtype)
        return d * v * np.where(large, one, base ** (one / a))


def _accepted(keys: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The cubes that pass the test, drawn again where they do not."""
    found = np.ones_like(d)
    left = np.arange(len(d))
    while len(left):
        parts = split(keys, (3,))
        keys = parts[:, 0]
        x, v = _positive(parts[:, 1], c[left])
        square, v = x * x, v * v * v
        u = uniform(parts[:, 2], (), d.dtype)
        again = u >= 1 - d.dtype.type(0.0331) * (square * square)
        bound = square * d.dtype.type(0.5) + d[left] * ((1 - v) + np.log(v))
        again &= np.log(u) >= bound
        found[left] = v
        left, keys = left[again], keys[again]
    return found


def _positive(keys: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal numbers ``x``, drawn again until ``v = 1 + x c`` is positive."""
    x, v = np.zeros_like(c), np.full_like(c, -1)
    left = np.arange(len(c))
    while len(left):
        halves = split(keys, (2,))
        x[left] = normal(halves[:, 1], (), c.dtype)
        v[left] = 1 + x[left] * c[left]
        again = v[left] <= 0
        left, keys = left[again], halves[again, 0]
    return x, v


def gamma_slope(a: Any, x: Any) -> Any:
    """Compute the slope of a gamma number ``x`` by its shape parameter: implicit reparametrization.

    Figurnov, Mohamed and Mnih (2018): minus the derivative of the distribution function by ``a``,
    over the density. The function is summed as a series (DLMF 8.11.4) or a continued fraction
    (8.9.2), and its derivative with it.
    """
    dtype = np.result_type(np.asarray(a), np.asarray(x), np.float16)
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    shape = a.shape
    a, x = a.reshape(-1), x.reshape(-1)
    found = np.full_like(a, np.nan)
    valid = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    near = valid & (x <= a + 1)
    found[near] = _slope_by_series(a[near], x[near])
    far = valid & ~near
    found[far] = _slope_by_fraction(a[far], x[far])
    found[(a > 0) & (x == 0)] = 0.0
    return found.reshape(shape).astype(dtype)[()]


def log_gamma_slope(a: Any, y: Any) -> Any:
    """Compute the slope of the logarithm ``y`` of a gamma number by its shape parameter."""
    y = np.asarray(y)
    x = np.exp(y)
    x = np.where(x == 0, np.finfo(x.dtype).tiny, x)
    return gamma_slope(a, x) / x


def _slope_by_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    total, slope = np.ones_like(a), np.zeros_like(a)
    term, reciprocals = np.ones_like(a), np.zeros_like(a)
    n = 0
    while np.any(term * (1.0 + reciprocals) > _SMALL * total):
        n += 1
        term = term * (x / (a + n))
        reciprocals = reciprocals + 1.0 / (a + n)
        total = total + term
        slope = slope - term * reciprocals
    return -(x / a) * (total * (np.log(x) - digamma(a + 1.0)) + slope)


def _slope_by_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """By numerators and denominators of the convergents, and their derivatives by ``a``."""
    b = x + 1.0 - a
    before, now = np.zeros((4, len(a))), np.zeros((4, len(a)))  # A, B, A', B'
    before[1], now[0], now[1], now[3] = 1.0, 1.0, b, -1.0
    value, slope = now[0] / now[1], (now[2] - now[0] / now[1] * now[3]) / now[1]
    n, done = 0, np.zeros(len(a), bool)
    step = np.full(len(a), np.inf)
    while not done.all() and n < 100000:
        n += 1
        b = b + 2.0
        factor = -n * (n - a)
        new = b * now + factor * before
        new[2:] += n * before[:2] - now[:2]
        before, now = now, new
        large = np.abs(now[1]) > _LARGE
        before[:, large] /= _LARGE
        now[:, large] /= _LARGE
        last_value, last_slope = value, slope
        value = now[0] / now[1]
        slope = (now[2] - value * now[3]) / now[1]
        last_step, step = step, np.abs(value / last_value - 1.0) + np.abs(slope / last_slope - 1.0)
        # from here on steps are rounding, and grow as often as they shrink
        done |= (step < 1e-12) & (step >= last_step) | (step == 0.0) | np.isnan(step)
    return x * (value * (np.log(x) - digamma(a)) + slope)


def digamma(x: np.ndarray) -> np.ndarray:
    """The logarithmic derivative of the gamma function, for positive numbers (DLMF 5.11.2)."""
    total = np.zeros_like(x)
    for _ in range(10):
        small = x < 10.0
        total -= np.where(small, 1.0 / x, 0.0)
        x = np.where(small, x + 1.0, x)
    z = 1.0 / (x * x)
    series = np.full_like(x, 8.33333333333333333333e-2)
    for c in (-2.10927960927960927961e-2, 7.57575757575757575758e-3, -4.16666666666666666667e-3):
        series = series * z + c
    for c in (3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2):
        series = series * z + c
    return total + np.log(x) - 0.5 / x - z * series
