"""A matrix computed only for a product with a vector is never stored; its rows run on threads."""

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


def stacked(a, b):
    return a @ b * 2.0


def weighed(moved, weights):
    return np.einsum("bnk,nb->nk", moved, weights)


def spread_over(rows, weights):
    return np.einsum("nk,nb->bnk", rows, weights)


TINY = (
    (((6, 3, 3), (3, 3)), "f8", True),
    (((6, 5, 3, 4), (6, 1, 4, 1)), "f8", True),
    (((7, 3), (5, 3, 4)), "f4", True),
    (((4, 2, 3), (3,)), "c16", True),
    (((0, 3, 2), (2, 2)), "f8", True),
    (((1, 1, 1), (1, 1, 1)), "f8", True),
    (((6, 3, 5), (5, 3)), "f8", False),  # more terms than are written
    (((6, 3, 3), (3, 9)), "f8", False),
    (((6, 3, 3), (3, 3)), "i8", False),  # integers wrap as NumPy's do
)


@pytest.mark.parametrize(("shapes", "dtype", "written"), TINY)
def test_stacks_of_tiny_matrices_are_multiplied_in_a_kernel(shapes, dtype, written):
    rng = np.random.default_rng(3)
    a, b = ((4.0 * rng.normal(size=s)).astype(dtype) for s in shapes)
    if dtype == "c16":
        a, b = a + 1j * a[::-1], 1j * b

    def known(a, b):  # sizes are written into the program, as those of rows of three are
        return stacked(a.reshape(shapes[0]), b.reshape(shapes[1]))

    product = calque.jit(known)
    np.testing.assert_allclose(product(a, b), stacked(a, b), rtol=1e-5 if dtype == "f4" else 1e-12)
    text = calque.source(product, a, b, stage="kernels")
    assert (" @ " not in text) == written, text


@pytest.mark.parametrize("backward", [False, True])
def test_sums_with_a_product_for_each_element_are_loops(backward):
    rng = np.random.default_rng(4)
    for f, shapes in ((weighed, ((5, 7, 3), (7, 5))), (spread_over, ((7, 3), (7, 5)))):
        args = [rng.normal(size=s) for s in shapes]

        def value(*args, f=f):
            return np.sum(f(*args) ** 2)

        g = calque.grad(value, argnums=(0, 1)) if backward else value
        found, expected = calque.jit(g)(*args), g(*args)
        if not backward:
            found, expected = (found,), (expected,)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        text = calque.source(calque.jit(g), *args, stage="kernels")
        assert "einsum(" not in re.sub("#.*", "", text)
