"""A compiled function leaves in the caller's arrays what plain Python leaves, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors


def carried_and_returned(u, n):
    count = 0
    while count < n:
        old = u.copy()
        u[1:-1] = old[:-2] + old[2:]
        u[0] = 0.0
        change = (np.sum(u) - np.sum(old)) / np.sum(u)
        if change > 1e9:
            break
        count += 1
    return count, u


def returned_in_parts(u, n):
    first = u[:2]
    while n > 0:
        old = u.copy()
        u[1:] = old[:-1] + first[0] * np.sum(old)
        n -= 1
    return u[1:], first, u


def returned_beside_an_older_one(u, n):
    older = u.copy()
    for _ in range(n):
        old = u.copy()
        u[:] = old[::-1] * np.sum(old)
    return older, 2.0 * u, u


@pytest.mark.parametrize("fn", [carried_and_returned, returned_in_parts, returned_beside_an_older_one])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_caller_finds_what_plain_python_leaves(
    fn: Callable[..., Any], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setenv("CALQUE_JIT", "0")
    for iterations in (0, 1, 3):
        plain, given = np.linspace(0.5, 1.5, 6), np.linspace(0.5, 1.5, 6)
        wanted, found = fn(plain, iterations), calque.jit(fn)(given, iterations)
        np.testing.assert_allclose(given, plain, rtol=1e-13)
        for one, other in zip(wanted, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-13)
            assert (other is given) == (one is plain)


def swapped_in_a_loop(u, n):
    out = np.zeros_like(u)
    for _ in range(n):
        out[1:-1] = u[:-2] + u[2:]
        u, out = out, u
    return u + out


def test_which_array_a_store_hits_must_be_known() -> None:
    """After the swaps nobody knows what the caller's array holds: refused, with the store's line."""
    u = np.arange(5.0)
    with pytest.raises(errors.AliasUndecided) as caught:
        calque.jit(swapped_in_a_loop)(u, 3)
    assert "out[1:-1] = u[:-2] + u[2:]" in str(caught.value)
    assert "argument u of the call" in str(caught.value)
    on_a_copy = calque.jit(lambda u, n: swapped_in_a_loop(u.copy(), n))
    assert np.array_equal(on_a_copy(u, 3), swapped_in_a_loop(u.copy(), 3))
    assert np.array_equal(u, np.arange(5.0))


def test_transformations_work_on_copies_and_may_swap() -> None:
    u = np.linspace(0.5, 1.5, 6)
    total = lambda u: np.sum(swapped_in_a_loop(u, 3) ** 2)  # noqa: E731
    way, step = np.cos(np.arange(6.0)), 1e-6
    slope = (total(u + step * way) - total(u - step * way)) / (2 * step)
    for gradient in (calque.grad(total), calque.jit(calque.grad(total))):
        assert np.isclose(np.sum(gradient(u) * way), slope, rtol=1e-7)


def test_shared_memory_is_seen_at_every_call() -> None:
    """Also once calls of these shapes take the short way."""

    def into(a, b):
        a[1:] += b[:-1]
        return np.sum(a * b)

    fn, buffer = calque.jit(into), np.arange(12.0)
    for _ in range(4):
        a, b = np.arange(5.0), np.ones(5)
        assert fn(a, b) == into(np.arange(5.0), np.ones(5))
        np.testing.assert_array_equal(a, [0.0, 2.0, 3.0, 4.0, 5.0])
    with pytest.raises(errors.AliasUndecided):
        fn(buffer[:5], buffer[3:8])
    for _ in range(2):  # beside each other in one buffer: they share nothing
        buffer = np.arange(12.0)
        assert fn(buffer[:10:2], buffer[1:11:2]) == into(np.arange(0.0, 10, 2), np.arange(1.0, 11, 2))


def test_an_array_that_is_filled_anew_shares_no_memory_either() -> None:
    """A store to all of ``b`` is its value in Core, no store: ``a`` was read before or after it."""

    def anew(a, b):
        b[...] = 0.5 * b[::-1]
        return a + 1.0

    fn, buffer = calque.jit(anew), np.arange(5.0)
    for _ in range(2):
        a, b = np.arange(4.0), np.ones(4)
        np.testing.assert_array_equal(fn(a, b), a + 1.0)
        np.testing.assert_array_equal(b, np.full(4, 0.5))
        for shared in ((b, b), (buffer[1:], buffer[:-1])):
            with pytest.raises(errors.AliasUndecided, match="b is stored into, and shares memory"):
                fn(*shared)


def test_nested_arguments_of_other_structure_are_other_arguments() -> None:
    def total(tree):
        return sum((k + 1) * np.sum(v) for k, v in enumerate(tree.values()))

    fn = calque.jit(total)
    one, two = np.ones(3), np.full(3, 2.0)
    for _ in range(3):
        assert fn({"a": one, "b": two}) == 15.0
        assert fn({"b": two, "a": one}) == 12.0
        assert fn({"a": one}) == 3.0

    def first(pair):
        return pair[0] * 2.0 if isinstance(pair, list) else pair[0] * 3.0

    fn = calque.jit(first)
    for _ in range(3):
        assert fn([2.0, 1.0]) == 4.0
        assert fn((2.0, 1.0)) == 6.0
        assert fn([2, 1]) == 4.0 and type(fn([2, 1])) is float


def copied_before_a_branch(u, n):
    w = u.copy()
    if n > 2:
        w = w * 0.5
    return w


def copied_before_iterations(u, n):
    w = u.copy()
    for _ in range(n):
        w = w + u @ w
    return w


def kept_from_an_earlier_iteration(u, n):
    """``last`` is a copy of what ``w`` was, and so is ``best``."""
    w, best = 2.0 * u, u.copy()
    last = w.copy()
    for k in range(n):
        last = w.copy()
        w = w * 0.5
        if k == 1:
            best = w.copy()
    return w, last, best


def exchanged_copies(u, n):
    v, w = u.copy(), u.copy()
    for _ in range(n):
        v, w = w, w @ w * v
    return v, w


def stored_and_copied(u, n):
    u[0] = 1.0
    w = u.copy()
    if n > 2:
        w = w * 0.5
    return w


def both_hand_on(u, n):
    v = 2.0 * u
    if n > 2:
        w, z = v, v.copy()
    else:
        w, z = v * 0.5, v * 0.25
    return w, z


def returned_again(u, n):
    """Here ``w`` and its part are one memory, as in Python."""
    w = u.copy()
    return w, w, w[1:]


def slope_is_an_argument(u, n):
    c = u + 1.0
    return calque.grad(lambda x, c: c @ x if n > 2 else np.sum(x))(u, c), c


def test_what_is_returned_again_is_not_the_caller_s() -> None:
    u = np.arange(4.0)
    one, same, part = calque.jit(returned_again)(u, 1)
    assert one is same
    for found in (one, part):
        found += 1.0
    np.testing.assert_array_equal(u, np.arange(4.0))


APART = [
    copied_before_a_branch, copied_before_iterations, kept_from_an_earlier_iteration, exchanged_copies,
    stored_and_copied, both_hand_on, slope_is_an_argument,
]


@pytest.mark.parametrize("fn", APART)
def test_results_share_no_memory_on_any_path(
    fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a branch is not taken, or a loop has no iterations."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    for n in (0, 1, 3):
        plain, given = np.linspace(0.5, 1.5, 6), np.linspace(0.5, 1.5, 6)
        wanted, found = fn(plain, n), calque.jit(fn)(given, n)
        wanted, found = (a if isinstance(a, tuple) else (a,) for a in (wanted, found))
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
        arrays = [given, *found]
        for k, one in enumerate(arrays):
            assert not any(np.shares_memory(one, other) for other in arrays[:k])


def test_a_gradient_that_is_an_argument_on_one_path_is_a_copy() -> None:
    def loss(x, c):
        return c @ x if x[0] > 0.0 else np.sum(x)

    x, c = np.ones(3), np.arange(3.0)
    for fn in (calque.grad(loss), calque.jit(calque.grad(loss))):
        slope = fn(x, c)
        slope *= 2.0
        np.testing.assert_array_equal(c, np.arange(3.0))


@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "jit"])
def test_who_asks_for_a_derivative_may_store_into_it(compiled):
    """An adjoint that is the same in all places is no view for reading alone."""

    def shifted(x, beta):
        return np.sum(np.sum(x * x + beta, axis=1) ** 2)

    def squared(x):
        return np.sum(x) ** 2

    def spread(x):
        return x, 2.0 * np.ones(3)

    compile_ = calque.jit if compiled else lambda f: f
    x, beta = np.arange(12.0).reshape(4, 3), np.ones(3)
    gradient = compile_(calque.grad(shifted, argnums=1))(x, beta)
    step = 1e-6
    for k in range(3):
        other = beta.copy()
        other[k] += step
        slope = (shifted(x, other) - shifted(x, beta)) / step
        assert abs(gradient[k] - slope) < 1e-4 * slope
    curvature = compile_(calque.hessian(squared))(beta)
    np.testing.assert_array_equal(curvature, np.full((3, 3), 2.0))
    batched = compile_(calque.vmap(spread))(np.arange(4.0))[1]
    for found in (gradient, curvature, batched):
        before = found.copy()
        found[(0,) * found.ndim] += 1.0  # and no other element moves with it
        before[(0,) * found.ndim] += 1.0
        np.testing.assert_array_equal(found, before)
