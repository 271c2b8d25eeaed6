"""Lists of run-time length and ranges beside arrays: what NumPy makes arrays of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque

X = np.array([0.2, 1.7, 0.4, 2.9, 1.1])


def list_times_array(x):
    weights = [0.5 / (k + 1) for k in range(len(x))]
    return np.sum(weights * np.cos(x)) + np.sum(x - weights) + np.sum(weights**x)


def list_in_a_loop(x):
    weights, total = [0.5 / (k + 1) for k in range(len(x))], x[0]
    for _ in range(3):
        total += np.sum(weights * np.cos(total * x))
    return total


def list_compared(x):
    limits = [0.5 * k for k in range(len(x))]
    return np.sum(x[x > limits]) + np.sum(np.where(limits <= x, x, 2.0 * x * x))


def list_added_in_place(x):
    y = x.copy()
    y += [0.5 * v for v in x]
    y[1:] *= [2.0 * v for v in x[1:]]
    return np.sum(y)


def list_that_is_filtered(x):
    large = [v for v in x if v > 0.5]
    return np.sum(large * np.array([2.0])) + len(large)


def range_beside_places(x):
    table, n = np.outer(x, x), len(x)
    best = np.argmax(table, axis=0)
    table[range(n), range(n)] += x[range(n - 1, -1, -1)]
    table[0, range(1, n)] = 2.0 * x[1:]
    return np.sum(table[best, range(n)])


def range_beside_an_array(x):
    return np.sum(x * range(len(x))) + np.sum(range(len(x)) - x)


def list_as_an_index(x):
    places = [k for k in range(len(x)) if k % 2 == 0]
    y = x.copy()
    y[places] = 0.5 * x[places]
    return np.sum(y**2)


@pytest.mark.parametrize(
    "fn",
    [list_times_array, list_in_a_loop, list_compared, list_added_in_place, list_that_is_filtered]
    + [range_beside_places, range_beside_an_array, list_as_an_index],
)
def test_what_numpy_makes_of_them(fn: Any) -> None:
    for x in (X, np.array([0.9, 0.3, 1.2])):
        value, gradient = calque.value_and_grad(fn)(x)
        np.testing.assert_allclose(value, fn(x), rtol=1e-14)
        np.testing.assert_allclose(calque.jit(fn)(x), fn(x), rtol=1e-13)
        steps = 1e-6 * np.eye(len(x))
        slopes = [(fn(x + step) - fn(x - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(calque.jit(calque.grad(fn))(x), gradient, rtol=1e-12)
    stacked = np.stack([X, X[::-1]])
    np.testing.assert_allclose(calque.vmap(fn)(stacked), [fn(row) for row in stacked], rtol=1e-13)


def best_split(y):
    best, least = None, np.inf
    for i in range(1, len(y)):
        left, right = y[:i].mean(), y[i:].mean()
        error = np.sum((y[:i] - left) ** 2) + np.sum((y[i:] - right) ** 2)
        if error < least:
            least, best = error, (left, right)
    low, high = best
    return least + low * high


def test_a_tuple_that_may_be_none_is_taken_apart() -> None:
    value, gradient = calque.value_and_grad(best_split)(X)
    np.testing.assert_allclose(value, best_split(X), rtol=1e-14)
    slopes = [(best_split(X + s) - best_split(X - s)) / 2e-6 for s in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6)
    np.testing.assert_allclose(calque.jit(best_split)(X), value, rtol=1e-14)
    with pytest.raises(TypeError):
        calque.grad(best_split)(np.full(4, np.nan))
