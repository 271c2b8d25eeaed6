"""Pytrees, by optree, with JAX's rules: dict keys sorted, None an empty node.

Namedtuples and dataclasses are nodes without registration; ``register_pytree_node`` adds classes.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import optree

from calque.transpiler.forking import free_in_children

NAMESPACE = "calque"
_lock = free_in_children("pytrees", threading.RLock())

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
Unflatten = Callable[[Any, Sequence[Any]], Any]


@dataclass(frozen=True)
class Registration:
    """How instances of a class are taken apart and made again."""

    flatten: Flatten
    unflatten: Unflatten
    automatic: bool = False  # a dataclass that nobody registered


REGISTERED: dict[type, Registration] = {}


def _register(cls: type, registration: Registration, names: Sequence[str] | None = None) -> None:
    def flatten(value: Any) -> Any:
        children, aux = registration.flatten(value)
        return (tuple(children), aux) if names is None else (tuple(children), aux, tuple(names))

    with _lock:
        if cls in REGISTERED:
            if not REGISTERED[cls].automatic or registration.automatic:
                raise ValueError(f"{cls.__name__} is registered as a pytree node already")
            optree.unregister_pytree_node(cls, namespace=NAMESPACE)
        optree.register_pytree_node(cls, flatten, registration.unflatten, namespace=NAMESPACE)
        REGISTERED[cls] = registration


def register_pytree_node(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Make instances of ``cls`` nodes of pytrees, as ``jax.tree_util.register_pytree_node``.

    ``flatten(x) -> (children, aux)``, ``unflatten(aux, children) -> x``; aux must have equality and
    a hash. Generated source reads the leaves through attributes of the instance, and makes a new
    one by its class where the arguments have the attributes' names, else by ``unflatten``, which
    must then be importable by name. Raises ValueError for a class that is registered already.

    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> apart = lambda x: ((x.low, x.high), None)
    >>> register_pytree_node(Interval, apart, lambda aux, children: Interval(*children))
    >>> tree_map(lambda x: 2 * x, Interval(1, 2)).high
    4
    """
    if not isinstance(cls, type):
        raise TypeError(f"a class was expected, and got {cls!r}")
    _register(cls, Registration(flatten, unflatten))


def register_pytree_node_class(cls: Any) -> Any:
    """Register a class by its methods ``tree_flatten(self)`` and ``tree_unflatten(cls, aux, c)``.

    A decorator, as ``jax.tree_util.register_pytree_node_class``.

    >>> @register_pytree_node_class
    ... class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    ...     def tree_flatten(self):
    ...         return (self.low, self.high), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> flatten(Interval(1, 2))[0]
    [1, 2]
    """
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls


def register_dataclass(
    cls: Any,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Register a dataclass, as ``jax.tree_util.register_dataclass``: some fields are no data.

    A dataclass is a node without this; fields with ``metadata={"static": True}`` are part of its
    structure, as ``meta_fields`` are. Serves as a decorator. Raises ValueError where the fields
    named are not those of the class.

    >>> @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     kind: str
    >>> flatten(register_dataclass(Layer, ["w"], ["kind"])(2.0, "dense"))[0]
    [2.0]
    """
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise TypeError(f"a dataclass was expected, and got {cls!r}")
    fields = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in drop_fields]
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("give both data_fields and meta_fields, or neither")
    if data_fields is None or meta_fields is None:
        meta_fields = [n for n in fields if n in _static_fields(cls)]
        data_fields = [n for n in fields if n not in meta_fields]
    if sorted([*data_fields, *meta_fields]) != sorted(fields):
        raise ValueError(
            f"data_fields and meta_fields must name each field of {cls.__name__} once: "
            f"{', '.join(fields)}"
        )
    _register(cls, _of_dataclass(cls, tuple(data_fields), tuple(meta_fields)), tuple(data_fields))
    return cls


def _static_fields(cls: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(cls) if f.metadata.get("static", False)]


def _of_dataclass(
    cls: Any, data: tuple[str, ...], meta: tuple[str, ...], automatic: bool = False
) -> Registration:
    def flatten(value: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple(getattr(value, n) for n in data), tuple(getattr(value, n) for n in meta)

    def unflatten(aux: Any, children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)
        for name, child in (*zip(data, children, strict=True), *zip(meta, aux, strict=True)):
            object.__setattr__(new, name, child)
        return new

    return Registration(flatten, unflatten, automatic)


def discover(value: Any) -> bool:
    """Registers dataclasses on the way; stops at what says that it is a leaf."""
    cls = type(value)
    if cls not in REGISTERED and dataclasses.is_dataclass(cls):
        if getattr(cls, "__calque_leaf__", False):
            return True
        meta = tuple(_static_fields(cls))
        data = tuple(f.name for f in dataclasses.fields(cls) if f.name not in meta)
        _register(cls, _of_dataclass(cls, data, meta, automatic=True), data)
    return False


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure.

    >>> leaves, structure = flatten({"b": 1, "a": (2, None)})
    >>> leaves, unflatten(structure, [20, 10])
    ([2, 1], {'b': 10, 'a': (20, None)})
    """
    return optree.tree_flatten(tree, is_leaf=discover, namespace=NAMESPACE)


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return optree.tree_unflatten(structure, leaves)


def keys_of(value: dict[Any, Any]) -> list[Any]:
    """The keys of a dict in the order of its leaves.

    >>> keys_of({"b": 1, "a": 2}), keys_of(OrderedDict(b=1, a=2))
    (['a', 'b'], ['b', 'a'])
    """
    return list(value) if isinstance(value, OrderedDict) else sorted(value, key=str)


def plain(value: Any) -> Any:
    """A tree in which the lists of an interpreted program are Python's."""
    leaves, structure = flatten(value)
    return unflatten(structure, leaves)


def leaves_like(structure: Any, value: Any) -> list[Any]:
    """The leaves of a tree that has this structure; ValueError for another."""
    leaves, found = flatten(value)
    if found != structure:
        raise ValueError(f"trees of different structure: {structure} and {found}")
    return leaves


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to corresponding leaves, as ``jax.tree.map``."""
    return optree.tree_map(function, tree, *rest, is_leaf=discover, namespace=NAMESPACE)


def paths(tree: Any) -> list[str]:
    """For each leaf, how it is reached: ``['W']``, ``[0].x``."""
    accessors, _, _ = optree.tree_flatten_with_accessor(
        tree, is_leaf=discover, namespace=NAMESPACE
    )
    return [a.codify("") for a in accessors]


# instances of the user's classes


def is_object(value: Any) -> bool:
    """Whether a value is an instance of a dataclass or of a registered class, with attributes."""
    cls = type(value)
    if isinstance(value, (tuple, list, dict, type)) or cls.__module__.startswith("calque."):
        return False
    return not discover(value) and cls in REGISTERED


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an instance, in the order in which they were set, or declared."""
    for name in [*_slots(type(value)), *getattr(value, "__dict__", ())]:
        if not name.startswith("__") and hasattr(value, name):
            yield name, getattr(value, name)


def has_attributes(value: Any) -> bool:
    """Whether a value has attributes that can be set: its class may have ``__slots__`` instead."""
    return hasattr(value, "__dict__") or bool(_slots(type(value)))


def contents(value: Any) -> dict[str, Any]:
    """The attributes that were set; what is written into it stays there only without slots."""
    slots = _slots(type(value))
    if not slots:
        found: dict[str, Any] = vars(value)
        return found
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return held | getattr(value, "__dict__", {})


def set_contents(value: Any, content: dict[str, Any]) -> None:
    """Let an instance have these attributes, and no others."""
    for name in contents(value).keys() - content.keys():
        object.__delattr__(value, name)
    for name, part in content.items():
        object.__setattr__(value, name, part)


def _slots(cls: type) -> tuple[str, ...]:
    """The slots of a user's class and of its bases."""
    if cls.__module__.startswith(("calque.", "numpy")) or issubclass(cls, (tuple, list, dict)):
        return ()
    names = (n for base in reversed(cls.__mro__) for n in _names(vars(base).get("__slots__", ())))
    return tuple(n for n in names if not n.startswith("__"))


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def data_of(value: Any) -> set[str]:
    """The attributes of an instance that hold its leaves."""
    leaves, structure = flatten(value)
    try:  # marks instead of leaves: small numbers are one object wherever they stand
        marked = unflatten(structure, marks := [object() for _ in leaves])
    except Exception:  # the user's code may compute with what it is given
        marked, marks = value, leaves
    own, value = set(map(id, marks)), marked
    return {n for n, v in attributes(value) if any(id(x) in own for x in flatten(v)[0])}


def map_object(function: Callable[[Any], Any], value: Any) -> Any:
    """A copy of an instance, its data replaced; what belongs to its structure stays."""
    data = data_of(value)
    new = object.__new__(type(value))
    for name, part in attributes(value):
        object.__setattr__(new, name, function(part) if name in data else part)
    return new


class Field(str):
    """An attribute's name, as the key of a part."""


def children(tree: Any) -> list[tuple[Any, Any]]:
    """The parts of a pytree node, each with its key: an index, a dict's key or a field."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [(Field(f), getattr(tree, f)) for f in tree._fields]
    if isinstance(tree, (tuple, list)):
        return list(enumerate(tree))
    if isinstance(tree, dict):
        return list(tree.items())
    if is_object(tree):
        return [(Field(n), part) for n, part in attributes(tree)]
    return []


def word_of(key: Any, outer: str) -> str:
    """A word for a part of a pytree: its key if that is a name, else what the whole is called."""
    return str(key) if isinstance(key, str) and key.isidentifier() else outer


def words_of_leaves(tree: Any, word: str) -> Iterator[tuple[Any, str]]:
    """The leaves of a pytree, each with the last name on the way to it.

    >>> list(words_of_leaves({"W": 1, "layers": [2, 3]}, "params"))
    [(1, 'W'), (2, 'layers'), (3, 'layers')]
    """
    parts = children(tree)
    if not parts:
        yield tree, word
    for key, part in parts:
        yield from words_of_leaves(part, word_of(key, word))
