"""Quotients and remainders of integers in kernels are NumPy's, to the ends of each dtype.

The least integer divided by -1 is out of range: NumPy gives the least integer again. Divided by
zero NumPy gives 0, with a warning, where Python's integers raise ZeroDivisionError.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import calque

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def whole(a, b):
    return a // b, a % b, np.floor_divide(a, b), np.remainder(a, b), np.fmod(a, b)


def both(a, b):
    return np.divmod(a, b)


def in_place(a, b):
    q = a.copy()
    q //= b
    return q


def one_by_one(a, b):
    q, r, s = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)
    for i in range(a.shape[0]):
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]
        s[i], _ = divmod(a[i], b[i])
    return q, r, s


def by_minus_one(a, b):
    q = np.zeros_like(a)
    for i in range(a.shape[0]):
        q[i] = a[i] // -1
    return q


def summed(a, b):
    s = 0
    for i in range(a.shape[0]):
        s += a[i] // b[i] // 2
    return s


def pythons(k, n):
    return k // n, k % n, divmod(k, n)


def pairs(dtype):
    info = np.iinfo(dtype)
    signed = [-1, -2, -7] if info.min else []
    values = np.array([info.min, info.min + 1, info.max, 0, 1, 3, 7, *signed], dtype)
    return [m.ravel() for m in np.meshgrid(values, values)]


def assert_same(found, wanted):
    if isinstance(wanted, tuple):
        for f, w in zip(found, wanted, strict=True):
            assert_same(f, w)
        return
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", [whole, both, in_place, one_by_one, summed, by_minus_one])
def test_divisions_are_numpys(f, dtype):
    if f is by_minus_one and dtype.startswith("u"):
        return
    a, b = pairs(dtype)
    assert_same(calque.jit(f)(a.copy(), b), f(a.copy(), b))


@pytest.mark.parametrize("f", [whole, one_by_one, by_minus_one, summed])
def test_in_saved_modules_too(f, tmp_path):
    a, b = pairs("i8")
    path = tmp_path / "saved_divisions.py"
    calque.save(calque.jit(f), path, a, b)
    spec = importlib.util.spec_from_file_location("saved_divisions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = next(v for k, v in vars(module).items() if k.endswith(f"{f.__name__}_jit"))
    assert_same(made(a, b), f(a, b))


@pytest.mark.parametrize("k, n", [(7, 2), (-7, 2), (7, -2), (-7, -1), (0, 3)])
def test_pythons_integers(k, n):
    assert calque.jit(pythons)(k, n) == pythons(k, n)


def test_pythons_integers_divided_by_zero():
    for form in (calque.jit(pythons), pythons):
        with pytest.raises(ZeroDivisionError):
            form(7, 0)
