"""Functions of SciPy whose Python is read, or that have a twin in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

integrate = pytest.importorskip("scipy.integrate")

X = np.linspace(0.0, 1.0, 9) ** 1.5
Y = np.sort(np.random.default_rng(0).uniform(size=9))
SAMPLED = {
    "simpson by places": lambda y: integrate.simpson(y, x=X),
    "simpson by steps": lambda y: integrate.simpson(y, dx=0.1),
    "simpson of an even number": lambda y: integrate.simpson(np.sin(y[:8]), x=y[:8]),
    "trapezoid": lambda y: integrate.trapezoid(y, X),
    "cumulative_trapezoid": lambda y: integrate.cumulative_trapezoid(y, X, initial=0)[1:] ** 2,
    "cumulative_simpson": lambda y: integrate.cumulative_simpson(y, x=X) ** 2,
    "romb": lambda y: integrate.romb(np.outer(y, y), 0.1) ** 2,
}


def differences(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """The gradient of a sum of results by central differences."""
    steps = 1e-6 * np.eye(x.size)
    return np.array([np.sum(f(x + s) - f(x - s)) / 2e-6 for s in steps])


# without places SciPy's rule makes arrays of no dimension, which kernels do not have
@pytest.mark.filterwarnings("ignore::calque.runtime.call.fallback.JitFallback")
@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_integrals(name: str) -> None:
    f = SAMPLED[name]
    np.testing.assert_allclose(calque.jit(f)(Y), f(Y), rtol=1e-13)
    gradient = calque.grad(lambda y: np.sum(f(y)))(Y)
    np.testing.assert_allclose(gradient, differences(f, Y), rtol=1e-6, atol=1e-8)
    batch = np.stack([Y, np.sqrt(Y)])
    np.testing.assert_allclose(calque.vmap(f)(batch), [f(y) for y in batch], rtol=1e-13)


def test_wrong_arguments_raise_as_in_scipy() -> None:
    with pytest.raises(ValueError, match="power of 2"):
        calque.grad(lambda y: integrate.romb(y))(Y[:8])
    with pytest.raises(ValueError, match="length of x"):
        calque.grad(lambda y: integrate.simpson(y, x=X[:5]))(Y)
