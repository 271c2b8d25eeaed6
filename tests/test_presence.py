"""Keys of dicts and attributes of objects that exist on some paths only: exact, or refused."""

from __future__ import annotations

import array
from collections import Counter, OrderedDict, UserList, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler.errors import BranchMismatch, CalqueError, DtypeError, UnsupportedSyntax


class Empty:
    pass


class Bag:
    """A container of the user's: Python's protocols lead to its list."""

    def __init__(self):
        self.items = []

    def __iter__(self):
        return iter(self.items)

    def __reversed__(self):
        return reversed(self.items)

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return len(self.items) > 0

    def __contains__(self, value):
        return value in self.items


class Yielding(Bag):
    def __iter__(self):
        for value in self.items:
            yield value


# what is exact


def a_default_is_counted_up(x):
    counts = defaultdict(int)
    for v in x:
        if v > 0:
            counts["up"] += 1
        else:
            counts["down"] += 1
    return np.sum(x) * counts["up"] + counts["down"]


def a_counter_is_read_before_it_counts(x):
    counts, total = Counter(), 0.0
    for v in x:
        total = total + counts["up"] * v
        if v > 0:
            counts["up"] += 1
    return total


def a_key_of_an_earlier_iteration(x):
    last, total = {}, 0.0
    for v in x:
        if "v" in last:
            total = total + last["v"] * v
        last["v"] = v
    return total


def a_key_with_a_default(x):
    sums: dict[str, Any] = {}
    for v in x:
        sums["s"] = sums.get("s", 0.0) + v**2
    return sums["s"] * len(sums)


def keys_counted_in_a_loop(x):
    table, total = {}, 0.0
    for v in x:
        total = total + len(table) * v
        table["v"] = v
    return total


def in_place_operators(x):
    rows, table, chosen = [x[0], x[1]], {"a": x[0]}, {1}
    same, named, kept = rows, table, chosen
    rows *= 2
    table |= {"b": x[2]}
    chosen |= {2}
    chosen -= {1}
    return sum(v**2 for v in same) * len(same) + named["b"] * len(named) * len(kept)


def filled(x, kind=Bag):
    bag = kind()
    for v in x:
        if bag:
            bag.items.append(v * 2.0)
        else:
            bag.items.append(v)
    return bag


def protocols_of_a_class(x):
    bag, total = filled(x), 0.0
    for v in bag:
        total = total + v**2
    for v in reversed(bag):
        total = 0.5 * total + v
    if 17.0 in bag:
        total = total * 100.0
    return total + sum(bag) + len(bag) * max(bag) + np.sum(np.array(list(bag)) ** 3)


def yielding_class(x):
    bag = filled(x, Yielding)
    return sum(bag) * sum(v * w for v, w in zip(bag, x))


EXACT = [
    a_default_is_counted_up,
    a_counter_is_read_before_it_counts,
    a_key_of_an_earlier_iteration,
    a_key_with_a_default,
    keys_counted_in_a_loop,
    in_place_operators,
    protocols_of_a_class,
    yielding_class,
]


@pytest.mark.parametrize("fn", EXACT, ids=lambda fn: fn.__name__)
def test_exact(fn: Callable[..., Any]) -> None:
    x = np.array([0.5, -1.2, 2.0, 0.3])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-6, atol=1e-9)


# what only run time knows


def key_in(x):
    d = {}
    if x[0] < 0:
        d["a"] = 5.0
    return np.sum(x) * (2.0 if "a" in d else 1.0)


def key_count(x):
    d = {}
    if x[0] < 0:
        d["a"] = 5.0
    return np.sum(x) * len(d)


def key_walk(x):
    d, total = {"b": 1.0}, 0.0
    if x[0] < 0:
        d["a"] = 5.0
    for _ in d:
        total = total + np.sum(x)
    return total


def key_views(x):
    d = {"b": 1.0}
    if x[0] < 0:
        d["a"] = 5.0
    return np.sum(x) * len(d.items())


def key_truth(x):
    d = {}
    if x[0] < 0:
        d["a"] = 5.0
    return np.sum(x) * (2.0 if d else 1.0)


def key_comparison(x):
    d = {"b": 1.0}
    if x[0] < 0:
        d["a"] = 5.0
    return np.sum(x) * (2.0 if d == {"b": 1.0} else 1.0)


def key_copied(x):
    d = {"b": 1.0}
    if x[0] < 0:
        d["a"] = 5.0
    return np.sum(x) * len({**d})


def key_removed(x):
    d = {"a": 1.0}
    if x[0] < 0:
        d.pop("a")
    return np.sum(x) * d.get("a", 7.0)


def key_order(x):
    d = {"a": x[0], "b": x[1]}
    if x[0] < 0:
        d["a"] = d.pop("a")
    return list(d.values())[0] * 2.0


def moved_key(x):
    d = OrderedDict(a=x[0], b=x[1])
    if x[0] < 0:
        d.move_to_end("a")
    return next(iter(d.values())) * 2.0


def attribute_there(x):
    thing = Empty()
    if x[0] < 0:
        thing.v = 5.0
    return np.sum(x) * (2.0 if hasattr(thing, "v") else 1.0)


def attributes_counted(x):
    thing = Empty()
    if x[0] < 0:
        thing.v = 5.0
    return np.sum(x) * len(vars(thing))


def counted_keys(x):
    counts = Counter()
    for v in x:
        if v > 0:
            counts["up"] += 1
        else:
            counts["down"] += 1
    return np.sum(x) * len(counts)


def grown_user_list(x):
    rows = UserList([1.0])
    if x[0] < 0:
        rows.append(5.0)
    return np.sum(x) * len(rows)


PATHS = [
    key_in,
    key_count,
    key_walk,
    key_views,
    key_truth,
    key_comparison,
    key_copied,
    key_removed,
    key_order,
    moved_key,
    attribute_there,
    attributes_counted,
    counted_keys,
    grown_user_list,
]


@pytest.mark.parametrize("fn", PATHS, ids=lambda fn: fn.__name__)
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(BranchMismatch) as caught:
        calque.grad(fn)(np.array([0.5, -1.2]))
    assert caught.value.origin.file == __file__


def test_objects_of_libraries_change_on_no_path_unseen() -> None:
    def bytes_in_an_arm(x):
        text = bytearray(b"ab")
        if x[0] < 0:
            text.append(3)
        return np.sum(x) * len(text)

    def numbers_in_a_loop(x):
        numbers = array.array("d", [1.0])
        for _ in range(x.size):
            numbers += array.array("d", [2.0])
        return np.sum(x) * len(numbers)

    for fn in (bytes_in_an_arm, numbers_in_a_loop):
        with pytest.raises(UnsupportedSyntax):
            calque.grad(fn)(np.ones(3))


def test_objects_of_libraries_change_as_in_python() -> None:
    def changed(x):
        text = bytearray(b"ab")
        same = text
        text += b"c"
        text[0] = 7
        del text[1]
        return np.sum(x) * (len(same) + same[0])

    np.testing.assert_array_equal(calque.grad(changed)(np.ones(2)), [9.0, 9.0])


def test_what_was_an_internal_error() -> None:
    def structured(x):
        rows = np.zeros(2, dtype=[("a", float)])
        rows["a"] = x
        return np.sum(rows["a"])

    def retyped(x):
        whole = np.arange(2)
        whole.dtype = np.float64
        return x[0] * whole.sum()

    for fn, kind in ((structured, DtypeError), (retyped, CalqueError)):
        with pytest.raises(kind) as caught:
            calque.grad(fn)(np.ones(2))
        assert caught.value.origin is not None

    def whole(x):
        return x[...] ** 3

    np.testing.assert_allclose(calque.hessian(whole)(np.array(2.0)), 12.0)


def test_a_yielding_lambda() -> None:
    def summed(x):
        pair = lambda: (yield from [x[0], x[1]])
        return sum(pair()) * x[2]

    x = np.array([2.0, 3.0, 5.0])
    np.testing.assert_allclose(calque.grad(summed)(x), [5.0, 5.0, 5.0])
