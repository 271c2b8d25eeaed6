"""Functions of a program whose results share memory, or are read-only, or ask for sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.outlining.sharing_policy import SharingPolicy

pytest.importorskip("numba")

X = np.random.default_rng(0).normal(size=5)
CALLS: list[None] = []


@pytest.fixture(autouse=True)
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share all that repeats; kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    always = SharingPolicy(3, 3, 2)
    monkeypatch.setattr("calque.transpiler.kernel_passes.to_compile", lambda builder: always)
    monkeypatch.setattr("calque.transpiler.texts.TO_READ", always)


def check(f: Callable[..., Any], x: Any, *others: Any, rtol: float = 1e-12) -> None:
    """Value and slope are those of plain Python, in NumPy source and compiled."""
    direction, step = np.cos(np.arange(x.size)).reshape(x.shape), 1e-6
    slope = (f(x + step * direction, *others) - f(x - step * direction, *others)) / (2.0 * step)
    for way in (lambda g: g, calque.jit):
        derived = way(calque.value_and_grad(f))
        value, gradient = derived(x, *others)
        assert "\n\n\ndef " in calque.source(derived, x, *others)
        np.testing.assert_allclose(value, f(x, *others), rtol=rtol)
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(calque.jit(f)(x, *others), f(x, *others), rtol=rtol)


def either(x: Any, w: Any, c: Any) -> Any:
    """Two results that are one array where c is positive."""
    h = np.tanh(x * w) * w
    h = np.sin(h) * h
    y = np.where(h > 0, h, -h)
    if c > 0:
        y = h
    return y, h


@pytest.mark.parametrize("c", [1.0, -1.0])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float64"])
def test_results_in_the_memory_of_each_other(dtype: str, c: float) -> None:
    def f(w, x, c):
        y, h = either(x, w[0], c)
        y_2, h_2 = either(x[::-1], w[1], c)
        y_3, h_3 = either(x + x, w[2], c)
        y = y.copy()
        y[0] = 5.0
        y_2 = y_2.copy()
        y_2[1] = 5.0
        h_3 = h_3.copy()
        h_3[1] = 5.0
        return np.sum(y * h + y_2 * h_2 + y_3 * h_3)

    check(f, X[:3], np.arange(1, 6).astype(dtype), c, rtol=1e-6)


@pytest.mark.parametrize("c", [1.0, -1.0])
def test_results_that_share_memory_made_from_numbers(c: float) -> None:
    def made(s, c, n):
        h = np.full(n, s) + np.arange(n) * 0.3
        h = np.sin(h) * h
        y = np.where(h > 0, h, -h)
        if c > 0:
            y = h
        return y, h

    def f(x, c):
        n = x.shape[0]
        y, h = made(x[0], c, n)
        y_2, h_2 = made(x[1], c, n)
        y_3, h_3 = made(x[2], c, n)
        y = y.copy()
        y[0] = 5.0
        y_2 = y_2.copy()
        y_2[1] = 5.0
        h_3 = h_3.copy()
        h_3[1] = 5.0
        return np.sum(y * h + y_2 * h_2 + y_3 * h_3)

    check(f, X, c)


@calque.opaque(
    result=lambda x: x,
    jvp=lambda dot, y, x: dot,
    vjp=lambda bar, y, x: bar,
)
def noted(x):
    CALLS.append(None)
    return x


def test_a_function_of_the_users_is_called_as_often_as_in_plain_python() -> None:
    def part(x, w):
        h = np.tanh(x) * w + np.sin(x)
        z = noted(h)
        return z, z * np.exp(-h)

    def f(x, w):
        total = 0.0
        for k in (0.1, 0.2, 0.35):
            z, g = part(x, w)
            total = total + np.sum(z * z) * k + np.sum(z * g)
            x = x + g
        return total

    check(f, X, 0.7)
    for way in (calque.value_and_grad, calque.jit):
        derived = way(f)
        derived(X, 0.7)
        CALLS.clear()
        derived(X, 0.7)
        assert len(CALLS) == 3


@calque.opaque(
    result=lambda x: (x, x),
    jvp=lambda dots, outs, x: (dots, -np.sin(x) * dots),
    vjp=lambda bars, outs, x: bars[0] - bars[1] * np.sin(x),
)
def with_cosine(x):
    return x, np.cos(x)


def test_results_of_the_users_functions_may_be_arguments() -> None:
    def part(x, w):
        y, z = with_cosine(x)
        h = np.tanh(z) * w + np.sin(x)
        return y, h * np.exp(-h) * y

    def f(x, w):
        x = x * 2.0
        y, g = part(x, w)
        y_2, g_2 = part(g, w)
        y_3, g_3 = part(g_2, w)
        x = x.copy()
        x[0] = 0.3
        g = g.copy()
        g[1] = 0.7
        return np.sum(y * x) + np.sum(y_2 * g) + np.sum(y_3 * g_3 * x)

    check(f, X, 0.7)


def test_the_number_of_all_elements_is_no_axis_of_an_argument() -> None:
    def part(x, w):
        h = np.tanh(x) * w
        h = np.sin(h) * h
        return np.exp(-h) * x, h

    def f(x, matrix, w):
        total = np.sum(matrix)
        for k in (1, 2, 0):
            y, h = part(x, w)
            y = y.copy()
            y[k] = 0.5
            total = total + np.sum(y) + np.mean(h)
            x = x + h
        return total

    check(f, X, np.ones((3, 5)), 0.7)

    def g(matrix, w):
        return f(matrix[0], matrix, w)

    check(g, np.stack([X, X, X]), 0.7)


def test_numbers_that_change_together_are_one_argument() -> None:
    def part(x, c, d):
        h = np.tanh(x) * c + np.sin(x) / d
        return np.exp(-h) * x * d + np.where(h > c, h, c) * c - d

    def f(x):
        return np.sum(part(part(part(x, 0.1, 2.0), -0.0, 3.0), 1e-3, 0.5))

    check(f, X)
    text = calque.source(calque.jit(f), X)
    assert "part(x, coefficient, coefficient_2):" in text
