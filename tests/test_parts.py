"""Computed parts are written directly into the array that is assembled from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(12)
X, Y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))

COMPUTED: dict[str, Callable[..., Any]] = {
    "stack": lambda x, y: np.stack([x + y, x * y], axis=1),
    "stack last": lambda x, y: np.stack([x + y, y], axis=-1),
    "concatenate": lambda x, y: np.concatenate([np.sin(x), y, x * 2], axis=1),
    "hstack": lambda x, y: np.hstack([x, np.sin(y)]),
    "vstack": lambda x, y: np.vstack([x * y, y[:1]]),
    "dtypes": lambda x, y: np.concatenate([x > 0, 1j * y]),
    "columns": lambda x, y: np.hstack([x[:, :1] * 2, y[:, 1:] + 1]),
}


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("rows", [slice(None), slice(0, 0), slice(None, None, -2)])
def test_same_as_numpy(name: str, rows: slice) -> None:
    fn = COMPUTED[name]
    got, want = calque.jit(fn)(X[rows], Y[rows]), fn(X[rows], Y[rows])
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_parts_are_not_copied(name: str) -> None:
    text = calque.source(calque.jit(COMPUTED[name]), X, Y, stage="kernels")
    code = "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))
    assert "stack" not in code
    assert "np.concatenate" not in code


def test_parts_at_hand_are_numpys() -> None:
    text = calque.source(calque.jit(lambda x, y: np.concatenate([x, y])), X, Y)
    assert "np.concatenate" in text


def differences(y):
    """The last element is stored alone, and read by another name of its place."""
    s = np.zeros_like(y)
    s[1:-1] = y[2:] - y[:-2]
    s[-1:] = y[-1:] - y[-2:-1]
    n = y[:-1].shape[0]
    t = s[n:] * 3.0
    return np.sum(t * t) + np.sum(s)


def slopes(y):
    return np.sum(np.gradient(y, 0.5) ** 3)


@pytest.mark.parametrize("fn", [differences, slopes])
def test_what_an_iteration_writes_is_not_read_from_before(fn: Callable[..., Any]) -> None:
    y = RNG.normal(size=6)
    np.testing.assert_allclose(calque.jit(fn)(y), fn(y), rtol=1e-13)
    h = 1e-6
    expected = [(fn(y + h * e) - fn(y - h * e)) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(y), expected, rtol=1e-7, atol=1e-8)
