"""Repeated work under other names shares one kernel, compiled once and launched several times."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calque
from calque.runtime.call import machine_code
from calque.transpiler.codegen.numba import whole_array_calls


def layers(x, weights, y):
    for w, b in weights:
        x = np.tanh(x @ w + b)
    return np.sum((x - y) ** 2)


def step(x, weights, y):
    slopes = calque.grad(layers, argnums=1)(x, weights, y)
    return [(w - 0.1 * v, b - 0.1 * c) for (w, b), (v, c) in zip(weights, slopes)]


def weights_of(*sizes, dtype="f8"):
    rng = np.random.default_rng(3)
    pairs = zip(sizes, sizes[1:])
    return [(rng.normal(size=p).astype(dtype), rng.normal(size=p[1]).astype(dtype)) for p in pairs]


def texts(function, *args):
    """The kernels' texts, and the launcher's."""
    return re.split(r"\n\n+(?=@kernel|def )", calque.jit(function).source(*args))


def test_layers_share_their_kernels():
    rng = np.random.default_rng(4)
    x, y, weights = rng.normal(size=(5, 4)), rng.normal(size=(5, 2)), weights_of(4, 3, 6, 2)
    *kernels, launcher = texts(step, x, weights, y)
    launches = re.findall(r"\b(step_kernel\w*)\(", launcher)
    assert len(set(launches)) == len(kernels) < len(launches)
    assert max(map(launches.count, launches)) == 3
    made, wanted = calque.jit(step)(x, weights, y), step(x, weights, y)
    for (w, b), (v, c) in zip(made, wanted):
        assert np.allclose(w, v, rtol=1e-13) and np.allclose(b, c, rtol=1e-13)


def test_each_has_its_own_dtype():
    first, second = weights_of(4, 4), weights_of(4, 4, 4, dtype="f4")
    weights = [*first, *second]
    made = calque.jit(three_updates)(weights, weights)
    for (w, b), (v, c) in zip(made, three_updates(weights, weights)):
        assert (w.dtype, b.dtype) == (v.dtype, c.dtype)
        assert np.allclose(w, v, rtol=1e-6) and np.allclose(b, c, rtol=1e-6)


def three_updates(weights, slopes):
    return [(w - 0.1 * v, b - 0.1 * c) for (w, b), (v, c) in zip(weights, slopes)]


def swapped(a, b):
    return np.sin(a) - b, np.sin(b) - a


def same_twice(a, b):
    c = np.sin(a) * b
    d = np.sin(c @ c) * c
    return d @ d, c


def numbers(a, b):
    s = np.sum(a * b)
    t = np.sum(b * (a @ a.T))
    return s * (a @ b) + t


@pytest.mark.parametrize("function", [swapped, same_twice, numbers])
def test_what_is_alike_is_not_taken_for_the_same(function):
    a, b = np.random.default_rng(5).normal(size=(2, 4, 4))
    made, wanted = calque.jit(function)(a, b), function(a, b)
    made, wanted = (v if isinstance(v, tuple) else (v,) for v in (made, wanted))
    for one, other in zip(made, wanted):
        assert np.allclose(one, other, rtol=1e-13)


def test_other_comments_are_other_kernels_with_the_same_code():
    def thrice(x, w):
        first = np.tanh(x @ w)
        second = np.tanh(first @ w)
        third = np.tanh(second @ w)
        return np.sum(third)

    x, w = np.random.default_rng(6).normal(size=(2, 4, 4))
    gradient = calque.jit(calque.grad(thrice))
    *kernels, _ = texts(calque.grad(thrice), x, w)
    assert sum("# second = np.tanh(first @ w)" in kernel for kernel in kernels) == 2
    assert len(kernels) == 5
    assert np.allclose(gradient(x, w), calque.grad(thrice)(x, w), rtol=1e-13)
    assert gradient.cache_info().compiled + gradient.cache_info().loaded == 3


def test_what_may_raise_keeps_its_own_lines():
    names = [re.search(r"(\w+)\(", text)[1] for text in whole_array_calls._MAY_RAISE]
    assert {"argmax", "interp", "array_max"} <= {*names} <= machine_code._REFUSING
