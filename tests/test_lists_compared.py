"""Comparisons of lists and membership tests; lists that a loop of one iteration fills."""

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


def equal(x):
    a = [int(v) for v in x]
    b = sorted(a)
    r = 0.0
    if a == b:
        r += 10 * x[0]
    if a != b[::-1]:
        r += 100
    if a == [0, 1, 0, 2, 1, 0]:
        r += x[1] ** 2
    if [0, 1] == a:
        r += 3
    if a == (0, 1):
        r += 7
    return r + x[0]


def ordered(x):
    a = [int(v) for v in x]
    b = [int(v) for v in x[::-1]]
    c = a + [1]
    s = 0.0
    for k, t in enumerate([a < b, a <= b, a > b, a >= b, a < c, c <= a, a <= a[:], a < a[:], a >= c]):
        if t:
            s += 2 ** k * x[0]
    return s


def in_a_known_list(x):
    a = [int(x[0]), 2, int(x[1 % len(x)])]
    s = x[0]
    if 1 in a:
        s += a.index(1) * x[0] + 5
    if 0 not in a:
        s *= 3
    return s + a.count(1) * 7 + a.count(2)


def in_a_tuple(x):
    a = (int(x[0]), int(x[1 % len(x)]), int(x[-1]))
    return x[0] * a.index(a[2]) + (1.0 if int(x[2 % len(x)]) in a else 2.0) + a.count(a[0])


def filtered(x):
    a = [v for v in x if v > 0.5]
    b = []
    for v in x:
        if v > 1:
            b.append(v)
    return sum(a) * 2 + len(b) + sum(b)


def filtered_in_two_loops(x):
    a = []
    for v in x:
        for w in x:
            if v > w:
                a.append(v - w)
    return sum(a) + len(a)


def places_kept(x):
    a = []
    for i in range(len(x)):
        if x[i] > 0.6:
            a.append(i)
    s = 0.0
    for i in a:
        s += x[i]
    return s


def looked_for_from_a_place(x):
    a = [int(v) for v in x]
    k = a.index(a[-1], 0)
    j = a.index(a[-1], -2)
    m = a.index(a[0], 0, 3)
    return k * x[0] + j + m


def not_in_a_known_list(x):
    a = [int(x[0]), 7]
    return a.index(3) * x[0]


def not_in_a_list(x):
    a = [int(v) for v in x]
    return x[0] * a.index(5)


PROGRAMS = [
    equal,
    ordered,
    in_a_known_list,
    in_a_tuple,
    filtered,
    filtered_in_two_loops,
    places_kept,
    looked_for_from_a_place,
]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_value_gradient_and_batch(fn: Callable[..., Any]) -> None:
    fast, h = calque.jit(fn), 1e-6
    for x in (X, X[:4][::-1].copy(), X[:1], X[1:2]):
        np.testing.assert_allclose(fast(x), fn(x.copy()), rtol=1e-13)
    slopes = [(fn(X + s) - fn(X - s)) / (2 * h) for s in h * np.eye(len(X))]
    np.testing.assert_allclose(calque.grad(fn)(X), slopes, rtol=1e-6, atol=1e-7)
    many = np.stack([X, X[::-1], 0.99 * X])
    np.testing.assert_allclose(calque.vmap(fn)(many), [fn(x) for x in many.copy()], rtol=1e-12)


@pytest.mark.parametrize("fn", [not_in_a_known_list, not_in_a_list])
def test_what_a_list_does_not_hold(fn: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="not in list"):
        calque.jit(fn)(X)
