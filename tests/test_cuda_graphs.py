"""CUDA graphs: repeated calls are captured and replayed, and no result is stale or lost."""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, capturing, cublas
from cuda_emulator.running import ON_CARD, counts, installed

import calque
from calque.runtime.cuda import captured_products, graphs
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


def call(fn, cupy, x, *rest):
    return fn(cupy.asarray(x), *rest)


def test_the_third_call_alike_is_captured_and_the_next_are_replayed(cupy):
    fn = calque.jit(diffused)
    for k in range(5):
        x = X + k
        found = call(fn, cupy, x, 0.1, 6)
        np.testing.assert_allclose(cupy.asnumpy(found), diffused(x, 0.1, 6), rtol=1e-12)
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
            np.testing.assert_allclose(cupy.asnumpy(found), diffused(X + k, 0.1, 5), rtol=1e-12)
    np.testing.assert_allclose(cupy.asnumpy(again), diffused(X, 0.1, 5), rtol=1e-12)
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
        np.testing.assert_allclose(cupy.asnumpy(found), diffused(x, rate, steps), rtol=1e-12)
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
        np.testing.assert_allclose(cupy.asnumpy(found), diffused(X, 0.1 + 0.01 * k, 5), rtol=1e-12)
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
    with cupy.cuda.Stream(non_blocking=True) as stream:
        found = call(fn, cupy, 2 * X, 0.1, 5)
    stream.synchronize()
    np.testing.assert_allclose(cupy.asnumpy(found), diffused(2 * X, 0.1, 5), rtol=1e-12)
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
    np.testing.assert_allclose(cupy.asnumpy(found), diffused(3 * X, 0.1, 5), rtol=1e-12)


def test_threads_take_turns(cupy):
    fn = calque.jit(diffused, graph=True)
    call(fn, cupy, X, 0.1, 5)
    wrong: list[Any] = []

    def many(k: int) -> None:
        for _ in range(10):
            found = cupy.asnumpy(call(fn, cupy, X + k, 0.1, 5))
            if not np.allclose(found, diffused(X + k, 0.1, 5)):
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


LARGE = RNG.standard_normal(33_000)  # just too large to be copied


def test_large_arrays_that_lie_elsewhere_each_time_are_not_copied(cupy):
    fn = calque.jit(diffused)
    given = [cupy.asarray(LARGE + k) for k in range(5)]
    for k, x in enumerate(given):
        found = cupy.asnumpy(fn(x, 0.1, 5))  # the card fuses a product and a sum
        np.testing.assert_allclose(found, diffused(LARGE + k, 0.1, 5), rtol=1e-12, atol=1e-15)
    assert not capturing.captures


def test_what_takes_a_gpu_long_is_not_captured(cupy, monkeypatch):
    x = cupy.asarray(LARGE)
    monkeypatch.setattr(graphs, "MOST_MEMORY", LARGE.nbytes // 4)
    fn = calque.jit(diffused)
    for _ in range(4):
        found = cupy.asnumpy(fn(x, 0.1, 5))
        np.testing.assert_allclose(found, diffused(LARGE, 0.1, 5), rtol=1e-12, atol=1e-14)
    assert not capturing.captures


def test_large_arrays_are_read_where_they_are(cupy):
    fn, x = calque.jit(diffused), cupy.asarray(LARGE)
    for k in range(5):
        x[...] = cupy.asarray(LARGE + k)
        counts.moved_by_calls.clear()
        found = fn(x, 0.1, 5)
        np.testing.assert_allclose(
            cupy.asnumpy(found), diffused(LARGE + k, 0.1, 5), rtol=1e-12, atol=1e-14
        )
    assert ON_CARD or (len(capturing.captures), len(capturing.graph_launches)) == (1, 3)
    assert ON_CARD or counts.moved_by_calls == [2 * LARGE.nbytes]  # the result
    other = cupy.asarray(2 * LARGE)
    found = fn(other, 0.1, 5)
    np.testing.assert_allclose(
        cupy.asnumpy(found), diffused(2 * LARGE, 0.1, 5), rtol=1e-12, atol=1e-14
    )
    assert ON_CARD or len(capturing.graph_launches) == 3


@pytest.mark.parametrize("fn", [in_place, given_back])
def test_large_arrays_are_stored_into_where_they_are(cupy, fn):
    made, u = calque.jit(fn), cupy.asarray(LARGE)
    for k in range(5):
        want = LARGE + k
        u[...] = cupy.asarray(want)
        found, value = made(u, 5), fn(want, 5)
        found, value = (found[1], value[1]) if fn is given_back else (found, value)
        np.testing.assert_allclose(cupy.asnumpy(found), value, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(cupy.asnumpy(u), want, rtol=1e-12, atol=1e-14)
    assert ON_CARD or (len(capturing.captures), len(capturing.graph_launches)) == (1, 3)


# products of matrices


def mlp_loss(W_0, b_0, W_1, b_1, x, y):
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y
    return np.mean(error * error)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_a_training_step_is_replayed(cupy, dtype, rows):
    shapes = [(5, 8), (8,), (8, 3), (3,), (rows, 5), (rows, 3)]
    given = [RNG.standard_normal(s).astype(dtype) for s in shapes]
    slopes = calque.value_and_grad(mlp_loss, argnums=(0, 1, 2, 3))
    step, weights = calque.jit(slopes), [cupy.asarray(w) for w in given[:4]]
    data, tolerance = [cupy.asarray(v) for v in given[4:]], 1e-4 if dtype == np.float32 else 1e-10
    for _ in range(6):
        value, found = step(*weights, *data)
        value_wanted, want = slopes(*given)
        np.testing.assert_allclose(cupy.asnumpy(value), value_wanted, tolerance, tolerance)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(cupy.asnumpy(a), b, rtol=tolerance, atol=tolerance)
        weights = [w - 0.01 * w_bar for w, w_bar in zip(weights, found, strict=True)]
        given[:4] = [w - 0.01 * w_bar for w, w_bar in zip(given[:4], want, strict=True)]
    assert ON_CARD or (len(capturing.captures), len(capturing.graph_launches)) == (1, 4)


def products_of(a, b, v):
    one = np.tanh(a @ b) @ np.tanh(b.T @ a.T)
    two = np.tanh(v @ a) @ b
    return one + one.T, np.tanh(two) @ np.tanh(two), a @ (b @ two)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("sizes", [(4, 3), (1, 5), (6, 1)])
def test_products_are_replayed(cupy, dtype, sizes):
    shapes, fn = (sizes, sizes[::-1], sizes[:1]), calque.jit(products_of, graph=True)
    for _ in range(2):
        given = [(RNG.standard_normal(s) * (0.5 + 0.1j)) for s in shapes]
        given = [(x if dtype == np.complex128 else x.real).astype(dtype) for x in given]
        found = fn(*(cupy.asarray(x) for x in given))
        for x, y in zip(found, products_of(*given), strict=True):
            np.testing.assert_allclose(cupy.asnumpy(x), y, rtol=1e-4, atol=1e-5)
    assert ON_CARD or (len(capturing.captures), len(capturing.graph_launches)) == (1, 2)


WHOLE = RNG.standard_normal((12, 12)) + 1j * RNG.standard_normal((12, 12))
LAYOUTS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "rows": lambda x: x[2:7],
    "columns": lambda x: x[:, 3:8],
    "columns, transposed": lambda x: x[:, 3:8].T,
    "every other": lambda x: x[::2, ::3],
    "reversed": lambda x: x[::-1],
    "one row": lambda x: x[3:4, 2:9],
    "one column": lambda x: x[2:9, 3:4],
    "one, strided": lambda x: x[5:6, ::4],
    "a row": lambda x: x[3],
    "a column": lambda x: x[:, 3],
    "some of a column": lambda x: x[::5, 3],
    "nothing": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("left", LAYOUTS)
def test_products_of_all_layouts(cupy, left, dtype):
    whole = (WHOLE if np.dtype(dtype).kind == "c" else WHOLE.real).astype(dtype)
    there, other = cupy.asarray(whole), cupy.asarray(whole.T + 1)
    memory = captured_products.workspace()
    for right in LAYOUTS.values():
        a, b = LAYOUTS[left](whole), right(whole.T + 1)
        inner = min(a.shape[-1], b.shape[0])
        want = a[..., :inner] @ b[:inner]
        cublas.calls.clear()
        found = captured_products.product(
            memory, LAYOUTS[left](there)[..., :inner], right(other)[:inner]
        )
        assert found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(cupy.asnumpy(found), want, rtol=1e-4, atol=1e-4)
        assert ON_CARD or len(cublas.calls) == (want.size > 0 and inner > 0)


def test_products_of_other_dtypes_and_shapes(cupy):
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 2)).astype(np.float32)
    product = functools.partial(captured_products.product, captured_products.workspace())
    for x, y in [(a, b), (b.T, a.T), ((9 * a).astype(int), (9 * b).astype(int)),
                 ((9 * a).astype(int), b), (np.stack([a, a]), b)]:  # fmt: skip
        found, want = product(cupy.asarray(x), cupy.asarray(y)), x @ y
        assert found.dtype == want.dtype
        np.testing.assert_allclose(cupy.asnumpy(found), want, rtol=1e-6)
    with pytest.raises(ValueError):
        product(cupy.asarray(a), cupy.asarray(a))


def test_what_cublas_refuses_is_left_to_launches_for_good(cupy, monkeypatch):
    def missing() -> None:
        raise RuntimeError("cuBLAS is not found in this process")

    monkeypatch.setattr(captured_products, "_cublas", missing)
    a, b, v = (RNG.standard_normal(s) for s in ((3, 4), (4, 3), (3,)))
    given = [cupy.asarray(x) for x in (a, b, v)]
    fn = calque.jit(products_of)
    for _ in range(5):
        for x, y in zip(fn(*given), products_of(a, b, v), strict=True):
            np.testing.assert_allclose(cupy.asnumpy(x), y, rtol=1e-10)
    program, _ = fn.cuda_programs().find((a, b, v), {})
    assert program.launcher.off and not cupy.cuda.get_current_stream().is_capturing()
    with pytest.raises(NoGraph, match="graph=True, and cuBLAS is not found"):
        calque.jit(products_of, graph=True)(*given)


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
    np.testing.assert_allclose(cupy.asnumpy(found), diffused(X[:20], 0.1, 5), rtol=1e-12)


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
        with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureInvalidated"):
            stream.end_capture()
        assert not stream.is_capturing()
        y = x + 1.0
    stream.synchronize()
    np.testing.assert_allclose(cupy.asnumpy(y), X + 1.0)


def test_cupy_calls_no_cublas_while_the_stream_captures(cupy):
    x = cupy.asarray(np.eye(3))
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        x @ x
        stream.begin_capture()
        for call in (lambda: x @ x, lambda: cupy.dot(x, x), lambda: cupy.linalg.inv(x)):
            with pytest.raises(NotImplementedError, match="during stream capture"):
                call()
        y = x + 1.0
        graph = stream.end_capture()
        graph.launch()
    stream.synchronize()
    np.testing.assert_allclose(cupy.asnumpy(y), np.eye(3) + 1.0)


@pytest.mark.skipif(ON_CARD, reason="CuPy gives memory that it gives to others later")
def test_the_stand_in_gives_no_memory_while_a_stream_captures(cupy):
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="outside of a pool"):
            cupy.empty(3)
        with pytest.raises(RuntimeError, match="Invalidated"):
            stream.end_capture()


@pytest.mark.skipif(ON_CARD, reason="it is of the stand-in")
def test_the_stand_in_sees_memory_that_was_given_back(cupy):
    x = cupy.asarray(X)
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        y = x + 1.0
        graph = stream.end_capture()
    with pytest.raises(RuntimeError, match="in which nothing is stored"):
        cupy.asnumpy(y)  # nothing has run
    graph.launch()
    np.testing.assert_allclose(cupy.asnumpy(y), X + 1.0)
    x[...] = 5.0
    graph.launch()
    np.testing.assert_allclose(cupy.asnumpy(y), 6.0)
    del y, pool
    gc.collect()
    with pytest.raises(RuntimeError, match="given back"):
        graph.launch()
