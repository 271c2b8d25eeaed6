"""digamma as kernels have it, against SciPy's and mpmath's; gradients of log-gamma in loops."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

import calque
from calque.runtime.kernels.gamma_functions import digamma


def test_digamma_is_scipys() -> None:
    near_root = 1.4616321449683623 + np.linspace(-1e-6, 1e-6, 21)
    powers = 10.0 ** np.linspace(-300, 300, 601)
    special_ones = [0.0, -0.0, -1.0, -1e300, np.inf, -np.inf, np.nan, 1.0, 2.0, 10.0]
    x = np.concatenate([np.linspace(-9.99, 30, 2001), near_root, powers, special_ones])
    with np.errstate(all="ignore"):
        got = np.array([digamma(float(v)) for v in x])
    np.testing.assert_allclose(got, special.digamma(x), rtol=5e-14)


def test_digamma_is_mpmaths() -> None:
    for x in (0.1, 0.9, 1.0, 1.5, 1.99, 2.5, 9.9, 10.0, 37.2, -0.3, -4.7):
        assert digamma(x) == pytest.approx(float(mpmath.digamma(x)), rel=1e-14)


def logs(x: Any, k: int) -> Any:
    total = 0.0
    for i in range(k):
        total = total + np.sum(special.gammaln(x + i)) + math.lgamma(x[i % 3] + i)
        total = total + np.sum(np.diff(x) ** 2) * special.digamma(x[0] + i)
    return total


def test_gradients_of_loops_are_compiled() -> None:
    x, jitted = np.array([0.3, 1.2, 2.0]), calque.jit(calque.value_and_grad(logs))
    value, gradient = jitted(x, 5)
    assert value == pytest.approx(logs(x, 5), rel=1e-13)
    steps = 1e-6 * np.eye(3)
    differences = [(logs(x + s, 5) - logs(x - s, 5)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-7)

    def without_polygamma(x: Any, k: int) -> Any:
        total = 0.0
        for i in range(k):
            total = total + np.sum(special.gammaln(x + i)) + np.sum(np.diff(x) ** 2)
        return total

    text = calque.explain(calque.jit(calque.grad(without_polygamma)), x, 5)
    assert "the loop is Python's" not in text


@pytest.mark.parametrize("widths", [(1, 2), (0, 1), ((1, 0), (0, 2))])
def test_padding_in_loops(widths: Any) -> None:
    def padded(x: Any, k: int) -> Any:
        total = 0.0
        for i in range(k):
            wide = np.pad(x * i, widths, constant_values=0.5)
            total = total + np.sum(np.sin(wide) * (i + 1.0)) + wide[-1, -1]
        return total

    x = np.array([[0.3, 1.2, 2.0], [0.1, -1.0, 3.0]])
    jitted = calque.jit(padded)
    assert jitted(x, 4) == pytest.approx(padded(x, 4), rel=1e-13)
    assert "the loop is Python's" not in calque.explain(jitted, x, 4)


def test_a_saved_module_has_digamma(tmp_path: Any) -> None:
    x, path = np.array([0.3, 1.2, 2.0]), tmp_path / "saved.py"
    calque.save(calque.jit(logs), path, x, 5)
    text = path.read_text()
    assert "def digamma(x)" in text and "import calque" not in text
    namespace: dict[str, Any] = {"__name__": "saved"}
    exec(compile(text, str(path), "exec"), namespace)
    assert namespace["logs_jit"](x, 5) == pytest.approx(logs(x, 5), rel=1e-13)
