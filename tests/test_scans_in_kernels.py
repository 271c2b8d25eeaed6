"""Running sums, products and extrema as loops of kernels, against NumPy and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

SCANS = [np.cumsum, np.cumprod, np.maximum.accumulate, np.minimum.accumulate]
RNG = np.random.default_rng(4)


@pytest.mark.filterwarnings("ignore:.*captured number")
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("scan", sampled(SCANS, 2), ids=lambda f: f.__qualname__)
def test_values(scan: Callable[..., Any], axis: int) -> None:
    def scanned(x: Any) -> Any:
        return scan(np.exp(x), axis=axis)

    jitted = calque.jit(scanned)
    for shape in ((3, 4, 5), (1, 1, 1), (2, 1, 3), (0, 4, 5), (3, 0, 5), (3, 4, 0)):
        x = RNG.normal(size=shape)
        found = jitted(x)
        np.testing.assert_allclose(found, scanned(x), rtol=1e-14)
        assert found.dtype == scanned(x).dtype
    text = calque.source(calque.jit(scanned), RNG.normal(size=(3, 4, 5)), stage="kernels")
    assert "cum" not in text.partition("_jit(")[2] and "accumulate" not in text


def test_what_is_no_number_and_zeros_with_signs() -> None:
    def scanned(x: Any) -> Any:
        return np.cumsum(x, axis=0), np.maximum.accumulate(x, axis=1)

    x = np.array([[-0.0, np.nan, 1.0], [-0.0, 2.0, np.inf], [3.0, -np.inf, 0.0]])
    for found, expected in zip(calque.jit(scanned)(x), scanned(x), strict=True):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_vector_in_memory_stays_with_numpy() -> None:
    def scanned(x: Any) -> Any:
        return np.cumsum(x)

    assert "np.cumsum" in calque.source(calque.jit(scanned), RNG.normal(size=4), stage="kernels")


def test_integers_are_summed_by_numpy_in_more_bits() -> None:
    def scanned(x: Any) -> Any:
        return np.cumsum(x * x, axis=1)

    x = np.full((2, 9), 11, np.int8)
    found = calque.jit(scanned)(x)
    np.testing.assert_array_equal(found, scanned(x))
    assert found.dtype == np.int64


def weighted_products(x: Any) -> Any:
    return np.sum(np.prod(x, axis=1) ** 2)


def products_of_columns(x: Any) -> Any:
    return np.sum(np.sin(np.prod(x, axis=0)))


def running(x: Any) -> Any:
    return np.sum(np.sin(np.cumprod(x, axis=1)) * np.cumsum(x, axis=0))


def of_rows(x: Any) -> Any:
    total = 0.0
    for k in range(x.shape[0]):
        total = total + np.sum(np.cos(np.cumsum(x[k])) * np.cumprod(x[k] + 1.0))
    return total


@pytest.mark.parametrize(
    "loss", [weighted_products, products_of_columns, running, of_rows], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_gradients(loss: Callable[..., Any], zeros: int) -> None:
    x = RNG.uniform(0.5, 1.5, size=(4, 5))
    x[1, :zeros] = 0.0
    gradient = calque.jit(calque.grad(loss))(x)
    step = 1e-6 * RNG.normal(size=x.shape)
    differences = (loss(x + step) - loss(x - step)) / 2.0
    assert np.sum(gradient * step) == pytest.approx(differences, rel=1e-6)


def test_the_gradient_of_products_is_loops_alone() -> None:
    x = RNG.uniform(0.5, 1.5, size=(4, 5))
    text = calque.source(calque.jit(calque.grad(weighted_products)), x, stage="kernels")
    assert "cumprod" not in text and "concatenate" not in text
