"""checkpoint: the same derivatives, from fewer saved values; the sizes of what is saved are read off at run time."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from memory_peaks import peak
from sampling import sampled

import calque

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
X = np.array([0.5, 1.0, -0.7])
W = np.arange(9.0).reshape(3, 3) / 11 - 0.3


def known(x):
    for i in range(13):
        x = x + 0.1 * np.sin(x * i)
    return np.sum(x * x)


def backwards(x):
    for i in range(x.size - 1, -1, -1):
        x = x * np.cos(x[i]) + i
    return np.sum(np.sin(x))


def strided(x):
    s = 0.0
    for i in range(2, 19, 3):
        s = s * x[i % 3] + np.exp(0.1 * s - i) + x[1]
    return s


def until(x):
    e = np.sum(x)
    while e < 30.0:
        x = x * 1.1 + np.sin(x) ** 2
        e = np.sum(x * x)
    return np.sum(x) * e


def stored(x):
    u = np.zeros(20)
    u[:3] = x
    for i in range(1, 19):
        u[i] = 0.5 * u[i - 1] * u[i] + np.sin(u[i - 1]) + 0.1 * u[i + 1]
    return np.sum(u**2)


def nested(x):
    total = 0.0
    for i in range(5):
        for j in range(3):
            x = np.tanh(x + 0.1 * j)
            if x[0] > 0.4:
                total = total + x[1] * x[0]
            else:
                x = x * 1.5 + 0.2
        if total > 2.0:
            break
    return total + np.sum(x)


def straight(x):
    y = np.sin(x)
    z = np.exp(y) * y
    return np.sum(z * np.tanh(x))


def empty(x):
    for i in range(x.size - 3):
        x = x * np.sin(x)
    return np.sum(x)


PROGRAMS = [known, backwards, strided, until, stored, nested, straight, empty]
WAYS = [None, "sqrt", 1, 4, 100]


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, 1e-12, 1e-13)


@pytest.mark.parametrize("every", WAYS)
@pytest.mark.parametrize("f", sampled(PROGRAMS, 2))
def test_the_same_derivatives(f: Any, every: Any) -> None:
    g = calque.checkpoint(f, every=every)
    value, gradient = calque.value_and_grad(g)(X)
    assert value == f(X) == g(X)
    close(gradient, calque.grad(f)(X))
    close(calque.jvp(g, (X,), (X,))[1], calque.jvp(f, (X,), (X,))[1])


BATCH = np.stack([X, X[::-1], X * 0.3 + 0.5])


def twice(f: Any) -> Any:
    return calque.grad(lambda x: calque.grad(f)(x) @ x)


@cache
def composed(f: Any) -> tuple[Any, ...]:
    """The results of the compositions without checkpoints; those with checkpoints must agree."""
    gradient = calque.grad(f)
    return calque.hessian(f)(X), np.stack([gradient(row) for row in BATCH]), twice(f)(X)


@pytest.mark.parametrize("every", [None, "sqrt", 4])
@pytest.mark.parametrize("f", PROGRAMS)
def test_composed(f: Any, every: Any) -> None:
    g = calque.checkpoint(f, every=every)
    curvature, rows, slope = composed(f)
    close(calque.hessian(g)(X), curvature)
    close(calque.vmap(calque.grad(g))(BATCH), rows)
    close(calque.grad(lambda b: np.sum(calque.vmap(g)(b)))(BATCH), rows)
    close(twice(g)(X), slope)


def test_against_jax() -> None:
    def network(lib, np):
        block = lib.checkpoint(lambda p, x: np.tanh(p["w"] @ x + p["b"]))

        def loss(p, x):
            for _ in range(3):
                x = block(p, x) + x
            return np.sum(x**2)

        return loss

    params = {"w": W, "b": X}
    found = calque.grad(network(calque, np), (0, 1))(params, X)
    expected = jax.grad(network(jax, jnp), (0, 1))(params, X)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        close(a, np.asarray(b))


def test_captured_values_are_differentiated() -> None:
    def loss(w, x):
        layer = calque.checkpoint(lambda v: np.tanh(w @ v))
        return np.sum(layer(layer(x)))

    plain = lambda w, x: np.sum(np.tanh(w @ np.tanh(w @ x)))
    close(calque.grad(loss)(W, X), calque.grad(plain)(W, X))


def long(x, n):
    for _ in range(n):
        x = x + 0.001 * np.sin(x)
    return np.sum(x)


def rising(x):
    e = 0.0
    while e < 2500.0:
        x = x + 0.001 * np.sin(x)
        e = e + 1.0
    return np.sum(x)


@pytest.mark.parametrize("every, most", [("sqrt", 165), (50, 165), (500, 1020), (5, 520)])
def test_saved_memory_falls(every: Any, most: int) -> None:
    x, n = np.linspace(0.0, 1.0, 1000), 2500
    whole = peak(calque.grad(long), x, n)
    assert whole > n * x.nbytes
    g = calque.grad(calque.checkpoint(long, every=every))
    assert peak(g, x, n) < most * x.nbytes
    np.testing.assert_array_equal(g(x, n), calque.grad(long)(x, n))


@pytest.mark.parametrize("every, most", [("sqrt", 530), (50, 280)])
def test_saved_memory_of_a_while_falls(every: Any, most: int) -> None:
    x = np.linspace(0.0, 1.0, 1000)
    assert peak(calque.grad(rising), x) > 2500 * x.nbytes
    g = calque.grad(calque.checkpoint(rising, every=every))
    assert peak(g, x) < most * x.nbytes
    np.testing.assert_array_equal(g(x), calque.grad(rising)(x))


def test_a_checkpointed_step_saves_what_it_is_given_only() -> None:
    def step(x):
        for _ in range(30):
            x = x + 0.01 * np.sin(x)
        return x

    def run(step):
        def loss(x):
            for _ in range(30):
                x = step(x)
            return np.sum(x)

        return loss

    x = np.linspace(0.0, 1.0, 1000)
    assert peak(calque.grad(run(step)), x) > 900 * x.nbytes
    g = calque.grad(run(calque.remat(step)))
    assert peak(g, x) < 100 * x.nbytes
    np.testing.assert_array_equal(g(x), calque.grad(run(step))(x))


GOLDEN = '''\
def steps_grad(x):
    # forward
    x_saved = np.empty((4, x.shape[0]))
    for segment in range(4):
        x_saved[segment] = x
        first = segment * 4
        last = first + 4
        for i in range(first, last):
            x = x * np.sin(x)

    # reverse
    # for i in range(16):
    x_bar = np.full(x.shape[0], 1.0)
    for segment in range(3, -1, -1):
        first = segment * 4
        last = first + 4
        x = x_saved[segment]
        # run the segment again: its values were not saved
        inner_x_saved = np.empty((4, x.shape[0]))
        for i in range(first, last):
            inner_x_saved[i - first] = x
            x = x * np.sin(x)
        for i in range(last - 1, first - 1, -1):
            # x = x * np.sin(x)
            x = inner_x_saved[i - first]
            x_bar = x_bar * np.sin(x) + x_bar * x * np.cos(x)
    return x_bar
'''


def steps(x):
    for i in range(16):
        x = x * np.sin(x)
    return np.sum(x)


def test_the_source() -> None:
    assert "saved" in calque.source(calque.grad(steps), X)
    assert calque.source(calque.grad(calque.checkpoint(steps, every="sqrt")), X) == GOLDEN
    assert calque.source(calque.checkpoint(steps), X) == calque.source(steps, X)


def test_decorators_and_wrong_arguments() -> None:
    @partial(calque.checkpoint, every=2)
    def f(x):
        for _ in range(5):
            x = np.sin(x)
        return np.sum(x)

    @calque.checkpoint(every=2)
    def g(x, power=2):
        return np.sum(x**power)

    close(calque.grad(f)(X), calque.grad(f.__wrapped__)(X))
    close(calque.grad(lambda x: g(x, power=3))(X), 3 * X**2)
    for every in (0, -1, "cube"):
        with pytest.raises(ValueError, match="every"):
            calque.checkpoint(f, every=every)
