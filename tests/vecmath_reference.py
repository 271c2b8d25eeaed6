"""References for the vector functions: mpmath, and points that cover their range."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np

from calque.transpiler.codegen.numba.called_functions import HALF_POWERS

PRECISION = 250  # bits: x**2 in erfcx and p / (1 - p) in logit lose many
EXACT = {
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "exp10": lambda x: mp.power(10, x),
    "expm1": mp.expm1,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "expit": lambda x: 1 / (1 + mp.exp(-x)),
    "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.ln2,
    "log10": lambda x: mp.log(x) / mp.ln10,
    "log1p": mp.log1p,
    "log_expit": lambda x: -mp.log1p(mp.exp(-x)),
    "logit": lambda x: mp.log(x / (1 - x)),
    "asinh": lambda x: mp.sign(x) * mp.asinh(abs(x)),
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "erf": mp.erf,
    "erfc": lambda x: mp.erfc(min(x, mp.mpf(200))),
    "erfcx": lambda x: _erfcx(x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "pow": mp.power,
    "atan2": mp.atan2,
    "hypot": mp.hypot,
    **{
        name: (lambda x, exponent=exponent: mp.power(x, exponent) if x >= 0 else mp.nan)
        for exponent, name in HALF_POWERS.items()
    },
}


def _erfcx(x: Any) -> Any:
    """exp(x**2) * erfc(x); far out by its asymptotic series, where mpmath's numbers burst."""
    if x > 1e6:
        z = 1 / (2 * x * x)
        return (1 - z + 3 * z**2 - 15 * z**3) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x) if x > -1e3 else mp.exp(mp.mpf(10) ** 6)


TWO_ARGUMENTS = ("pow", "atan2", "hypot")
# open intervals outside of which the functions are NaN, infinite, or long since constant
DOMAIN = {
    **dict.fromkeys(("log", "log2", "log10"), (0.0, math.inf)),
    "log1p": (-1.0, math.inf),
    "logit": (0.0, 1.0),
    "acosh": (1.0, math.inf),
    **dict.fromkeys(("atanh", "asin", "acos"), (-1.0, 1.0)),
    **dict.fromkeys(("exp", "exp2", "exp10", "expm1", "sinh", "cosh"), (-1200.0, 1200.0)),
    **dict.fromkeys(("tanh", "expit", "log_expit"), (-1200.0, 1e30)),
    **dict.fromkeys(("erf", "erfc"), (-40.0, 40.0)),
    "erfcx": (-40.0, math.inf),
    **dict.fromkeys(HALF_POWERS.values(), (0.0, math.inf)),
}


def points(name: str, count: int, dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """About ``count`` points of the domain: all bit patterns, all magnitudes, and the busy places."""
    n = count // 6
    bits = np.uint64 if dtype is np.float64 else np.uint32
    parts = [
        rng.integers(0, np.iinfo(bits).max, n, dtype=bits).view(dtype),
        rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-25, 14, n),
        rng.uniform(-1.0, 1.0, n),
        rng.uniform(-12.0, 12.0, n),
        rng.uniform(-760.0, 760.0, n),
        rng.choice([-1.0, 0.5, 1.0, math.pi / 2, math.pi], n)
        * (1.0 + rng.uniform(-1.0, 1.0, n) * 2.0 ** rng.uniform(-52, 0, n)),
        np.arange(1.0, 60.0) * math.pi / 2,
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate([part.astype(dtype) for part in parts])
    low, high = DOMAIN.get(name, (-math.inf, math.inf))
    return x[np.isfinite(x) & (x > low) & (x < high)]


def pairs(name: str, count: int, dtype: Any, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Arguments of a function of two: for ``pow`` such that most results are numbers."""
    x = points("", count, dtype, rng)
    y = rng.choice(points("", count, dtype, rng), x.size)
    if name == "hypot" or name == "atan2":
        near = rng.random(x.size) < 0.5
        with np.errstate(all="ignore"):
            y = np.where(near, x * rng.uniform(-4.0, 4.0, x.size), y).astype(dtype)
        return x, np.where(np.isfinite(y), y, dtype(1))
    limit = 760.0 if dtype is np.float64 else 110.0
    with np.errstate(all="ignore"):
        wanted = rng.uniform(-limit, limit, x.size)
        y = np.where(rng.random(x.size) < 0.8, wanted / np.log(np.abs(x.astype(float))), y)
        whole = (rng.random(x.size) < 0.3) | (x < 0)
        y = np.where(whole, np.rint(y), y).astype(dtype)
    good = np.isfinite(y) & (x != 0)
    return x[good], y[good]


def ulps(name: str, got: np.ndarray, *args: np.ndarray) -> np.ndarray:
    """The error of each result in units in the last place of the exact value's rounding.

    A value that rounds to infinity must be that infinity, and only such a value may be.
    """
    dtype = got.dtype.type
    errors = np.zeros(got.size)
    with mp.workprec(PRECISION), np.errstate(over="ignore", under="ignore"):
        largest = mp.mpf(float(np.finfo(dtype).max)) * (1 + mp.mpf(2) ** -54)
        for i in range(got.size):
            numbers = [mp.mpf(float(a[i])) for a in args]
            exact = _power(*numbers) if name == "pow" else EXACT[name](*numbers)
            if abs(exact) > largest or not np.isfinite(got[i]):
                right = got[i] == float(mp.sign(exact)) * math.inf and abs(exact) > largest
                errors[i] = 0.0 if right else math.inf
                continue
            unit = np.spacing(np.abs(dtype(float(exact))))
            unit = np.spacing(np.finfo(dtype).max) if not np.isfinite(unit) else unit
            errors[i] = float(abs(mp.mpf(float(got[i])) - exact) / mp.mpf(float(unit)))
    return errors


def _power(x: Any, y: Any) -> Any:
    """x**y of large magnitudes without mpmath's endless numbers."""
    magnitude = y * mp.log(abs(x)) if x not in (1, -1) else mp.mpf(0)
    if abs(magnitude) > 5000:
        value = mp.exp(mp.sign(magnitude) * 5000)
        return -value if x < 0 and y % 2 == 1 else value
    return mp.re(mp.power(x, y))
