"""Statistics of samples from ``scipy.stats``, against SciPy and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque

stats = pytest.importorskip("scipy.stats")

X = np.random.default_rng(0).uniform(1.0, 2.0, 8)
Y = 2.0 * X + np.sin(9.0 * X)
W = np.linspace(1.0, 2.0, 8)
PROGRAMS: dict[str, Any] = {
    "gmean": lambda x: stats.gmean(x),
    "weighted gmean": lambda x: stats.gmean(x, weights=W),
    "hmean of rows": lambda x: stats.hmean(np.outer(x, x), axis=1),
    "zscore": lambda x: stats.zscore(x, ddof=1) ** 2,
    "gzscore": lambda x: stats.gzscore(x) ** 3,
    "variation": lambda x: stats.variation(x),
    "skew": lambda x: stats.skew(x) + stats.skew(x, bias=False),
    "kurtosis": lambda x: stats.kurtosis(x) + stats.kurtosis(x, fisher=False, bias=False),
    "sem": lambda x: stats.sem(x),
    "trim_mean": lambda x: stats.trim_mean(x, 0.2),
    "entropy": lambda x: stats.entropy(x),
    "pearsonr": lambda x: stats.pearsonr(x, Y)[0] + stats.pearsonr(Y, x).pvalue,
    "pearsonr of an alternative": lambda x: stats.pearsonr(x, Y, alternative="less").pvalue,
    "linregress": lambda x: np.sum(np.array(stats.linregress(x, Y)[:5])),
    "linregress of an alternative": lambda x: stats.linregress(x, Y, "greater").pvalue,
    "intercept": lambda x: stats.linregress(x, Y).intercept_stderr,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_samples(name: str) -> None:
    f = PROGRAMS[name]
    batch = np.stack([X, X[::-1] ** 2])
    np.testing.assert_allclose(calque.vmap(f)(batch), [f(x) for x in batch], rtol=1e-10)
    weighted = lambda x: np.sum(f(x))
    steps = 1e-6 * np.eye(8)
    want = [(weighted(X + s) - weighted(X - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(calque.grad(weighted)(X), want, rtol=1e-6, atol=1e-7)


EQUAL = np.array([0.1, 0.1, 0.1])  # their mean is not quite 0.1
EDGES: dict[str, tuple[Any, np.ndarray]] = {
    "zscore of equal elements": (stats.zscore, EQUAL),
    "skew of equal elements": (stats.skew, EQUAL),
    "kurtosis of equal elements": (lambda x: stats.kurtosis(x, bias=False), EQUAL),
    "skew of two": (lambda x: stats.skew(x, bias=False), np.array([1.0, 2.0])),
    "kurtosis of three": (lambda x: stats.kurtosis(x, bias=False), X[:3]),
    "skew of a matrix": (lambda x: stats.skew(np.outer(x, x**2), axis=(0, 1)), X),
    "pearsonr of two": (lambda x: np.array(stats.pearsonr(x, Y[:2])), X[:2]),
    "pearsonr of equal elements": (lambda x: np.array(stats.pearsonr(x, Y[:3])), EQUAL),
    "linregress of two": (lambda x: np.array(stats.linregress(x, Y[:2])[:]), X[:2]),
    "linregress of 32 bits": (lambda x: np.array(stats.linregress(x, x**2)[:]), X.astype("f4")),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.filterwarnings("ignore")
def test_edges_of_samples(name: str) -> None:
    f, x = EDGES[name]
    with np.errstate(all="ignore"):
        found, want = calque.jit(f)(x), f(x)
    np.testing.assert_allclose(found, want, rtol=1e-6 if x.dtype == "f4" else 1e-10)
    assert np.asarray(found).dtype == np.asarray(want).dtype


def test_a_negative_number_has_no_harmonic_mean() -> None:
    assert np.isnan(calque.jit(lambda x: stats.hmean(x))(np.array([-1.0, 2.0, 3.0])))


def test_a_line_is_five_results() -> None:
    def f(x: Any) -> Any:
        slope, intercept, r, p, error = stats.linregress(x, Y)
        return slope * intercept + r * p * error

    np.testing.assert_allclose(calque.jit(f)(X), f(X), rtol=1e-10)
    of_length = lambda x: x * len(stats.linregress(x, Y))
    np.testing.assert_allclose(calque.jit(of_length)(X), 5.0 * X, rtol=1e-13)


def test_samples_that_are_none() -> None:
    both = np.stack([X, Y])
    with pytest.raises(NotImplementedError, match="one axis"):
        calque.jit(lambda x: stats.pearsonr(x, x**2).statistic)(both)
    with pytest.raises(NotImplementedError, match="one axis"):
        calque.jit(lambda x: stats.linregress(x, x**2).slope)(both)
    with pytest.raises(NotImplementedError, match="real numbers"):
        calque.jit(lambda x: stats.skew(x))(X + 1j)
    with pytest.raises(ValueError, match="same length"):
        calque.jit(lambda x: stats.pearsonr(x, Y[:3]).statistic)(X)
    with pytest.raises(ValueError, match="at least 2"):
        calque.jit(lambda x: stats.pearsonr(x, x).statistic)(X[:1])
    with pytest.raises(ValueError, match="identical"):
        calque.jit(lambda x: stats.linregress(x, EQUAL).slope)(EQUAL)
    with pytest.raises(ValueError, match="alternative"):
        calque.jit(lambda x: stats.pearsonr(x, Y, alternative="more").pvalue)(X)
