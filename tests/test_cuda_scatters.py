"""Sums into cells that the data choose, on a GPU: threads add to memory, and the sums are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(8)
VECTOR = RNG.standard_normal(300)
WEIGHTS = RNG.standard_normal(90)
INDICES = RNG.integers(-300, 300, 90)
FEW = RNG.integers(0, 10, 90)  # each is there several times
TABLE = RNG.standard_normal((30, 70))
ROWS = RNG.integers(-30, 30, 40)
TARGETS = RNG.standard_normal((40, 70))


def histogram(bins, weights):
    out = np.zeros(10)
    for i in range(bins.size):
        out[bins[i]] += weights[i]
    return out


def written_out(bins, weights):
    out = np.ones(10)
    for i in range(bins.size):
        out[bins[i]] = weights[i] + out[bins[i]]
    return out


def taken_away(bins, weights):
    out = np.ones(10)
    for i in range(bins.size):
        out[bins[i]] -= 2.0 * weights[i]
    return out


def counted(bins):
    out = np.zeros(10, dtype=np.int64)
    for i in range(bins.size):
        out[bins[i]] += 1
    return out


def added_at(x, indices, weights):
    out = x.copy()
    np.add.at(out, indices, weights)
    return out


def rows_added(table, rows, targets):
    out = table.copy()
    np.add.at(out, rows, targets)
    return out


def read_too(bins, weights):
    out = np.zeros(10)
    for i in range(bins.size):
        out[bins[i]] += weights[i] + out[0]
    return out


def read_behind_a_branch(bins, weights):
    out, seen = np.zeros(10), np.zeros(bins.size)
    for i in range(bins.size):
        if weights[i] > 0.0:
            out[bins[i]] += weights[i]
        seen[i] = out[0]
    return seen


def last_wins(bins, weights):
    out = np.zeros(10)
    for i in range(bins.size):
        out[bins[i]] = weights[i]
    return out


def embedding_loss(table, rows, targets):
    error = table[rows] - targets
    return np.sum(error * error)


def gathered(x, indices):
    return np.sum(np.sin(x[indices]) ** 2)


ATOMIC: list[tuple[Any, tuple[Any, ...]]] = [
    (histogram, (FEW, WEIGHTS)),
    (written_out, (FEW, WEIGHTS)),
    (taken_away, (FEW, WEIGHTS)),
    (counted, (FEW,)),
    (added_at, (VECTOR, INDICES, WEIGHTS)),
    (added_at, (VECTOR.astype(np.float32), INDICES, WEIGHTS.astype(np.float32))),
    (rows_added, (TABLE, ROWS, TARGETS)),
]
IN_ORDER: list[tuple[Any, tuple[Any, ...]]] = [
    (read_too, (FEW, WEIGHTS)),
    (read_behind_a_branch, (FEW, WEIGHTS)),
    (last_wins, (FEW, WEIGHTS)),
]


def assert_same(got: Any, want: Any) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = 1e-5 if want.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", [0, 1, 7])
@pytest.mark.parametrize("case", range(len(ATOMIC)))
def test_threads_add_to_cells_that_the_data_choose(case, order):
    function, args = ATOMIC[case]
    assert "atomicAdd(&" in cuda_text(function, *args)
    assert_same(on_cuda(function, *args, order=order), function(*args))


@pytest.mark.parametrize("order", [0, 1, 7])
@pytest.mark.parametrize("case", range(len(IN_ORDER)))
def test_what_is_more_than_an_addition_stays_in_order(case, order):
    function, args = IN_ORDER[case]
    assert "atomicAdd" not in cuda_text(function, *args)
    assert_same(on_cuda(function, *args, order=order), function(*args))


@pytest.mark.parametrize("order", [0, 1, 7])
def test_gradients_of_gathers(order):
    # by hand: rows_bar = 2 error, added to the rows
    want = np.zeros_like(TABLE)
    np.add.at(want, ROWS, 2.0 * (TABLE[ROWS] - TARGETS))
    assert_same(on_cuda(calque.grad(embedding_loss), TABLE, ROWS, TARGETS, order=order), want)
    want = np.zeros_like(VECTOR)
    np.add.at(want, INDICES, np.sin(2.0 * VECTOR[INDICES]))
    assert_same(on_cuda(calque.grad(gathered), VECTOR, INDICES, order=order), want)


def test_deterministic_adds_in_the_order_of_iterations():
    function, args = ATOMIC[0]
    ordered = calque.jit(function, deterministic=True)
    assert "atomicAdd" not in cuda_text(ordered, *args)
    for order in (0, 1, 7):
        np.testing.assert_array_equal(on_cuda(ordered, *args, order=order), function(*args))
    on_cores = calque.jit(function, deterministic=True)
    np.testing.assert_array_equal(on_cores(*args), function(*args))
    gradient = calque.jit(calque.grad(embedding_loss), deterministic=True)
    want = np.zeros_like(TABLE)
    np.add.at(want, ROWS, 2.0 * (TABLE[ROWS] - TARGETS))
    for order in (0, 1, 7):
        got = on_cuda(gradient, TABLE, ROWS, TARGETS, order=order)
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="deterministic"):
        calque.jit(function, deterministic="yes")


def two_at_once(bins, weights):
    out = np.zeros(10)
    count = np.zeros(10, dtype=np.int64)
    for i in range(bins.size):
        out[bins[i]] += weights[i]
        count[bins[i]] += 1
    return out, count


def to_itself(bins, weights):
    out = np.zeros(10)
    for i in range(bins.size):
        out[bins[i]] += weights[i]
        out[bins[i] // 2] += 1.0
    return out


SORTED: list[tuple[Any, tuple[Any, ...]]] = [
    *ATOMIC,
    (histogram, (np.zeros(0, np.int64), np.zeros(0))),
    (histogram, (np.full(90, 3), WEIGHTS)),
]


@pytest.mark.parametrize("case", range(len(SORTED)))
def test_deterministic_sorts_the_cells(case):
    """The terms of a cell are added in the order of iterations: NumPy's bits."""
    function, args = SORTED[case]
    ordered = calque.jit(function, deterministic=True)
    text = cuda_text(ordered, *args)
    assert "cp.argsort(" in text and "atomicAdd" not in text
    assert "    for " not in text.partition("code = ")[0]
    for order in (0, 1, 7):
        got, want = on_cuda(ordered, *args, order=order), function(*args)
        for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_deterministic_gradients_sort_the_cells():
    gradient = calque.jit(calque.grad(gathered), deterministic=True)
    want = np.zeros_like(VECTOR)
    np.add.at(want, INDICES, np.sin(2.0 * VECTOR[INDICES]))
    assert "cp.argsort(" in cuda_text(gradient, VECTOR, INDICES)
    results = [on_cuda(gradient, VECTOR, INDICES, order=order) for order in (0, 1, 7)]
    np.testing.assert_allclose(results[0], want, rtol=1e-12, atol=1e-13)
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("function", [to_itself, two_at_once])
def test_more_than_one_addition_an_iteration_stays_in_order(function):
    ordered = calque.jit(function, deterministic=True)
    assert "argsort" not in cuda_text(ordered, FEW, WEIGHTS)
    got, want = on_cuda(ordered, FEW, WEIGHTS, order=7), function(FEW, WEIGHTS)
    for one, other in zip(np.atleast_2d(got), np.atleast_2d(want), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_cell_outside_raises_where_cells_are_sorted():
    bad = FEW.copy()
    bad[3] = -11
    with pytest.raises(IndexError, match="index -11 is out"):
        on_cuda(calque.jit(histogram, deterministic=True), bad, WEIGHTS)


def test_a_cell_outside_raises_and_nothing_is_added():
    bad = FEW.copy()
    bad[3] = 10
    with pytest.raises(IndexError, match=r"out\[bins\[i\]\] \+= weights\[i\]: index 10 is out"):
        on_cuda(histogram, bad, WEIGHTS)


def test_text_of_a_scatter():
    text = cuda_text(calque.grad(embedding_loss), TABLE, ROWS, TARGETS)
    assert "    # reverse\n    table_bar = cp.zeros_like(table)\n" in text
    assert "atomicAdd(&table_bar[rows_checked * table_size_1 + j], error_bar);" in text
    assert text.count("__global__") == 1
