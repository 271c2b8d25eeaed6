"""The values that reverse mode saves, read off Core: the shadow only, one array, or by a policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.autodiff.tape.policy import Recorder
from calque.transpiler.ir import core


def gauss_seidel(u, f):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return np.sum(u * u)


def nonlinear_sweep(u):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            u[i, j] = u[i, j] * (u[i - 1, j] * u[i + 1, j] + u[i, j - 1] * u[i, j + 1])
    return np.sum(u * u)


def recurrence(x):
    s = 1.0
    for i in range(x.shape[0]):
        s = s * np.sin(x[i]) + s
    return s


def newton(a):
    x = a
    while np.abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def triangle(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            total = total * x[j] + np.cos(total)
    return total


def nested_whiles(x):
    total, i = 0.0, 0
    while i < 3:
        y = x + i
        while y < 5.0:
            y = y * 1.5
            total = total + np.sin(y) * y
        i += 1
    return total


def restored_under_a_branch(x):
    a = x * 1.0
    for i in range(1, x.shape[0]):
        if x[i] > 0.0:
            a[i] = a[i] * a[i - 1] * x[i]
    return np.sum(a * a)


def function_of(fn: Any, *args: Any, argnums: Any = 0) -> core.Function:
    """The Core of a gradient."""
    return calque.grad(fn, argnums=argnums).program(*args).traced.function


def allocated(function: core.Function) -> list[core.Apply]:
    """The arrays allocated to save something."""
    return [
        s
        for s in core.walk(function.body)
        if isinstance(s, core.Apply) and s.primitive.name == "space for iterations"
    ]


def test_a_linear_sweep_saves_nothing() -> None:
    function = function_of(gauss_seidel, np.ones((5, 5)), np.ones((5, 5)), argnums=(0, 1))
    assert allocated(function) == []
    assert function.decisions == [] or all(d.how != "saved" for d in function.decisions)


def test_a_nonlinear_sweep_saves_one_array_indexed_by_the_counters() -> None:
    function = function_of(nonlinear_sweep, np.ones((5, 5)))
    (allocation,) = allocated(function)
    assert allocation.out.type.ndim == 2
    stores = [
        s
        for s in core.walk(function.body)
        if isinstance(s, core.Apply)
        and s.primitive.name == "update"
        and s.outs[0].name == allocation.out.name
    ]
    (store,) = stores
    loops = [s for s in core.walk(function.body) if isinstance(s, core.For)]
    assert [loops[0].index, loops[1].index] == list(store.args[2:])


def test_a_carried_scalar_is_saved_once() -> None:
    (allocation,) = allocated(function_of(recurrence, np.ones(4)))
    assert allocation.out.name == "s_saved"
    assert allocation.out.type.ndim == 1


def test_a_while_saves_into_an_array_that_doubles() -> None:
    function = function_of(newton, 2.0)
    (allocation,) = allocated(function)
    rooms = [
        s
        for s in core.walk(function.body)
        if isinstance(s, core.Apply) and s.primitive.name == "room"
    ]
    assert allocation.args == (16,)
    assert len(rooms) == 1


def test_every_version_is_restored_before_it_is_read() -> None:
    rng = np.random.default_rng(0)
    for fn in (restored_under_a_branch, nonlinear_sweep, triangle, recurrence):
        x = rng.uniform(-1.0, 1.0, (5, 5)) if fn is nonlinear_sweep else rng.uniform(-1.0, 1.0, 6)
        calque.check_grads(fn, (x,), order=2, rtol=1e-4, atol=1e-5)
    calque.check_grads(nested_whiles, (0.6,), order=2, rtol=1e-4, atol=1e-5)


def test_explain_names_what_is_saved_and_why() -> None:
    text = calque.explain(calque.grad(recurrence), np.ones(4))
    assert "s is saved: it is overwritten before the reverse phase reads it" in text
    nothing = calque.explain(
        calque.grad(gauss_seidel, argnums=(0, 1)), np.ones((5, 5)), np.ones((5, 5))
    )
    assert nothing.startswith("Nothing is saved")


def arm_of_growing_size(A, y):
    """One arm saves arrays of another size in each iteration; the other arm saves nothing."""
    n = A.shape[0]
    for i in range(n - 1):
        for j in range(2):
            if j > 0:
                A[i + 1 :, ::-1] += 0.2 * A[:, : n - i - 1].T * A[i + 1 :, ::-1]
            else:
                y = y * 0.5
    return np.sum(A * A) + np.sum(y * y)


def flat_rows(B, y):
    """A `while` within a `for`: trip counts vary, and rows get shorter with each iteration."""
    n = y.shape[0]
    for i in range(1, n - 1):
        w = 0.0
        while w < 2.5:
            B[0, i:-1] = B[0, i:-1] * np.sin(B[0, i:-1]) + 0.3 * y[i:-1] * y[: n - i - 1]
            w = w + 1.0
        B[max(i - 1, 0)] -= 0.3 * B[:, i]
    return np.sum(B * B)


@pytest.mark.parametrize("fn", [arm_of_growing_size, flat_rows], ids=lambda fn: fn.__name__)
def test_saved_rows_of_several_sizes(fn):
    rng = np.random.default_rng(4)
    for n in (4, 5):
        args, way = ((rng.normal(size=(n, n)), rng.normal(size=n)) for _ in range(2))
        found = calque.grad(fn, argnums=(0, 1))(*args)
        up, down = (fn(*(a + s * w for a, w in zip(args, way))) for s in (1e-6, -1e-6))
        got = sum(np.vdot(f, w) for f, w in zip(found, way, strict=True))
        assert np.isclose(got, (up - down) / 2e-6, rtol=1e-6)


def filled(w, n):
    x = np.full(n, 1 / n)
    for _ in range(3):
        x = x * x * w[0]
    return np.sum(x)


def of_two_sizes(w, n):
    x = np.zeros((n, 2 * n + 1))
    t = 0
    while t < 3:
        x = np.sin(x + w[0]) * w[1]
        x[:, 1:-1] = x[:, 2:] * x[:, :-2]
        t += 1
    return np.sum(x)


def left_by_a_break(w, n):
    x = np.zeros(n + 2)
    x[0] = 1.0
    for _ in range(n):
        x[1:-1] = x[1:-1] + w[0] * (x[2:] - 2 * x[1:-1] + x[:-2]) ** 2
        if x[1] > 0.6:
            break
    return x @ x


@pytest.mark.parametrize("fn", [filled, of_two_sizes, left_by_a_break], ids=lambda fn: fn.__name__)
def test_arrays_sized_by_an_integer_argument(fn):
    w = np.array([0.4, 0.7])
    for n in (2, 5):
        slopes = [(fn(w + s, n) - fn(w - s, n)) / 2e-6 for s in 1e-6 * np.eye(2)]
        np.testing.assert_allclose(calque.grad(fn)(w, n), slopes, rtol=1e-6, atol=1e-9)


def rows_until_a_pivot_is_small(A):
    n = A.shape[0]
    for k in range(n):
        if abs(A[k, k]) < 0.3:
            break
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            A[i, k + 1 :] -= A[i, k] * A[k, k + 1 :]
    return np.sum(A * A)


@pytest.mark.parametrize("pivot", [0.1, 4.0])
def test_rows_that_shrink_in_a_loop_that_breaks(pivot):
    A = np.random.default_rng(5).normal(size=(5, 5)) * 0.2 + np.diag([2.0, 3.0, pivot, 3.0, 2.0])
    found = calque.grad(rows_until_a_pivot_is_small)(A)
    for i, j in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[i, j] = 1e-6
        up, down = map(rows_until_a_pivot_is_small, (A + step, A - step))
        np.testing.assert_allclose(found[i, j], (up - down) / 2e-6, rtol=1e-5, atol=1e-7)


def turned_by_a_test(x, k):
    if k > 2:
        return x * 2
    return -x


def turned_by_iterations(x, k):
    for i in range(k):
        x = x * 3 if i > 2 else -x
    return x


@pytest.mark.parametrize("function", [turned_by_a_test, turned_by_iterations])
@pytest.mark.parametrize("x", [1.5, np.float32(1.5), np.ones(2), np.ones(2, np.float32)])
def test_a_gradient_has_the_dtype_where_arms_give_whole_numbers(function, x):
    for k in (0, 1, 5):
        gradient = calque.grad(lambda x, k: np.sum(function(x, k)))(x, k)
        assert np.asarray(gradient).dtype == np.asarray(x).dtype
        np.testing.assert_array_equal(gradient, function(np.ones_like(x), k))


def test_what_each_of_many_statements_uses_twice_is_looked_at_once(monkeypatch):
    """Else a loop of forty such statements takes two to the power of forty questions."""
    asked, before = [], Recorder._is_cheap

    def counted(self, value, definitions):
        asked.append(value)
        assert len(asked) < 5000
        return before(self, value, definitions)

    def loss(x, n):
        y = x
        for _ in range(n):
            for _ in [None] * 40:
                y = y * (1.9 - y) + 0.1 * x
            y = np.cos(y)
        return np.sum(y)

    monkeypatch.setattr(Recorder, "_is_cheap", counted)
    x, way, step = np.array([0.9, 1.1, 1.3]), np.array([1.0, -0.5, 0.3]), 1e-6
    slope = (loss(x + step * way, 3) - loss(x - step * way, 3)) / (2.0 * step)
    np.testing.assert_allclose(calque.grad(loss)(x, 3) @ way, slope, rtol=1e-6, atol=1e-9)
    assert asked
