"""Functions of ``scipy.special`` and densities in compiled loops: no part is left to SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque

special, stats = pytest.importorskip("scipy.special"), pytest.importorskip("scipy.stats")

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan])
PAIRS = [v.ravel() for v in np.meshgrid(EDGES, EDGES)]
X = np.concatenate([np.linspace(-37.0, 37.0, 2001), EDGES])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "xlogy", "xlog1py"])
def test_values(name: str, dtype: str) -> None:
    f = getattr(special, name)
    args = [v.astype(dtype) for v in (PAIRS if f.nin == 2 else [X[np.abs(X) < 8]])]
    if dtype == "f8" and f.nin == 1:
        args = [X]
    with np.errstate(all="ignore"):
        want, found = f(*args), calque.jit(lambda *a: f(*a))(*args)
    np.testing.assert_allclose(found, want, rtol=1e-12 if dtype == "f8" else 2e-5, atol=0)
    assert found.dtype == want.dtype
    assert "special." not in calque.source(calque.jit(lambda *a: f(*a)), *args)


def likelihood(y: Any, a: Any, scale: Any) -> Any:
    total = 0.0
    for i in range(y.size):
        total += stats.gamma.logpdf(y[i], a, scale=scale) + stats.norm.logcdf(y[i], a, scale)
        total += stats.lognorm.sf(y[i], a) * stats.poisson.logpmf(i, scale)
    return total


@pytest.mark.filterwarnings("error::calque.runtime.call.fallback.JitFallback")
def test_densities_in_loops() -> None:
    y = np.random.default_rng(0).uniform(0.1, 3.0, 20)
    value, slopes = calque.jit(calque.value_and_grad(likelihood, (0, 1, 2)))(y, 1.7, 0.8)
    np.testing.assert_allclose(value, likelihood(y, 1.7, 0.8), rtol=1e-12)
    for k, want in enumerate(calque.grad(likelihood, (0, 1, 2))(y, 1.7, 0.8)):
        np.testing.assert_allclose(slopes[k], want, rtol=1e-10)
    ends = [likelihood(y, 1.7 + s, 0.8) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(slopes[1], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
