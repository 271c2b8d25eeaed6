"""Numbers that scale a matrix in a product scale the product instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(4)
A, B, X = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=4)


def scaled(a, A, B, x):
    return a * A @ x


def both(a, A, B, x):
    return (a * A) @ (B * -2.0) + A


def transposed(a, A, B, x):
    return np.sum((x @ (A * a).T) ** 3)


def kept_too(a, A, B, x):
    """The scaled matrix is needed itself."""
    C = a * A
    return C @ x + C[0]


def rows_scaled(a, A, B, x):
    """By a vector: no factor of the product."""
    return (x[:, None] * A) @ x + (A * x) @ x


def integers(a, A, B, x):
    """The product is one of floats because of the factor."""
    return (a * (A > 0.0)) @ (x > 0.0)


PROGRAMS = [scaled, both, transposed, kept_too, rows_scaled, integers]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_numbers(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    for a in (1.5, np.float64(-0.5), 2, np.float32(0.25)):
        found = calque.jit(fn)(a, A, B, X)
        want = fn(a, A, B, X)
        np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-13)
        assert np.asarray(found).dtype == np.asarray(want).dtype
    single = [v.astype(np.float32) for v in (A, B, X)]
    found = calque.jit(fn)(1.5, *single)
    np.testing.assert_allclose(found, fn(1.5, *single), rtol=1e-5, atol=1e-5)
    assert np.asarray(found).dtype == np.asarray(fn(1.5, *single)).dtype


@pytest.mark.parametrize("fn", [scaled, both, transposed, kept_too], ids=lambda fn: fn.__name__)
def test_gradients(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")

    def loss(*args):
        return np.sum(fn(*args) ** 2)

    args, way = (1.5, A, B, X), (0.3, *RNG.normal(size=(2, 4, 4)), RNG.normal(size=4))
    found = calque.jit(calque.grad(loss, argnums=(0, 1, 2, 3)))(*args)
    up, down = (loss(*(v + s * w for v, w in zip(args, way))) for s in (1e-6, -1e-6))
    slope = sum(np.vdot(f, w) for f, w in zip(found, way, strict=True))
    assert np.isclose(slope, (up - down) / 2e-6, rtol=1e-6)


def test_no_matrix_is_scaled() -> None:
    source = calque.jit(scaled).source(1.5, A, B, X, stage="kernels")
    assert "A @ x" in source and "np.empty((" not in source, source
