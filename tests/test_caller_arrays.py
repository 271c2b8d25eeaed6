"""What a compiled function leaves in the caller's arrays: what plain Python leaves there, or a refusal."""

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
    for rounds in (0, 1, 3):
        plain, given = np.linspace(0.5, 1.5, 6), np.linspace(0.5, 1.5, 6)
        wanted, found = fn(plain, rounds), calque.jit(fn)(given, rounds)
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
