"""grad, value_and_grad, jvp, vjp and linearize give what JAX gives: values, dtypes, structure, errors."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import calque

jax.config.update("jax_enable_x64", True)

Point = namedtuple("Point", "x y")
F32 = np.float32
FLOAT0 = jax.dtypes.float0


def square_sum(x):
    return np.sum(x * x)


def product(x, y):
    return np.sum(x * x) * y


def tree_loss(p):
    return p["b"] * p["a"][0] + np.sum(p["c"].x * p["c"].y) + p["a"][1][0]


def with_aux(x):
    return np.sum(x * x), {"twice": 2.0 * x, "none": None}


TWINS = {
    square_sum: lambda x: jnp.sum(x * x),
    product: lambda x, y: jnp.sum(x * x) * y,
    tree_loss: lambda p: p["b"] * p["a"][0] + jnp.sum(p["c"].x * p["c"].y) + p["a"][1][0],
    with_aux: lambda x: (jnp.sum(x * x), {"twice": 2.0 * x, "none": None}),
}

TREE = {
    "b": 2.0,
    "a": (3.0, [1.5, None]),
    "c": Point(np.arange(3.0), F32([1, 2, 3])),
    "e": (),
    "none": None,
}

GRADIENTS = [
    (square_sum, (2.0,), {}),
    (square_sum, (np.arange(3.0),), {}),
    (square_sum, (F32([1, 2]),), {}),
    (square_sum, (F32(3),), {}),
    (square_sum, (np.float16([1, 2]),), {}),
    (square_sum, (np.array(2.0),), {}),
    (square_sum, (np.ones((2, 1, 3)),), {}),
    (square_sum, (np.ones((0,)),), {}),
    (square_sum, (np.asfortranarray(np.arange(6.0).reshape(2, 3)),), {}),
    (square_sum, (np.arange(6.0)[::-2],), {}),
    (product, (F32([1, 2]), 2.0), {"argnums": (0, 1)}),
    (product, (F32([1, 2]), np.float64(2.0)), {"argnums": (0, 1)}),
    (product, (np.arange(3.0), F32(2)), {"argnums": (0, 1)}),
    (product, (1.0, 2.0), {"argnums": 1}),
    (product, (1.0, 2.0), {"argnums": -1}),
    (product, (1.0, 2.0), {"argnums": (-1, 0)}),
    (product, (1.0, 2.0), {"argnums": [0, 1]}),
    (product, (1.0, 2.0), {"argnums": np.int64(1)}),
    (product, (3, 2.0), {"argnums": (0, 1), "allow_int": True}),
    (product, (np.arange(3), 2.0), {"argnums": (0, 1), "allow_int": True}),
    (product, (np.arange(3), 2.0), {"argnums": 1}),
    (tree_loss, (TREE,), {}),
    (with_aux, (np.arange(3.0),), {"has_aux": True}),
    (with_aux, (2.0,), {"has_aux": True}),
]


def same(ours, theirs) -> None:
    """Structure, dtypes, shapes and values agree; a Python float stands for float64."""
    ours_leaves, ours_structure = jax.tree.flatten(ours)
    leaves, structure = jax.tree.flatten(theirs)
    assert ours_structure == structure
    for mine, other in zip(ours_leaves, leaves, strict=True):
        assert np.asarray(mine).dtype == np.asarray(other).dtype
        assert np.shape(mine) == np.shape(other)
        if np.asarray(other).dtype != FLOAT0:
            np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("name", ["grad", "value_and_grad"])
@pytest.mark.parametrize(("f", "args", "options"), GRADIENTS)
def test_gradients_are_jax_s(name, f, args, options) -> None:
    expected = getattr(jax, name)(TWINS[f], **options)(*args)
    transformed = getattr(calque, name)(f, **options)
    for _ in range(2):  # the second call takes the short path
        same(transformed(*args), expected)


@pytest.mark.parametrize(
    ("f", "primals", "tangents"),
    [
        (square_sum, (2.0,), (3.0,)),
        (product, (np.arange(3.0), 2.0), (np.ones(3), 1.0)),
        (product, (F32([1, 2]), 2.0), (F32([1, 1]), 1.0)),
        (product, (np.arange(3), 2.0), (np.zeros(3, FLOAT0), 1.0)),
        (product, (2, 2.0), (np.zeros((), FLOAT0), 1.0)),
        (tree_loss, (TREE,), (TREE,)),
    ],
)
def test_jvp_and_linearize_are_jax_s(f, primals, tangents) -> None:
    expected = jax.jvp(TWINS[f], primals, tangents)
    same(calque.jvp(f, primals, tangents), expected)
    same(calque.jvp(f, list(primals), list(tangents)), expected)
    same(calque.jvp(f)(*primals, *tangents), expected)
    value, push = calque.linearize(f, *primals)
    same((value, push(*tangents)), expected)


def test_tangents_of_integer_results_are_float0() -> None:
    def f(x):
        return x * x, np.argmax(x)

    twin = lambda x: (x * x, jnp.argmax(x))  # noqa: E731
    x = np.array([1.0, 3.0, 2.0])
    same(calque.jvp(f, (x,), (x,))[1], jax.jvp(twin, (x,), (x,))[1])


def test_vjp_is_jax_s() -> None:
    for f, primals in [(product, (np.arange(3.0), 2.0)), (product, (3, 2.0)), (tree_loss, (TREE,))]:
        value, pullback = calque.vjp(f, *primals)
        expected, other = jax.vjp(TWINS[f], *primals)
        same(value, expected)
        same(pullback(1.0), other(jnp.array(1.0)))
        same(calque.vjp(f)(*primals, 1.0), other(jnp.array(1.0)))
    value, pullback, aux = calque.vjp(with_aux, np.arange(3.0), has_aux=True)
    expected, other, other_aux = jax.vjp(TWINS[with_aux], np.arange(3.0), has_aux=True)
    same((value, pullback(1.0), aux), (expected, other(jnp.array(1.0)), other_aux))
    same(
        calque.jvp(with_aux, (2.0,), (1.0,), has_aux=True),
        jax.jvp(TWINS[with_aux], (2.0,), (1.0,), has_aux=True),
    )


def test_complex() -> None:
    for z in (3.0 + 1j, np.complex64(1 + 2j), np.array([1j, 2.0])):
        f, twin = (lambda z: np.sum(z * z * z)), (lambda z: jnp.sum(z * z * z))
        same(calque.grad(f, holomorphic=True)(z), jax.grad(twin, holomorphic=True)(z))
        g = lambda z: np.sum(np.abs(z) ** 2)  # noqa: E731
        same(calque.grad(g)(z), jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z))


def test_dataclasses_are_nodes() -> None:
    @dataclasses.dataclass
    class Layer:
        W: np.ndarray
        b: float

    def f(layer, x):
        return np.sum(np.tanh(x @ layer.W + layer.b))

    x, layer = np.ones(2), Layer(np.eye(2), 0.5)
    made = calque.grad(f)(layer, x)
    slope = 1.0 - np.tanh(1.5) ** 2
    assert type(made) is Layer
    np.testing.assert_allclose(made.W, np.full((2, 2), slope))
    np.testing.assert_allclose(made.b, 2 * slope)


def test_keywords_are_passed_and_not_differentiated() -> None:
    assert calque.grad(product)(2.0, y=3.0) == 12.0
    assert calque.grad(lambda x, *, scale=2.0: x * x * scale)(3.0, scale=5.0) == 30.0
    assert calque.value_and_grad(lambda x, n=3: x**n)(2.0) == (8.0, 12.0)


ERRORS = [
    (TypeError, lambda g: g.grad(square_sum)(3), "needs real or complex inputs, and got int"),
    (TypeError, lambda g: g.grad(square_sum)(np.array([1, 2])), "got int64[n]"),
    (TypeError, lambda g: g.grad(square_sum)(True), "got bool"),
    (TypeError, lambda g: g.grad(lambda p: p["a"])({"a": 1.0, "n": 2}), "got int"),
    (TypeError, lambda g: g.grad(lambda x: x * x)(np.ones(3)), "returns float64[n]"),
    (TypeError, lambda g: g.grad(lambda x: x * x)(np.ones(1)), "returns float64[1]"),
    (TypeError, lambda g: g.grad(lambda x: (x, x))(1.0), "returns 2 values"),
    (TypeError, lambda g: g.grad(lambda x: None)(1.0), "returns nothing"),
    (TypeError, lambda g: g.grad(lambda x: 3)(1.0), "needs a real result, and got int"),
    (TypeError, lambda g: g.grad(lambda x: x * x)(1j), "got a complex one"),
    (TypeError, lambda g: g.grad(lambda x: x, holomorphic=True)(1.0), "needs complex inputs"),
    (TypeError, lambda g: g.grad(lambda x: x, has_aux=True)(1.0), "must return a pair"),
    (TypeError, lambda g: g.grad(lambda x: (x, x, x), has_aux=True)(1.0), "must return a pair"),
    (TypeError, lambda g: g.grad(product, argnums=2)(1.0, 2.0), "argnums 2 is out of range"),
    (ValueError, lambda g: g.grad(product, argnums=-3)(1.0, 2.0), "argnums -3 is out of range"),
    (TypeError, lambda g: g.grad(product, argnums=1.5), "argnums must be an int"),
    (TypeError, lambda g: g.grad(product, argnums="a"), "integer"),
    (TypeError, lambda g: g.grad(product, argnums=(0, -2))(1.0, 2.0), "twice"),
    (ValueError, lambda g: g.grad(product, argnums=())(1.0, 2.0), "nothing to differentiate"),
    (TypeError, lambda g: g.grad(product)(x=1.0, y=2.0), "was given 0 positional"),
    (TypeError, lambda g: g.grad(3), "fun must be a function, and is 3"),
    (TypeError, lambda g: g.jvp(product, (1.0, 2.0), (1.0,)), "2 primals and 1 tangents"),
    (TypeError, lambda g: g.jvp(square_sum, 1.0, 1.0), "must be tuples or lists"),
    (ValueError, lambda g: g.jvp(square_sum, (np.ones(3),), (np.ones(2),)), "shape (2,)"),
    (ValueError, lambda g: g.jvp(square_sum, (np.ones(3),), (1.0,)), "has shape ()"),
    (TypeError, lambda g: g.jvp(square_sum, (np.ones(3),), (np.ones(3, "f4"),)), "of float32"),
    (TypeError, lambda g: g.jvp(square_sum, (F32(3),), (1.0,)), "is of float64"),
    (TypeError, lambda g: g.jvp(square_sum, (1.0,), (1,)), "is of int64"),
    (TypeError, lambda g: g.jvp(square_sum, (1,), (1,)), "must be of dtype float0"),
    (TypeError, lambda g: g.jvp(lambda p: p["a"], ({"a": 1.0},), ({"b": 1.0},)), "structure"),
    (TypeError, lambda g: g.jvp(lambda p: p[0], ((1.0,),), ([1.0],)), "structure"),
    (ValueError, lambda g: g.vjp(square_sum, F32(1))[1](1.0), "cotangent float64[]"),
    (ValueError, lambda g: g.vjp(square_sum, 1.0)[1](np.ones(3)), "cotangent float64[3]"),
    (ValueError, lambda g: g.vjp(lambda x: x, np.ones(3))[1](1.0), "float64[3]"),
    (ValueError, lambda g: g.vjp(lambda x: (x, x), 1.0)[1]([1.0, 1.0]), "structure"),
    (ValueError, lambda g: g.vjp(square_sum, 2.0)[1](1), "cotangent int64[]"),
    (TypeError, lambda g: g.vjp(product, 1.0, 2.0)[1](1.0, 2.0), ""),
    (ValueError, lambda g: g.linearize(square_sum, 1.0)[1](np.ones(3)), "shape (3,)"),
    (TypeError, lambda g: g.linearize(product, 1.0, 2.0)[1](1.0), "structure"),
]


@pytest.mark.parametrize(("kind", "run", "text"), ERRORS)
def test_errors_are_of_jax_s_classes(kind, run, text) -> None:
    twins = {name: _with_twins(getattr(jax, name)) for name in ("grad", "jvp", "vjp", "linearize")}
    with pytest.raises(kind):
        run(SimpleNamespace(**twins))
    with pytest.raises(kind) as caught:
        run(calque)
    assert text in str(caught.value)


def _with_twins(transform):
    def call(f, *args, **kwargs):
        return transform(TWINS[f] if callable(f) and f in TWINS else f, *args, **kwargs)

    return call


def test_a_wrong_cotangent_of_f_vjp_is_refused() -> None:
    pull = calque.vjp(lambda x: x * x)
    for _ in range(2):
        np.testing.assert_allclose(pull(np.ones(3), np.ones(3))[0], 2.0)
        with pytest.raises(ValueError, match="cotangent"):
            pull(np.ones(3), np.ones(1))
        with pytest.raises(ValueError, match="cotangent"):
            pull(np.ones(3), 1.0)


@pytest.mark.parametrize(
    "arg",
    [
        np.ones((1, 1)).view(np.matrix),
        np.ma.array([1.0, 2.0], mask=[True, False]),
        np.array([None, 1.0], dtype=object),
        np.array(["a"]),
        jnp.ones(3),
    ],
    ids=["matrix", "masked", "object", "text", "jax"],
)
def test_arrays_with_a_mind_of_their_own_are_refused(arg) -> None:
    with pytest.raises(TypeError):
        calque.grad(square_sum)(arg)


def test_nesting() -> None:
    hessian_vector = lambda x, v: calque.jvp(calque.grad(cubes), (x,), (v,))[1]  # noqa: E731
    x, v = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    np.testing.assert_allclose(hessian_vector(x, v), 6.0 * x * v)
    scalar = lambda x, v: np.sum(hessian_vector(x, v))  # noqa: E731
    np.testing.assert_allclose(calque.grad(scalar)(x, v), 6.0 * v)
    assert calque.grad(calque.grad(calque.grad(lambda x: x**5)))(2.0) == 240.0
    _, (_, second) = calque.jvp(calque.jvp(cubes), (x, v), (v, 0.0 * v))
    np.testing.assert_allclose(second, np.sum(6.0 * x * v * v))


def cubes(x):
    return np.sum(x**3)
