"""jacfwd, jacrev, hessian and hvp against JAX and differences; trees laid out as JAX does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
X = np.array([1.0, 2.0, 3.0])
TREE = {"w": np.arange(6.0).reshape(2, 3) / 7, "b": np.array([0.3, -0.2])}


def quartet(np):
    return lambda x: np.array([x[0], 5 * x[2], 4 * x[1] ** 2 - 2 * x[2], x[2] * np.sin(x[0])])


def layer(np):
    return lambda p, x: {"y": np.tanh(p["w"] @ x + p["b"]), "s": np.sum(p["b"] ** 2) * x[0]}


def matrix(np):
    return lambda x: np.outer(x, x * x[0])


def rosenbrock(np):
    return lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def stored(x):
    y = np.zeros(4)
    for i in range(3):
        if x[i] > 1.5:
            y[i] = x[i] ** 3
        else:
            y[i + 1] += np.sqrt(x[i])
    return y


def same(found: Any, expected: Any) -> None:
    left = jax.tree.leaves(found)
    right = jax.tree.leaves(expected)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(left, right, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, np.asarray(b), 1e-10, 1e-12)


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("make, args, argnums", [
    (quartet, (X,), 0),
    (matrix, (X,), 0),
    (layer, (TREE, X), 0),
    (layer, (TREE, X), 1),
    (layer, (TREE, X), (0, 1)),
    (lambda np: np.tanh, (X,), 0),
    (lambda np: lambda x: -np.sin(x) * 2.0, (X,), 0),
    (lambda np: np.exp, (0.5,), 0),
    (lambda np: lambda x, y: (x * y, x), (0.5, X), (0, 1)),
])
def test_against_jax(name: str, make: Any, args: Any, argnums: Any) -> None:
    found = getattr(calque, name)(make(np), argnums)(*args)
    same(found, jax.jit(getattr(jax, name)(make(jnp), argnums))(*args))


@pytest.mark.parametrize("make", [rosenbrock, lambda np: lambda x: np.sum(np.sin(x) * x[0])])
def test_hessian_and_hvp(make: Any) -> None:
    expected = jax.jit(jax.hessian(make(jnp)))(X)
    same(calque.hessian(make(np))(X), expected)
    v = np.array([0.3, -1.0, 2.0])
    same(calque.hvp(make(np), (X,), (v,)), expected @ v)


def test_hessian_of_trees() -> None:
    def loss(np):
        return lambda p: np.sum(np.tanh(p["w"] @ np.array([1.0, 2.0, 3.0]) + p["b"]) ** 2)

    same(calque.hessian(loss(np))(TREE), jax.jit(jax.hessian(loss(jnp)))(TREE))


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
def test_stores_and_branches_against_differences(name: str) -> None:
    found = getattr(calque, name)(stored)(X)
    for j in range(3):
        column = oracle.slope(stored, (X,), (np.eye(3)[j],))
        np.testing.assert_allclose(found[:, j], column, 1e-7, 1e-9)


def test_aux_and_composition() -> None:
    found, aux = calque.jacfwd(lambda x: (x * x, x[0]), has_aux=True)(X)
    same(found, np.diag(2 * X))
    assert aux == 1.0
    found, aux = calque.jacrev(lambda x: (x * x, x[0]), has_aux=True)(X)
    same(found, np.diag(2 * X))
    many = calque.vmap(calque.jacfwd(quartet(np)))(np.stack([X, 2 * X]))
    same(many, jax.jit(jax.vmap(jax.jacfwd(quartet(jnp))))(np.stack([X, 2 * X])))
    many = calque.vmap(calque.hessian(rosenbrock(np)))(np.stack([X, 2 * X]))
    same(many, jax.jit(jax.vmap(jax.hessian(rosenbrock(jnp))))(np.stack([X, 2 * X])))


W = np.arange(12.0).reshape(4, 3) / 5 - 1.0
ELEMENTWISE = [
    lambda np: lambda x: np.tanh(x),
    lambda np: lambda x: np.sin(x) * np.exp(x),
    lambda np: lambda x: x * 2.0 - np.cos(x) / x,
    lambda np: lambda x: np.where(x > 1.5, x * x, np.sin(x)),
    lambda np: lambda x: -np.maximum(x, 1.5) * x**2.5,
    lambda np: lambda x: 3.0 * x,
]
DENSE = [
    lambda np: lambda x: W @ x,
    lambda np: lambda x: np.tanh(W @ np.sin(x)),
    lambda np: lambda x: (x * x) @ W.T,
    lambda np: lambda x: np.mean(x**3) + np.sum(np.sin(x) * x),
    lambda np: lambda x: x * np.array([2.0]),
]


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("make", ELEMENTWISE)
def test_elementwise_is_a_diagonal(name: str, make: Any) -> None:
    """No product of the identity with a vector, which would cost n times as much."""
    jacobian = getattr(calque, name)(make(np))
    same(jacobian(X), jax.jit(getattr(jax, name)(make(jnp)))(X))
    text = jacobian.source(X)
    assert "np.diag(" in text and "np.eye" not in text or "np.eye(x.shape[0]) * 3.0" in text or "np.eye(x_rows) * 3.0" in text
    for size in (0, 1):
        assert jacobian(np.full(size, 1.2)).shape == (size, size)


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("make", DENSE)
def test_products_with_unit_vectors_are_not_taken(name: str, make: Any) -> None:
    jacobian = getattr(calque, name)(make(np))
    same(jacobian(X), jax.jit(getattr(jax, name)(make(jnp)))(X))
    assert "@ np.eye" not in jacobian.source(X) and "np.eye(x.shape[0]) @" not in jacobian.source(X)


def test_hessian_of_a_separable_function_is_a_diagonal() -> None:
    hessian = calque.hessian(lambda x: np.sum(np.sin(x) * x))
    same(hessian(X), jax.jit(jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x)))(X))
    assert "np.diag(" in hessian.source(X)


def test_derivatives_have_memory_of_their_own() -> None:
    """The caller may scale a gradient in place: neither an argument nor a captured array follows."""
    jacobian, weights = calque.jacfwd(lambda x: W @ x)(X), W.copy()
    jacobian *= 0.0
    np.testing.assert_array_equal(W, weights)
    x, y = X.copy(), X.copy() + 1.0
    gradient = calque.grad(lambda x, y: x @ y)(x, y)
    first, second = calque.grad(lambda x, y: np.sum(np.sin(x + y)), argnums=(0, 1))(x, y)
    value, tangent = calque.jvp(lambda x: x.copy(), (x,), (y,))
    one, other = calque.vjp(lambda x, y: x + y, x, y)[1](y)
    batched = calque.vmap(lambda x: x[::-1])(x[None])
    made = [gradient, first, second, value, tangent, one, other, batched, x, y]
    for k, a in enumerate(made):
        assert not any(np.shares_memory(a, b) for b in made[k + 1 :])


@pytest.mark.parametrize("transform", [calque.grad, calque.jacfwd, calque.jacrev, calque.value_and_grad])
def test_the_slope_of_whole_numbers_is_a_float(transform: Any) -> None:
    found = transform(lambda x: 3 * x)(2.0)
    found = found[1] if isinstance(found, tuple) else found
    assert found == 3.0 and np.asarray(found).dtype == np.float64


def test_source_is_a_direct_program() -> None:
    text = calque.jacfwd(lambda x: np.tanh(x)).source(X)
    assert "np.diag" in text and "np.eye" not in text and "for " not in text
    assert "for " not in calque.hessian(rosenbrock(np)).source(X)


HALVES: list[tuple[str, Any, Any, bool, str]] = [
    ("jacrev", lambda np: lambda x: np.exp(1j * x), np.ones(2), False, "needs real results"),
    ("jacfwd", lambda np: lambda x: 2.0 * x, np.ones(2) + 0j, False, "needs real inputs"),
    ("hessian", lambda np: lambda x: np.abs(x), 1j, False, "needs real inputs"),
    ("jacrev", lambda np: lambda x: np.abs(x), 1j, True, "needs complex results"),
    ("jacfwd", lambda np: lambda x: np.abs(x), 1j, True, "needs complex results"),
]


@pytest.mark.parametrize(("name", "made", "x", "holomorphic", "text"), HALVES)
def test_half_a_complex_jacobian_is_refused_as_in_jax(name, made, x, holomorphic, text) -> None:
    with pytest.raises(TypeError):
        getattr(jax, name)(made(jnp), holomorphic=holomorphic)(x)
    with pytest.raises(TypeError) as caught:
        getattr(calque, name)(made(np), holomorphic=holomorphic)(x)
    assert text in str(caught.value)
