"""Arrays that a ``while`` saves into grow together, and its iterations run in blocks."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
from random_whiles import Whiles
from sampling import sampled

import calque

pytest.importorskip("numba")


def pendulum(p: Any, end: float) -> Any:
    a, b = p[0], p[1]
    t = 0.0
    while t < end:
        a, b = a + 0.01 * np.sin(b), b - 0.01 * np.sin(a)
        t = t + 0.01
    return a * b


def roots(x: Any) -> Any:
    """A loop within a loop: the rows of all its iterations lie one after the other."""
    total = 0.0
    for k in range(x.size):
        y = z = 1.0 + x[k]
        while abs(y * y - 2.0 - x[k]) > 1e-12:
            z = z * np.sin(y)
            y = y - (y * y - 2.0 - x[k]) / (2.0 * y)
        total = total + y * z
    return total


def test_one_question_for_all_that_grows() -> None:
    text = calque.source(calque.grad(pendulum), np.ones(2), 0.3)
    assert text.count(".shape[0]:") == 1
    assert text.count("np.concatenate") == 2


def test_kernels_ask_once_for_a_block_of_iterations() -> None:
    text = calque.source(calque.jit(calque.grad(pendulum)), np.ones(2), 0.3)
    head, _, rest = text.partition("        while t < end and iterations < a_saved.shape[0]:\n")
    assert head.endswith("np.empty_like(b_saved)))\n")
    assert "shape[0]" not in rest.partition("# reverse")[0]


@pytest.mark.parametrize("iterations", [0, 1, 15, 16, 17, 32, 33, 1000])
def test_at_the_ends_of_blocks(iterations: int) -> None:
    end, p = 0.01 * (iterations - 0.5), np.array([0.3, 0.4])
    gradient = calque.jit(calque.grad(pendulum))(p, end)
    slopes = [(pendulum(p + 1e-6 * d, end) - pendulum(p - 1e-6 * d, end)) / 2e-6 for d in np.eye(2)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7)


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_a_loop_within_a_loop(size: int) -> None:
    x = np.linspace(0.1, 2.0, size)
    gradient = calque.jit(calque.grad(roots))(x)
    slopes = [(roots(x + 1e-6 * d) - roots(x - 1e-6 * d)) / 2e-6 for d in np.eye(size)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", sampled(range(60), 6))
def test_random_whiles(seed: int) -> None:
    text, name = Whiles(seed).text(), f"<random whiles {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    program, args = namespace["program"], (0.4, np.array([0.3, -0.2, 0.5]), 1.0)
    plain = calque.grad(program, argnums=(0, 1))
    assert np.isclose(calque.jit(program)(*args), program(*args), rtol=1e-9), text
    gradient = plain(*args)
    for got, want in zip(calque.jit(plain)(*args), gradient, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9, err_msg=text)

    def slope(step: float) -> float:
        ends = [program(args[0] + sign * step, *args[1:]) for sign in (1, -1)]
        return float(ends[0] - ends[1]) / (2 * step)

    doubt = abs(slope(1e-6) - slope(3e-7))
    assert np.isclose(gradient[0], slope(1e-6), rtol=1e-3, atol=1e-4 + 100.0 * doubt), text


def decay(x: Any, end: float) -> Any:
    t = 0.0
    while t < end:
        x = x - 0.01 * np.sin(x)
        t = t + 0.01
    return np.sum(x * x)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_rows_are_saved_without_questions(size: int) -> None:
    """The row of an iteration exists: its elements need no checks, and loops may be vectorized."""
    x, gradient = np.linspace(0.1, 1.0, size), calque.jit(calque.grad(decay))
    text = calque.source(gradient, x, 0.3)
    assert "checked_index" not in text
    assert " in range(x" not in text
    slopes = [(decay(x + 1e-6 * d, 0.3) - decay(x - 1e-6 * d, 0.3)) / 2e-6 for d in np.eye(size)]
    np.testing.assert_allclose(gradient(x, 0.3), slopes, rtol=1e-7)


@pytest.mark.parametrize("rows", [0, 1, 5, 40])
def test_of_a_batch_the_axis_that_grows_is_asked(rows: int) -> None:
    """The first axis is the batch's: the length of a block of iterations is that of the second."""

    def walk(x: Any) -> Any:
        t = 0.0
        while t < 1.0:
            x = x * np.sin(x) + 0.5 * x
            t = t + 0.05
        return x * x

    x = np.linspace(0.1, 1.0, rows)
    gradient = calque.jit(calque.vmap(calque.grad(walk)))(x)
    np.testing.assert_allclose(gradient, [calque.grad(walk)(each) for each in x], rtol=1e-9)
