"""Lists as arrays: work that only the first iteration does, and rows that are the same list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import AliasUndecided

X = np.array([0.31, 1.62, 0.73, 2.24, 1.15, 0.47])


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def longest_rise(x):
    tails = []
    for v in x:
        lo, hi = 0, len(tails)
        while lo < hi:
            mid = (lo + hi) // 2
            if tails[mid] < v:
                lo = mid + 1
            else:
                hi = mid
        if lo == len(tails):
            tails.append(v)
        else:
            tails[lo] = v
    return len(tails) * x[0] + tails[-1] ** 2


def the_first_two(x):
    out = []
    for i in range(len(x)):
        if len(out) < 2:
            out.append(x[i])
    return sum(out) + len(out)


def a_staircase(x):
    out = []
    for v in x:
        if not out or v > out[-1]:
            out.append(v)
    return sum(k * v for k, v in enumerate(out))


def a_row_twice(x):
    n = len(x)
    t = [[0.0] * 2 for _ in range(n)]
    t.append(t[0])
    for i in range(n):
        t[i][0] = x[i]
    t[n][1] = 7.0 * x[0]
    return t[0][1] + t[n][0] * 2 + t[0][0]


def rows_added_again(x):
    n = len(x)
    t = [[0.0] * 2 for _ in range(n)]
    t.extend(t[:1])
    t[0][0] = x[0]
    return t[n][0] * 2 + t[0][0]


def rows_of_a_sum(x):
    n = len(x)
    t = [[0.0] * 2 for _ in range(n)]
    u = t + t
    for i in range(n):
        u[i][0] = x[i]
    return u[n][0] * 2 + t[0][0]


def one_row_each_iteration(x):
    n = len(x)
    t = []
    row = [0.0] * n
    for _ in range(n):
        t.append(row)
    t[0][0] = x[0]
    return t[n - 1][0] * 2 + row[0]


def one_known_row_each_iteration(x):
    t = []
    row = [0.0, 1.0]
    for _ in range(len(x)):
        t.append(row)
    t[0][0] = x[0]
    return row[0] + 2 * t[1 % len(x)][0] + 4 * t[0][0]


def rows_of_another(x):
    t = [[0.0] * 2 for _ in range(len(x))]
    u = [row for row in t]
    u[0][0] = x[0]
    return t[0][0] * 2 + u[0][0]


def rows_of_a_matrix(x):
    m = np.outer(x, x)
    t = []
    for i in range(len(x)):
        t.append(m[i])
    t[0][0] = 3.0 * x[0]
    return t[-1][0] + t[0][0]


def a_slice_replaced(x):
    a = [0.0] * len(x)
    a[:] = [v * 2 for v in x]
    a[0:1] = [x[0] ** 2]
    return sum(a)


PROGRAMS = [
    longest_rise,
    the_first_two,
    a_staircase,
    a_row_twice,
    rows_added_again,
    rows_of_a_sum,
    one_row_each_iteration,
    one_known_row_each_iteration,
    rows_of_another,
    rows_of_a_matrix,
    a_slice_replaced,
]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_value_gradient_and_batch(fn: Callable[..., Any]) -> None:
    fast, h = calque.jit(fn), 1e-6
    for x in (X, X[:4][::-1].copy(), X[:1]):
        np.testing.assert_allclose(fast(x), fn(x.copy()), rtol=1e-13)
    slopes = [(fn(X + s) - fn(X - s)) / (2 * h) for s in h * np.eye(len(X))]
    np.testing.assert_allclose(calque.grad(fn)(X), slopes, rtol=1e-6, atol=1e-7)
    many = np.stack([X, X[::-1], 0.99 * X])
    np.testing.assert_allclose(calque.vmap(fn)(many), [fn(x) for x in many.copy()], rtol=1e-12)


def of_two_arms(x):
    out = []
    for v in x:
        if v > 1:
            out.append(v)
        else:
            out.append(-v)
    return sum(out)


def test_arms_that_append_equally_often_need_no_count() -> None:
    text = calque.source(of_two_arms, X)
    assert "out = np.empty(x.shape[0])" in text and "count" not in text


def an_array_each_iteration(x):
    t = []
    r = np.zeros(2)
    for _ in range(len(x)):
        t.append(r)
    t[0][1] = 5.0 * x[0]
    return t[-1][1] + t[0][0]


def a_row_each_iteration(x):
    m = np.outer(x, x)
    t = []
    for _ in range(len(x)):
        t.append(m[0])
    t[0][0] = 3.0 * x[0]
    return t[-1][0] + t[0][0]


def an_array_again(x):
    t = []
    for v in x:
        t.append(np.array([v, 1.0]))
    t.append(t[0])
    t[0][1] = 5.0 * x[0]
    return t[-1][1] + t[0][0]


@pytest.mark.parametrize("fn", [an_array_each_iteration, a_row_each_iteration, an_array_again])
def test_an_array_that_a_list_holds_twice(fn: Callable[..., Any]) -> None:
    """The store would have to be seen through two elements: refused."""
    with pytest.raises(AliasUndecided):
        calque.jit(fn)(X)
