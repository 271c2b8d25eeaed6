"""Statistics of samples: SciPy's own Python is read, or its definition is written in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import read_source, twin

read_source("scipy.stats", "sem", "trim_mean", "entropy")


def floats(a: Any) -> Any:
    a = np.asarray(a)
    if a.dtype.kind == "c":
        raise NotImplementedError("Statistics of samples take real numbers here, not complex ones.")
    return a if a.dtype.kind == "f" else a.astype(float)


def looked_at_nans(a: Any, nan_policy: str) -> Any:
    """The sample, where the policy is met; NaNs propagate by themselves."""
    if nan_policy == "omit":
        raise NotImplementedError("nan_policy='omit' has no rule: give x[~np.isnan(x)]")
    if nan_policy not in ("propagate", "raise"):
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    if nan_policy == "raise" and np.any(np.isnan(a)):
        raise ValueError("The input contains nan values")
    return a


def kept(found: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    """A statistic of a sample, with the axes of it that it has summed over."""
    if not keepdims:
        return found
    return np.reshape(found, np.sum(a, axis=axis, keepdims=True).shape)


def _average(a: Any, axis: Any, weights: Any) -> Any:
    return np.mean(a, axis=axis) if weights is None else np.average(a, axis=axis, weights=weights)


def _length(a: Any, axis: Any) -> int:
    """The number of elements along an axis, or several."""
    if axis is None:
        return int(a.size)
    length = 1
    for k in axis if isinstance(axis, tuple) else (axis,):
        length *= a.shape[k]
    return length


@twin("scipy.stats", "gmean")
def gmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """The geometric mean."""
    a = looked_at_nans(floats(a), nan_policy)
    a = a if dtype is None else a.astype(dtype)
    return kept(np.exp(_average(np.log(a), axis, weights)), a, axis, keepdims)


@twin("scipy.stats", "pmean")
def pmean(
    a: Any,
    p: Any,
    *,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """The mean of powers, to the power of one over p."""
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy=nan_policy, keepdims=keepdims)
    a = looked_at_nans(floats(a), nan_policy)
    a = a if dtype is None else a.astype(dtype)
    return kept(_average(a ** (1.0 * p), axis, weights) ** (1.0 / p), a, axis, keepdims)


@twin("scipy.stats", "hmean")
def hmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    *,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """The harmonic mean; NaN where a number is negative."""
    a = looked_at_nans(floats(a), nan_policy)
    a = a if dtype is None else a.astype(dtype)
    found = 1.0 / _average(1.0 / np.where(a < 0.0, np.nan, a), axis, weights)
    return kept(found, a, axis, keepdims)


@twin("scipy.stats", "zscore")
def zscore(a: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """The distances from the mean in standard deviations; NaN where all elements are equal."""
    return zmap(a, a, axis, ddof, nan_policy)


@twin("scipy.stats", "zmap")
def zmap(
    scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate"
) -> Any:
    """The distances from the mean of another sample, in its standard deviations."""
    a = looked_at_nans(floats(compare), nan_policy)
    middle = np.mean(a, axis=axis, keepdims=True)
    deviation = np.std(a, axis=axis, ddof=ddof, keepdims=True)
    equal = deviation <= np.abs(np.finfo(a.dtype).eps * middle)
    return np.where(equal, np.nan, (floats(scores) - middle) / deviation)


@twin("scipy.stats", "iqr")
def iqr(
    x: Any,
    axis: Any = None,
    rng: Any = (25, 75),
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    interpolation: Any = "linear",
    keepdims: bool = False,
) -> Any:
    """The range of the middle half."""
    x = looked_at_nans(floats(x), nan_policy)
    if len(rng) != 2:
        raise TypeError("quantile range must be two element sequence")
    low, high = min(rng), max(rng)
    ends = np.percentile(x, [low, high], axis=axis, method=interpolation, keepdims=keepdims)
    width = 1.3489795003921634 if isinstance(scale, str) else scale
    if isinstance(scale, str) and scale != "normal":
        raise ValueError(f"{scale} not a valid scale for `iqr`")
    return (ends[1] - ends[0]) / width


@twin("scipy.stats", "median_abs_deviation")
def median_abs_deviation(
    x: Any,
    axis: Any = 0,
    center: Any = np.median,
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The median of the distances from the median."""
    x = looked_at_nans(floats(x), nan_policy)
    if isinstance(scale, str) and scale != "normal":
        raise ValueError(f"{scale} is not a valid scale value.")
    width = 0.6744897501960817 if isinstance(scale, str) else scale
    middle = np.reshape(center(x, axis=axis), np.sum(x, axis=axis, keepdims=True).shape)
    return np.median(np.abs(x - middle), axis=axis, keepdims=keepdims) / width


@twin("scipy.stats", "gstd")
def gstd(
    a: Any,
    axis: Any = 0,
    ddof: int = 1,
    *,
    keepdims: bool = False,
    nan_policy: str = "propagate",
) -> Any:
    """The geometric standard deviation."""
    a = looked_at_nans(floats(a), nan_policy)
    return np.exp(np.std(np.log(a), axis=axis, ddof=ddof, keepdims=keepdims))


@twin("scipy.stats", "moment")
def moment(
    a: Any,
    order: Any = 1,
    axis: Any = 0,
    nan_policy: str = "propagate",
    *,
    center: Any = None,
    keepdims: bool = False,
) -> Any:
    """The mean of powers of the distances from the mean, or from a center."""
    a = looked_at_nans(floats(a), nan_policy)
    if isinstance(order, (list, tuple, np.ndarray)):
        return np.stack([moment(a, k, axis, center=center, keepdims=keepdims) for k in order])
    middle = np.mean(a, axis=axis, keepdims=True) if center is None else center
    if order == 1 and center is None:
        return 0.0 * np.mean(a, axis=axis, keepdims=keepdims)
    return np.mean((a - middle) ** order, axis=axis, keepdims=keepdims)


@twin("scipy.stats", "gzscore")
def gzscore(a: Any, *, axis: Any = 0, ddof: int = 0) -> Any:
    """The z-scores of logarithms."""
    return zscore(np.log(floats(a)), axis, ddof)


@twin("scipy.stats", "variation")
def variation(
    a: Any,
    axis: Any = 0,
    nan_policy: str = "propagate",
    ddof: int = 0,
    *,
    keepdims: bool = False,
) -> Any:
    """The standard deviation over the mean."""
    a = looked_at_nans(floats(a), nan_policy)
    given = {"axis": axis, "keepdims": keepdims}
    return np.std(a, ddof=ddof, **given) / np.mean(a, **given)


def _standard(a: Any, order: int, axis: Any) -> Any:
    """The central moment of an order over the deviation to its power; NaN where that is zero."""
    middle = np.mean(a, axis=axis, keepdims=True)
    second = np.mean((a - middle) ** 2, axis=axis)
    equal = second <= (np.finfo(a.dtype).eps * np.mean(a, axis=axis)) ** 2
    found = np.mean((a - middle) ** order, axis=axis) / second ** (0.5 * order)
    return np.where(equal, np.nan, found)


@twin("scipy.stats", "skew")
def skew(
    a: Any,
    axis: Any = 0,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The skewness: the third central moment over the second to the power of 3/2."""
    a = looked_at_nans(floats(a), nan_policy)
    found, n = _standard(a, 3, axis), _length(a, axis)
    if not bias and n > 2:
        found = found * np.sqrt((n - 1.0) * n) / (n - 2.0)
    return kept(found, a, axis, keepdims)


@twin("scipy.stats", "kurtosis")
def kurtosis(
    a: Any,
    axis: Any = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The kurtosis: the fourth central moment over the second one squared."""
    a = looked_at_nans(floats(a), nan_policy)
    found, n = _standard(a, 4, axis), _length(a, axis)
    if not bias and n > 3:
        found = ((n**2 - 1.0) * found - 3.0 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return kept(found - 3.0 if fisher else found, a, axis, keepdims)


def pair_of(x: Any, y: Any) -> tuple[Any, Any]:
    """Two samples of one length."""
    x, y = floats(x), floats(y)
    if x.ndim != 1 or y.ndim != 1:
        raise NotImplementedError("Samples have one axis here: map over the others, by vmap.")
    if x.size != y.size:
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    return x, y


def probability(t: Any, df: int, alternative: str) -> Any:
    """The probability of a number as extreme as ``t``, which Student's distribution has."""
    from scipy import special

    if alternative == "two-sided":
        return 2.0 * special.stdtr(1.0 * df, -np.abs(t))
    if alternative not in ("less", "greater"):
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    return special.stdtr(1.0 * df, t if alternative == "less" else -t)


class PearsonRResult(NamedTuple):
    """A correlation, and the probability of one as large of unrelated samples."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The correlation."""
        return self.statistic


@twin("scipy.stats", "pearsonr")
def pearsonr(x: Any, y: Any, *, alternative: str = "two-sided") -> PearsonRResult:
    """The correlation of two samples."""
    x, y = pair_of(x, y)
    if x.size < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    off_x, off_y = x - np.mean(x), y - np.mean(y)
    r = np.clip(np.sum(off_x * off_y) / np.sqrt(np.sum(off_x**2) * np.sum(off_y**2)), -1.0, 1.0)
    equal = np.logical_or(np.all(x == x[0]), np.all(y == y[0]))
    r, df = np.where(equal, np.nan, r), x.shape[0] - 2
    if df == 0:
        return PearsonRResult(np.round(r), np.where(np.isnan(r), np.nan, 1.0))
    t = r * np.sqrt(df / ((1.0 - r) * (1.0 + r)))
    return PearsonRResult(r, probability(t, df, alternative))


@dataclass
class LinregressResult:
    """A line through samples: SciPy's five results, and by its name the intercept's error."""

    slope: Any
    intercept: Any
    rvalue: Any
    pvalue: Any
    stderr: Any
    intercept_stderr: Any

    def _five(self) -> tuple[Any, ...]:
        return self.slope, self.intercept, self.rvalue, self.pvalue, self.stderr

    def __iter__(self) -> Iterator[Any]:
        return iter(self._five())

    def __getitem__(self, place: Any) -> Any:
        return self._five()[place]

    def __len__(self) -> int:
        return 5


@twin("scipy.stats", "linregress")
def linregress(x: Any, y: Any, alternative: str = "two-sided") -> LinregressResult:
    """The line of least squares."""
    x, y = pair_of(x, y)
    n = x.shape[0]
    if n > 1 and np.max(x) == np.min(x):
        raise ValueError("Cannot calculate a linear regression if all x values are identical")
    x, y = x.astype(float), y.astype(float)
    off_x, off_y = x - np.mean(x), y - np.mean(y)
    xx, xy, yy = np.mean(off_x**2), np.mean(off_x * off_y), np.mean(off_y**2)
    r, slope, df = np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0), xy / xx, n - 2
    if n == 2:
        p, error = np.where(y[0] == y[1], 1.0, 0.0), 0.0
    else:
        t = r * np.sqrt(df / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
        p, error = probability(t, df, alternative), np.sqrt((1.0 - r**2) * yy / xx / df)
    of_intercept = error * np.sqrt(xx + np.mean(x) ** 2)
    return LinregressResult(slope, np.mean(y) - slope * np.mean(x), r, p, error, of_intercept)
