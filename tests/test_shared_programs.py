"""Closures of one factory share programs, and each has its own captured values."""

import functools
import gc
import operator
import threading
import warnings
import weakref

import numpy as np
import pytest

import calque

P = np.linspace(0.5, 2.0, 4)


def loss(p, x):
    return np.sum((p * x - 1.0) ** 2)


def slope(p, x, scale=1.0):
    return scale * 2.0 * (p * x - 1.0) * x


class Model:
    def __init__(self, rate):
        self.rate = rate

    def loss(self, p, x=P):
        return self.rate * loss(p, x)

    @classmethod
    def of_class(cls, p):
        return loss(p, P)


def fresh_lambda(x, scale):
    return lambda p: loss(p, x)


def fresh_function(x, scale):
    def f(p):
        return loss(p, x)

    return f


def fresh_default(x, scale):
    return lambda p, x=x, *, scale=1.0: scale * loss(p, x)


def fresh_keyword(x, scale):
    def f(p, *, x=x):
        return loss(p, x)

    return f


def fresh_partial(x, scale):
    return functools.partial(loss, x=x)


def fresh_nested(x, scale):
    def predict(p):
        return p * x

    def residual(p):
        return predict(p) - 1.0

    return lambda p: np.sum(residual(p) ** 2)


def fresh_recursive(x, scale):
    def power(p, n):
        return 1.0 if n == 0 else (p * x - 1.0) * power(p, n - 1)

    return lambda p: np.sum(power(p, 2))


def fresh_list(x, scale):
    held = {"x": [x, x], "n": 2}
    return lambda p: loss(p, held["x"][1])


KINDS = [
    fresh_lambda,
    fresh_function,
    fresh_default,
    fresh_keyword,
    fresh_partial,
    fresh_nested,
    fresh_recursive,
    fresh_list,
]
WAYS = {
    "grad": calque.grad,
    "jit": lambda f: calque.jit(calque.grad(f)),
    "value_and_grad": lambda f: lambda p: calque.value_and_grad(f)(p)[1],
    "vjp": lambda f: lambda p: calque.vjp(f, p)[1](np.float64(1.0))[0],
    "jvp": lambda f: lambda p: np.array([calque.jvp(f, (p,), (e,))[1] for e in np.eye(4)]),
    "jacrev": calque.jacrev,
}


@pytest.fixture
def generated(monkeypatch):
    """A list that gets an entry for each program that is generated from now on."""
    from calque.transpiler import pipeline

    made = []
    to_core = pipeline.to_core

    def counted(*args):
        made.append(args)
        return to_core(*args)

    monkeypatch.setattr(pipeline, "to_core", counted)
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_each_has_its_own_array_and_later_ones_make_no_program(kind, way, generated):
    for turn in range(8):
        x = np.cos(np.arange(4.0) + turn)
        np.testing.assert_allclose(WAYS[way](kind(x, turn))(P), slope(P, x), rtol=1e-12)
        if turn == 2:
            generated.clear()
    assert not generated


@pytest.mark.parametrize("way", ["grad", "jit"])
def test_methods(way, generated):
    model, other = Model(1.0), Model(3.0)
    for turn in range(8):
        model.rate = 1.0 + turn
        np.testing.assert_allclose(WAYS[way](model.loss)(P), slope(P, P, model.rate))
        np.testing.assert_allclose(WAYS[way](other.loss)(P), slope(P, P, 3.0))
        np.testing.assert_allclose(WAYS[way](Model.of_class)(P), slope(P, P))
        if turn == 3:
            generated.clear()
    assert not generated


class Frozen:
    def __init__(self, x):
        self.x, self.scale = x, 2.0

    @property
    def doubled(self):
        return self.scale * self.x

    def __call__(self, p):
        return loss(p, self.doubled)

    def loss(self, p):
        return self(p)


def test_methods_of_new_instances(generated):
    for turn in range(8):
        x = np.cos(np.arange(4.0) + turn)
        np.testing.assert_allclose(calque.grad(Frozen(x).loss)(P), slope(P, 2.0 * x))
        np.testing.assert_allclose(calque.jit(Frozen(x))(P), loss(P, 2.0 * x))
        if turn == 2:
            generated.clear()
    assert not generated


class Asking:
    chosen = None
    table: dict = {}

    def __init__(self, x):
        self.x = x

    def loss(self, p):
        return loss(p, self.x) * (2.0 if self.is_chosen() else 1.0)

    def is_chosen(self):
        return self is Asking.chosen


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def loss(self, p):
        return loss(p, self.x)


class Listed(list):
    def loss(self, p):
        return loss(p, self.x) * len(self)


@pytest.mark.parametrize("cls", [Asking, Slotted, Listed])
def test_instances_that_are_more_than_their_attributes(cls):
    for turn in range(5):
        made = []
        for k in range(2):
            own = cls([1] * (k + 1)) if cls is Listed else cls(np.full(4, 1.0 + turn + k))
            if cls is Listed:
                own.x = np.full(4, 1.0 + turn + k)
            made.append(own)
        Asking.chosen = made[1]
        for k, own in enumerate(made):
            scale = 1.0 if cls is Slotted else 1.0 + k
            np.testing.assert_allclose(calque.grad(own.loss)(P), slope(P, own.x, scale))


def test_an_instance_and_what_it_has_are_freed():
    def turn():
        own = Frozen(np.ones(4))
        calque.grad(own.loss)(P)
        calque.jit(own.loss)(P)
        return weakref.ref(own), weakref.ref(own.x)

    kept = [ref for _ in range(4) for ref in turn()]
    gc.collect()
    assert all(ref() is None for ref in kept)


def test_captured_numbers_of_new_functions_become_arguments(generated):
    def fresh(temperature, x):
        return lambda p: loss(p, x) / temperature

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for turn in range(12):
            x = np.full(4, 1.0 + turn)
            found = calque.grad(fresh(0.5 + turn, x))(P)
            np.testing.assert_allclose(found, slope(P, x, 1.0 / (0.5 + turn)), rtol=1e-12)
            if turn == 5:
                generated.clear()
    assert not generated
    assert "*, x, temperature" in calque.source(calque.grad(fresh(3.0, P)), P)


def test_shapes_and_dtypes_of_what_is_captured_are_checked():
    def fresh(x):
        return lambda p: np.sum(p * x)

    arrays = [
        np.ones(4),
        np.ones((2, 4)),
        np.ones(1),
        np.float32(2.0),
        2.0,
        3,
        np.arange(4),
        [1.0] * 4,
    ]
    for x in arrays * 2:
        expected = np.sum(
            np.broadcast_to(x, np.broadcast_shapes(np.shape(x), (4,))).reshape(-1, 4), axis=0
        )
        found = calque.grad(fresh(np.array(x) if isinstance(x, list) else x))(P)
        np.testing.assert_allclose(found, expected)
    with pytest.raises(ValueError):
        calque.grad(fresh(np.ones(5)))(P)


def test_types_and_modules_that_are_captured():
    import math

    def fresh(kind, library):
        return lambda p: np.zeros(4, kind) + library.sqrt(4) + p.astype(kind)

    for kind, library in (
        (np.float32, np),
        (np.float64, math),
        (np.float32, math),
        (float, np),
    ) * 2:
        found, expected = calque.jit(fresh(kind, library))(P), fresh(kind, library)(P)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_other_functions_captured_are_other_programs():
    def fresh(activation):
        return lambda p: np.sum(activation(p))

    table = {np.sin: np.cos, np.exp: np.exp, np.square: lambda p: 2 * p}
    kept = {f: calque.grad(fresh(f)) for f in table}
    for _ in range(4):
        for activation, derivative in table.items():
            np.testing.assert_allclose(kept[activation](P), derivative(P))
            np.testing.assert_allclose(calque.grad(fresh(activation))(P), derivative(P))


def test_functions_that_stay_have_programs_of_their_own_at_last(generated):
    """Interleaved calls of two functions that cannot share do not make programs again and again."""

    def fresh(activation):
        return lambda p: np.sum(activation(p))

    kept = [calque.grad(fresh(f)) for f in (np.sin, np.exp, np.tanh, np.square)]
    for turn in range(10):
        for gradient in kept:
            gradient(P)
        if turn == 4:
            generated.clear()
    assert not generated


def act(p):
    return p * p


def make_act(k):
    def made(p):
        return k * p

    return made


ACT = make_act(3.0)


def test_identity_of_captured_functions():
    def fresh(f, x):
        return lambda p: np.sum(f(p) * x) if f is ACT else np.sum(p * x)

    def table(f, x):
        return lambda p: np.sum(p * x) * {ACT: 7.0}.get(f, 1.0)

    for turn in range(5):
        x = np.full(4, 1.0 + turn)
        np.testing.assert_allclose(calque.grad(fresh(ACT, x))(P), 3.0 * x)
        np.testing.assert_allclose(calque.grad(fresh(make_act(3.0), x))(P), x)
        np.testing.assert_allclose(calque.grad(table(ACT, x))(P), 7.0 * x)
        np.testing.assert_allclose(calque.grad(table(make_act(3.0), x))(P), x)


def test_two_captured_functions_that_may_be_one():
    def fresh(f, g, x):
        return lambda p: np.sum(f(p) * g(p) * x)

    for turn in range(6):
        x = np.full(4, 1.0 + turn)
        one, two = make_act(2.0 + turn), make_act(5.0)
        same = calque.grad(fresh(one, one, x))(P)
        np.testing.assert_allclose(same, 2.0 * (2.0 + turn) ** 2 * P * x)
        np.testing.assert_allclose(
            calque.grad(fresh(one, two, x))(P), 2.0 * (2.0 + turn) * 5.0 * P * x
        )


def test_cells_are_read_when_it_is_called():
    def two():
        x = np.ones(4)
        gradient = calque.grad(lambda p: loss(p, x))
        before = gradient(P)
        x = np.full(4, 3.0)
        return before, gradient(P)

    for _ in range(4):
        before, after = two()
        np.testing.assert_allclose(before, slope(P, 1.0))
        np.testing.assert_allclose(after, slope(P, 3.0))


def test_a_cell_without_a_value():
    def early():
        gradient = calque.grad(lambda p: loss(p, x))
        with pytest.raises(Exception, match="x has no value yet"):
            gradient(P)
        x = np.ones(4)
        return gradient(P)

    for _ in range(4):
        np.testing.assert_allclose(early(), slope(P, 1.0))


def test_what_was_captured_is_freed():
    def turn(kind):
        x = np.cos(np.arange(4.0))
        WAYS["vjp"](kind(x, 1.0))(P)
        WAYS["jit"](kind(x, 1.0))(P)
        WAYS["grad"](kind(x, 1.0))(P)
        return weakref.ref(x)

    for kind in KINDS:
        kept = [turn(kind) for _ in range(2)]
        gc.collect()
        assert [ref() is None for ref in kept] == [True] * 2, kind.__name__


def test_threads():
    wrong = []

    def work(k):
        for turn in range(60):
            x = np.full(4, 1.0 + k + turn)
            found = calque.grad(fresh_nested(x, 1.0))(P)
            if not np.allclose(found, slope(P, x)):
                wrong.append((k, turn))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_within_another(monkeypatch):
    """A call that Python makes while a program is generated, of the same code."""

    def fresh(x, depth):
        def constant():
            return float(calque.grad(fresh(x, depth - 1))(P)[0]) if depth else 1.0

        return lambda p: np.sum(p * x) * constant()

    def fresh_value(x, depth):
        inner = fresh_value(x, depth - 1) if depth else None
        return lambda p: np.sum(p * x) * (1.0 if inner is None else calque.grad(inner)(p)[0])

    for turn in range(4):
        x = np.full(4, 2.0 + turn)
        np.testing.assert_allclose(calque.grad(fresh_value(x, 0))(P), x)
        np.testing.assert_allclose(calque.grad(fresh_value(x, 2))(P), x * x[0] ** 2)


def test_under_debug_nans():
    for turn in range(4):
        x = np.full(4, 1.0 + turn)
        with calque.debug_nans():
            np.testing.assert_allclose(calque.grad(fresh_lambda(x, 1.0))(P), slope(P, x))
            with calque.debug_nans(False):
                np.testing.assert_allclose(calque.grad(fresh_lambda(x, 1.0))(P), slope(P, x))
        np.testing.assert_allclose(calque.grad(fresh_lambda(x, 1.0))(P), slope(P, x))


def test_arguments_by_name_and_stores():
    def fresh(x):
        def f(p, q):
            p = p.copy()
            p[0] = q * x[0]
            return np.sum(p * p)

        return f

    def fill(x):
        def f(p):
            p[:] = x

        return f

    for turn in range(4):
        x = np.full(4, 2.0 + turn)
        found = calque.grad(fresh(x))(P, q=3.0)
        np.testing.assert_allclose(found, [0.0, *2.0 * P[1:]])
        p = P.copy()
        calque.jit(fill(x))(p)
        np.testing.assert_array_equal(p, x)


def test_functions_with_attributes_or_other_names_stay_alone():
    def fresh(k):
        def f(p):
            return f.k * np.sum(p)

        f.k = k
        return f

    for k in (1.0, 2.0, 3.0, 4.0):
        np.testing.assert_allclose(calque.grad(fresh(k))(P), np.full(4, k))
        renamed = fresh_function(P, 1.0)
        renamed.__name__ = f"loss_{int(k)}"
        assert calque.grad(renamed).source(P).startswith(f"def loss_{int(k)}_grad")


def test_defaults_that_change_in_number():
    def fresh(x):
        def f(p, x=x):
            return loss(p, x)

        return f

    for turn in range(4):
        x = np.full(4, 2.0 + turn)
        f = fresh(x)
        np.testing.assert_allclose(calque.grad(f)(P), slope(P, x))
        g = fresh(x)
        g.__defaults__ = None
        with pytest.raises(TypeError):
            calque.grad(g)(P)
        np.testing.assert_allclose(calque.grad(operator.itemgetter(0)([fresh(x)]))(P), slope(P, x))
