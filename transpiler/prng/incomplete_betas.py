"""Slopes of the regularized incomplete beta function by its parameters.

The function is a continued fraction (DLMF 8.17.22); its convergents are differentiated with it, as
by Boik and Robison-Cox, "Derivatives of the incomplete beta function" (1998).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.prng.gammas import digamma

_MOST = 20000  # convergents


def betainc_by_a(a: Any, b: Any, x: Any) -> Any:
    """The slope of ``betainc(a, b, x)`` by ``a``."""
    return _by_parameters(a, b, x)[0]


def betainc_by_b(a: Any, b: Any, x: Any) -> Any:
    """The slope of ``betainc(a, b, x)`` by ``b``."""
    return _by_parameters(a, b, x)[1]


def _by_parameters(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    dtype = np.result_type(*(np.asarray(v) for v in (a, b, x)), np.float16)
    a, b, x = np.broadcast_arrays(*(np.asarray(v, float) for v in (a, b, x)))
    shape = a.shape
    a, b, x = a.reshape(-1), b.reshape(-1), x.reshape(-1)
    by_a, by_b = np.full((2, len(a)), np.nan)
    valid = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    inside = valid & (x > 0) & (x < 1)
    near = inside & (x <= (a + 1.0) / (a + b + 2.0))
    by_a[near], by_b[near] = _slopes(a[near], b[near], x[near])
    far = inside & ~near
    by_b[far], by_a[far] = -_slopes(b[far], a[far], 1.0 - x[far])
    ends = valid & ((x == 0) | (x == 1))
    by_a[ends] = by_b[ends] = 0.0
    return by_a.reshape(shape).astype(dtype)[()], by_b.reshape(shape).astype(dtype)[()]


def _slopes(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The slopes by a and b where the fraction converges, from its convergents and their slopes."""
    with np.errstate(all="ignore"):
        fraction = _fraction(a, b, x)
        front = np.exp(a * np.log(x) + b * np.log1p(-x) + _lgamma(a + b) - _lgamma(a) - _lgamma(b))
        both = digamma(a + b)
        rates = [
            np.log(x) - 1.0 / a - digamma(a) + both,
            np.log1p(-x) - digamma(b) + both,
        ]
        return np.array([front / a * (r * fraction[0] + k) for r, k in zip(rates, fraction[1:])])


def _fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction, and its slopes by a and b."""
    before, now = np.zeros((2, 3, len(a))), np.zeros((2, 3, len(a)))  # of A and B: by 1, a, b
    before[1, 0], now[:, 0] = 1.0, 1.0
    found, n, quiet = np.full((3, len(a)), np.inf), 0, 0
    while quiet < 3 and n < _MOST:
        n += 1
        term, by_a, by_b = _term(n, a, b, x)
        new = now + term * before
        new[:, 1] += by_a * before[:, 0]
        new[:, 2] += by_b * before[:, 0]
        before, now = now / new[1, 0], new / new[1, 0]
        value = now[0, 0]
        last, found = found, np.array([value, *(now[0, 1:] - value * now[1, 1:])])
        quiet = quiet + 1 if np.all(np.abs(found - last) <= 1e-15 * np.abs(found).sum(0)) else 0
    return found


def _term(n: int, a: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[Any, Any, Any]:
    """The partial numerator of a convergent, and its slopes by a and b."""
    m = n // 2
    if n % 2:
        term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        rate = 1.0 / (a + m) - 1.0 / (a + 2 * m) - 1.0 / (a + 2 * m + 1)
        return term, term * (rate + 1.0 / (a + b + m)), term / (a + b + m)
    by_b = m * x / ((a + 2 * m - 1) * (a + 2 * m))
    term = (b - m) * by_b
    return term, -term * (1.0 / (a + 2 * m - 1) + 1.0 / (a + 2 * m)), by_b


def _lgamma(x: np.ndarray) -> np.ndarray:
    return np.array([math.lgamma(v) for v in x])
