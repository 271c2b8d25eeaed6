"""Dtypes by NEP 50 where narrow arrays meet numbers: NumPy's scalars, and Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque


def scalar_of_numpy(x: Any) -> Any:
    return x[0] + len(x) * np.float64(2.0)


def scalar_of_numpy_and_an_array(x: Any) -> Any:
    return x.sum() + x + len(x) / 2 * np.log(2 * np.pi)


def integer_of_numpy(x: Any) -> Any:
    return x * (len(x) + np.int64(2))


def sum_of_numpy(x: Any) -> Any:
    total = np.float64(0.5)
    for i in range(len(x)):
        total = total + i
    return x * total


def choice_of_numpy(x: Any) -> Any:
    return x * (np.float64(2.0) if x[0] > 0 else np.float64(3.0))


def scalar_of_python(x: Any) -> Any:
    return x[0] + len(x) * 2.0


PROGRAMS = [
    scalar_of_numpy,
    scalar_of_numpy_and_an_array,
    integer_of_numpy,
    sum_of_numpy,
    choice_of_numpy,
    scalar_of_python,
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_dtypes_are_those_of_numpy(fn: Callable[..., Any], dtype: str) -> None:
    x = np.array([3.0, 1.0, 2.0, 5.0], dtype)
    expected = fn(x)
    results = {
        "jit": calque.jit(fn)(x),
        "jvp": calque.jvp(fn, (x,), (x,))[0],
        "jit(jvp)": calque.jit(lambda x: calque.jvp(fn, (x,), (x,))[0])(x),
        "vmap": calque.vmap(fn)(np.stack([x, x]))[1],
        "jit(vmap)": calque.jit(calque.vmap(fn))(np.stack([x, x]))[1],
    }
    for how, result in results.items():
        assert np.asarray(result).dtype == np.asarray(expected).dtype, how
        np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=how)
    gradient = calque.jit(calque.grad(lambda x: np.sum(fn(x))))(x)
    assert gradient.dtype == x.dtype
