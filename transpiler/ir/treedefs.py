"""Structures of pytrees: what is left of a tree without its leaves, and how to put leaves back.

Nodes are tuples, lists, dicts, namedtuples, deques, None, and instances of classes in ``NODES``, by
their exact types; all else is a leaf. Keys of a dict are taken in sorted order, as JAX takes them.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_DEPTH = 1000  # of nodes within nodes; beyond, an object is taken to hold itself
_NUMBERS = (np.float64, np.float32, np.int64, np.int32, np.bool_, np.complex128)
_LEAVES = frozenset([np.ndarray, float, int, bool, complex, str, *_NUMBERS])
_DICTS = (dict, OrderedDict, defaultdict)
_BASIC = frozenset([*_LEAVES, dict, list, tuple, type(None)])


class NodeClass(NamedTuple):
    """A class whose instances are nodes: its functions, and its parts' names where it has some."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    names: tuple[str, ...] | None = None


NODES: dict[type, NodeClass] = {}
# which need not be registered
BUILT_IN = (tuple, list, deque, type(None), *_DICTS)


class PyTreeDef:
    """The structure of a pytree: equal for trees that differ in their leaves alone.

    ``kind`` is the class of the node, None at a leaf; ``data`` what the node holds besides its
    ``children``; ``order`` the keys of a dict as they were set.
    """

    __slots__ = ("_hash", "children", "data", "kind", "num_leaves", "order")

    def __init__(
        self, kind: Any, data: Any, children: tuple[PyTreeDef, ...], order: Any, num_leaves: int
    ):
        self.kind, self.data, self.children, self.order = kind, data, children, order
        self.num_leaves = num_leaves
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return (
            self.kind is other.kind
            and len(self.children) == len(other.children)
            and bool(self.data == other.data)
            and self.children == other.children
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.kind, self.data, self.children))
        return self._hash

    def __reduce__(self) -> Any:
        return _restored, (self.kind, self.data, self.children, self.order, self.num_leaves)

    def __repr__(self) -> str:
        return f"PyTreeDef({_shown(self)})"

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a tree that stand where this structure has leaves; else ValueError."""
        found: list[Any] = []
        _parts(self, tree, found)
        return found


LEAF = PyTreeDef(None, None, (), None, 1)
_NOTHING = PyTreeDef(type(None), None, (), None, 0)


def _restored(kind: Any, *held: Any) -> PyTreeDef:
    return LEAF if kind is None else PyTreeDef(kind, *held)


def flatten(
    tree: Any, ends: Callable[[Any], bool], every: bool = False
) -> tuple[list[Any], PyTreeDef]:
    """Leaves and structure. A tree ends where ``ends`` says so.

    Unless it wants to see ``every`` value, Python's own containers and numbers are not shown to it.
    Raises RecursionError for a tree that holds itself.
    """
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, ends, every, 0)


def _flattened(
    value: Any, leaves: list[Any], ends: Callable[[Any], bool], every: bool, depth: int
) -> PyTreeDef:
    kind = type(value)
    if (every or kind not in _BASIC) and ends(value):
        leaves.append(value)
        return LEAF
    order = None
    if kind is tuple or kind is list:
        parts, data = value, None
    elif kind is dict:
        order = tuple(value)
        data = sorted_keys(order)
        parts = [value[k] for k in data]
    elif value is None:
        return _NOTHING
    else:
        found = None if kind in _LEAVES else one_level(value)
        if found is None:
            leaves.append(value)
            return LEAF
        parts, data, order = found
    if depth > _DEPTH:
        raise RecursionError("a tree is nested too deeply")
    children, before = [], len(leaves)
    for part in parts:
        if type(part) in _LEAVES and not every:
            leaves.append(part)
            children.append(LEAF)
        else:
            children.append(_flattened(part, leaves, ends, every, depth + 1))
    return PyTreeDef(kind, data, tuple(children), order, len(leaves) - before)


def one_level(value: Any) -> tuple[Sequence[Any], Any, Any] | None:
    """The parts of a node, what it holds besides, and its keys as they were set; None of a leaf."""
    kind = type(value)
    known = NODES.get(kind)
    if known is not None:
        parts, data = known.flatten(value)
        return tuple(parts), data, None
    if kind in (tuple, list) or is_named(kind):
        return value, None, None
    if kind in _DICTS:
        order = tuple(value)
        keys = order if kind is OrderedDict else sorted_keys(order)
        data = (value.default_factory, keys) if kind is defaultdict else keys
        return [value[k] for k in keys], data, order
    if kind is deque:
        return list(value), value.maxlen, None
    return ((), None, None) if value is None else None


def is_named(kind: type) -> bool:
    """True for namedtuples, and for the tuples with attributes of Python's own modules."""
    return issubclass(kind, tuple) and (hasattr(kind, "_fields") or hasattr(kind, "n_fields"))


def sorted_keys(keys: Sequence[Any]) -> tuple[Any, ...]:
    """The keys of a dict in order; those that cannot be compared by the names of their classes.

    >>> sorted_keys(["b", "a"]), sorted_keys(["a", 10, 9])
    (('a', 'b'), (9, 10, 'a'))
    """
    try:
        return tuple(sorted(keys))
    except TypeError:
        pass
    try:
        return tuple(sorted(keys, key=lambda k: (type(k).__module__, type(k).__qualname__, k)))
    except TypeError:
        return tuple(keys)


def unflatten(structure: PyTreeDef, leaves: Sequence[Any]) -> Any:
    """The tree of a structure with these leaves; ValueError where there are more or fewer."""
    if len(leaves) != structure.num_leaves:
        raise ValueError(f"{structure.num_leaves} leaves are due, not {len(leaves)}")
    return _built(structure, iter(leaves))


def _built(structure: PyTreeDef, leaves: Iterator[Any]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    parts = [next(leaves) if c is LEAF else _built(c, leaves) for c in structure.children]
    if kind is list:
        return parts
    if kind is tuple:
        return tuple(parts)
    if kind is dict and structure.order == structure.data:
        return dict(zip(structure.data, parts, strict=True))
    return _with_parts(structure, parts)


def _with_parts(structure: PyTreeDef, parts: list[Any]) -> Any:
    kind, data = structure.kind, structure.data
    known = NODES.get(kind)
    if known is not None:
        return known.unflatten(data, parts)
    if kind in _DICTS:
        keys = data[1] if kind is defaultdict else data
        found = dict.fromkeys(structure.order) | dict(zip(keys, parts, strict=True))
        if kind is dict:
            return found
        return kind(data[0], found) if kind is defaultdict else kind(found)
    if kind is deque:
        return deque(parts, data)
    if kind is type(None):
        return None
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def _parts(structure: PyTreeDef, tree: Any, found: list[Any]) -> None:
    if structure is LEAF:
        found.append(tree)
        return
    kind: Any = structure.kind
    same: bool = type(tree) is kind
    if same and kind in (tuple, list):
        parts = tree
    elif same and kind is dict and structure.data == tuple(tree):
        parts = tree.values()
    else:
        parts = _fitting_parts(structure, tree)
    if len(parts) != len(structure.children):
        count = len(structure.children)
        raise ValueError(f"{_article(kind)} of {count} parts is due, not of {len(parts)}: {tree!r}")
    for child, part in zip(structure.children, parts, strict=True):
        if child is LEAF:
            found.append(part)
        else:
            _parts(child, part, found)


def _fitting_parts(structure: PyTreeDef, tree: Any) -> Sequence[Any]:
    """The parts of a node of the same class and keys; ValueError for another."""
    kind = structure.kind
    if type(tree) is not kind and not (kind in _DICTS and type(tree) in _DICTS):
        due = "None" if kind is type(None) else _article(kind)
        raise ValueError(f"{due} is due, not {tree!r}")
    if kind in _DICTS:
        keys = structure.data[1] if kind is defaultdict else structure.data
        if len(tree) != len(keys) or any(k not in tree for k in keys):
            raise ValueError(f"the keys {list(keys)} are due, not {list(sorted_keys(list(tree)))}")
        return [tree[k] for k in keys]
    level = one_level(tree)
    assert level is not None
    parts, data, _ = level
    if kind in NODES and data != structure.data:
        raise ValueError(f"{_article(kind)} with {structure.data!r} is due, not with {data!r}")
    return parts


def _article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"


# paths, and text


class Step(NamedTuple):
    """A step of a path: ``how`` is "key", "index", "field", or "part" of a class without names."""

    how: str
    entry: Any

    def __str__(self) -> str:
        match self.how:
            case "field":
                return f".{self.entry}"
            case "part":
                return f"[<flat index {self.entry}>]"
        return f"[{self.entry!r}]"


def paths(structure: PyTreeDef, before: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """The path of each leaf."""
    if structure.kind is None:
        yield before
        return
    for step, child in zip(_steps(structure), structure.children, strict=True):
        yield from paths(child, (*before, step))


def _steps(structure: PyTreeDef) -> list[Step]:
    kind, count = structure.kind, len(structure.children)
    if kind in _DICTS:
        keys = structure.data[1] if kind is defaultdict else structure.data
        return [Step("key", k) for k in keys]
    if kind not in NODES:
        named = _names_of(kind)
        return [Step("field", n) for n in named] or [Step("index", i) for i in range(count)]
    names = NODES[kind].names
    if dataclasses.is_dataclass(kind):
        names = names or tuple(f.name for f in dataclasses.fields(kind))[:count]
        return [Step("field", n) for n in names]
    how = "index" if issubclass(kind, Sequence) else "key" if issubclass(kind, Mapping) else "part"
    return [Step(how, i) for i in range(count)]


def _names_of(kind: type) -> Sequence[str]:
    if not is_named(kind):
        return ()
    fields: Any = getattr(kind, "_fields", None)
    if fields is None:  # time.struct_time, and the like
        values = {i: n for n, i in _places(kind)}
        fields = [values[i] for i in sorted(values)]
    return tuple(fields)


def _places(kind: Any) -> Iterator[tuple[str, int]]:
    """The names of a tuple of Python's own modules, with the elements that they are."""
    marked = kind(range(kind.n_sequence_fields))
    for name in dir(kind):
        place = getattr(marked, name)
        if not name.startswith(("_", "n_")) and type(place) is int and place < len(marked):
            yield name, place


def _shown(structure: PyTreeDef) -> str:
    """The structure as it would be written, with a star for each leaf."""
    kind, parts = structure.kind, [_shown(c) for c in structure.children]
    if kind is None:
        return "*"
    if kind in NODES:
        return f"{kind.__name__}[{structure.data!r}]({', '.join(parts)})"
    steps = _steps(structure)
    if kind in _DICTS:
        inner = ", ".join(f"{s.entry!r}: {p}" for s, p in zip(steps, parts, strict=True))
        return f"{{{inner}}}" if kind is dict else f"{kind.__name__}({{{inner}}})"
    if kind is type(None):
        return "None"
    if is_named(kind):
        inner = ", ".join(f"{s.entry}={p}" for s, p in zip(steps, parts, strict=True))
        return f"{kind.__name__}({inner})"
    inner = ", ".join(parts)
    if kind is tuple:
        return f"({inner},)" if len(parts) == 1 else f"({inner})"
    return f"[{inner}]" if kind is list else f"{kind.__name__}([{inner}])"


def transposed(outer: PyTreeDef, inner: PyTreeDef, parts: Sequence[Any]) -> Any:
    """The tree of structure ``inner`` whose leaves are trees of structure ``outer``.

    ``parts`` stand at the leaves of ``outer``, each a tree of structure ``inner``.
    """
    rows = [inner.flatten_up_to(part) for part in parts]
    columns = zip(*rows, strict=True) if rows else ([] for _ in range(inner.num_leaves))
    return unflatten(inner, [unflatten(outer, list(column)) for column in columns])
