"""Iterators of ``zip`` and the like are consumed once; a second use is right, or refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler.errors import UnsupportedSyntax


def pairs_of_one_iterator(x):
    it = iter([x[0], x[1], x[2], x[0]])
    return sum(p * q + p for p, q in zip(it, it))


def grouper(x):
    return sum(p * q + p for p, q in zip(*[iter([*x, x[0]])] * 2))


def next_of_zip(x):
    z = zip([1, 2, 3], [x[0], x[1], x[2]])
    k, v = next(z)
    return sum(i * u for i, u in z) + k * v * 7


def next_of_reversed(x):
    r = reversed([x[0], x[1], x[2]])
    return next(r) * 5 + sum(r)


def next_of_accumulate(x):
    totals = itertools.accumulate([x[0], x[1], x[2]])
    return next(totals) * 2 + sum(totals)


def in_place_and_unpacked(x):
    keys, values = zip(*[("a", x[0]), ("b", x[1])])
    table = dict(zip(keys, values))
    largest = max(map(lambda v: v * 2, values))
    order = sorted(filter(lambda k: k > 0, [3, 1, 0]))
    a, b = map(np.sin, (x[0], x[1]))
    cosines = np.array(list(map(np.cos, x)))
    return table["a"] * largest + order[0] * a + b + cosines.sum() + len(list(zip(x, x)))


def given_to_a_function(x):
    def total(values):
        return sum(v * v for v in values)

    return total(map(np.sin, [x[0], x[1]])) + total(itertools.chain([x[0]], [x[2]]))


RIGHT = [
    pairs_of_one_iterator,
    grouper,
    next_of_zip,
    next_of_reversed,
    next_of_accumulate,
    in_place_and_unpacked,
    given_to_a_function,
]


@pytest.mark.parametrize("fn", RIGHT, ids=lambda fn: fn.__name__)
def test_right(fn: Callable[..., Any]) -> None:
    x = np.array([0.3, 0.5, 0.9])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-8)


def zip_of_arrays(x):
    z = zip(x, x[::-1])
    return sum(a * b for a, b in z) + sum(a for a, b in z)


def enumerate_of_an_array(x):
    e, total = enumerate(x), 0.0
    for i, v in e:
        total += i * v
    for _, v in e:
        total += 10 * v
    return total


def map_of_a_list(x):
    m = map(np.sin, [x[0], x[1]])
    return sum(m) + sum(m)


def parameter(x):
    def total(values):
        return sum(values) + sum(values)

    return total(filter(lambda v: v is not None, [x[0], x[1]]))


@pytest.mark.parametrize("fn", [zip_of_arrays, enumerate_of_an_array, map_of_a_list, parameter])
def test_right_or_refused(fn: Callable[..., Any]) -> None:
    """Python finds nothing the second time."""
    x = np.array([0.3, 0.5, 0.9])
    try:
        value = calque.value_and_grad(fn)(x)[0]
    except UnsupportedSyntax:
        return
    assert np.isclose(value, fn(x), rtol=1e-13)


def map_of_what_changes(x):
    scale = [2.0]
    scaled = map(lambda v: v * scale[0], [x[0], x[1]])
    scale[0] = 5.0
    total = sum(scaled)
    for v in map(lambda v: v * scale[0], [x[0], x[1]]):
        total = total + v
        scale[0] += 1.0
    return total


def filter_of_what_changes(x):
    least = [0]
    chosen = filter(lambda k: k > least[0], [0, 1, 2])
    least[0] = 1
    return sum(x[k] for k in chosen)


def views_of_a_dict(x):
    table = {"a": x[0]}
    keys, values = table.keys(), table.values()
    table["b"] = x[1]
    return len(keys) * sum(values) + sum(v for v in values)


def steps_of_a_map(x):
    squares = map(lambda v: v**2, [x[0], x[1], x[2]])
    return next(squares) * 3.0 + sum(squares)


def chain_is_consumed(x):
    joined = itertools.chain([x[0]], [x[1]])
    return sum(joined) + 10.0 * sum(joined)


@pytest.mark.parametrize(
    "fn",
    [
        map_of_what_changes,
        filter_of_what_changes,
        views_of_a_dict,
        steps_of_a_map,
        chain_is_consumed,
    ],
    ids=lambda fn: fn.__name__,
)
def test_what_is_consumed_later_is_as_it_is_then(fn: Callable[..., Any]) -> None:
    x = np.array([0.5, -1.2, 2.0])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("make", [iter, enumerate, reversed, lambda v: zip(v, v)])
def test_a_list_that_changed_since(make: Callable[..., Any]) -> None:
    def changed(x):
        values = [x[0], x[1]]
        iterator = make(values)
        values[0] = x[2]
        values.append(x[1])
        return len(list(iterator)) * x[0] * values[0]

    x = np.array([0.5, 2.0, 3.0])
    assert calque.value_and_grad(changed)(x)[0] == changed(x)
