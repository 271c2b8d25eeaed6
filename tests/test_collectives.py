"""Collectives over a named axis, against jax.lax; derivatives within and around the vmap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import (
    DivergentCollective,
    ShapeError,
    UnboundAxisName,
    UnsupportedFunction,
)

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp, lax = jax.numpy, jax.lax

N = 4
RNG = np.random.default_rng(5)
AROUND = tuple((k, (k + 1) % N) for k in range(N))

# (function of (numpy, collectives, one example), the shape of one example)
CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "psum": (lambda xp, c, x: x / c.psum(x * x, "i"), (3,)),
    "psum of a number": (lambda xp, c, x: x * c.psum(2.0, "i"), ()),
    "psum of one": (lambda xp, c, x: x / c.psum(1, "i"), ()),
    "pmean": (lambda xp, c, x: (x - c.pmean(x, "i")) ** 2, (2, 3)),
    "pmean scalar": (lambda xp, c, x: xp.exp(x - c.pmean(x, "i")), ()),
    "gather": (lambda xp, c, x: xp.sum(xp.tanh(c.all_gather(x, "i")) * x, axis=0), (3,)),
    "gather at the end": (lambda xp, c, x: c.all_gather(xp.sin(x), "i", axis=-1) @ xp.arange(4.0), (3,)),
    "gather tiled": (lambda xp, c, x: xp.sin(c.all_gather(x, "i", axis=1, tiled=True)), (2, 3)),
    "gather scalar": (lambda xp, c, x: xp.cumsum(c.all_gather(x, "i")) * x, ()),
    "scatter": (lambda xp, c, x: xp.sin(c.psum_scatter(x * x, "i", scatter_dimension=1)), (3, N)),
    "scatter tiled": (lambda xp, c, x: xp.sin(c.psum_scatter(x * x, "i", tiled=True)), (2 * N, 3)),
    "exchange in place": (lambda xp, c, x: xp.sin(c.all_to_all(x, "i", 1, 1)), (2, N, 3)),
    "exchange tiled": (lambda xp, c, x: xp.sin(c.all_to_all(x, "i", 0, 1, tiled=True)), (2 * N, 3)),
    "exchange tiled back": (lambda xp, c, x: xp.sin(c.all_to_all(x, "i", 1, 0, tiled=True)), (2, N)),
    "ring": (lambda xp, c, x: x * c.ppermute(xp.sin(x), "i", AROUND), (3,)),
    "swap": (lambda xp, c, x: x - 2.0 * c.ppermute(x * x, "i", [(0, 1), (1, 0), (2, 3), (3, 2)]), ()),
    "index": (lambda xp, c, x: x * c.axis_index("i") + xp.sin(x), (2,)),
    "index into an array": (lambda xp, c, x: x * xp.arange(8.0)[c.axis_index("i") + 2], ()),
    "size": (lambda xp, c, x: x**2 / c.axis_size("i"), ()),
    "tree": (
        lambda xp, c, x: c.psum({"a": x, "b": (xp.sin(x), 1.0)}, "i")["b"][0] * c.pmean((x, x * x), ("i",))[1],
        (),
    ),
    "twice": (lambda xp, c, x: c.psum(xp.sin(x * c.pmean(x, "i")), "i") * x, ()),
    "constant": (lambda xp, c, x: x + c.psum(xp.arange(3.0), "i") * c.all_gather(2.0, "i")[1], (3,)),
}
# JAX has no derivative of extrema, and fails in its transpose of an all_to_all between two axes
NO_RULE_IN_JAX = {
    "exchange": (lambda xp, c, x: c.all_to_all(x * x, "i", 0, 1), (N, 3)),
    "pmax": (lambda xp, c, x: xp.exp(x - c.pmax(x, "i")), (3,)),
    "pmin": (lambda xp, c, x: x * c.pmin(x * x, "i"), ()),
    "log sum exp": (
        lambda xp, c, x: x - xp.log(c.psum(xp.exp(x - c.pmax(x, "i")), "i")) - c.pmax(x, "i"),
        (),
    ),
}
EVERY = {**CASES, **NO_RULE_IN_JAX}


def close(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, np.asarray(expected), tolerance, tolerance)


def ours(name: str) -> Any:
    f = EVERY[name][0]
    return lambda x: f(np, calque, x)


def theirs(name: str) -> Any:
    f = EVERY[name][0]
    return lambda x: f(jnp, lax, x)


def examples(name: str) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(N, *EVERY[name][1]))


def weighted(xp: Any, f: Any) -> Any:
    """A scalar of what one example gets, with a weight for each element."""
    return lambda x: xp.sum(xp.sin(f(x)) * (1.0 + xp.arange(1.0 * f(x).size).reshape(f(x).shape)))


@pytest.mark.parametrize("name", EVERY)
def test_value(name: str) -> None:
    x = examples(name)
    close(calque.vmap(ours(name), axis_name="i")(x), jax.jit(jax.vmap(theirs(name), axis_name="i"))(x))


@pytest.mark.parametrize("name", CASES)
def test_gradient_of_one_example(name: str) -> None:
    x = examples(name)
    expected = jax.jit(jax.vmap(jax.grad(weighted(jnp, theirs(name))), axis_name="i"))(x)
    close(calque.vmap(calque.grad(weighted(np, ours(name))), axis_name="i")(x), expected, 1e-11)


@pytest.mark.parametrize("name", [*CASES, "exchange"])
def test_gradient_around_the_batch(name: str) -> None:
    x = examples(name)
    mine = calque.vmap(weighted(np, ours(name)), axis_name="i")
    other = jax.vmap(weighted(jnp, theirs(name)), axis_name="i")
    expected = jax.jit(jax.grad(lambda x: jnp.sum(other(x))))(x)
    close(calque.grad(lambda x: np.sum(mine(x)))(x), expected, 1e-11)


@pytest.mark.parametrize("name", EVERY)
def test_one_examples_gradient_is_that_of_all_results(name: str) -> None:
    x, f = examples(name), weighted(np, ours(name))
    many = calque.vmap(f, axis_name="i")
    around = calque.grad(lambda x: np.sum(many(x)))(x)
    close(calque.vmap(calque.grad(f), axis_name="i")(x), around, 1e-11)


@pytest.mark.parametrize("name", CASES)
def test_forward(name: str) -> None:
    x = examples(name)
    dot = np.random.default_rng(4).normal(size=x.shape)
    f, g = ours(name), theirs(name)
    expected = jax.jit(jax.vmap(lambda x, t: jax.jvp(g, (x,), (t,)), axis_name="i"))(x, dot)
    within = calque.vmap(lambda x, t: calque.jvp(f, (x,), (t,)), axis_name="i")(x, dot)
    around = calque.jvp(calque.vmap(f, axis_name="i"), (x,), (dot,))
    for found in (within, around):
        close(found[0], expected[0])
        close(found[1], expected[1], 1e-11)


@pytest.mark.parametrize("name", ["psum", "gather", "ring", "scatter tiled"])
def test_second_order(name: str) -> None:
    x = examples(name)
    mine, other = weighted(np, ours(name)), weighted(jnp, theirs(name))
    expected = jax.jit(jax.vmap(jax.hessian(other), axis_name="i"))(x)
    close(calque.vmap(calque.hessian(mine), axis_name="i")(x), expected, 1e-10)


@pytest.mark.parametrize("name", NO_RULE_IN_JAX)
def test_forward_and_reverse_against_differences(name: str) -> None:
    x, f = examples(name), calque.vmap(ours(name), axis_name="i")
    dot = np.random.default_rng(4).normal(size=x.shape)
    expected = (f(x + 1e-6 * dot) - f(x - 1e-6 * dot)) / 2e-6
    g = ours(name)
    within = calque.vmap(lambda x, t: calque.jvp(g, (x,), (t,))[1], axis_name="i")(x, dot)
    close(within, calque.jvp(f, (x,), (dot,))[1])
    np.testing.assert_allclose(within, expected, 1e-7, 1e-7)
    bar = np.random.default_rng(6).normal(size=within.shape)
    found = calque.grad(lambda x: np.sum(bar * f(x)))(x)
    np.testing.assert_allclose(np.sum(found * dot), np.sum(bar * within), 1e-12)


def test_ties_share_the_derivative() -> None:
    x = np.array([2.0, 1.0, 2.0, 2.0])
    found = calque.vmap(calque.grad(lambda x: calque.pmax(x, "i")), axis_name="i")(x)
    close(found, np.array([4.0, 0.0, 4.0, 4.0]) / 3.0)


def test_dtypes() -> None:
    for dtype in (np.int32, np.int64, np.float32, np.bool_):
        x = np.array([1, 0, 1, 1]).astype(dtype)
        for mine, other in ((calque.psum, lax.psum), (calque.pmax, lax.pmax), (calque.all_gather, lax.all_gather)):
            found = calque.vmap(lambda x: mine(x, "i"), axis_name="i")(x)
            expected = np.asarray(jax.jit(jax.vmap(lambda x: other(x, "i"), axis_name="i"))(x))
            np.testing.assert_array_equal(found, expected)
            # NumPy's int is 64 bits wide: a sum of booleans is one
            assert found.dtype == expected.dtype or dtype is np.bool_
    mean = calque.vmap(lambda x: calque.pmean(x, "i"), axis_name="i")
    assert mean(np.arange(4)).dtype == np.float64 and mean(np.arange(4, dtype="f4")).dtype == np.float32


# several axes

NESTED = {
    "psum over both": lambda xp, c, x: x / c.psum(x * x, ("i", "j")),
    "psum over the outer": lambda xp, c, x: x / c.psum(x * x, "i"),
    "psum over the inner": lambda xp, c, x: x / c.psum(x * x, "j"),
    "pmean of psum": lambda xp, c, x: c.pmean(c.psum(xp.sin(x), "j") * x, "i"),
    "index": lambda xp, c, x: x * c.axis_index(("i", "j")) + c.axis_index("i"),
    "gather of the outer": lambda xp, c, x: c.all_gather(x, "i") @ xp.arange(2.0) * c.all_gather(x, "j")[1],
    "ring of the outer": lambda xp, c, x: x * c.ppermute(x * x, "i", [(0, 1), (1, 0)]),
    "exchange": lambda xp, c, x: c.all_to_all(x * xp.arange(6.0).reshape(2, 3), "i", 0, 1),
    "exchange of the inner": lambda xp, c, x: c.all_to_all(x * xp.arange(6.0).reshape(2, 3), "j", 1, 0),
    "size": lambda xp, c, x: x * c.axis_size(("i", "j")) / c.psum(1, ("i", "j")),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested(name: str) -> None:
    f, x = NESTED[name], RNG.normal(size=(2, 3))

    def both(module: Any, inner: Any) -> Any:
        return module.vmap(module.vmap(inner, axis_name="j"), axis_name="i")

    close(both(calque, lambda x: f(np, calque, x))(x), jax.jit(both(jax, lambda x: f(jnp, lax, x)))(x))
    mine, other = (
        lambda x: np.sum(np.sin(f(np, calque, x))),
        lambda x: jnp.sum(jnp.sin(f(jnp, lax, x))),
    )
    many, theirs = both(calque, mine), both(jax, other)
    expected = jax.jit(jax.grad(lambda x: jnp.sum(theirs(x))))(x)
    close(both(calque, calque.grad(mine))(x), expected, 1e-11)
    close(calque.grad(lambda x: np.sum(many(x)))(x), expected, 1e-11)
    middle = calque.vmap(calque.grad(lambda x: np.sum(calque.vmap(mine, axis_name="j")(x))), axis_name="i")
    close(middle(x), expected, 1e-11)


def test_gather_over_two_axes_runs_the_last_fastest() -> None:
    x = RNG.normal(size=(2, 3))
    found = calque.vmap(calque.vmap(lambda x: calque.all_gather(x, ("i", "j")), axis_name="j"), axis_name="i")(x)
    close(found, np.broadcast_to(x.reshape(6), (2, 3, 6)))


def test_the_inner_one_of_two_axes_of_a_name() -> None:
    x = RNG.normal(size=(2, 3))
    found = calque.vmap(calque.vmap(lambda x: calque.psum(x, "i"), axis_name="i"), axis_name="i")(x)
    close(found, np.broadcast_to(x.sum(1, keepdims=True), (2, 3)))


def test_reduced_results_are_the_same_for_all() -> None:
    x = RNG.normal(size=(4, 3))
    f = calque.vmap(lambda x: (calque.psum(x, "i"), calque.all_gather(x, "i"), x), out_axes=(None, None, 0), axis_name="i")
    total, every, own = f(x)
    close(total, x.sum(0))
    close(every, x)
    close(own, x)
    with pytest.raises(ValueError, match="differs from one example"):
        calque.vmap(lambda x: calque.ppermute(x, "i", AROUND), out_axes=None, axis_name="i")(x)


# control flow


def settle(x):
    total = 0.0
    while calque.pmax(abs(x), "i") > 0.1:
        x = x / (1.5 + calque.pmean(x * x, "i"))
        total = total + np.sin(x)
    return total


def settle_jax(x):
    state = (x, 0.0 * x)

    def step(state, _):
        x, total = state
        live = lax.pmax(lax.stop_gradient(abs(x)), "i") > 0.1
        new = x / (1.5 + lax.pmean(x * x, "i"))
        return (jnp.where(live, new, x), jnp.where(live, total + jnp.sin(new), total)), None

    return lax.scan(step, state, None, 40)[0][1]


def iterations(x):
    for k in range(5):
        if k % 2 == 0:
            x = x - 0.1 * calque.pmean(x * x, "i")
        x = np.sin(x) if x > 0.0 else x * np.exp(-x * x)
    return x


def iterations_jax(x):
    for k in range(5):
        if k % 2 == 0:
            x = x - 0.1 * lax.pmean(x * x, "i")
        x = jnp.where(x > 0.0, jnp.sin(x), x * jnp.exp(-x * x))
    return x


def chosen(x):
    if calque.psum(x, "i") > 0.0:
        return x * calque.psum(x * x, "i")
    return np.log(calque.psum(np.exp(x), "i")) * x


@pytest.mark.parametrize("mine, other", [(settle, settle_jax), (iterations, iterations_jax)])
def test_in_loops(mine: Any, other: Any) -> None:
    x = RNG.normal(size=5)
    many = calque.vmap(mine, axis_name="i")
    close(many(x), jax.jit(jax.vmap(other, axis_name="i"))(x))
    expected = jax.jit(jax.vmap(jax.grad(other), axis_name="i"))(x)
    close(calque.vmap(calque.grad(mine), axis_name="i")(x), expected, 1e-11)
    close(calque.grad(lambda x: np.sum(many(x)))(x), expected, 1e-11)


def test_under_a_test_that_all_share() -> None:
    for x in (np.array([1.0, 2.0, -1.0]), np.array([-1.0, 0.5, -1.0])):
        scale = np.sum(x * x) if x.sum() > 0 else np.log(np.sum(np.exp(x)))
        close(calque.vmap(chosen, axis_name="i")(x), x * scale)
        f = calque.vmap(chosen, axis_name="i")
        within = calque.vmap(calque.grad(chosen), axis_name="i")(x)
        close(within, calque.grad(lambda x: np.sum(f(x)))(x))
        step = 1e-6 * np.eye(3)
        differences = [(np.sum(f(x + h)) - np.sum(f(x - h))) / 2e-6 for h in step]
        np.testing.assert_allclose(within, differences, 1e-7, 1e-7)


def under_own_test(x):
    if x > 0.0:
        return calque.psum(x, "i")
    return x


def in_own_loop(x):
    while x > 1.0:
        x = x / calque.psum(2.0 * x, "i")
    return x


def in_own_range(x, n):
    for _ in range(n):
        x = x + calque.pmean(x, "i")
    return x


@pytest.mark.parametrize("f, text", [(under_own_test, "calque.psum(x, "), (in_own_loop, "calque.psum(2.0")])
def test_where_not_all_come_it_is_refused(f: Any, text: str) -> None:
    for g in (f, calque.grad(f)):
        with pytest.raises(DivergentCollective) as caught:
            calque.vmap(g, axis_name="i")(np.array([1.0, 2.0]))
        assert text in str(caught.value) and "psum stands where not every example comes" in str(caught.value)
    with pytest.raises(DivergentCollective, match="pmean"):
        calque.vmap(in_own_range, axis_name="i")(np.ones(2), np.array([1, 2]))


def outer_in_inner_branch(x):
    if x > 0.0:
        return np.log(x) * calque.psum(1.0, "j")
    return calque.psum(x, "i")


def test_branches_that_differ_along_either_axis() -> None:
    x = RNG.normal(size=(2, 3))
    f = calque.vmap(calque.vmap(outer_in_inner_branch, axis_name="j"), axis_name="i")
    with pytest.raises(DivergentCollective):
        f(x)
    # a branch by the inner axis alone: over the outer one, everybody takes part
    def inner_only(x, y):
        return calque.psum(np.log(x), "i") if y > 0.0 else x

    y = np.array([1.0, -1.0, 2.0])
    many = calque.vmap(calque.vmap(inner_only, axis_name="j"), in_axes=(0, None), axis_name="i")
    x = abs(x)
    close(many(x, y), np.where(y > 0, np.log(x).sum(0), x))


# calls that keep their identity


@calque.checkpoint
def kept(x):
    return x / calque.psum(x * x, "i")


@calque.custom_jvp
def by_jvp(x):
    return x / calque.psum(x * x, "i")


@by_jvp.defjvp
def by_jvp_rule(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    total = calque.psum(x * x, "i")
    return x / total, x_dot / total - x * calque.psum(2.0 * x * x_dot, "i") / total**2


@calque.custom_vjp
def by_vjp(x):
    return x / calque.psum(x * x, "i")


def by_vjp_forward(x):
    return by_vjp(x), x


def by_vjp_backward(x, bar):
    total = calque.psum(x * x, "i")
    return (bar / total - 2.0 * x * calque.psum(bar * x, "i") / total**2,)


by_vjp.defvjp(by_vjp_forward, by_vjp_backward)


@pytest.mark.parametrize("f", [kept, by_jvp, by_vjp], ids=["checkpoint", "custom_jvp", "custom_vjp"])
def test_within_calls_with_rules(f: Any) -> None:
    x = RNG.normal(size=5)
    many = calque.vmap(f, axis_name="i")
    close(many(x), x / np.sum(x * x))

    def plain(x):
        return jnp.sin(jax.vmap(lambda x: x / lax.psum(x * x, "i"), axis_name="i")(x))

    expected = jax.jit(jax.grad(lambda x: jnp.sum(plain(x))))(x)
    close(calque.grad(lambda x: np.sum(np.sin(many(x))))(x), expected)
    close(calque.vmap(calque.grad(lambda x: np.sin(f(x))), axis_name="i")(x), expected)
    for g in (f, calque.grad(f)):
        with pytest.raises(DivergentCollective):
            calque.vmap(lambda x, g=g: g(x) if x > 0.0 else x, axis_name="i")(x)
    outer = calque.vmap(calque.vmap(f, axis_name="j"), axis_name="i")
    rows = np.stack([x, x + 1.0])
    close(outer(rows), rows / np.sum(rows * rows, 0))
    close(calque.grad(lambda r: np.sum(outer(r)))(rows), jax.jit(jax.grad(lambda r: jnp.sum(r / jnp.sum(r * r, 0))))(rows))


# names


def test_unbound_names() -> None:
    def f(x):
        return calque.psum(x, "k")

    for call in (calque.vmap(f, axis_name="i"), calque.vmap(f)):
        with pytest.raises(UnboundAxisName, match="unbound axis name 'k'") as caught:
            call(np.ones(2))
        assert 'return calque.psum(x, "k")' in str(caught.value)
        assert isinstance(caught.value, NameError)
    with pytest.raises(NameError, match="in plain Python"):
        f(1.0)
    inner = calque.vmap(lambda x: calque.vmap(lambda y: y + 1.0, axis_name="k")(x) + calque.psum(1.0, "k"))
    with pytest.raises(NameError, match="unbound"):
        inner(np.ones((2, 2)))


def test_errors_in_the_users_words() -> None:
    x = np.ones((4, 3))
    cases = [
        (lambda x: calque.all_to_all(x, "i", 0, 0), ShapeError, "has 3 elements, and the mapped axis 'i' has 4"),
        (lambda x: calque.psum_scatter(x, "i"), ShapeError, "has 3 elements"),
        (lambda x: calque.psum_scatter(x, "i", tiled=True), ValueError, "reshape"),
        (lambda x: calque.all_gather(x, "i", axis=3), ShapeError, "axis 3 is out of range"),
        (lambda x: calque.ppermute(x, "i", [(0, 1), (2, 1)]), ValueError, "a target stands twice"),
        (lambda x: calque.ppermute(x, "i", [(0, -1)]), ShapeError, "is no example of the axis 'i'"),
        (lambda x: calque.psum(x, "i", axis_index_groups=[[0], [1]]), UnsupportedFunction, "axis_index_groups"),
        (lambda x: calque.psum(x, ("i", "i")), ValueError, "named twice"),
        (lambda x: calque.all_to_all(x, ("i", "j"), 0, 0), UnsupportedFunction, "several axes"),
    ]
    for f, kind, text in cases:
        g = calque.vmap(calque.vmap(f, axis_name="j"), in_axes=None, axis_name="i", axis_size=4) if "several" in text else calque.vmap(f, axis_name="i")
        with pytest.raises(kind, match=text):
            g(x)


def ring_of_any_size(x):
    n = calque.axis_size("i")
    return x - calque.ppermute(x, "i", [(k, (k + 1) % n) for k in range(n)])


def test_a_permutation_made_for_the_size() -> None:
    for n in (1, 2, 5):
        x = RNG.normal(size=(n, 2))
        close(calque.vmap(ring_of_any_size, axis_name="i")(x), x - np.roll(x, 1, axis=0))


def test_sent_nothing() -> None:
    x = np.array([1.0, 2.0, 3.0])
    f = calque.vmap(lambda x: calque.ppermute(x * x, "i", [(0, 1), (1, 2)]) * x, axis_name="i")
    close(f(x), np.array([0.0, 2.0, 12.0]))
    close(calque.grad(lambda x: np.sum(f(x)))(x), np.array([4.0, 13.0, 4.0]))


def test_the_source() -> None:
    f = calque.vmap(lambda x: x / calque.psum(x, "i"), axis_name="i")
    assert "return x / np.sum(x)" in f.source(np.ones(3))
    ring = calque.vmap(lambda x: calque.ppermute(x, "i", AROUND), axis_name="i")
    assert "calque" not in ring.source(np.ones(4)).split('"""')[-1]


def test_empty_and_unmapped() -> None:
    assert calque.vmap(lambda x: x - calque.psum(x, "i"), axis_name="i")(np.zeros((0, 2))).shape == (0, 2)
    found = calque.vmap(lambda x: x * calque.axis_index("i") + calque.psum(x, "i"), in_axes=None, axis_size=3, axis_name="i")(2.0)
    close(found, np.array([6.0, 8.0, 10.0]))
