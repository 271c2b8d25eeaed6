"""custom_root and fixed_point: derivatives by the implicit function theorem."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import calque
from calque.transpiler.errors import CustomRuleError

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(11)
W = 0.2 * RNG.normal(size=(4, 4))
U, B, X = RNG.normal(size=(4, 3)), RNG.normal(size=4), RNG.normal(size=3)
SCALE = np.array([2.0, 3.0, 0.5, 1.5])


def newton(f, x):
    for _ in range(12):
        x = x - f(x) / calque.grad(f)(x)
    return x


def jax_newton(f, x):
    return jax.lax.fori_loop(0, 30, lambda _, x: x - f(x) / jax.grad(f)(x), x)


def vector_newton(f, x):
    for _ in range(12):
        x = x - np.linalg.solve(calque.jacfwd(f)(x), f(x))
    return x


def jax_vector_newton(f, x):
    step = lambda _, x: x - jnp.linalg.solve(jax.jacfwd(f)(x), f(x))  # noqa: E731
    return jax.lax.fori_loop(0, 30, step, x)


def dense(g, y):
    return np.linalg.solve(calque.jacfwd(g)(y), y)


def jax_dense(g, y):
    return jnp.linalg.solve(jax.jacfwd(g)(y), y)


def divided(g, y):
    return y / g(1.0)


def cube_root(a):
    return calque.custom_root(lambda x: x**3 - a, 1.0, newton, divided)


def jax_cube_root(a):
    return jax.lax.custom_root(lambda x: x**3 - a, 1.0, jax_newton, divided)


def two_parameters(a, b):
    x = calque.custom_root(lambda x: x**5 + a * x - b * b, 1.0, newton, divided)
    return x * a + np.sin(x)


def jax_two_parameters(a, b):
    x = jax.lax.custom_root(lambda x: x**5 + a * x - b * b, 1.0, jax_newton, divided)
    return x * a + jnp.sin(x)


def system(w, b):
    f = lambda z: z + 0.5 * np.tanh(w @ z) - b  # noqa: E731
    return np.sum(calque.custom_root(f, np.zeros(b.size), vector_newton, dense) ** 2)


def system_by_default(w, b):
    f = lambda z: z + 0.5 * np.tanh(w @ z) - b  # noqa: E731
    return np.sum(calque.custom_root(f, np.zeros(b.size), vector_newton) ** 2)


def jax_system(w, b):
    f = lambda z: z + 0.5 * jnp.tanh(w @ z) - b  # noqa: E731
    return jnp.sum(jax.lax.custom_root(f, jnp.zeros(b.size), jax_vector_newton, jax_dense) ** 2)


def nested(a):
    """An equation within which another one is solved."""
    inner = lambda x: calque.custom_root(lambda y: y**3 + y - x * a, 1.0, newton, divided)  # noqa: E731
    return calque.custom_root(lambda x: x + inner(x) - 2.0, 0.5, newton, divided)


def jax_nested(a):
    inner = lambda x: jax.lax.custom_root(  # noqa: E731
        lambda y: y**3 + y - x * a, 1.0, jax_newton, divided)  # fmt: skip
    return jax.lax.custom_root(lambda x: x + inner(x) - 2.0, 0.5, jax_newton, divided)


def in_a_loop(a, n):
    total = 0.0
    for k in range(n):
        total = total + calque.custom_root(lambda x: x**3 + x - a * (k + 1.0), 1.0, newton, divided)
    if total > 1.0:
        total = total * a
    return total


def jax_in_a_loop(a, n):
    total = 0.0
    for k in range(n):
        solve = jax.lax.custom_root(lambda x: x**3 + x - a * (k + 1.0), 1.0, jax_newton, divided)
        total = total + solve
    return jnp.where(total > 1.0, total * a, total)


def layer(w, u, x, b):
    return np.sum(calque.fixed_point(lambda z: np.tanh(w @ z + u @ x + b), np.zeros(b.size)) ** 2)


def jax_layer(w, u, x, b):
    f = lambda z: jnp.tanh(w @ z + u @ x + b) - z  # noqa: E731
    return jnp.sum(jax.lax.custom_root(f, jnp.zeros(b.size), jax_vector_newton, jax_dense) ** 2)


def kepler(e, m):
    return calque.fixed_point(lambda x, e, m: m + e * np.sin(x), m, e, m)


def jax_kepler(e, m):
    return jax.lax.custom_root(lambda x: m + e * jnp.sin(x) - x, m, jax_newton, divided)


def coupled(a, w):
    def step(state):
        return {"x": np.cos(a * state["y"][0]), "y": [0.5 * np.sin(w * state["x"] + w)]}

    found = calque.fixed_point(step, {"x": 0.3 + w, "y": [np.zeros(w.size)]}, max_steps=5000)
    return np.sum(found["x"] * found["y"][0])


PROGRAMS: dict[str, Any] = {
    "cube root": (cube_root, jax_cube_root, (8.0,)),
    "two parameters": (two_parameters, jax_two_parameters, (1.5, 2.0)),
    "system": (system, jax_system, (W, B)),
    "system, without tangent_solve": (system_by_default, jax_system, (W, B)),
    "nested": (nested, jax_nested, (1.3,)),
    "in a loop": (lambda a: in_a_loop(a, 3), lambda a: jax_in_a_loop(a, 3), (1.2,)),
    "layer": (layer, jax_layer, (W, U, X, B)),
    "kepler": (kepler, jax_kepler, (0.3, 1.1)),
}


def same(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    a, b = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_jax(name: str) -> None:
    f, twin, args = PROGRAMS[name]
    numbers = tuple(range(len(args)))
    dots = tuple(RNG.normal(size=np.shape(a))[()] for a in args)
    dots = tuple(float(d) if np.ndim(d) == 0 else d for d in dots)

    @jax.jit  # operation by operation, JAX compiles each of them
    def expected(args, dots):
        value, pull = jax.vjp(twin, *args)
        slopes, curvature = jax.grad(twin, numbers)(*args), jax.hessian(twin, numbers)(*args)
        return value, jax.jvp(twin, args, dots), slopes, pull(2.0), curvature

    value, moved, slopes, pulled, curvature = expected(args, dots)
    same(f(*args), value)
    same(calque.jvp(f, args, dots), moved)
    same(calque.grad(f, numbers)(*args), slopes)
    same(calque.vjp(f, *args)[1](2.0), pulled)
    same(calque.hessian(f, numbers)(*args), curvature, 1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_are_those_of_a_loop(name: str) -> None:
    f, _, args = PROGRAMS[name]
    numbers = tuple(range(len(args)))
    batches = [np.stack([a * (1.0 + 0.1 * k) for k in range(3)]) for a in args]
    rows = list(zip(*batches, strict=True))
    slopes = calque.grad(f, numbers)
    same(calque.vmap(f)(*batches), np.array([f(*row) for row in rows]))
    found = calque.vmap(slopes)(*batches)
    for k, row in enumerate(rows):
        same([g[k] for g in found], list(slopes(*row)))
    total = calque.grad(lambda *given: np.sum(calque.vmap(f)(*given) ** 2))(*batches)
    same(total, np.stack([2.0 * f(*row) * slopes(*row)[0] for row in rows]))


def test_trees() -> None:
    a, w = 0.4, SCALE / 4.0
    slopes = calque.grad(coupled, (0, 1))(a, w)
    step = 1e-6
    same(slopes[0], (coupled(a + step, w) - coupled(a - step, w)) / (2 * step), 1e-7)
    for k, unit in enumerate(np.eye(4)):
        change = coupled(a, w + step * unit) - coupled(a, w - step * unit)
        same(slopes[1][k], change / (2 * step), 1e-7)
    same(calque.jvp(coupled, (a, w), (0.3, w))[1], 0.3 * slopes[0] + w @ slopes[1])


def test_the_solver_is_not_differentiated() -> None:
    text = calque.source(calque.grad(layer, 3), W, U, X, B)
    assert text.count("while") == 1 and text.count("np.linalg.solve") == 1
    assert "for " not in text and "saved" not in text


def test_what_the_solver_captures_and_the_guess_have_no_derivative() -> None:
    def f(a, damping, guess):
        def damped(f, x):
            for _ in range(200):
                x = x - damping * f(x)
            return x

        return calque.custom_root(lambda x: x * x - a, guess, damped, divided)

    same(calque.grad(f, (0, 1, 2))(2.0, 0.3, 1.0), (0.5 / np.sqrt(2.0), 0.0, 0.0))
    same(calque.jvp(f, (2.0, 0.3, 1.0), (1.0, 1.0, 1.0))[1], 0.5 / np.sqrt(2.0))


def test_auxiliary_output() -> None:
    def f(a):
        def solve(f, x):
            steps = 0
            while np.abs(f(x)) > 1e-14:
                x = x - f(x) / calque.grad(f)(x)
                steps += 1
            return x, {"steps": steps, "residual": f(x)}

        return calque.custom_root(lambda x: x * x - a, 1.0, solve, divided, has_aux=True)

    x, aux = f(4.0)
    assert abs(x - 2.0) < 1e-12 and aux["steps"] > 2
    value, slope = calque.value_and_grad(f, has_aux=True)(4.0)
    assert value[1]["steps"] == aux["steps"]
    same((value[0], slope), (2.0, 0.25))
    with pytest.raises(CustomRuleError, match="must return a pair"):
        calque.grad(lambda a: calque.custom_root(lambda x: x - a, 1.0, newton, divided, True))(1.0)


def test_what_does_not_fit_is_refused() -> None:
    wrong = [
        (lambda x: (x, x), divided, "residual of another structure"),
        (lambda x: np.array([x, x]), divided, "residual"),
        (lambda x: x - 1.0, lambda g, y: (y, y), "tangent_solve gives a result of another"),
        (lambda x: x - 1.0, lambda g, y: np.array([y, y]), "tangent_solve gives a tangent"),
    ]
    for f, solve, text in wrong:
        with pytest.raises(CustomRuleError, match=text):
            calque.grad(
                lambda a, f=f, s=solve: calque.custom_root(
                    lambda x: f(a * x), a, lambda f, x: x * 2.0, s
                )
            )(1.0)


def steps_of(count: int) -> Any:
    """A ``tangent_solve`` by iteration: with a known trip count, or until it converges."""

    def solve(g, y):
        x, after = np.zeros(y.size), -y
        iterations = 0
        while iterations < count if count else np.max(np.abs(after - x)) > 1e-13:
            x, after = after, g(after) + after - y
            iterations += 1
        return after

    return solve


def iterate(f, z):
    for _ in range(200):
        z = z + f(z)
    return z


def test_an_iterative_tangent_solve() -> None:
    def f(w, b, how):
        solved = calque.custom_root(
            lambda z: np.tanh(w @ z + b) - z, np.zeros(b.size), iterate, how
        )
        return np.sum(solved**2)

    expected = jax.jit(jax.grad(lambda w, b: jax_layer(w, 0.0 * U, X, b), (0, 1)))(W, B)
    for how in (steps_of(300), steps_of(0)):
        found = calque.jvp(lambda w, b, h=how: f(w, b, h), (W, B), (W, B))[1]
        same(found, np.sum(expected[0] * W) + np.sum(expected[1] * B))
    same(calque.grad(lambda w, b: f(w, b, steps_of(300)), (0, 1))(W, B), expected)
    with pytest.raises(CustomRuleError, match="not a linear function"):
        calque.grad(lambda w, b: f(w, b, steps_of(0)), (0, 1))(W, B)


def test_an_iteration_that_does_not_converge() -> None:
    grow = lambda a: calque.fixed_point(lambda x: a * x + 1.0, 1.0)  # noqa: E731
    for call in (grow, calque.grad(grow)):
        with pytest.raises(RuntimeError, match="does not converge"):
            call(2.0)
        with pytest.raises(RuntimeError, match="does not converge"):
            call(np.nan)
    same(calque.grad(grow)(0.5), 4.0)


def test_dtypes_follow() -> None:
    single = [a.astype("f4") for a in (W, U, X, B)]

    def f(w, u, x, b):
        return np.sum(calque.fixed_point(
            lambda z: np.tanh(w @ z + u @ x + b), np.zeros(b.size, b.dtype), tolerance=1e-6))  # fmt: skip

    found = calque.grad(f, (0, 1, 2, 3))(*single)
    assert all(g.dtype == np.float32 for g in found)
    for g, e in zip(found, calque.grad(f, (0, 1, 2, 3))(W, U, X, B), strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-4)
