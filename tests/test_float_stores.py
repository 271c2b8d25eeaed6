"""A float stored into an integer array is what NumPy makes of it, or NumPy's error.

NumPy takes one number by ``int``, which refuses NaN, infinities and what the array's integers cannot
hold; an array's elements it casts. The oracle is the function itself.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calque

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
SIGNED, UNSIGNED = "bhiq", "BHIQ"
NUMBERS = [2.7, -2.7, 127.9, 128.0, -129.0, 3e9, 1e300, -1e300, np.inf, -np.inf, np.nan]


def element(y, x):
    for i in range(y.shape[0]):
        y[i] = x * 1.0
    return y


def element_of(y, x):
    z = np.full(3, x)
    for i in range(y.shape[0]):
        y[i] = z[i]
    return y


def middle(y, x):
    y[1:] = x
    return y


def none(y, x):
    y[3:] = x
    return y


def filled(y, x):
    y.fill(x)
    return y


def added(y, x):
    for i in range(y.shape[0]):
        y[i] = y[i] + x
    return y


def second_row(y, x):
    z = np.zeros((2, y.shape[0]), y.dtype)
    z[1] = x
    z[0, 1] = x
    return z


def result(function, *args):
    try:
        return function(*args).tolist()
    except (ValueError, OverflowError) as error:
        return type(error)


def compared(function, kind, number):
    wanted = result(function, np.zeros(3, kind), number)
    compiled = calque.jit(function)
    plain = {}
    exec(compiled.source(np.zeros(3, kind), number, stage="numpy"), {"np": np}, plain)
    for form in (compiled, *plain.values()):
        assert result(form, np.zeros(3, kind), number) == wanted, (function.__name__, kind, number)


FUNCTIONS = [element, element_of, middle, none, filled, added, second_row]


CASES = [(f, k) for f in FUNCTIONS for k in SIGNED if k in "bq" or f in (element, middle)]


@pytest.mark.parametrize(("function", "kind"), CASES)
def test_signed_integers(function, kind):
    for number in NUMBERS:
        compared(function, kind, number)
        compared(function, kind, np.float64(number))


@pytest.mark.parametrize("kind", UNSIGNED)
def test_unsigned_integers_of_pythons_floats(kind):
    for function in (element, middle) if kind in "BQ" else (filled,):
        for number in NUMBERS:
            if number != 3e9 or kind in "IQ":
                compared(function, kind, number)


def whole(y, z):
    y[:] = z
    y[1:] = z[1:] * 2.0
    return y


def without_axes(y, x):
    z = np.zeros(())
    z[...] = x
    for i in range(y.shape[0]):
        y[i] = z
    return y


@pytest.mark.parametrize("kind", "iq")
def test_elements_of_arrays_are_cast(kind):
    for number in NUMBERS:
        z = np.full(3, number)
        wanted = whole(np.zeros(3, kind), z)
        np.testing.assert_array_equal(calque.jit(whole)(np.zeros(3, kind), z), wanted)
        assert result(calque.jit(without_axes), np.zeros(3, kind), number) == result(
            without_axes, np.zeros(3, kind), number
        )


def test_the_text_takes_the_number_by_int():
    assert "y[i] = python_int(" in calque.jit(element).source(np.zeros(3, int), 1.5)
    assert "np.int8(int(" in calque.jit(element).source(np.zeros(3, "b"), 1.5, stage="numpy")


def counts(y, k):
    for i in range(y.shape[0]):
        y[i] = k[i] * 2
    return y


def test_integers_are_stored_as_before():
    source = calque.jit(counts).source(np.zeros(3, int), np.arange(3), stage="kernels")
    assert "int(" not in source and "prange" in source


def lanes(x):
    y = np.zeros(2, np.int64)
    if x > 0:
        y[0] = 1.0 / x
    return y


def test_a_lane_that_does_not_store_raises_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calque.vmap(lanes)(np.array([0.5, 0.0, -1.0]))
    assert found.tolist() == [[2, 0], [0, 0], [0, 0]]
