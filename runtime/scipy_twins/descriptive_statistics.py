"""Statistics of samples: SciPy's own Python is read, or its definition is written in NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import read_source, twin

read_source("scipy.stats", "sem", "trim_mean", "entropy")


def _floats(a: Any) -> Any:
    a = np.asarray(a)
    return a if a.dtype.kind == "f" else a.astype(float)


def _average(a: Any, axis: Any, weights: Any) -> Any:
    return np.mean(a, axis=axis) if weights is None else np.average(a, axis=axis, weights=weights)


@twin("scipy.stats", "gmean")
def gmean(a: Any, axis: Any = 0, *, weights: Any = None) -> Any:
    """The geometric mean."""
    return np.exp(_average(np.log(_floats(a)), axis, weights))


@twin("scipy.stats", "hmean")
def hmean(a: Any, axis: Any = 0, *, weights: Any = None) -> Any:
    """The harmonic mean."""
    return 1.0 / _average(1.0 / _floats(a), axis, weights)


@twin("scipy.stats", "zscore")
def zscore(a: Any, axis: Any = 0, ddof: int = 0) -> Any:
    """The distances from the mean in standard deviations."""
    a = _floats(a)
    middle = np.mean(a, axis=axis, keepdims=True)
    return (a - middle) / np.std(a, axis=axis, ddof=ddof, keepdims=True)


@twin("scipy.stats", "gzscore")
def gzscore(a: Any, *, axis: Any = 0, ddof: int = 0) -> Any:
    """The z-scores of logarithms."""
    return zscore(np.log(_floats(a)), axis, ddof)


@twin("scipy.stats", "variation")
def variation(a: Any, axis: Any = 0, *, ddof: int = 0) -> Any:
    """The standard deviation over the mean."""
    a = _floats(a)
    return np.std(a, axis=axis, ddof=ddof) / np.mean(a, axis=axis)


def _central(a: Any, order: int, axis: Any) -> Any:
    return np.mean((a - np.mean(a, axis=axis, keepdims=True)) ** order, axis=axis)


@twin("scipy.stats", "skew")
def skew(a: Any, axis: Any = 0, bias: bool = True) -> Any:
    """The skewness: the third central moment over the second to the power of 3/2."""
    a = _floats(a)
    found = _central(a, 3, axis) / _central(a, 2, axis) ** 1.5
    n = a.size if axis is None else a.shape[axis]
    return found if bias else found * np.sqrt((n - 1.0) * n) / (n - 2.0)


@twin("scipy.stats", "kurtosis")
def kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True) -> Any:
    """The kurtosis: the fourth central moment over the second one squared."""
    a = _floats(a)
    found = _central(a, 4, axis) / _central(a, 2, axis) ** 2.0
    n = a.size if axis is None else a.shape[axis]
    if not bias:
        found = ((n**2 - 1.0) * found - 3.0 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return found - 3.0 if fisher else found


class Correlation(NamedTuple):
    """A correlation, and the probability of one as large of unrelated samples."""

    statistic: Any
    pvalue: Any


@twin("scipy.stats", "pearsonr")
def pearsonr(x: Any, y: Any) -> Correlation:
    """The correlation of two samples."""
    from scipy import special

    x, y = _floats(x), _floats(y)
    off_x, off_y = x - np.mean(x), y - np.mean(y)
    r = np.sum(off_x * off_y) / np.sqrt(np.sum(off_x**2) * np.sum(off_y**2))
    df = x.shape[0] - 2
    t = r * np.sqrt(df / ((1.0 - r) * (1.0 + r)))
    return Correlation(r, 2.0 * special.stdtr(1.0 * df, -np.abs(t)))


class Line(NamedTuple):
    """A line through samples, as SciPy reports it."""

    slope: Any
    intercept: Any
    rvalue: Any
    pvalue: Any
    stderr: Any
    intercept_stderr: Any


@twin("scipy.stats", "linregress")
def linregress(x: Any, y: Any) -> Line:
    """The line of least squares."""
    from scipy import special

    x, y = _floats(x), _floats(y)
    off_x, off_y = x - np.mean(x), y - np.mean(y)
    xx, xy, yy = np.mean(off_x**2), np.mean(off_x * off_y), np.mean(off_y**2)
    r, slope, df = xy / np.sqrt(xx * yy), xy / xx, x.shape[0] - 2
    t = r * np.sqrt(df / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
    error = np.sqrt((1.0 - r**2) * yy / xx / df)
    return Line(
        slope,
        np.mean(y) - slope * np.mean(x),
        r,
        2.0 * special.stdtr(1.0 * df, -np.abs(t)),
        error,
        error * np.sqrt(xx + np.mean(x) ** 2),
    )
