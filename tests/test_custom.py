"""custom_jvp and custom_vjp against JAX: rules that are told apart from the true derivative, in every transformation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CustomRuleError, ImpureFunction, NotDifferentiable

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
X = np.array([0.5, 1.0, -2.0])
W = np.arange(6.0).reshape(2, 3) / 7 + 0.1


def same(found: Any, expected: Any) -> None:
    left, right = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(left, right, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, np.asarray(b), 1e-12, 1e-12)


# the rules are wrong on purpose (a factor 3): who differentiates the function itself is found out


def scalar_rule(np, lib):
    @lib.custom_jvp
    def f(x):
        return np.sin(x) * x

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 3.0 * np.cos(x) * t

    return lambda x: np.sum(np.exp(0.1 * f(x * x)) * x)


def shared_work(np, lib):
    @lib.custom_jvp
    def f(x, y):
        return np.exp(x) / y

    @f.defjvp
    def rule(primals, tangents):
        x, y = primals
        x_dot, y_dot = tangents
        e = np.exp(x)
        return e / y, e * x_dot / y - 3.0 * e * y_dot / y**2

    return lambda x: np.sum(f(x, 2.0 + x * x) * f(x[::-1], x + 5.0))


def by_argument(np, lib):
    @lib.custom_jvp
    def f(x, y):
        return x * y, x + y

    f.defjvps(lambda t, out, x, y: (3.0 * t * y, t * out[1]), None)

    def loss(x):
        a, b = f(x, np.cos(x))
        return np.sum(a * b)

    return loss


def backward(np, lib):
    @lib.custom_vjp
    def f(x, y):
        return np.sin(x) * y

    def fwd(x, y):
        return np.sin(x) * y, (np.cos(x), {"s": np.sin(x), "y": y})

    def bwd(residuals, g):
        c, rest = residuals
        return 3.0 * c * g * rest["y"], rest["s"] * g

    f.defvjp(fwd, bwd)
    return lambda x: np.sum(f(x * x, np.exp(x)) ** 2)


def no_cotangent(np, lib):
    @lib.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (x * y, y), lambda y, g: (g * y * 3.0, None))
    return lambda x: np.sum(f(np.sin(x), x) * x)


def clipped(np, lib):
    @partial(lib.custom_vjp, nondiff_argnums=(0, 1))
    def clip(low, high, x):
        return x

    clip.defvjp(lambda low, high, x: (x, None), lambda low, high, _, g: (np.clip(g, low, high),))
    return lambda x: np.sum(clip(-0.5, 1.5, x) ** 3)


def function_argument(np, lib):
    @partial(lib.custom_jvp, nondiff_argnums=(0,))
    def app(g, x):
        return g(x)

    @app.defjvp
    def rule(g, primals, tangents):
        return g(primals[0]), 2.0 * g(tangents[0]) * primals[0]

    return lambda x: np.sum(app(lambda v: 3.0 * v, x * x))


def trees(np, lib):
    @lib.custom_vjp
    def layer(p, x):
        return {"y": np.tanh(p["w"] @ x + p["b"][0] * p["b"][1]), "n": np.sum(x)}

    def fwd(p, x):
        out = {"y": np.tanh(p["w"] @ x + p["b"][0] * p["b"][1]), "n": np.sum(x)}
        return out, (p, x, out["y"])

    def bwd(kept, g):
        p, x, y = kept
        z = g["y"] * (1.0 - y * y)
        return {"w": np.outer(z, x) * 3.0, "b": (z * p["b"][1], np.sum(z))}, p["w"].T @ z + g["n"]

    layer.defvjp(fwd, bwd)

    def loss(x):
        p = {"w": np.outer(x[:2], x), "b": (x[1:] * x[0], x[2])}
        out = layer(p, x)
        return np.sum(out["y"] ** 2) * out["n"]

    return loss


def within(np, lib):
    """A rule that uses another function with a rule."""

    @lib.custom_jvp
    def g(x):
        return x**3

    @g.defjvp
    def g_rule(primals, tangents):
        return g(primals[0]), 5.0 * primals[0] * tangents[0]

    @lib.custom_jvp
    def f(x):
        return g(x) * x

    @f.defjvp
    def f_rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), g(x) * t + np.sin(g(x)) * t

    return lambda x: np.sum(f(x) * g(x))


JVPS = [scalar_rule, shared_work, by_argument, function_argument, within]
VJPS = [backward, no_cotangent, clipped, trees]


@pytest.mark.parametrize("make", JVPS + VJPS)
def test_reverse_mode(make: Any) -> None:
    f, g = make(np, calque), make(jnp, jax)
    same(calque.value_and_grad(f)(X), jax.jit(jax.value_and_grad(g))(X))
    same(calque.grad(lambda x: f(x) * x[0])(X), jax.jit(jax.grad(lambda x: g(x) * x[0]))(X))
    same(f(X), jax.jit(g)(X))


@pytest.mark.parametrize("make", JVPS)
def test_forward_mode(make: Any) -> None:
    f, g = make(np, calque), make(jnp, jax)
    v = np.array([1.0, -0.3, 0.7])
    same(calque.jvp(f, (X,), (v,)), jax.jit(partial(jax.jvp, g))((X,), (v,)))
    same(calque.jacfwd(f)(X), jax.jit(jax.jacfwd(g))(X))


@pytest.mark.parametrize("make", JVPS + VJPS)
def test_second_order(make: Any) -> None:
    f, g = make(np, calque), make(jnp, jax)
    same(calque.hessian(f)(X), jax.jit(jax.hessian(g))(X))
    twice = lambda lib, f: lib.grad(lambda x: lib.grad(f)(x) @ x)
    same(twice(calque, f)(X), jax.jit(twice(jax, g))(X))
    same(calque.jacrev(calque.grad(f))(X), jax.jit(jax.jacrev(jax.grad(g)))(X))


@pytest.mark.parametrize("make", JVPS + VJPS)
def test_with_vmap(make: Any) -> None:
    f, g = make(np, calque), make(jnp, jax)
    batch = np.stack([X, X + 0.1, X * 2])
    same(calque.vmap(f)(batch), jax.jit(jax.vmap(g))(batch))
    same(calque.vmap(calque.grad(f))(batch), jax.jit(jax.vmap(jax.grad(g)))(batch))
    total = lambda lib, np, f: lib.grad(lambda b: np.sum(lib.vmap(f)(b) ** 2))
    same(total(calque, np, f)(batch), jax.jit(total(jax, jnp, g))(batch))
    shared = lambda lib, np, f: lib.grad(lambda x: np.sum(lib.vmap(lambda s: f(s * x))(batch[:, 0])))
    same(shared(calque, np, f)(X), jax.jit(shared(jax, jnp, g))(X))


def one_sided(np, lib):
    """Only one argument is batched: the other's cotangent is summed over the examples."""

    @lib.custom_vjp
    def f(w, x):
        return w @ x

    f.defvjp(lambda w, x: (w @ x, (w, x)), lambda kept, g: (3.0 * np.outer(g, kept[1]), kept[0].T @ g))
    return lambda w, xs: np.sum(lib.vmap(lambda x: f(w, x))(xs) ** 2)


def test_a_shared_argument_of_a_batch() -> None:
    batch = np.stack([X, X + 0.1, X * 2, X - 1])
    found = calque.grad(one_sided(np, calque), (0, 1))(W, batch)
    same(found, jax.jit(jax.grad(one_sided(jnp, jax), (0, 1)))(W, batch))


@calque.custom_jvp
def smooth(x):
    return np.abs(x)


@smooth.defjvp
def smooth_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return np.abs(x), np.tanh(10.0 * x) * t


def in_loops(x):
    total = 0.0
    for i in range(x.size):
        y = x[i]
        for j in range(i):
            y = smooth(y * x[j]) + 0.5 * y
        if y > 0.3:
            total = total + smooth(y - 1.0) ** 2
        else:
            total = total - smooth(y)
    s = 0.1 * x[0]
    while s < 2.0:
        s = s + smooth(s) * 1.5 + 0.2
    return total * s


def in_loops_by_hand(x):
    @jax.custom_jvp
    def smooth(x):
        return jnp.abs(x)

    smooth.defjvp(lambda p, t: (jnp.abs(p[0]), jnp.tanh(10.0 * p[0]) * t[0]))
    total = 0.0
    for i in range(x.size):
        y = x[i]
        for j in range(i):
            y = smooth(y * x[j]) + 0.5 * y
        total = total + jnp.where(y > 0.3, smooth(y - 1.0) ** 2, -smooth(y))
    s = 0.1 * x[0]
    for _ in range(20):
        s = jnp.where(s < 2.0, s + smooth(s) * 1.5 + 0.2, s)
    return total * s


def test_control_flow() -> None:
    x = np.array([0.5, 1.3, -2.0, 0.2, 0.9])
    same(calque.grad(in_loops)(x), jax.jit(jax.grad(in_loops_by_hand))(x))
    same(calque.hessian(in_loops)(x), jax.jit(jax.hessian(in_loops_by_hand))(x))
    batch = np.stack([x, -x, x * 0.3])
    expected = jax.jit(jax.vmap(jax.grad(in_loops_by_hand)))(batch)
    same(calque.vmap(calque.grad(in_loops))(batch), expected)
    total = calque.grad(lambda b: np.sum(calque.vmap(in_loops)(b)))(batch)
    same(total, expected)


@calque.custom_vjp
def looped(x, n):
    s = 0.0
    for i in range(n):
        s = s + x[i] ** 2
    return s


def looped_fwd(x, n):
    out = np.zeros(3)
    for i in range(n):
        out[i] = 5.0 * x[i]
    return looped(x, n), out


looped.defvjp(looped_fwd, lambda kept, g: (kept * g, None))


def test_rules_with_loops_and_integer_arguments() -> None:
    expected = [5.0 * 0.5, 5.0 * 1.0, 0.0]
    np.testing.assert_allclose(calque.grad(lambda x, n: looped(x, n))(X, 2), expected)
    np.testing.assert_allclose(calque.grad(looped)(X, 2), expected)
    np.testing.assert_allclose(calque.jacrev(calque.grad(looped))(X, 2), np.diag([5.0, 5.0, 0.0]))


class Model:
    def __init__(self, scale):
        self.scale = scale

    @partial(calque.custom_vjp, nondiff_argnums=(0,))
    def apply(self, x):
        return self.scale * x

    def apply_fwd(self, x):
        return self.apply(x), x

    def apply_bwd(self, x, g):
        return (g * self.scale * 3.0,)

    apply.defvjp(apply_fwd, apply_bwd)


def test_methods() -> None:
    model = Model(2.0)
    np.testing.assert_allclose(model.apply(X), 2.0 * X)
    np.testing.assert_allclose(calque.grad(lambda x: np.sum(model.apply(x) * x))(X), 6.0 * X + 2.0 * X)


def test_forward_mode_over_custom_vjp_is_refused() -> None:
    with pytest.raises(NotDifferentiable, match="custom_vjp, and forward mode"):
        calque.jvp(backward(np, calque), (X,), (X,))
    with pytest.raises(NotDifferentiable, match="custom_vjp, and forward mode"):
        calque.jacfwd(backward(np, calque))(X)


def calls_itself(np, lib):
    @lib.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (3.0 * np.cos(x) * g,))
    return lambda x: np.sum(f(x) * x)


def test_a_forward_rule_that_calls_its_function() -> None:
    f, g = calls_itself(np, calque), calls_itself(jnp, jax)
    same(calque.jacrev(calque.grad(f))(X), jax.jit(jax.jacrev(jax.grad(g)))(X))
    with pytest.raises(TypeError):
        jax.hessian(g)(X)
    with pytest.raises(NotDifferentiable):
        calque.hessian(f)(X)


def test_a_captured_value_that_is_differentiated_is_refused() -> None:
    def loss(x):
        @calque.custom_jvp
        def f(y):
            return x * y

        f.defjvps(lambda t, out, y: x * t)
        return np.sum(f(x * 2.0))

    def constant(x, y):
        @calque.custom_jvp
        def f(y):
            return x * y

        f.defjvps(lambda t, out, y: 3.0 * x * t)
        return np.sum(f(y))

    with pytest.raises(NotDifferentiable, match="captures x"):
        calque.grad(loss)(X)
    np.testing.assert_allclose(calque.grad(constant, 1)(X, X), 3.0 * X)


def test_rules_that_do_not_fit() -> None:
    @calque.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, g: (g * kept[1],))
    with pytest.raises(CustomRuleError, match="tuple of 2 cotangents.*returned 1"):
        calque.grad(lambda x: np.sum(f(x, x)))(X)
    f.defvjp(lambda x, y: x * y, lambda kept, g: (g, g))
    with pytest.raises(CustomRuleError, match="must return a pair"):
        calque.grad(lambda x: np.sum(f(x, x)))(X)
    f.defvjp(lambda x, y: (x * y, None), lambda kept, g: (np.sum(g), g))
    with pytest.raises(CustomRuleError, match="cotangent of type"):
        calque.grad(lambda x: np.sum(f(x, x)))(X)

    @calque.custom_jvp
    def h(x):
        return x * x

    h.defjvp(lambda primals, tangents: (primals[0], (tangents[0], tangents[0])))
    with pytest.raises(CustomRuleError, match="another structure"):
        calque.grad(lambda x: np.sum(h(x)))(X)
    h.defjvp(lambda primals, tangents: (primals[0] ** 2, tangents[0] ** 2))
    with pytest.raises(CustomRuleError, match="not a linear function"):
        calque.grad(lambda x: np.sum(h(x)))(X)
    np.testing.assert_allclose(calque.jvp(h, (X,), (X,))[1], X**2)


def test_a_function_without_its_rule() -> None:
    f = calque.custom_jvp(np.sin)
    with pytest.raises(AttributeError, match="no rule yet"):
        f(1.0)
    with pytest.raises(AttributeError, match="no rule yet"):
        calque.grad(f)(1.0)


def test_a_store_into_an_argument_is_refused() -> None:
    @calque.custom_jvp
    def f(x):
        x[0] = 2.0
        return x * x

    f.defjvps(lambda t, out, x: 2.0 * x * t)
    with pytest.raises(ImpureFunction, match="changes an array"):
        calque.grad(lambda x: np.sum(f(x)))(X.copy())


def test_new_rules_give_new_code() -> None:
    @calque.custom_jvp
    def f(x):
        return x * x

    f.defjvps(lambda t, out, x: 3.0 * t)
    g = calque.grad(f)
    assert g(2.0) == 3.0
    f.defjvps(lambda t, out, x: 4.0 * t)
    assert g(2.0) == 4.0


def test_results_that_are_arguments() -> None:
    @calque.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, g: (g * 3.0,))

    def loss(x):
        y = f(x)
        return np.sum(y * y) + np.sum(x)

    np.testing.assert_allclose(calque.grad(loss)(X), 6.0 * X + 1.0)

    def stored(x):
        x = x * 1.0
        y = f(x)
        y[0] = 7.0
        return np.sum(x * x)

    with pytest.raises(calque.transpiler.errors.AliasUndecided):
        calque.grad(stored)(X)


def test_the_source_is_that_of_the_function_where_nothing_is_differentiated() -> None:
    text = calque.source(lambda x: smooth(x) + 1.0, X)
    assert "np.abs(x) + 1.0" in text


def test_unused_arguments_and_dtypes() -> None:
    found = calque.grad(lambda x: np.sum(smooth(x)))(X.astype("f4"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.tanh(10.0 * X), 1e-5)
