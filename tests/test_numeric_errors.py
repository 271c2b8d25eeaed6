"""Handlers of FloatingPointError and LinAlgError run where NumPy raises these at run time."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

# generated code computes, and warns, where NumPy would raise for the handler
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MATRIX = np.array([[3.0, 1.0], [1.0, 2.0]])


def periods(rate, payment, value):
    free = False
    with np.errstate(divide="raise"):
        try:
            z = payment * (1.0 + rate * 0.5) / rate
        except FloatingPointError:
            free = True
    if free:
        return value / payment
    return np.log(z / (value + z)) / np.log(1.0 + rate)


def all_raise(x):
    with np.errstate(all="raise"):
        try:
            y = np.exp(x) * x
            result = np.log(y) + np.sqrt(x)
        except FloatingPointError:
            result = x * 3.0
    return np.sum(result)


def only_invalid(x):
    with np.errstate(invalid="raise", over="raise"):
        try:
            with np.errstate(over="ignore"):
                y = np.sqrt(x) * np.exp(x)
        except FloatingPointError:
            y = x * 2.0
    return np.sum(np.where(np.isfinite(y), y, 0.0))


def warned(x):
    try:
        return np.log(x) / x
    except (ZeroDivisionError, FloatingPointError):
        return x


def factored(a, c):
    try:
        lower = np.linalg.cholesky(a + a.T)
        return np.sum(np.log(np.diag(lower))) * c
    except np.linalg.LinAlgError:
        return c * np.sum(a * a)


def never_raises(x):
    try:
        scale = 0.1 * 10.0 ** (0.2 * x) * x
        if math.isinf(scale):
            raise OverflowError
        return math.log(scale)
    except OverflowError:
        return 3.0 * x


CASES = [
    *[(periods, (np.float64(r), -150.0, 8000.0)) for r in (0.01, 0.0)],
    *[(all_raise, (np.array(x),)) for x in ([0.5, 2.0], [0.0, 2.0], [800.0, 2.0])],
    *[(all_raise, (np.array(x),)) for x in ([-1.0, 2.0], [-744.0, 2.0])],
    *[(only_invalid, (np.array(x),)) for x in ([0.5, 0.7], [0.5, -4.0])],
    *[(factored, (a, 2.0)) for a in (MATRIX, -MATRIX)],
    *[(never_raises, (x,)) for x in (2.0, 1e4)],
    (warned, (np.float64(2.0),)),
]


def slopes_of(f, args):
    """The derivatives with respect to the first argument, by central differences."""
    x, step = np.asarray(args[0], float), 1e-6
    found = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[k] += step
        back[k] -= step
        there, back = (v if x.ndim else x.dtype.type(v) for v in (there, back))
        found[k] = (f(there, *args[1:]) - f(back, *args[1:])) / (2.0 * step)
    return found


@pytest.mark.parametrize("f, args", CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_the_handler_that_python_runs(f, args):
    args = tuple(float(a) if f is never_raises else a for a in args)
    value = f(*args)
    np.testing.assert_allclose(calque.jit(f)(*args), value, rtol=1e-12)
    at_edge = f is periods and args[0] == 0.0 or (f is all_raise and args[0][0] == 0.0)
    expected = np.asarray([3.0, 3.0] if f is all_raise else 0.0) if at_edge else None
    expected = slopes_of(f, args) if expected is None else expected
    for run in (calque.grad(f), calque.jit(calque.grad(f))):
        np.testing.assert_allclose(run(*args), expected, rtol=1e-5, atol=1e-5)


def test_each_example_of_a_batch_has_its_handler():
    matrices = np.stack([MATRIX, -MATRIX])
    expected = [factored(a, 2.0) for a in matrices]
    np.testing.assert_allclose(calque.vmap(factored, (0, None))(matrices, 2.0), expected)
    slopes = calque.vmap(calque.grad(factored), (0, None))(matrices, 2.0)
    np.testing.assert_allclose(slopes, [slopes_of(factored, (a, 2.0)) for a in matrices], atol=1e-5)


def test_the_state_of_the_caller_is_compared():
    run = calque.jit(warned)
    assert run(np.float64(0.0)) == -np.inf
    with np.errstate(divide="raise"), pytest.raises(CalqueError, match="around the call"):
        run(np.float64(0.0))
    assert run(np.float64(0.0)) == -np.inf


def in_place(x):
    with np.errstate(divide="raise"):
        try:
            x = x * 1.0
            x /= 2.0 * x
        except FloatingPointError:
            x = x * 3.0
    return np.sum(x)


def test_what_no_test_protects_is_refused():
    with pytest.raises(CalqueError, match="FloatingPointError at run time"):
        calque.jit(in_place)(np.array([1.0, 2.0]))
