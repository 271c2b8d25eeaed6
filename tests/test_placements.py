"""``explain`` of a jitted function: what runs in kernels, what NumPy does, what Python loops over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import calque


def several(x: Any, A: Any, k: int) -> Any:
    y = np.exp(x) * 2.0
    s = np.linalg.svd(A, compute_uv=False)
    for i in range(1, k):
        y[i] = y[i] + 0.5 * y[i - 1] ** 2
    total = 0.0
    for i in range(k):
        total = total + np.real(np.fft.fft(y)[i])
    return total + np.sum(s)


def test_each_line_is_told() -> None:
    args = np.ones(4), np.eye(4), 3
    text = calque.explain(calque.jit(several), *args)
    first = several.__code__.co_firstlineno
    where = f"test_placements.py:{first + 6}"
    assert text.splitlines()[0] == f"In kernels: lines {first + 1}, {first + 3}, {first + 4}, {first + 8}."
    assert f"test_placements.py:{first + 2}: np.linalg.svd" in text
    assert f"{where}: the loop is Python's: no kernel has np.fft.fft" in text
    assert f"(test_placements.py:{first + 7})" in text
    assert "for i in range(k):" in text
    assert "np.fft.fft" not in calque.explain(calque.grad(lambda x: x * x), 1.0)


def annealed(x: Any, k: int) -> Any:
    total = 0.0
    for i in range(k):
        table = np.outer(x, x) * i
        total = total + special.logsumexp(x * i) + special.logsumexp(table, axis=1)[1]
        total = total + np.sum(special.logsumexp(table, axis=0, keepdims=True))
    return total


def test_logsumexp_is_compiled_in_loops() -> None:
    x = np.array([0.3, -1.2, 2.0])
    jitted = calque.jit(annealed)
    assert jitted(x, 4) == pytest.approx(annealed(x, 4), rel=1e-14)
    assert "the loop is Python's" not in calque.explain(jitted, x, 4)
    gradient = calque.jit(calque.grad(annealed))(x, 4)
    steps = 1e-6 * np.eye(3)
    differences = [(annealed(x + s, 4) - annealed(x - s, 4)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-7)


@pytest.mark.parametrize("values", [[np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 1.0], [800.0, 801.0]])
def test_logsumexp_of_what_is_not_finite(values: list[float]) -> None:
    def twice(x: Any, k: int) -> Any:
        total = 0.0
        for _ in range(k):
            total = total + special.logsumexp(x)
        return total

    x = np.array(values)
    np.testing.assert_allclose(calque.jit(twice)(x, 2), twice(x, 2), rtol=1e-14)
