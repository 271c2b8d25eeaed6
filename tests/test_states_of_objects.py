"""Objects that Python reads: all that they hold counts at each call, exactly, or they are refused."""

from __future__ import annotations

import array
import calendar
import collections
import ctypes
import dataclasses
import decimal
import functools
import logging
import threading
import types
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import calque
from calque.transpiler.errors import CalqueError
from calque.transpiler.frontend.values.mutable_objects import Unguarded, state


@dataclasses.dataclass
class Data:
    c: float = 2.0


class Plain:
    def __init__(self) -> None:
        self.c = 2.0


class UserDictOfTheirs(collections.UserDict):  # type: ignore[type-arg]
    pass


class DictOfTheirs(dict):  # type: ignore[type-arg]
    pass


class ListOfTheirs(list):  # type: ignore[type-arg]
    pass


class DequeOfTheirs(collections.deque):  # type: ignore[type-arg]
    pass


def to_zero_of_other_sign(held: Any) -> None:
    held[0] = -0.0


def sign(value: float) -> float:
    return float(3.5 - 1.5 * np.copysign(1.0, value))


def put(key: Any, value: Any = 5.0) -> Callable[[Any], Any]:
    return lambda held: held.__setitem__(key, value)


def give(name: str, value: Any = 5.0) -> Callable[[Any], Any]:
    return lambda held: setattr(held, name, value)


# how it is made, what is read of it (2 at first), how it is changed (5 then)
KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "user dict": (lambda: UserDictOfTheirs(c=2.0), lambda o: o["c"], put("c")),
    "dict": (lambda: DictOfTheirs(c=2.0), lambda o: o["c"], put("c")),
    "list": (lambda: ListOfTheirs([2.0]), lambda o: o[0], put(0)),
    "deque": (lambda: DequeOfTheirs([2.0]), lambda o: o[0], put(0)),
    "list in a deque": (
        lambda: collections.deque([[2.0]]), lambda o: o[0][0], lambda o: put(0)(o[0])
    ),
    "sum of lists in a deque": (
        lambda: collections.deque([[2.0]]),
        lambda o: sum(v for row in o for v in row),
        lambda o: o[0].append(3.0),
    ),
    "dict in a user list": (
        lambda: collections.UserList([{"c": 2.0}]), lambda o: o[0]["c"], lambda o: put("c")(o[0])
    ),
    "array in a user dict": (
        lambda: collections.UserDict(c=np.array([2.0])),
        lambda o: o["c"][0],
        lambda o: put(0)(o["c"]),
    ),
    "array in a deque": (
        lambda: collections.deque([np.array([2.0])]), lambda o: o[0][0], lambda o: put(0)(o[0])
    ),
    "instance in a deque": (
        lambda: collections.deque([Plain()]), lambda o: o[0].c, lambda o: give("c")(o[0])
    ),
    "second map of a chain": (
        lambda: collections.ChainMap({}, {"c": 2.0}),
        lambda o: o["c"],
        lambda o: put("c")(o.maps[1]),
    ),
    "sign of zero": (
        lambda: collections.deque([0.0]), lambda o: sign(o[0]), to_zero_of_other_sign
    ),
    "a truth value": (
        lambda: collections.deque([1]), lambda o: 5.0 if o[0] is True else 2.0, put(0, True)
    ),
    "a float": (
        lambda: collections.deque([2]),
        lambda o: 2.0 if isinstance(o[0], int) else 5.0,
        put(0, 2.0),
    ),
    "elements of a set": (lambda: {1}, lambda o: 5.0 if 3 in o else 2.0, lambda o: o.add(3)),
    "size of a set": (lambda: {1, 2}, lambda o: len(o), lambda o: o.update({3, 4, 5})),
    "array": (lambda: array.array("d", [2.0]), lambda o: np.sum(o), put(0)),
    "keywords of a partial": (
        lambda: functools.partial(pow, mod=None),
        lambda o: 2.0 if len(o.keywords) == 1 else 5.0,
        lambda o: put("exp")(o.keywords),
    ),
    "number of C": (lambda: ctypes.c_double(2.0), lambda o: o.value, give("value")),
    "numbers of C": (lambda: (ctypes.c_double * 1)(2.0), lambda o: o[0], put(0)),
    "decimal context": (lambda: decimal.Context(prec=2), lambda o: float(o.prec), give("prec", 5)),
    "attributes of an element": (
        lambda: ElementTree.Element("a", {"c": "2.0"}),
        lambda o: float(o.attrib["c"]),
        lambda o: o.set("c", "5.0"),
    ),
    "calendar": (
        lambda: calendar.TextCalendar(2),
        lambda o: float(o.firstweekday),
        lambda o: o.setfirstweekday(5),
    ),
    "coefficients": (
        lambda: np.polynomial.Polynomial([2.0]), lambda o: o.coef[0], lambda o: put(0)(o.coef)
    ),
    "other coefficients": (
        lambda: np.polynomial.Polynomial([2.0]),
        lambda o: o.coef[0],
        give("coef", np.array([5.0])),
    ),
    "value of a polynomial": (
        lambda: np.polynomial.Polynomial([2.0]), lambda o: o(0.0), lambda o: put(0)(o.coef)
    ),
    "data of a sparse matrix": (
        lambda: scipy.sparse.csr_matrix([[2.0]]), lambda o: o.data[0], lambda o: put(0)(o.data)
    ),
    "element of a sparse matrix": (
        lambda: scipy.sparse.csr_matrix([[2.0]]), lambda o: o[0, 0], lambda o: put(0)(o.data)
    ),
    "equality with a list": (lambda: [2.0], lambda o: 2.0 if o == [2.0] else 5.0, put(0)),
    "equality of instances": (Data, lambda o: 2.0 if o == Data() else 5.0, give("c")),
    "representation": (Data, lambda o: 2.0 if "2.0" in repr(o) else 5.0, give("c")),
    "namespace as text": (
        lambda: types.SimpleNamespace(c=2.0), lambda o: 2.0 if "2.0" in str(o) else 5.0, give("c")
    ),
    "namespace in a text": (
        lambda: types.SimpleNamespace(c=2.0), lambda o: 2.0 if "2.0" in f"{o}" else 5.0, give("c")
    ),
    "instance in a text": (Data, lambda o: 2.0 if "2.0" in f"{o!r:>9}" else 5.0, give("c")),
    "class of an instance": (
        Plain, lambda o: 2.0 if isinstance(o, Plain) else 5.0, give("__class__", Data)
    ),
    "attribute of a library's module": (
        lambda: (setattr(calendar, "c_of_test", 2.0), calendar)[1],
        lambda o: o.c_of_test,
        give("c_of_test"),
    ),
    "level of a logger": (
        lambda: (logger := logging.Logger("x"), logger.setLevel(2))[0],
        lambda o: float(o.level),
        lambda o: o.setLevel(5),
    ),
    "what a thread holds": (
        lambda: (held := threading.local(), give("c", 2.0)(held))[0], lambda o: o.c, give("c")
    ),
    "order": (
        lambda: collections.OrderedDict([(2.0, 0), (5.0, 0)]),
        lambda o: next(iter(o)),
        lambda o: o.move_to_end(2.0),
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_right_or_refused(kind: str, captured: bool, compiled: bool) -> None:
    make, read, change = KINDS[kind]
    held = make()
    function = (lambda x: np.sum(x) * read(held)) if captured else (lambda x, o: np.sum(x) * read(o))
    gradient = calque.jit(calque.grad(function)) if compiled else calque.grad(function)
    args = (np.ones(2),) if captured else (np.ones(2), held)
    for expected in (2.0, 5.0):
        assert read(held) == expected
        for _ in range(3):
            try:
                found = gradient(*args)
            except CalqueError:
                continue
            np.testing.assert_array_equal(found, [expected, expected])
        if expected == 2.0:
            change(held)


# captured: that they are taken, and not only refused
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"what a thread holds"}))
def test_taken(kind: str) -> None:
    make, read, _ = KINDS[kind]
    held = make()
    np.testing.assert_array_equal(
        calque.grad(lambda x: np.sum(x) * read(held))(np.ones(2)), [2.0, 2.0]
    )


READ_OF_C: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "lock": (threading.Lock(), lambda o: 1.0 if o.locked() else 2.0),
    "event": (threading.Event(), lambda o: 1.0 if o.is_set() else 2.0),
    "cache": (functools.lru_cache(len), lambda o: 1.0 + o.cache_info().misses),
}


@pytest.mark.parametrize("kind", READ_OF_C)
def test_what_cannot_be_compared_is_refused(kind: str) -> None:
    held, read = READ_OF_C[kind]
    with pytest.raises(CalqueError, match="pass the values in"):
        calque.grad(lambda x: np.sum(x) * read(held))(np.ones(2))


def test_states_are_exact() -> None:
    def equal(one: Any, other: Any) -> bool:
        return bool(state(one) == state(other))

    queue = collections.deque
    assert equal(queue([[1], {"a": 2.0}]), queue([[1], {"a": 2.0}]))
    assert equal(queue([np.nan]), queue([np.nan]))
    for one, other in [(1, 1.0), (1, True), (0.0, -0.0), ([1], (1,)), ({1: 1, 2: 2}, {2: 2, 1: 1})]:
        assert not equal(queue([one]), queue([other]))
    cycle: Any = queue()
    cycle.append(cycle)
    assert state(cycle) == state(cycle)
    shared = [1]
    assert not equal(queue([shared, shared]), queue([[1], [1]]))
    with pytest.raises(Unguarded):
        state(queue([threading.Lock()]))
    with pytest.raises(Unguarded):
        state(queue([[k] for k in range(20_000)]))
