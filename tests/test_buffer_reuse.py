"""Memory that each iteration would allocate is allocated once, and holds the right numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(3)


def products(A, x):
    """A new vector in each iteration, read in the next as the old value of another name."""
    total = 0.0
    for k in range(4):
        y = A[k] @ x
        z = np.zeros(3)
        z[1:] = y[:-1] * k
        total = total + np.sum(y * z) + z[0]
    return total


def in_a_branch(A, x):
    """Made in an arm only: where it is not taken, nothing may be read of it."""
    out = np.zeros(3)
    for k in range(4):
        if x[k % 3] > 0.0:
            y = A[k] @ x
            out += y * y
        else:
            out[k % 3] -= x[k % 3]
    return np.sum(out * out)


def handed_on(A, x):
    """Each iteration reads the array that the iteration before made: two buffers are needed."""
    h = x
    for k in range(4):
        h = np.tanh(A[k] @ h)
    return np.sum(h * h)


def kept(A, x):
    """A view of an array that an iteration makes is read after the loop."""
    last = x[1:]
    for k in range(4):
        y = A[k] @ x
        last = y[1:]
    return np.sum(last**3)


def of_changing_size(A, x):
    total = 0.0
    for k in range(4):
        y = A[k][:, : k % 3] @ x[: k % 3]
        total = total + np.sum(y**3)
    return total


def in_while(A, x):
    k, total = 0, 0.0
    while k < 4 and total < 100.0:
        y = A[k] @ x
        total = total + np.sum(y * y)
        k += 1
    return total


PROGRAMS = [products, in_a_branch, handed_on, kept, of_changing_size, in_while]
A, X = RNG.normal(size=(4, 3, 3)), RNG.normal(size=3)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_numbers(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    given = A.copy(), X.copy()
    assert np.isclose(calque.jit(fn)(*given), fn(A, X), rtol=1e-13)
    found = calque.jit(calque.grad(fn, argnums=(0, 1)))(*given)
    way = RNG.normal(size=A.shape), RNG.normal(size=3)
    up, down = (fn(A + s * way[0], X + s * way[1]) for s in (1e-6, -1e-6))
    slope = sum(np.vdot(f, w) for f, w in zip(found, way, strict=True))
    assert np.isclose(slope, (up - down) / 2e-6, rtol=1e-6)
    np.testing.assert_array_equal(given[0], A)
    np.testing.assert_array_equal(given[1], X)


@pytest.mark.parametrize("fn", [products, in_a_branch, in_while], ids=lambda fn: fn.__name__)
def test_no_iteration_makes_an_array(fn: Callable[..., Any]) -> None:
    source = calque.jit(fn).source(A, X, stage="kernels")
    assert not re.search(r"^ {8,}\w+ = np\.(empty|full|zeros)", source, re.MULTILINE), source


def test_two_pieces_of_memory_take_turns() -> None:
    def last(W, h, iterations):
        for _ in range(iterations):
            h = np.tanh(W @ h)
        return h

    source = calque.jit(last).source(A[0], X, 3, stage="kernels")
    assert "h, h_after = h_after, h" in source, source
    for iterations in (0, 1, 2, 5):
        given = X.copy()
        found = calque.jit(last)(A[0], given, iterations)
        np.testing.assert_allclose(found, last(A[0], X, iterations), rtol=1e-13)
        found[:] = 0.0
        np.testing.assert_array_equal(given, X)
    found = calque.jit(last)(A[0].T, np.repeat(X, 2)[::2], 3)
    np.testing.assert_allclose(found, last(A[0].T, X, 3), rtol=1e-13)


def test_compiled() -> None:
    fn = in_a_branch
    assert np.isclose(calque.jit(fn)(A, X), fn(A, X), rtol=1e-13)
    found = calque.jit(calque.vmap(fn, in_axes=(None, 0)))(A, np.stack([X, -X, 2 * X]))
    np.testing.assert_allclose(found, [fn(A, X), fn(A, -X), fn(A, 2 * X)], rtol=1e-12)


def shrinking(x):
    """The array that an iteration makes has the size of an array that shrinks."""
    h, total = x, 0.0
    for k in range(3):
        y = np.zeros(h.shape[0])
        for i in range(h.shape[0]):
            y[i] = h[i] * (k + 1)
        total = total + np.sum(y * y) + y[-1]
        h = h[1:]
    return total


def growing(x, n):
    h, total = x[:1], 0.0
    for k in range(1, n):
        y = np.ones(h.shape[0])
        y[0] = h[-1]
        total = total + np.sum(y * h) + y.shape[0]
        h = x[: k + 1] * 1.0
    return total


def growing_rows(x):
    h, total = x[:1], 0.0
    for k in range(1, 5):
        y = np.zeros(h.shape[0])
        for i in range(h.shape[0]):
            y[i] = h[i] * k
        total = total + np.sum(y * y)
        h = x[: k + 1]
    return total


def rotating(x, n):
    """Three arrays in turn: an array made in one iteration is still read two iterations later."""
    h, before = x * 1.0, x * 0.5
    for _ in range(n):
        new = np.empty(x.shape[0])
        for i in range(x.shape[0]):
            new[i] = h[i] + before[x.shape[0] - 1 - i]
        before = h
        h = new
    return np.sum(h * x) + np.sum(before)


def test_an_array_that_is_still_read_is_not_written_into() -> None:
    x = np.arange(1.0, 6.0)
    for n in (0, 1, 2, 5):
        assert np.isclose(calque.jit(rotating)(x, n), rotating(x, n), rtol=1e-14)
    assert ".copy()" not in calque.jit(rotating).source(x, 3)


def doubling(x):
    h = x
    for _ in range(3):
        h = np.concatenate([h, h * 2.0])
    return np.sum(h * h)


def lagging(x):
    """The size in an iteration is that of the iteration before."""
    h = x[:1]
    for k in range(1, 5):
        h = np.sin(x[: k + 1] * h.shape[0])
    return np.sum(h * h)


def dropping(x):
    h, total = x, 0.0
    for _ in range(3):
        total = total + np.sum(h)
        h = h[1:] * x[1:].shape[0]
    return total + np.sum(h)


@pytest.mark.parametrize("fn", [doubling, lagging, dropping])
def test_gradients_where_sizes_change_from_iteration_to_iteration(fn: Any) -> None:
    x = np.arange(1.0, 7.0) / 5
    want = [(fn(x + e) - fn(x - e)) / 2e-6 for e in np.eye(6) * 1e-6]
    np.testing.assert_allclose(calque.grad(fn)(x), want, rtol=1e-6)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(x), want, rtol=1e-6)


def test_sizes_that_change_from_iteration_to_iteration() -> None:
    x = np.arange(1.0, 7.0)
    assert calque.jit(shrinking)(x) == shrinking(x)
    assert calque.jit(growing)(x, 6) == growing(x, 6)
    assert calque.jit(growing_rows)(x) == growing_rows(x)
    ends = [growing_rows(x + e) - growing_rows(x - e) for e in np.eye(6) * 1e-6]
    for gradient in (calque.grad(growing_rows), calque.jit(calque.grad(growing_rows))):
        np.testing.assert_allclose(gradient(x), np.array(ends) / 2e-6, rtol=1e-6)


def stored_in_iterations(x, A):
    """Each iteration allocates an array with the size of another one that was hoisted before it."""
    n = len(x)
    k, z = n // 2, x * 2.0
    for i in range(n):
        while k < n:
            x = np.where(x > A[0, i], x, z)
            z[n - 1 - k] -= z[i] * A[i, i]
            k += 1
    z[:-1] += 0.5 * z[1:]
    return np.sum(x) + np.sum(z * z)


def test_a_size_of_memory_that_was_moved_before() -> None:
    x, A = RNG.random((2, 3)), RNG.random((2, 3, 3))
    found = calque.jit(calque.vmap(calque.grad(stored_in_iterations)))(x, A)
    for row, a, got in zip(x, A, found, strict=True):
        ends = [
            stored_in_iterations(row + e, a) - stored_in_iterations(row - e, a) for e in np.eye(3) * 1e-6
        ]
        np.testing.assert_allclose(got, np.array(ends) / 2e-6, rtol=1e-6)


def first_set_in_an_inner_loop(c):
    """An array read after the inner loop has no value before that loop's first iteration."""
    out = np.zeros(3)
    for i in range(3):
        d = np.array([i * 1.0, 1.0, 2.0])
        t = 0.0
        for _ in range(4):
            p = t * d
            s = np.sum(p * c) + 0.1
            if s < 1e-6:
                break
            t = t + s * 0.1
        out[i] = p[0]
    return out


def test_memory_that_no_iteration_has_left_yet() -> None:
    c = np.array([0.3, 0.2, 0.1])
    expected = first_set_in_an_inner_loop(c)
    np.testing.assert_allclose(calque.jit(first_set_in_an_inner_loop)(c), expected)


def smaller_in_iterations(v):
    s = 0.0
    for i in range(v.shape[0] - 3):
        z = np.sin(v)
        for _ in range(2):
            z = z[1:] * z[:-1]
        s = s + np.sum(z**2)
    return s


def smaller_in_an_arm(v):
    s = 0.0
    for i in range(v.shape[0]):
        z = np.zeros(v.shape[0])
        z[i] = 2.0
        if v[i] > 0.3:
            z = np.zeros(3)
            z[1] = v[i]
        for k in range(len(z)):
            s = s + z[k] * v[k]
    return s


@pytest.mark.parametrize("function", [smaller_in_iterations, smaller_in_an_arm])
def test_memory_of_another_size_is_not_left_to_the_next_iteration(function) -> None:
    v = np.linspace(0.1, 1.0, 8)
    found = calque.jit(function, boundscheck=True)(v)
    np.testing.assert_allclose(found, function(v), rtol=1e-12)
