"""The questions that snapshots, branches and loops ask of a value, answered by its kind.

``kind_of(value)`` is the kind of the first class among those of the value that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import is_
from typing import Any, TypeVar

from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import current


class Missing:
    """A location that has no value yet on this path."""

    def __repr__(self) -> str:
        return "missing"


MISSING = Missing()

Owned = dict[int, Any]  # the objects that the program made, by id
Opened = tuple[Any, Callable[[list[Any]], Any], list[Any]]  # kind, how to rebuild it, and its parts


class Container:
    """A kind of value; by default one that holds others by name or key."""

    keyed = True  # a place may hold something on one path and not on another
    shared = False  # a value is never copied as it was at a moment
    mutable: bool | None = True  # a store through one name shows in another; None: of attributes
    structure: Any = None  # the class of the descriptions of opened values, if it is their own

    def now(self, value: Any) -> dict[Any, Any]:
        """The places of a value, with what they hold."""
        raise NotImplementedError

    def content(self, value: Any, owned: Owned) -> Any:
        """The state of a value that a snapshot keeps; None for a value that does not change."""
        return dict(self.now(value))

    def within(self, value: Any, content: Any) -> Iterable[Any]:
        """The values that a snapshot follows from this one."""
        return content.values()

    def locations(self, content: Any) -> dict[Any, Any]:
        """The places that a value had at a moment, with what they held."""
        found: dict[Any, Any] = content
        return found

    def same(self, content: Any, other: Any) -> bool:
        """True if a value held the same objects, in one order, at two moments."""
        return list(content) == list(other) and all(map(is_, content.values(), other.values()))

    def restore(self, value: Any, content: Any) -> None:
        """Let a value hold what it held at a moment."""
        held = self.now(value)
        held.clear()
        held.update(content)

    def read(self, value: Any, place: Any) -> Any:
        """The value at a place; MISSING if there is none."""
        return self.now(value).get(place, MISSING)

    def store(self, value: Any, place: Any, new: Any) -> None:
        """Let a place hold another value; MISSING removes the place."""
        if new is MISSING:
            self.now(value).pop(place, None)
        else:
            self.now(value)[place] = new

    def lacking(self, value: Any) -> Any:
        """The result of reading a place that holds nothing; MISSING if that is an error."""
        return MISSING

    def copy(self, value: Any, parts: dict[Any, Any]) -> Any:
        """A value like this one, with other parts at its places."""
        raise NotImplementedError

    def opened(self, value: Any) -> Opened | None:
        """The parts of a value that paths may join one by one; None if it is joined as a whole."""
        return None

    def describe(self, value: Any) -> Any:
        """The description of a value that is not opened, if it is its kind's own."""
        return None

    def join(self, value: Any, before: Any, states: list[Any], origin: Any) -> None:
        """Refuse, or note, what paths made of a value as a whole; its places are joined later."""

    def widen(self, plan: Any, value: Any, before: Any, after: Any) -> bool:
        """Extend a loop's plan by what an iteration made of a value as a whole.

        True if nothing is new: then its places are compared.
        """
        return True


KINDS: dict[type, Container] = {}
K = TypeVar("K", bound=type[Container])


def kind(*classes: type) -> Callable[[K], K]:
    """A decorator that makes a Container the kind of the values of classes."""

    def enter(made: K) -> K:
        KINDS.update(dict.fromkeys(classes, made()))
        return made

    return enter


def kind_of(value: Any) -> Container:
    """The kind of a value."""
    return KINDS.get(type(value)) or next(KINDS[c] for c in type(value).__mro__ if c in KINDS)


def is_mutable(value: Any) -> bool:
    """True for a container whose identity matters: a store through one name shows in another."""
    mutable = kind_of(value).mutable
    return pytrees.has_attributes(value) if mutable is None else mutable


def all_within(value: Any) -> Iterator[Any]:
    """The value, and all values within it where it is a list, a tuple or a dict."""
    yield value
    if isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from all_within(part)


def renewed(value: Any, change: Callable[[Any], Any], then: dict[Any, Any] | None = None) -> Any:
    """A container with each part that it has, or had ``then``, changed; itself if none differs."""
    kind = kind_of(value)
    now = kind.now(value)
    parts = {k: change(v) for k, v in (now if then is None else then).items()}
    if list(parts) == list(now) and all(map(is_, parts.values(), now.values())):
        return value
    return kind.copy(value, parts)


def own(value: Any) -> Any:
    """The value, noted as made by the program."""
    return current().machine.own(value)
