"""Snapshots of the heap: the objects that a run-time branch or loop can change.

Frames, containers made by the program, instances made by the program and Array cells are changed in
place by both arms of a branch in turn; so their contents are saved, restored, compared and joined,
and every object keeps its identity: closures, methods and aliases see what they would in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from operator import is_
from types import MethodType
from typing import Any

import numpy as np

from calque.transpiler.ir import pytrees
from calque.transpiler.ir.arrays import partners_in
from calque.transpiler.ir.builder import Array, known


def shown_name(place: Any) -> str | None:
    """The name a location gives to its values: the user's, or what a hidden local stands for."""
    if not isinstance(place, str):
        return None
    if not place.startswith("%"):
        return place
    stem = place[1:].rstrip("0123456789").rstrip("_")
    return {"broken": "stopped", "value": "result", "item": None, "yielded": None}.get(stem, stem)


class Missing:
    """A location that has no value yet on this path."""

    def __repr__(self) -> str:
        return "missing"


MISSING = Missing()


class RecordedList(list):
    """A list made by the program. ``rows`` is set while it grows in a run-time loop."""

    rows: Any = None


def rows_of(value: Any) -> Any:
    """The arrays in which a list of the program is kept; None for every other value.

    The type is tested: a user's class may have an attribute ``rows``.
    """
    return value.rows if isinstance(value, RecordedList) else None


def readable(value: Any) -> bool:
    """True if Python itself can read a value: it contains no Array and no list kept in arrays."""
    if isinstance(value, (tuple, list)):
        return rows_of(value) is None and all(map(readable, value))
    return known(value)


_flattened = pytrees.Registration(lambda x: (tuple(x), None), lambda aux, c: list(c))
pytrees.register(RecordedList, _flattened)


@dataclass(eq=False)
class Frame:
    """The local names of one interpreted call, and the frame its function was defined in."""

    locals: dict[str, Any] = field(default_factory=dict)
    parent: Frame | None = None
    comprehension: bool = False
    names: frozenset[str] = frozenset()  # the function's own: without a value, not those outside


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
        if isinstance(value, Frame):
            self.contents[id(value)] = (value, dict(value.locals))
            pending += _followed(value.locals.values())
            if value.parent is not None:
                pending.append(value.parent)
        elif isinstance(value, RecordedList):
            self.contents[id(value)] = (value, (list(value), value.rows))
            pending += _followed(value)
            if value.rows is not None:
                pending.append(value.rows)
        elif isinstance(value, list):
            self.contents[id(value)] = (value, (list(value), None))
            pending += _followed(value)
        elif isinstance(value, dict):
            self.contents[id(value)] = (value, dict(value))
            pending += _followed(value.values())
        elif isinstance(value, set):
            self.contents[id(value)] = (value, set(value))
        elif isinstance(value, tuple):
            pending += _followed(value)
        elif isinstance(value, functools.partial):
            pending += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, MethodType):
            pending.append(value.__self__)
        elif id(value) in self.owned and pytrees.has_attributes(value):
            held = dict(pytrees.contents(value))
            self.contents[id(value)] = (value, held)
            pending += _followed(held.values())
        elif hasattr(value, "calque_children"):
            pending += value.calque_children()

    def frozen(self, value: Any, active: tuple[int, ...] = ()) -> Any:
        """A container as it was at this moment: itself, or a copy where it has changed since."""
        if isinstance(value, tuple):
            items = [self.frozen(v, active) for v in value]
            if all(a is b for a, b in zip(items, value, strict=True)):
                return value
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        found = self.contents.get(id(value))
        if found is None or isinstance(value, (Array, Frame, set)) or id(value) in active:
            return value
        active = (*active, id(value))
        if isinstance(value, list):
            items = [self.frozen(v, active) for v in found[1][0]]
            if len(items) == len(value) and all(map(is_, items, value)):
                return value
            return RecordedList(items)
        now = value if isinstance(value, dict) else pytrees.contents(value)
        parts = {k: self.frozen(v, active) for k, v in found[1].items()}
        if list(parts) == list(now) and all(map(is_, parts.values(), now.values())):
            return value
        if isinstance(value, dict):
            return parts
        copy = object.__new__(type(value))
        pytrees.set_contents(copy, parts)
        self.owned[id(copy)] = copy
        return copy

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
            if type(value) is Array:
                value.restore(content)
            else:
                put_back(value, content)

    def kept(self, key: int, *later: Snapshot) -> bool:
        """True if a container holds at later moments what it held at this one."""
        value, content = self.contents[key]
        if type(value) is Array:
            return False
        return all(_holds_same(value, content, m.contents[key][1]) for m in later)

    def differs(self, other: Snapshot) -> bool:
        """True if anything reachable at this moment is changed in the other snapshot."""
        for key, (value, content) in self.contents.items():
            now = other.contents.get(key)
            if now is None:
                continue
            if isinstance(value, Array):
                if content[1] is None and (
                    content[0] is not now[1][0] or content[5] is not now[1][5]
                ):
                    return True
            elif isinstance(value, list):
                if not _same(content[0], now[1][0]):
                    return True
            elif isinstance(value, set):
                if content != now[1]:
                    return True
            elif list(content) != list(now[1]) or not _same(content.values(), now[1].values()):
                return True
        return False

    def locations(self, key: int) -> dict[Any, Any]:
        """An object's contents by location."""
        value, content = self.contents[key]
        if isinstance(value, list):
            return dict(enumerate(content[0]))
        return {} if isinstance(value, (Array, set)) else content


def _same(left: Collection[Any], right: Collection[Any]) -> bool:
    return len(left) == len(right) and all(map(is_, left, right))


def _holds_same(container: Any, content: Any, other: Any) -> bool:
    """True if two contents of a list, a dict or the like are the same objects in one order."""
    if isinstance(container, list):
        return content[1] is other[1] and _same(content[0], other[0])
    if isinstance(container, set):
        return bool(content == other)
    return _same(content, other) and _same(content.values(), other.values())


def partners_of(cell: Array, moment: Snapshot) -> list[Array]:
    """The cells that might share memory with a root at that moment, itself first."""
    found = moment.contents.get(id(cell))
    return [cell, *(cell.partners if found is None else partners_in(found[1][4]))]


def put_back(value: Any, content: Any) -> None:
    """Restore one object."""
    if isinstance(value, Array):
        value.restore(content)
    elif isinstance(value, Frame):
        value.locals.clear()
        value.locals.update(content)
    elif isinstance(value, list):
        value[:] = content[0]
        if isinstance(value, RecordedList):
            value.rows = content[1]
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(content)
    elif list(pytrees.contents(value)) == list(content):
        if not _same(pytrees.contents(value).values(), content.values()):
            pytrees.set_contents(value, content)
    else:
        pytrees.set_contents(value, {})  # they are kept in the order in which they were set
        pytrees.set_contents(value, content)


def set_location(container: Any, key: Any, value: Any) -> None:
    """Write one location of a frame, a container or an instance; MISSING removes it."""
    target = container.locals if isinstance(container, Frame) else container
    if isinstance(target, (dict, list)):
        if value is MISSING:
            if isinstance(target, dict):
                target.pop(key, None)
        else:
            target[key] = value
    elif value is not MISSING:
        object.__setattr__(target, key, value)
    elif key in pytrees.contents(target):
        object.__delattr__(target, key)
