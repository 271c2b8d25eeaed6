"""Recurrences in rows that are independent run side by side, in strips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(31)


def along_rows(x, a):
    """Forth and back along each row, with borders."""
    n, m = x.shape
    p = np.zeros((n, m))
    for i in range(n):
        p[i, 0] = 1.0
        for j in range(1, m):
            p[i, j] = a / (1.5 - 0.25 * p[i, j - 1]) + x[i, j]
        x[i, m - 1] = 0.5
        for j in range(m - 2, -1, -1):
            x[i, j] = p[i, j] * x[i, j + 1] + 0.25 * x[i, j]
    return np.sum(x * x)


def down_columns(x, a):
    n, m = x.shape
    for j in range(m - 1, -1, -1):
        shift = a * j
        for i in range(1, n):
            x[i, j] = np.sin(x[i - 1, j]) * x[i, j] + shift
    return np.sum(x * x)


def neighbours(x, a):
    """Rows add to what their neighbours add to."""
    n, m = x.shape
    y, z = np.zeros((n, m)), np.zeros((n, m))
    for i in range(1, n - 1):
        for j in range(1, m):
            y[i, j] = a * y[i, j - 1] + x[i, j]
            z[i + 1, j] += y[i, j]
            z[i - 1, j] += 0.5 * y[i, j]
    return np.sum(z * z)


def sweeps(x, a):
    """Columns, then rows, several times."""
    n, m = x.shape
    for _ in range(3):
        for j in range(m):
            for i in range(1, n):
                x[i, j] += a * x[i - 1, j]
        for i in range(n):
            for j in range(1, m):
                x[i, j] += a * x[i, j - 1]
    return np.sum(x * x)


def rows_depend(x, a):
    n, m = x.shape
    for i in range(1, n):
        for j in range(1, m):
            x[i, j] += a * x[i - 1, j - 1] * x[i, j - 1]
    return np.sum(x * x)


def triangle(x, a):
    """The rows differ in length."""
    n, m = x.shape
    for i in range(n):
        for j in range(1, min(i + 1, m)):
            x[i, j] += a * x[i, j - 1]
    return np.sum(x * x)


def read_between(x, a):
    """Each iteration reads an element that the loop before has stored, from its last iteration."""
    n, m = x.shape
    for i in range(1, n):
        for j in range(1, m):
            x[i, j] += a * x[i, j - 1]
        x[i, 0] += x[i - 1, m - 1]
    return np.sum(x * x)


def elements(x, a):
    """No recurrence: the inner loops are vectors as they are."""
    n, m = x.shape
    for i in range(n):
        for j in range(m):
            x[i, j] = a * x[i, j] * x[i, j]
    return np.sum(x)


def checked(x, a):
    """An iteration may raise after others have stored."""
    n, m = x.shape
    for i in range(n):
        for j in range(1, m):
            x[i, j] += a * x[i, j - 1]
        x[i, int(x[i, 0]) % 4 + 1] += 1.0
    return np.sum(x)


TURNED = [along_rows, down_columns, neighbours, sweeps]
KEPT = [rows_depend, triangle, read_between, elements, checked]


def text(f: Callable[..., Any], n: int, m: int) -> str:
    return str(calque.source(calque.jit(f), np.ones((n, m)), 0.5))


@pytest.mark.parametrize("f", TURNED, ids=lambda f: f.__name__)
def test_rows_in_strips(f: Callable[..., Any]) -> None:
    found = text(f, 40, 30)
    assert "strip" in found
    assert "in vrange(first, last)" in found


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_rows_that_stay(f: Callable[..., Any]) -> None:
    assert "strip" not in text(f, 40, 30)


@pytest.mark.parametrize(("n", "m"), [(3, 30), (7, 5)])
def test_few_rows_stay(n: int, m: int) -> None:
    assert "strip" not in text(along_rows, n, m)


def test_large_arrays_have_a_program_of_their_own() -> None:
    """The small one goes in strips; the other's result is right too."""
    f = calque.jit(along_rows)
    for n, m in ((20, 30), (400, 500), (30, 20)):
        x = RNG.normal(size=(n, m))
        assert f(x.copy(), 0.3) == pytest.approx(along_rows(x.copy(), 0.3), rel=1e-12)
    assert "strip" not in text(along_rows, 400, 500)


SIZES = [(0, 0), (1, 1), (2, 2), (8, 1), (1, 9), (9, 2), (13, 7), (63, 5), (64, 6), (65, 4)]
SIZES += [(66, 3), (129, 3), (5, 131), (37, 41)]


@pytest.mark.parametrize("f", TURNED + KEPT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers(f: Callable[..., Any], kind: Any) -> None:
    fast = calque.jit(f)
    for n, m in SIZES:
        whole = RNG.normal(size=(2 * n, 2 * m)).astype(kind)
        for x in (whole[:n, :m].copy(), whole[::2, ::-2], whole[n:, :m].copy().T.copy().T):
            expected, outcome = x.copy(), x.copy(order="K")
            try:
                value = f(expected, 0.3)
            except IndexError:
                with pytest.raises(IndexError):
                    fast(outcome, 0.3)
                continue
            tolerance = 1e-11 if kind == np.float64 else 2e-4
            assert fast(outcome, 0.3) == pytest.approx(value, rel=tolerance, abs=tolerance)
            np.testing.assert_allclose(outcome, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("f", TURNED + KEPT[:4], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("n", "m"), sampled([(66, 5), (9, 4), (11, 13), (8, 2)], 1))
def test_gradients(f: Callable[..., Any], n: int, m: int) -> None:
    x = RNG.uniform(-0.9, 0.9, (n, m))
    found = calque.jit(calque.grad(f, argnums=(0, 1)))(x, 0.3)
    direction = RNG.normal(size=x.shape)
    ends = [f(x + h * direction, 0.3 + 0.7 * h) for h in (1e-6, -1e-6)]
    slope = (ends[0] - ends[1]) / 2e-6
    assert np.sum(found[0] * direction) + 0.7 * found[1] == pytest.approx(slope, rel=1e-6, abs=1e-7)
