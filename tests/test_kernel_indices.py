"""Kernels whose indices are proven take none from the end, but for the negative ones written so."""

import math

import numpy as np
import pytest
from numba import prange

import calque
from calque.runtime import kernels


@kernels.kernel
def spread(x, y, n):
    for i in prange(n):
        for j in range(n - 1, -1, -1):
            y[i, j] = x[i, -1] + x[-1, j] + x[i, j]
    last = -1
    y[-1, -1] = x[-1, n - 1]
    y[0, n - 1] = x[last, -2]


@kernels.kernel
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
    @kernels.kernel
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
    assert sum(x.tolist()) != pytest.approx(exact, rel=2e-16)


def test_rows_of_one_array_are_vectorized_without_comparing_addresses():
    vrange = kernels.vrange

    @kernels.kernel
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
