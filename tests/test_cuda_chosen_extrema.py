"""Extrema that loops choose by comparisons, and rows of few columns, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, few_blocks, on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(37)


def lowest(x):
    best = x[0]
    for i in range(1, x.size):
        best = min(best, x[i])
    return best


def lowest_of_all(x):
    best = np.inf
    for v in x:
        best = min(best, v)
    return best


def highest(x):
    best = 0.0
    for i in range(x.size):
        if abs(x[i]) > best:
            best = abs(x[i])
    return best


def highest_at_most(x):
    best = -np.inf
    for i in range(x.size):
        best = x[i] if best <= x[i] else best
    return best


def width(x):
    low = high = x[0]
    for i in range(x.size):
        low = min(low, x[i])
        high = max(high, x[i])
    return high - low


def last_nan_starts_anew(x):
    best = np.inf
    for i in range(x.size):
        best = min(x[i], best)
    return best


SHARED = [lowest, lowest_of_all, highest, highest_at_most, width]


@pytest.mark.parametrize("function", [*SHARED, last_nan_starts_anew])
@pytest.mark.parametrize("size", [1, 2, 33, 700, 3000])
def test_values_are_pythons_with_nan_and_ties(function: Any, size: int) -> None:
    plain = RNG.standard_normal(size)
    ties = RNG.integers(-2, 3, size).astype(float)
    cases = [plain, ties]
    for special in (np.nan, np.inf, -np.inf):
        for places in ([0], [size // 2, -1], slice(None)):
            x = plain.copy()
            x[places] = special
            cases.append(x)
    for k, x in enumerate(cases):
        with np.errstate(invalid="ignore"):
            want = function(x)
        np.testing.assert_array_equal(on_cuda(function, x, order=k % 3), want)


@pytest.mark.parametrize("function", SHARED)
def test_threads_share_them(function):
    text = cuda_text(function, RNG.standard_normal(9))
    assert "_of_blocks" in text and ("block_least" in text or "block_greatest" in text)


def test_the_order_matters_where_nan_is_taken():
    assert "_of_blocks" not in cuda_text(last_nan_starts_anew, np.ones(9))


def test_no_other_choice_is_an_extremum():
    def second(x):
        best, other = x[0], x[0]
        for i in range(x.size):
            if x[i] < best:
                other = best
                best = x[i]
        return best, other

    def place(x):
        best, at = x[0], 0
        for i in range(x.size):
            if x[i] < best:
                best = x[i]
                at = i
        return best, at

    def of_another(x):
        best = x[0]
        for i in range(1, x.size):
            if x[i] < best:
                best = x[i - 1]
        return best

    def read_within(x):
        best, total = x[0], 0.0
        for i in range(x.size):
            best = min(best, x[i])
            total += best
        return total

    x = RNG.standard_normal(300)
    for function in (second, place, of_another, read_within):
        np.testing.assert_allclose(on_cuda(function, x), function(x), rtol=1e-13)


def test_integers_in_any_order_of_operands():
    def largest(k):
        best = 0
        for i in range(k.size):
            best = max(k[i], best)
        return best

    k = RNG.integers(-99, 99, 3000)
    assert on_cuda(largest, k) == largest(k)
    assert "block_maxl" in cuda_text(largest, k)


def lowest_of_rows(x):
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        best = x[i, 0]
        for j in range(1, x.shape[1]):
            best = min(best, x[i, j])
        out[i] = best
    return out


def directions(x):
    return x / np.sqrt(np.sum(x * x, axis=1, keepdims=True))


def sums(x):
    return np.sum(x, axis=1), np.max(x), np.sum(np.max(x, axis=1))


def shares(x):
    return np.cumsum(x, axis=1) / np.sum(x, axis=1)[:, None]


def planes(x):
    y = np.stack((x, 2.0 * x))
    return np.sum(np.sin(y), axis=2)


@pytest.mark.parametrize("function", [lowest_of_rows, directions, sums, shares, planes])
@pytest.mark.parametrize("shape", [(5, 3), (700, 3), (300, 1), (9, 15), (70, 16), (3, 300), (1, 2)])
def test_a_row_of_few_columns_is_a_threads(function: Any, shape: tuple[int, int]) -> None:
    x = RNG.standard_normal(shape)
    want = function(x)
    for order in (0, 1, 7):
        check(on_cuda(function, x, order=order), want)
    with few_blocks():
        check(on_cuda(function, x), want)


def check(got: Any, want: Any) -> None:
    for one, other in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(one, other, rtol=1e-11)


def test_slopes_along_short_rows():
    weights = RNG.standard_normal((40, 3))
    x = RNG.standard_normal((40, 3))
    got = on_cuda(calque.grad(lambda x: np.sum(weights * directions(x))), x)
    want = calque.grad(lambda x: np.sum(weights * directions(x)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-11)
