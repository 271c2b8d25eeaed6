"""A matrix that is computed for a product with a vector is never in memory; its rows keep threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(14)
X, M = RNG.normal(size=6), RNG.random((6, 1)) + 0.5


def field(x, m):
    away = x[None, :] - x[:, None]
    near = np.exp(-(away**2))
    return (away * near) @ m


def vector(x, m):
    return np.tanh(x[:, None] * m.T) @ x


def column_means(x, m):
    """A sum over rows, which has no threads, beside a matrix of much work."""
    return np.mean(m * x[:, None], axis=0)[:3], field(x, m)


def at_hand(x, m):
    A = np.outer(x, x)
    return A @ m


def product_of_two(x, m):
    return np.sin(x[:, None] * x) @ np.cos(x[:, None] + x)


@pytest.mark.parametrize("fn", [field, vector, column_means, at_hand, product_of_two])
def test_same_as_numpy(fn: Callable[..., Any]) -> None:
    for got, want in zip(calque.jit(fn)(X, M), fn(X, M), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("fn", [field, vector])
def test_gradient(fn: Callable[..., Any]) -> None:
    def loss(x):
        return np.sum(fn(x, M) ** 2)

    h = 1e-6
    expected = [(loss(X + h * e) - loss(X - h * e)) / (2 * h) for e in np.eye(X.size)]
    np.testing.assert_allclose(calque.jit(calque.grad(loss))(X), expected, rtol=1e-6)


@pytest.mark.parametrize("fn", [field, vector])
def test_no_matrix_is_made(fn: Callable[..., Any]) -> None:
    code = re.sub(r"#.*", "", calque.source(calque.jit(fn), X, M))
    assert "@" not in code.replace("@kernel", "")
    assert not re.search(r"np\.empty\(\(x\.shape\[0\], x\.shape\[0\]\)\)", code)


def test_work_keeps_its_threads() -> None:
    text = calque.source(calque.jit(column_means), X, M)
    work = text.index("exp(")
    outer = [line for line in text[:work].splitlines() if re.match(r"    for i in", line)]
    assert "prange" in outer[-1]


def test_products_of_matrices_are_blas() -> None:
    assert " @ " in re.sub(r"#.*", "", calque.source(calque.jit(product_of_two), X, M))
