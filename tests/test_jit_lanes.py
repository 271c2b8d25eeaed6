"""Under `jit` a lane gets, in value and slope, what it would get alone: nothing from an arm not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

X = np.array([0.0, 1.0, 2.0, -1.0, 3.0])


def logarithm(x):
    return np.log(x) if x > 0 else 0.0 * x


def reciprocal(x):
    return 1.0 / x if x != 0 else x * x


def root(x):
    return np.sqrt(x) if x > 0 else x


def roots(x):
    while x > 1:
        x = np.sqrt(x) - 0.1
    return x


def last_root(x):
    """The slope of ``roots``, by hand."""
    slope = 1.0
    while x > 1:
        slope *= 0.5 / np.sqrt(x)
        x = np.sqrt(x) - 0.1
    return slope


SLOPES = {
    logarithm: [0.0, 1.0, 0.5, 0.0, 1.0 / 3.0],
    reciprocal: [0.0, -1.0, -0.25, -1.0, -1.0 / 9.0],
    root: [1.0, 0.5, 0.5 / np.sqrt(2.0), 1.0, 0.5 / np.sqrt(3.0)],
    roots: [last_root(x) for x in X],
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "grad of a sum of vmap": lambda f: calque.grad(lambda x: np.sum(calque.vmap(f)(x))),
    "vmap of grad": lambda f: calque.vmap(calque.grad(f)),
    "jvp of vmap": lambda f: lambda x: calque.jvp(calque.vmap(f), (x,), (np.ones_like(x),))[1],
    "grad within jit of vmap": lambda f: calque.grad(
        lambda x: np.sum(calque.jit(calque.vmap(f))(x))
    ),
    "vmap of jvp": lambda f: calque.vmap(lambda x: calque.jvp(f, (x,), (1.0,))[1]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fn", SLOPES, ids=lambda fn: fn.__name__)
def test_slopes(fn: Callable[..., Any], form: str) -> None:
    slopes = FORMS[form](fn)
    with np.errstate(all="raise"):
        np.testing.assert_allclose(slopes(X), SLOPES[fn], rtol=1e-14)
    np.testing.assert_allclose(calque.jit(slopes)(X), SLOPES[fn], rtol=1e-14)


@pytest.mark.parametrize("fn", SLOPES, ids=lambda fn: fn.__name__)
def test_slopes_of_slopes(fn: Callable[..., Any]) -> None:
    """Of the gradient of the sum: differences of the slopes, where the function is smooth."""
    smooth = np.array([1.7, 2.0, 3.0])
    gradient = FORMS["grad of a sum of vmap"](fn)
    second = calque.jit(calque.grad(lambda x: np.sum(gradient(x))))(smooth)
    step = 1e-6
    slope = [(calque.grad(fn)(x + step) - calque.grad(fn)(x - step)) / (2.0 * step) for x in smooth]
    np.testing.assert_allclose(second, slope, rtol=1e-7)


def unused_loop(x):
    """The only work that differs between examples is not read: all have the same result."""
    u = x * 2.0
    for i in range(len(x) - 1):
        if x[i] <= 0.1:
            u[i] = u[i + 1]
    return np.sum(x)


def test_results_that_all_lanes_share() -> None:
    x = np.random.default_rng(1).normal(size=(3, 5))
    got = calque.jit(calque.vmap(calque.grad(unused_loop)))(x)
    np.testing.assert_array_equal(got, np.ones((3, 5)))
