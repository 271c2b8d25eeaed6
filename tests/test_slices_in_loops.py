"""Slices whose size only a run knows, in loops: they are compiled, and right."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import sampled

import calque


def sums(x, k):
    total = 0.0
    for i in range(k):
        total += np.sum(x[:i] * 2.0)
    return total


def from_negative_stops(x, k):
    total = 0.0
    for i in range(-3, k):
        total += np.sum(np.sin(x[:i]) * np.cos(x[:i]))
    return total


def tails(x, k):
    total = 0.0
    for i in range(k):
        total += np.sum(x[i:] * np.exp(x[i:]))
    return total


def by_two(x, k):
    total = 0.0
    for i in range(k):
        total += np.sum(x[:i:2] * 3.0)
    return total


def outer_products(x, k):
    total = 0.0
    for i in range(1, k):
        total += np.sum(np.outer(x[:i], x[-i:]) ** 2)
    return total


def stored(x, k):
    y = x.copy()
    for i in range(k):
        y[:i] = y[:i] * 0.5 + 1.0
        y[i:] *= 1.1
    return np.sum(y * y)


def corners(x, k):
    total = 0.0
    for i in range(1, k):
        corner = np.reshape(x[:12], (3, 4))[:i, :i]
        total += np.sum(corner * corner)
    return total


def weights(x, k):
    total = 0.0
    for i in range(1, k):
        w = np.exp(-x[:i])
        w /= np.sum(w)
        total += np.sum(w * x[:i])
    return total


def spans(x, k):
    found = []
    for i in range(k):
        found.append(np.max(x[: i + 1]) - np.min(x[: i + 1]))
    return np.sum(np.array(found) ** 2)


def mirrored(x, k):
    total = 0.0
    for i in range(k):
        total += np.sum(x[:i] * x[:i][::-1])
    return total


def doubling(x, k):
    done, total = 1, 0.0
    while done < k:
        total += np.sum(np.tanh(x[:done])) / done
        done *= 2
    return total


def by_data(x, k):
    total = 0.0
    for i in range(k):
        total += np.sum(x[: int(x[i] * 4.0)] ** 2)
    return total


PROGRAMS = (
    *(sums, from_negative_stops, tails, by_two, outer_products, stored, corners),
    *(weights, spans, mirrored, doubling, by_data),
)


@pytest.mark.parametrize("fn", sampled(PROGRAMS, 1), ids=lambda f: f.__name__)
def test_value_gradient_and_batch(fn) -> None:
    rng = np.random.default_rng(3)
    value, slope = calque.jit(fn), calque.jit(calque.grad(fn))
    batch = calque.jit(calque.vmap(fn, in_axes=(0, None)))
    for n in (12, 17):
        for k in (0, 1, 5, 9):
            x = rng.standard_normal(n)
            at = fn(x, k)
            assert np.allclose(value(x, k), at)
            assert np.allclose(batch(np.stack([x, x[::-1] * 2.0]), k), [at, fn(x[::-1] * 2.0, k)])
            steps = 1e-6 * np.eye(n)
            differences = [(fn(x + d, k) - fn(x - d, k)) / 2e-6 for d in steps]
            assert np.allclose(slope(x, k), differences, atol=1e-5)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_no_loop_stays_in_python(fn) -> None:
    for made in (calque.jit(fn), calque.jit(calque.grad(fn))):
        assert "the loop is Python's" not in str(calque.explain(made, np.ones(16), 5))


def ranges(n, first):
    done, total = 1, 0.0
    while done < n:
        total += np.sum(np.cos(np.arange(done) / done)) + np.sum(np.arange(first, done) ** 2)
        done *= 2
    return total


def test_ranges_of_a_run_time_length_are_compiled() -> None:
    made = calque.jit(ranges)
    for n, first in ((1, 0), (17, 3), (40, -2), (40, 90)):
        assert np.isclose(made(n, first), ranges(n, first))
    assert "the loop is Python's" not in str(calque.explain(made, 17, 3))


def float_ranges(n):
    total = 0.0
    for k in range(n):
        total += np.sum(np.arange(k * 0.1, 1.0, 0.3))
    return total


def test_ranges_of_floats_stay_numpys() -> None:
    assert calque.jit(float_ranges)(7) == float_ranges(7)


def autocorrelation(x, k):
    found = np.zeros(k)
    for lag in range(k):
        found[lag] = np.sum(x[: len(x) - lag] * x[lag:])
    return np.sum(found**2)


def windowed_cosines(x, k):
    done, total = 1, 0.0
    while done < k:
        total += np.sum(np.cos(np.arange(done) * 0.1) * x[:done])
        done *= 2
    return total


def one_element_spread(x, k):
    total = 0.0
    for i in range(k):
        total += np.sum(x[i : i + 1] * np.sin(x))
    return total


def spread_or_not(x, k):
    total = 0.0
    for i in range(1, k):
        width = 1 if i % 2 else 3
        total += np.sum(x[:width] * x[2:5]) + np.mean(x[5:8] / (2.0 + x[:width] ** 2))
    return total


def rows_spread(x, k):
    matrix = np.reshape(x[:12], (3, 4))
    total = 0.0
    for i in range(1, min(k, 4)):
        total += np.sum(matrix[:, :i] * matrix[: 1 + 2 * (i % 2), 1 : i + 1])
    return total


SPREADING = (autocorrelation, windowed_cosines, one_element_spread, spread_or_not, rows_spread)


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy spreads sizes
@pytest.mark.parametrize("fn", SPREADING, ids=lambda f: f.__name__)
def test_what_is_spread_and_what_is_not(fn) -> None:
    test_value_gradient_and_batch(fn)


@pytest.mark.parametrize("fn", SPREADING[:2], ids=lambda f: f.__name__)
def test_sums_that_a_sweep_back_asks_for_keep_no_loop_in_python(fn) -> None:
    made = calque.jit(calque.grad(fn))
    assert "the loop is Python's" not in str(calque.explain(made, np.ones(16), 5))


def test_sizes_that_do_not_fit_raise_numpys_error() -> None:
    def misfit(x, k):
        total = 0.0
        for i in range(k):
            total += np.sum(x[: len(x) - i] * x[2 * i :])
        return total

    with pytest.raises(ValueError, match="broadcast|shape"):
        misfit(np.ones(8), 3)
    for made in (calque.jit(misfit), calque.jit(calque.grad(misfit))):
        with pytest.raises(ValueError, match="broadcast|shape|sizes"):
            made(np.ones(8), 3)


def test_what_a_sweep_back_compares_is_compared_on_the_way_there_too() -> None:
    def too_short(x, k):
        rows = []
        for i in range(k):
            rows.append(np.concatenate([x[i : i + 3], np.zeros(i)])[:3] * np.ones(3))
        return np.sum(np.stack(rows) ** 2)

    with pytest.raises(ValueError, match="broadcast"):
        too_short(np.ones(2), 2)
    for made in (calque.jit(too_short), calque.jit(calque.grad(too_short), boundscheck=True)):
        with pytest.raises(ValueError, match="broadcast|shape|sizes"):
            made(np.ones(2), 2)  # two elements beside three: none is read outside
