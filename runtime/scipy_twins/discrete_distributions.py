"""Discrete distributions of ``scipy.stats``: SciPy's own formulas are read, at whole numbers.

No derivative goes by the place, where all are piecewise constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin
from calque.transpiler.primitives import scipy_stats as masks
from calque.transpiler.primitives.scipy_stats import chosen, parameters
from calque.transpiler.primitives.scipy_stats_calls import constant_call, sum_call

_NUMBER_FOR_NAN = {"randint"}  # the formulas of these give a number for a NaN
_FORMULAS = "scipy.stats._discrete_distns"


@twin("scipy.stats._distn_infrastructure", "rv_discrete._cdf")
@twin(_FORMULAS, "hypergeom_gen._cdf", "skellam_gen._cdf")
def summed(dist: Any, k: Any, *shapes: Any) -> Any:
    """The distribution function that SciPy sums up."""
    return sum_call(dist, "cdf", k, *shapes)


@twin(_FORMULAS, "hypergeom_gen._sf", "skellam_gen._sf")
def summed_from_above(dist: Any, k: Any, *shapes: Any) -> Any:
    """The rest of the distribution function."""
    return sum_call(dist, "sf", k, *shapes)


@twin(_FORMULAS, "hypergeom_gen._logcdf")
def summed_logcdf(dist: Any, k: Any, *shapes: Any) -> Any:
    """The logarithm of the distribution function."""
    return sum_call(dist, "logcdf", k, *shapes)


@twin(_FORMULAS, "hypergeom_gen._logsf")
def summed_logsf(dist: Any, k: Any, *shapes: Any) -> Any:
    """The logarithm of the rest of the distribution function."""
    return sum_call(dist, "logsf", k, *shapes)


def mass(dist: Any, formula: Callable[..., Any], given: Any, k: Any, outside: float) -> Any:
    """A formula at the whole numbers of the support, and a number elsewhere."""
    shapes, loc, _ = given
    place = chosen(dist._argcheck(*shapes), masks.standardized(k, loc, 1.0), np.nan)
    low, high = dist._get_support(*shapes)
    whole = np.floor(place)
    off = masks.either(masks.below(place, low, True), masks.above(place, high, True))
    off = masks.either(off, whole < place)
    inner = np.where(off, masks.whole_number_inside(low), whole)
    found = formula(inner, *shapes)
    if dist.name in _NUMBER_FOR_NAN or not masks.is_public(dist):
        found = np.where(np.isnan(place), np.nan, found)
    return np.where(off, outside, found)


def share(
    dist: Any, formula: Callable[..., Any], given: Any, k: Any, ends: tuple[float, float]
) -> Any:
    """A formula within the support, one number before it, and another one from its end on."""
    shapes, loc, _ = given
    place = chosen(dist._argcheck(*shapes), masks.standardized(k, loc, 1.0), np.nan)
    low, high = dist._get_support(*shapes)
    before = masks.either(place < low, np.isneginf(place))
    beyond = place >= high
    inner = np.where(masks.either(before, beyond), masks.whole_number_inside(low), place)
    return np.where(before, ends[0], np.where(beyond, ends[1], formula(inner, *shapes)))


@twin("scipy.stats", "rv_discrete.pmf")
def pmf(dist: Any, k: Any, *args: Any, **kwds: Any) -> Any:
    """The probability of k."""
    return mass(dist, dist._pmf, parameters(dist, args, kwds), k, 0.0)


@twin("scipy.stats", "rv_discrete.logpmf")
def logpmf(dist: Any, k: Any, *args: Any, **kwds: Any) -> Any:
    """The logarithm of the probability of k."""
    return mass(dist, dist._logpmf, parameters(dist, args, kwds), k, -np.inf)


@twin("scipy.stats", "rv_discrete.cdf")
def cdf_of_counts(dist: Any, k: Any, *args: Any, **kwds: Any) -> Any:
    """The probability of what is less than or equal to k."""
    return share(dist, dist._cdf, parameters(dist, args, kwds), k, (0.0, 1.0))


@twin("scipy.stats", "rv_discrete.logcdf")
def logcdf_of_counts(dist: Any, k: Any, *args: Any, **kwds: Any) -> Any:
    """The logarithm of ``cdf``."""
    return share(dist, dist._logcdf, parameters(dist, args, kwds), k, (-np.inf, 0.0))


@twin("scipy.stats", "rv_discrete.sf")
def sf_of_counts(dist: Any, k: Any, *args: Any, **kwds: Any) -> Any:
    """The probability of what is greater than k."""
    return share(dist, dist._sf, parameters(dist, args, kwds), k, (1.0, 0.0))


@twin("scipy.stats", "rv_discrete.logsf")
def logsf_of_counts(dist: Any, k: Any, *args: Any, **kwds: Any) -> Any:
    """The logarithm of ``sf``."""
    return share(dist, dist._logsf, parameters(dist, args, kwds), k, (0.0, -np.inf))


@twin("scipy.stats", "rv_discrete.ppf")
def ppf_of_counts(dist: Any, q: Any, *args: Any, **kwds: Any) -> Any:
    """The least count of which ``cdf`` is at least q."""
    shapes, loc, _ = parameters(dist, args, kwds)
    return masks.scaled(constant_call(dist, "ppf", masks.real_numbers(q), *shapes), loc, 1.0)


@twin("scipy.stats", "rv_discrete.isf")
def isf_of_counts(dist: Any, q: Any, *args: Any, **kwds: Any) -> Any:
    """The least count of which ``sf`` is at most q."""
    shapes, loc, _ = parameters(dist, args, kwds)
    return masks.scaled(constant_call(dist, "isf", masks.real_numbers(q), *shapes), loc, 1.0)


@twin(_FORMULAS, "nbinom_gen._logcdf")
def logcdf_of_nbinom(dist: Any, k: Any, n: Any, p: Any) -> Any:
    """The logarithm of ``cdf``, near 1 by what is missing."""
    found = dist._cdf(k, n, p)
    near = found > 0.5
    rest = dist._sf(k, n, p)
    return np.where(near, np.log1p(-np.where(near, rest, 0.0)), np.log(np.where(near, 1.0, found)))
