"""Different rounding in compiled loops must not change decisions: positions of extrema, tests."""

from __future__ import annotations

import numpy as np
import pytest

import calque


def largest_and_smallest(x, y, z, h):
    e = x * y + z * z * h
    return np.sum(np.where(e == e.max(), y, 0.0)) + np.count_nonzero(e == np.min(e))


def where_largest_of_rows(x, y, z, h):
    e = x[:, None] * y + z * z * h
    return np.sum(np.where(e >= e.max(axis=1, keepdims=True), x[:, None], 0.0), axis=1)


def times_at_the_place(x, y, z, h):
    e = x * y + z * z * h
    return np.count_nonzero(e == e[np.argmax(e)])


@pytest.mark.parametrize(
    "function", [largest_and_smallest, where_largest_of_rows, times_at_the_place]
)
@pytest.mark.parametrize("size", [2, 5, 33])
def test_an_extremum_is_found_again(function, size: int) -> None:
    """NumPy finds each; a loop that computes the elements anew may not."""
    rng = np.random.default_rng(size)
    compiled = calque.jit(function)
    for _ in range(20):
        args = *rng.normal(size=(3, size)), 0.1
        np.testing.assert_allclose(compiled(*args), function(*args), rtol=1e-12)


def van_der_pol(y, mu):
    return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def adaptive_steps(y0, mu):
    """Bogacki and Shampine's method, with steps by the largest error of two."""
    t, y, h = 0.0, y0.copy(), 0.1
    while t < 1.0:
        if t + h > 1.0:
            h = 1.0 - t
        k1 = van_der_pol(y, mu)
        k2 = van_der_pol(y + h / 2 * k1, mu)
        k3 = van_der_pol(y + 3 * h / 4 * k2, mu)
        y_new = y + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
        k4 = van_der_pol(y_new, mu)
        z = y + h * (7 / 24 * k1 + 1 / 4 * k2 + 1 / 3 * k3 + 1 / 8 * k4)
        err = np.max(np.abs(y_new - z))
        if err < 1e-4:
            t = t + h
            y = y_new
        if err > 0:
            h = min(2 * h, max(h / 2, 0.9 * h * (1e-4 / err) ** (1 / 3)))
    return np.sum(y * y)


@pytest.mark.parametrize("k", range(6))
def test_the_largest_error_of_a_step(k: int) -> None:
    """The sweep back computes the errors again, and their maximum was saved."""
    y0, mu = np.array([1.0 - 0.03 * k, 0.5 - 0.01 * k]), 0.8 + 0.02 * k
    found = calque.jit(calque.grad(adaptive_steps, argnums=(0, 1)))(y0, mu)
    step = 1e-6
    by_mu = (adaptive_steps(y0, mu + step) - adaptive_steps(y0, mu - step)) / (2 * step)
    assert np.isclose(found[1], by_mu, rtol=1e-5)
    for i, away in enumerate(step * np.eye(2)):
        slope = (adaptive_steps(y0 + away, mu) - adaptive_steps(y0 - away, mu)) / (2 * step)
        assert np.isclose(found[0][i], slope, rtol=1e-5)


def cut_at_a_product(x, w):
    total = 0.0
    for i in range(1, x.size):
        if x[i] * w[i] - x[i - 1] * w[i - 1] >= w[i] * w[i - 1]:
            total += x[i] * x[i] * w[i]
        else:
            total += np.sin(x[i]) * w[i - 1]
    return total


def test_a_test_comes_out_as_it_did() -> None:
    """Its outcome is saved: the sweep back need not find the same one where sides are equal."""
    w = np.array([0.1, 0.7, 1.3, 0.3, 2.1])
    x = np.empty(5)
    x[0] = 0.5
    for i in range(1, 5):
        x[i] = (w[i] * w[i - 1] + x[i - 1] * w[i - 1]) / w[i]
    found = calque.jit(calque.grad(cut_at_a_product))(x, w)
    np.testing.assert_allclose(found, calque.grad(cut_at_a_product)(x, w), rtol=1e-12)
    kernels = calque.jit(calque.grad(cut_at_a_product)).source(x, w, stage="kernels")
    assert "_saved" in kernels
