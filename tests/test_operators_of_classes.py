"""Operators that the user's classes define are interpreted: branches, types and changes in place."""

from __future__ import annotations

import enum
import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle


class Sum:
    def __init__(self, v):
        self.v, self.n = v, 0

    def __add__(self, other):
        return Sum(self.v + other)

    def __iadd__(self, other):
        self.v = self.v + 2.0 * other
        self.n += 1
        return self

    def __mul__(self, k):
        if isinstance(k, (float, np.ndarray, np.floating)):
            return Sum(self.v * k)
        return Sum(self.v * k.v)

    __rmul__ = __mul__

    def __neg__(self):
        if np.sum(self.v) > 0:
            return Sum(-self.v)
        return Sum(self.v * 0.5)

    def __abs__(self):
        return np.sum(np.abs(self.v))

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        if self.n == other.n:
            return np.sum(self.v) < np.sum(other.v)
        return NotImplemented

    def __gt__(self, other):
        return True


def in_place_is_seen_by_the_other_name(x):
    a = Sum(x)
    b = a
    b += x
    return np.sum(a.v) * b.n


def branches_within(x):
    a = -Sum(x)
    for i in range(x.size):
        a += x[i]
        if x[i] > 0.4:
            a = 2.0 * a
        else:
            a = a * Sum(x)
    return abs(a)


def comparisons(x):
    a, b, c = Sum(x), Sum(x[::-1] * 2), Sum(x)
    c += x[0]
    total = (a == b) * x[0] + (a != b) * x[1] + (a != c) * x[2] + (a < c) * x[0]
    if a < b:
        total = total * x[1]
    return total


class Option(enum.IntEnum):
    ONE = 1
    TWO = 2


def numbers_of_an_enum(x):
    for option in Option:
        x = x * option + option.value
    return np.sum(x)


@functools.cache
def binomial(n, k):
    return 1 if k in (0, n) else binomial(n - 1, k - 1) + binomial(n - 1, k)


def recursion_on_a_size(x):
    n = len(x) - 1
    return sum(x[k] ** 2 * binomial(n, k) * 0.3**k for k in range(n + 1))


def function_given_to_the_library(x):
    groups = itertools.groupby([1, 1, 2], key=lambda k: k % 2)
    return sum(x[k] * sum(group) for k, group in groups)


def groups_without_a_key(x):
    return sum(x[k] * sum(group) + k for k, group in itertools.groupby([1, 1, 2, 1]))


def groups_of_the_data(x):
    pairs = zip([0, 0, 1], x)
    return sum((k + 2) * sum(v for _, v in g) ** 2 for k, g in itertools.groupby(pairs, lambda p: p[0]))


def ordered(x):
    p = OrderedDict(w=x, b=x[0] * 2)
    p.move_to_end("w")
    return sum(np.sum(v) * i for i, v in enumerate(p.values(), 1))


@dataclass
class Pair:
    a: Any
    b: Any


def written_by_dataclass(x):
    p = Pair(1, 2)
    return np.sum(x) * (p == Pair(1, 2)) + x[0] * (p != Pair(1, 3))


PROGRAMS = [
    in_place_is_seen_by_the_other_name,
    branches_within,
    comparisons,
    numbers_of_an_enum,
    recursion_on_a_size,
    function_given_to_the_library,
    groups_without_a_key,
    groups_of_the_data,
    ordered,
    written_by_dataclass,
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("first", [0.3, -3.4])
def test_gradient(fn: Callable[..., Any], first: float) -> None:
    x = np.array([first, 1.5, 0.9])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-6)
    np.testing.assert_allclose(calque.jit(fn)(x), fn(x), rtol=1e-12)


class Labelled:
    """An array with a label; ufuncs of it are its own, as xarray's are."""

    def __init__(self, values: Any, label: str = "a") -> None:
        self.values, self.label = values, label

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        total = 0.0
        for value in inputs:
            total = total + (np.sum(value.values) if isinstance(value, Labelled) else 0.0)
        plain = [i.values if isinstance(i, Labelled) else i for i in inputs]
        found = ufunc(*plain, **options)
        return Labelled(np.where(total > 0.0, found, 2.0 * found), self.label)

    def __rmul__(self, other: Any) -> Labelled:
        return Labelled(other * self.values * 3.0, self.label)


ROW = np.array([0.4, 1.2, 2.0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.exp(Labelled(ROW * x)).values,
        lambda x: np.maximum(1.0, Labelled(ROW * x)).values,
        lambda x: np.multiply(ROW * x, Labelled(ROW)).values,
        lambda x: np.subtract(Labelled(ROW * x), Labelled(ROW)).values,
        lambda x: (ROW * Labelled(x * ROW)).values,
        lambda x: (ROW * x * Labelled(ROW)).values,
        lambda x: (ROW - Labelled(x * ROW)).values,
        lambda x: (x * Labelled(x * ROW)).values,
        lambda x: np.where((ROW < Labelled(x * ROW)).values, x, x * x),
        lambda x: np.add(ROW, Labelled(x * ROW), dtype=np.float64).values,
    ],
)
def test_ufuncs_of_classes(function: Any) -> None:
    for x in (1.3, -0.6):
        np.testing.assert_allclose(calque.jit(function)(x), function(x), rtol=1e-12)
        slope = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(calque.jvp(function, (x,), (1.0,))[1], slope, rtol=1e-7)
        total = calque.grad(lambda x: np.sum(function(x)))(x)
        np.testing.assert_allclose(total, np.sum(slope), rtol=1e-7)
