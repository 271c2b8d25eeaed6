"""Structures of pytrees, beside those of optree."""

from __future__ import annotations

import pickle
import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import optree
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calque
from calque.transpiler.errors import NestedTooDeeply
from calque.transpiler.ir import pytrees

Point = namedtuple("Point", "x y")


class Listed(list):
    """A class derived of list, which is a leaf."""


EXAMPLES: dict[str, Any] = {
    "a leaf": 5,
    "nothing": None,
    "empty": ((), [], {}, OrderedDict(), deque()),
    "dict": {"b": 1, "a": {"d": (2, None), "c": [3]}},
    "numbers as keys": {10: 1, 9: 2, 2.5: 3},
    "keys of two kinds": {10: 1, "a": 2, 9: 3},
    "ordered": OrderedDict(b=1, a=[2]),
    "defaults": defaultdict(int, b=1, a=2),
    "deque": deque([1, (2, 3)], maxlen=5),
    "named": Point(1, {"y": 2}),
    "of Python's own": time.gmtime(0),
    "derived": Listed([1, 2]),
}
KEYS = st.one_of(st.text("abc", max_size=2), st.integers(0, 30))
TREES = st.recursive(
    st.one_of(st.none(), st.integers(0, 9), st.floats(0, 1)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.lists(inner, max_size=3).map(deque),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=12,
)


def compare(tree: Any) -> None:
    leaves, structure = pytrees.flatten(tree)
    expected, other = optree.tree_flatten(tree)
    assert leaves == expected
    assert structure.num_leaves == other.num_leaves
    new = list(range(100, 100 + len(leaves)))
    mine, theirs = pytrees.unflatten(structure, new), optree.tree_unflatten(other, new)
    assert repr(mine) == repr(theirs)
    assert structure.flatten_up_to(mine) == other.flatten_up_to(theirs) == new
    assert pytrees.flatten(mine)[1] == structure
    assert hash(pytrees.flatten(mine)[1]) == hash(structure)
    accessors, _, _ = optree.tree_flatten_with_accessor(tree)
    assert pytrees.paths(tree) == [accessor.codify("") for accessor in accessors]
    again = pickle.loads(pickle.dumps(structure))
    assert again == structure and repr(pytrees.unflatten(again, new)) == repr(mine)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_structure_is_that_of_optree(name: str) -> None:
    compare(EXAMPLES[name])


@given(TREES)
def test_structures_are_those_of_optree(tree: Any) -> None:
    compare(tree)


@given(TREES, TREES)
def test_structures_are_equal_where_those_of_optree_are(first: Any, second: Any) -> None:
    equal = optree.tree_structure(first) == optree.tree_structure(second)
    assert (pytrees.flatten(first)[1] == pytrees.flatten(second)[1]) is equal
    try:
        expected: Any = optree.tree_structure(first).flatten_up_to(second)
    except ValueError:
        expected = None
    try:
        found: Any = pytrees.flatten(first)[1].flatten_up_to(second)
    except ValueError:
        found = None
    assert found == expected


def test_the_order_of_a_dicts_keys_is_no_part_of_its_structure() -> None:
    one, other = calque.tree_structure({"b": 1, "a": 2}), calque.tree_structure({"a": 3, "b": 4})
    assert one == other
    assert list(calque.tree_unflatten(one, [1, 2])) == ["b", "a"]


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"b": 1, "a": (2, None)}, "{'a': (*, None), 'b': *}"),
        ([1, (2,)], "[*, (*,)]"),
        (Point(1, 2), "Point(x=*, y=*)"),
        (OrderedDict(a=1), "OrderedDict({'a': *})"),
        (deque([1]), "deque([*])"),
    ],
)
def test_a_structure_as_text(tree: Any, text: str) -> None:
    assert repr(calque.tree_structure(tree)) == f"PyTreeDef({text})"


@pytest.mark.parametrize(
    ("like", "other", "message"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, r"the keys \['a', 'b'\] are due, not \['a'\]"),
        ((1, 2), (1, 2, 3), "a tuple of 2 parts is due, not of 3"),
        ((1, 2), [1, 2], "a tuple is due, not"),
        ((1, None), (1, 2), "None is due, not 2"),
        (OrderedDict(a=1), [1], "an OrderedDict is due, not"),
    ],
)
def test_another_structure_is_refused(like: Any, other: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calque.tree_map(lambda a, b: a, like, other)


def test_what_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(NestedTooDeeply):
        calque.tree_leaves(ring)


@pytest.mark.parametrize("cls", [list, dict, tuple, OrderedDict, deque, type(None)])
def test_a_class_of_pythons_is_not_registered(cls: type) -> None:
    with pytest.raises(ValueError, match="is a pytree node already"):
        calque.register_pytree_node(cls, lambda x: ((), None), lambda aux, parts: cls())
