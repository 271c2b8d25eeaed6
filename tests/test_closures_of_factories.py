"""Closures of one factory share programs: whatever a later one has captured, or lacks, is a mismatch."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

X = np.array([0.4, -0.3, 0.8])
A = np.arange(9.0).reshape(3, 3) * 0.1 + np.eye(3)


def powers(x, *more):
    for m in more:
        if isinstance(m, np.ndarray) and m.ndim == 2:
            for _ in range(3):
                x = np.tanh((m.T @ m) @ x)
        elif isinstance(m, np.ndarray):
            x = x[: m.size] * m[: x.size]
        elif isinstance(m, str):
            x = x * len(m)
        elif m is not None:
            x = x * m
    return np.sum(x * x)


class Broken:
    """A captured object that raises where it is read."""

    def __init__(self, error: type[Exception]):
        self.error = error

    @property
    def values(self):
        raise self.error("gone")


def of_tuple(more):
    def objective(x):
        return powers(x, *more)

    return objective


def of_first(more):
    def objective(x):
        if len(more) == 0:
            return np.sum(x)
        return powers(x, more[0]) + powers(x, *more[1:])

    return objective


def of_names(more):
    named = {f"k{i}": m for i, m in enumerate(more)}

    def objective(x):
        return powers(x, *named.values()) + (powers(x, named["k0"]) if "k0" in named else 0.0)

    return objective


def of_attributes(more):
    held = SimpleNamespace(**{f"k{i}": m for i, m in enumerate(more)})

    def objective(x):
        if hasattr(held, "k0"):
            return powers(x, held.k0)
        return np.sum(x * x)

    return objective


def of_cells(more):
    if more:
        first = more[0]

    def objective(x):
        return powers(x, first) if more else np.sum(x)

    return objective


def of_inner_closures(more):
    def inner(x):
        return powers(x, *more)

    def objective(x):
        return inner(x) + inner(2.0 * x)

    return objective


def of_list(more):
    return lambda x: sum((powers(x, m) for m in [*more]), 0.0 * x[0])


def of_partial(more):
    return functools.partial(lambda *args: powers(args[-1], *args[:-1]), *more)


def of_properties(more):
    held = Broken(ValueError) if not more else SimpleNamespace(values=more[0])
    count = len(more)

    def objective(x):
        return powers(x, held.values) if count else np.sum(x)

    return objective


FACTORIES = [
    *(of_tuple, of_first, of_names, of_attributes, of_cells, of_inner_closures, of_list),
    *(of_partial, of_properties),
]
CAPTURED: list[tuple[Any, ...]] = [
    (),
    (A,),
    (2.0 * A,),
    (A[:2],),
    (A, A.T),
    (A[:1],),
    (np.ones((40, 3)),),
    (A, np.array([2.0, 1.0, 3.0])),
    (np.array([2.0, 1.0, 3.0]),),
    (np.array([2, 1, 3]),),
    (2.0,),
    (3,),
    (None,),
    ("word",),
    (np.float32(2.0), A),
]
FORMS: dict[str, Callable[[Any], Any]] = {
    "jit": calque.jit,
    "grad": calque.grad,
    "jit of grad": lambda f: calque.jit(calque.grad(f)),
}


def slope(fn: Callable[..., Any]) -> np.ndarray:
    ends = [(fn(X + e), fn(X - e)) for e in 1e-6 * np.eye(X.size)]
    return np.array([(a - b) / 2e-6 for a, b in ends])


@pytest.mark.parametrize("seed", sampled(range(36), 3))
@pytest.mark.parametrize("factory", FACTORIES, ids=lambda f: f.__name__)
def test_in_any_order(factory: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    choose = random.Random(f"{factory.__name__} {seed}")
    name = choose.choice(sorted(FORMS))
    for more in [choose.choice(CAPTURED) for _ in range(7)]:
        fn = factory(more)
        want = fn(X) if name == "jit" else slope(fn)
        np.testing.assert_allclose(FORMS[name](fn)(X), want, rtol=1e-5, atol=1e-6)


class Fails(Exception):
    """An error of the user's own."""


ERRORS = [Fails, RuntimeError, KeyError, NameError, OSError, ZeroDivisionError]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_reading_what_was_captured_fails_as_python_does(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")

    def factory(held, reads):
        def objective(x):
            return powers(x, held.values) if reads else np.sum(x)

        return objective

    good, bad = SimpleNamespace(values=A), Broken(error)
    for held, reads in ((good, True), (good, True), (bad, False), (bad, True), (good, True)):
        fn = factory(held, reads)
        if held is bad and reads:
            with pytest.raises(error):
                calque.jit(fn)(X)
        else:
            np.testing.assert_allclose(calque.jit(fn)(X), fn(X), rtol=1e-12)
