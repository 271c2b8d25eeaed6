"""Hessians and Jacobians whose basis is compared away from the band: the same numbers, in rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(13)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def far_neighbours(x):
    return np.sum(np.sin(x[3:]) * x[:-3] ** 2 + x[1:-2])


def too_far(x):
    """The band would be wider than it is worth."""
    return np.sum(np.sin(x[9:]) * x[:-9] ** 2)


def mean_field(x):
    return np.sum(np.tanh(x) ** 3) / np.sum(x * x + 1.0)


def blended(x):
    return np.sum(np.exp(x) * x + 2.0 * x[::-1])


def elementwise(x):
    return np.tanh(x) * x + np.cos(x)


def stencil(x):
    return np.sin(x[:-2]) * x[1:-1] + x[2:] ** 2


SCALAR = [rosenbrock, far_neighbours, too_far, mean_field, blended]
VECTOR = [elementwise, stencil]


def complex_gradient(fn: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    steps = 1e-30j * np.eye(x.size)
    return np.array([fn(x + step).imag / 1e-30 for step in steps])


def differences(gradient: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    h = 1e-6
    rows = [(gradient(x + h * e) - gradient(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    return np.array(rows)


@pytest.mark.parametrize("fn", SCALAR)
@pytest.mark.parametrize("size", [11, 17])
def test_hessian(fn: Callable[..., Any], size: int) -> None:
    x = RNG.normal(size=size)
    got = calque.jit(calque.hessian(fn))(x)
    expected = differences(lambda z: complex_gradient(fn, z), x)
    np.testing.assert_allclose(got, expected, rtol=2e-7, atol=1e-5)
    np.testing.assert_allclose(got, calque.hessian(fn)(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fn", VECTOR)
@pytest.mark.parametrize("kind", [calque.jacfwd, calque.jacrev])
def test_jacobian(fn: Callable[..., Any], kind: Any) -> None:
    x = RNG.normal(size=9)
    expected = complex_gradient(fn, x).T
    np.testing.assert_allclose(calque.jit(kind(fn))(x), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_few_elements(size: int) -> None:
    x = RNG.normal(size=size)
    plain, compiled = calque.hessian(rosenbrock), calque.jit(calque.hessian(rosenbrock))
    np.testing.assert_allclose(compiled(x), plain(x), rtol=1e-13)
    assert compiled(x).shape == (size, size)
    expected = differences(lambda z: complex_gradient(rosenbrock, z), x)
    np.testing.assert_allclose(compiled(x), expected, rtol=2e-7, atol=1e-5)


@pytest.mark.parametrize("fn", [rosenbrock, mean_field, blended])
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, -0.0, 1e200])
def test_what_zero_multiplies_counts(fn: Callable[..., Any], odd: float) -> None:
    """0 * inf is NaN in all rows, as in NumPy."""
    x = RNG.normal(size=6)
    x[2] = odd
    with np.errstate(all="ignore"):
        expected = calque.hessian(fn)(x)
    np.testing.assert_allclose(calque.jit(calque.hessian(fn))(x), expected, rtol=1e-12)


@pytest.mark.parametrize("fn", [rosenbrock, mean_field])
def test_rows_are_made_once(fn: Callable[..., Any]) -> None:
    text = calque.source(calque.jit(calque.hessian(fn)), RNG.normal(size=6), stage="kernels")
    assert "row[j]" in text
    assert "in vrange(band, band_end)" in text


def test_a_wide_band_stays_one_loop() -> None:
    text = calque.source(calque.jit(calque.hessian(too_far)), RNG.normal(size=12), stage="kernels")
    assert "band" not in text


def diagonal(x, rows, k):
    """The inner loop may have no iterations, and neither may the outer one."""
    H = np.zeros((rows, x.size))
    few = x.size - 2
    for i in range(rows):
        for j in range(few):
            H[i, j] = np.where(i == j, 1.0, 0.0) * np.exp(x[j]) * np.sin(x[j]) * (1.0 / (j - k))
    return H


@pytest.mark.parametrize("size", [0, 1, 2, 3, 6])
def test_bands_without_iterations(size: int) -> None:
    x, jitted = RNG.normal(size=size), calque.jit(diagonal)
    for rows in (0, 1, 5):
        np.testing.assert_allclose(jitted(x, rows, -1), diagonal(x, rows, -1), rtol=1e-13)
        if rows and size > 2:
            with pytest.raises(ZeroDivisionError):
                jitted(x, rows, 0)
        else:
            np.testing.assert_allclose(jitted(x, rows, 0), diagonal(x, rows, 0))


def test_a_row_of_no_elements() -> None:
    def band(x):
        H = np.zeros((x.size, x.size))
        few = x.size - 3
        for i in range(x.size):
            for j in range(few):
                H[i, j] = np.where(i == j, 1.0, 0.0) * np.exp(x[j]) * np.sin(x[j])
        return H

    jitted = calque.jit(band)
    assert "row[j]" in jitted.source(RNG.normal(size=6), stage="kernels")
    for size in (6, 3, 2, 0):
        x = RNG.normal(size=size)
        np.testing.assert_allclose(jitted(x), band(x), rtol=1e-13)
