"""Transformed functions behave as functions: decorators, names, pickles, threads, tracebacks, memory."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import linecache
import os
import pdb
import pickle
import statistics
import threading
import time
import traceback
from functools import partial

import numpy as np
import pytest

import calque
from calque.transpiler.errors import AliasUndecided


@calque.grad
def energy(x, rate=2.0):
    """The energy of x."""
    return rate * np.sum(x * x)


@calque.grad(argnums=1)
def by_second(x, y):
    return x * y * y


@partial(calque.value_and_grad, argnums=1)
def both(x, y):
    return x * y * y


class Model:
    def __init__(self, rate):
        self.rate = rate

    @calque.grad
    def slope(self, x):
        """By x, not by self."""
        return self.rate * np.sum(x * x)

    @partial(calque.value_and_grad, argnums=(0, 1))
    def both(self, x, y):
        return self.rate * x * y

    @staticmethod
    @calque.grad
    def cube(x):
        return x**3

    @classmethod
    def plain(cls, x):
        return x**2

    def value(self, x):
        return self.rate * np.sum(x * x)


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate):
        self.rate = rate

    @calque.grad
    def slope(self, x):
        return self.rate * x * x


# decorators


def test_decorators() -> None:
    np.testing.assert_array_equal(energy(np.ones(2)), [4.0, 4.0])
    np.testing.assert_array_equal(energy(np.ones(2), rate=0.5), [1.0, 1.0])
    assert by_second(2.0, 3.0) == 12.0
    assert both(2.0, 3.0) == (18.0, 12.0)


def test_methods() -> None:
    model, other = Model(2.0), Model(5.0)
    np.testing.assert_array_equal(model.slope(np.ones(2)), [4.0, 4.0])
    np.testing.assert_array_equal(other.slope(np.ones(2)), [10.0, 10.0])
    model.rate = 3.0
    np.testing.assert_array_equal(model.slope(np.ones(2)), [6.0, 6.0])
    assert model.both(2.0, 5.0) == (30.0, (15.0, 6.0))
    assert Model.cube(2.0) == 12.0 and model.cube(2.0) == 12.0
    assert calque.grad(Model.plain)(3.0) == 6.0
    slotted = Slotted(2.0)
    assert slotted.slope(3.0) == 12.0
    slotted.rate = 1.0
    assert slotted.slope(3.0) == 6.0


def test_copies_of_an_object_are_objects_of_their_own() -> None:
    model = Model(2.0)
    model.slope(np.ones(2))
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.rate = 7.0
        np.testing.assert_array_equal(other.slope(np.ones(2)), [14.0, 14.0])
        np.testing.assert_array_equal(model.slope(np.ones(2)), [4.0, 4.0])


def test_a_method_s_object_is_freed() -> None:
    import weakref

    model = Model(2.0)
    model.slope(np.ones(2))
    watched = weakref.ref(model)
    del model
    gc.collect()
    assert watched() is None


def test_what_a_function_says_of_itself_is_kept() -> None:
    assert (energy.__name__, energy.__doc__) == ("energy", "The energy of x.")
    assert energy.__wrapped__.__name__ == "energy" and energy.__module__ == __name__
    assert str(inspect.signature(energy)) == "(x, rate=2.0)"
    assert inspect.unwrap(energy)(np.ones(2)) == 4.0
    assert Model(1.0).slope.__name__ == "slope" and Model.slope.__doc__ == "By x, not by self."
    assert str(inspect.signature(Model(1.0).slope)) == "(x)"
    assert str(inspect.signature(calque.jvp(both.__wrapped__))) == "(x, y, x_dot, y_dot)"
    assert str(inspect.signature(calque.vjp(both.__wrapped__))) == "(x, y, return_bar)"


def cube(x):
    return x**3


def test_pickles() -> None:
    for made in (calque.grad(cube), calque.value_and_grad(calque.grad(cube)), calque.jvp(cube)):
        made(*[1.0] * len(inspect.signature(made).parameters))
        again = pickle.loads(pickle.dumps(made))
        args = [2.0] * len(inspect.signature(made).parameters)
        assert again(*args) == made(*args) and again.__name__ == "cube"
    assert pickle.loads(pickle.dumps(energy)) is energy
    assert pickle.loads(pickle.dumps(Model.slope)) is Model.slope
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(Model(3.0).slope))(np.ones(1)), [6.0])
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(calque.grad(lambda x: x))


# threads


def test_threads_may_call_one_function_for_new_types_at_once() -> None:
    def f(x, y):
        s = 0.0
        for i in range(3):
            s = s + np.sum(np.sin(x) * y[i])
        return s

    gradient = calque.grad(f)
    cases = [
        (np.ones(shape, dtype), np.arange(3.0))
        for dtype in ("f8", "f4")
        for shape in ((), (1,), (4,), (2, 3), (2, 1), (1, 1, 5))
    ]
    expected = [3.0 * np.cos(x) for x, _ in cases]
    failures: list[object] = []
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        start.wait()
        for k in np.random.default_rng(seed).permutation(len(cases)):
            try:
                np.testing.assert_allclose(gradient(*cases[k]), expected[k], rtol=1e-6)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# generated lines


def entries() -> set[str]:
    return {name for name in linecache.cache if name.startswith("<calque ")}


def test_linecache_entries_of_gone_functions_go_with_the_next() -> None:
    gc.collect()
    calque.grad(lambda x: x)(2.0)
    gc.collect()
    before = entries()
    made = list(map(calque.grad, (lambda x: x**2, lambda x: x**3, lambda x: x**4)))
    for transformed in made:
        transformed(2.0)
    assert len(entries() - before) == 3
    linecache.checkcache()
    assert len(entries() - before) == 3
    del made, transformed
    gc.collect()
    other = calque.grad(lambda x: x**5)
    other(2.0)
    assert len(entries() - before) == 1


def test_a_function_may_go_while_linecache_walks_through_its_entries(monkeypatch, tmp_path) -> None:
    file = tmp_path / "read.py"
    file.write_text("x = 1\n")
    linecache.getlines(str(file))  # before the entry of the function, and looked up on disk
    functions = [calque.grad(lambda x: x**3)]
    functions[0](2.0)
    stat = os.stat

    def gone_meanwhile(path, *args, **options):
        functions.clear()
        gc.collect()
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", gone_meanwhile)
    linecache.checkcache()
    assert functions == []


def test_tracebacks_and_inspect_show_generated_lines() -> None:
    def f(x, y):
        return np.sum(np.linalg.inv(x) * y)

    gradient = calque.grad(f)
    singular = np.zeros((2, 2))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        gradient(singular, 1.0)
    shown = "".join(traceback.format_exception(caught.value))
    assert "<calque f_grad" in shown and "np.linalg.inv(x)" in shown
    program = gradient.program(singular, 1.0)
    assert inspect.getsource(program.call).startswith("def f_grad(x, y):")
    assert inspect.getsource(program.call) in program.text


def test_pdb_steps_through_generated_lines() -> None:
    call = calque.grad(cube).program(2.0).call
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("step\nstep\nlist\nquit\n"), stdout=out, nosigint=True)
    debugger.rcLines = []
    with pytest.raises(Exception):  # noqa: B017
        debugger.runcall(call, 2.0)
        raise RuntimeError("stopped by quit")
    assert "def cube_grad(x):" in out.getvalue()


# nothing goes stale

scale = 2.0
weights = np.array([1.0, 2.0])
table = {"a": 1.0}
items = [1.0, 2.0]
names = {"a"}


def activation(x):
    return np.sin(x)


def uses_scale(x):
    return scale * x


def uses_weights(x):
    return np.sum(weights * x)


def test_a_captured_number_that_changes(monkeypatch) -> None:
    import sys

    here = sys.modules[__name__]
    gradient = calque.grad(uses_scale)
    assert gradient(1.0) == 2.0
    for value in (3.0, 2.0, -0.0, 7):
        monkeypatch.setattr(here, "scale", value)
        assert gradient(1.0) == value and gradient(1.0) == value
    monkeypatch.setattr(here, "scale", np.array([5.0]))
    with pytest.raises(TypeError):
        gradient(1.0)


def test_a_captured_array_that_changes(monkeypatch) -> None:
    import sys

    here = sys.modules[__name__]
    gradient = calque.grad(uses_weights)
    x = np.ones(2)
    np.testing.assert_array_equal(gradient(x), [1.0, 2.0])
    weights[0] = 5.0
    np.testing.assert_array_equal(gradient(x), [5.0, 2.0])
    weights[0] = 1.0
    for new in (
        np.array([3.0, 4.0]),
        np.array([3.0]),
        np.array(2.0),
        np.ones((3, 2)),
        np.arange(4.0)[::2],
        4.0,
        np.array([1, 2]),
        np.array([[1.0], [2.0]]),
    ):
        monkeypatch.setattr(here, "weights", new)
        expected = np.sum(np.broadcast_to(new, np.broadcast_shapes(np.shape(new), (2,))), axis=None)
        assert np.isclose(np.sum(gradient(x)), expected)
        assert np.isclose(np.sum(gradient(x)), expected)
    monkeypatch.setattr(here, "weights", np.ones(3))
    with pytest.raises(ValueError):
        gradient(x)


def test_a_captured_function_that_changes(monkeypatch) -> None:
    import sys

    gradient = calque.grad(lambda x: activation(2.0 * x))
    assert gradient(0.0) == 2.0
    monkeypatch.setattr(sys.modules[__name__], "activation", lambda x: x * 10.0)
    assert gradient(0.0) == 20.0


def test_a_cell_that_changes() -> None:
    factor = 2.0

    def f(x):
        return factor * x

    gradient = calque.grad(f)
    assert gradient(1.0) == 2.0
    factor = 3.0
    assert gradient(1.0) == 3.0
    factor = np.float32(4.0)
    assert gradient(1.0) == 4.0


def test_captured_containers_that_change() -> None:
    of_items = calque.grad(lambda x: sum([c * x for c in items]))
    of_table = calque.grad(lambda x: sum([c * x for c in table.values()]))
    of_names = calque.grad(lambda x: x * len(names))
    assert (of_items(1.0), of_table(1.0), of_names(1.0)) == (3.0, 1.0, 1.0)
    items.append(4.0)
    table["b"] = 5.0
    names.add("b")
    assert (of_items(1.0), of_table(1.0), of_names(1.0)) == (7.0, 6.0, 2.0)
    items[0] = 10.0
    table["a"] = 2.0
    assert (of_items(1.0), of_table(1.0)) == (16.0, 7.0)
    items.pop()
    del table["b"]
    names.discard("b")
    assert (of_items(1.0), of_table(1.0), of_names(1.0)) == (12.0, 2.0, 1.0)
    items[0], table["a"] = 1.0, 1.0


def test_known_sizes_of_captured_arrays_are_read_again() -> None:
    powers = {2: 2.0, 3: 3.0}
    grid = np.ones(2)

    def f(x):
        return powers[grid.shape[0]] * x

    gradient = calque.grad(f)
    assert gradient(1.0) == 2.0
    grid = np.ones(3)
    assert gradient(1.0) == 3.0
    grid = np.ones(2)
    assert gradient(1.0) == 2.0


def test_the_order_of_a_dict_is_part_of_its_type() -> None:
    gradient = calque.grad(lambda d, x: np.sum(np.array(list(d.values())) * x), argnums=1)
    np.testing.assert_array_equal(gradient({"b": 1.0, "a": 2.0}, np.ones(2)), [1.0, 2.0])
    np.testing.assert_array_equal(gradient({"a": 2.0, "b": 1.0}, np.ones(2)), [2.0, 1.0])


# memory


def stored(x, y):
    x[0] = 3.0 * y[0]
    return np.sum(x * y)


def test_one_array_for_two_arguments() -> None:
    x = np.array([1.0, 2.0])
    unchanged = calque.grad(lambda a, b: np.sum(a * b * b), argnums=(0, 1))
    np.testing.assert_array_equal(unchanged(x, x)[0], x * x)
    np.testing.assert_array_equal(unchanged(x, x)[1], 2 * x * x)
    for _ in range(2):
        for args in ((x, x), (x, x[::-1]), (x[:1], x)):
            with pytest.raises((AliasUndecided, ValueError)):
                calque.value_and_grad(stored)(*args)
    long = np.arange(4.0)
    value, _ = calque.value_and_grad(stored)(long[:2], long[2:])
    assert value == stored(long[:2].copy(), long[2:])


def test_vjp_sees_one_array_for_two_arguments() -> None:
    x = np.array([1.0, 2.0])
    value, pullback = calque.vjp(stored, x, x)
    assert value == 13.0
    with pytest.raises(AliasUndecided):
        pullback(1.0)


def test_arguments_keep_their_values_and_layout_matters_not() -> None:
    def f(u):
        u[1:] = u[:-1] * u[1:]
        return np.sum(u)

    base = np.random.default_rng(0).normal(size=(7, 5))
    for u in (base, np.asfortranarray(base), base[::-1], base.T, base[::2, ::-1]):
        before, flags = u.copy(), u.flags.f_contiguous
        value, bar = calque.value_and_grad(f)(u)
        np.testing.assert_array_equal(u, before)
        assert u.flags.f_contiguous == flags
        assert value == f(u.copy(order="K"))
        np.testing.assert_allclose(bar, calque.grad(f)(np.ascontiguousarray(u)))


def test_a_pullback_uses_the_primals_as_they_were() -> None:
    x = np.array([1.0, 2.0])
    _, pullback = calque.vjp(lambda x: np.sum(x**3), x)
    x[:] = 0.0
    np.testing.assert_array_equal(pullback(1.0)[0], [3.0, 12.0])


def test_read_only_arguments() -> None:
    x = np.array([1.0, 2.0])
    x.flags.writeable = False
    np.testing.assert_array_equal(calque.grad(lambda x: np.sum(x**2))(x), 2 * x)


# cost


def test_a_call_costs_little_more_than_the_generated_function() -> None:
    gradient = calque.grad(uses_weights)
    x = np.ones(2)
    gradient(x)
    call = gradient.program(x).call

    def per_call(run) -> float:
        found = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(2000):
                run()
            found.append((time.perf_counter() - start) / 2000)
        return statistics.median(sorted(found)[:3])

    overhead = per_call(lambda: gradient(x)) - per_call(lambda: call(x, weights=weights))
    assert overhead < 4e-6 * 3, f"{overhead * 1e6:.1f} us"  # three times, for a busy machine


def test_jit_of_jit_keeps_the_options_of_both() -> None:
    def power(x, n, m):
        return sum([x**k for k in range(n)], 0.0) + m

    inner = calque.jit(power, static_argnames="n", parallel=False)
    both = calque.jit(inner, static_argnums=2)
    assert both.options["static_argnames"] == ("n",)
    assert both.options["static_argnums"] == (2,)
    assert both.options["parallel"] is False
    assert calque.jit(inner, parallel=True).options["parallel"] is True
    assert calque.jit(calque.jit(power, boundscheck=True)).options["boundscheck"] is True
    assert both(2.0, n=3, m=1.0) == 8.0
    assert both(2.0, n=2, m=1.0) == 4.0


TABLE = np.arange(4.0)


def test_a_stored_array_shares_no_memory_with_a_captured_one() -> None:
    def double(a):
        for i in range(a.shape[0]):
            a[i] = TABLE[TABLE.shape[0] - 1 - i] * 2.0
        return np.sum(a)

    compiled = calque.jit(double)
    before = TABLE.copy()
    for _ in range(2):  # the second call is dispatched by another way
        with pytest.raises(AliasUndecided, match="captured"):
            compiled(TABLE)
        np.testing.assert_array_equal(TABLE, before)
    assert compiled(np.zeros(4)) == 12.0
