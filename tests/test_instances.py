"""Instances of the user's classes: slots, factories and ``__post_init__`` of dataclasses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler.errors import AliasUndecided, BranchMismatch, UnsupportedFunction


class Slotted:
    __slots__ = ("v", "w", "steps")

    def __init__(self, v, w):
        self.v, self.w, self.steps = v, w, 0


@dataclass(slots=True)
class SlottedData:
    v: np.ndarray
    w: float = 2.0


@dataclass
class Model:
    x: np.ndarray
    n: int = 3
    log: list[Any] = field(default_factory=list)
    space: np.ndarray = field(default_factory=lambda: np.zeros(3))
    table: dict[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "model"
    scale: InitVar[float] = 2.0
    half: float = field(init=False)

    def __post_init__(self, scale):
        self.x = np.asarray(self.x) * scale
        if np.sum(self.x) > 0:
            self.half = 0.5 * np.sum(self.x)
        else:
            self.half = 0.0 * self.x[0]


@dataclass(frozen=True, slots=True)
class Layer:
    w: np.ndarray
    b: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "b", self.b + 1.0)

    def __call__(self, x):
        return self.w * x + self.b


def slots_set_in_an_arm(x):
    s = Slotted(x, x * 3)
    if x[0] > 0:
        s.v = x * 2
    return np.sum(s.v * s.w)


def slots_set_in_a_while(x):
    s = Slotted(x, 0.0)
    while np.sum(s.v) < 50:
        s.v = s.v * 2
        s.w = s.w + x[0]
        s.steps += 1
    return np.sum(s.v * s.w) * s.steps


def slots_of_a_dataclass(x):
    s = SlottedData(x)
    for i in range(x.size):
        s.v = s.v * (1.0 + x[i])
        if s.v[0] > s.v[1]:
            s.w = s.w + s.v[2]
    return np.sum(s.v) * s.w


def factories(x):
    a, b = Model(x, scale=3.0), Model(x)
    a.log.append(a.half)
    a.space[1] = x[0]
    a.table["k"] = x[1]
    b.log.append(2.0)
    c = replace(b, n=5, scale=1.0)
    return np.sum(a.log[0] * a.space) + a.table["k"] + len(b.log) + c.n + np.sum(c.x)


def frozen_with_slots(x):
    return np.sum(Layer(x, 2.0)(x)) + np.sum(Layer(x)(x))


def list_at_a_place_of_data(x, places=(2, 0, 1)):
    rows = [x * i for i in range(1, 4)]
    total = 0.0
    for k in np.argsort(x):
        total += np.sum(rows[k] ** 2) * [0.1, 0.5, 2.0][k]
    return total + (x[0], x[1], x[2])[np.argmax(x)]


class Held:
    def __init__(self, make):
        self.make, self.w = make, 2.0

    @functools.cached_property
    def value(self):
        return self.make() * self.w


def property_computed_once(x):
    held = Held(lambda: np.exp(x))
    first = held.value
    held.w = x[0]
    return np.sum(first * x) + np.sum(held.value**2)


def named_as_what_they_wrap(x):
    def scaled(by):
        def decorate(f):
            @functools.wraps(f)
            def inner(*args):
                return by * f(*args)

            return inner

        return decorate

    @scaled(2.0)
    def squares(v):
        return np.sum(v**2)

    table = {f.__name__: f for f in (squares, np.sum)}
    return table["squares"](x) * len(squares.__name__) + table["sum"](x)


def namespace(x):
    p = SimpleNamespace(w=x, b=2.0)
    p.c = p.w * p.b
    if x[0] > 0:
        p.b = x[1]
    for i in range(x.size):
        p.w = p.w * p.b + i
    return np.sum(p.c**2) + np.sum(p.w)


PROGRAMS = [
    property_computed_once,
    named_as_what_they_wrap,
    namespace,
    slots_set_in_an_arm,
    slots_set_in_a_while,
    slots_of_a_dataclass,
    factories,
    frozen_with_slots,
    list_at_a_place_of_data,
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("first", [0.3, -0.4])
def test_gradient(fn: Callable[..., Any], first: float) -> None:
    x = np.array([first, 1.5, 0.9])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    expected = oracle.gradient(fn, (x,))
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(x), expected, rtol=1e-6)


def test_an_element_chosen_by_data_is_not_stored_into_unseen() -> None:
    def stored(x, k):
        rows = [x, 2.0 * x]
        row = rows[k[0]]
        row += 1.0
        return np.sum(rows[0])

    with pytest.raises(AliasUndecided):
        calque.grad(stored)(np.ones(3), np.array([1]))


def test_an_element_chosen_by_data_does_not_see_a_later_store_unseen() -> None:
    def stored(x, k):
        rows = [x, 2.0 * x]
        row = rows[k[0]]
        rows[1][0] = 5.0
        return np.sum(row)

    with pytest.raises(AliasUndecided):
        calque.grad(stored)(np.ones(3), np.array([1]))


class Table:
    """Its attributes have the names of the interpreter's own."""

    def __init__(self, x):
        self.rows, self.parts, self.walked, self.gen = x, [x[0]], True, None

    def __iter__(self):
        return iter(self.parts)

    def sum(self):
        return 100.0

    def total(self):
        return self.sum() * len(self.parts)


def names_of_the_interpreter(x):
    table = Table(x)
    table.parts.append(x[1])
    total = table.sum() * x[0] + table.total() * x[1]
    for v in table:
        total = total + v**2
    return total + np.sum(table.rows) * (2.0 if table.walked else 1.0)


def test_attributes_may_have_any_name() -> None:
    x = np.array([0.3, 1.5, 0.9])
    value, gradient = calque.value_and_grad(names_of_the_interpreter)(x)
    assert np.isclose(value, names_of_the_interpreter(x), rtol=1e-13)
    np.testing.assert_allclose(
        gradient, oracle.gradient(names_of_the_interpreter, (x,)), rtol=1e-6
    )


def test_the_least_of_objects_compared_at_run_time() -> None:
    @dataclass
    class Weighted:
        w: Any

        def __lt__(self, other):
            return self.w < other.w

        def __gt__(self, other):
            return self.w > other.w

    def of_objects(x):
        things = [Weighted(v * 2.0) for v in (x[0], x[1], x[2])]
        return min(things).w ** 2 + max(things).w

    x = np.array([0.3, 1.5, 0.9])
    np.testing.assert_allclose(calque.grad(of_objects)(x), [8 * x[0], 2.0, 0.0], rtol=1e-12)


class Positive:
    """A class whose ``__new__`` computes an attribute by the type of its argument."""

    def __new__(cls, x):
        self = super().__new__(cls)
        self.x = np.sqrt(x) if isinstance(x, np.ndarray) else x * 2.0
        return self


class Scaled(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b * b))


class Either:
    def __new__(cls, x):
        return np.exp(x) if x.ndim else super().__new__(cls)

    def __init__(self, x):
        self.x = x


def of_new(x):
    return np.sum(Positive(x).x) + Positive(3.0).x


def of_tuple(x):
    a, b = Scaled(x, x)
    return np.sum(a * b)


def of_either(x):
    return np.sum(Either(x)) + Either(x[0]).x


@pytest.mark.parametrize("f", [of_new, of_tuple, of_either])
def test_new_is_interpreted(f):
    x, step = np.array([1.0, 2.0, 3.0]), 1e-6
    steps = step * np.eye(3)
    want = [(f(x + s) - f(x - s)) / (2 * step) for s in steps]
    assert calque.jit(f)(x) == pytest.approx(f(x), rel=1e-14)
    np.testing.assert_allclose(calque.grad(f)(x), want, rtol=1e-7)


class Quantity(np.ndarray):
    def __new__(cls, q):
        if isinstance(q, np.ndarray):
            return np.asarray(q).view(cls)
        return np.array(q, dtype=float).view(cls)


@pytest.mark.parametrize("transform", [calque.grad, calque.jit])
def test_subclasses_of_ndarray_are_refused(transform):
    def of_class(x):
        return np.sum(Quantity(x) ** 2)

    def of_view(x):
        return np.sum(x.view(Quantity) ** 2)

    def of_matrix(x):
        return np.sum(np.matrix([x[0], 2.0]))

    x = np.array([1.0, 2.0, 3.0])
    for f, said in ((of_class, "Quantity is a subclass"), (of_view, "class Quantity"), (of_matrix, "matrix is a")):
        with pytest.raises(UnsupportedFunction, match=said) as refused:
            transform(f)(x)
        assert refused.value.origin.line == f.__code__.co_firstlineno + 1


def test_a_view_as_ndarray_is_a_view():
    def f(x):
        return np.sum(x.view(np.ndarray) ** 3)

    np.testing.assert_allclose(calque.grad(f)(np.array([1.0, 2.0])), [3.0, 12.0])


class Attributed:
    """Attributes with names that the interpreter's own objects have, too."""

    def __init__(self):
        self.locals, self.default_factory, self.total = {"total": 0.0}, float, 0.0


class Keyed(dict):
    def __init__(self, items):
        super().__init__(items)
        self.mapping = {"a": 100.0}


def test_attributes_of_any_name_are_the_users():
    def summed(x):
        held = Attributed()
        for i in range(x.size):
            held.total = held.total + x[i] * x[i]
        return held.total

    def walked(x):
        held, t = Keyed({"a": x[0], "b": x[1]}), 0.0
        for key in iter(held):
            t = t + held[key] * x[0]
        return t

    def on_one_path(x):
        held = Attributed()
        if x[0] > 0.5:
            held.other = x[0]
        return held.other * x[1]

    x = np.array([0.2, 3.0])
    np.testing.assert_allclose(calque.grad(summed)(x), 2 * x)
    np.testing.assert_allclose(calque.grad(walked)(x), [2 * x[0] + x[1], x[0]])
    with pytest.raises(BranchMismatch, match="other cannot be used here"):
        calque.grad(on_one_path)(x)
