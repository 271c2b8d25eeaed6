"""Snapshots of the heap: the objects that a run-time branch or loop can change.

Frames, containers made by the program, instances made by the program and Array cells are changed in
place by both arms of a branch in turn; so their contents are saved, restored, compared and joined,
and every object keeps its identity: closures, methods and aliases see what they would in Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from calque.transpiler.frontend.values.containers import (  # noqa: F401  (fill the table)
    array_kinds,
    dict_kinds,
    frames,
    list_kinds,
    object_kinds,
    set_kinds,
    tuple_kinds,
)
from calque.transpiler.frontend.values.containers.container_kinds import kind_of, renewed
from calque.transpiler.ir.arrays import partners_in
from calque.transpiler.ir.builder import Array


def shown_name(place: Any) -> str | None:
    """The name a location gives to its values: the user's, or what a hidden local stands for."""
    if not isinstance(place, str):
        return None
    if not place.startswith("%"):
        return place
    stem = place[1:].rstrip("0123456789").rstrip("_")
    return {"broken": "stopped", "value": "result", "item": None, "yielded": None}.get(
        stem, stem or "iteration"
    )


_PLAIN = frozenset(
    (int, float, bool, str, bytes, complex, type(None), np.float64, np.float32, np.int64, np.bool_)
)


def _followed(values: Iterable[Any]) -> list[Any]:
    """The values that can hold others, or change.

    A number that is no buffer for stores never changes.
    """
    return [v for v in values if type(v) not in _PLAIN and not _is_lasting(v)]


def _is_lasting(value: Any) -> bool:
    if type(value) is Array:
        return value.is_lasting_number()
    return type(value) is tuple and _PLAIN.issuperset(map(type, value))


class Snapshot:
    """The contents of every reachable object at one moment."""

    def __init__(self, roots: Iterable[Any], owned: dict[int, Any]):
        self.contents: dict[int, tuple[Any, Any]] = {}
        self.owned = owned
        contents, pending, linked = self.contents, _followed(roots), 0
        while pending:  # one of these is taken at every branch: what is frequent comes first
            value = pending.pop()
            if type(value) is tuple:
                pending += _followed(value)
            elif id(value) in contents:
                continue
            elif type(value) is Array:
                contents[id(value)] = value, value.state()
                if value._base is not None:
                    pending.append(value._base)
                if value._partners & ~linked:
                    pending += partners_in(value._partners, linked)
                    linked |= value._partners
            else:
                self._visit(value, pending)

    def _visit(self, value: Any, pending: list[Any]) -> None:
        kind = kind_of(value)
        content = kind.content(value, self.owned)
        if content is not None:
            self.contents[id(value)] = value, content
        pending += _followed(kind.within(value, content))

    def frozen(self, value: Any, active: tuple[int, ...] = ()) -> Any:
        """A container as it was at this moment: itself, or a copy where it has changed since."""
        kind, found = kind_of(value), self.contents.get(id(value))
        if kind.shared or id(value) in active or (found is None and not isinstance(value, tuple)):
            return value
        then = None if found is None else kind.locations(found[1])
        return renewed(value, partial(self.frozen, active=(*active, id(value))), then)

    def poison_of(self, value: Any) -> Any:
        """The origin of a store before this moment that may have changed an array; else None."""
        while isinstance(value, Array):
            found = self.contents.get(id(value))
            _, base, _, _, _, poison = value.state() if found is None else found[1]
            if poison is not None:
                return poison
            value = base
        return None

    def restore(self) -> None:
        """Put every object back as it was."""
        for value, content in self.contents.values():
            kind_of(value).restore(value, content)

    def kept(self, key: int, *later: Snapshot) -> bool:
        """True if an object holds at later moments what it held at this one."""
        value, content = self.contents[key]
        return all(kind_of(value).same(content, m.contents[key][1]) for m in later)

    def differs(self, other: Snapshot) -> bool:
        """True if anything reachable at this moment is changed in the other snapshot."""
        return any(key in other.contents and not self.kept(key, other) for key in self.contents)

    def locations(self, key: int) -> dict[Any, Any]:
        """An object's contents by location."""
        value, content = self.contents[key]
        return kind_of(value).locations(content)


def partners_of(cell: Array, moment: Snapshot) -> list[Array]:
    """The cells that might share memory with a root at that moment, itself first."""
    found = moment.contents.get(id(cell))
    return [cell, *(cell.partners if found is None else partners_in(found[1][4]))]
