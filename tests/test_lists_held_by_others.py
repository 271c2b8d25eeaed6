"""Lists that others hold do not change places: plain Python is the oracle."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors

X = np.array([0.31, 1.62, 0.73, 2.24, 1.15])


def walked_while_exchanged(x):
    a, b, total = [v * 2 for v in x], [0.0] * len(x), 0.0
    for _ in range(2):
        for v in a:
            total = total * 0.5 + v
            a, b = b, a
            a[0] += 1.0
    return total


def held_by_a_partial(x):
    a, b = [0.0] * len(x), [0.0] * len(x)
    first = functools.partial(operator.getitem, a)
    for i in range(len(x)):
        a, b = b, a
        a[0] += x[i]
    return first(0) + a[0]


@pytest.mark.parametrize("fn", [walked_while_exchanged, held_by_a_partial])
def test_lists_that_others_hold_do_not_change_places(fn: Callable[..., Any]) -> None:
    try:
        found = calque.jit(fn)(X)
    except errors.CalqueError:
        return
    np.testing.assert_allclose(found, fn(X), rtol=1e-13)


def a_row_of_numbers_held_twice(x):
    t = [np.zeros(2) for _ in range(len(x))]
    t.append(t[0])
    for i in range(len(x)):
        t[i][0] = x[i]
    return t[len(x)][0]


def test_an_array_that_a_list_holds_twice() -> None:
    assert a_row_of_numbers_held_twice(X) == X[0]
    with pytest.raises(errors.AliasUndecided):
        calque.grad(a_row_of_numbers_held_twice)(X)
