"""Counts: Poisson and binomial numbers, by the rejection methods of JAX.

Elements of one call share their keys in each iteration, and an accepted one is drawn again while
others are not: so JAX does, and to give its numbers, so do we.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.prng.bits import split
from calque.transpiler.prng.uniforms import unit

_SINGLE = np.dtype(np.float32)
# Lanczos's approximation with g = 7, as JAX's compiler has it
_LANCZOS = (
    *(676.520368121885098567009190444019, -1259.13921672240287047156078755283),
    *(771.3234287776530788486528258894, -176.61502916214059906584551354),
    *(12.507343278686904814458936853, -0.13857109526572011689554707),
    *(9.984369578019570859563e-6, 1.50563273514931155834e-7),
)
_STIRLING = (
    *(0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509),
    *(0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.010411265261972),
    *(0.00925546218271273, 0.00833056343336287),
)
# draws one iteration of some rows: the accepted ones, and the counts
Draw = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def poisson(keys: np.ndarray, lam: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw counts of what happens ``lam`` times in the mean."""
    keys, own, (rate,) = _rows(keys, shape, lam)
    rate = rate.astype(np.float32)
    small = np.isnan(rate) | (rate < 10)
    found = np.zeros(rate.shape, dtype)
    with np.errstate(all="ignore"):
        if small.any():
            counts = _knuth(keys.copy(), np.where(small, rate, np.float32(0)))
            found[small] = counts.astype(dtype)[small]
        if not small.all():
            counts = _transformed(keys.copy(), np.where(small, np.float32(1e5), rate))
            found[~small] = counts.astype(dtype)[~small]
    found[rate == 0] = 0
    return found.reshape(own)[()]


def _rows(
    keys: np.ndarray, shape: tuple[int, ...], *parameters: Any
) -> tuple[np.ndarray, tuple[int, ...], list[np.ndarray]]:
    """Keys as rows, the shape of the result, and the parameters with a row for each key."""
    own = (*keys.shape[:-1], *shape)
    keys = keys.reshape(-1, 2)
    sizes = (len(keys), math.prod(shape))
    return keys, own, [np.broadcast_to(p, own).reshape(sizes) for p in parameters]


def _knuth(keys: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The number of uniform draws whose product stays above exp(-rate)."""
    count, logs = np.zeros(rate.shape, int), np.zeros_like(rate)
    rows = np.flatnonzero(np.any(logs > -rate, axis=1))
    while len(rows):
        halves = split(keys[rows], (2,))
        keys[rows] = halves[:, 0]
        count[rows] += logs[rows] > -rate[rows]
        logs[rows] += np.log(unit(halves[:, 1], rate.shape[1:], _SINGLE))
        rows = rows[np.any(logs[rows] > -rate[rows], axis=1)]
    return count - 1


def _until_accepted(keys: np.ndarray, like: np.ndarray, draw: Draw) -> np.ndarray:
    """Draw for each row until all of its elements have been accepted once."""
    found, accepted = np.full_like(like, -1), np.zeros(like.shape, bool)
    rows = np.arange(len(keys))
    while len(rows):
        parts = split(keys[rows], (3,))
        keys[rows] = parts[:, 0]
        good, counts = draw(rows, parts[:, 1:])
        found[rows] = np.where(good, counts, found[rows])
        accepted[rows] |= good
        rows = rows[~accepted[rows].all(axis=1)]
    return found


def _transformed(keys: np.ndarray, rate: np.ndarray) -> np.ndarray:
    f = rate.dtype.type
    log_rate = np.log(rate)
    b = f(0.931) + f(2.53) * np.sqrt(rate)
    a = f(-0.059) + f(0.02483) * b
    inverse_alpha = f(1.1239) + f(1.1328) / (b - f(3.4))
    enough = f(0.9277) - f(3.6224) / (b - f(2))

    def draw(rows: np.ndarray, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = unit(pair[:, 0], rate.shape[1:], rate.dtype) - f(0.5)
        v = unit(pair[:, 1], rate.shape[1:], rate.dtype)
        rest, wide, tall = f(0.5) - np.abs(u), b[rows], a[rows]
        k = np.floor((2 * tall / rest + wide) * u + rate[rows] + f(0.43))
        s = np.log(v * inverse_alpha[rows] / (tall / (rest * rest) + wide))
        bound = -rate[rows] + k * log_rate[rows] - _log_gamma(k + 1)
        good = (rest >= f(0.07)) & (v <= enough[rows])
        bad = (k < 0) | (rest < f(0.013)) & (v > rest)
        return good | ~bad & (s <= bound), k

    return _until_accepted(keys, rate, draw)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    f = x.dtype.type
    z = x - 1
    total = np.full_like(x, 0.99999999999980993227684700473478)
    for k, c in enumerate(_LANCZOS):
        total = total + f(c) / (z + f(k + 1))
    t = f(7.5) + z
    log_t = f(math.log(7.5)) + np.log1p(z / f(7.5))
    return (z + f(0.5) - t / log_t) * log_t + (f(0.5 * math.log(2.0 * math.pi)) + np.log(total))


def binomial(keys: np.ndarray, n: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw how many of ``n`` trials succeed, each with probability ``p``."""
    kind = np.asarray(p).dtype
    kind = kind if kind.kind in "fc" else np.dtype(float)
    n, p = np.asarray(n, kind), np.asarray(p, kind)
    keys, own, (count, chance) = _rows(keys, shape, n, p)
    with np.errstate(all="ignore"):
        return _binomial(keys, count, chance, dtype).reshape(own)[()]


def _binomial(
    keys: np.ndarray, count: np.ndarray, chance: np.ndarray, dtype: np.dtype
) -> np.ndarray:
    seldom = chance < 0.5
    q = np.where(seldom, chance, 1 - chance)
    no_count = np.isnan(count) | (count < 0)
    endless = np.isinf(count)
    no_chance = np.isnan(q) | (q < 0)
    unknown = np.isnan(q)
    q = np.where(no_chance, count.dtype.type(0.01), q)
    by_runs = no_count | (count * q <= 10)
    count = np.floor(count)
    found = np.zeros(count.shape, dtype)
    if by_runs.any():
        runs = _runs(keys.copy(), np.where(by_runs, count, 0), q)
        found[by_runs] = runs.astype(dtype)[by_runs]
    if not by_runs.all():
        many = np.where(by_runs, count.dtype.type(10000), count)
        tried = _tried(keys.copy(), many, np.where(by_runs, count.dtype.type(0.5), q))
        found[~by_runs] = tried.astype(dtype)[~by_runs]
    invalid = no_chance | no_count
    found[invalid] = np.nan
    found[endless & ~invalid] = np.inf
    as_they_are = seldom | no_count | unknown | endless
    return np.where(as_they_are, found, count.astype(dtype) - found)


def _runs(keys: np.ndarray, count: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The number of runs of failures, each with its success, that fit into the trials."""
    log_failure = np.log1p(-q)
    found, length = np.zeros_like(q), np.zeros_like(q)
    rows = np.flatnonzero(np.any(length <= count, axis=1))
    while len(rows):
        halves = split(keys[rows], (2,))
        keys[rows] = halves[:, 1]
        found[rows] += length[rows] <= count[rows]
        u = unit(halves[:, 0], q.shape[1:], q.dtype)
        length[rows] += np.ceil(np.log(u) / log_failure[rows])
        rows = rows[np.any(length[rows] <= count[rows], axis=1)]
    return found - 1


def _tried(keys: np.ndarray, count: np.ndarray, q: np.ndarray) -> np.ndarray:
    deviation = np.sqrt(count * q * (1 - q))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * q
    c = count * q + 0.5
    enough = 0.92 - 4.2 / b
    odds = q / (1 - q)
    alpha = (2.83 + 5.1 / b) * deviation
    middle = np.floor((count + 1) * q)

    def draw(rows: np.ndarray, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = unit(pair[:, 0], q.shape[1:], q.dtype) - q.dtype.type(0.5)
        v = unit(pair[:, 1], q.shape[1:], q.dtype)
        n, m, r, wide, tall = count[rows], middle[rows], odds[rows], b[rows], a[rows]
        rest = q.dtype.type(0.5) - np.abs(u)
        good = (rest >= 0.07) & (v <= enough[rows])
        k = np.floor((2 * tall / rest + wide) * u + c[rows])
        bad = (k < 0) | (k > n)
        v = np.log(v * alpha[rows] / (tall / (rest * rest) + wide))
        bound = (
            (m + 0.5) * np.log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * np.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * np.log(r * (n - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(n - m)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        return good | ~bad & (v <= bound), k

    return _until_accepted(keys, q, draw)


def _stirling_tail(k: np.ndarray) -> np.ndarray:
    """The part of the logarithm of ``k!`` that Stirling's formula leaves out."""
    small = k <= 9
    k = np.clip(k, 0, 9)
    square = (k + 1) * (k + 1)
    approximate = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    table = np.array(_STIRLING, k.dtype)
    return np.where(small, table[np.where(small, np.floor(k), 0).astype(np.int32)], approximate)
