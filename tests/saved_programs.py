"""Programs for saved modules: each needs a function that Numba lacks, or computes unlike NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

import calque

Case = tuple[Any, tuple[Any, ...]]
RNG = np.random.default_rng(3)
ENDS = np.array([0, 1, -1, 7, 2**31, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, 3037000500])
FLOATS = np.array([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf, 1e19, -1e19, 9.3e18, 3e9, -3e9, 300.0])
POSITIVE = RNG.uniform(0.1, 0.9, 40)
ANY = np.concatenate([RNG.normal(size=30), [0.0, -0.0, 700.0, -700.0, 1e-300, 20.0]])


def generator(seeds, iterations: int):
    out = np.empty(seeds.size)
    for i in range(seeds.size):
        state = seeds[i]
        for _ in range(iterations):
            state = state * 6364136223846793005 + 1442695040888963407
        out[i] = (state >> 33) * 1.0
    return out


def of_scipy(x):
    return scipy.special.jv(1.5, x) * scipy.special.sici(x)[1] - scipy.special.zeta(x + 1.5)


def incomplete(a):
    betas = scipy.special.betainc(a, 1.3, 0.4) + scipy.special.betainc(1.3, a, 0.4)
    return np.sum(scipy.special.gammainc(a, 1.3) + betas)


def by_parameters(a):
    return calque.grad(incomplete)(a)


def whole_arithmetic(a, b):
    return a + b, a - b, a * b, a**3, a * a - 1, abs(a) - b, -a + b


def neighbours(x, k):
    s = 0.0
    for i in range(k.size):
        s += x[k[i] + 1] * x[k[i] * 2 - 1] - x[k[i]]
    return s


def histogram(k):
    counts = np.zeros(9, dtype=np.int64)
    for i in range(k.size):
        counts[k[i]] += 4611686018427387904
    return counts


def total(k):
    s = 0
    for i in range(k.size):
        s += k[i]
    return s, np.sum(k), np.prod(k)


def casts(x):
    return x.astype(np.int64) + 0, x.astype(np.int32) + np.int32(0), x.astype(np.int16) + np.int16(0)


def unsigned_casts(x):  # of what is in range: else NumPy's own differ from lane to lane
    wide = x.astype(np.uint64) + np.uint64(0), x.astype(np.uint32) + np.uint32(0)
    return (*wide, x.astype(np.uint8) + np.uint8(0))


def places(x, y):
    s = 0.0
    for i in range(y.size):
        k = int(y[i])
        if abs(k) < x.shape[0]:
            s += x[abs(k)] + int(y[i] * 0.5) + round(y[i])
    return s


def shifts(a, b):
    return a << b, a >> b, (a.astype(np.uint64) << b.astype(np.uint64)) >> b.astype(np.uint64)


def remainders(a, b):
    return np.fmod(a, b), np.sign(a), np.fmod(a * 1.0, 3.0), a % 5, a // 5


def narrow(a):
    s = np.zeros(3, dtype=np.int8)
    for i in range(a.size):
        s[i % 3] = a[i] % 100
        s[i % 3] += 100
    return s


def chosen(x):
    y = np.maximum(x, 0.1) + np.minimum(x, 0.9) + np.sign(x) + np.heaviside(x, 0.5)
    return y + np.where(x > 0.5, np.fmod(x, 0.3), x)


def elementary(x):
    y = np.exp(x) + np.exp2(x) + np.expm1(x) + np.sin(x) + np.cos(x) + np.tan(x)
    return y, np.tanh(x) + np.arctan(x), np.cosh(0.1 * x), np.sinh(0.1 * x) + np.arcsinh(x)


def logarithms(x):
    y = np.log(x) + np.log2(x) + np.log10(x) + np.log1p(x) + np.cbrt(x) + x**1.5 + x**-0.5
    return y + np.arcsin(x) + np.arccos(x) + np.arctanh(x) + np.power(x, x) + np.hypot(x, 0.3)


def python_numbers(x, n: int):
    s = 0.0
    for i in range(x.size):
        s += x[i] / (n - 1) + (i + 7) // n + (i + 7) % n
    return s


def vectors(x, q: float):
    found = np.empty((4, 9))
    for i in range(4):
        row = np.sort(x[i])
        found[i, 0], found[i, 1], found[i, 2] = np.max(x[i]), np.min(x[i]), np.median(x[i])
        found[i, 3], found[i, 4] = np.quantile(x[i], q), np.cumsum(x[i])[3]
        found[i, 5] = np.maximum.accumulate(x[i])[2] + np.minimum.accumulate(x[i])[3]
        found[i, 6] = np.searchsorted(row, q) + np.searchsorted(row, row[2], side="right")
        found[i, 7], found[i, 8] = np.sum(x[i]), np.argmax(x[i])
    return found


def waves(z):
    y = np.exp(z), np.log(z), np.sqrt(z), np.sin(z), np.cos(z), np.tan(z), np.expm1(z), np.exp2(z)
    y = (*y, np.log2(z), np.log10(z), np.sinh(z), np.cosh(z), np.tanh(z), 1.0 / z, z / (z + 1.0))
    y = (*y, np.arcsin(z), np.arccos(z), np.arctan(z), np.arcsinh(z), np.arccosh(z), np.arctanh(z))
    return (*y, z**3, z**2.5, np.power(z, z), np.reciprocal(z), abs(z))


def small_systems(a, b, c):
    found = np.empty((a.shape[0], 4))
    for k in range(a.shape[0]):
        m = a[k] @ a[k].T + 3.0 * np.eye(3)
        found[k, :3] = np.linalg.solve(m, b[k])
        found[k, 3] = np.linalg.det(m) + np.linalg.slogdet(m)[1] + np.sum(np.linalg.inv(m))
        found[k, 3] += np.sum(np.linalg.cholesky(m)) + np.sum(np.linalg.solve(m, c[k]))
    return found


def stacked(a, b, z):
    s = 0.0
    for r in range(1, 3):
        s += np.sum(np.linalg.solve(a * r, b)) + np.sum(np.linalg.inv(a * r)) + np.sum(np.linalg.det(a))
        s += np.sum(np.linalg.slogdet(a * r)[1]) + np.sum(np.linalg.cholesky(a * r))
        s += np.sum(abs(np.linalg.det(z * r)))
    return s


def finite(a, b):
    s = 0.0
    for r in range(1, 3):
        s += np.sum(scipy.linalg.solve(a * r, b)) + scipy.linalg.det(a * r)
    return s


def fractions(n: int):
    s = 0.0
    for i in range(10):
        s += (i + 1) / n
    return s


def windows(x):
    s = 0.0
    for i in range(1, x.size):
        s += np.max(x[:i]) * np.min(x[i:])
    return s


def pixels(x):
    s = np.zeros(x.size, dtype=np.uint8)
    for i in range(x.size):
        s[i] = int(x[i])
    return s


def levels(x):
    s = np.zeros(x.size, dtype=np.int8)
    for i in range(x.size):
        s[i] = x[i]
    return s


def tallies(k):
    s = np.zeros(k.size, dtype=np.int8)
    for i in range(k.size):
        s[i] = k[i]
    return s


def runs_of_integers(k):
    found = np.empty((2, 3), dtype=np.int64)
    for i in range(2):
        found[i, 0] = np.cumsum(k[i])[3]
        found[i, 1] = np.maximum.accumulate(k[i])[2]
        found[i, 2] = np.minimum.accumulate(k[i])[3]
    return found


def gammas(x):
    return scipy.special.digamma(x) + scipy.special.erf(x) * scipy.special.erfc(x)


def limited(x, most):
    s = 0.0
    for k in range(x.size):
        s = 0.5 * s + x[k]
        if s > most:
            raise ValueError(f"{s:.3f} at {k!r} is over {most!r}")
        assert s >= 0.0, "%s at %03d" % (s, k)
    return s


def whole_quotients(x, p: float):
    s = 0.0
    for i in range(x.size):
        s += float(x[i]) // p
    return s


def integer_powers(a, k):
    out = np.empty_like(a)
    for i in range(a.size):
        out[i] = a[i] ** k[i]
    return out


def bits(k):
    s = 0
    for i in range(k.size):
        s += 1 << int(k[i])
    return s


def inverses(x):
    s = 0.0
    for i in range(x.size):
        s += float(x[i]) ** -1
    return s


def between(x):
    return np.clip(x, -0.5, 0.7) + 1.0


SPD = np.eye(3) * 4.0 + np.ones((2, 3, 3))
Z = RNG.normal(size=12) + 1j * RNG.normal(size=12)
CASES: list[Case] = [
    (generator, (ENDS, 3)),
    (whole_arithmetic, (ENDS, ENDS[::-1].copy())),
    (neighbours, (POSITIVE, np.array([1, 5, 9, -4, 12]))),
    (histogram, (np.array([0, 3, 3, 3, 8, 3, -1]),)),
    (total, (ENDS,)),
    (casts, (FLOATS,)),
    (casts, (FLOATS.astype(np.float32),)),
    (unsigned_casts, (np.array([0.0, 1.5, 255.9, 77.0]),)),
    (unsigned_casts, (np.array([3.0, 200.0], dtype=np.float32),)),
    (places, (POSITIVE, np.array([0.4, 3.9, -7.2, 39.5, 41.0, 1e10]))),
    (shifts, (ENDS[:6], np.array([0, 1, 63, 64, 5, 70]))),
    (remainders, (ENDS[:7], np.array([3, 2, -5, 0, 7, -9, 10]))),
    (narrow, (ENDS[:4],)),
    (chosen, (ANY,)),
    (chosen, (ANY.astype(np.float32),)),
    (elementary, (ANY,)),
    (elementary, (np.linspace(-5.0, 5.0, 33, dtype=np.float32),)),
    (logarithms, (POSITIVE,)),
    (logarithms, (POSITIVE.astype(np.float32),)),
    (python_numbers, (POSITIVE, 3)),
    (vectors, (RNG.normal(size=(4, 7)), 0.3)),
    (waves, (Z,)),
    (waves, (Z.astype(np.complex64),)),
    (stacked, (SPD, RNG.normal(size=(2, 3, 2)), SPD + 0.5j)),
    (finite, (SPD[0], POSITIVE[:3])),
    (fractions, (7,)),
    (windows, (ANY,)),
    (pixels, (POSITIVE * 250.0,)),
    (levels, (POSITIVE * 120.0,)),
    (tallies, (np.array([0, 5, 127], dtype=np.uint16),)),
    (runs_of_integers, (np.array([[3, -1, 4, 1], [5, 9, -2, 6]]),)),
    (gammas, (POSITIVE,)),
    (small_systems, (RNG.normal(size=(5, 3, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3, 2)))),
    (limited, (POSITIVE, 3.0)),
    (whole_quotients, (FLOATS[:4], -0.3)),
    (integer_powers, (ENDS, np.arange(10))),
    (integer_powers, (ENDS[:4].astype("i4"), np.array([5, 3, 30, 12], "i4"))),
    (integer_powers, (ENDS[:2].astype("u8") + np.uint64(7), np.array([5, 2**63 + 3], "u8"))),
    (bits, (np.array([0, 3, 40]),)),
    (inverses, (POSITIVE,)),
    (between, (FLOATS,)),
    (between, (FLOATS.astype(np.float32),)),
    (between, (Z.astype(np.complex64),)),
    (chosen, (ANY[::-1].copy(),)),
    (of_scipy, (POSITIVE,)),
    (by_parameters, (POSITIVE,)),
]
# what plain NumPy refuses
REFUSED: list[Case] = [
    (levels, (POSITIVE * 1000.0,)),
    (levels, (np.array([1.0, np.nan]),)),
    (levels, (np.array([np.inf]),)),
    (tallies, (np.array([128], dtype=np.uint16),)),
    (neighbours, (POSITIVE, np.array([2**63 - 1]))),
    (neighbours, (POSITIVE, np.array([2**62]))),
    (histogram, (np.array([9]),)),
    (places, (POSITIVE, np.array([np.nan]))),
    (fractions, (0,)),
    (python_numbers, (POSITIVE, 0)),
    (vectors, (POSITIVE.reshape(4, 10)[:, :7].copy(), 1.5)),
    (stacked, (np.zeros((2, 3, 3)), np.ones((2, 3, 2)), SPD + 0.5j)),
    (finite, (SPD[0], np.array([1.0, np.inf, 2.0]))),
    (limited, (POSITIVE, 0.6)),
    (limited, (-POSITIVE, 3.0)),
    (whole_quotients, (POSITIVE, 0.0)),
    (integer_powers, (ENDS, np.array([2, -1] * 5))),
    (bits, (np.array([0, -3]),)),
    (inverses, (np.array([1.0, 0.0]),)),
]
