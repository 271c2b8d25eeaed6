"""A check of a function of SciPy: value, dtype, ``vmap``, both modes and the second derivative."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
from calque.runtime.call.fallback import JitFallback

Function = Callable[..., Any]


def data(*shape: int) -> np.ndarray:
    """Normal numbers of a shape."""
    return np.random.default_rng(sum(shape)).normal(size=shape)


def check_value(f: Function, *args: np.ndarray, atol: float = 1e-13) -> None:
    """The same numbers and dtype as SciPy's, in ``jit`` too, which compiles what is around."""
    wanted = f(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("error", JitFallback)
        found = calque.jit(f)(*args)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=atol)


def check_batch(f: Function, *args: np.ndarray, atol: float = 1e-13, each: bool = True) -> None:
    """A batch of all arguments, and of ``each`` alone."""
    for chosen in {*range(len(args)), None} if each else {None}:
        axes = tuple(0 if chosen in (k, None) else None for k in range(len(args)))
        given = [a if x is None else np.stack([a, a**2]) for a, x in zip(args, axes, strict=True)]
        rows = [
            f(*(g if x is None else g[k] for g, x in zip(given, axes, strict=True))) for k in (0, 1)
        ]
        found = calque.vmap(f, in_axes=axes)(*given)
        np.testing.assert_allclose(found, np.stack(rows), rtol=1e-10, atol=atol)


def check_derivatives(f: Function, *args: np.ndarray, second: bool = True) -> None:
    """Forward and reverse mode agree with differences and with each other; the same again."""
    rng = np.random.default_rng(5)
    wanted = f(*args)
    weights = rng.normal(size=np.shape(wanted))
    ways = tuple(rng.normal(size=a.shape) for a in args)

    def moved(step: float) -> list[np.ndarray]:
        return [a + step * w for a, w in zip(args, ways, strict=True)]

    def loss(*a: Any) -> Any:
        return np.sum(weights * np.abs(f(*a)) ** 2)

    everything = tuple(range(len(args)))
    slope = (loss(*moved(1e-6)) - loss(*moved(-1e-6))) / 2e-6
    _, forward = calque.jvp(loss, args, ways)
    gradient = calque.grad(loss, everything)
    backward = sum(np.sum(g * w) for g, w in zip(gradient(*args), ways, strict=True))
    size = np.abs(slope) + np.sum(np.abs(weights))
    assert np.abs(forward - slope) < 1e-6 * size
    np.testing.assert_allclose(backward, forward, rtol=1e-10, atol=1e-11 * size)
    if second:
        _, products = calque.jvp(gradient, args, ways)
        ends = gradient(*moved(1e-6)), gradient(*moved(-1e-6))
        for product, up, down in zip(products, *ends, strict=True):
            np.testing.assert_allclose(product, (up - down) / 2e-6, rtol=1e-5, atol=1e-6 * size)


def check(f: Function, *args: np.ndarray, second: bool = True, atol: float = 1e-13) -> None:
    """All of it."""
    check_value(f, *args, atol=atol)
    check_batch(f, *args, atol=atol)
    check_derivatives(f, *args, second=second)
