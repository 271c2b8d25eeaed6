"""Densities and quantiles that SciPy takes of Boost, under their private names, by formulas.

The formulas of ``scipy.stats`` call them. A parameter that is not here has no rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.primitives.base import apply, operand
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.special import SPECIAL


def _call(name: str, *args: Any) -> Any:
    return apply(SPECIAL[name], *args)


def _formula(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def declare_formula(formula: Callable[..., Any]) -> Callable[..., Any]:
        means("scipy.special._ufuncs", name)(lambda *args: formula(*map(operand, args)))
        return formula

    return declare_formula


@_formula("_beta_pdf")
def _beta_pdf(x: Any, a: Any, b: Any) -> Any:
    logarithm = _call("xlog1py", b - 1.0, -x) + _call("xlogy", a - 1.0, x)
    return np.exp(logarithm - _call("betaln", a, b))


@_formula("_beta_ppf")
def _beta_ppf(q: Any, a: Any, b: Any) -> Any:
    return _call("betaincinv", a, b, q)


@_formula("_cauchy_ppf")
def _cauchy_ppf(q: Any, loc: Any, scale: Any) -> Any:
    """From the nearer end, where a tangent keeps its digits."""
    small = q <= 0.5
    return loc - scale * np.where(small, 1.0, -1.0) / np.tan(math.pi * np.where(small, q, 1.0 - q))


@_formula("_cauchy_isf")
def _cauchy_isf(q: Any, loc: Any, scale: Any) -> Any:
    return -_cauchy_ppf(q, -loc, scale)


def _binomial(k: Any, n: Any) -> Any:
    """The logarithm of a binomial coefficient."""
    return -_call("betaln", 1.0 + n - k, 1.0 + k) - np.log(n + 1.0)


@_formula("_binom_pmf")
def _binom_pmf(k: Any, n: Any, p: Any) -> Any:
    logarithm = _call("xlogy", k, p) + _call("xlog1py", n - k, -p)
    return np.exp(_binomial(k, n) + logarithm)


@_formula("_binom_cdf")
def _binom_cdf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 1.0, _call("betaincc", k + 1.0, np.maximum(n - k, 0.5), p))


@_formula("_binom_sf")
def _binom_sf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 0.0, _call("betainc", k + 1.0, np.maximum(n - k, 0.5), p))


@_formula("_hypergeom_pmf")
def _hypergeom_pmf(k: Any, good: Any, drawn: Any, total: Any) -> Any:
    """The numbers are whole, and counted in floats."""
    bad = total - good
    logarithm = _binomial(k, 1.0 * good) + _binomial(drawn - k, 1.0 * bad)
    return np.exp(logarithm - _binomial(1.0 * drawn, 1.0 * total))


@_formula("_nbinom_pmf")
def _nbinom_pmf(k: Any, n: Any, p: Any) -> Any:
    coefficient = _call("gammaln", n + k) - _call("gammaln", k + 1.0) - _call("gammaln", n)
    return np.exp(coefficient + n * np.log(p) + _call("xlog1py", k, -p))


@_formula("_nbinom_cdf")
def _nbinom_cdf(k: Any, n: Any, p: Any) -> Any:
    return _call("betainc", n, k + 1.0, p)


@_formula("_nbinom_sf")
def _nbinom_sf(k: Any, n: Any, p: Any) -> Any:
    return _call("betaincc", n, k + 1.0, p)


@_formula("_skewnorm_cdf")
def _skewnorm_cdf(x: Any, loc: Any, scale: Any, shape: Any) -> Any:
    z = (x - loc) / scale
    return _call("ndtr", z) - 2.0 * _call("owens_t", z, shape)


@_formula("_nbinom_mean")
def _nbinom_mean(n: Any, p: Any) -> Any:
    return n * (1.0 - p) / p


@_formula("_nbinom_variance")
def _nbinom_variance(n: Any, p: Any) -> Any:
    return n * (1.0 - p) / (p * p)


# the higher moments of a negative binomial are of no use here
for _name in ("_nbinom_skewness", "_nbinom_kurtosis_excess"):
    _formula(_name)(lambda n, p: None)
