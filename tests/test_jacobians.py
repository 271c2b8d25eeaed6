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
    same(found, getattr(jax, name)(make(jnp), argnums)(*args))


@pytest.mark.parametrize("make", [rosenbrock, lambda np: lambda x: np.sum(np.sin(x) * x[0])])
def test_hessian_and_hvp(make: Any) -> None:
    expected = jax.hessian(make(jnp))(X)
    same(calque.hessian(make(np))(X), expected)
    v = np.array([0.3, -1.0, 2.0])
    same(calque.hvp(make(np), (X,), (v,)), expected @ v)


def test_hessian_of_trees() -> None:
    def loss(np):
        return lambda p: np.sum(np.tanh(p["w"] @ np.array([1.0, 2.0, 3.0]) + p["b"]) ** 2)

    same(calque.hessian(loss(np))(TREE), jax.hessian(loss(jnp))(TREE))


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
    same(many, jax.vmap(jax.jacfwd(quartet(jnp)))(np.stack([X, 2 * X])))
    many = calque.vmap(calque.hessian(rosenbrock(np)))(np.stack([X, 2 * X]))
    same(many, jax.vmap(jax.hessian(rosenbrock(jnp)))(np.stack([X, 2 * X])))


def test_source_is_a_direct_program() -> None:
    text = calque.jacfwd(np.tanh).source(X) if False else calque.jacfwd(lambda x: np.tanh(x)).source(X)
    assert "np.diag" in text and "np.eye" not in text and "for " not in text
    assert "for " not in calque.hessian(rosenbrock(np)).source(X)
