"""Lists that are changed while a for statement iterates over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle


def descent_in_place(x):
    params = [(x * 2, x[0]), (x[1:], x[1])]
    grads = [(np.sin(x), x[2]), (np.cos(x[1:]), 1.0)]
    for i, ((w, b), (gw, gb)) in enumerate(zip(params, grads)):
        params[i] = (w - 0.1 * gw, b - 0.1 * gb)
    return sum(np.sum(w * w) * b for w, b in params)


def replaced_under_a_test(x):
    rows = [x, x[:2], x[1]]
    for i, row in enumerate(rows):
        if np.sum(row) > 0.5:
            rows[i] = row * 3.0
        else:
            rows[i] = row + 1.0
        rows[0] = rows[0] * x[2]
    return np.sum(rows[0]) * np.sum(rows[1]) * rows[2]


def two_at_once(x):
    a, b = [x, x[0]], [x * 3, x[1]]
    for k, (u, v) in enumerate(zip(a, b)):
        a[k], b[k] = v, u * 2
    return np.sum(a[0] * b[0]) + a[1] * b[1]


@pytest.mark.parametrize("fn", [descent_in_place, replaced_under_a_test, two_at_once])
def test_passed(fn: Callable[..., Any]) -> None:
    x = np.array([0.3, 1.5, 0.9])
    value, gradient = calque.value_and_grad(fn)(x)
    assert value == fn(x)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-8)


def ahead(x):
    rows = [x, x[:2], x[1]]
    total = 0.0
    for i, row in enumerate(rows):
        rows[2] = x[0]
        total += np.sum(row)
    return total


def backwards(x):
    rows = [x, x[:2], x[1]]
    total = 0.0
    for row in reversed(rows):
        rows[0] = x * 5.0
        total += np.sum(row)
    return total


def counted_from_one(x):
    rows = [x, x[:2], x[1]]
    for i, row in enumerate(rows[:2], 1):
        rows[i] = np.sum(row)
    total = 0.0
    for i, row in enumerate(rows, 1):
        if i < 3:
            rows[i] = np.sum(row)
        total += np.sum(row)
    return total


@pytest.mark.parametrize("fn", [ahead, backwards, counted_from_one])
def test_ahead(fn: Callable[..., Any]) -> None:
    x = np.array([0.3, 1.5, 0.9])
    value, gradient = calque.value_and_grad(fn)(x)
    assert value == fn(x)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-8)
