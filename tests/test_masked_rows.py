"""Masks pick of each row in a loop, for a batch: values that no path reads are no obstacle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

Y = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, np.nan], [0.5, 1.0, 1.5]])
THETAS = np.array([0.5, 0.6, -0.2])


def squares_of_what_is_there(theta, y):
    total = 0.0
    for row in y:
        ok = ~np.isnan(row)
        if ok.any():
            v = theta * row[ok]
            total += v @ v
    return total


def without_a_test(theta, y):
    total = 0.0
    for row in y:
        v = np.sin(theta * row[~np.isnan(row)])
        total += np.sum(v * v)
    return total


def by_index(theta, y):
    total = 0.0
    for k in range(len(y)):
        at = np.flatnonzero(~np.isnan(y[k]))
        if at.size > 0:
            v = theta * y[k][at]
            total += np.sum(v) ** 2 * (k + 1)
    return total


def means(theta, y):
    total = 0.0
    for row in y:
        ok = ~np.isnan(row)
        n = np.sum(ok)
        if n > 1:
            part = row[ok] * theta
            total += np.mean(part) + np.var(part) * theta
    return total


def under_two_tests(theta, y):
    total = 0.0
    for k in range(y.shape[0]):
        ok = ~np.isnan(y[k])
        if ok.any():
            part = theta * y[k][ok]
            if k > 0:
                w = np.exp(part)
                total += np.sum(w * part)
            else:
                total += np.max(part) ** 2
    return total


def within_a_while(theta, y):
    total, k = 0.0, 0
    while k < len(y):
        ok = ~np.isnan(y[k])
        if ok.sum() > 0:
            v = theta * y[k, ok]
            total = total * 0.5 + v @ v
        k += 1
    return total


def filtered_state(theta, y):
    x, p = 0.0, 1.0
    for row in y:
        p = theta * theta * p + 0.1
        ok = ~np.isnan(row)
        if ok.any():
            seen = row[ok]
            gain = p / (p + 0.5)
            x = x + gain * np.mean(seen - x)
            p = (1.0 - gain) * p
        x = theta * x
    return x + p


def nested_rows(theta, y):
    total = 0.0
    for row in y:
        for other in y:
            ok = ~(np.isnan(row) | np.isnan(other))
            if ok.any():
                d = theta * row[ok] - other[ok]
                total += np.sum(d * d)
    return total


PROGRAMS = [
    *(squares_of_what_is_there, without_a_test, by_index, means, under_two_tests),
    *(within_a_while, filtered_state, nested_rows),
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "jit"])
def test_batches_of_derivatives(
    fn: Callable[..., Any], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    slope = lambda t: (fn(t + 1e-6, Y) - fn(t - 1e-6, Y)) / 2e-6
    bend = lambda t: (fn(t + 1e-4, Y) - 2.0 * fn(t, Y) + fn(t - 1e-4, Y)) / 1e-8
    whole = calque.jit if compiled else lambda f: f
    values, slopes = whole(calque.vmap(calque.value_and_grad(fn), in_axes=(0, None)))(THETAS, Y)
    np.testing.assert_allclose(values, [fn(t, Y) for t in THETAS], rtol=1e-12)
    np.testing.assert_allclose(slopes, [slope(t) for t in THETAS], rtol=1e-6, atol=1e-7)
    rows = whole(calque.vmap(fn))(THETAS, np.stack([Y, Y, Y]))
    np.testing.assert_allclose(rows, values, rtol=1e-12)
    bends = whole(calque.vmap(calque.grad(calque.grad(fn)), in_axes=(0, None)))(THETAS, Y)
    np.testing.assert_allclose(bends, [bend(t) for t in THETAS], rtol=1e-4, atol=1e-5)
