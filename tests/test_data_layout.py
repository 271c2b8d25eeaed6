"""The axes of a program's internal arrays are in the order of the loops over them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(16)


def columns_first(A):
    """Saved column by column, in loops that are turned to go along rows."""
    m, n = A.shape
    for k in range(n):
        for j in range(k + 1, n):
            for i in range(m):
                A[i, j] -= 0.1 * A[i, k] * A[i, j]
    return np.sum(A**3)


def both_ways(A):
    """Rows and columns of one array: no order is better."""
    m, n = A.shape
    kept = np.zeros((m, n))
    for i in range(m):
        for j in range(n):
            kept[i, j] = A[i, j] * A[i, j]
    total = 0.0
    for j in range(n):
        for i in range(m):
            total = np.sin(total) + kept[i, j]
    return total


def returned(A):
    """An array that is returned keeps the order of its axes."""
    m, n = A.shape
    out = np.empty((n, m))
    for i in range(m):
        for j in range(n):
            out[j, i] = A[i, j] * 2.0
    return out


def in_a_branch(A):
    m, n = A.shape
    kept = np.empty((n, m))
    total = 0.0
    for i in range(m):
        if A[i, 0] > 0.0:
            for j in range(n):
                kept[j, i] = np.tanh(A[i, j] + total)
        else:
            for j in range(n):
                kept[j, i] = -A[i, j]
        for j in range(n):
            total = 0.5 * total + kept[j, i]
    return total


PROGRAMS = [columns_first, both_ways, returned, in_a_branch]


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 3), (1, 5), (5, 1), (0, 2)])
def test_value(fn: Callable[..., Any], shape: tuple[int, int]) -> None:
    A = RNG.normal(size=shape)
    np.testing.assert_allclose(calque.jit(fn)(A.copy()), fn(A.copy()), rtol=1e-12)


@pytest.mark.parametrize("fn", [columns_first, both_ways, in_a_branch])
def test_gradient(fn: Callable[..., Any]) -> None:
    A, h = RNG.normal(size=(4, 3)), 1e-6
    expected = np.empty_like(A)
    for at in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[at] = h
        expected[at] = (fn(A + step) - fn(A - step)) / (2 * h)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(A), expected, rtol=1e-6, atol=1e-8)


def test_what_is_saved_follows_the_loops() -> None:
    A = RNG.normal(size=(4, 3))
    text = calque.source(calque.jit(calque.grad(columns_first)), A, stage="kernels")
    saved = re.findall(r"(?:A|values)_saved\[([^]]*)\]", text)
    assert saved
    for index in saved:
        assert "j" in index.split(", ")[-1]
        assert "i" in index.split(", ")[-2]


def test_loops_carry_what_they_change() -> None:
    """Adjoints that a loop only reads do not keep its iterations from running in parallel."""

    def fn(A, x):
        total = 0.0
        for i in range(A.shape[0]):
            inner = 0.0
            for j in range(A.shape[1]):
                inner += A[i, j] * x[j]
            total += inner * inner
        return total

    A, x = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    gradient = calque.jit(calque.grad(fn, argnums=(0, 1)))
    of_A, of_x = gradient(A, x)
    np.testing.assert_allclose(of_A, 2 * np.outer(A @ x, x), rtol=1e-13)
    np.testing.assert_allclose(of_x, 2 * A.T @ (A @ x), rtol=1e-13)
    back = calque.source(gradient, A, x, stage="kernels").split("A_bar", 1)[1]
    assert "for j in vrange(" in back


def shown(A, how):
    """``kept`` is stored and read column by column: it is shown as the user made it."""
    m, n = A.shape
    kept, total = np.zeros((n, m)), 0.0
    for i in range(m):
        for j in range(n):
            kept[j, i] = A[i, j] + total
            total = 0.5 * total + A[i, j]
    if how == "print":
        print(kept)
    for i in range(m):
        for j in range(n):
            total = 0.3 * total + kept[j, i]
    if how == "raise" and total > 0.0:
        raise ValueError(f"{kept}")
    return total


@pytest.mark.parametrize("how", ["print", "raise"])
def test_what_is_shown_keeps_its_axes(
    how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    A, said = np.arange(6.0).reshape(3, 2), []
    for fn in (shown, calque.jit(shown, static_argnums=1)):
        try:
            fn(A, how)
        except ValueError as error:
            print(error)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""
