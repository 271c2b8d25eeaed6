"""Functions that the frontend replaces by equal code: np.vectorize, ufunc methods, operator."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler.errors import BranchMismatch, CalqueError


@np.vectorize
def gap(a, b):
    if a > b:
        return a - b
    return 0.5 * (a + b) ** 2


def decorated(x):
    return np.sum(gap(x, 0.4) * x)


def broadcast(x):
    table = np.vectorize(lambda a, b: a * b if a > 0 else a - b)(x[:, None], x[:2])
    return np.sum(table * np.arange(8.0).reshape(4, 2))


def several_results(x):
    def parts(v):
        return (v**2, 3) if v > 0 else (-v, 2)

    squares, counts = np.vectorize(parts)(x)
    assert counts.dtype == int
    return np.sum(squares * counts)


def said_dtype(x):
    return np.sum(np.vectorize(lambda v: v if v > 0 else 0, otypes=[float])(x) ** 2)


def in_a_loop_of_known_length(x):
    t = 0.5
    for k in range(3):
        t = t + gap(t, 0.4 + k) * x[k]
    return t


def in_a_loop_over_an_array(x):
    t, total = 0.5, 0.0
    for v in x:
        t = t + 0.1 * np.vectorize(lambda a, b: a * b if a < 1.0 else a * b * b)(t, v)
        total += t
    return total


def repeated_indices(x):
    y = np.ones(3)
    np.multiply.at(y, [0, 1, 1, 2], x)
    np.maximum.at(y, [[2, 0], [0, 1]], x.reshape(2, 2))
    table = np.outer(x, x)
    np.divide.at(table, ([0, 0, 1], [1, 1, 2]), 1.0 + x[:3] ** 2)
    np.multiply.at(table, [3, 3], x[0])
    return np.sum(y**2) + np.sum(np.sin(table))


def reduced_in_order(x):
    table = np.outer(x, x) + 1.0
    ends = np.add.reduceat(table, [0, 2, 1], axis=1) * np.multiply.reduceat(x, [0, 1, 3])
    return np.sum(ends) + np.logaddexp.reduce(x) + np.sum(np.hypot.reduce(table, axis=1))


def whole_numbers(x):
    bits = np.arange(4)
    return np.sum(x) * np.bitwise_xor.reduce(bits * 3)


def series(x):
    p = np.polynomial
    total = p.polynomial.polyval(x[1], x) + p.chebyshev.chebval(0.4, x)
    return total + p.legendre.legval(x[0], x) * p.hermite.hermval(0.3, x)


def operators(x):
    y = x.copy()
    same = operator.imul(y, x[1])
    operator.setitem(y, 0, 3.0 * x[2])
    first, last = operator.itemgetter(0, -1)(same)
    size = operator.attrgetter("size")(x) * operator.methodcaller("sum", axis=0)(x)
    return first * last + size * operator.getitem(y, 2) * operator.contains([1, 2], 2)


def iterators(x):
    a, b = itertools.tee(x)
    next(b)
    total = sum((q - p) ** 2 for p, q in zip(a, b))
    few = itertools.takewhile(lambda k: k < 3, range(9))
    rest = itertools.dropwhile(lambda k: k < 2, range(4))
    odd = itertools.filterfalse(lambda k: k % 2 == 0, range(4))
    chosen = itertools.compress(x, [1, 0, 1, 1])
    return total + sum(x[k] * x[m] for k, m in zip(few, [*rest, *odd])) + sum(v**3 for v in chosen)


PROGRAMS = [
    decorated,
    broadcast,
    in_a_loop_of_known_length,
    in_a_loop_over_an_array,
    several_results,
    said_dtype,
    repeated_indices,
    reduced_in_order,
    whole_numbers,
    series,
    operators,
    iterators,
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_gradient(fn: Callable[..., Any]) -> None:
    x = np.array([0.5, -1.2, 2.0, 0.3])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-6, atol=1e-9)


def test_compiled_and_batched() -> None:
    x = np.array([[0.5, -1.2, 2.0, 0.3], [1.5, 0.2, -0.4, 0.9]])
    for fn in (decorated, repeated_indices, in_a_loop_of_known_length):
        np.testing.assert_allclose(calque.jit(fn)(x[0]), fn(x[0]), rtol=1e-13)
        np.testing.assert_allclose(calque.vmap(fn)(x), [fn(row) for row in x], rtol=1e-13)


def test_dtypes_of_np_vectorize() -> None:
    x = np.array([0.5, -1.2, 2.0])
    for function in (lambda v: v > 0, lambda v: 2, lambda v: int(v), lambda v: v * 1j):
        found = calque.jit(lambda x, f=function: np.vectorize(f)(x))(x)
        expected = np.vectorize(function)(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def first_decides(x):
    return np.sum(np.vectorize(lambda v: v if v > 0 else 0)(x))  # -1.2 first: all whole numbers


def with_signature(x):
    return np.sum(np.vectorize(lambda r: r / np.sum(r), signature="(n)->(n)")(x))


def cast_at_places(x):
    counts = np.zeros(3, int)
    np.multiply.at(counts, [0, 1], x[:2])
    return np.sum(counts * x)


@pytest.mark.parametrize("fn", [first_decides, with_signature, cast_at_places])
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises((CalqueError, TypeError)) as caught:
        calque.grad(fn)(np.array([-1.2, 0.5, 2.0]))
    if fn is first_decides:
        assert isinstance(caught.value, BranchMismatch)
        assert caught.value.origin.file == __file__


EACH = [lambda a: a * 2.0, lambda a: a // 2 + a**2, lambda a: a if a > 1 else -a, float, np.sin]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_the_first_result_says_the_dtype_as_in_numpy(dtype: str) -> None:
    """It is that of the function on NumPy's number; the elements are Python's numbers."""

    def each(x):
        return [np.vectorize(function)(x) for function in EACH]

    x = np.array([3, 2, 1], dtype)
    for found, wanted in zip(calque.vmap(each)(x[None]), each(x), strict=True):
        np.testing.assert_allclose(found[0], wanted, rtol=1e-7, strict=True)
