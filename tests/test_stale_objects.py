"""A call uses the current state of the objects that it reads, arguments or captured."""

from __future__ import annotations

import argparse
import array
import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque


class Settings:
    """An instance of a user's class."""

    def hurry(self) -> None:
        self.fast = True


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    # how it is made, what is read of it, how it is changed from 2 to 5
    "namespace": (lambda: types.SimpleNamespace(c=2.0), lambda o: o.c, lambda o: setattr(o, "c", 5.0)),
    "arguments": (lambda: argparse.Namespace(c=2.0), lambda o: o.c, lambda o: setattr(o, "c", 5.0)),
    "nested": (
        lambda: types.SimpleNamespace(cfg=types.SimpleNamespace(c=2.0)),
        lambda o: o.cfg.c,
        lambda o: setattr(o.cfg, "c", 5.0),
    ),
    "in a list": (
        lambda: [types.SimpleNamespace(c=2.0)],
        lambda o: o[0].c,
        lambda o: setattr(o[0], "c", 5.0),
    ),
    "array of a namespace": (
        lambda: types.SimpleNamespace(c=np.array([2.0])),
        lambda o: o.c[0],
        lambda o: o.c.__setitem__(0, 5.0),
    ),
    "other array of a namespace": (
        lambda: types.SimpleNamespace(c=np.array([2.0])),
        lambda o: o.c[0],
        lambda o: setattr(o, "c", np.array([5.0])),
    ),
    "user dict": (
        lambda: collections.UserDict(c=2.0), lambda o: o["c"], lambda o: o.update(c=5.0)
    ),
    "user list": (
        lambda: collections.UserList([2.0]), lambda o: o[0], lambda o: o.__setitem__(0, 5.0)
    ),
    "ordered dict": (
        lambda: collections.OrderedDict(c=2.0), lambda o: o["c"], lambda o: o.update(c=5.0)
    ),
    "deque": (
        lambda: collections.deque([2.0]), lambda o: o[0], lambda o: o.__setitem__(0, 5.0)
    ),
    "length of a deque": (
        lambda: collections.deque([0, 0]), lambda o: len(o), lambda o: o.extend([0, 0, 0])
    ),
    "in a deque": (
        lambda: collections.deque([1]), lambda o: 5.0 if 3 in o else 2.0, lambda o: o.append(3)
    ),
    "sum of a deque": (lambda: collections.deque([2.0]), lambda o: sum(o), lambda o: o.append(3.0)),
    "bytes": (lambda: bytearray(b"\x02"), lambda o: o[0], lambda o: o.__setitem__(0, 5)),
    "array": (lambda: array.array("d", [2.0]), lambda o: o[0], lambda o: o.__setitem__(0, 5.0)),
    "counter": (
        lambda: collections.Counter("aa"), lambda o: o["a"], lambda o: o.update("aaa")
    ),
    "default": (
        lambda: types.SimpleNamespace(),
        lambda o: getattr(o, "c", 2.0),
        lambda o: setattr(o, "c", 5.0),
    ),
    "presence": (
        lambda: types.SimpleNamespace(),
        lambda o: 5.0 if hasattr(o, "c") else 2.0,
        lambda o: setattr(o, "c", None),
    ),
    "presence in a module": (
        lambda: types.ModuleType("settings"),
        lambda o: 5.0 if hasattr(o, "fast") else 2.0,
        lambda o: setattr(o, "fast", True),
    ),
    "presence in an instance": (
        lambda: Settings(), lambda o: 5.0 if hasattr(o, "fast") else 2.0, lambda o: o.hurry()
    ),
    "list": (lambda: [2.0], lambda o: o[0], lambda o: o.__setitem__(0, 5.0)),
    "dict": (lambda: {"c": 2.0}, lambda o: o["c"], lambda o: o.update(c=5.0)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_captured(kind: str, compiled: bool) -> None:
    make, read, change = KINDS[kind]
    held = make()
    gradient = calque.grad(lambda x: np.sum(x) * read(held))
    gradient = calque.jit(gradient) if compiled else gradient
    for _ in range(3):
        np.testing.assert_array_equal(gradient(np.ones(2)), [2.0, 2.0])
    change(held)
    for _ in range(3):
        np.testing.assert_array_equal(gradient(np.ones(2)), [5.0, 5.0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "deque" not in kind])  # refused
def test_arguments(kind: str, compiled: bool) -> None:
    make, read, change = KINDS[kind]
    held = make()
    gradient = calque.grad(lambda x, o: np.sum(x) * read(o))
    gradient = calque.jit(gradient) if compiled else gradient
    for _ in range(3):
        np.testing.assert_array_equal(gradient(np.ones(2), held), [2.0, 2.0])
    change(held)
    for _ in range(3):
        np.testing.assert_array_equal(gradient(np.ones(2), held), [5.0, 5.0])


METHODS: dict[str, tuple[Any, Any, Callable[[Any, Any], Any]]] = {
    "plain": (lambda s, x: x * 2.0, lambda s, x: x * 5.0, lambda o, x: np.sum(o.plain(x))),
    "__call__": (lambda s, x: x * 2.0, lambda s, x: x * 5.0, lambda o, x: np.sum(o(x))),
    "__getitem__": (lambda s, i: 2.0, lambda s, i: 5.0, lambda o, x: np.sum(x) * o[0]),
    "__len__": (lambda s: 2, lambda s: 5, lambda o, x: np.sum(x) * len(o)),
    "__float__": (lambda s: 2.0, lambda s: 5.0, lambda o, x: np.sum(x) * float(o)),
    "__int__": (lambda s: 2, lambda s: 5, lambda o, x: np.sum(x) * int(o)),
    "__bool__": (lambda s: True, lambda s: False, lambda o, x: np.sum(x) * (2.0 if o else 5.0)),
    "__iter__": (lambda s: iter([2.0]), lambda s: iter([5.0]), lambda o, x: np.sum(x) * sum(o)),
    "__add__": (lambda s, y: y * 2.0, lambda s, y: y * 5.0, lambda o, x: np.sum(o + x)),
    "__contains__": (
        lambda s, i: True, lambda s, i: False, lambda o, x: np.sum(x) * (2.0 if 1 in o else 5.0)
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_classes(name: str) -> None:
    before, after, use = METHODS[name]
    before.__name__ = after.__name__ = name
    owner = type("Owner", (), {name: before})
    held = owner()
    gradient = calque.grad(lambda x: use(held, x))
    np.testing.assert_array_equal(gradient(np.ones(2)), [2.0, 2.0])
    setattr(owner, name, after)
    np.testing.assert_array_equal(gradient(np.ones(2)), [5.0, 5.0])


def test_a_global_that_shadows_a_builtin() -> None:
    names: dict[str, Any] = {"np": np}
    exec("", names)
    function = types.FunctionType((lambda x: abs(x[0]) * len(x)).__code__, names, "shadowed")
    gradient = calque.grad(function)
    np.testing.assert_array_equal(gradient(np.ones(2)), [2.0, 0.0])
    names["abs"] = np.square
    np.testing.assert_array_equal(gradient(np.ones(2)), [4.0, 0.0])


def test_static_zeros_have_signs() -> None:
    jitted = calque.jit(lambda x, k: np.sum(np.copysign(x, k)), static_argnums=1)
    assert [jitted(np.ones(2), k) for k in (0.0, -0.0, 0.0)] == [2.0, -2.0, 2.0]
