"""Loops with stores and sums are distributed, and split at crossings of the stores."""

import numpy as np
import pytest

import calque


def durbin(r):
    n = r.shape[0]
    y = np.zeros(n)
    z = np.zeros(n)
    y[0] = -r[0]
    alpha = -r[0]
    for k in range(1, n):
        total = 0.0
        for i in range(k):
            total += r[k - i - 1] * y[i]
        alpha = -(r[k] + total) / (2.0 + alpha * alpha)
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return np.sum(y * y)


def mirrored(r):
    """Two sums, one of what is overwritten, one of what is not, and stores that meet."""
    n = r.shape[0]
    x = r * 1.0
    first = second = 0.0
    for k in range(2, n):
        s = t = 0.0
        for i in range(k):
            old = x[i]
            s += old * x[n - 1 - i]
            t -= r[i] * r[i + n - k]
            x[i] = 0.5 * old + 0.1 * r[k - i]
        first += np.sin(s)
        second += t * s
    return np.sum(x * x) + first * second


def read_late(r):
    """The sum reads elements that earlier iterations have stored, and stays where it is."""
    n = r.shape[0]
    x = r * 1.0
    total = 0.0
    for k in range(1, n):
        for i in range(k):
            x[i + 1] = 0.5 * x[i + 1] + 0.3 * x[i]
            x[i] = 0.9 * r[i] + 0.1 * np.sin(x[i])
            total += x[i] * x[k - i]
    return total + np.sum(x)


@pytest.mark.parametrize("function", [durbin, mirrored, read_late])
@pytest.mark.parametrize("n", [3, 4, 9, 40])
def test_values_and_gradients(function, n):
    r = 0.3 * np.cos(1.7 * np.arange(n)) * 0.7 ** np.arange(n)
    value, slope = calque.jit(calque.value_and_grad(function))(r)
    np.testing.assert_allclose(value, function(r.copy()), rtol=1e-12)
    np.testing.assert_allclose(calque.jit(function)(r), value, rtol=1e-12)
    direction = np.sin(np.arange(n))
    at = [function(r + k * 1e-4 * direction) for k in (-2, -1, 1, 2)]
    wanted = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / 12e-4
    np.testing.assert_allclose(slope @ direction, wanted, rtol=1e-7)


def test_durbin_has_no_loop_that_waits():
    source = calque.source(calque.jit(calque.grad(durbin)), np.ones(9), stage="kernels")
    assert "range(k - 1, -1, -1)" not in source, source
