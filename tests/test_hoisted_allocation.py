"""Allocations are hoisted out of loops, but no copy is made before its source is final."""

import re

import numpy as np

import calque


def two_results(x):
    a = np.exp(x) - 1.0
    for i in range(1, x.size):
        a[i] = a[i] + 0.5 * a[i - 1]
    b = np.tanh(a[::-1])
    for i in range(1, x.size):
        b[i] = b[i] * b[i - 1]
    return a, b


def stored_then_flat(x):
    for i in range(1, x.shape[0]):
        x[i, 0] = x[i - 1, 0] + x[i, 1]
    flat = x.reshape(-1) * 2.0
    for i in range(1, x.shape[0]):
        x[i, 1] = x[i - 1, 1] * 0.5
    return np.exp(flat) + x.reshape(-1)


def copied_flat(x):
    """A transpose has no flat view: what is read is a copy of what was stored last."""
    for i in range(1, x.shape[0]):
        x[i, 0] = x[i - 1, 0] + x[i, 1]
    flat = x.T.reshape(-1)
    y = np.zeros(flat.size)
    for i in range(1, flat.size):
        y[i] = y[i - 1] * 0.5 + flat[i]
    return y


def in_an_arm(x, c):
    total = 0.0
    for i in range(x.size):
        total = total + x[i]
    y = np.empty(x.size) if c > 0 else np.full(x.size, total)
    for i in range(x.size):
        y[i] = total * i
    return y


def test_a_kernel_is_loops_alone():
    x = np.linspace(-1.0, 1.0, 9)
    compiled = calque.jit(two_results)
    for found, wanted in zip(compiled(x), two_results(x), strict=True):
        assert np.allclose(found, wanted, rtol=1e-14)
    kernels = re.findall(r"@kernel.*?(?=\n\n\n)", compiled.source(x), re.DOTALL)
    assert kernels
    assert not any("np.empty" in text or "np.full" in text for text in kernels)


def test_what_is_stored_into_is_read_when_it_is_due():
    x = np.random.default_rng(0).normal(size=(5, 3))
    for fn in (stored_then_flat, copied_flat):
        assert np.allclose(calque.jit(fn)(x.copy()), fn(x.copy()), rtol=1e-14)
    for c in (1.0, -1.0):
        assert np.allclose(calque.jit(in_an_arm)(x[:, 0], c), in_an_arm(x[:, 0], c), rtol=1e-14)


def turned(r, x, s):
    """A rotation of a point, by vectors of three numbers."""
    square = r @ r
    if square > 0.0:
        theta = np.sqrt(square)
        k = r / theta
        y = x * np.cos(theta) + np.cross(k, x) * np.sin(theta) + k * (k @ x) * (1.0 - np.cos(theta))
    else:
        y = x + np.cross(r, x)
    return s * y[:2] / y[2]


def test_units_by_all_arguments_are_made_once_before_the_lanes():
    """The unit tangents of several arguments are as long as all of them together."""
    rng = np.random.default_rng(5)
    r, x, s = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)) + 3.0, rng.normal(size=6)
    r[2] = 0.0
    forward = calque.jit(calque.vmap(calque.jacfwd(turned, argnums=(0, 1, 2))))
    launcher = calque.source(forward, r, x, s, stage="kernels").partition("_jit(")[2]
    assert "for " not in launcher and launcher.count("np.eye(") == 1
    reverse = calque.vmap(calque.jacrev(turned, argnums=(0, 1, 2)))(r, x, s)
    for found, other in zip(forward(r, x, s), reverse, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-10, atol=1e-12)


def changed_units(x, n):
    total = 0.0
    for k in range(n):
        e = np.eye(x.size + 2)
        e[k, k] = x[0] * k
        total += np.sum(e[: x.size, : x.size] @ x)
    return total


def test_a_unit_that_is_stored_into_is_copied_in_each_iteration():
    x = np.linspace(0.5, 1.0, 4)
    for n in (0, 1, 5):
        assert np.isclose(calque.jit(changed_units)(x, n), changed_units(x, n), rtol=1e-14)
