"""``scipy.stats`` of samples: ranks, transformations, tests of means, circles, kernel densities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calque.runtime.api import vmap
from calque.runtime.scipy_twins.descriptive_statistics import (
    floats,
    kept,
    looked_at_nans,
    pair_of,
    probability,
)
from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_objects


class SignificanceResult(NamedTuple):
    """A statistic, and the probability of one as large of unrelated samples."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The statistic."""
        return self.statistic


def _along(a: Any, axis: Any) -> tuple[Any, Any]:
    """The sample and the axis of its elements; all of them in one row for None."""
    return (np.ravel(a), 0) if axis is None else (a, axis)


# ranks: piecewise constant, so that their derivative is zero


def _ranks(a: Any, method: str) -> Any:
    """The ranks of a vector."""
    ordered = np.sort(a)
    first, last = np.searchsorted(ordered, a), np.searchsorted(ordered, a, "right")
    if method == "average":
        return 0.5 * (first + last + 1)
    if method == "min":
        return first + 1
    if method == "max":
        return last
    if method == "dense":
        new = np.concatenate([np.ones(1, bool), ordered[1:] != ordered[:-1]])
        return np.cumsum(new)[first]
    return np.argsort(np.argsort(a, kind="stable"), kind="stable") + 1


@twin("scipy.stats", "rankdata")
def rankdata(
    a: Any, method: str = "average", *, axis: Any = None, nan_policy: str = "propagate"
) -> Any:
    """The ranks of elements, from 1."""
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f'unknown method "{method}"')
    a, axis = _along(looked_at_nans(np.asarray(a), nan_policy), axis)
    if a.ndim == 1:
        found = _ranks(a, method)
    else:
        rows = np.moveaxis(a, axis, -1)
        flat = np.reshape(rows, (-1, rows.shape[-1]))
        found = vmap(lambda row: _ranks(row, method))(flat)
        found = np.moveaxis(np.reshape(found, rows.shape), -1, axis)
    missing = np.any(np.isnan(a), axis=axis, keepdims=True) if a.dtype.kind == "f" else False
    if method == "average":
        return np.where(missing, np.nan, found)
    if np.any(missing):
        raise ValueError(f"rankdata: NaNs have no whole number, which method='{method}' gives")
    return found


@twin("scipy.stats", "spearmanr")
def spearmanr(
    a: Any,
    b: Any = None,
    axis: Any = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
) -> SignificanceResult:
    """The correlation of the ranks of two samples."""
    if b is None:
        raise NotImplementedError("scipy.stats.spearmanr takes two samples here: spearmanr(x, y)")
    x, y = (rankdata(v, nan_policy=nan_policy) for v in pair_of(a, b))
    off_x, off_y = x - np.mean(x), y - np.mean(y)
    r = np.sum(off_x * off_y) / np.sqrt(np.sum(off_x**2) * np.sum(off_y**2))
    df = x.shape[0] - 2
    t = r * np.sqrt(np.maximum(df / ((r + 1.0) * (1.0 - r)), 0.0))
    return SignificanceResult(r, probability(t, df, alternative))


# transformations


@twin("scipy.stats", "boxcox")
def boxcox(x: Any, lmbda: Any = None, alpha: Any = None, optimizer: Any = None) -> Any:
    """Powers of positive numbers, by a given parameter."""
    from scipy import special

    if lmbda is None:
        raise NotImplementedError(
            "scipy.stats.boxcox without lmbda has no rule: find it by minimize of boxcox_llf"
        )
    return special.boxcox(floats(x), lmbda)


@twin("scipy.stats", "boxcox_llf")
def boxcox_llf(
    lmb: Any,
    data: Any,
    *,
    axis: Any = 0,
    keepdims: bool = False,
    nan_policy: str = "propagate",
) -> Any:
    """The logarithm of the likelihood of a parameter of Box and Cox."""
    from scipy import special

    data = looked_at_nans(floats(data), nan_policy)
    data, along = _along(data, axis)
    variance = np.var(special.boxcox(data, lmb), axis=along)
    found = (lmb - 1.0) * np.sum(np.log(data), axis=along)
    return kept(found - 0.5 * data.shape[along] * np.log(variance), data, axis, keepdims)


def _yeo_johnson(x: Any, power: Any) -> Any:
    """The transformation, by a power of one plus the size of a number."""

    def of_size(size: Any, power: Any) -> Any:
        small = np.abs(power) < np.finfo(np.float64).eps
        some = np.where(small, 1.0, power)
        return np.where(small, np.log1p(size), np.expm1(some * np.log1p(size)) / some)

    high = of_size(np.where(x >= 0, x, 0.0), power)
    return np.where(x >= 0, high, -of_size(np.where(x < 0, -x, 0.0), 2.0 - power))


@twin("scipy.stats", "yeojohnson")
def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """Powers of numbers of either sign, by a given parameter."""
    if lmbda is None:
        raise NotImplementedError(
            "scipy.stats.yeojohnson without lmbda has no rule: minimize -yeojohnson_llf(lmb, x)"
        )
    return _yeo_johnson(floats(x), lmbda)


@twin("scipy.stats", "yeojohnson_llf")
def yeojohnson_llf(
    lmb: Any,
    data: Any,
    *,
    axis: Any = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """The logarithm of the likelihood of a parameter of Yeo and Johnson."""
    data, along = _along(looked_at_nans(floats(data), nan_policy), axis)
    variance = np.var(_yeo_johnson(data, lmb), axis=along)
    found = (lmb - 1.0) * np.sum(np.sign(data) * np.log1p(np.abs(data)), axis=along)
    return kept(found - 0.5 * data.shape[along] * np.log(variance), data, axis, keepdims)


# tests of means


@dataclass
class TtestResult:
    """Student's statistic, its probability, and its degrees of freedom."""

    statistic: Any
    pvalue: Any
    df: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.statistic, self.pvalue))

    def __getitem__(self, place: Any) -> Any:
        return (self.statistic, self.pvalue)[place]

    def __len__(self) -> int:
        return 2


def _test(t: Any, df: Any, a: Any, axis: Any, keepdims: bool, alternative: str) -> TtestResult:
    parts = [kept(x + 0.0 * t, a, axis, keepdims) for x in (t, probability(t, df, alternative), df)]
    return TtestResult(*parts)


@twin("scipy.stats", "ttest_1samp")
def ttest_1samp(
    a: Any,
    popmean: Any,
    axis: Any = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Student's test of a sample's mean."""
    a, along = _along(looked_at_nans(floats(a), nan_policy), axis)
    n = a.shape[along]
    t = (np.mean(a, along) - popmean) / np.sqrt(np.var(a, along, ddof=1) / n)
    return _test(t, n - 1.0, a, axis, keepdims, alternative)


@twin("scipy.stats", "ttest_rel")
def ttest_rel(
    a: Any,
    b: Any,
    axis: Any = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TtestResult:
    """Student's test of the mean of differences."""
    off = floats(a) - floats(b)
    return ttest_1samp(off, 0.0, axis, nan_policy, alternative, keepdims=keepdims)


@twin("scipy.stats", "ttest_ind")
def ttest_ind(
    a: Any,
    b: Any,
    *,
    axis: Any = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    trim: Any = 0,
    method: Any = None,
    keepdims: bool = False,
) -> TtestResult:
    """Student's test of two means; with ``equal_var=False`` that of Welch."""
    if trim != 0 or method is not None:
        raise NotImplementedError("scipy.stats.ttest_ind with trim or method has no rule")
    a, along = _along(looked_at_nans(floats(a), nan_policy), axis)
    b, _ = _along(looked_at_nans(floats(b), nan_policy), axis)
    n, m = 1.0 * a.shape[along], 1.0 * b.shape[along]
    first, second = np.var(a, along, ddof=1), np.var(b, along, ddof=1)
    if equal_var:
        df = n + m - 2.0
        square = ((n - 1.0) * first + (m - 1.0) * second) / df * (1.0 / n + 1.0 / m)
    else:
        first, second = first / n, second / m
        square = first + second
        df = square**2 / (first**2 / (n - 1.0) + second**2 / (m - 1.0))
    t = (np.mean(a, along) - np.mean(b, along)) / np.sqrt(square)
    return _test(t, df, a, axis, keepdims, alternative)


# directions


def _mean_direction(samples: Any, high: Any, low: Any, axis: Any) -> tuple[Any, Any, Any]:
    """The means of sines and of cosines, and the length of a period."""
    period = high - low
    turned = floats(samples) % period * (2.0 * np.pi / period)
    return np.mean(np.sin(turned), axis=axis), np.mean(np.cos(turned), axis=axis), period


@twin("scipy.stats", "circmean")
def circmean(
    samples: Any,
    high: Any = 2 * np.pi,
    low: Any = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The mean of directions."""
    samples = looked_at_nans(np.asarray(samples), nan_policy)
    sine, cosine, period = _mean_direction(samples, high, low, axis)
    found = np.arctan2(sine, cosine) * (period / (2.0 * np.pi))
    return kept((found - low) % period + low, samples, axis, keepdims)


def _length_of_mean(samples: Any, high: Any, low: Any, axis: Any) -> Any:
    sine, cosine, _ = _mean_direction(samples, high, low, axis)
    return np.minimum(np.hypot(sine, cosine), 1.0)


@twin("scipy.stats", "circvar")
def circvar(
    samples: Any,
    high: Any = 2 * np.pi,
    low: Any = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The variance of directions: one less the length of their mean."""
    samples = looked_at_nans(np.asarray(samples), nan_policy)
    return kept(1.0 - _length_of_mean(samples, high, low, axis), samples, axis, keepdims)


@twin("scipy.stats", "circstd")
def circstd(
    samples: Any,
    high: Any = 2 * np.pi,
    low: Any = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Any:
    """The deviation of directions."""
    samples = looked_at_nans(np.asarray(samples), nan_policy)
    found = np.sqrt(-2.0 * np.log(_length_of_mean(samples, high, low, axis)))
    scale = 1.0 if normalize else (high - low) / (2.0 * np.pi)
    return kept(found * scale, samples, axis, keepdims)


# densities


@twin("scipy.stats", "gaussian_kde")
class GaussianKde:
    """The density that Gaussians around the elements of a sample add up to."""

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None):
        self.dataset = np.atleast_2d(floats(dataset))
        self.d, self.n = self.dataset.shape
        if weights is None:
            self.weights = np.ones(self.n) / self.n
        else:
            self.weights = np.atleast_1d(weights) / np.sum(weights)
        self.neff = 1.0 / np.sum(self.weights**2)
        self.factor = self._factor(bw_method)
        around = self.dataset - np.sum(self.weights * self.dataset, axis=1, keepdims=True)
        spread = (self.weights * around) @ around.T / (1.0 - np.sum(self.weights**2))
        self.covariance = spread * self.factor**2

    def _factor(self, method: Any) -> Any:
        if method is None or (isinstance(method, str) and method == "scott"):
            return self.neff ** (-1.0 / (self.d + 4))
        if isinstance(method, str):
            if method != "silverman":
                raise ValueError(
                    "`bw_method` should be 'scott', 'silverman', a scalar or a callable."
                )
            return (self.neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))
        return method(self) if callable(method) else method

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at points, the columns of a matrix."""
        points = np.atleast_2d(floats(x))
        if points.shape[0] != self.d:
            if points.shape[0] != 1 or points.shape[1] != self.d:
                raise ValueError(
                    f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
                )
            points = np.reshape(points, (self.d, 1))
        root = np.linalg.cholesky(self.covariance)
        off = points[:, :, None] - self.dataset[:, None, :]
        scaled = np.linalg.solve(root, np.reshape(off, (self.d, -1)))
        energy = np.reshape(0.5 * np.sum(scaled**2, axis=0), off.shape[1:])
        front = np.log(self.weights) - energy
        most = np.max(front, axis=1, keepdims=True)
        total = np.log(np.sum(np.exp(front - most), axis=1)) + most[:, 0]
        return total - np.sum(np.log(np.diag(root))) - 0.5 * self.d * np.log(2.0 * np.pi)

    def evaluate(self, points: Any) -> Any:
        """The density at points."""
        return np.exp(self.logpdf(points))

    def pdf(self, x: Any) -> Any:
        """The density at points."""
        return np.exp(self.logpdf(x))

    def __call__(self, points: Any) -> Any:
        return np.exp(self.logpdf(points))


@twin_of_objects("scipy.stats", "gaussian_kde")
def _known_density(density: Any) -> GaussianKde:
    return GaussianKde(density.dataset, density.factor, density.weights)
