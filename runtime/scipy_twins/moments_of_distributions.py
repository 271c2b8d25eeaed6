"""Moments, medians and entropies of distributions of ``scipy.stats``, by SciPy's own formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin
from calque.transpiler.primitives import scipy_stats as masks
from calque.transpiler.primitives.scipy_stats import both, chosen, parameters

_INFRASTRUCTURE = "scipy.stats._distn_infrastructure"


def _valid(dist: Any, given: Any) -> Any:
    return both(dist._argcheck(*given[0]), given[2] > 0)


def _standard(dist: Any, shapes: Any) -> tuple[Any, Any]:
    """The mean and the variance of the standardized distribution."""
    options = {"moments": "mv"} if dist._stats_has_moments else {}
    mean, variance = dist._stats(*shapes, **options)[:2]
    if mean is None:
        mean = dist._munp(1, *shapes)
    if variance is None:
        variance = dist._munp(2, *shapes) - mean * mean
    return mean, variance


@twin(_INFRASTRUCTURE, "rv_generic.mean")
def mean(dist: Any, *args: Any, **kwds: Any) -> Any:
    """The mean."""
    shapes, loc, scale = given = parameters(dist, args, kwds)
    found = masks.scaled(masks.doubled(_standard(dist, shapes)[0]), loc, scale)
    return chosen(_valid(dist, given), found, np.nan)


@twin(_INFRASTRUCTURE, "rv_generic.var")
def variance(dist: Any, *args: Any, **kwds: Any) -> Any:
    """The variance."""
    shapes, _, scale = given = parameters(dist, args, kwds)
    found = masks.doubled(_standard(dist, shapes)[1]) * scale * scale
    return chosen(_valid(dist, given), found, np.nan)


@twin(_INFRASTRUCTURE, "rv_generic.std")
def deviation(dist: Any, *args: Any, **kwds: Any) -> Any:
    """The standard deviation."""
    return np.sqrt(dist.var(*args, **kwds))


@twin(_INFRASTRUCTURE, "rv_generic.median")
def median(dist: Any, *args: Any, **kwds: Any) -> Any:
    """The median."""
    return dist.ppf(0.5, *args, **kwds)


@twin(_INFRASTRUCTURE, "rv_generic.interval")
def interval(dist: Any, confidence: Any, *args: Any, **kwds: Any) -> tuple[Any, Any]:
    """The ends of the interval around the median that has a probability."""
    below = (1.0 - masks.real_numbers(confidence)) / 2
    above = (1.0 + masks.real_numbers(confidence)) / 2
    return dist.ppf(below, *args, **kwds), dist.ppf(above, *args, **kwds)


@twin(_INFRASTRUCTURE, "rv_generic.support")
def support(dist: Any, *args: Any, **kwds: Any) -> tuple[Any, Any]:
    """The ends of the support."""
    shapes, loc, scale = given = parameters(dist, args, kwds)
    ends = [masks.scaled(masks.doubled(e), loc, scale) for e in dist._get_support(*shapes)]
    valid = _valid(dist, given)
    return chosen(valid, ends[0], np.nan), chosen(valid, ends[1], np.nan)


@twin(_INFRASTRUCTURE, "rv_generic.entropy")
def entropy(dist: Any, *args: Any, **kwds: Any) -> Any:
    """The differential entropy, or the entropy."""
    shapes, _, scale = given = parameters(dist, args, kwds)
    found = masks.doubled(dist._entropy(*shapes))
    found = found if masks.is_number(scale, 1) else found + np.log(scale)
    return chosen(_valid(dist, given), found, np.nan)


@twin("scipy.stats._continuous_distns", "pareto_gen._stats")
def moments_of_pareto(dist: Any, b: Any, moments: str = "mv") -> tuple[Any, Any, Any, Any]:
    """The mean and the variance, where they are finite."""
    one, two = np.where(b > 1, b, 2.0), np.where(b > 2, b, 3.0)
    mean = np.where(b > 1, one / (one - 1.0), np.inf)
    variance = np.where(b > 2, two / (two - 2.0) / (two - 1.0) ** 2, np.inf)
    return mean, variance, None, None


@twin("scipy.stats._continuous_distns", "truncnorm_gen._stats")
def moments_of_truncated(dist: Any, a: Any, b: Any, moments: str = "mv") -> tuple[Any, ...]:
    """By the densities at the ends."""
    at_a, at_b = dist._pdf(a, a, b), dist._pdf(b, a, b)
    mean = at_a - at_b
    near_a, near_b = np.where(np.isinf(a), 0.0, a), np.where(np.isinf(b), 0.0, b)
    variance = 1.0 + (near_a - mean) * at_a - (near_b - mean) * at_b
    return mean, variance, None, None
