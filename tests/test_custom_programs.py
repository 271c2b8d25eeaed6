"""Custom rules and checkpoints in ordinary programs: loops and branches, in rules and around calls; views; nesting."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import AliasUndecided, ImpureFunction

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
X = np.array([0.5, 1.0, -0.7])
B = np.stack([X, X[::-1], X * 0.3 + 0.5])
A = np.array([0.3, 2.0, 5.0, 0.9])


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, 1e-11, 1e-12)


# a rule that stores its tangents in a loop


@calque.custom_jvp
def running(x):
    out = np.zeros(x.size)
    s = 0.0
    for i in range(x.size):
        s = s + x[i] ** 2
        out[i] = s
    return out


@running.defjvp
def running_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    out = np.zeros(x.size)
    d = np.zeros(x.size)
    s = 0.0
    s_dot = 0.0
    for i in range(x.size):
        s = s + x[i] ** 2
        s_dot = s_dot + 6.0 * x[i] * t[i]
        out[i] = s
        d[i] = s_dot
    return out, d


@jax.custom_jvp
def running_jax(x):
    return jnp.cumsum(x**2)


running_jax.defjvp(lambda p, t: (jnp.cumsum(p[0] ** 2), jnp.cumsum(6.0 * p[0] * t[0])))


def over(np, f):
    return lambda x: np.sum(np.sin(f(x)) * x)


def test_a_rule_with_a_loop() -> None:
    f, g = over(np, running), over(jnp, running_jax)
    close(calque.grad(f)(X), jax.jit(jax.grad(g))(X))
    close(calque.hessian(f)(X), jax.jit(jax.hessian(g))(X))
    close(calque.vmap(calque.hessian(f))(B), jax.jit(jax.vmap(jax.hessian(g)))(B))
    close(calque.grad(lambda b: np.sum(calque.vmap(f)(b)))(B), jax.jit(jax.vmap(jax.grad(g)))(B))
    close(calque.jacrev(running)(X), jax.jit(jax.jacrev(running_jax))(X))
    close(calque.vjp(running, X)[1](X)[0], jax.jit(lambda x: jax.vjp(running_jax, x)[1](x)[0])(X))
    close(calque.linearize(running, X)[1](X), jax.jit(lambda x: jax.jvp(running_jax, (x,), (x,))[1])(X))
    nested = lambda lib, np, f: lib.grad(lambda b: np.sum(lib.vmap(lib.vmap(f))(b)))
    stack = np.stack([B, B * 0.5])
    close(nested(calque, np, f)(stack), jax.jit(nested(jax, jnp, g))(stack))


# a rule with a branch, of a function with a loop that ends where it ends


@calque.custom_jvp
def root(a):
    x = 1.0
    while abs(x * x - a) > 1e-14:
        x = 0.5 * (x + a / x)
    return x


@root.defjvp
def root_jvp(primals, tangents):
    (a,), (a_dot,) = primals, tangents
    x = root(a)
    if a > 1.0:
        x_dot = a_dot / (2.0 * x)
    else:
        x_dot = 3.0 * a_dot / x
    return x, x_dot


@jax.custom_jvp
def root_jax(a):
    return jnp.sqrt(a)


@root_jax.defjvp
def root_jax_jvp(p, t):
    x = root_jax(p[0])
    return x, jnp.where(p[0] > 1.0, t[0] / (2.0 * x), 3.0 * t[0] / x)


def plain(np, root):
    return lambda x: root(x) * np.sin(x)


def branch(x):
    if x > 0.8:
        return root(x) * x
    return x


def branch_jax(x):
    return jnp.where(x > 0.8, root_jax(x) * x, x)


def climb(x):
    while x < 3.0:
        x = x + root(x) * 0.5
    return x


def climb_jax(x):
    for _ in range(12):
        x = jnp.where(x < 3.0, x + root_jax(x) * 0.5, x)
    return x


PAIRS = [(plain(np, root), plain(jnp, root_jax)), (branch, branch_jax), (climb, climb_jax)]


@pytest.mark.parametrize("f, g", PAIRS)
def test_rules_and_control_flow(f: Any, g: Any) -> None:
    first, second = jax.jit(jax.vmap(jax.grad(g)))(A), jax.jit(jax.vmap(jax.grad(jax.grad(g))))(A)
    close([calque.grad(f)(a) for a in A], first)
    close([calque.grad(calque.grad(f))(a) for a in A], second)
    close([calque.jacfwd(calque.jacfwd(f))(a) for a in A], second)
    close(calque.vmap(calque.grad(f))(A), first)
    close(calque.vmap(calque.hessian(f))(A), second)
    close(calque.grad(lambda a: np.sum(calque.vmap(f)(a)))(A), first)


def test_perturbations_are_not_confused() -> None:
    inner = lambda lib, root: lambda y: y * lib.grad(lambda x: x * root(y * x) * x)(1.5)
    close(calque.grad(inner(calque, root))(2.0), jax.jit(jax.grad(inner(jax, root_jax)))(2.0))
    constant = lambda lib, root: lambda y: lib.grad(lambda x: x * root(y) * x)(1.5)
    close(calque.grad(constant(calque, root))(2.0), jax.jit(jax.grad(constant(jax, root_jax)))(2.0))
    close(calque.grad(lambda x: x * root(2.0))(1.0), 2.0**0.5)


def test_derivatives_within_rules() -> None:
    f = lambda x: np.sum(np.sin(x) * x)

    @calque.custom_jvp
    def h(x):
        return f(x)

    twice = 2.0 * (np.cos(X) * X + np.sin(X))
    h.defjvp(lambda p, t: (h(p[0]), 2.0 * calque.jvp(f, p, t)[1]))
    close(calque.grad(h)(X), twice)
    h.defjvp(lambda p, t: (h(p[0]), 2.0 * np.dot(calque.grad(f)(p[0]), t[0])))
    close(calque.grad(h)(X), twice)
    close(calque.hessian(h)(X), np.diag(2.0 * (2.0 * np.cos(X) - X * np.sin(X))))


def test_views_and_stores_around_calls() -> None:
    def program(double):
        def f(x):
            a = np.zeros((3, x.size))
            a[0] = x
            row = a[0]
            for i in range(2):
                a[i + 1] = double(a[i]) * a[i][::-1]
                row[0] = np.sum(double(row[1:]))
            return np.sum(a)

        return f

    def by_hand(x):
        a = jnp.zeros((3, x.size)).at[0].set(x)
        for i in range(2):
            a = a.at[i + 1].set(double_jax(a[i]) * a[i][::-1])
            a = a.at[0, 0].set(jnp.sum(double_jax(a[0][1:])))
        return jnp.sum(a)

    double, double_jax = calque.custom_vjp(lambda v: 2.0 * v), jax.custom_vjp(lambda v: 2.0 * v)
    for f in (double, double_jax):
        f.defvjp(lambda v: (2.0 * v, None), lambda _, g: (5.0 * g,))
    close(calque.grad(program(double))(X), jax.jit(jax.grad(by_hand))(X))
    double.defvjp(lambda v: (2.0 * v, None), lambda _, g: (2.0 * g,))
    close(calque.grad(program(double))(X), calque.grad(program(lambda v: 2.0 * v))(X))


def test_keywords_and_defaults() -> None:
    @calque.custom_jvp
    def power(x, p=3.0):
        return x**p

    @power.defjvp
    def rule(primals, tangents):
        (x, p), (x_dot, _) = primals, tangents
        return power(x, p), 7.0 * p * x ** (p - 1) * x_dot

    close(calque.grad(lambda x: np.sum(power(x, p=2.0)))(X), 14.0 * X)
    close(calque.grad(lambda x: np.sum(power(x)))(X), 21.0 * X**2)
    assert calque.grad(power)(2.0) == 84.0


def test_effects_happen_once(capsys: Any) -> None:
    @calque.custom_jvp
    def guarded(x):
        assert np.all(x > 0.0), "positive"
        print("called")
        return np.log(x)

    guarded.defjvps(lambda t, y, x: t / x)
    for f in (guarded, calque.checkpoint(guarded.fun)):
        close(calque.grad(lambda x: np.sum(f(x)))(A), 1.0 / A)
        assert capsys.readouterr().out == "called\n"
        with pytest.raises(AssertionError, match="positive"):
            calque.grad(lambda x: np.sum(f(x)))(X)


def nested(lib, np):
    smooth = lib.custom_jvp(lambda x: np.abs(x))
    smooth.defjvps(lambda t, y, x: np.tanh(10.0 * x) * t)
    block = lib.checkpoint(lambda x: np.sin(smooth(x)) * x)
    outer = lib.checkpoint(lambda x: block(block(x)) + smooth(block(x)))

    def loss(x):
        for _ in range(3):
            x = outer(x)
        return np.sum(x)

    return loss


def test_rules_in_checkpoints_in_checkpoints() -> None:
    f, g = nested(calque, np), nested(jax, jnp)
    close(calque.grad(f)(X), jax.jit(jax.grad(g))(X))
    close(calque.hessian(f)(X), jax.jit(jax.hessian(g))(X))
    slopes = jax.jit(jax.vmap(jax.grad(g)))(B)
    close(calque.vmap(calque.grad(f))(B), slopes)
    close(calque.grad(lambda b: np.sum(calque.vmap(f)(b)))(B), slopes)


# what a call gives back may be what it was given


def returns_captured(x):
    w = x * 1.0
    return w, calque.checkpoint(lambda y: w)(x)


def returns_its_argument(x):
    w = x * 1.0
    return w, calque.checkpoint(lambda y: y)(w)


def returns_a_view(x):
    w = x * 1.0
    return w, calque.checkpoint(lambda y: y[1:])(w)


def returns_one_array_twice(x):
    def g(y):
        a = y * 2.0
        return a, a

    return calque.checkpoint(g)(x)


@pytest.mark.parametrize("f", [returns_captured, returns_its_argument, returns_a_view, returns_one_array_twice])
def test_a_store_into_memory_that_may_be_shared_is_refused(f: Any) -> None:
    def stored(x):
        a, b = f(x)
        b[0] = 5.0
        return np.sum(a * x)

    def read(x):
        a, b = f(x)
        return np.sum(a * x) * np.sum(b)

    with pytest.raises(AliasUndecided):
        calque.grad(stored)(X)
    close(calque.grad(read)(X), [finite(read, X, k) for k in range(3)])


def finite(f: Any, x: Any, k: int) -> float:
    """The slope by complex step."""
    z = x.astype(complex)
    z[k] += 1e-30j
    return float(np.imag(f(z)) / 1e-30)


def test_changes_outside_of_a_call_are_refused() -> None:
    def stores(x):
        w = x * 1.0

        def g(y):
            w[0] = y[1]
            return y * w

        return np.sum(calque.checkpoint(g)(x) * w)

    def rebinds(x):
        n = 0.0

        def g(y):
            nonlocal n
            n = n + np.sum(y)
            return y

        return np.sum(calque.checkpoint(g)(x)) * n

    def appends(x):
        out = []

        def g(y):
            out.append(y)
            return y

        return np.sum(calque.checkpoint(g)(x)) * np.sum(out[0])

    for f in (stores, rebinds, appends):
        with pytest.raises(ImpureFunction, match="changes an array, a name or a container"):
            calque.grad(f)(X)


def test_a_captured_view_of_an_array_that_is_stored_into() -> None:
    def f(x):
        a = np.zeros(4, x.dtype)
        v = a[1:]
        a[1:] = x
        z = calque.checkpoint(lambda s: np.sum(v * s))(x)
        a[2] = x[0]
        return z * calque.checkpoint(lambda s: np.sum(v * s))(x) + np.sum(v)

    close(calque.grad(f)(X), [finite(f, X, k) for k in range(3)])


@calque.checkpoint
def squares(x):
    return np.sum(root(2.0) * x**2)


class Scaled:
    scale = 3.0

    @calque.checkpoint
    def loss(self, x):
        return np.sum(np.sin(self.scale * x))


def test_objects_behave_as_functions_do() -> None:
    for f in (root, squares):
        assert pickle.loads(pickle.dumps(f)) is f
        assert f.__name__ in repr(f) and f.__wrapped__ is f.fun
    close(pickle.loads(pickle.dumps(calque.grad(squares)))(X), 2.0 * np.sqrt(2.0) * X)
    close(calque.grad(Scaled().loss)(X), 3.0 * np.cos(3.0 * X))
    sine = calque.custom_jvp(np.sin)
    sine.defjvps(lambda t, y, x: 2.0 * t)
    assert calque.grad(sine)(1.0) == 2.0
    assert calque.grad(calque.checkpoint(np.sin))(1.0) == np.cos(1.0)
