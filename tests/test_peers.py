"""calque against JAX with x64 on: gradients, dtypes, shapes, structure, ties and kinks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from sampling import sampled

import calque
from battery import jax_twins, oracle

TWINS = sorted(jax_twins.TWINS)
SCALAR = [name for name in TWINS if name not in ("container_results", "matrix_result")]
# float32 times int64 is float64 in NumPy and float32 in JAX: compared with NumPy, in a test below.
SINGLE = [name for name in TWINS if name != "integer_and_float_mix"]


@pytest.fixture(scope="module", autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def peers(x64: None) -> dict[str, Any]:
    return jax_twins.jax_copy()


def ours(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return getattr(jax_twins, name), oracle.copied(jax_twins.TWINS[name])


def single(tree: Any) -> Any:
    """The tree with arrays as float32; Python floats stay weak."""
    leaves = (
        leaf.astype(np.float32) if isinstance(leaf, np.ndarray) else leaf
        for leaf in oracle.leaves(tree)
    )
    return oracle.rebuilt(tree, leaves)


def same(found: Any, expected: Any, tolerance: float) -> None:
    """Structure, shapes, dtypes and numbers agree; NaN equals NaN."""
    flat, shape = jax.tree_util.tree_flatten(expected)
    mine, my_shape = jax.tree_util.tree_flatten(found)
    # The copy of this file has its own namedtuple: compare structures by their text.
    assert str(my_shape) == str(shape)
    for left, right in zip(mine, flat, strict=True):
        assert np.shape(left) == np.shape(right)
        assert np.asarray(left).dtype == np.asarray(right).dtype
        right = np.asarray(right)
        size = max(1.0, float(np.max(np.abs(right), where=np.isfinite(right), initial=0.0)))
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance * size)


def everything(peers: dict[str, Any], name: str, args: tuple[Any, ...], tolerance: float) -> None:
    fn, peer = getattr(jax_twins, name), peers[name]
    argnums = tuple(range(len(args)))
    found = calque.value_and_grad(fn, argnums=argnums)(*args)
    expected = jax.jit(jax.value_and_grad(peer, argnums=argnums))(*args)
    same(found, expected, tolerance)


@pytest.mark.parametrize("name", SCALAR)
def test_value_and_grad(peers: dict[str, Any], name: str) -> None:
    everything(peers, name, ours(name)[1], 1e-10)


@pytest.mark.parametrize("name", sampled([name for name in SCALAR if name in SINGLE], 3))
def test_value_and_grad_in_single_precision(peers: dict[str, Any], name: str) -> None:
    everything(peers, name, single(ours(name)[1]), 2e-5)


# each in one of the modes alone, beside the gradient: JAX compiles its side of them
@pytest.mark.parametrize("name", sampled(TWINS, 4, 2))
def test_jvp(peers: dict[str, Any], name: str) -> None:
    fn, args = ours(name)
    tangents = oracle.direction(args)
    same(calque.jvp(fn, args, tangents), jax.jit(partial(jax.jvp, peers[name]))(args, tangents), 1e-10)


@pytest.mark.parametrize("name", sampled(SINGLE, 12))
def test_jvp_in_single_precision(peers: dict[str, Any], name: str) -> None:
    fn, args = ours(name)
    args = single(args)
    tangents = oracle.direction(args)
    same(calque.jvp(fn, args, tangents), jax.jit(partial(jax.jvp, peers[name]))(args, tangents), 2e-5)


def test_single_precision_meets_integers() -> None:
    """The value's dtype is NumPy's, the gradient's is its argument's."""
    x = np.array([0.3, -0.7, 0.2, 1.1], dtype=np.float32)
    value, gradient = calque.value_and_grad(jax_twins.integer_and_float_mix)(x)
    assert np.asarray(value).dtype == np.float64
    assert value == jax_twins.integer_and_float_mix(x)
    assert gradient.dtype == np.float32
    k = np.arange(4)
    np.testing.assert_allclose(gradient, k + 2.0 * x * (k > 1) + (x > 0), rtol=1e-6)


@pytest.mark.parametrize("name", sampled(TWINS, 4, 1))
def test_vjp(peers: dict[str, Any], name: str) -> None:
    fn, args = ours(name)
    value, pullback = calque.vjp(fn, *args)

    @jax.jit
    def peer_pulled(args, seed):
        expected, peer_pullback = jax.vjp(peers[name], *args)
        return expected, peer_pullback(seed)

    seed = jax.tree_util.tree_map(lambda leaf: np.cos(np.asarray(leaf)), value)
    expected, cotangents = peer_pulled(args, seed)
    same(value, expected, 1e-10)
    same(pullback(seed), cotangents, 1e-10)


@pytest.mark.parametrize("name", sampled(TWINS, 4))
def test_linearize(peers: dict[str, Any], name: str) -> None:
    fn, args = ours(name)
    value, pushforward = calque.linearize(fn, *args)

    @jax.jit
    def peer_pushed(args, tangents):
        expected, peer_pushforward = jax.linearize(peers[name], *args)
        return expected, peer_pushforward(*tangents)

    for seed in range(2):
        tangents = oracle.direction(args, seed)
        expected, moved = peer_pushed(args, tangents)
        same(value, expected, 1e-10)
        same(pushforward(*tangents), moved, 1e-10)


SMOOTH = ["scalar_chain", "vector_chain", "array_and_scalar", "affine", "softmax_by_hand", "scans"]


@pytest.mark.parametrize("name", SMOOTH)
def test_second_order(peers: dict[str, Any], name: str) -> None:
    """grad of grad, jvp of grad, grad of jvp."""
    fn, args = ours(name)
    tangents = oracle.direction(args)
    found = calque.jvp(calque.grad(fn), args, tangents)
    same(found, jax.jit(partial(jax.jvp, jax.grad(peers[name])))(args, tangents), 1e-9)

    def along(*values):
        return calque.jvp(fn, values, tangents)[1]

    def peer_along(*values):
        return jax.jvp(peers[name], values, tangents)[1]

    same(calque.grad(along)(*args), jax.jit(jax.grad(peer_along))(*args), 1e-9)


def test_fourth_derivative(peers: dict[str, Any]) -> None:
    fn, peer = jax_twins.scalar_chain, peers["scalar_chain"]
    for _ in range(4):
        fn, peer = calque.grad(fn), jax.grad(peer)
        same(fn(0.7), peer(0.7), 1e-9)


def test_transformations_inside_a_transformed_function(peers: dict[str, Any]) -> None:
    """The gradient of a Hessian-vector product, and a gradient step inside a loss."""
    fn, peer = jax_twins.vector_chain, peers["vector_chain"]
    x, v = oracle.copied(jax_twins.TWINS["vector_chain"])[0], np.arange(4.0)

    def hvp(x, v):
        return calque.jvp(calque.grad(fn), (x,), (v,))[1]

    def peer_hvp(x, v):
        return jax.jvp(jax.grad(peer), (x,), (v,))[1]

    same(hvp(x, v), peer_hvp(x, v), 1e-10)
    found = calque.grad(lambda x, v: np.sum(hvp(x, v) ** 2), argnums=(0, 1))(x, v)
    same(found, jax.grad(lambda x, v: (peer_hvp(x, v) ** 2).sum(), argnums=(0, 1))(x, v), 1e-9)

    def after_a_step(x, rate):
        value, slope = calque.value_and_grad(fn)(x)
        return fn(x - rate * slope) + value

    def peer_after_a_step(x, rate):
        value, slope = jax.value_and_grad(peer)(x)
        return peer(x - rate * slope) + value

    found = calque.grad(after_a_step, argnums=(0, 1))(x, 0.1)
    same(found, jax.grad(peer_after_a_step, argnums=(0, 1))(x, 0.1), 1e-9)


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), (-2, -1)])
def test_argnums(peers: dict[str, Any], argnums: Any) -> None:
    fn, args = ours("array_and_scalar")
    found = calque.grad(fn, argnums=argnums)(*args)
    same(found, jax.grad(peers["array_and_scalar"], argnums=argnums)(*args), 1e-12)


def with_aux(x):
    return x[0] * x[1], {"double": x * 2.0, "name": "kept"}


def test_has_aux() -> None:
    x = np.array([0.3, 0.7])
    gradient, aux = calque.grad(with_aux, has_aux=True)(x)
    expected, peer_aux = jax.grad(with_aux, has_aux=True)(x)
    same(gradient, expected, 1e-12)
    same(aux["double"], peer_aux["double"], 1e-12)
    assert aux["name"] == "kept"
    (value, aux), gradient = calque.value_and_grad(with_aux, has_aux=True)(x)
    same((value, gradient), (x[0] * x[1], expected), 1e-12)


def scaled_sum(x, n):
    return np.sum(x**2) * n


def test_allow_int() -> None:
    """A gradient with respect to integers has JAX's dtype float0."""
    x = np.array([0.3, 0.7])
    found = calque.grad(scaled_sum, argnums=(0, 1), allow_int=True)(x, 3)
    expected = jax.grad(lambda x, n: (x**2).sum() * n, argnums=(0, 1), allow_int=True)(x, 3)
    same(found[0], expected[0], 1e-12)
    assert np.asarray(found[1]).dtype == np.asarray(expected[1]).dtype
    assert np.shape(found[1]) == np.shape(expected[1])


def test_keyword_arguments() -> None:
    x = np.array([0.3, 0.7])
    same(calque.grad(scaled_sum)(x, n=3), jax.grad(lambda x, n: (x**2).sum() * n)(x, n=3), 1e-12)


def stopped(x):
    return np.sum(calque.stop_gradient(x) * x**2)


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any = None


@pytest.mark.parametrize("f", [
    lambda x: x * calque.stop_gradient({"a": (x,)})["a"][0],
    lambda x: x * calque.stop_gradient([x, {"b": x, "c": None}])[1]["b"],
    lambda x: x * calque.stop_gradient(Pair(x)).a,
    lambda x: x * calque.tree_map(calque.stop_gradient, {"a": x})["a"],
])
def test_stop_gradient_of_trees(f: Any) -> None:
    assert calque.grad(f)(3.0) == 3.0
    assert calque.jvp(f, (3.0,), (1.0,)) == (9.0, 3.0)


def test_stop_gradient() -> None:
    x = np.array([0.3, 0.7])
    peer = jax.grad(lambda x: (jax.lax.stop_gradient(x) * x**2).sum())
    same(calque.grad(stopped)(x), peer(x), 1e-12)


# where a lane is not taken, a power is the zeroth, or a vector is zero, JAX has 0 * inf
WITHOUT_NAN = ("norm_at_zero", "nansum", "power_zero_at_zero", "where_guards_value_only")


@pytest.mark.parametrize("name", sorted(jax_twins.KINKS))
def test_ties_and_kinks(peers: dict[str, Any], name: str) -> None:
    fn, args = jax_twins.KINKS[name]
    peer, _ = peers["KINKS"][name]
    argnums = tuple(range(len(args)))
    tangents = oracle.direction(args)

    @jax.jit
    def expected(args, tangents):
        return jax.grad(peer, argnums=argnums)(*args), jax.jvp(peer, args, tangents)[1]

    slopes, moved = expected(args, tangents)
    if name in WITHOUT_NAN:
        slopes, moved = jax.tree.map(lambda x: np.where(np.isnan(x), 0.0, x), (slopes, moved))
    if name == "hypot_at_zero" and np.isnan(moved):  # JAX since 0.12; a half each before
        slopes, moved = jax.tree.map(lambda x: np.full_like(x, 0.5), slopes), sum(tangents) / 2
    with np.errstate(all="ignore"):
        same(calque.grad(fn, argnums=argnums)(*args), slopes, 1e-12)
        same(calque.jvp(fn, args, tangents)[1], moved, 1e-12)


@pytest.mark.parametrize("name", sorted(jax_twins.HOLOMORPHIC))
def test_holomorphic(peers: dict[str, Any], name: str) -> None:
    z = 0.4 + 0.3j
    found = calque.grad(jax_twins.HOLOMORPHIC[name], holomorphic=True)(z)
    same(found, jax.grad(peers["HOLOMORPHIC"][name], holomorphic=True)(z), 1e-12)


@pytest.mark.parametrize("name", sorted(jax_twins.COMPLEX_TO_REAL))
def test_complex_vjp_and_jvp(peers: dict[str, Any], name: str) -> None:
    """The conventions for complex cotangents are JAX's."""
    fn, peer = jax_twins.COMPLEX_TO_REAL[name], peers["COMPLEX_TO_REAL"][name]
    z = np.array([0.4 + 0.3j, -1.2 + 0.5j])
    value, pullback = calque.vjp(fn, z)
    expected, peer_pullback = jax.vjp(peer, z)
    same(value, expected, 1e-12)
    same(pullback(np.float64(0.7)), peer_pullback(np.float64(0.7)), 1e-12)
    way = np.array([0.2 - 0.1j, 0.6 + 0.9j])
    same(calque.jvp(fn, (z,), (way,)), jax.jvp(peer, (z,), (way,)), 1e-12)


@pytest.mark.parametrize("name", sorted(jax_twins.REAL_TO_REAL_THROUGH_COMPLEX))
def test_real_gradient_through_complex(peers: dict[str, Any], name: str) -> None:
    fn = jax_twins.REAL_TO_REAL_THROUGH_COMPLEX[name]
    x = np.array([0.4, -1.2])
    same(calque.grad(fn)(x), jax.grad(peers["REAL_TO_REAL_THROUGH_COMPLEX"][name])(x), 1e-12)
