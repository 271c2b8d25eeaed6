"""Programs of many iterations that are unrolled: right, flat, and written in linear time."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import EVERYTHING, sampled

import calque
from programs.unrolled import PROGRAMS, X

NAMES = list(PROGRAMS)
POINTS = (0.97 * X, 0.6 * X, 1.7 * X, np.array([3.03, -0.4, 0.8, 2.0]))


def slopes(f: Callable[[Any], Any], x: Any, step: float = 1e-6) -> Any:
    """The gradient by central differences."""
    return [(f(x + step * e) - f(x - step * e)) / (2.0 * step) for e in np.eye(len(x))]


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name):
    f = PROGRAMS[name](26)
    both = calque.value_and_grad(f)
    for x in POINTS:
        value, gradient = both(x)
        assert value == f(x) or np.isnan(value) and np.isnan(f(x))
        if not np.isnan(value):
            np.testing.assert_allclose(gradient, slopes(f, x), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", sampled(NAMES, 1))
def test_batches(name):
    f = PROGRAMS[name](14)
    xs = np.stack(POINTS)
    expected = [f(x) for x in xs]
    np.testing.assert_allclose(calque.vmap(f)(xs), expected, rtol=1e-12)
    gradient = calque.grad(f)
    expected = [gradient(x) for x in xs]
    np.testing.assert_allclose(calque.vmap(gradient)(xs), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sampled(NAMES, 2, start=1))
def test_forward_mode(name):
    f = PROGRAMS[name](14)
    for x in POINTS[:2]:
        _, along = calque.jvp(f, (x,), (np.array([0.3, -0.2, 0.5, 0.1]),))
        expected = calque.grad(f)(x) @ np.array([0.3, -0.2, 0.5, 0.1])
        np.testing.assert_allclose(along, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_kernels(name):
    f = PROGRAMS[name](10)
    for x in POINTS[:3]:
        np.testing.assert_allclose(calque.jit(f)(x), f(x), rtol=1e-12)
        expected = calque.grad(f)(x)
        np.testing.assert_allclose(calque.jit(calque.grad(f))(x), expected, rtol=1e-9, atol=1e-11)


def test_loops_that_are_left_are_flat():
    text = calque.source(PROGRAMS["search"](11), X)
    assert text.count("    if not stopped:\n        s = ") == 10
    assert "\n" + 12 * " " in text
    assert "\n" + 16 * " " not in text


@pytest.mark.parametrize("name", ["search", "choices"])
def test_more_iterations_than_python_takes_levels(name):
    f = PROGRAMS[name](120)
    for x in POINTS[:2]:
        value, gradient = calque.value_and_grad(f)(x)
        assert value == f(x)
        np.testing.assert_allclose(gradient, slopes(f, x), rtol=2e-4, atol=2e-5)


def calls(make: Callable[[], Any]) -> int:
    """The number of functions called, which no other process on the machine changes."""
    profile = cProfile.Profile()
    profile.runcall(make)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


SOME = [("shop", False), ("choices", False), ("cutoff", True), ("search", True)]
ALL = [(name, compiled) for name in NAMES for compiled in (False, True)]


@pytest.mark.parametrize("name, compiled", ALL if EVERYTHING else SOME)
def test_transforming_is_linear(name, compiled):
    def work(iterations: int) -> int:
        f = calque.grad(PROGRAMS[name](iterations))
        return calls(lambda: calque.source(calque.jit(f) if compiled else f, X))

    work(4)  # what is imported, and read, once
    assert work(40) < 5.5 * work(10)
