"""Places outside of the program that it writes: globals, and attributes of captured objects.

``with mode("strict"):`` of a library sets a global and sets it back. While the program is
interpreted such a place is a variable of the program, which branches and loops join.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from calque.transpiler.frontend.values.containers.container_kinds import (
    MISSING,
    Container,
    Owned,
    kind,
)

Place = tuple[int, str]  # the id of what holds a name, and the name


@dataclass(eq=False)
class Written:
    """A place that the program has written, and what it held before."""

    owner: Any  # the globals of a module, or an object with attributes
    name: str
    first: Any  # MISSING for nothing
    asked: bool  # the program had read it before it wrote it
    origin: Any = None  # of the last store


@dataclass(eq=False)
class ChangedContainer:
    """A captured list, dict or set that the program changes: its copy, and what that held."""

    copy: Any
    name: str
    first: dict[Any, Any]  # by place; of a set, its elements
    asked: set[Any]  # the keys that were read
    origin: Any = None  # of the last change


class OutsidePlaces:
    """The places that the program has written so far, and what they hold now."""

    def __init__(self) -> None:
        self.containers: dict[int, ChangedContainer] = {}  # by the ids of the copies
        self.paths: dict[int, tuple[str, Any]] = {}  # to captured ones, by the ids of the copies
        self.held: dict[Place, Any] = {}
        self.written: dict[Place, Written] = {}
        self.asked: dict[Place, Any] = {}  # the places that were read, with their owners


@kind(OutsidePlaces)
class OutsidePlacesKind(Container):
    """The kind of places outside: where an arm has not written, there is what was at first."""

    shared = True

    def now(self, value: OutsidePlaces) -> dict[Any, Any]:
        return value.held

    def content(self, value: OutsidePlaces, owned: Owned) -> Any:
        return dict(value.held), value.written

    def within(self, value: OutsidePlaces, content: Any) -> Iterable[Any]:
        copies = (changed.copy for changed in value.containers.values())
        return [*self.locations(content).values(), *copies]

    def locations(self, content: Any) -> dict[Any, Any]:
        held, written = content
        found = {place: held.get(place, w.first) for place, w in written.items()}
        return {place: value for place, value in found.items() if value is not MISSING}

    def same(self, content: Any, other: Any) -> bool:
        return super().same(self.locations(content), self.locations(other))

    def restore(self, value: OutsidePlaces, content: Any) -> None:
        value.held = dict(content[0])

    def read(self, value: OutsidePlaces, place: Any) -> Any:
        return value.held.get(place, value.written[place].first)

    def store(self, value: OutsidePlaces, place: Any, new: Any) -> None:
        value.held[place] = new
