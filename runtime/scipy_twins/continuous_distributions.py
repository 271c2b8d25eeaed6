"""Distributions of ``scipy.stats``: SciPy's own formulas are read, masked as SciPy masks them.

SciPy's ``pdf`` and its like compute by the formulas ``_pdf``, ``_logpdf``, ... of the standardized
distribution, in the places within its support. The twins call the same formulas everywhere, outside
of the support with a number within it, and select: no derivative is NaN where no number is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin
from calque.transpiler.primitives import scipy_stats as masks
from calque.transpiler.primitives.scipy_stats import both, chosen, parameters

# the formulas of these give what SciPy gives at infinity too, and of probabilities that are none
_WHOLE = {"norm"}
# the formulas of these give NaN for a NaN
_NAN_FOR_NAN = frozenset(
    """norm expon uniform laplace logistic cauchy lognorm weibull_min weibull_max gumbel_r gumbel_l
    pareto t chi2 f gamma invgamma beta truncnorm halfnorm rayleigh maxwell""".split()
)


@twin("scipy.stats._distn_infrastructure", "rv_generic._get_support")
def get_support(dist: Any, *args: Any) -> tuple[float, float]:
    """The ends of the support, where no parameter moves them."""
    return dist.a, dist.b


@twin("scipy.stats._distn_infrastructure", "rv_generic._argcheck")
def argcheck(dist: Any, *args: Any) -> Any:
    """The truth of positive parameters."""
    valid: Any = True
    for a in args:
        valid = both(valid, a > 0)
    return valid


@twin("scipy.stats._distn_infrastructure", "rv_continuous._logcdf")
def log_of_cdf(dist: Any, x: Any, *args: Any) -> Any:
    """The logarithm of ``cdf``, beyond the median of ``1 - sf``, which keeps its digits."""
    return _log(dist._cdf(x, *args), dist._sf(x, *args))


@twin("scipy.stats._distn_infrastructure", "rv_continuous._logsf")
def log_of_sf(dist: Any, x: Any, *args: Any) -> Any:
    """The logarithm of ``sf``, before the median of ``1 - cdf``, which keeps its digits."""
    return _log(dist._sf(x, *args), dist._cdf(x, *args))


def _log(p: Any, rest: Any) -> Any:
    """The logarithm of a probability, of which ``rest`` is what is missing to 1."""
    small = p < 0.5
    with np.errstate(divide="ignore"):
        return np.where(
            small, np.log(np.where(small, p, 1.0)), np.log1p(-np.where(small, 0.0, rest))
        )


@twin("scipy.stats._continuous_distns", "uniform_gen._pdf")
def density_of_uniform(dist: Any, x: Any) -> Any:
    """One; NaN for a NaN."""
    return 1.0 + 0.0 * x


def standardized(dist: Any, x: Any, shapes: Any, loc: Any, scale: Any) -> Any:
    """``(x - loc) / scale``; NaN where the parameters are none of the distribution."""
    valid = both(dist._argcheck(*shapes), scale > 0)
    return chosen(valid, masks.standardized(x, loc, scale), np.nan)


def density(dist: Any, formula: Callable[..., Any], z: Any, shapes: Any, outside: float) -> Any:
    """A formula within the support, its ends included or not, and a number outside."""
    low, high = dist._get_support(*shapes)
    closed = not masks.is_open(dist)
    off = masks.either(masks.below(z, low, closed), masks.above(z, high, closed))
    inner = chosen(off, masks.point_inside(low, high), z)
    return chosen(off, outside, kept_nan(dist, z, formula(inner, *shapes)))


def kept_nan(dist: Any, z: Any, found: Any) -> Any:
    """The result of a formula; NaN for a NaN."""
    if dist.name in _NAN_FOR_NAN and masks.is_public(dist):
        return found
    return np.where(np.isnan(z), np.nan, found)


def probability(
    dist: Any, formula: Callable[..., Any], z: Any, shapes: Any, ends: tuple[float, float]
) -> Any:
    """A formula within the support, and one number before it and another one beyond."""
    if dist.name in _WHOLE:
        return formula(z, *shapes)
    low, high = dist._get_support(*shapes)
    before, beyond = masks.below(z, low, False), masks.above(z, high, False)
    inner = chosen(masks.either(before, beyond), masks.point_inside(low, high), z)
    return chosen(
        before, ends[0], chosen(beyond, ends[1], kept_nan(dist, z, formula(inner, *shapes)))
    )


def quantile(
    dist: Any, formula: Callable[..., Any], q: Any, given: Any, ends: tuple[float, float]
) -> Any:
    """The quantile by a formula; at ``ends``, the probabilities of the support's ends, those."""
    shapes, loc, scale = given
    valid = both(dist._argcheck(*shapes), scale > 0)
    q = masks.real_numbers(q)
    if dist.name in _WHOLE:
        z = chosen(valid, formula(q, *shapes), np.nan)
        return masks.doubled(masks.scaled(z, loc, scale))
    low, high = dist._get_support(*shapes)
    inside = (q > 0) & (q < 1)
    z = formula(np.where(inside, q, 0.5), *shapes)
    z = np.where(inside, z, np.where(q == ends[0], low, np.where(q == ends[1], high, np.nan)))
    return masks.doubled(masks.scaled(chosen(valid, z, np.nan), loc, scale))


@twin("scipy.stats", "rv_continuous.pdf")
def pdf(dist: Any, x: Any, *args: Any, **kwds: Any) -> Any:
    """The density."""
    shapes, loc, scale = parameters(dist, args, kwds)
    z = standardized(dist, x, shapes, loc, scale)
    found = density(dist, dist._pdf, z, shapes, 0.0)
    return found if masks.is_number(scale, 1) else found / scale


@twin("scipy.stats", "rv_continuous.logpdf")
def logpdf(dist: Any, x: Any, *args: Any, **kwds: Any) -> Any:
    """The logarithm of the density."""
    shapes, loc, scale = parameters(dist, args, kwds)
    z = standardized(dist, x, shapes, loc, scale)
    found = density(dist, dist._logpdf, z, shapes, -np.inf)
    return found if masks.is_number(scale, 1) else found - np.log(scale)


@twin("scipy.stats", "rv_continuous.cdf")
def cdf(dist: Any, x: Any, *args: Any, **kwds: Any) -> Any:
    """The probability of what is less than or equal to x."""
    shapes, loc, scale = parameters(dist, args, kwds)
    z = standardized(dist, x, shapes, loc, scale)
    return probability(dist, dist._cdf, z, shapes, (0.0, 1.0))


@twin("scipy.stats", "rv_continuous.logcdf")
def logcdf(dist: Any, x: Any, *args: Any, **kwds: Any) -> Any:
    """The logarithm of ``cdf``."""
    shapes, loc, scale = parameters(dist, args, kwds)
    z = standardized(dist, x, shapes, loc, scale)
    return probability(dist, dist._logcdf, z, shapes, (-np.inf, 0.0))


@twin("scipy.stats", "rv_continuous.sf")
def sf(dist: Any, x: Any, *args: Any, **kwds: Any) -> Any:
    """The probability of what is greater than x."""
    shapes, loc, scale = parameters(dist, args, kwds)
    z = standardized(dist, x, shapes, loc, scale)
    return probability(dist, dist._sf, z, shapes, (1.0, 0.0))


@twin("scipy.stats", "rv_continuous.logsf")
def logsf(dist: Any, x: Any, *args: Any, **kwds: Any) -> Any:
    """The logarithm of ``sf``."""
    shapes, loc, scale = parameters(dist, args, kwds)
    z = standardized(dist, x, shapes, loc, scale)
    return probability(dist, dist._logsf, z, shapes, (0.0, -np.inf))


@twin("scipy.stats", "rv_continuous.ppf")
def ppf(dist: Any, q: Any, *args: Any, **kwds: Any) -> Any:
    """The number of which ``cdf`` is q."""
    return quantile(dist, dist._ppf, q, parameters(dist, args, kwds), (0.0, 1.0))


@twin("scipy.stats", "rv_continuous.isf")
def isf(dist: Any, q: Any, *args: Any, **kwds: Any) -> Any:
    """The number of which ``sf`` is q."""
    return quantile(dist, dist._isf, q, parameters(dist, args, kwds), (1.0, 0.0))
