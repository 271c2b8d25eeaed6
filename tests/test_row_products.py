"""Loops of dot products over rows or columns are products, in both sweeps; others stay loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.transpiler.loops.products import product_nests


def upper(x, y):
    n, m = x.shape
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            out[i, j] = x[:, i] @ x[:, j] / (n + 1.0)
    return np.sum(out**2)


def mirrored(x, y):
    m = x.shape[1]
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            out[i, j] = np.dot(x[:, i], x[:, j])
            out[j, i] = out[i, j]
    return np.sum(out**3)


def strict(x, y):
    m = x.shape[1]
    out = np.ones((m, m))
    for i in range(m):
        for j in range(i + 1, m):
            out[i, j] = 2.0 * (x[:, j] @ x[:, i])
    return np.sum(out**2)


def lower(x, y):
    m = x.shape[1]
    out = np.ones((m, m))
    for i in range(m):
        for j in range(i + 1):
            out[i, j] = x[:, i] @ x[:, j]
    return np.sum(out**2)


def strictly_lower(x, y):
    m = x.shape[1]
    out = np.ones((m, m))
    for i in range(m):
        for j in range(i):
            out[i, j] = x[:, i] @ x[:, j]
    return np.sum(out**2)


def two_matrices(x, y):
    out = np.zeros((x.shape[0], y.shape[0]))
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            out[i, j] = x[i] @ y[j]
    return np.sum(out**2)


def rows(x, y):
    n = x.shape[0]
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            out[i, j] = x[i] @ x[j]
    return np.sum(out**2)




def added(x, y):
    m = x.shape[1]
    out = np.ones((m, m))
    for i in range(m):
        for j in range(m):
            out[i, j] += x[:, i] @ x[:, j]
    return np.sum(out**2)


PRODUCTS = [
    *(upper, mirrored, strict, lower, strictly_lower, two_matrices, rows),
    added,
]


def counted_from_the_end(x, y):
    m = x.shape[1]
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(i - 1, m):
            out[i, j] = x[:, i] @ x[:, j]
    return np.sum(out**2)


def one_row_with_itself(x, y):
    m = x.shape[1]
    out = np.zeros((m, m))
    for j in range(m):
        out[0, j] = x[:, j] @ x[:, j]
    return np.sum(out**2)


def scaled_by_the_counter(x, y):
    m = x.shape[1]
    out = np.ones((m, m))
    for i in range(m):
        for j in range(m):
            out[i, j] = j * (x[:, i] @ x[:, j])
    return np.sum(out**2)


def every_other(x, y):
    m = x.shape[1]
    out = np.ones((m, m))
    for i in range(m):
        for j in range(0, m, 2):
            out[i, j] = x[:, i] @ x[:, j]
    return np.sum(out**2)


def of_what_is_stored(x, y):
    out = x[:, : x.shape[1]].copy()
    for j in range(1, out.shape[1]):
        out[0, j] = x[:, 0] @ out[:, j]
    return np.sum(out**2)


def stored_by_two_iterations(x, y):
    m = x.shape[1]
    last = m - 1
    out = np.ones((m, m))
    for i in range(last):
        for j in range(m):
            out[i, j] = x[:, i] @ x[:, j]
            out[j, last] = 2.0 * out[i, j]
    return np.sum(out**2)


OTHERS = [
    *(counted_from_the_end, one_row_with_itself, scaled_by_the_counter, every_other),
    *(of_what_is_stored, stored_by_two_iterations),
]


def arguments(n: int = 7, m: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, m)), rng.normal(size=(n + 2, m))


@pytest.mark.parametrize("f", PRODUCTS + OTHERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("jit", [False, True], ids=["numpy", "kernels"])
@pytest.mark.parametrize("shape", sampled([(7, 5), (1, 1), (3, 1), (1, 4), (13, 11)], 1), ids=str)
def test_values_and_gradients(f: Callable, jit: bool, shape: tuple[int, int]) -> None:
    args = arguments(*shape)
    both = calque.value_and_grad(f, argnums=(0, 1))
    value, bars = (calque.jit(both) if jit else both)(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-12)
    step = np.random.default_rng(6)
    for which in (0, 1):
        along = step.normal(size=args[which].shape)
        ends = []
        for size in (1e-6, -1e-6):
            moved = [a.copy() for a in args]
            moved[which] += size * along
            ends.append(float(f(*moved)))
        slope = (ends[0] - ends[1]) / 2e-6
        found = np.sum(np.asarray(bars[which]) * along)
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("f", PRODUCTS, ids=lambda f: f.__name__)
def test_the_inner_loop_is_a_product(f: Callable) -> None:
    text = calque.source(calque.grad(f, argnums=(0, 1)), *arguments())
    assert "for j in" not in text.partition("# reverse")[2] and "@" in text


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
def test_other_loops_stay(f: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    results = product_nests.ProductNest.results

    def watched(self: product_nests.ProductNest) -> object:
        found = results(self)
        made.extend(found if isinstance(found, list) else [])
        return found

    monkeypatch.setattr(product_nests.ProductNest, "results", watched)
    calque.source(calque.grad(f, argnums=(0, 1)), *arguments())
    assert not made


@pytest.mark.parametrize("dtype", [np.float32, np.int64], ids=str)
def test_other_types(dtype: type) -> None:
    x, y = (np.round(3 * a).astype(dtype) for a in arguments())
    found = calque.jit(two_matrices)(x, y)
    np.testing.assert_allclose(
        found, np.sum((x @ y.T).astype(np.result_type(dtype)) ** 2), rtol=1e-5
    )


def test_strides_of_any_sign() -> None:
    x, y = arguments()
    for a in (x.T, x[::-1], x[:, ::-1], np.asfortranarray(x)):
        found = calque.jit(calque.grad(upper))(a, y)
        np.testing.assert_allclose(found, calque.grad(upper)(a.copy(), y), rtol=1e-12)
