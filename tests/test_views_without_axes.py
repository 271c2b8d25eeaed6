"""Arrays without axes that are views: stores into them are stores into what they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque


def by_ellipsis(x: Any) -> Any:
    y = x.copy()
    v = y[..., 1]
    v[...] = 2.0 * x[0]
    return y[0] + 3.0 * y[1]


def by_ellipsis_last(x: Any) -> Any:
    y = x.copy()
    v = y[0, ...]
    v += x[1]
    return y[0] * y[1]


def by_reshape(x: Any) -> Any:
    y = x.copy()
    v = y[0:1].reshape(())
    v[()] = x[1] ** 2
    return y[0] * 3.0 + y[1]


def by_squeeze(x: Any) -> Any:
    y = x.copy()
    v = y[1:2].squeeze()
    v[...] = x[0] * 5.0
    return y[0] + y[1]


def by_out(x: Any) -> Any:
    y = x.copy()
    np.negative(x[0], out=y[0, ...])
    return y[0] * x[1] + y[1]


def of_its_own(x: Any) -> Any:
    out = np.zeros(())
    out[...] = np.sum(x * x)
    return out * x[0]


def in_a_loop(x: Any) -> Any:
    y = x.copy()
    for k in range(x.size):
        v = y[k, ...]
        v *= x[0]
    return np.sum(y)


def a_number_is_none(x: Any) -> Any:
    y = x.copy()
    v = y[0]
    v += x[1]
    return y[0] * v


def spread(x: Any) -> Any:
    top = np.max(x, axis=-1)
    return np.sum(np.exp(x - top[..., None]) * x) + np.sum(top[None] * x) + top[()]


FUNCTIONS = [by_ellipsis, by_ellipsis_last, by_reshape, by_squeeze, by_out, of_its_own, in_a_loop]
FUNCTIONS += [a_number_is_none, spread]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_gradients(function: Callable[..., Any]) -> None:
    x = np.array([1.3, 2.2])
    steps = 1e-6 * np.eye(2)
    slopes = [(function(x + s) - function(x - s)) / 2e-6 for s in steps]
    for transform in (lambda f: f, calque.jit):
        value, gradient = transform(calque.value_and_grad(function))(x)
        assert value == pytest.approx(function(x), rel=1e-13)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-7)
    rows = np.stack([x, 2.0 * x, x[::-1]])
    np.testing.assert_allclose(calque.vmap(function)(rows), [function(r) for r in rows], rtol=1e-13)
