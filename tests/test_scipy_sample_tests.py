"""``scipy.stats`` of samples: ranks, transformations, tests of means, directions, densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_batch, check_value, data

import calque
from calque.transpiler.errors import CalqueError

stats = pytest.importorskip("scipy.stats")

# the options of each case are captured numbers
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is generated anew"),
    pytest.mark.filterwarnings("ignore::calque.runtime.call.fallback.JitFallback"),
]
X = data(4, 7)
DENSITY = stats.gaussian_kde(data(9))


def _of(name: str, *given: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: getattr(stats, name)(x, *given, **options)


def _positive(name: str, **options: Any) -> Callable[..., Any]:
    return lambda x: getattr(stats, name)(np.abs(x) + 0.1, **options)


SMOOTH: dict[str, Callable[..., Any]] = {
    "gmean": _positive("gmean", axis=1, keepdims=True),
    "gmean by weights": _positive("gmean", weights=np.ones((4, 7)), nan_policy="raise"),
    "hmean": _positive("hmean", axis=None, keepdims=True),
    "pmean": lambda x: stats.pmean(np.abs(x) + 0.1, 3, axis=1),
    "pmean of zero": lambda x: stats.pmean(np.abs(x) + 0.1, 0),
    "gstd": _positive("gstd", axis=1),
    "zmap": lambda x: stats.zmap(x[0], x[1], ddof=1),
    "iqr": _of("iqr", axis=1),
    "iqr of normals": _of("iqr", rng=(10, 80), scale="normal", keepdims=True),
    "median_abs_deviation": _of("median_abs_deviation", axis=1, scale="normal"),
    "moment": _of("moment", 3, axis=1),
    "moments": _of("moment", [1, 2, 4], axis=1),
    "moment about a center": _of("moment", 2, center=0.5),
    "variation": _positive("variation", axis=1, ddof=1, keepdims=True),
    "skew": _of("skew", axis=1, keepdims=True),
    "kurtosis": _of("kurtosis", axis=None, bias=False),
    "boxcox": lambda x: stats.boxcox(np.abs(x[0]) + 0.1, 0.4),
    "boxcox_llf": lambda x: stats.boxcox_llf(x[1, 0], np.abs(x[0]) + 0.1),
    "yeojohnson": lambda x: stats.yeojohnson(x[0], 1.4),
    "yeojohnson of two": lambda x: stats.yeojohnson(x[0], 2.0),
    "yeojohnson of zero": lambda x: stats.yeojohnson(x[0], 0.0),
    "yeojohnson_llf": lambda x: stats.yeojohnson_llf(x[1, 0], x[0]),
    "ttest_1samp": lambda x: stats.ttest_1samp(x, 0.1, axis=1).statistic,
    "its probability": lambda x: stats.ttest_1samp(x[0], x[1, 0], alternative="less").pvalue,
    "ttest_ind": lambda x: stats.ttest_ind(x[0], x[1])[0],
    "ttest_ind of Welch": lambda x: stats.ttest_ind(x, x[:3] ** 2, equal_var=False).pvalue,
    "its degrees": lambda x: stats.ttest_ind(x[0], x[1], equal_var=False).df,
    "ttest_rel": lambda x: stats.ttest_rel(x[0], x[1], alternative="greater")[1],
    "circmean": _of("circmean", axis=1),
    "circmean of degrees": lambda x: stats.circmean(30.0 * x, high=180, low=-180, axis=0),
    "circvar": _of("circvar", axis=1, keepdims=True),
    "circstd": _of("circstd", high=5.0),
    "gaussian_kde": lambda x: stats.gaussian_kde(x[0])(x[1]),
    "gaussian_kde in planes": lambda x: stats.gaussian_kde(x[:2], "silverman").logpdf(x[2:]),
    "gaussian_kde by weights": lambda x: stats.gaussian_kde(x[0], 0.4, np.abs(x[1])).pdf(x[2]),
    "a density made outside": lambda x: DENSITY(x[0]),
}
RANKED: dict[str, Callable[..., Any]] = {
    f"rankdata {method}": _of("rankdata", method, axis=1)
    for method in ("average", "min", "max", "dense", "ordinal")
} | {
    "rankdata of all": lambda x: stats.rankdata(np.round(x)),
    "spearmanr": lambda x: stats.spearmanr(x[0], x[1])[0],
    "its probability": lambda x: stats.spearmanr(x[0], x[1], alternative="less").pvalue,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_statistics(name: str) -> None:
    second = name in ("ttest_1samp", "gaussian_kde", "circmean", "boxcox_llf", "pmean")
    check_whole(SMOOTH[name], second)


def check_whole(f: Callable[..., Any], second: bool) -> None:
    def g(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = 1.0 * np.asarray(f(x))
        return found

    check(g, X, second=second, atol=1e-11)


@pytest.mark.parametrize("name", RANKED)
def test_ranks_are_piecewise_constant(name: str) -> None:
    f = RANKED[name]
    check_value(lambda x: np.asarray(f(x)), np.round(X, 1))
    check_batch(f, X)
    slope: Any = calque.grad(lambda x: np.sum(x[0] * 0.0) + np.sum(1.0 * f(x)))(X)
    np.testing.assert_array_equal(slope, np.zeros_like(X))


def test_results_are_named() -> None:
    for f in (
        lambda x: stats.ttest_1samp(x[0], 0.0),
        lambda x: stats.ttest_ind(x[0], x[1]),
        lambda x: stats.spearmanr(x[0], x[1]),
    ):
        t, p = f(X)
        named = calque.jit(lambda x, f=f: (f(x).statistic, f(x).pvalue, *f(x)))(X)
        np.testing.assert_allclose(named, (t, p, t, p), rtol=1e-12)


def test_what_is_not_done_is_refused_in_words() -> None:
    for f, words in (
        (lambda x: stats.boxcox(np.abs(x[0])), "boxcox_llf"),
        (lambda x: stats.yeojohnson(x[0]), "yeojohnson_llf"),
        (_of("gmean", nan_policy="omit"), "isnan"),
        (lambda x: stats.spearmanr(x), "two samples"),
        (lambda x: stats.ttest_ind(x[0], x[1], trim=0.1)[0], "trim"),
    ):
        with pytest.raises(CalqueError, match=words):
            calque.jit(f)(X)


def test_missing_numbers() -> None:
    x = np.where(X > 1.0, np.nan, X)
    for name in ("circmean", "iqr", "skew", "moment"):
        f = _of(name, axis=1)
        np.testing.assert_allclose(calque.jit(f)(x), f(x))
        with pytest.raises(ValueError):
            calque.jit(_of(name, axis=1, nan_policy="raise"))(x)
    f = _of("rankdata", axis=1)
    np.testing.assert_allclose(calque.jit(f)(x), f(x))
