"""Memory that rounds of a loop make anew is made once, and holds what it should."""

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
    """A new vector in each round, read in the next as another name's old value."""
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
    """What a round makes the next one reads: two pieces of memory are needed."""
    h = x
    for k in range(4):
        h = np.tanh(A[k] @ h)
    return np.sum(h * h)


def kept(A, x):
    """A view of what a round makes is read after the loop."""
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
def test_no_round_makes_an_array(fn: Callable[..., Any]) -> None:
    source = calque.jit(fn).source(A, X, stage="kernels")
    assert not re.search(r"^ {8,}\w+ = np\.(empty|full|zeros)", source, re.MULTILINE), source


def test_two_pieces_of_memory_take_turns() -> None:
    def last(W, h, rounds):
        for _ in range(rounds):
            h = np.tanh(W @ h)
        return h

    source = calque.jit(last).source(A[0], X, 3, stage="kernels")
    assert "h, h_new = h_new, h" in source, source
    for rounds in (0, 1, 2, 5):
        given = X.copy()
        found = calque.jit(last)(A[0], given, rounds)
        np.testing.assert_allclose(found, last(A[0], X, rounds), rtol=1e-13)
        found[:] = 0.0
        np.testing.assert_array_equal(given, X)
    found = calque.jit(last)(A[0].T, np.repeat(X, 2)[::2], 3)
    np.testing.assert_allclose(found, last(A[0].T, X, 3), rtol=1e-13)


def test_compiled() -> None:
    fn = in_a_branch
    assert np.isclose(calque.jit(fn)(A, X), fn(A, X), rtol=1e-13)
    found = calque.jit(calque.vmap(fn, in_axes=(None, 0)))(A, np.stack([X, -X, 2 * X]))
    np.testing.assert_allclose(found, [fn(A, X), fn(A, -X), fn(A, 2 * X)], rtol=1e-12)
