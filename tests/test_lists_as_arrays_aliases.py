"""Lists in arrays: what the first round does and others do not, and rows that are one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

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


PROGRAMS = [longest_rise, the_first_two, a_staircase]


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
