"""Casts to integers in kernels: NumPy's values to the bit, also of what the integer cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import calque

FLOATS = [
    0.0,
    -0.0,
    0.9,
    -0.9,
    2.5,
    -7.5,
    127.0,
    128.0,
    -129.0,
    255.9,
    256.0,
    32768.0,
    -32769.0,
    65536.5,
]
FLOATS += [
    2.0**31 - 1,
    2.0**31,
    -(2.0**31),
    -(2.0**31) - 1,
    2.0**32,
    2.0**53 + 2,
    2.0**62,
    -(2.0**62),
]
FLOATS += [2.0**63 - 1024, -(2.0**63)]
BEYOND = [2.0**63, -(2.0**63) - 2048, 2.0**64, 1e300, -1e300, np.inf, -np.inf, np.nan]
INTEGERS = [
    0,
    1,
    -1,
    127,
    128,
    -129,
    255,
    256,
    2**31,
    -(2**31) - 1,
    2**32 + 5,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
]


def of_all(x):
    y = x.astype(np.int64)
    for i in range(x.shape[0]):
        y[i] += 1
    return y


def of_elements(x):
    y = np.zeros(x.shape[0], dtype=np.int64)
    for i in range(x.shape[0]):
        y[i] = x[i]
    return y


def of_scalars(x):
    y = np.zeros(x.shape[0], dtype=np.int64)
    for i in range(x.shape[0]):
        y[i] = np.int64(x[i])
    return y


def counted(x):
    y = np.zeros(4)
    for i in range(x.shape[0]):
        y[np.int64(x[i]) % 4] += 1.0
    return y


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("function", [of_all, of_elements, of_scalars, counted])
def test_floats_become_integers_of_64_bits(function, kind):
    # NumPy itself refuses to store one number that an integer cannot hold
    values = FLOATS if function is of_elements else FLOATS + BEYOND
    with np.errstate(all="ignore"):
        x = np.array(values).astype(kind)
        x = x[(x != 2.0**63) | (function is not of_elements)]  # float32 rounds up to it
        wanted, found = function(x), calque.jit(function)(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def narrowed(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i]
    return y


def narrowed_by_astype(x, y):
    for i in range(x.shape[0]):
        y[i] = x[i].astype(y.dtype)
    return y


def narrowed_together(x, y):
    y[:] = x
    return y


@pytest.mark.parametrize("kind", "bhilBHIL")
@pytest.mark.parametrize("function", [narrowed, narrowed_by_astype, narrowed_together])
def test_integers_wrap_around(function, kind):
    # NumPy itself refuses to store one number that integers with a sign cannot hold
    x = np.array(INTEGERS)
    if function is narrowed and kind in "bhi":
        x = x[(x >= np.iinfo(kind).min) & (x <= np.iinfo(kind).max)]
    y = np.zeros(x.size, dtype=kind)
    found = calque.jit(function)(x, y.copy())
    assert found.dtype == y.dtype
    np.testing.assert_array_equal(found, x.astype(kind))
    np.testing.assert_array_equal(function(x, y), x.astype(kind))


def mixed(x, k):
    s = np.zeros(x.shape[0], dtype=np.int64)
    for i in range(x.shape[0]):
        s[i] = x[i].astype(np.int64) * 3 + k[i].astype(np.int64)
    return s


@pytest.mark.parametrize("kind", "bhilBHIL")
def test_sums_of_what_was_cast_wrap_around(kind):
    x = np.array(FLOATS + BEYOND)
    k = np.resize(np.array(INTEGERS), x.shape).astype(kind)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(calque.jit(mixed)(x, k), mixed(x, k))


@pytest.mark.parametrize("number", [3.9, -3.9, 2.0**62, -(2.0**63)])
def test_int_of_a_float_that_fits(number):
    def whole(x):
        y = np.zeros(x.shape[0], dtype=np.int64)
        for i in range(x.shape[0]):
            y[i] = int(x[i])
        return y

    assert calque.jit(whole)(np.array([number])).tolist() == [int(number)]


@pytest.mark.parametrize("kind", "bhiBHI")
@pytest.mark.parametrize("given", [np.float64, np.float32])
def test_floats_become_narrow_integers(kind, given):
    def narrow(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i].astype(y.dtype)
        return y

    with np.errstate(all="ignore"):
        x = np.array(FLOATS + BEYOND).astype(given)
        if kind in "BH":  # what C leaves open differs between NumPy's own loops
            x = x[np.abs(x) < 2.0**31]
        wanted = narrow(x, np.zeros(x.shape[0], kind))
        found = calque.jit(narrow)(x, np.zeros(x.shape[0], kind))
    np.testing.assert_array_equal(found, wanted)
