"""Counting into bins: NumPy is the oracle of values; differences, and JAX, of derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors

X = np.array([0.31, -0.72, 0.63, 0.24, -0.15])
AT = np.array([0.1, 0.4, 0.47, 0.83, 1.0])
EDGES = np.array([-0.5, 0.0, 0.45, 1.0])


def weighted(x):
    counts, edges = np.histogram(AT, bins=4, range=(0.0, 1.0), weights=x)
    return np.sum(counts**2) + edges[1]


def weighted_between_edges(x):
    counts, edges = np.histogram(AT, EDGES, weights=x**2)
    return np.sum(counts**2) + edges[1]


def edges_in_a_list(x):
    counts, _ = np.histogram(AT, bins=[0, 0.3, 1], weights=x, density=True)
    return np.sum(counts**2)


def edges_that_follow_the_data(x):
    counts, edges = np.histogram(x, 4)
    return np.sum(edges**3 * counts[0])


def a_density_of_the_data(x):
    return np.sum(np.histogram(x, 3, density=True)[0] ** 2)


def a_run_time_range(x):
    counts, edges = np.histogram(AT, bins=4, range=(x[1], x[2] + 1), weights=x)
    return np.sum(counts**2) + edges[1]


def as_many_bins_as_elements(x):
    counts, edges = np.histogram(x, x.size)
    return np.sum(edges**3 * counts[0])


def edges_alone(x):
    return np.sum(np.histogram_bin_edges(x, 4) ** 3)


def in_two_dimensions(x):
    table, rows, _ = np.histogram2d(x, AT, (3, np.linspace(0, 1, 4)), weights=x * x, density=True)
    return np.sum(table**2) + rows[1]


def in_two_dimensions_within_limits(x):
    table, rows, columns = np.histogram2d(x, AT, 3, range=[(-0.5, 0.6), (0.0, 0.9)], weights=x)
    return np.sum(table**2) + rows[1] * columns[1]


def binned_by_number(x):
    return np.sum(np.bincount(np.array([0, 1, 1, 3, 0]), x, minlength=6) ** 2)


def binned_by_edge(x):
    return np.sum(x**2 * np.digitize(x, EDGES)) + np.sum(x * np.digitize(x, EDGES, right=True))


def searched_in_order(x):
    order = np.argsort(x)
    right = np.searchsorted(x, AT[:3] + 0.01, side="right", sorter=order)
    return np.sum(x**2) * np.sum(right)


def groups(x):
    _, group = np.unique(np.array([3, 1, 1, 2, 3]), return_inverse=True)
    return np.sum(np.bincount(group, weights=x) ** 2)


def distinct_values(x):
    values, first, place, count = np.unique(x, True, True, True)
    return np.sum(values**2 * np.arange(values.size)) + np.sum(x * place) + x[first] @ count


def distinct_values_of_a_table(x):
    values, place = np.unique(np.outer(x, x), return_inverse=True)
    return np.sum(values**2 * np.arange(values.size)) + np.sum(np.outer(x, x) * place)


def counts_of_rounded(x):
    _, count = np.unique(np.round(x), return_counts=True)
    return np.sum(count**2) * x[0]


PROGRAMS = [
    *(weighted, weighted_between_edges, edges_in_a_list, edges_that_follow_the_data),
    *(a_density_of_the_data, a_run_time_range, as_many_bins_as_elements, edges_alone),
    *(in_two_dimensions, in_two_dimensions_within_limits, binned_by_number, binned_by_edge),
    *(searched_in_order, groups, distinct_values, distinct_values_of_a_table, counts_of_rounded),
]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_as_numpy(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    value, gradient = calque.value_and_grad(fn)(X)
    np.testing.assert_allclose(value, fn(X), rtol=1e-13)
    steps = 1e-6 * np.eye(X.size)
    slopes = np.array([(fn(X + s) - fn(X - s)) / 2e-6 for s in steps])
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(calque.jvp(fn, (X,), (AT,))[1], slopes @ AT, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(X), gradient, rtol=1e-13)
    both = np.stack([X, X[::-1] + 0.01])
    np.testing.assert_allclose(calque.vmap(fn)(both), [fn(x) for x in both], rtol=1e-13)


def all_equal(x):
    counts, edges = np.histogram(x, 4)
    table, rows, _ = np.histogram2d(x, x, 2)
    return counts, edges, np.histogram_bin_edges(x, 3), table, rows


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_values_and_dtypes(dtype: str) -> None:
    for x in (np.array([1, 5, 2, 2, 7, 5], dtype), np.full(6, 3, dtype)):
        for got, want in zip(calque.jit(all_equal)(x), all_equal(x), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)
            assert np.asarray(got).dtype == want.dtype
        for kind in ("i8", "f4", "f8"):
            weights = np.arange(6).astype(kind)

            def both(x, w):
                return np.histogram(x, 3, weights=w)[0], np.histogram(x, [0, 3, 7], weights=w)[0]

            for got, want in zip(calque.jit(both)(x, weights), both(x, weights), strict=True):
                np.testing.assert_array_equal(got, want)
                assert got.dtype == want.dtype


def test_edges_as_jax_has_them() -> None:
    """Of equal extremes each has its part."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    x = np.array([0.5, 2.0, 0.5, 1.0, 2.0, 2.0])
    want = jax.jit(jax.grad(lambda v: (jax.numpy.histogram(v, 4)[1] ** 3).sum()))(x)
    np.testing.assert_allclose(calque.grad(lambda v: np.sum(np.histogram(v, 4)[1] ** 3))(x), want)


def test_weights_out_of_every_bin_count_nothing() -> None:
    at = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, np.nan])
    jacobian = calque.jacrev(lambda w: np.histogram(at, [0.0, 0.5, 1.0], weights=w)[0])(np.ones(6))
    np.testing.assert_array_equal(jacobian, [[0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: np.histogram(x, "auto")[0],
        lambda x: np.histogram(x, 3, weights=np.ones((5, 1)))[0],
        lambda x: np.unique(np.outer(x, x), axis=0),
    ],
)
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(errors.UnsupportedFunction):
        calque.jit(fn)(X)
