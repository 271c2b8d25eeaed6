"""Context managers: classes, generators and those of the standard library."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler.errors import UnsupportedSyntax


class Doubling:
    """Stores into an array when it is entered, and doubles it when it is left."""

    def __init__(self, y, first):
        self.y, self.first = y, first

    def __enter__(self):
        self.y[0] = 3.0 * self.first
        return self.y

    def __exit__(self, kind, error, trace):
        self.y *= 2.0


class Handling:
    """Handles a ValueError, and says how it was left."""

    def __init__(self):
        self.ends = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.ends.append(kind)
        return kind is ValueError


@contextlib.contextmanager
def scaled(v, by=2.0):
    yield v * by


@contextlib.contextmanager
def replaced(table, key, value):
    old = table[key]
    table[key] = value
    try:
        yield table
    finally:
        table[key] = old


def stores_at_the_end(x):
    y = x.copy()
    with Doubling(y, x[1]) as z:
        z[2] = z[0] * x[3]
    return np.sum(y**2)


def returned_from_within(x):
    y = x.copy()
    with Doubling(y, x[1]) as z:
        z[2] = z[0] * x[3]
        return np.sum(z) * z[2]  # before the array is doubled


def returned_array(x):
    y = x.copy()
    with Doubling(y, x[1]) as z:
        return z  # the array that is doubled


def put_back(x):
    table = {"rate": x[0]}
    with replaced(table, "rate", x[1]) as inner:
        moved = inner["rate"] * x[2]
    return moved + table["rate"] ** 2


def several_in_a_loop(x):
    total = 0.0
    for v in x:
        with scaled(v) as a, scaled(a, by=v) as b:
            if a > 0.5:
                total = total + a * b
            else:
                total = total - b
    return total


def left_at_a_known_place(x):
    total = 0.0
    for k in [0, 1, 2, 3]:
        with scaled(x[k]) as v:
            if k == 3:
                break
            if k == 0:
                continue
            total = total + v**2
    return total


def a_known_error(x):
    handling = Handling()
    with handling:
        raise ValueError("known")
    with contextlib.suppress(KeyError, IndexError):
        x = {}["missing"]
    return np.sum(x**2) * len(handling.ends)


def of_the_library(x):
    with warnings.catch_warnings(), contextlib.nullcontext((x, 2.0 * x)) as (a, b):
        warnings.simplefilter("ignore")
        return np.sum(a * b)


def local_manager(x):
    @contextlib.contextmanager
    def summed(k):
        total = np.sum(x) * k
        yield total

    with summed(3.0) as total:
        return total**2


PROGRAMS = [
    stores_at_the_end,
    returned_from_within,
    returned_array,
    put_back,
    several_in_a_loop,
    left_at_a_known_place,
    a_known_error,
    of_the_library,
    local_manager,
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_gradient(fn: Callable[..., Any]) -> None:
    x = np.array([0.5, -1.2, 2.0, 0.3])

    def of_scalar(x):
        return np.sum(fn(x))

    value, gradient = calque.value_and_grad(of_scalar)(x)
    assert np.isclose(value, of_scalar(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(of_scalar, (x,)), rtol=1e-6, atol=1e-9)


def test_a_compiled_manager() -> None:
    x = np.array([0.5, -1.2, 2.0, 0.3])
    np.testing.assert_allclose(calque.jit(returned_array)(x), returned_array(x), rtol=1e-13)


def leaving_by_a_test(x):
    with scaled(x) as y:
        if y[0] > 0:
            return np.sum(y)
    return np.sum(x)


def breaking_by_a_test(x):
    total = 0.0
    for v in x:
        with scaled(v) as y:
            if y > 3:
                break
            total = total + y
    return total


def handling_what_runs_later(x):
    with Handling() as handling:
        y = 2.0 * x
    return np.sum(y) * len(handling.ends)


def yielding_twice(x):
    @contextlib.contextmanager
    def twice():
        yield x
        yield x

    with twice() as y:
        x = y
    return np.sum(x)


def no_source(x):
    with memoryview(b"ab") as view:
        return np.sum(x) * len(view)


REFUSED = [
    leaving_by_a_test,
    breaking_by_a_test,
    handling_what_runs_later,
    yielding_twice,
    no_source,
]


@pytest.mark.parametrize("fn", REFUSED, ids=lambda fn: fn.__name__)
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedSyntax) as caught:
        calque.grad(fn)(np.array([0.5, -1.2]))
    assert caught.value.origin.file == __file__
