"""The reverse sweep of loops whose arrays have another size in each iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

STEP = 1e-6


def levinson(r, y):
    """Solve a Toeplitz system: each iteration makes both arrays one element longer."""
    a = np.array([-r[1] / r[0]])
    x = np.array([y[0] / r[0]])
    for k in range(1, len(y) - 1):
        error = r[0] + np.dot(r[1 : k + 1], a)
        mu = (y[k] - np.dot(r[1 : k + 1], x[::-1])) / error
        x = np.append(x + mu * a[::-1], mu)
        last = -(r[k + 1] + np.dot(r[1 : k + 1], a[::-1])) / error
        a = np.append(a + last * a[::-1], last)
    return np.sum(x**2)


def pyramid(v):
    z = v * 1.0
    while len(z) > 1:
        z = np.sin(z[1:]) * z[:-1] + 0.5
    return z[0]


def in_an_arm(v):
    z, s = v * 1.0, 0.0
    while len(z) > 2:
        if len(z) % 2 == 0:
            y = np.tanh(z[1:] * z[:-1])
            z = y * y + z[1:]
        else:
            z = z[:-1] * np.exp(-z[1:])
        s = s + np.sum(z * z)
    return s + z[0]


def within_iterations(v):
    s = 0.0
    for i in range(3):
        z = v * (1.0 + i)
        while len(z) > 2:
            z = np.sin(z[:-1]) * z[1:]
            s = s + np.sum(z * z)
    return s


def schur_complements(v):
    """Matrices that lose a row and a column in each iteration."""
    A = np.outer(v, v) + 3.0 * np.eye(len(v)) + v
    s = 0.0
    while A.shape[0] > 1:
        A = A[1:, 1:] - np.outer(A[1:, 0], A[0, 1:]) / A[0, 0]
        s = s + np.log(A[0, 0])
    return s


def no_iteration(v):
    z = v * 2.0
    while len(z) > 20:
        z = z[1:] * z[:-1]
    return np.sum(z * z)


def differences(function: Callable[..., Any], v: np.ndarray, *rest: Any) -> np.ndarray:
    steps = np.eye(len(v)) * STEP
    return np.array([function(v + e, *rest) - function(v - e, *rest) for e in steps]) / (2 * STEP)


PROGRAMS = [pyramid, in_an_arm, within_iterations, schur_complements, no_iteration]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("size", [5, 12])
def test_gradients(function, size: int) -> None:
    v = np.linspace(0.2, 1.1, size)
    expected = differences(function, v)
    np.testing.assert_allclose(calque.grad(function)(v), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("function", PROGRAMS)
def test_jitted_gradients(function) -> None:
    pytest.importorskip("numba")
    v = np.linspace(0.2, 1.1, 9)
    found = calque.jit(calque.grad(function), boundscheck=True)(v)
    np.testing.assert_allclose(found, differences(function, v), rtol=1e-5, atol=1e-8)


def test_arrays_that_grow() -> None:
    r, y = np.exp(-0.5 * np.arange(8.0)), np.linspace(1.0, 2.0, 8)
    np.testing.assert_allclose(
        calque.grad(levinson)(r, y), differences(levinson, r, y), rtol=1e-5, atol=1e-8
    )


def test_batched_gradients() -> None:
    rows = np.linspace(0.2, 1.1, 18).reshape(3, 6)
    found = calque.vmap(calque.grad(pyramid))(rows)
    np.testing.assert_allclose(found, [differences(pyramid, v) for v in rows], rtol=1e-5)


def test_second_derivatives() -> None:
    v = np.linspace(0.3, 1.0, 5)
    gradient = calque.grad(pyramid)
    ends = [gradient(v + e) - gradient(v - e) for e in np.eye(5) * STEP]
    found = calque.hessian(pyramid)(v)
    np.testing.assert_allclose(found, np.array(ends) / (2 * STEP), rtol=1e-5, atol=1e-8)


def test_they_read_as_written_by_hand() -> None:
    text = calque.source(calque.grad(pyramid), np.ones(5))
    for line in (
        "z_saved = np.empty(16)",
        "while z_saved.shape[0] < z_top_sum:",
        "z_saved[z_top:z_top_sum] = z",
    ):
        assert line in text
