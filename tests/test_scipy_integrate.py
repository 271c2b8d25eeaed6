"""Integrals of functions by ``scipy.integrate`` inside differentiated functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

integrate = pytest.importorskip("scipy.integrate")

A = np.array([0.5, 0.8])
INTEGRALS: dict[str, Callable[[Any], Any]] = {
    "limits and parameters": lambda a: integrate.quad(
        lambda x: np.exp(-a[0] * x * x) * np.cos(a[1] * x), 0.0, a[0]
    )[0],
    "to infinity": lambda a: integrate.quad(lambda x: np.exp(-a[0] * x), a[1], np.inf)[0],
    "everywhere": lambda a: integrate.quad(
        lambda x: np.exp(-a[0] * x * x + a[1] * x), -np.inf, np.inf
    )[0],
    "from infinity, with args": lambda a: integrate.quad(
        lambda x, p, q: np.exp(p * x) * q, -np.inf, a[1], args=(a[0], a[1])
    )[0],
    "downwards": lambda a: integrate.quad(lambda x: np.exp(x * a[0]) * a[1], 1.0, 0.0)[0],
    "many intervals": lambda a: integrate.quad(lambda x: np.sin(8.0 * a[0] * x * x), 0.0, 5.0)[0],
    "a branch": lambda a: integrate.quad(lambda x: a[0] * x if x > 0.5 else a[1], 0.0, 1.0)[0],
    "fixed_quad": lambda a: integrate.fixed_quad(lambda x: np.exp(x * a[0]), 0.0, a[1], n=7)[0],
    "dblquad": lambda a: integrate.dblquad(
        lambda y, x: x * y * y * a[0] + a[1] * np.sin(x * y), 0.0, 1.0, 0.0, lambda x: x + a[0]
    )[0],
}


def differences(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """The derivative by central differences."""
    return np.array([(f(x + e) - f(x - e)) / 2e-5 for e in 1e-5 * np.eye(x.size)])


@pytest.mark.parametrize("name", INTEGRALS)
def test_integrals(name: str) -> None:
    f = INTEGRALS[name]
    value, gradient = calque.value_and_grad(f)(A)
    np.testing.assert_allclose(value, f(A), rtol=1e-15)
    np.testing.assert_allclose(gradient, differences(f, A), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(calque.jit(calque.grad(f))(A), gradient, rtol=1e-12, atol=1e-13)
    batch = np.stack([A, 1.1 * A])
    np.testing.assert_allclose(calque.vmap(f)(batch), [f(a) for a in batch], rtol=1e-14)
    one = [calque.grad(f)(a) for a in batch]
    np.testing.assert_allclose(calque.vmap(calque.grad(f))(batch), one, rtol=1e-10, atol=1e-13)


def test_second_derivative() -> None:
    f = INTEGRALS["limits and parameters"]
    np.testing.assert_allclose(calque.hessian(f)(A), differences(calque.grad(f), A), rtol=1e-6)


def test_equal_limits() -> None:
    """The integral is zero, its derivative by a limit the integrand."""

    def f(b: Any) -> Any:
        return integrate.quad(lambda x: np.exp(x), 1.0, b)[0]

    np.testing.assert_allclose(calque.grad(f)(1.0), np.exp(1.0), rtol=1e-12)


def test_a_singularity_is_an_error() -> None:
    with pytest.raises(ValueError, match="the sum over its nodes is not the integral"):
        calque.grad(lambda a: integrate.quad(lambda x: x ** (-a), 0.0, 1.0)[0])(0.5)


def test_quadpack_warns() -> None:
    f = calque.jit(lambda a: integrate.quad(lambda x: a / x, 0.0, 1.0)[0])
    with pytest.warns(integrate.IntegrationWarning), warnings.catch_warnings():
        warnings.simplefilter("always")
        f(1.0)


def test_text_is_read_by_people() -> None:
    text = calque.source(calque.jit(INTEGRALS["limits and parameters"]), A)
    assert "def integrand(x, a):\n    return np.exp(-a[0] * x * x) * np.cos(a[1] * x)" in text
    assert "quadrature(\n        integrand, 0.0, b, (a,)" in text
    assert max(map(len, text.splitlines())) <= 100
