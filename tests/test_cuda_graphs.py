"""CUDA graphs: calls that are alike are captured and replayed, and no result is stale or lost."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, capturing
from cuda_emulator.running import ON_CARD, installed

import calque
from calque.transpiler.errors import NoGraph

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(3)
X = RNG.standard_normal(40)


@pytest.fixture(autouse=True)
def cupy() -> Iterator[Any]:
    with installed() as module:
        capturing.captures.clear()
        capturing.graph_launches.clear()
        yield module


def diffused(u, rate, steps):
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = u[1:-1] + rate * (u[:-2] - 2.0 * u[1:-1] + u[2:])
        u = new
    return u


def in_place(u, steps):
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return np.sum(u)


def given_back(u, steps):
    for _ in range(steps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return u, np.sum(u)


def wanted(*args):
    return diffused(*args)


def call(fn, cupy, x, *rest):
    return fn(cupy.asarray(x), *rest)


def test_the_third_call_alike_is_captured_and_the_next_are_replayed(cupy):
    fn = calque.jit(diffused)
    for k in range(5):
        x = X + k
        found = call(fn, cupy, x, 0.1, 6)
        np.testing.assert_allclose(cupy.asnumpy(found), wanted(x, 0.1, 6), rtol=1e-12)
        assert ON_CARD or len(capturing.captures) == (k >= 2)
        assert ON_CARD or len(capturing.graph_launches) == max(k - 1, 0)
    assert ON_CARD or capturing.captures[0] >= 6


def test_results_are_each_calls_own(cupy):
    fn = calque.jit(diffused, graph=True)
    kept = [call(fn, cupy, X + k, 0.1, 5) for k in range(6)]
    kept[2][...] = 7.0  # the caller's to change
    gc.collect()
    again = call(fn, cupy, X, 0.1, 5)
    for k, found in enumerate(kept):
        if k != 2:
            np.testing.assert_allclose(cupy.asnumpy(found), wanted(X + k, 0.1, 5), rtol=1e-12)
    np.testing.assert_allclose(cupy.asnumpy(again), wanted(X, 0.1, 5), rtol=1e-12)
    assert ON_CARD or (len(capturing.captures), len(capturing.graph_launches)) == (1, 7)


def test_arguments_are_read_at_each_call_and_kept(cupy):
    fn = calque.jit(diffused, graph=True)
    x = cupy.asarray(X)
    first = fn(x, 0.1, 5)
    x[...] = 2.0 * x
    second = fn(x, 0.1, 5)
    np.testing.assert_allclose(cupy.asnumpy(second), 2.0 * cupy.asnumpy(first), rtol=1e-12)
    np.testing.assert_allclose(cupy.asnumpy(x), 2.0 * X)


def test_numbers_and_sizes_are_of_one_graph_each(cupy):
    fn = calque.jit(diffused, graph=True)
    for x, rate, steps in [(X, 0.1, 5), (X, 0.2, 5), (X, 0.1, 6), (X[:30], 0.1, 5), (X, 0.1, 5)]:
        found = call(fn, cupy, x, rate, steps)
        np.testing.assert_allclose(cupy.asnumpy(found), wanted(x, rate, steps), rtol=1e-12)
    assert ON_CARD or len(capturing.captures) == 4


def test_zeros_of_both_signs_and_whole_numbers_are_different_numbers(cupy):
    def scaled(u, a):
        for _ in range(5):
            new = u.copy()
            new[1:-1] = a * (u[:-2] + u[2:])
            u = new
        return u

    fn = calque.jit(scaled, graph=True)
    for a in (0.0, -0.0, 1, 1.0, True):
        found = cupy.asnumpy(call(fn, cupy, abs(X), a))
        want = scaled(abs(X), a)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(want))
        np.testing.assert_allclose(found, want)


def test_numbers_that_differ_each_time_are_not_captured(cupy):
    fn = calque.jit(diffused)
    for k in range(6):
        found = call(fn, cupy, X, 0.1 + 0.01 * k, 5)
        np.testing.assert_allclose(cupy.asnumpy(found), wanted(X, 0.1 + 0.01 * k, 5), rtol=1e-12)
    assert not capturing.captures


@pytest.mark.parametrize("steps", [0, 1, 4, 5])
def test_stores_into_an_argument_are_the_callers(cupy, steps):
    fn = calque.jit(given_back, graph=True)
    for k in range(3):
        u = cupy.asarray(X + k)
        same, total = fn(u, steps)
        want = X + k
        _, sum_wanted = given_back(want, steps)
        np.testing.assert_allclose(cupy.asnumpy(u), want, rtol=1e-12)
        np.testing.assert_allclose(cupy.asnumpy(total), sum_wanted, rtol=1e-12)
        assert same.data.ptr == u.data.ptr


def test_gradients_are_replayed(cupy):
    def loss(u, rate):
        return np.sum(diffused(u, rate, 4) ** 2)

    fn = calque.jit(calque.grad(loss), graph=True)
    for k in range(3):
        found = call(fn, cupy, X + k, 0.1)
        np.testing.assert_allclose(cupy.asnumpy(found), calque.grad(loss)(X + k, 0.1), rtol=1e-10)
    assert ON_CARD or len(capturing.captures) == 1


def test_captured_arrays_may_change(cupy):
    weights = np.ones(40)

    def scaled(u):
        for _ in range(5):
            new = u.copy()
            new[1:-1] = weights[1:-1] * (u[:-2] + u[2:])
            u = new
        return u

    fn = calque.jit(scaled, graph=True)
    for factor in (1.0, 0.5, 0.25):
        weights[:] = factor
        found = call(fn, cupy, X)
        np.testing.assert_allclose(cupy.asnumpy(found), scaled(X), rtol=1e-12)


def test_each_stream_has_its_own_graph(cupy):
    fn = calque.jit(diffused, graph=True)
    call(fn, cupy, X, 0.1, 5)
    with cupy.cuda.Stream(non_blocking=True):
        found = call(fn, cupy, 2 * X, 0.1, 5)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted(2 * X, 0.1, 5), rtol=1e-12)
    assert ON_CARD or len(capturing.captures) == 2


def test_within_a_capture_of_the_callers_the_launches_are_its(cupy):
    fn = calque.jit(diffused)
    for _ in range(4):
        call(fn, cupy, X, 0.1, 5)
    x, before = cupy.asarray(3 * X), len(capturing.graph_launches)
    pool, stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream(non_blocking=True)
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        found = fn(x, 0.1, 5)
        graph = stream.end_capture()
    assert ON_CARD or len(capturing.graph_launches) == before
    graph.launch()
    np.testing.assert_allclose(cupy.asnumpy(found), wanted(3 * X, 0.1, 5), rtol=1e-12)


def test_threads_take_turns(cupy):
    fn = calque.jit(diffused, graph=True)
    call(fn, cupy, X, 0.1, 5)
    wrong: list[Any] = []

    def many(k: int) -> None:
        for _ in range(10):
            found = cupy.asnumpy(call(fn, cupy, X + k, 0.1, 5))
            if not np.allclose(found, wanted(X + k, 0.1, 5)):
                wrong.append(k)

    threads = [threading.Thread(target=many, args=(k,)) for k in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


# what has no graph


def solved(a, b):
    for _ in range(6):
        b = np.linalg.solve(a, b)
    return b


def until(x):
    while np.sum(x) > 1.0:
        x = 0.5 * x
    return x


def test_what_has_none_says_why(cupy):
    a = cupy.asarray(np.eye(3) * 2.0)
    with pytest.raises(NoGraph, match=r"solved\w*: graph=True, and it calls cp.linalg.solve"):
        calque.jit(solved, graph=True)(a, cupy.asarray(np.ones(3)))
    with pytest.raises(NoGraph, match="loops until a value says so"):
        calque.jit(until, graph=True)(cupy.asarray(abs(X)))
    with pytest.raises(NoGraph, match="an argument is not contiguous"):
        calque.jit(diffused, graph=True)(cupy.asarray(RNG.standard_normal(80))[::2], 0.1, 5)
    with pytest.raises(NoGraph, match="it launches 5000 kernels, of at most 4096"):
        calque.jit(diffused, graph=True)(cupy.asarray(X), 0.1, 5000)
    with pytest.raises(NoGraph, match="it launches one kernel"):
        calque.jit(lambda x: np.exp(x) * 2.0, graph=True)(cupy.asarray(X))


@pytest.mark.parametrize("wish", ["auto", False])
def test_others_run_as_before(cupy, wish):
    a, b = np.eye(3) * 2.0, np.ones(3)
    fn = calque.jit(solved, graph=wish)
    for _ in range(4):
        np.testing.assert_allclose(cupy.asnumpy(fn(cupy.asarray(a), cupy.asarray(b))), solved(a, b))
    assert not capturing.captures


def test_false_is_never(cupy):
    fn = calque.jit(diffused, graph=False)
    for _ in range(5):
        call(fn, cupy, X, 0.1, 6)
    assert not capturing.captures


def test_large_arrays_are_not_copied(cupy):
    fn = calque.jit(diffused)
    large = RNG.standard_normal(200_000)
    for _ in range(4):
        found = call(fn, cupy, large, 0.1, 5)
    found = cupy.asnumpy(found)  # a card rounds a product and a sum once
    np.testing.assert_allclose(found, wanted(large, 0.1, 5), rtol=1e-12, atol=1e-15)
    assert not capturing.captures


def test_a_wish_is_checked():
    with pytest.raises(ValueError, match="graph"):
        calque.jit(diffused, graph="always")


def test_graphs_are_kept_for_few_sizes(cupy):
    fn = calque.jit(diffused, graph=True)
    for size in range(20, 32):
        call(fn, cupy, X[:size], 0.1, 5)
    program, _ = fn.cuda_programs().find((X, 0.1, 5), {})
    assert len(program.launcher.graphs) == 8
    found = call(fn, cupy, X[:20], 0.1, 5)
    np.testing.assert_allclose(cupy.asnumpy(found), wanted(X[:20], 0.1, 5), rtol=1e-12)


# the stand-in is as strict as CUDA


def test_the_stand_in_refuses_what_cuda_does(cupy):
    x = cupy.asarray(X)
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with pytest.raises(RuntimeError, match="legacy"):
        cupy.cuda.get_current_stream().begin_capture()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        for wait in (x.get, lambda: float(x[0]), lambda: cupy.asarray(X), stream.synchronize):
            with pytest.raises(RuntimeError, match="capturing"):
                wait()
        stream.end_capture()
    with stream:
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="outside of a pool"):
            cupy.empty(3)
        stream.end_capture()


@pytest.mark.skipif(ON_CARD, reason="it is of the stand-in")
def test_the_stand_in_sees_memory_that_was_given_back(cupy):
    x = cupy.asarray(X)
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        y = x + 1.0
        graph = stream.end_capture()
    assert np.isnan(cupy.asnumpy(y)).all()  # nothing has run
    graph.launch()
    np.testing.assert_allclose(cupy.asnumpy(y), X + 1.0)
    x[...] = 5.0
    graph.launch()
    np.testing.assert_allclose(cupy.asnumpy(y), 6.0)
    del y, pool
    gc.collect()
    with pytest.raises(RuntimeError, match="given back"):
        graph.launch()
