"""Functions on pytrees: what `jax.tree_util` gives, also within transformed functions."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import calque
from calque import (
    grad,
    jit,
    keystr,
    ravel_pytree,
    tree_all,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_structure,
    tree_transpose,
    tree_unflatten,
)

jax = pytest.importorskip("jax")

Pair = namedtuple("Pair", "left right")
TREES = [3.0, None, (), [1, (2, None)], {"b": 1, "a": [2, 3]}, Pair(1, {"x": 2}), OrderedDict(b=1, a=2), ((), [], {}), {2: "two", 1: "one"}]


@pytest.mark.parametrize("value", TREES, ids=repr)
def test_as_jax_does(value: Any) -> None:
    leaves, structure = tree_flatten(value)
    wanted, other = jax.tree.flatten(value)
    assert leaves == wanted == tree_leaves(value) and structure.num_leaves == other.num_leaves
    assert tree_unflatten(structure, leaves) == value and structure == tree_structure(value)
    assert tree_map(str, value) == jax.tree.map(str, value)
    assert tree_all(value) == jax.tree.all(value)
    assert tree_reduce(lambda a, b: f"{a}{b}", value, "-") == jax.tree.reduce(lambda a, b: f"{a}{b}", value, "-")
    paths = [(keystr(path), leaf) for path, leaf in tree_flatten_with_path(value)[0]]
    assert paths == [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.flatten_with_path(value)[0]]
    named = tree_map_with_path(lambda path, x: (keystr(path), x), value)
    assert named == jax.tree.map_with_path(lambda path, x: (jax.tree_util.keystr(path), x), value)


def test_leaves_that_the_user_names() -> None:
    value = {"a": (1, 2), "b": [(3, 4), 5]}
    ends = lambda x: isinstance(x, tuple)  # noqa: E731
    assert tree_leaves(value, ends) == jax.tree.leaves(value, ends) == [(1, 2), (3, 4), 5]
    assert tree_map(lambda x: x, value, is_leaf=ends) == value
    assert calque.tree.leaves(value, is_leaf=ends) == tree_leaves(value, ends)


def test_prefixes_and_transposes() -> None:
    assert tree_map(lambda a, b: (a, b), {"a": 1, "b": 2}, {"a": [5, 6], "b": 7}) == {"a": (1, [5, 6]), "b": (2, 7)}
    value = [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]
    outer, inner = tree_structure([0, 0, 0]), tree_structure({"a": 0, "b": 0})
    assert tree_transpose(outer, inner, value) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    with pytest.raises(ValueError):
        tree_map(lambda a, b: a, (1, 2), (1, 2, 3))


def test_all_names_of_jax_tree() -> None:
    for name in ("map", "leaves", "flatten", "unflatten", "structure", "reduce", "transpose", "all", "flatten_with_path", "leaves_with_path", "map_with_path"):
        assert callable(getattr(jax.tree, name)) and callable(getattr(calque.tree, name))


PARAMS = {"w": np.arange(6.0).reshape(2, 3), "b": (np.ones(2), 2.0), "n": None}


def test_ravel_pytree() -> None:
    value = {"w": np.arange(6.0).reshape(2, 3), "b": (np.ones(2, "f4"), 2.0)}
    flat, unravel = ravel_pytree(value)
    from jax.flatten_util import ravel_pytree as of_jax

    wanted, other = of_jax(value)
    assert np.array_equal(flat, wanted) and flat.dtype == np.float64
    back, theirs = unravel(2.0 * flat), other(2.0 * wanted)
    assert tree_all(tree_map(lambda a, b: np.array_equal(a, b), back, theirs))
    assert back["b"][0].dtype == np.float32
    with pytest.raises(ValueError, match="9 elements"):
        unravel(flat[1:])


def penalty(params: Any) -> Any:
    flat, unravel = ravel_pytree(params)
    squares = unravel(flat * flat)
    leaves, structure = tree_flatten(squares)
    sines = tree_unflatten(structure, [np.sin(x) for x in leaves])
    mixed = calque.tree.map(lambda a, b: a * b, squares, sines)
    scaled = tree_map_with_path(lambda path, x: 2.0 * x if keystr(path) == "['w']" else x, mixed)
    return tree_reduce(lambda total, x: total + np.sum(x), scaled, 0.0)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_within_a_gradient(wrap: Any) -> None:
    found = wrap(grad(penalty))(PARAMS)

    def slope(x: Any) -> Any:  # of x**2 sin(x**2)
        return 2.0 * x * np.sin(x * x) + 2.0 * x**3 * np.cos(x * x)

    np.testing.assert_allclose(found["w"], 2.0 * slope(PARAMS["w"]), rtol=1e-12)
    np.testing.assert_allclose(found["b"][0], slope(np.ones(2)), rtol=1e-12)
    np.testing.assert_allclose(found["b"][1], slope(2.0), rtol=1e-12)
    assert found["n"] is None


def test_dataclasses_have_paths() -> None:
    @dataclass
    class Layer:
        w: float
        b: float

    assert [keystr(path) for path, _ in calque.tree_leaves_with_path([Layer(1.0, 2.0)])] == ["[0].w", "[0].b"]


def test_reduce_takes_its_initializer_by_name() -> None:
    def add(a, b):
        return a + b

    assert calque.tree_reduce(add, {"a": 1, "b": (2,)}, initializer=10) == 13
    assert calque.tree_reduce(add, {}, initializer=10) == 10
    assert calque.tree_reduce(lambda a, b: a or b, (None, [3]), initializer=None) == 3
    assert calque.tree.reduce(add, [1, 2], 10) == 13

    def loss(x):
        return calque.tree_reduce(add, {"a": x, "b": x * x}, initializer=1.0)

    assert calque.grad(loss)(3.0) == 7.0


def test_transpose_finds_the_inner_structure() -> None:
    outer = calque.tree_structure([0, 0])
    rows = [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}]
    assert calque.tree_transpose(outer, None, rows) == {"a": [1, 4], "b": ([2, 5], [3, 6])}
    with pytest.raises(ValueError, match="another structure"):
        calque.tree_transpose(outer, None, [{"a": 1}, {"b": 1}])
    with pytest.raises(ValueError, match="another structure"):
        calque.tree_transpose(outer, None, {"a": 1})
    with pytest.raises(ValueError, match="no leaves"):
        calque.tree_transpose(calque.tree_structure([]), None, [])

    def f(x):
        return calque.tree_transpose(outer, None, [{"a": x}, {"a": x**2}])["a"][1]

    assert calque.grad(f)(3.0) == 6.0


def multiples(x, n):
    return {"all": [x * k for k in range(n)]}


def test_leaves_of_a_list_that_grew_in_a_loop():
    """Its elements are leaves where their number is known; else the tree is refused."""
    x = np.ones(2)
    leaves = calque.jit(lambda x: calque.tree_leaves(multiples(x, 3)))(x)
    assert [leaf.tolist() for leaf in leaves] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    mapped = calque.grad(lambda x: np.sum(calque.tree_map(np.sin, multiples(x, 3))["all"][2]))
    np.testing.assert_allclose(mapped(x), 2.0 * np.cos(2.0 * x))
    counted = lambda x, n: calque.tree_leaves(multiples(x, n))
    with pytest.raises(calque.transpiler.errors.NeedsKnownValue, match="length of a list"):
        calque.source(counted, calque.spec("f8[2]"), calque.spec("i8"))
