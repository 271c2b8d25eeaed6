"""Sums of products with slices that shrink or grow are one product of matrices, after the loop."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from random_triangles import Triangles
from sampling import sampled

import calque
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import dims

pytest.importorskip("numba")

SHAPES = [(6, 5, 2), (4, 7, 6), (5, 5, 0), (3, 2, 1), (4, 1, 0), (1, 3, -1), (2, 0, 0)]


def covariance(x, w):
    c = np.zeros((x.shape[1], x.shape[1]))
    for i in range(x.shape[1]):
        c[i:, i] = c[i, i:] = x[:, i] @ x[:, i:]
    return np.sum(np.sin(c) * w[0, 0])


def correlation(x, w):
    m = x.shape[1]
    c = np.eye(m)
    for i in range(m - 1):
        c[i + 1 : m, i] = c[i, i + 1 : m] = x[:, i] @ x[:, i + 1 : m]
    return np.sum(c**2) + np.sum(w)


def of_two_matrices(x, w):
    y, c = x + w, np.zeros((x.shape[1], x.shape[1]))
    for i in range(x.shape[1]):
        c[i, : i + 1] = x[:, i] @ y[:, : i + 1]
    return np.sum(np.sin(c))


def causal_attention(x, w):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        scores = np.exp(x[: i + 1] @ x[i] / 8.0)
        y[i] = (scores / np.sum(scores)) @ w[: i + 1]
    return np.sum(y**2)


def by_columns(x, w):
    y = np.zeros_like(x)
    for i in range(x.shape[1] - 1, -1, -1):
        y[:, i] += w[:, i:] @ np.sin(x[0, i:])
    return np.sum(y * x)


def read_in_the_loop(x, w):
    y = 0.1 * x
    for i in range(x.shape[1]):
        y[:, i] += w[:, i:] @ np.sin(y[0, i:])
    return np.sum(y**2)


def of_what_iterations_change(x, w):
    y, z = x + 0.0, 0.0 * x
    for i in range(x.shape[1]):
        z[:, i] += y[:, i:] @ w[0, i:]
        y[0, i:] = np.tanh(z[0, i])
    return np.sum(z**2)


def of_few(x, w):
    y = np.zeros_like(x)
    for i in range(4):
        y[:, i] += w[:, i:] @ np.sin(x[0, i:])
    return np.sum(y * x)


TAKEN = (covariance, correlation, of_two_matrices, causal_attention, by_columns)
LEFT = (read_in_the_loop, of_what_iterations_change, of_few)


@pytest.fixture
def at_any_size(monkeypatch: Any) -> Iterator[None]:
    """Uncompiled, and no product is too small to be worth it."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(dims, "SMALL", 0)
    yield


def checked(function: Callable[..., Any], arrays: tuple[Any, ...], *rest: Any) -> None:
    """Value and gradient are those of NumPy and of differences."""
    places = tuple(range(len(arrays)))
    value = calque.jit(function)(*arrays, *rest)
    np.testing.assert_allclose(value, function(*arrays, *rest), rtol=1e-9, atol=1e-9)
    slopes = calque.jit(calque.grad(function, places))(*arrays, *rest)
    ways = [np.cos(np.arange(a.size) + j).reshape(a.shape) for j, a in enumerate(arrays)]

    def at(step: float) -> float:
        return function(*(a + step * way for a, way in zip(arrays, ways, strict=True)), *rest)

    near, far = ((at(h) - at(-h)) / (2.0 * h) for h in (1e-5, 2e-5))
    slope = sum(np.sum(a * b) for a, b in zip(slopes, ways, strict=True))
    np.testing.assert_allclose(slope, near, rtol=1e-6, atol=100.0 * abs(near - far) + 1e-6)


@pytest.mark.parametrize("function", TAKEN + LEFT, ids=lambda f: f.__name__)
def test_numbers(function: Any, at_any_size: None) -> None:
    for shape in ((7, 5), (5, 7), (4, 4), (6, 4)):
        x, w = np.random.default_rng(3).normal(size=(2, *shape))
        checked(function, (x, w))
        checked(function, (x[::-1, ::-1], w[::-1]))
        checked(function, (np.asfortranarray(x), w))
    twin = calque.jit(calque.grad(lambda x: function(x, x)))(x)
    both = calque.grad(function, (0, 1))(x, x)
    np.testing.assert_allclose(twin, both[0] + both[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", TAKEN, ids=lambda f: f.__name__)
def test_numbers_of_small_shapes(function: Any, at_any_size: None) -> None:
    for shape in ((1, 1), (3, 1), (1, 4), (2, 2)):
        checked(function, tuple(np.random.default_rng(3).normal(size=(2, *shape))))


@pytest.mark.parametrize("function", TAKEN + LEFT, ids=lambda f: f.__name__)
def test_which_of_them_are_made_after_the_loop(function: Any) -> None:
    x, w = np.ones((2, 200, 200))
    gradient = calque.jit(calque.grad(function, (0, 1)))
    _, _, text = calque.source(gradient, x, w, stage="kernels").partition("_jit(")
    assert ("saved" in text and " @ " in text) == (function in TAKEN)


def test_sums_by_rows_and_by_columns_of_one_matrix_are_one_product() -> None:
    x, w = np.ones((2, 200, 200))
    for function in (covariance, correlation):
        text = calque.source(calque.jit(calque.grad(function)), x, w, stage="kernels")
        _, _, launcher = text.partition("_jit(")
        assert launcher.count(" @ ") == 2 and "x_bar = x @ c_bar" in launcher
        assert "if x_is_finite:" in launcher


@pytest.mark.parametrize("function", TAKEN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_goes_where_the_iterations_bring_it(
    function: Any, value: float, at_any_size: None
) -> None:
    for place in (0, 1):
        arrays = list(np.random.default_rng(3).normal(size=(2, 6, 6)))
        arrays[place][3, 2] = value
        with np.errstate(invalid="ignore"):
            assert np.isnan(calque.jit(function)(*arrays)) == np.isnan(function(*arrays))
            found = calque.jit(calque.grad(function, (0, 1)))(*arrays)
            expected = calque.grad(function, (0, 1))(*arrays)
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


def made(seed: int) -> Callable[..., Any]:
    text, name = Triangles(seed).text(), f"<triangles {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


@pytest.mark.parametrize("seed", [*sampled(range(60), 4), 417])
def test_random_programs(seed: int, at_any_size: None) -> None:
    program = made(seed)
    for m, n, k in SHAPES:
        rng = np.random.default_rng(seed)
        x, w = rng.normal(size=(2, m, n)) / 2.0
        arrays = (x, w, rng.normal(size=(n, n)) / 2.0)
        try:
            program(*arrays, k)
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)):
                calque.jit(program)(*arrays, k)
            continue
        try:
            checked(program, arrays, k)
        except CalqueError as error:  # refused with the line, as without products
            assert "products" not in str(error)
