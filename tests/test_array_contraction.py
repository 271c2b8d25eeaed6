"""Array contraction: an array of which each iteration uses its own row shrinks to one row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(11)


def softmax_loss(x):
    power = np.exp(x - np.max(x, axis=-1, keepdims=True))
    p = power / np.sum(power, axis=-1, keepdims=True)
    return np.sum(p * p)


def layer_norm_loss(x):
    away = x - np.mean(x, axis=-1, keepdims=True)
    normed = np.tanh(away / np.sqrt(np.mean(away**2, axis=-1, keepdims=True) + 1e-5))
    return np.sum(normed**3)


def convolution(x, w):
    n, k = x.shape[1], w.shape[0]
    out = np.empty((x.shape[0], n - k + 1, w.shape[1]))
    for j in range(n - k + 1):
        out[:, j] = np.sum(x[:, j : j + k, np.newaxis] * w, axis=1)
    return out


def neighbouring_rows(x):
    """An iteration reads an element that another one wrote."""
    power = np.empty_like(x)
    total = np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        power[i] = np.exp(x[i])
        total += power[i] * power[max(i - 1, 0)]
    return total


def read_after(x):
    power = np.empty_like(x)
    total = 0.0
    for i in range(x.shape[0]):
        power[i] = np.exp(x[i])
        total += np.sum(power[i] * x[i])
    return power * total


def columns(x):
    """The loop goes along the second axis."""
    power = np.empty_like(x)
    out = np.empty(x.shape[1])
    for j in range(x.shape[1]):
        largest = 0.0
        for i in range(x.shape[0]):
            power[i, j] = np.exp(x[i, j])
            largest = max(largest, power[i, j])
        total = 0.0
        for i in range(x.shape[0]):
            total += power[i, j] / largest
        out[j] = total
    return out


X = RNG.normal(size=(5, 7))
GRADIENTS = [softmax_loss, layer_norm_loss]


@pytest.mark.parametrize("fn", GRADIENTS)
def test_gradients_of_rows_make_no_array_but_the_result(fn: Callable[..., Any]) -> None:
    whole = calque.jit(calque.grad(fn))
    expected = np.array([complex_step(fn, X, k) for k in range(X.size)]).reshape(X.shape)
    np.testing.assert_allclose(whole(X), expected, rtol=1e-10, atol=1e-13)
    made = re.findall(r"np\.empty\((.*)\)", calque.source(whole, X))
    assert [m for m in made if m.startswith("(")] == ["(x.shape[0], x.shape[1])"]


def complex_step(fn: Callable[..., Any], x: np.ndarray, k: int) -> float:
    """The derivative by one element; a maximum is as good as a constant in both functions."""
    if fn is softmax_loss:  # np.max has no complex step
        def fn(z):
            power = np.exp(z - np.max(z.real, axis=-1, keepdims=True))
            p = power / np.sum(power, axis=-1, keepdims=True)
            return np.sum(p * p)
    z = x.astype(complex)
    z.flat[k] += 1e-30j
    return fn(z).imag / 1e-30


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (convolution, (X, RNG.normal(size=(3, 4)))),
        (neighbouring_rows, (X,)),
        (read_after, (X,)),
        (columns, (X,)),
        (columns, (X[:0, :],)),
        (columns, (X[:, :0],)),
        (columns, (X.T[::-1],)),
    ],
)
def test_same_as_numpy(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    np.testing.assert_allclose(calque.jit(fn)(*args), fn(*args), rtol=1e-12)


def test_an_array_of_a_loop_along_columns_becomes_a_column() -> None:
    text = calque.source(calque.jit(columns), X)
    assert re.search(r"power = np\.empty\(x\.shape\[0\]\)", text)
    assert "power[i]" in text


@pytest.mark.parametrize("fn", [neighbouring_rows, read_after])
def test_what_others_read_stays_whole(fn: Callable[..., Any]) -> None:
    assert re.search(r"power\w* = np\.empty(_like)?\((x\)|\()", calque.source(calque.jit(fn), X))


def test_rows_of_a_serial_loop_are_made_once() -> None:
    """The iterations of a loop without threads allocate no memory."""
    text = calque.source(calque.jit(columns), X)
    lines = text.splitlines()
    (made,) = (line for line in lines if "power = np.empty" in line)
    threads = [line for line in lines if "prange" in line]
    depth = (len(made) - len(made.lstrip())) // 4
    assert depth == 1 or (depth == 2 and threads)
