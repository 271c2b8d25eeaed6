"""Products of matrices within loops: loops of their own where they are small in the call at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(3)


def powers(a, b):
    total = np.zeros_like(b)
    for k in range(3):
        b = a @ b * (1.0 / (k + 1))
        total += b
    return total


def transposed(a, b):
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(3):
        total = total + (a * k) @ b.T.copy().T + a.T @ b - (b.T @ a.T).T
    return total


def inner(a, b):
    total = np.zeros((a.shape[0], b.shape[0]))
    for k in range(3):
        total += np.inner(a * k, b)
        total[0] += np.inner(a[k], b)
    return total


def conjugated(a, b):
    total = 0.0j
    for k in range(3):
        total += np.vdot(a[k] * (1.0 + 2.0j), b[k] * 1.0j)
        total += (a * 1.0j)[k] @ b[k]
    return total


def growing(a, b):
    total = np.zeros_like(a)
    for k in range(a.shape[0]):
        total[:k] += a[:k, :k] @ b[:k]
    return total


def flattened(a, b):
    total = 0.0
    for k in range(3):
        total += k * np.vdot(a, b)
    return total


CASES = [powers, transposed, inner, conjugated, growing, flattened]


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_values(fn: Callable[..., Any], n: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    if n < 3 and fn in (inner, conjugated):
        n = 4
    a, b = RNG.normal(size=(n, n)), RNG.normal(size=(n, n))
    np.testing.assert_allclose(calque.jit(fn)(a, b), fn(a, b), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fn", [powers, transposed, inner, growing, flattened], ids=lambda fn: fn.__name__)
def test_slopes(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    a, b, u, v = (RNG.normal(size=(4, 4)) for _ in range(4))
    gradient = calque.jit(calque.grad(lambda a, b: np.sum(np.sin(fn(a, b))), argnums=(0, 1)))
    a_bar, b_bar = gradient(a, b)
    step = 1e-6
    up, down = (np.sum(np.sin(fn(a + s * u, b + s * v))) for s in (step, -step))
    assert np.isclose(np.vdot(a_bar, u) + np.vdot(b_bar, v), (up - down) / (2 * step), rtol=1e-6)


def test_one_program_for_the_small_and_one_for_the_large() -> None:
    compiled = calque.jit(powers)
    for n in (3, 5, 7, 100, 120, 4):
        a, b = RNG.normal(size=(n, n)), RNG.normal(size=(n, n))
        np.testing.assert_allclose(compiled(a, b), powers(a, b), rtol=1e-11, atol=1e-11)
    assert compiled.cache_info().programs == 2
    small, large = (compiled.source(np.ones((n, n)), np.ones((n, n)), stage="kernels") for n in (3, 99))
    code = "\n".join(line for line in small.splitlines() if "#" not in line)
    assert "@ " not in code, small
    assert "a @ b" in large.split("def powers_jit")[1], large


def test_captured_arrays_are_small_too(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    held = {"a": RNG.normal(size=(4, 4))}

    def fn(b):
        return powers(held["a"], b)

    compiled = calque.jit(fn)
    for n in (4, 60, 5):
        held["a"], b = RNG.normal(size=(n, n)), RNG.normal(size=(n, n))
        np.testing.assert_allclose(compiled(b), fn(b), rtol=1e-11, atol=1e-11)
        assert ("held_a @ b_updated" in compiled.source(b, stage="kernels").split("def fn_jit")[1]) == (n == 60)
