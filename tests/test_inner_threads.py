"""Nests within a loop run on threads if their iterations are independent; the numbers agree."""

import re

import numpy as np
import pytest
from sampling import EVERYTHING, sampled

import calque

RNG = np.random.default_rng(5)


def heat(A, B, steps):
    n, m, l = A.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, l - 1):
                    B[i, j, k] = 0.2 * (A[i + 1, j, k] + A[i - 1, j, k] + A[i, j + 1, k]) + 0.1 * (
                        A[i, j, k + 1] * A[i, j, k - 1]
                    )
        for i in range(n):
            for j in range(m):
                for k in range(l):
                    A[i, j, k] = np.sin(B[i, j, k])
    return np.sum(A * A)


def eliminate(A, B, steps):
    """Row k is read in all iterations and stored to in none."""
    A = A[:, :, 0] * 1.0
    n = min(A.shape)
    for k in range(n):
        for i in range(k + 1, n):
            factor = A[i, k] / (2.0 + A[k, k] ** 2)
            for j in range(n):
                A[i, j] -= factor * A[k, j]
    return np.sum(A * A)


def relax(A, B, steps):
    """Each row needs the one before: no threads."""
    n, m, l = A.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                A[i, j, 0] = 0.3 * (A[i - 1, j, 0] + A[i, j - 1, 0] + A[i, j, 0]) + 0.1 * B[i, j, 0]
    return np.sum(A * A)


def substitute(A, B, steps):
    """Row j of an earlier iteration is read."""
    A = A[:, :, 0] * 1.0
    n, m = A.shape
    for _ in range(steps):
        for i in range(n):
            for j in range(i):
                for k in range(m):
                    A[i, k] -= 0.1 * A[j, k] * B[i, 0, 0]
    return np.sum(A * A)


def summed_row(A, B, steps):
    """All iterations store to one row."""
    A = A[:, :, 0] * 1.0
    n, m = A.shape
    for k in range(steps):
        for i in range(k + 1, n):
            for j in range(m):
                A[i, j] = A[i, j] * 0.5
                A[k, j] += A[i, j] * B[i, j, 1]
    return np.sum(A * A)


def own_rows(A, B, steps):
    """Each iteration has a row of its own, and carries a number along the row."""
    n, m, l = A.shape
    for s in range(steps):
        for i in range(n):
            row = np.zeros(m)
            last = B[i, 0, 0]
            for j in range(m):
                last = 0.5 * last + A[i, j, 0] * (s + 1.0)
                row[j] = last
            for j in range(m):
                A[i, j, 1] = row[m - 1 - j] * np.cos(row[j])
    return np.sum(A * B)


PROGRAMS = [heat, eliminate, relax, substitute, summed_row, own_rows]
ALONE = [eliminate, own_rows]  # their values' kernels have threads within, too
ARGS = RNG.random((9, 8, 7)), RNG.random((9, 8, 7)), 3


def copies():
    return ARGS[0].copy(), ARGS[1].copy(), ARGS[2]


@pytest.mark.parametrize("function", sampled(PROGRAMS, 3))
def test_values_and_gradients_on_threads(function):
    wanted = function(*copies())
    direction = np.cos(np.arange(ARGS[0].size)).reshape(ARGS[0].shape)
    at = []
    for k in (-2, -1, 1, 2):
        A, B, steps = copies()
        at.append(function(A + k * 1e-3 * direction, B, steps))
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / 12e-3
    gradient = calque.value_and_grad(function)
    for parallel in (True, False) if EVERYTHING else (True,):
        value, found = calque.jit(gradient, parallel=parallel)(*copies())
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(np.sum(found * direction), slope, rtol=1e-7)
        if function in ALONE or EVERYTHING:
            value = calque.jit(function, parallel=parallel)(*copies())
            np.testing.assert_allclose(value, wanted, rtol=1e-12)


def inner_threads(function):
    text = calque.source(calque.jit(function), *ARGS, stage="kernels")
    return len(re.findall(r"^        for \w+ in prange", text, re.MULTILINE))


def test_which_loops_run_on_threads():
    assert inner_threads(heat) == 2
    assert inner_threads(calque.grad(heat)) >= 5, "forward, what is gathered, what is cleared"
    assert inner_threads(own_rows) == 1
    assert inner_threads(eliminate) == 1
    assert inner_threads(relax) == inner_threads(substitute) == inner_threads(summed_row) == 0
    text = calque.source(calque.jit(heat), *ARGS, stage="kernels")
    assert "@kernel(parallel='measured')" in text


def test_what_may_raise_shares_its_memory():
    """No thread can raise: the loop within runs on one, and its rows are one row."""

    def own_rows_checked(A, B, steps):
        n, m, l = A.shape
        for s in range(steps):
            for i in range(n):
                row = np.zeros(m)
                for j in range(m):
                    row[j] = A[i, j, s]
                for j in range(m):
                    A[i, j, 1] = row[m - 1 - j] * np.cos(row[j])
        return np.sum(A * B)

    assert inner_threads(own_rows_checked) == 0
    text = calque.source(calque.jit(own_rows_checked), *ARGS, stage="kernels")
    assert "@kernel(parallel=False)" in text
    assert "row = np.empty(m)" in text[text.index("_jit(") :], text
