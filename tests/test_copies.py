"""NumPy's functions that copy their argument, and those that return it, told apart by a store."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

CALLS = [
    "np.array(x, copy=False)",
    "np.array(x, copy=None)",
    "np.array(x, copy=None, ndmin=3)[0]",
    "np.array(x, float)",
    "np.asarray(x, float)",
    "np.asarray(x, copy=True)",
    "np.conj(x)",
    "x.conj()",
    "x.astype(float)",
    "x.astype(float, copy=False)",
    "np.astype(x, float, copy=False)",
    "np.where(True, x, 0)",
    "np.where(False, 0.0, x)",
    "np.real(x)",
    "np.positive(x)",
    "np.nan_to_num(x)",
    "np.nan_to_num(x, copy=False)",
    "np.atleast_2d(x)",
    "np.rot90(x, 4)",
    "np.roll(x, 0)",
    "np.tile(x, 1)",
    "np.concatenate([x])",
    "np.array_split(x, 1)[0]",
    "np.broadcast_to(x, x.shape).copy()",
    "x.flatten()",
]
TEXTS = {
    "into the result": "y = {}\n    y[0] = 5.0\n    return np.sum(x * x) + 3.0 * np.sum(y)",
    "into the argument": "y = {}\n    x[0] = 5.0\n    x[1] *= 2.0\n    return np.sum(y * y) + np.sum(x)",
}


def function_of(call: str, text: str) -> Callable[..., Any]:
    source, file = f"def f(x):\n    {text.format(call)}\n", f"<{call} {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"np": np}
    exec(compile(source, file, "exec"), space)
    return space["f"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("store", TEXTS)
@pytest.mark.parametrize("call", CALLS)
def test_a_store_tells(call: str, store: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    fn = function_of(call, TEXTS[store])
    x = np.random.default_rng(3).uniform(0.1, 1.0, (4, 4))
    away = np.cos(np.arange(16.0)).reshape(4, 4)
    expected, mine = x.copy(), x.copy()
    value = fn(expected)
    np.testing.assert_allclose(calque.jit(fn)(mine), value, rtol=1e-13)
    np.testing.assert_array_equal(mine, expected)
    found, gradient = calque.value_and_grad(fn)(x)
    up, down = (fn(x + s * away) for s in (1e-6, -1e-6))
    assert np.isclose(found, value, rtol=1e-13)
    assert np.isclose(np.vdot(gradient, away), (up - down) / 2e-6, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: np.where(True, 0.0, x) + x,
        lambda x: np.where(False, np.ones((3, 2)), x),
        lambda x: np.where(True, np.arange(2), x),
        lambda x: np.conj(x, out=np.zeros(2)) * x,
        lambda x: np.array(x, copy=False, ndmin=2) * x,
    ],
)
def test_shapes_and_dtypes(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    x = np.array([0.3, 0.4])
    for found in (calque.jit(fn)(x), calque.vmap(fn)(x[None])[0]):
        assert (found.shape, found.dtype) == (fn(x).shape, fn(x).dtype)
        np.testing.assert_allclose(found, fn(x), rtol=1e-14)


def test_conj_stores_into_out() -> None:
    def fn(x):
        y = np.zeros(2)
        np.conj(x, out=y)
        return np.sum(y * x)

    np.testing.assert_allclose(calque.grad(fn)(np.array([0.3, 0.4])), [0.6, 0.8], rtol=1e-14)
