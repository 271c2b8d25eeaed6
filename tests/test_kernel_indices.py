"""Proven indices do not wrap around in kernels, except negative indices in the source."""

import functools
import math
import operator
import re

import numpy as np
import pytest
from numba import prange

import calque
from calque.runtime.kernels import decorator
from calque.runtime.kernels.integer_functions import checked_index


@decorator.kernel
def spread(x, y, n):
    for i in prange(n):
        for j in range(n - 1, -1, -1):
            y[i, j] = x[i, -1] + x[-1, j] + x[i, j]
    last = -1
    y[-1, -1] = x[-1, n - 1]
    y[0, n - 1] = x[last, -2]


@decorator.kernel
def picked(x, where):
    total = np.zeros(2)
    part = x[1:-1]
    for i in range(where.size):
        total[0] += x[where[i]]
        total[1] += part[where[i] - 1]
    return total


@pytest.mark.parametrize("n", [2, 5, 400])  # the last one is beyond the threshold of threads
def test_from_the_start_and_from_the_end(n):
    x, found = np.random.default_rng(0).normal(size=(n, n)), np.zeros((n, n))
    expected = x[:, -1:] + x[-1:, :] + x
    expected[-1, -1], expected[0, -1] = x[-1, -1], x[-1, -2]
    spread(x, found, n)
    assert np.array_equal(found, expected)
    turned = np.zeros((n, n))[::-1].T
    spread(x[::-1, ::-1], turned, n)
    spread(x[::-1, ::-1].copy(), found, n)
    assert np.array_equal(found, turned)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_indices_of_every_kind(kind):
    x, where = np.arange(7.0), np.array([1, 3, 5, 3], kind)
    assert picked(x, where).tolist() == [12.0, 12.0]


def test_a_loop_that_counts_down_is_vectorized():
    @decorator.kernel
    def add(x, y, n):
        for i in range(n - 2, 0, -1):
            y[i + 1] += 0.5 * x[i]

    add(np.ones(9), np.ones(9), 9)
    assert "x double>" in add.inspect_llvm(add.signatures[0])


def compensated(x):
    total, lost = 0.0, 0.0
    for i in range(x.shape[0]):
        y = x[i] - lost
        t = total + y
        lost = (t - total) - y
        total = t
    return total


def test_compensated_summation_stays_exact():
    x = np.exp(5.0 * np.random.default_rng(0).normal(size=100_000))
    exact = math.fsum(x)
    assert calque.jit(compensated)(x) == pytest.approx(exact, rel=2e-16)
    plain = functools.reduce(operator.add, x.tolist())  # Python's sum compensates since 3.12
    assert plain != pytest.approx(exact, rel=2e-16)


def test_rows_of_one_array_are_vectorized_without_comparing_addresses():
    vrange = decorator.vrange

    @decorator.kernel
    def spread_rows(x, y, n):
        for i in range(n - 2, 0, -1):
            for j in vrange(1, n - 1):
                s = 0.5 * x[i, j]
                y[i - 1, j] += s
                y[i + 1, j] += s
                y[i, j] += s

    x = np.random.default_rng(1).normal(size=(40, 40))
    found, expected = np.zeros((40, 40)), np.zeros((40, 40))
    spread_rows(x, found, 40)
    spread_rows.py_func(x, expected, 40)
    assert np.allclose(found, expected, rtol=1e-14, atol=1e-14)
    code = spread_rows.inspect_llvm(spread_rows.signatures[0])
    assert "x double>" in code
    assert "vector.memcheck" not in code


# what a user's index picks of an array that a kernel does not make


def last_of_a_part(x, k):
    y = x[:, :k]
    return y[:, -1] + y[:, 0] + y[-2, 1]


def rows_of_a_part(x, k):
    y = x[1 : k + 1, 1:-1]
    return y[-1] * y[k - 3] + y[-2] + x[::2][-1, 1:-1]


def picked_by_counters(x, k):
    y = np.concatenate((x[:k, 0], 2.0 * x[:2, 1]))
    z = np.roll(x[:, 0], 2)[:k]
    total = 0.0
    for i in range(3):
        total += y[-1 - i] * z[i - 1] + np.flip(x[:k, 1])[i - 2]
    return total + x[:k] * y[-2]


def picked_by_arrays(x, k):
    where = np.array([0, -1, -2])
    return x[:k][where] * 2.0 + x[1:][where, :] + x[:k, 1:][:, where].sum()


def beyond_a_part(x, k):
    return x[:k, 1:][k] + x[0, 1:]


@pytest.mark.parametrize("fn", [last_of_a_part, rows_of_a_part, picked_by_counters, picked_by_arrays])
def test_an_index_counts_from_the_end_of_its_own_array(fn):
    x = np.random.default_rng(2).normal(size=(7, 5))
    assert np.allclose(calque.jit(fn)(x.copy(), 4), fn(x.copy(), 4), rtol=1e-13)
    slope = calque.grad(lambda x: np.sum(np.cos(fn(x, 4))))
    way, step = np.random.default_rng(3).normal(size=x.shape), 1e-6
    ahead, behind = (np.sum(np.cos(fn(x + s * step * way, 4))) for s in (1, -1))
    for gradient in (slope, calque.jit(slope)):
        found = np.sum(gradient(x) * way)
        assert np.isclose(found, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_an_index_beyond_its_own_array_is_refused():
    x = np.ones((7, 5))
    for fn in (beyond_a_part, calque.jit(beyond_a_part)):
        with pytest.raises(IndexError):
            fn(x, 4)


@pytest.mark.parametrize("where", [1, np.array([0, 1])])
def test_an_axis_of_one_has_no_second_element(where, monkeypatch):
    """The size of 1 may broadcast elsewhere; an index into it is the user's."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def column(x, A, where):
        return np.sum(x + A[:, where] * 2.0)

    def stored(x, A, where):
        A[:, where] = x + 1.0
        return np.sum(A)

    for fn in (column, stored):
        for form in (fn, calque.jit(fn)):
            with pytest.raises(IndexError):
                form(np.ones(1), np.ones((1, 1)), where)
        same = where * 0
        args = np.ones(1), np.full((1, 1), 3.0)
        assert calque.jit(fn)(*map(np.copy, args), same) == fn(*map(np.copy, args), same)


def rows_at(x, places):
    """A row of elements at a place that only the data tell; a loop of a person's over others."""
    out = np.zeros(x.shape[1])
    for k in range(places.size):
        out = out * 0.5 + x[places[k]] * x[places[k], ::-1]
        for j in range(places[k]):
            out[0] += x[j, 0]
    return out


def test_what_elements_have_in_common_is_checked_before_their_loop() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3))
    jitted = calque.jit(rows_at)
    source = jitted.source(x, np.array([1, 2]), stage="kernels")
    assert re.search(r"^ {8}places_checked\w* = checked_index\(.*\n {8}for ", source, re.MULTILINE)
    for places in ([1, 3, 0], [-1, 2], [-4], []):
        given = np.array(places, dtype=int)
        np.testing.assert_allclose(jitted(x, given), rows_at(x, given), rtol=1e-14)
    for form in (jitted, rows_at):
        for given in ([4], [-5], [0, 7]):
            with pytest.raises(IndexError):
                form(x, np.array(given))
        with pytest.raises(IndexError):  # NumPy looks for the row although it has no elements
            form(np.ones((2, 0)), np.array([2]))


def counted_back(A, B, p):
    """Places before the first, by the data and as written, read and added to: none is outside."""
    for k in range(A.shape[0]):
        for q in range(2):
            B[-k - 1, 0] -= A[p[k], -1] + 0.1 * np.sum(B[p[q], :])
            B[k - q, :] += 0.3 * A[k - q, ::-1] * B[-k - 1, :]
    return np.sum(B * B)


def test_negative_places_are_counted_from_the_end() -> None:
    """Compiled: uncompiled, NumPy would count them itself."""
    rng = np.random.default_rng(2)
    (A, B), p = rng.normal(size=(2, 5, 4)), np.array([0, -1, 3, -5, 2])
    assert np.isclose(calque.jit(counted_back)(A, B.copy(), p), counted_back(A, B.copy(), p))
    gradient = calque.grad(counted_back, argnums=(0, 1))
    way = rng.normal(size=(2, 5, 4))
    sides = (counted_back(A + s * way[0], B + s * way[1], p) for s in (1e-6, -1e-6))
    up, down = sides
    for form in (gradient, calque.jit(gradient)):
        slope = sum(np.vdot(f, w) for f, w in zip(form(A, B, p), way, strict=True))
        assert np.isclose(slope, (up - down) / 2e-6, rtol=1e-6)
    with pytest.raises(IndexError):
        calque.jit(gradient)(A, B, p + 6)


def test_narrow_indices_are_counted_from_the_end_uncompiled() -> None:
    """The size that is added to one is no number of its dtype."""
    assert checked_index(np.int8(-128), 300) == 172
    with pytest.raises(IndexError):
        checked_index(np.int8(-128), 127)
