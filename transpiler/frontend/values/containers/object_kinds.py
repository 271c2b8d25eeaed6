"""Instances of classes, which hold their attributes, and all values that hold nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import MethodType
from typing import Any

from calque.transpiler.frontend.values.containers.container_kinds import (
    MISSING,
    Container,
    Opened,
    Owned,
    kind,
    own,
)
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import current


@kind(object)
class ObjectKind(Container):
    """The kind of every other value: one that the program made may change its attributes."""

    mutable: bool | None = None

    def now(self, value: Any) -> dict[str, Any]:
        return pytrees.contents(value)

    def content(self, value: Any, owned: Owned) -> Any:
        return dict(self.now(value)) if _is_made(value, owned) else None

    def within(self, value: Any, content: Any) -> Iterable[Any]:
        if content is not None:
            return content.values()
        children = getattr(type(value), "calque_children", None)  # (not by its own __getattr__)
        return () if children is None else children(value)

    def restore(self, value: Any, content: Any) -> None:
        if list(self.now(value)) != list(content):
            pytrees.set_contents(value, {})  # they are kept in the order in which they were set
        elif self.same(self.now(value), content):
            return
        pytrees.set_contents(value, content)

    def store(self, value: Any, place: Any, new: Any) -> None:
        if new is not MISSING:
            object.__setattr__(value, place, new)
        elif place in self.now(value):
            object.__delattr__(value, place)

    def copy(self, value: Any, parts: dict[str, Any]) -> Any:
        new: Any = own(object.__new__(type(value)))
        pytrees.set_contents(new, parts)
        return new

    def opened(self, value: Any) -> Opened | None:
        if not _is_made(value, current().machine.owned) and not pytrees.is_object(value):
            return None
        held = dict(pytrees.attributes(value))
        rebuild = lambda parts: self.copy(value, dict(zip(held, parts, strict=True)))
        return (type(value), tuple(held)), rebuild, list(held.values())


def _is_made(value: Any, owned: Owned) -> bool:
    """True for an instance that the program made."""
    return id(value) in owned and pytrees.has_attributes(value)


@kind(int, float, complex, str, bytes)
class PlainKind(ObjectKind):
    """The kind of numbers and texts."""

    mutable = False


@kind(functools.partial)
class PartialKind(ObjectKind):
    """The kind of functions with some arguments given."""

    def content(self, value: Any, owned: Owned) -> None:
        return None

    def within(self, value: Any, content: Any) -> Iterable[Any]:
        return [value.func, *value.args, *value.keywords.values()]


@kind(MethodType)
class MethodKind(PartialKind):
    """The kind of bound methods."""

    def within(self, value: Any, content: Any) -> Iterable[Any]:
        return [value.__self__]


class WholeKind(ObjectKind):
    """A kind of value that has a state, but no places for other values."""

    shared = True

    def within(self, value: Any, content: Any) -> Iterable[Any]:
        return ()

    def locations(self, content: Any) -> dict[Any, Any]:
        return {}
