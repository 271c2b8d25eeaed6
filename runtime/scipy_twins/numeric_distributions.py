"""Distribution functions that SciPy integrates, and quantiles that it searches for.

A quantile's derivative is that of the root of ``cdf(y) - q``, by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.custom import custom_jvp
from calque.runtime.linear_maps import jvp
from calque.transpiler.frontend.library.scipy_twins import twin
from calque.transpiler.primitives.scipy_stats_calls import constant_call, integral_call

_FORMULAS = "scipy.stats._continuous_distns"


@twin("scipy.stats._distn_infrastructure", "rv_continuous._cdf", "rv_generic._cdf")
@twin(_FORMULAS, "vonmises_gen._cdf", "skewnorm_gen._cdf", "norminvgauss_gen._cdf")
@twin(_FORMULAS, "geninvgauss_gen._cdf", "genhyperbolic_gen._cdf", "irwinhall_gen._cdf")
def integrated(dist: Any, x: Any, *shapes: Any) -> Any:
    """The distribution function."""
    return integral_call(dist, x, *shapes)


@twin("scipy.stats._distn_infrastructure", "rv_generic._ppf")
@twin(_FORMULAS, "invgauss_gen._ppf", "skewnorm_gen._ppf", "argus_gen._ppf")
@twin(_FORMULAS, "norminvgauss_gen._ppf", "truncnorm_gen._ppf")
def searched(dist: Any, q: Any, *shapes: Any) -> Any:
    """The quantile."""
    return _root(dist, "ppf", dist._cdf, q, shapes)


@twin(_FORMULAS, "invgauss_gen._isf", "skewnorm_gen._isf", "norminvgauss_gen._isf")
@twin(_FORMULAS, "truncnorm_gen._isf")
def searched_from_above(dist: Any, q: Any, *shapes: Any) -> Any:
    """The quantile of the upper tail."""
    return _root(dist, "isf", dist._sf, q, shapes)


def _root(dist: Any, method: str, function: Callable[..., Any], q: Any, shapes: Any) -> Any:
    """The root of ``function(y, *shapes) - q``, that SciPy finds."""

    @custom_jvp
    def found(q: Any, *shapes: Any) -> Any:
        return constant_call(dist, method, q, *shapes)

    @found.defjvp
    def slopes(primals: Any, tangents: Any) -> Any:
        y = found(*primals)
        shapes = primals[1:]
        change = tangents[0]
        if shapes:
            by_shapes = lambda *shapes: function(y, *shapes)
            change = change - jvp(by_shapes, shapes, tangents[1:])[1]
        density = dist._pdf(y, *shapes)
        return y, change / density if method == "ppf" else -change / density

    return found(q, *shapes)


@twin(_FORMULAS, "_log_gauss_mass")
def log_gauss_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal distribution's mass between two numbers.

    In the left tail, or mirrored to it, a difference of logarithms; around zero what is missing
    to 1, as SciPy computes them.
    """
    from scipy import special

    left, right = b <= 0, a > 0
    central = ~(left | right)
    low = np.where(central, -2.0, np.where(right, -b, a))
    high = np.where(central, -1.0, np.where(right, -a, b))
    endless = np.isneginf(low)
    last = special.log_ndtr(high)
    ratio = np.exp(special.log_ndtr(np.where(endless, high, low)) - last)
    tail = last + np.log1p(-np.where(endless, 0.0, ratio))
    rest = special.ndtr(np.where(central, a, -1.0)) + special.ndtr(np.where(central, -b, -1.0))
    return np.where(central, np.log1p(-rest), tail)


@twin(_FORMULAS, "truncnorm_gen._logcdf")
def log_cdf_of_truncated(dist: Any, x: Any, a: Any, b: Any) -> Any:
    """The logarithm of the mass before x; near 1 by what is missing."""
    return _log_share(log_gauss_mass(a, x), log_gauss_mass(x, b), log_gauss_mass(a, b))


@twin(_FORMULAS, "truncnorm_gen._logsf")
def log_sf_of_truncated(dist: Any, x: Any, a: Any, b: Any) -> Any:
    """The logarithm of the mass beyond x; near 1 by what is missing."""
    return _log_share(log_gauss_mass(x, b), log_gauss_mass(a, x), log_gauss_mass(a, b))


def _log_share(mass: Any, rest: Any, whole: Any) -> Any:
    near = mass - whole > -0.1
    found = np.log1p(-np.exp(np.where(near, rest - whole, -1.0)))
    return np.where(near, found, mass - whole)
