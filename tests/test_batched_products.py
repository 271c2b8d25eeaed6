"""Products of a few rows in each iteration are one product for all, before or after a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.ir import dims

pytest.importorskip("numba")


def recurrent(W, U, x):
    """A batch of sequences, time first."""
    h = np.zeros((x.shape[1], U.shape[0]))
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ W + h @ U)
    return np.sum(h**2)


def time_second(W, U, x):
    h = np.zeros((x.shape[0], U.shape[0]))
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W + h @ U)
        states.append(h)
    return np.sum(np.stack(states, axis=1) ** 2)


def backward(W, U, x):
    h = np.zeros((x.shape[1], U.shape[0]))
    for t in range(x.shape[0] - 1, 0, -1):
        h = np.tanh(x[t - 1] @ W + h @ U)
    return np.sum(h**2)


def two_inputs(W, U, x):
    """One matrix in two products, one of them with a part of the rows."""
    h = np.zeros((x.shape[1], U.shape[0]))
    for t in range(1, x.shape[0]):
        h = np.tanh(x[t] @ W - 0.5 * (x[t - 1] @ W) + h @ U)
    return np.sum(h**2)


def summed_products(W, U, x):
    """Products of matrices that are added up, with a transpose on either side, and without."""
    a, b, c = np.zeros_like(W), np.zeros_like(W), np.zeros((x.shape[1], x.shape[1]))
    for t in range(x.shape[0]):
        y = np.sin(x[t])
        a = a + x[t].T @ y
        b = b - y.T @ x[t]
        c = c + y @ x[t].T
    return np.sum(a * W) + np.sum(b * U) + np.sum(np.cos(c))


def changing(W, U, x):
    """The matrix is another in each iteration: nothing can be hoisted."""
    h = np.zeros((x.shape[1], U.shape[0]))
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ W + h @ U)
        W = W * 0.9
    return np.sum(h**2)


def read_inside(W, U, x):
    """The sum is read in the loop: it cannot be sunk."""
    a, total = np.zeros_like(W), 0.0
    for t in range(x.shape[0]):
        a = a + x[t].T @ np.sin(x[t])
        total += np.sum(a * U)
    return total


PROGRAMS = [
    *(recurrent, time_second, backward, two_inputs, summed_products, changing, read_inside),
]


def inputs(iterations: int, batch: int, size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(4)
    W, U = rng.normal(size=(2, size, size)) / size**0.5
    return W, U, rng.normal(size=(iterations, batch, size))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(program: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(dims, "SMALL", 0)
    value, slopes = calque.jit(program), calque.jit(calque.grad(program, (0, 1, 2)))
    plain = calque.grad(program, (0, 1, 2))
    for sizes in ((5, 3, 4), (2, 2, 2), (1, 3, 2), (4, 1, 3), (0, 3, 4), (3, 40, 3)):
        args = inputs(*sizes)
        if program is time_second:
            if not sizes[0]:
                continue  # there is nothing to stack
            args = (*args[:2], np.ascontiguousarray(np.moveaxis(args[2], 0, 1)))
        np.testing.assert_allclose(value(*args), program(*args), rtol=1e-10)
        for found, other in zip(slopes(*args), plain(*args), strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch", [4, 64])
def test_few_rows_are_multiplied_together(batch: int) -> None:
    args = inputs(30, batch, 32)
    slopes = calque.jit(calque.grad(recurrent, (0, 1)))
    launcher = calque.source(slopes, *args, stage="kernels").partition("_jit(")[2]
    inside = [line for line in launcher.splitlines() if line.startswith("        ")]
    assert any("@ W" in line for line in inside) is (batch > 32)
    assert launcher.count("np.tensordot") == (3 if batch < 32 else 0)
    for found, other in zip(slopes(*args), calque.grad(recurrent, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-12)
