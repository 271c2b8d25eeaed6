"""Programs that functions of one code share read what each has captured, and nothing of another's."""

from __future__ import annotations

import gc
import operator
import threading
import weakref
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.frontend.paths import FUNCTION, both, in_cell, of_object, step

P = np.linspace(0.5, 2.0, 4)
TABLE: dict[str, Any] = {}


def test_paths_with_equal_places_read_the_same() -> None:
    x = [3.0, 4.0]
    f: Any = lambda p: p * x
    cell = step(in_cell, FUNCTION, 0)
    item = step(operator.getitem, cell, 1)
    assert item.read(f) == 4.0 and item.moves
    assert item.place == step(operator.getitem, step(in_cell, FUNCTION, 0), 1).place
    assert item.place != step(operator.getitem, cell, 0).place
    fixed = step(operator.getitem, of_object(x), 1)
    assert fixed.read(None) == 4.0 and not fixed.moves
    assert both(operator.is_, cell, of_object(x)).read(f) is True
    assert both(operator.is_, cell, of_object([3.0, 4.0])).read(f) is False


def test_the_function_that_a_table_holds_keeps_its_own_values() -> None:
    """A function is reached by a table as well as by the call: the former stays, the latter moves."""

    def fresh(x: Any, depth: int) -> Any:
        return lambda p, n=1: np.sum(p * x) * (TABLE["f"](p, 0) if n else 1.0)

    TABLE["f"] = first = fresh(np.full(4, 7.0), 1)
    for turn in range(5):
        x = np.full(4, 2.0 + turn)
        f = first if turn == 2 else fresh(x, 1)
        expected = f(P)
        assert calque.jit(f)(P) == pytest.approx(expected)
        if turn == 3:
            TABLE["f"] = f


def test_a_cell_that_a_function_of_a_table_shares_stays_its_own() -> None:
    def fresh(x: Any) -> Any:
        def helper(p: Any) -> Any:
            return p * x

        TABLE.setdefault("helper", helper)
        return lambda p: np.sum(TABLE["helper"](p)) + np.sum(x)

    TABLE.pop("helper", None)
    for turn in range(5):
        f = fresh(np.full(4, 2.0 + turn))
        assert calque.jit(f)(P) == pytest.approx(f(P))


def test_two_functions_that_share_a_cell_need_not_do_so() -> None:
    def make(x: Any) -> Any:
        def inner(p: Any) -> Any:
            return p * x

        return inner

    def fresh(inner: Any, other: Any) -> Any:
        return lambda p: np.sum(inner(p)) + 2.0 * np.sum(other(p))

    for turn in range(6):
        one, two = make(np.full(4, 1.0 + turn)), make(np.full(4, 5.0 - turn))
        for f in (fresh(one, one), fresh(one, two), fresh(two, one)):
            assert calque.jit(f)(P) == pytest.approx(f(P))


def test_a_function_that_gets_other_code_is_read_again() -> None:
    def fresh(x: Any) -> Any:
        return lambda p: np.sum(p * x)

    def other(x: Any) -> Any:
        return lambda p: np.sum(p + x)

    for turn in range(4):
        x = np.full(4, 2.0 + turn)
        f: FunctionType = fresh(x)
        fn = calque.jit(f)
        assert fn(P) == pytest.approx(np.sum(P * x))
        f.__code__ = other(x).__code__
        assert fn(P) == pytest.approx(np.sum(P + x))


@pytest.mark.filterwarnings("ignore::calque.JitFallback")
def test_sizes_that_differ_in_a_loop_are_spread_for_each_function(monkeypatch: Any) -> None:
    """The program with kernels refuses; NumPy answers for the function of the call."""
    from calque.runtime.call.first_calls import FirstCalls

    def fresh(values: Any, columns: Any) -> Any:
        def rows(x: Any, starts: Any) -> Any:
            y = np.zeros(2)
            for i in range(2):
                cols = columns[starts[i] : starts[i + 1]]
                vals = values[starts[2 * i] : starts[2 * i + 1]]
                y[i] = np.sum(vals * x[cols])
            return y

        return rows

    compared, comparing = [], FirstCalls.comparing
    monkeypatch.setattr(
        FirstCalls, "comparing", lambda own, p: compared.append(own.root) or comparing(own, p)
    )
    x, columns = np.arange(4.0) + 1.0, np.array([0, 1, 2, 3, 0, 1, 2, 3])
    for turn in range(8):
        f = fresh(np.arange(8.0) + turn, columns)
        starts = np.array([0, 1, 4, 5] if turn in (4, 6) else [0, 2, 4, 6])
        np.testing.assert_allclose(calque.jit(f)(x, starts), f(x, starts))
    assert sum(root is not None for root in compared) >= 3


def test_threads_whose_functions_cannot_share_all_get_their_answers() -> None:
    def fresh(activation: Any, x: Any) -> Any:
        return lambda p: np.sum(activation(p) * x)

    slopes = {np.sin: np.cos, np.exp: np.exp, np.sinh: np.cosh, np.cosh: np.sinh}
    wrong: list[Any] = []

    def work(activation: Any) -> None:
        for turn in range(15):
            x = np.full(4, 1.0 + turn)
            try:
                found = calque.grad(fresh(activation, x))(P)
                if not np.allclose(found, slopes[activation](P) * x):
                    wrong.append(activation)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(a,)) for a in slopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_kernels_are_made_of_aside_is_freed() -> None:
    def turn(k: int) -> Any:
        x = np.full(4, 1.0 + k)
        fn = calque.jit(lambda p: np.sum(np.tanh(p) * x), first="numpy")
        assert fn(P) == pytest.approx(np.sum(np.tanh(P) * x))
        fn.wait()
        assert fn(P) == pytest.approx(np.sum(np.tanh(P) * x))
        return weakref.ref(x)

    kept = [turn(k) for k in range(5)]
    gc.collect()
    assert all(ref() is None for ref in kept[1:])


def test_new_functions_over_devices() -> None:
    for turn in range(12):
        x = np.full(4, 2.0 + turn)
        found = calque.pmap(lambda p: p * x)(np.stack([P]))
        np.testing.assert_allclose(found, [P * x])
        found = calque.pmap(calque.grad(squares_about_one(x)))(np.stack([P]))
        np.testing.assert_allclose(found, [2.0 * (P * x - 1.0) * x])


def squares_about_one(x: Any) -> Any:
    return lambda p: np.sum((p * x - 1.0) ** 2)


@pytest.mark.parametrize("kind", [calque.grad, calque.jit], ids=["grad", "jit"])
def test_what_a_call_captured_is_freed_without_the_collector(kind: Any) -> None:
    def turn(k: int) -> Any:
        x = np.full(4, 1.0 + k)
        kind(lambda p: np.sum(np.tanh(p) * x))(P)
        return weakref.ref(x)

    for k in range(3):
        turn(k)
    gc.collect()
    gc.disable()
    try:
        assert [turn(k)() for k in range(5)] == [None] * 5
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore::calque.JitFallback")
def test_sizes_that_differ_after_programs_of_several_types() -> None:
    def made() -> Any:
        def products(v: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
            y = np.zeros(len(a), v.dtype)
            for i in range(len(a)):
                y[i] = np.sum(v[a[i] : b[i]] * v[c[i] : d[i]])
            return y

        return products

    a, b, c = np.array([0, 2, 4]), np.array([2, 4, 6]), np.array([1, 2, 3])
    alike, spread = np.array([3, 4, 5]), np.array([2, 3, 5])
    for _ in range(2):
        fn = calque.jit(made())
        for dtype, d in [*[(float, alike), ("f", alike)] * 2, (float, spread), ("f", spread)]:
            v = np.arange(1.0, 9.0, dtype=dtype)
            np.testing.assert_array_equal(fn(v, a, b, c, d), made()(v, a, b, c, d))


def test_results_of_scipys_solvers_have_attributes():
    optimize = pytest.importorskip("scipy.optimize")
    fit = optimize.minimize(lambda x: np.sum((x - 1.0) ** 2), np.zeros(2), method="L-BFGS-B")
    weighed = calque.jit(lambda w: np.sum(w * fit.x) if fit.success else 0.0)
    assert weighed(np.ones(2)) == pytest.approx(2.0)
    fit["x"] = np.array([7.0, 8.0])
    assert weighed(np.ones(2)) == 15.0
    np.testing.assert_array_equal(calque.grad(weighed)(np.ones(2)), fit.x)
