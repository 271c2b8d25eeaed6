"""Rows and columns that a GPU reads once: sums of exponentials beside maxima, rows in shared memory."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from cuda_emulator import building, kernels, standin
from cuda_emulator.running import ON_CARD, cuda_text, few_blocks, on_cuda
from scipy.special import logsumexp, softmax

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(36)
SHAPES = [(1, 1), (3, 5), (17, 33), (5, 300), (2, 2500), (70, 64), (200, 3)]


def of_rows(x):
    top = np.max(x, axis=1, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis=1)) + top[:, 0]


def of_columns(x):
    top = np.max(x, axis=0)
    return np.log(np.sum(np.exp(x - top), axis=0)) + top


def scipys(x):
    return logsumexp(x, axis=1)


def scipys_of_columns(x):
    return logsumexp(x, axis=0)


def soft(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def soft_of_columns(x):
    e = np.exp(x - np.max(x, axis=0))
    return e / np.sum(e, axis=0)


def scipys_soft(x):
    return softmax(x, axis=1)


def scaled(x):
    """The exponents are computed, in both loops alike."""
    y = 0.5 * x - 1.0
    return np.log(np.sum(np.exp(y - np.max(y, axis=1, keepdims=True)), axis=1))


def planes(x):
    y = np.stack((x, -x, 2.0 * x))
    return soft(y.reshape(-1, x.shape[1])), np.max(y, axis=2), np.sum(np.exp(y - np.max(y, axis=2)[..., None]), axis=2)


FUNCTIONS = [of_rows, of_columns, scipys, scipys_of_columns, soft, soft_of_columns, scipys_soft, scaled, planes]


def close(got: Any, want: Any, tolerance: float) -> None:
    if isinstance(want, tuple):
        for one, other in zip(got, want, strict=True):
            close(one, other, tolerance)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_are_numpys(function: Any, dtype: str) -> None:
    for k, shape in enumerate(SHAPES):
        x = (3.0 * RNG.standard_normal(shape)).astype(dtype)
        close(on_cuda(function, x, order=k % 3), function(x), 3e-6 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_values_that_are_not_finite_and_ties(function: Any) -> None:
    plain = RNG.standard_normal((9, 70))
    rows = np.tile(RNG.integers(-2, 2, 70).astype(float), (9, 1))  # ties in rows, and in columns
    for special in (np.nan, np.inf, -np.inf):
        one, several, whole = plain.copy(), plain.copy(), plain.copy()
        one[4, 37] = special
        several[:, ::3] = special
        whole[3] = whole[:, 5] = special
        for x in (one, several, whole):
            close(on_cuda(function, x, order=7), function(x), 1e-12)
    close(on_cuda(function, rows), function(rows), 1e-12)


def test_exponents_that_grow_lose_nothing():
    """The sum is rescaled in each step, by factors near 1 and by tiny ones."""
    for dtype, tolerance in (("f4", 2e-6), ("f8", 1e-13)):
        for end in (1e-3, 1.0, 80.0, 1e4):
            x = np.linspace(-end, end, 3000).astype(dtype).reshape(1, -1)
            for function in (of_rows, of_columns):
                y = x if function is of_rows else x.T.copy()
                want = function(y.astype(np.float64)).astype(dtype)
                close(on_cuda(function, y), want, tolerance)


def test_axes_without_elements():
    x = np.zeros((0, 4))
    for function in (of_rows, soft):
        close(on_cuda(function, x), function(x), 0.0)
    for function, y in ((of_rows, x.T.copy()), (of_columns, x)):
        with pytest.raises(ValueError):
            on_cuda(function, y)


def test_few_long_rows_are_cut_into_parts():
    x = RNG.standard_normal((2, 80_000))
    x[1, ::7] = -np.inf
    text = cuda_text(of_rows, x)
    assert "top_of_parts" in text and "total_of_parts" in text
    close(on_cuda(of_rows, x), of_rows(x), 1e-12)


@pytest.mark.parametrize("function", [soft, scipys_soft, planes])
def test_blocks_that_go_around_fill_their_rows_again(function):
    x = RNG.standard_normal((70, 45))
    with few_blocks():
        close(on_cuda(function, x, order=7), function(x), 1e-12)


def targets_loss(logits, targets):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def mixed_loss(logits, targets):
    """A row of each width, for their alignment."""
    wide = targets.astype(np.float64)
    return np.sum(wide * (logits - logsumexp(logits, axis=1, keepdims=True)), axis=1), soft(wide)


def test_slopes():
    x, t = RNG.standard_normal((6, 41)), np.abs(RNG.standard_normal((6, 41)))
    got = on_cuda(calque.grad(targets_loss), x, t)
    want = (np.sum(t, axis=1, keepdims=True) * soft(x) - t) / 6
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
    for k in range(3):
        close(on_cuda(mixed_loss, x, t.astype("f4"), order=k), mixed_loss(x, t.astype("f4")), 1e-6)
    sums = on_cuda(calque.grad(lambda x: np.sum(of_rows(x) ** 2)), x)
    np.testing.assert_allclose(sums, 2.0 * of_rows(x)[:, None] * soft(x), rtol=1e-12)


def kept(x):
    return soft(x)


@pytest.mark.skipif(ON_CARD, reason="the emulator counts the bytes")
@pytest.mark.parametrize("columns", [300, 1000, 3000, 10_000])
def test_rows_that_fit_are_read_once(columns):
    x = RNG.standard_normal((3, columns))
    standin.traffic.clear()
    on_cuda(kept, x)
    assert standin.traffic == [(x.nbytes, x.nbytes)]


@pytest.mark.skipif(ON_CARD, reason="a card has the memory that it has")
@pytest.mark.parametrize("memory", [0, 3 << 10, 9 << 10])
def test_of_rows_that_do_not_fit_a_part_is_read_again(memory):
    x = RNG.standard_normal((3, 6000))
    with patch.object(kernels, "MOST_SHARED", memory):
        standin.traffic.clear()
        got = on_cuda(soft, x, order=1)
        (fetched, stored), held = standin.traffic[0], max(memory - 2048, 0) // 8 // 32 * 32
    assert stored == x.nbytes and fetched == x.nbytes + 8 * 3 * (6000 - held)
    close(got, soft(x), 1e-12)


@pytest.mark.skipif(ON_CARD, reason="the emulator counts the bytes")
def test_columns_are_read_once():
    x = RNG.standard_normal((6000, 30))
    standin.traffic.clear()
    on_cuda(of_columns, x)
    assert sum(a + b for a, b in standin.traffic) < 1.15 * x.nbytes


def test_other_sums_stay():
    def other(x, y):
        top = np.max(x, axis=1, keepdims=True)
        return np.sum(np.exp(y - top), axis=1)

    def means(x):
        return np.sum(np.exp(x - np.mean(x, axis=1, keepdims=True)), axis=1)

    x, y = RNG.standard_normal((2, 5, 40))
    for function, args in ((other, (x, y)), (means, (x,))):
        assert "rescaled_sum" not in cuda_text(function, *args)
        close(on_cuda(function, *args), function(*args), 1e-12)


def squares(x):
    return np.sum(soft(x) ** 2)


def all_of(x):
    """The exponentials are a result, too: they stay in memory."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e, e / np.sum(e, axis=1, keepdims=True)


def in_place(x):
    """An array of which the values of a row are computed changes before they are read."""
    y = x * 1.0
    e = np.exp(y)
    s = np.sum(e, axis=1, keepdims=True)
    y[:, 1:] += s
    return y, e / s


@pytest.mark.parametrize("function", [calque.grad(squares), all_of, in_place, calque.grad(lambda x: np.sum(of_rows(x) ** 2))])
def test_values_of_a_row_that_are_computed_again(function):
    for shape in ((3, 5), (17, 33), (5, 300)):
        x = RNG.standard_normal(shape)
        close(on_cuda(function, x, order=7), function(x.copy()), 1e-11)


@pytest.mark.skipif(ON_CARD, reason="the emulator counts the bytes")
def test_no_array_is_stored_for_its_own_row():
    x = RNG.standard_normal((4, 900))
    for function in (squares, lambda x: np.sum(of_rows(x) ** 2)):
        standin.traffic.clear()
        on_cuda(calque.grad(function), x)
        assert sum(map(sum, standin.traffic)) < 2.01 * x.nbytes
