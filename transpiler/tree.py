"""Pytrees, by optree, with JAX's rules: dict keys sorted, None an empty node.

Namedtuples and dataclasses are nodes without registration; ``register_pytree_node`` adds classes.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import optree

from calque.transpiler.frontend.heap import RecordedList

NAMESPACE = "calque"
_lock = threading.Lock()
_registered: set[type] = set()


def register_pytree_node(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
) -> None:
    """Make instances of ``cls`` nodes.

    ``flatten(x) -> (children, aux)``, ``unflatten(aux, children)``, as in JAX.
    """
    with _lock:
        if cls not in _registered:
            optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)
            _registered.add(cls)


register_pytree_node(RecordedList, lambda x: (tuple(x), None), lambda aux, children: list(children))


def _register_dataclass(cls: type) -> None:
    names = [f.name for f in dataclasses.fields(cls)]

    def flatten(value: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
        return tuple(getattr(value, n) for n in names), None, tuple(names)

    def unflatten(aux: Any, children: Sequence[Any]) -> Any:
        new: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(new, name, child)
        return new

    register_pytree_node(cls, flatten, unflatten)  # type: ignore[arg-type]


def _discover(value: Any) -> bool:
    """Registers dataclasses on the way; stops at what says that it is a leaf."""
    cls = type(value)
    if cls not in _registered and dataclasses.is_dataclass(cls):
        if getattr(cls, "__calque_leaf__", False):
            return True
        _register_dataclass(cls)
    return False


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure.

    >>> leaves, structure = flatten({"b": 1, "a": (2, None)})
    >>> leaves, unflatten(structure, [20, 10])
    ([2, 1], {'b': 10, 'a': (20, None)})
    """
    return optree.tree_flatten(tree, is_leaf=_discover, namespace=NAMESPACE)


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return optree.tree_unflatten(structure, leaves)


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to corresponding leaves, as ``jax.tree.map``."""
    return optree.tree_map(function, tree, *rest, is_leaf=_discover, namespace=NAMESPACE)


def paths(tree: Any) -> list[str]:
    """For each leaf, how it is reached: ``['W']``, ``[0].x``."""
    accessors, _, _ = optree.tree_flatten_with_accessor(
        tree, is_leaf=_discover, namespace=NAMESPACE
    )
    return [a.codify("") for a in accessors]
