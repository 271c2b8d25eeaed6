"""Hidden state that is none: what is set back, what is kept for later, what is set to a constant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ImpureFunction

MODE, SCALE, WEIGHTS = "plain", 2.0, np.array([1.0, 2.0])


class mode:
    """A context manager, and a decorator, that sets a global and sets it back."""

    def __init__(self, name):
        self.name, self.before = name, None

    def __enter__(self):
        global MODE
        self.before = MODE
        MODE = self.name
        return self

    def __exit__(self, *_):
        global MODE
        MODE = self.before

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args):
            with self:
                return function(*args)

        return wrapped


def modal(x):
    if MODE == "square":
        return x * x * SCALE
    return x * SCALE if MODE == "plain" else -x


def within(x):
    with mode("square"):
        y = modal(x)
    return y + modal(x)


def under_a_test(x):
    y = x
    if x > 1.0:
        with mode("square"):
            y = modal(x)
    return y + modal(x)


def in_a_loop(x):
    y = 0.0
    for _ in range(90):
        with mode("square"):
            y = y + modal(x)
        y = y + modal(x)
    return y


@mode("square")
def decorated(x):
    return modal(x)


def holds_an_argument(x):
    global SCALE
    old = SCALE
    SCALE = x
    y = modal(x)
    SCALE = old
    return y


def holds_an_array(x):
    global WEIGHTS
    old = WEIGHTS
    WEIGHTS = WEIGHTS * x
    y = np.sum(WEIGHTS * WEIGHTS)
    WEIGHTS = old
    return y + np.sum(WEIGHTS)


class Model:
    def __init__(self):
        self.weights, self.rate, self.table, self.last = np.array([1.0, 2.0]), 0.5, None, ""

    def by_table(self, x):
        if self.table is None:
            self.table = np.exp(self.weights) * self.rate
        return np.sum(self.table * x)

    def by_question(self, x):
        if not hasattr(self, "_asked"):
            self._asked = np.exp(self.weights)
        return np.sum(self._asked * x)

    def by_error(self, x):
        try:
            found = self._tried
        except AttributeError:
            found = self._tried = np.exp(self.weights)
        return np.sum(found * x)

    def by_default(self, x):
        found = getattr(self, "_found", None)
        if found is None:
            found = np.sin(self.weights)
            setattr(self, "_found", found)
        return np.sum(self._found * x)

    def with_rate(self, x):
        before = self.rate
        try:
            self.rate = x
            return self.scaled(x)
        finally:
            self.rate = before

    def scaled(self, x):
        return self.rate * x

    def noting(self, x):
        self.last = "noting"
        return x * self.rate


model = Model()


def lazy(x):
    return model.by_table(x)


def asked(x):
    return model.by_question(x)


def tried(x):
    return model.by_error(x)


def defaulted(x):
    return model.by_default(x)


def rated(x):
    return model.with_rate(x) + model.scaled(x)


def noted(x):
    return model.noting(x)


def flagged(x):
    if not hasattr(model, "_warned"):
        model._warned = True
    return x * x


PROGRAMS = [
    *(within, under_a_test, in_a_loop, decorated, holds_an_argument, holds_an_array),
    *(lazy, asked, tried, defaulted, rated, noted, flagged),
]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    global MODE, SCALE
    yield
    MODE, SCALE = "plain", 2.0
    model.__dict__ = vars(Model())


def check(fn: Callable[[float], Any], x: float) -> None:
    vars(model).update(vars(Model()) | {"weights": model.weights, "rate": model.rate})
    held = MODE, SCALE, WEIGHTS
    found = [calque.jit(fn)(x), calque.jit(fn)(x)]
    slopes = [calque.grad(fn)(x), calque.jvp(fn, (x,), (1.0,))[1]]
    many = calque.vmap(fn)(np.array([x, -x, 2 * x]))
    assert all(now is then for now, then in zip((MODE, SCALE, WEIGHTS), held, strict=True))
    h = 1e-6
    np.testing.assert_allclose(found, [fn(x)] * 2, rtol=1e-14)
    np.testing.assert_allclose(slopes, [(fn(x + h) - fn(x - h)) / (2 * h)] * 2, rtol=1e-6)
    np.testing.assert_allclose(many, [fn(x), fn(-x), fn(2 * x)], rtol=1e-14)
    np.testing.assert_allclose(calque.jit(fn)(x), fn(x), rtol=1e-14)  # caches are full now


@pytest.mark.parametrize("fn", PROGRAMS)
def test_against_python(fn: Callable[[float], Any]) -> None:
    global MODE, SCALE
    check(fn, 1.5)
    MODE, SCALE = "other", 3.0  # none of these is read from an old program
    model.weights, model.rate = np.array([0.5, 0.25]), 0.125
    check(fn, 1.5)


def test_a_constant_is_set_once_and_guarded() -> None:
    compiled = calque.jit(noted)
    assert compiled(2.0) == 1.0 and model.last == "noting"
    model.last = "elsewhere"
    assert compiled(2.0) == 1.0 and model.last == "noting"


class Node:
    """A node with a number of its own, and a name that is made of it."""

    _made, mode = 0, "a"

    def __init__(self, value):
        Node._made += 1
        self.number, self.name, self.value = Node._made, f"n{Node._made}", value


_names = 0


def named():
    global _names
    _names += 1
    return f"v{_names}"


def with_nodes(x):
    return Node(x).value * Node(2.0).value * x


def with_names(x):
    first, second = named(), named()
    table = {first: x, second: x * x * SCALE}
    return table[first] + table[second]


def mode_of_a_class(x):
    before, Node.mode = Node.mode, "b"
    y = x * x if Node(x).mode == "b" else x
    Node.mode = before
    return y


@pytest.mark.parametrize("fn", [with_nodes, with_names, mode_of_a_class])
def test_counters_of_names(fn: Callable[[float], Any]) -> None:
    global SCALE
    check(fn, 1.5)
    before = Node._made, _names
    calque.jit(fn)(1.5)
    assert (Node._made, _names) == before
    SCALE = 3.0
    check(fn, 1.5)


def gives_its_number(x):
    return Node(x).number * x


def shows_its_name(x):
    print(Node(x).name)
    return x


def changes_in_time(x):
    named()
    return x if _names > 100 else x * x


def other_at_first(x):
    if not hasattr(model, "_warned"):
        model._warned = True
        return x
    return x * x


def appends(x):
    if model.table is None:
        model.table = []
    model.table.append(1.0)
    return x * len(model.table)


def keeps_a_global(x):
    global MODE
    MODE = "square"
    return modal(x)


def counts(x):
    model.rate += 1
    return x


def keeps_an_argument(x):
    model.last = x
    return x * x


def sets_on_one_path(x):
    if x > 0.0:
        model.last = "positive"
    return x * x


def keeps_what_depends(x):
    if model.table is None:
        model.table = x * 2.0
    return model.table * x


def counts_in_the_class(x):
    Model.calls = x
    return x


@pytest.mark.parametrize(
    "fn",
    [
        *(keeps_a_global, counts, keeps_an_argument, sets_on_one_path, keeps_what_depends),
        *(counts_in_the_class, appends, other_at_first, shows_its_name, changes_in_time),
        gives_its_number,
    ],
)
def test_refused(fn: Callable[[float], Any]) -> None:
    before = dict(vars(model))
    message = rf"test_hidden_state.py, line \d+, in ({fn.__name__}|named|__init__)"
    for wrap in (calque.jit, calque.grad, calque.vmap):
        with pytest.raises(ImpureFunction, match=message):
            wrap(fn)(np.array([1.0, 2.0]) if wrap is calque.vmap else 1.5)
    assert vars(model) == before and MODE == "plain"
