"""Captured dicts, lists and sets that a program changes: caches, and stacks that are set back."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ImpureFunction, NeedsKnownValue

CACHE: dict[Any, Any] = {}
NESTED: dict[str, dict[Any, Any]] = {"tables": {}}
STACK, SEEN, FACTOR = ["plain"], {1}, 2.0


def nodes(n):
    if n not in CACHE:
        CACHE[n] = np.linspace(0.0, 1.0, n) ** 2 * FACTOR
    return CACHE[n]


def kept_array(x):
    return np.sum(nodes(4) * x * x) + np.sum(nodes(4) * x)


def kept_list(x):
    try:
        row = CACHE["row"]
    except KeyError:
        row = CACHE["row"] = [float(i) for i in range(5)]
    return sum(c * x * x for c in row)


def kept_by_default(x):
    return NESTED["tables"].setdefault("k", FACTOR) * x * x


def kept_by_get(x):
    found = NESTED["tables"].get(("a", 2))
    if found is None:
        found = NESTED["tables"][("a", 2)] = (FACTOR, 3.0)
    return found[0] * x * x + found[1]


def kept_in_a_loop(x):
    total = 0.0
    for _ in range(90):
        total = total + np.sum(nodes(3) * x * x)
    return total


def stacked(x):
    STACK.append("square")
    y = x * x if STACK[-1] == "square" else x
    STACK.pop()
    return y * len(STACK)


def seen(x):
    SEEN.add(3)
    y = x * x * len(SEEN)
    SEEN.discard(3)
    return y * len(SEEN)


def memo(function):
    kept: dict[Any, Any] = {}

    def called(*args):
        if args not in kept:
            kept[args] = function(*args)
        return kept[args]

    return called


@memo
def factorial(n):
    return 1.0 if n < 2 else n * factorial(n - 1)


def memoized(x):
    return factorial(5) * x * x


@functools.lru_cache(maxsize=None)
def table(n):
    return np.arange(float(n)) * FACTOR


@functools.cache
def square(x):
    return x * x * FACTOR


@functools.lru_cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def by_lru_cache(x):
    return np.sum(table(3) * x) + square(x) + square(3.0) + fibonacci(40) * 1e-8


class Element:
    def __init__(self):
        self.kept, self.stiffness = {}, 2.0

    def matrix(self, x):
        key = (2, 3)
        if key not in self.kept:
            self.kept[key] = self.stiffness * np.eye(2)
        return np.sum(self.kept[key] * x * x)


element = Element()


def kept_in_an_instance(x):
    return element.matrix(x)


PROGRAMS = [
    *(kept_array, kept_list, kept_by_default, kept_by_get, kept_in_a_loop, stacked, seen),
    *(memoized, by_lru_cache, kept_in_an_instance, element.matrix),
]


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    global FACTOR
    clear()
    yield
    clear()
    FACTOR, element.stiffness = 2.0, 2.0


def clear() -> None:
    CACHE.clear()
    NESTED["tables"].clear()
    element.kept.clear()
    table.cache_clear()
    square.cache_clear()


def everything() -> Any:
    return copy.deepcopy((CACHE, NESTED, STACK, SEEN, element.kept))


def check(fn: Callable[[float], Any]) -> None:
    before, x, h = everything(), 1.5, 1e-6
    found = [calque.jit(fn)(x), calque.jit(fn)(x)]
    slopes = [calque.grad(fn)(x), calque.jvp(fn, (x,), (1.0,))[1]]
    many = calque.vmap(fn)(np.array([x, 2 * x]))
    assert str(everything()) == str(before)
    np.testing.assert_allclose(found, [fn(x)] * 2, rtol=1e-14)
    np.testing.assert_allclose(slopes, [(fn(x + h) - fn(x - h)) / (2 * h)] * 2, rtol=1e-6)
    np.testing.assert_allclose(many, [fn(x), fn(2 * x)], rtol=1e-14)
    np.testing.assert_allclose(calque.jit(fn)(x), fn(x), rtol=1e-14)  # plain Python filled caches


@pytest.mark.parametrize("fn", PROGRAMS)
def test_against_python(fn: Callable[[float], Any]) -> None:
    global FACTOR
    check(fn)
    FACTOR, element.stiffness = 3.0, 5.0
    clear()
    check(fn)


def test_what_was_kept_is_read() -> None:
    compiled = calque.jit(kept_array)
    first = compiled(1.5)
    CACHE[4] = np.ones(4)
    assert compiled(1.5) == kept_array(1.5) != first
    CACHE[4] = np.full(4, 2.0)
    assert compiled(1.5) == kept_array(1.5)


def keeps_an_argument(x):
    if "x" not in CACHE:
        CACHE["x"] = x * 2.0
    return CACHE["x"] * x


def gives_a_result(x):
    CACHE["result"] = 3.0
    return x * x


def counts(x):
    STACK.append("more")
    return x * len(STACK)


def changes(x):
    NESTED["tables"] = {"new": 1.0}
    return x


def keeps_on_one_path(x):
    return np.sum(nodes(6) * x) if x > 0.0 else x


def appends_to_what_is_kept(x):
    if "list" not in CACHE:
        CACHE["list"] = []
    CACHE["list"].append(1.0)
    return x * len(CACHE["list"])


def stores_into_what_is_kept(x):
    if "array" not in CACHE:
        CACHE["array"] = np.zeros(2)
    CACHE["array"][0] += 1.0
    return x * CACHE["array"][0]


def counts_under_a_key(x):
    CACHE["n"] = CACHE.get("n", 0) + 1
    return x * CACHE["n"]


def counts_in_what_is_kept(x):
    inner = NESTED["tables"].setdefault("inner", {})
    inner["n"] = inner.get("n", 0) + 1
    return x * inner["n"]


@pytest.mark.parametrize(
    "fn",
    [
        *(appends_to_what_is_kept, stores_into_what_is_kept, counts_under_a_key),
        counts_in_what_is_kept,
    ],
)
def test_what_each_call_changes_is_no_cache(fn: Callable[[float], Any]) -> None:
    with pytest.raises(
        ImpureFunction, match=rf"test_caches_outside.py, line \d+, in {fn.__name__}"
    ):
        calque.grad(fn)(1.5)
    assert not CACHE and not NESTED["tables"]


def stored_argument(x):
    x[0] = np.sum(nodes(3)) * x[1]
    return np.sum(x * x)


def test_arguments_are_stored_into_once() -> None:
    x, y = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    assert calque.jit(stored_argument)(x) == stored_argument(y)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "fn", [keeps_an_argument, gives_a_result, counts, changes, keeps_on_one_path]
)
def test_refused(fn: Callable[[float], Any]) -> None:
    before = everything()
    for wrap in (calque.jit, calque.grad):
        with pytest.raises(ImpureFunction, match=r"test_caches_outside.py, line \d+, in "):
            wrap(fn)(1.5)
    assert str(everything()) == str(before)


@memo
def doubled(x):
    return x * 2.0


def test_a_cache_by_run_time_values() -> None:
    with pytest.raises(NeedsKnownValue, match=r"(?s)cache outside.*functools.lru_cache"):
        calque.grad(lambda x: doubled(x))(1.5)
