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
    "linregress": lambda x: np.sum(np.array(stats.linregress(x, Y)[:5])),
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
