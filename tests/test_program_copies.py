"""A function is read once: variants of its kernels are made of copies of the traced program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.runtime.call import plans
from calque.transpiler import pipeline
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.core import Apply, Var, walk
from calque.transpiler.ir.program_copies import ProgramCopy
from calque.transpiler.ir.text import show
from calque.transpiler.ir.types import INT
from calque.transpiler.loops import size_specialization
from calque.transpiler.primitives.record import PRIMITIVES

pytest.importorskip("numba")

RNG = np.random.default_rng(5)


def row_lengths(x):
    """``np.sqrt(np.sum(x * x))`` of every row, in loops."""
    lengths = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j] ** 2 / (x.shape[1] - 1)
        lengths[i] = np.sqrt(total)
    return lengths


def summed_products(a, b):
    total = np.zeros((a.shape[1], b.shape[2]))
    for k in range(a.shape[0]):
        total = np.tanh(total + a[k] @ b[k])
    return total


def loss(x, scale=0.5):
    return np.sum(scale * row_lengths(x) ** 2)


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(size_specialization, "OFTEN", 30)  # more take long where nothing is compiled


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list to which each interpretation of a function adds that function."""
    found: list[Any] = []
    to_core = pipeline.to_core

    def counted(function: Any, *args: Any, **kwargs: Any) -> Traced:
        found.append(function)
        return to_core(function, *args, **kwargs)

    monkeypatch.setattr(pipeline, "to_core", counted)
    return found


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def test_rows_of_three_in_small_arrays_and_in_large_ones(read: list[Any]) -> None:
    jitted, gradient = calque.jit(row_lengths), calque.jit(calque.grad(loss))
    for shape, programs in [((4, 3), 1), ((4, 7), 1), ((20, 3), 2), ((5, 3), 2), ((20, 7), 2)]:
        x = normal(*shape)
        np.testing.assert_allclose(jitted(x), row_lengths(x), rtol=1e-13)
        np.testing.assert_allclose(gradient(x), x / (shape[1] - 1), rtol=1e-13)
        assert jitted.cache_info().programs == gradient.cache_info().programs == programs, shape
    assert len(read) == 2, "each function once"
    text = jitted.source(normal(20, 3))
    assert "range(3)" in text and "/ 2" in text, "what follows from the size is known, too"


def test_the_first_call_is_of_a_large_array(read: list[Any]) -> None:
    jitted = calque.jit(row_lengths)
    for shape, programs in [((20, 3), 1), ((20, 7), 2)]:
        x = normal(*shape)
        np.testing.assert_allclose(jitted(x), row_lengths(x), rtol=1e-13)
        assert jitted.cache_info().programs == programs
    assert len(read) == 1


def test_the_size_is_written_as_if_it_had_been_known(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(20, 3)
    copied = calque.jit(row_lengths).source(x)
    monkeypatch.setattr(plans.ReadOnce, "serves", lambda *_: False)
    vars(row_lengths).clear()  # of programs
    assert calque.jit(row_lengths).source(x) == copied


def test_products_of_small_and_of_large_matrices(read: list[Any]) -> None:
    jitted = calque.jit(summed_products)
    for n, programs in [(8, 1), (30, 2), (9, 2), (31, 2)]:
        args = normal(10, n, n), normal(10, n, n)
        np.testing.assert_allclose(jitted(*args), summed_products(*args), rtol=1e-10)
        assert jitted.cache_info().programs == programs
    assert len(read) == 1


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy spreads sizes
def test_sizes_that_differ_in_a_loop(read: list[Any]) -> None:

    def product(starts, columns, values, x):
        y = np.zeros(starts.shape[0] - 1)
        for i in range(y.shape[0]):
            v, c = values[starts[i] : starts[i + 1]], columns[starts[i] : starts[i] + 2]
            y[i] = np.sum(v * x[c])
        return y

    jitted = calque.jit(product)
    columns, x = np.array([0, 1, 2, 3, 4, 5]), normal(6)
    for starts, programs in [([0, 2, 4], 1), ([0, 1, 3], 2), ([0, 2, 4], 2)]:
        args = np.array(starts), columns, normal(4), x
        np.testing.assert_allclose(jitted(*args), product(*args), rtol=1e-13)
        assert jitted.cache_info().programs == programs
    assert "NumPy compares" in jitted.cache_info().reasons[1]
    assert len(read) == 1


def test_what_the_trace_depends_on_is_read_again(read: list[Any]) -> None:
    factor, offset = True, normal(3)

    def scaled(x):
        return row_lengths(x + offset) if factor else row_lengths(x)

    jitted = calque.jit(scaled)
    for shape, now, own in [
        *(((4, 3), True, normal(3)), ((4, 3), False, normal(3))),  # it was read for another flag
        *(((20, 3), False, normal(3)), ((20, 3), True, normal(1))),  # and for an array of 3
    ]:
        factor, offset = now, own
        x = normal(*shape)
        np.testing.assert_allclose(jitted(x), scaled(x), rtol=1e-13)
    assert len(read) == 3


def test_sizes_that_what_was_read_does_not_hold_for(read: list[Any]) -> None:
    """Slices are taken to be inside: sizes for which they are not are part of another trace."""

    def tail(x):
        total = np.zeros(x.shape[0])
        for j in range(x.shape[1]):
            total += x[:, 4:].sum(axis=1) * j
        return total

    jitted = calque.jit(tail)
    for columns in (8, 3, 5, 8):
        x = normal(20, columns)
        np.testing.assert_allclose(jitted(x), tail(x), rtol=1e-12, atol=1e-13)
    assert len(read) > 1


def test_only_the_newest_are_kept() -> None:
    @calque.jit
    def summed(*arrays):
        return sum(row_lengths(x) for x in arrays)

    for k in range(1, plans._MOST_READ + 5):
        summed(*[normal(4, 3)] * k)
    kept = [plan.read is not None for plan in summed._dispatcher.plans.values()]
    assert kept == [False] * 4 + [True] * plans._MOST_READ


def traced_program(fn: Callable[..., Any], *args: Any) -> Traced:
    """The traced program of a jitted function, as it is kept."""
    jitted = calque.jit(fn)
    jitted(*args)
    ((plan,),) = [jitted._dispatcher.plans.values()]
    return plan.read.traced


@pytest.mark.parametrize("fn", [row_lengths, calque.grad(loss)])
def test_a_copy_shares_nothing_that_passes_change(fn: Callable[..., Any]) -> None:
    traced = traced_program(fn, normal(4, 3))
    before = show(traced.function)
    made = traced.copied({})
    assert show(made.function) == before
    old, new = list(walk(traced.function.body)), list(walk(made.function.body))
    assert not {id(s) for s in old} & {id(s) for s in new}
    function, builder, dims = traced.function, traced.builder, traced.builder.dims
    pairs = [(function, made.function), (builder, made.builder), (dims, made.builder.dims)]
    for theirs, mine in pairs:
        names = type(theirs).__slots__ if theirs is function else vars(theirs)
        for name in names:
            value = getattr(theirs, name)
            shared = isinstance(value, dict | list | set) and getattr(mine, name) is value
            assert not shared, f"{name} of {type(theirs).__name__}"
    pipeline.to_kernels(made)
    assert show(traced.function) == before


def test_sizes_that_follow_from_one_another_are_asked_for() -> None:
    """The rows' size is written into the program, and the factors' is held to it."""

    def weighted(x, factors):
        return np.sum(np.tanh(x * factors), axis=1)

    traced = traced_program(weighted, normal(5, 7), normal(7))
    made = ProgramCopy(traced.function, traced.builder, {"d0_1": 3})
    assert "float64[d0_0, 3] = np.multiply" in show(made.function)
    (equal,) = made.function.equal_dims
    assert sorted(map(str, (equal.left, equal.right))) == ["3", "d1_0"]

    jitted = calque.jit(weighted)
    for x, factors in [(normal(20, 3), normal(3)), (normal(4, 3), normal(3)), (normal(20, 3), normal(1))]:
        np.testing.assert_allclose(jitted(x, factors), weighted(x, factors), rtol=1e-13)
    with pytest.raises(ValueError):
        jitted(normal(20, 3), normal(4))
    with pytest.raises(ValueError):
        jitted(normal(20, 4), normal(3))


def test_a_size_of_what_a_pass_removed_is_not_copied_for_ever() -> None:
    """The statement that gave it has other results, and no longer this one."""
    traced = traced_program(summed_products, normal(2, 3, 4), normal(2, 4, 5))
    gone = Var(INT)
    traced.builder.definitions[gone] = next(s for s in walk(traced.function.body) if s.outs)
    read = Apply((Var(INT),), PRIMITIVES["np.add"], (gone, 1), {})
    traced.builder.definitions[read.out] = read
    traced.builder.magnitudes.owners["i0"] = read.out
    assert show(ProgramCopy(traced.function, traced.builder, {}).function)


def turn(a):
    c, s = np.cos(a), np.sin(a)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def skin(theta, parents, links, base, weights):
    """Points that hang on the frames of a chain; a place counts along with the loops."""
    n = parents.shape[0]
    pose = np.zeros((n, 3))
    k = 0
    for finger in range(2):
        for i in range(2):
            pose[2 * finger + i, 0] = theta[k]
            k += 1
            if i == 0:
                pose[2 * finger + i, 1] = theta[k]
                k += 1
    frames = np.zeros((n, 4, 4))
    for i in range(n):
        here = np.eye(4)
        here[:3, :3] = turn(pose[i, 0]) @ turn(pose[i, 1])
        local = links[i] @ here
        if parents[i] == -1:
            frames[i] = local
        else:
            frames[i] = frames[parents[i]] @ local
    points = np.zeros((base.shape[0], 3))
    for i in range(n):
        points += weights[:, i : i + 1] * (base @ frames[i][:3].T)
    return points


@pytest.mark.parametrize("jacobian", [calque.jacrev, calque.jacfwd])
def test_what_a_pass_has_put_another_in_the_place_of_is_copied_beside_it(jacobian: Any) -> None:
    """A loop that counts, and was replaced, shares its body with the loop that replaced it."""
    links = np.stack([np.eye(4) + 0.1 * RNG.normal(size=(4, 4)) for _ in range(4)])
    base = np.concatenate([RNG.normal(size=(5, 3)), np.ones((5, 1))], axis=1)
    theta, rest = RNG.normal(size=6), (np.array([-1, 0, 1, 1]), links, base, RNG.random((5, 4)))
    ends = [(skin(theta + e, *rest), skin(theta - e, *rest)) for e in 1e-6 * np.eye(6)]
    want = np.stack([(a - b) / 2e-6 for a, b in ends], axis=-1)
    np.testing.assert_allclose(calque.jit(jacobian(skin))(theta, *rest), want, atol=1e-6)
