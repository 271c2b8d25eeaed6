"""Pytrees, with JAX's rules: dict keys sorted, None an empty node.

Namedtuples and dataclasses are nodes without registration; ``register`` adds classes.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.errors import NestedTooDeeply
from calque.transpiler.forking import free_in_children
from calque.transpiler.ir import treedefs
from calque.transpiler.ir.core import map_tree

_lock = free_in_children("pytrees", threading.RLock())

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
Unflatten = Callable[[Any, Sequence[Any]], Any]


@dataclass(frozen=True)
class Registration:
    """The functions that flatten and unflatten instances of a class."""

    flatten: Flatten
    unflatten: Unflatten
    automatic: bool = False  # a dataclass that nobody registered


REGISTERED: dict[type, Registration] = {}


def register(cls: type, registration: Registration, names: Sequence[str] | None = None) -> None:
    """Make instances of a class nodes of trees; ``names``: the attributes that are its parts."""

    node = treedefs.NodeClass(
        registration.flatten, registration.unflatten, None if names is None else tuple(names)
    )
    with _lock:
        if cls in treedefs.BUILT_IN:
            raise ValueError(f"{cls.__name__} is a pytree node already")
        if cls in REGISTERED:
            if not REGISTERED[cls].automatic or registration.automatic:
                raise ValueError(f"{cls.__name__} is registered as a pytree node already")
        treedefs.NODES[cls] = node
        REGISTERED[cls] = registration


def static_fields(cls: Any) -> list[str]:
    """The fields of a dataclass that are part of its structure."""
    return [f.name for f in dataclasses.fields(cls) if f.metadata.get("static", False)]


def of_dataclass(
    cls: Any, data: tuple[str, ...], meta: tuple[str, ...], automatic: bool = False
) -> Registration:
    """The registration of a dataclass: ``data`` fields are children, ``meta`` fields structure."""

    def flatten(value: Any) -> tuple[tuple[Any, ...], Any]:
        return tuple(getattr(value, n) for n in data), tuple(getattr(value, n) for n in meta)

    def unflatten(aux: Any, children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)
        for name, child in (*zip(data, children, strict=True), *zip(meta, aux, strict=True)):
            object.__setattr__(new, name, child)
        return new

    return Registration(flatten, unflatten, automatic)


def discover(value: Any) -> bool:
    """Register a dataclass when it is met; True for an instance that declares itself a leaf."""
    cls = type(value)
    if cls not in REGISTERED and dataclasses.is_dataclass(cls):
        if getattr(cls, "__calque_leaf__", False):
            return True
        meta = tuple(static_fields(cls))
        data = tuple(f.name for f in dataclasses.fields(cls) if f.name not in meta)
        register(cls, of_dataclass(cls, data, meta, automatic=True), data)
    return False


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure.

    >>> leaves, structure = flatten({"b": 1, "a": (2, None)})
    >>> leaves, unflatten(structure, [20, 10])
    ([2, 1], {'b': 10, 'a': (20, None)})
    """
    try:
        return treedefs.flatten(tree, discover)
    except RecursionError:
        raise too_deep("A container") from None


def too_deep(what: str) -> NestedTooDeeply:
    """The error for an object that is too deeply nested, or cyclic, to be flattened."""
    return NestedTooDeeply(f"{what} holds itself, or is nested too deeply.")


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return treedefs.unflatten(structure, leaves)


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


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to corresponding leaves, as ``jax.tree.map``."""
    leaves, structure = flatten(tree)
    others = [structure.flatten_up_to(other) for other in rest]
    return treedefs.unflatten(structure, list(map(function, leaves, *others)))


def paths(tree: Any) -> list[str]:
    """The access path of each leaf: ``['W']``, ``[0].x``."""
    return ["".join(map(str, path)) for path in treedefs.paths(flatten(tree)[1])]


# instances of the user's classes


def is_object(value: Any) -> bool:
    """True for an instance of a dataclass or of a registered class, with attributes."""
    cls = type(value)
    if isinstance(value, (tuple, list, dict, type)) or cls.__module__.startswith("calque."):
        return False
    return not discover(value) and cls in REGISTERED


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an instance, in the order in which they were set, or declared."""
    for name in [*_slots(type(value)), *getattr(value, "__dict__", ())]:
        if not name.startswith("__") and (found := _set_value(value, name)) is not _UNSET:
            yield name, found


_UNSET = object()


def _set_value(value: Any, name: str) -> Any:
    """An attribute that was set; the class's own ``__getattr__`` is not asked for others."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return _UNSET


def has_attributes(value: Any) -> bool:
    """True if a value has attributes that can be set, in a ``__dict__`` or in ``__slots__``."""
    return hasattr(value, "__dict__") or bool(_slots(type(value)))


def contents(value: Any) -> dict[str, Any]:
    """The attributes that were set; without slots the dict is the instance's own, else a copy."""
    slots = _slots(type(value))
    if not slots:
        found: dict[str, Any] = vars(value)
        return found
    held = {name: _set_value(value, name) for name in slots}
    held = {name: found for name, found in held.items() if found is not _UNSET}
    return held | getattr(value, "__dict__", {})


def set_contents(value: Any, content: dict[str, Any]) -> None:
    """Let an instance have these attributes, and no others."""
    for name in contents(value).keys() - content.keys():
        object.__delattr__(value, name)
    for name, part in content.items():
        object.__setattr__(value, name, part)


def _slots(cls: type) -> tuple[str, ...]:
    """The slots of a user's class and of its bases."""
    if not hasattr(cls, "__slots__"):  # nor has any of its bases
        return ()
    if cls.__module__.startswith(("calque.", "numpy")) or issubclass(cls, (tuple, list, dict)):
        return ()
    names = (
        private_name(name, base.__name__)
        for base in reversed(cls.__mro__)
        for name in _names(vars(base).get("__slots__", ()))
    )
    return tuple(n for n in names if not n.startswith("__"))


def private_name(name: str, cls: str) -> str:
    """A name as Python writes it within a class.

    >>> private_name("__x", "_Rod"), private_name("__init__", "Rod"), private_name("__x", "")
    ('_Rod__x', '__init__', '__x')
    """
    cls = cls.lstrip("_")
    private = name.startswith("__") and not name.endswith("__") and bool(cls)
    return f"_{cls}{name}" if private else name


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


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Like core.map_tree, and through dataclasses and instances of registered classes."""
    if isinstance(value, (tuple, list, dict)):
        return map_tree(lambda leaf: map_leaves(function, leaf), value)
    if not is_object(value):
        return function(value)
    return map_object(lambda part: map_leaves(function, part), value)


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
    """A word for a part of a pytree: its key if that is an identifier, else the whole's word."""
    return str(key) if isinstance(key, str) and key.isidentifier() else outer


def words_of_leaves(tree: Any, word: str) -> Iterator[tuple[Any, str]]:
    """The leaves of a pytree, each with the last name on its path, made unique by positions.

    >>> list(words_of_leaves({"W": 1, "layers": [(2, 3), (4, 5)]}, "p"))
    [(1, 'W'), (2, 'layers_0_0'), (3, 'layers_0_1'), (4, 'layers_1_0'), (5, 'layers_1_1')]
    """
    found = list(_named_leaves(tree, word, ()))
    alike: dict[str, list[tuple[Any, ...]]] = {}
    for _, name, keys in found:
        alike.setdefault(name, []).append(keys)
    telling = {name: _telling(ways) for name, ways in alike.items()}
    for leaf, name, keys in found:
        told = [str(k) for n, k in enumerate(keys) if n in telling[name]]
        yield leaf, "_".join([name, *(k for k in told if f"_{k}".isidentifier())])


def _named_leaves(tree: Any, word: str, keys: tuple[Any, ...]) -> Iterator[tuple[Any, str, Any]]:
    parts = children(tree)
    if not parts:
        yield tree, word, keys
    for key, part in parts:
        yield from _named_leaves(part, word_of(key, word), (*keys, key))


def _telling(ways: list[tuple[Any, ...]]) -> set[int]:
    """The positions at which some of the paths to leaves differ."""
    longest = max(ways, key=len)
    return {n for n in range(len(longest)) if len({way[n : n + 1] for way in ways}) > 1}
