"""Lists of run-time length at their limits: many iterations, empty lists, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler import errors

X = np.array([0.31, -0.72, 0.63, 0.24, -0.15])


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def more_than_fit_at_first(x, n):
    stack = []
    total = 0.0
    for i in range(n):
        stack.append(x[0] * i)
        if i % 3 == 2:
            total += stack.pop() * stack[-1]
    return total + len(stack)


def integers_as_floats(x, n):
    out = [0.5]
    for i in range(n):
        out.append(float(i))
    return sum(out) * x[0] + out[0]


def a_scalar_after_an_array(x, n):
    out = []
    for i in range(n):
        out.append(x)
        out.append(x[0])
    return out[1] + np.sum(out[2])


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize(
    "fn", [more_than_fit_at_first, integers_as_floats, a_scalar_after_an_array]
)
def test_of_many_iterations(fn: Callable[..., Any]) -> None:
    np.testing.assert_allclose(calque.jit(fn)(X, 50), fn(X, 50), rtol=1e-13)
    slope = (fn(X + 1e-6, 50) - fn(X - 1e-6, 50)) / 2e-6
    np.testing.assert_allclose(np.sum(calque.grad(fn)(X, 50)), slope, rtol=1e-6)


def popped_too_often(x):
    out = [1.0, 2.0]
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.2:
            total += out.pop() * x[i]
        else:
            out.append(x[i])
    return total + out[-1]


def test_nothing_is_popped_from_an_empty_list(stepped: None) -> None:
    x = np.full(5, 0.5)
    np.testing.assert_allclose(calque.value_and_grad(popped_too_often)(X)[0], popped_too_often(X))
    for fn in (popped_too_often, calque.jit(popped_too_often), calque.grad(popped_too_often)):
        with pytest.raises(IndexError):
            fn(x)


def appends_to_what_it_walks(x):
    out = [x[0], x[1]]
    for v in out:
        if len(out) < 5:
            out.append(v + 1)
    return sum(out)


def pops_from_what_it_walks(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i])
    total = 0.0
    for v in out:
        total += v
        if v > 0.5:
            out.pop()
    return total


def stores_into_what_is_enumerated(x):
    out = [x[0], x[1], x[2]]
    total = 0.0
    for i, v in enumerate(out):
        total += v
        out[2] = v * i
    return total


def stores_into_what_is_zipped(x):
    out = [x[0], x[1], x[2]]
    total = 0.0
    for a, b in zip(reversed(out), [1.0, 2.0, 3.0]):
        total += a
        out[0] = a * b
    return total


def a_slice_replaced(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i])
    out[1:] = [x[0]]
    return sum(out)


@pytest.mark.parametrize(
    "fn", [appends_to_what_it_walks, stores_into_what_is_enumerated, stores_into_what_is_zipped]
)
def test_a_loop_sees_the_list_change_that_it_runs_over(fn: Callable[..., Any]) -> None:
    value, gradient = calque.value_and_grad(fn)(X)
    assert np.isclose(value, fn(X), rtol=1e-14)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (X,)), rtol=1e-8)


REFUSED = {
    pops_from_what_it_walks: "`pop` changes the list that a for statement runs over",
    a_slice_replaced: "A slice of a list that grows in a loop is replaced",
}


@pytest.mark.parametrize("fn", REFUSED)
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(errors.UnsupportedSyntax, match=REFUSED[fn]):
        calque.grad(fn)(X)


def a_queue_of_run_time_length(x, n):
    queue = [x[0]]
    total = 0.0
    while queue and total < n:
        v = queue.pop(0)
        total += v * v + 1.0
        if v > 0.01:
            queue.append(v * 0.5)
            queue.append(v * x[2])
    return total


def a_queue_that_is_counted(x, n):
    queue = [x[0]]
    total, head = 0.0, 0
    while head < len(queue) and total < n:
        v = queue[head]
        head += 1
        total += v * v + 1.0
        if v > 0.01:
            queue.append(v * 0.5)
            queue.append(v * x[2])
    return total


@pytest.mark.usefixtures("stepped")
def test_a_queue_in_reverse() -> None:
    fn = a_queue_that_is_counted
    np.testing.assert_allclose(calque.jit(a_queue_of_run_time_length)(X, 9), fn(X, 9), rtol=1e-13)
    with pytest.raises(errors.NeedsKnownValue, match="head"):
        calque.grad(a_queue_of_run_time_length)(X, 9)
    slopes = [(fn(X + s, 9) - fn(X - s, 9)) / 2e-6 for s in 1e-6 * np.eye(X.size)]
    np.testing.assert_allclose(calque.grad(fn)(X, 9), slopes, rtol=1e-6, atol=1e-7)


def a_popped_row_is_stored_into(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x * i)
    r = out.pop()
    r[0] = 100.0
    out.append(x)
    return r[0] + out[-1][0] + np.sum(np.array(out))


def an_element_of_an_element(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x * i)
    out[1] = x
    out[2][0] = 9.0
    return np.sum(np.array(out))


def a_row_is_stored_into_later(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x * i)
    y = x * 3
    out[1] = y
    y[0] = 100.0
    return np.sum(np.array(out))


@pytest.mark.parametrize(
    "fn", [a_popped_row_is_stored_into, an_element_of_an_element, a_row_is_stored_into_later]
)
def test_what_shares_memory_with_an_element(fn: Callable[..., Any]) -> None:
    with pytest.raises(errors.AliasUndecided):
        calque.jit(fn)(X)
