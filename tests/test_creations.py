"""Arrays of known sizes created in a loop: hoisted if they are only read, else in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque


def piecewise(z: Any) -> Any:
    if z[0] > 0.5:
        return np.array([z[0] * z[1], z[1]])
    return np.array([z[0], z[1] ** 3])


def jacobian(z: Any) -> Any:
    return calque.jacrev(piecewise)(z)


def with_eye(z: Any) -> Any:
    A = np.eye(2)
    return A @ z if z[0] > 0.5 else z + A[0]


def with_stored_eye(z: Any) -> Any:
    A = np.eye(2)
    if z[0] > 0.5:
        A[0, 1] = z[1]
    return A @ z


def with_zeros(z: Any) -> Any:
    out = np.zeros(3)
    if z[0] > 0.5:
        out[1] = z[0] * z[1]
    return out + np.ones(3) * z[1]


def with_full(z: Any) -> Any:
    return np.full(2, 3.0) * z if z[0] > 0.5 else np.full(2, z[1])


def with_arange(z: Any) -> Any:
    k = np.arange(4)
    return z[0] ** k if z[0] > 0.5 else z[1] * k


def with_cross(z: Any) -> Any:
    a = np.array([z[0], z[1], 1.0])
    return np.cross(a, np.array([0.0, 0.0, 1.0])) if z[0] > 0.5 else a


FUNCTIONS = [jacobian, with_eye, with_stored_eye, with_zeros, with_full, with_arange, with_cross]
ROWS = np.random.default_rng(0).uniform(0.0, 1.0, size=(9, 2))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_rows_are_compiled(function: Callable[..., Any]) -> None:
    jitted = calque.jit(calque.vmap(function))
    np.testing.assert_allclose(jitted(ROWS), [function(row) for row in ROWS], rtol=1e-13)
    text = calque.source(jitted, ROWS, stage="kernels")
    assert " for " not in text[text.index("_jit(") :]  # the launcher has no loop


@pytest.mark.parametrize("function", FUNCTIONS[1:], ids=lambda f: f.__name__)
def test_gradients_of_rows(function: Callable[..., Any]) -> None:
    def loss(rows: Any) -> Any:
        total = 0.0
        for k in range(rows.shape[0]):
            total = total + np.sum(np.sin(function(rows[k])))
        return total

    gradient = calque.jit(calque.grad(loss))(ROWS)
    step = 1e-6 * np.random.default_rng(1).normal(size=ROWS.shape)
    differences = (loss(ROWS + step) - loss(ROWS - step)) / 2.0
    assert np.sum(gradient * step) == pytest.approx(differences, rel=1e-6)


def turned(p: Any) -> Any:
    """A branch, three-vectors and a cross product: what a Jacobian of each row goes through."""
    r, x = p[:3], p[3:6]
    square = np.dot(r, r)
    if square > 1.0:
        w = r / np.sqrt(square)
        return x * np.cos(square) + np.cross(w, x) * np.sin(square)
    return x + np.cross(r, x)


@pytest.mark.parametrize("mode", ["jacfwd", "jacrev"])
def test_jacobians_of_rows_with_vectors_are_compiled(mode: str) -> None:
    rows = np.random.default_rng(2).uniform(0.0, 1.0, size=(9, 6))
    assert {bool(row[:3] @ row[:3] > 1.0) for row in rows} == {True, False}
    jacobians = calque.jit(calque.vmap(getattr(calque, mode)(turned)))
    step = 1e-6 * np.random.default_rng(1).normal(size=rows.shape)
    differences = [(turned(p + h) - turned(p - h)) / 2.0 for p, h in zip(rows, step, strict=True)]
    found = np.einsum("nij,nj->ni", jacobians(rows), step)
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-13)
    text = calque.source(jacobians, rows, stage="kernels")
    assert "for lane in prange" in text
    assert " for " not in text[text.index("_jit(") :]
    assert jacobians(rows[:0]).shape == (0, 3, 6)


def test_what_is_as_large_as_an_array_is_made_in_a_branch_that_is_taken() -> None:
    def walk(x: Any) -> Any:
        total = 0.0
        for k in range(x.size):
            if x[k] > 2.0:
                A = np.eye(x.size)
                total = total + np.sum(A[k] * x)
        return total

    x = np.array([1.0, 5.0, 3.0])
    assert calque.jit(walk)(x) == walk(x)
    text = calque.source(calque.jit(walk), x, stage="kernels")
    assert "eye" not in text or text.index("if ") < text.index("np.eye")


def test_what_is_stored_into_is_made_in_each_iteration() -> None:
    def walk(x: Any) -> Any:
        total = np.zeros((2, 2))
        for k in range(x.size):
            A = np.eye(2)
            B = A
            B[0, k % 2] += x[k]
            total = total + A
        return total

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(calque.jit(walk)(x), walk(x))


def test_results_share_no_memory() -> None:
    def last_two(x: Any) -> Any:
        a, b = np.zeros((2, 2)), np.ones((2, 2))
        for k in range(x.size):
            b = a
            a = np.eye(2)
            if x[k] > 5.0:
                a[0, 1] = x[k]
        return a, b

    for x in (np.array([1.0, 2.0, 3.0]), np.array([9.0, 1.0, 9.0]), np.array([1.0, 9.0, 1.0])):
        found, expected = calque.jit(last_two)(x), last_two(x)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert not np.shares_memory(*found)


SPACED = {
    "from a number": lambda x: np.sum(np.arange(x, x + 3.0) ** 2),
    "by a number": lambda x: np.sum(np.sin(np.arange(0.25, 5.3, x))),
    "both": lambda x: np.sum(np.arange(x, 7.3, x) * np.arange(x, 7.3, x)),
    "downwards": lambda x: np.sum(np.arange(7.0, x, -x) ** 3),
    "to a number": lambda x: np.sum(np.arange(5.0 * x)) * x,
    "integers of one": lambda x: np.sum(np.arange(x, 9.1, 1.0, dtype=np.int64)) * x,
    "in a loop": lambda x: sum(np.sin(t * x) for t in np.arange(0.1 * x, 2.0, 0.31)),
}


@pytest.mark.parametrize("case", SPACED)
def test_the_numbers_of_arange_move_with_its_arguments(case: str) -> None:
    function, x = SPACED[case], 0.83
    wanted = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
    value, slope = calque.value_and_grad(function)(x)
    assert value == function(x)
    np.testing.assert_allclose(slope, wanted, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(calque.jvp(function, (x,), (1.0,))[1], wanted, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(calque.jit(calque.grad(function))(x), slope, rtol=1e-13)
