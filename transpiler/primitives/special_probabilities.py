"""``scipy.special``, continued: the functions that probabilities and quantiles are made of.

The incomplete gamma and beta functions have slopes by their parameters too, which are summed with
the functions' own series (``transpiler/prng``); their inverses have them by the implicit function
theorem. Distribution functions of ``scipy.special`` are these of other arguments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler import prng
from calque.transpiler.primitives.base import Primitive, apply, elementwise, operand
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.random_parameters import gamma_slope
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stats import both, chosen, either
from calque.transpiler.primitives.special import LACKING, SPECIAL, declare

_POSITIVE, _UNIT = (0.5, 3.0), (0.1, 0.9)
_ROOT_2PI = math.sqrt(2.0 * math.pi)


def _call(name: str, *args: Any) -> Any:
    return apply(SPECIAL[name], *args)


# incomplete gamma functions


def _gamma_density(a: Any, x: Any) -> Any:
    return np.exp(_call("xlogy", a - 1.0, x) - x - _call("gammaln", a))


def _by_shape(a: Any, x: Any) -> Any:
    """The slope of the quantile of a gamma distribution by its shape."""
    return apply(gamma_slope, a, x)


def _gammainc(a: Any, x: Any, y: Any) -> Any:
    ends = either(np.equal(x, 0.0), np.isposinf(x))  # where no shape changes the function
    inside = chosen(ends, 1.0, x)
    by_shape = chosen(ends, 0.0, -_by_shape(a, inside) * _gamma_density(a, inside))
    return by_shape, _gamma_density(a, x)


def _gammaincc(a: Any, x: Any, y: Any) -> Any:
    by_shape, density = _gammainc(a, x, y)
    return -by_shape, -density


declare("gammainc", _gammainc, 2, [_POSITIVE])
declare("gammaincc", _gammaincc, 2, [_POSITIVE])
declare(
    "gammaincinv",
    lambda a, q, y: (_by_shape(a, y), 1.0 / _gamma_density(a, y)),
    2,
    [_POSITIVE, _UNIT],
)
declare(
    "gammainccinv",
    lambda a, q, y: (_by_shape(a, y), -1.0 / _gamma_density(a, y)),
    2,
    [_POSITIVE, _UNIT],
)


# incomplete beta functions


def _slope_of_betainc(name: str, parameter: str) -> Primitive:
    record = elementwise(
        getattr(prng, name),
        no_derivative(f"the slope of special.betainc by {parameter}"),
        arity=3,
        domain=[_POSITIVE, _POSITIVE, _UNIT],
        name=f"prng.{name}",
    )
    record.imported = ("calque.transpiler.prng", name)
    record.spelling = "({0}, {1}, {2})"
    place = "first" if parameter == "a" else "second"
    record.numba = f"{place}_slope_of_betainc({{0}}, {{1}}, {{2}})"
    record.cupy = LACKING
    return record


by_a, by_b = _slope_of_betainc("betainc_by_a", "a"), _slope_of_betainc("betainc_by_b", "b")


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    logarithm = _call("xlog1py", b - 1.0, -x) + _call("xlogy", a - 1.0, x)
    return np.exp(logarithm - _call("betaln", a, b))


def _betainc(a: Any, b: Any, x: Any, y: Any) -> Any:
    return apply(by_a, a, b, x), apply(by_b, a, b, x), _beta_density(a, b, x)


def _betaincinv(a: Any, b: Any, q: Any, y: Any) -> Any:
    density = _beta_density(a, b, y)
    return -apply(by_a, a, b, y) / density, -apply(by_b, a, b, y) / density, 1.0 / density


def _betainccinv(a: Any, b: Any, q: Any, y: Any) -> Any:
    slopes = _betaincinv(a, b, q, y)
    return slopes[0], slopes[1], -slopes[2]


_BETA = [_POSITIVE, _POSITIVE, _UNIT]
declare("betainc", _betainc, 3, _BETA)
declare("betaincc", lambda a, b, x, y: tuple(-s for s in _betainc(a, b, x, y)), 3, _BETA)
declare("betaincinv", _betaincinv, 3, _BETA)
declare("betainccinv", _betainccinv, 3, _BETA)


# Student's distribution


def _t_density(df: Any, t: Any) -> Any:
    logarithm = np.log(_call("poch", 0.5 * df, 0.5)) - 0.5 * np.log(math.pi * df)
    return np.exp(logarithm - 0.5 * (df + 1.0) * np.log1p(t * t / df))


def _t_by_df(df: Any, t: Any) -> Any:
    """By ``df``, which is a parameter and in the argument of the incomplete beta function."""
    total = df + t * t
    half = 0.5 * np.sign(t)
    # 1 - I_(df / total)(df / 2, 1 / 2) / 2, and its slope by the argument is the density by t
    return -0.5 * half * apply(by_a, 0.5 * df, 0.5, df / total) - 0.5 * t / df * _t_density(df, t)


def _stdtrit(df: Any, q: Any, y: Any) -> Any:
    density = _t_density(df, y)
    return -_t_by_df(df, y) / density, 1.0 / density


declare("stdtr", lambda df, t, y: (_t_by_df(df, t), _t_density(df, t)), 2, [_POSITIVE, (-2.0, 2.0)])
declare("stdtrit", _stdtrit, 2, [_POSITIVE, _UNIT])

# other functions, of these


def _said(name: str, count: int) -> Any:
    """Let a function of ``scipy.special`` mean the decorated function of arrays."""

    def declare_handler(formula: Any) -> Any:
        def call(*args: Any) -> Any:
            if len(args) != count:
                raise TypeError(f"{name} takes {count} arguments, {len(args)} were given")
            return formula(*map(_real, args))

        means("scipy.special", name)(call)
        return formula

    return declare_handler


def _real(value: Any) -> Any:
    """An argument as an array function takes it."""
    value = operand(value)
    return float(value) if isinstance(value, int) else value


def _next(k: Any) -> Any:
    """The number after a count, NaN after one below 0."""
    return chosen(k < 0.0, np.nan, k + 1.0)


_said("chdtr", 2)(lambda v, x: _call("gammainc", 0.5 * v, 0.5 * x))
_said("chdtrc", 2)(lambda v, x: _call("gammaincc", 0.5 * v, 0.5 * x))
_said("chdtri", 2)(lambda v, p: 2.0 * _call("gammainccinv", 0.5 * v, p))
_said("gdtr", 3)(lambda a, b, x: _call("gammainc", b, a * x))
_said("gdtrc", 3)(lambda a, b, x: _call("gammaincc", b, a * x))
_said("pdtr", 2)(lambda k, m: _call("gammaincc", _next(np.floor(k)), m))
_said("pdtrc", 2)(lambda k, m: _call("gammainc", _next(np.floor(k)), m))
_said("btdtr", 3)(lambda a, b, x: _call("betainc", a, b, x))
_said("fdtr", 3)(lambda n, m, x: _call("betainc", 0.5 * n, 0.5 * m, n * x / (m + n * x)))
_said("fdtrc", 3)(lambda n, m, x: _call("betainc", 0.5 * m, 0.5 * n, m / (m + n * x)))


@_said("fdtri", 3)
def _fdtri(n: Any, m: Any, q: Any) -> Any:
    """The beta quantile, or what is missing to 1, whichever is small."""
    low, high = _call("betaincinv", 0.5 * n, 0.5 * m, q), _call("betainccinv", 0.5 * m, 0.5 * n, q)
    small = low < 0.5
    return m / n * np.where(small, low / (1.0 - low), (1.0 - high) / high)


def _of_trials(name: str, whole: float, none: float, k: Any, n: Any, p: Any) -> Any:
    """The probability of at most, or of more than, ``k`` of ``n``; NaN where that is senseless."""
    k = np.floor(k)
    valid = both(n >= k, both(p >= 0.0, p <= 1.0))
    inner = both(valid, both(k >= 0.0, k < n))
    found = _call(name, chosen(inner, k + 1.0, 1.0), chosen(inner, n - k, 1.0), p)
    found = chosen(inner, found, chosen(k < 0.0, none, whole))
    return chosen(valid, found, np.nan)


_said("bdtr", 3)(lambda k, n, p: _of_trials("betaincc", 1.0, np.nan, k, n, p))
_said("bdtrc", 3)(lambda k, n, p: _of_trials("betainc", 0.0, 1.0, k, n, p))


def _of_failures(name: str, k: Any, n: Any, p: Any) -> Any:
    """The probability of at most, or of more than, ``k`` before ``n`` successes; whole numbers."""
    k, n = np.trunc(k), np.trunc(n)
    valid = both(k >= 0.0, n > 0.0)
    return _call(name, chosen(valid, n, np.nan), chosen(valid, k + 1.0, np.nan), p)


_said("nbdtr", 3)(lambda k, n, p: _of_failures("betainc", k, n, p))
_said("nbdtrc", 3)(lambda k, n, p: _of_failures("betaincc", k, n, p))
_said("pdtri", 2)(
    lambda k, y: _call("gammainccinv", _next(np.trunc(k)), chosen(y < 1.0, y, np.nan))
)
