"""``for ... else`` and ``while ... else``: plain Python and differences are the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

X = np.array([0.3, -0.7, 0.6, 0.2, -0.1])
SMALL = np.array([0.3, -0.7, 0.4, 0.2, -0.1])  # nothing in it breaks a loop below


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def bound_in_the_body_or_the_clause(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            found = x[i] ** 2
            break
    else:
        found = x[0] * 3
    return found * 2


def the_last_iteration_s_value(x):
    for i in range(x.shape[0]):
        y = x[i] * 2
        if y > 1.0:
            break
    else:
        y = x[0] * 3
    return y * y


def of_a_while(x):
    i = 0
    while i < x.shape[0]:
        if x[i] > 0.5:
            z = x[i] ** 2
            break
        i += 1
    else:
        z = -x[0]
    return z * i + z


def within_a_loop(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            if x[j] > x[i]:
                nearest = x[j] * j
                break
        else:
            nearest = x[i] ** 2
        total += nearest * x[i]
    return total


def read_by_the_clause(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            break
        last = x[i] * 2
    else:
        total = last * last
    return total + x[0]


def an_array(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            pair = np.array([x[i], 2.0])
            break
    else:
        pair = x[:2] * 2
    return np.sum(pair**2)


def a_tuple(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            found = (x[i], i)
            break
    else:
        found = (x[0], -1)
    return x[found[1]] ** 2 * found[0]


def two_breaks(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            k, scale = i, 2.0
            break
        if x[i] < -0.9:
            k, scale = 0, x[i]
            break
    else:
        k, scale = 1, 0.5
    return x[k] ** 2 * scale


def the_clause_returns(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            k = i
            break
    else:
        return x[0] ** 3
    return x[k] ** 2


def the_clause_goes_on(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            if x[j] * x[i] > 0.1:
                k = j
                break
        else:
            continue
        total += x[k] ** 2 * x[i]
    return total


def the_body_returns(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            return x[i] ** 2
        w = x[i]
    else:
        w = w * 3
    return w


def the_body_returns_and_what_follows_reads(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            return x[i] ** 2
        w = x[i] * x[0]
    return w


def known_iterations(x):
    for weight, value in ((1.0, x[0]), (2.0, x[1]), (3.0, x[2])):
        if value > 0.5:
            chosen = value**2
            break
        chosen_last = value
    else:
        chosen = 3 * chosen_last
    return chosen * weight


def everywhere(x):
    for i in range(x.shape[0]):
        v = x[i] ** 2
        if v > 0.3:
            break
    else:
        x = x * 2
    return v * x[0]


PROGRAMS = [
    *(bound_in_the_body_or_the_clause, the_last_iteration_s_value, of_a_while, within_a_loop),
    *(read_by_the_clause, an_array, a_tuple, two_breaks, the_clause_returns, the_clause_goes_on),
    *(the_body_returns, the_body_returns_and_what_follows_reads, known_iterations, everywhere),
]


def differences(fn: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """The gradient by central differences."""
    steps = 1e-6 * np.eye(x.size)
    return np.array([(fn(x + s) - fn(x - s)) / 2e-6 for s in steps])


@pytest.mark.parametrize("x", [X, SMALL], ids=["breaks", "runs through"])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_as_plain_python(fn: Callable[..., Any], x: np.ndarray) -> None:
    value, gradient = calque.value_and_grad(fn)(x)
    np.testing.assert_allclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, differences(fn, x), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(x), gradient, rtol=1e-13)
    both = np.stack([X, SMALL])
    np.testing.assert_allclose(calque.vmap(fn)(both), [fn(X), fn(SMALL)], rtol=1e-13)


def the_clause_raises(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            k = i
            break
    else:
        raise ValueError("none is large")
    return x[k] ** 2


def test_a_clause_that_raises() -> None:
    np.testing.assert_allclose(calque.grad(the_clause_raises)(X), differences(the_clause_raises, X))
    with pytest.raises(ValueError, match="none is large"):
        calque.value_and_grad(the_clause_raises)(SMALL)


def a_break_that_binds_nothing(x):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            found = x[i]
            break
        if x[i] < -0.5:
            break
    else:
        found = x[0]
    return found


def a_clause_that_binds_nothing(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            found = x[i]
            break
    else:
        total = x[0]
    return found + total


def read_where_a_break_binds_it(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            found = x[i]
            break
    else:
        total = found
    return total


def of_a_while_that_may_not_run(x):
    i = 3
    while i < x.shape[0] - x[0]:
        last = x[i]
        if last > 0.5:
            break
        i += 1
    else:
        i = last
    return i * 1.0


def after_a_clause_that_may_go_on(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            if x[j] > x[i]:
                k = j
                break
        else:
            if x[i] > 0.1:
                continue
        total += x[k]
    return total


@pytest.mark.parametrize(
    "fn",
    [
        *(a_break_that_binds_nothing, a_clause_that_binds_nothing, read_where_a_break_binds_it),
        *(of_a_while_that_may_not_run, after_a_clause_that_may_go_on),
    ],
)
def test_a_name_that_some_path_does_not_bind(fn: Callable[..., Any]) -> None:
    compiled, raised = calque.jit(fn), 0
    for x in (X, np.zeros(len(X)), np.full(len(X), 0.7), np.linspace(3.0, 0.05, len(X))):
        try:
            expected = fn(x)
        except UnboundLocalError as error:
            raised += 1
            with pytest.raises(UnboundLocalError, match=str(error)):
                compiled(x)
        else:
            np.testing.assert_allclose(compiled(x), expected)
    assert raised


def test_a_loop_that_breaks_and_never_runs() -> None:
    def within(x):
        n, total = len(x), 1.0
        for i in range(n, n):
            if x[0] > 0.5:
                break
            total += x[i]
        else:
            total += 2.0
        return total * x[0]

    for n in (1, 2, 4):
        np.testing.assert_array_equal(calque.grad(within)(np.ones(n)), 3.0 * np.eye(n)[0])
