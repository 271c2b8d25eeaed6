"""Products of rows and sums of outer products are one product of matrices, before or after a loop."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from random_products import Products
from sampling import sampled

import calque
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import dims

pytest.importorskip("numba")

SHAPES = [(6, 4, 2), (9, 5, 7), (5, 5, 1), (3, 2, -1), (5, 3, 0)]  # iterations, columns, k


def recurrent(W, U, x):
    h = np.zeros(U.shape[0])
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ W + h @ U)
    return np.sum(h**2)


@pytest.fixture
def at_any_size(monkeypatch: Any) -> Iterator[None]:
    """Uncompiled, and no product is too small to be worth it."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(dims, "SMALL", 0)
    yield


def made(seed: int) -> Callable[..., Any]:
    text, name = Products(seed).text(), f"<products {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except IndexError as error:
        return type(error)


@pytest.mark.parametrize("seed", sampled(range(40), 4))
def test_random_programs(seed: int, at_any_size: None) -> None:
    program = made(seed)
    value, gradient = calque.jit(program), calque.jit(calque.grad(program, (0, 1, 2)))
    compared = 0
    for iterations, size, k in SHAPES:
        rng = np.random.default_rng(seed)
        x = 0.5 * rng.normal(size=(iterations, size))
        W, U = (0.5 * rng.normal(size=(2, size, size))) / size**0.5
        expected = outcome(program, x, W, U, k)
        found = outcome(value, x, W, U, k)
        if expected is IndexError or found is IndexError:
            assert found is expected
            continue
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        try:
            slopes = gradient(x, W, U, k)
        except CalqueError:
            continue  # refused with the line, as without products
        compared += 1
        ways = [np.cos(np.arange(a.size) + j).reshape(a.shape) for j, a in enumerate((x, W, U))]

        def at(step: float) -> float:
            return program(*(a + step * way for a, way in zip((x, W, U), ways, strict=True)), k)

        near, far = ((at(h) - at(-h)) / (2.0 * h) for h in (1e-5, 2e-5))
        slope = sum(np.sum(a * b) for a, b in zip(slopes, ways, strict=True))
        np.testing.assert_allclose(slope, near, rtol=1e-6, atol=100.0 * abs(near - far) + 1e-6)


def test_a_recurrent_network_compiled() -> None:
    rng = np.random.default_rng(2)
    x, W, U = (rng.normal(size=s) / 4.0 for s in ((40, 30), (30, 30), (30, 30)))
    np.testing.assert_allclose(calque.jit(recurrent)(W, U, x), recurrent(W, U, x), rtol=1e-10)
    found = calque.jit(calque.grad(recurrent, (0, 1, 2)))(W, U, x)
    for k, args in enumerate((W, U, x)):
        way = np.cos(np.arange(args.size)).reshape(args.shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = [a + step * way if j == k else a for j, a in enumerate((W, U, x))]
            ends.append(recurrent(*moved))
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(np.sum(found[k] * way), slope, rtol=1e-5, atol=1e-7)


def test_it_reads_as_written_by_hand() -> None:
    W, U, x = np.ones((128, 128)), np.ones((128, 128)), np.ones((200, 128))
    assert "x_dot_W = x @ W" in calque.source(calque.jit(recurrent), W, U, x, stage="kernels")
    text = calque.source(calque.jit(calque.grad(recurrent, (0, 1, 2))), W, U, x, stage="kernels")
    assert "W_bar = x.T @ " in text


def test_small_products_stay_in_the_loop() -> None:
    W, U, x = np.ones((3, 3)), np.ones((3, 3)), np.ones((4, 3))
    assert "x @ W" not in calque.source(calque.jit(recurrent), W, U, x, stage="kernels")


def to_the_right(x, w):
    total = np.zeros((x.shape[1], x.shape[1]))
    for i in range(x.shape[1]):
        total[i, i:] = x[:, i] @ x[:, i:]
    return np.sum(np.sin(total) * np.sum(w))


def to_the_right_of_the_next_back(x, w):
    y, total = x + w, 0.0
    for i in range(x.shape[1] - 2, -1, -1):
        total = total + np.sum(np.sin(x[:, i] @ y[:, i + 1 :]))
    return total


def downwards(x, w):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + np.sum(np.sin(x[: i + 1] @ x[i])) + w[0, 0]
    return total


def of_another_matrix(x, w):
    total = 0.0
    for i in range(x.shape[1]):
        total = total + np.sum(np.sin(x[:, i] @ w[:, i:]))
    return total


def up_to_the_one_before(x, w):
    """``w[: i - 1]`` is all but the last in the first iteration."""
    total = 0.0
    for i in range(x.shape[0]):
        total = total + np.sum(np.sin(w[: i - 1] @ x[i]))
    return total


def of_what_iterations_change(x, w):
    x, total = x.copy(), 0.0
    for i in range(x.shape[0]):
        product = x[i:] @ x[i]
        total = total + np.sum(np.sin(product))
        x[i:, 0] = np.tanh(product)
    return total


def of_the_last_few(x, w):
    total = 0.0
    for i in range(x.shape[0] - 3, x.shape[0]):
        total = total + np.sum(np.sin(w[i:] @ x[i]))
    return total


WHOLE = (to_the_right, to_the_right_of_the_next_back, downwards)
PARTS = (of_another_matrix, up_to_the_one_before, of_what_iterations_change, of_the_last_few)


@pytest.mark.parametrize("function", WHOLE + PARTS, ids=lambda f: f.__name__)
def test_products_with_part_of_a_matrix(function: Any, at_any_size: None) -> None:
    for shape in ((7, 5), (5, 7), (4, 4), (3, 1), (3, 2)):
        x, w = np.random.default_rng(3).normal(size=(2, *shape))
        assert calque.jit(function)(x, w) == pytest.approx(function(x, w), rel=1e-12)
        gradients = calque.jit(calque.grad(function, (0, 1)))(x, w)
        steps = 1e-6 * np.random.default_rng(4).normal(size=(2, *shape))
        ends = [function(x + s * steps[0], w + s * steps[1]) for s in (1, -1)]
        slope = np.sum(gradients[0] * steps[0]) + np.sum(gradients[1] * steps[1])
        assert slope == pytest.approx((ends[0] - ends[1]) / 2.0, rel=1e-5, abs=1e-13)


@pytest.mark.parametrize("function", WHOLE + PARTS, ids=lambda f: f.__name__)
def test_which_of_them_are_made_before_the_loop(function: Any) -> None:
    x, w = np.ones((2, 200, 200))
    text = calque.source(calque.jit(function), x, w, stage="kernels")
    assert (" @ " in text.partition("_jit(")[2]) == (function in WHOLE)
