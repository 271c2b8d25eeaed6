"""Tuples, which hold the same for ever, and named tuples."""

from __future__ import annotations

from functools import partial
from typing import Any

from calque.transpiler.frontend.values.containers.container_kinds import (
    Container,
    Opened,
    Owned,
    kind,
)


@kind(tuple)
class TupleKind(Container):
    """The kind of tuples: paths join them part by part, whichever tuple holds the parts."""

    keyed = mutable = False

    def content(self, value: tuple[Any, ...], owned: Owned) -> None:
        return None

    def within(self, value: tuple[Any, ...], content: Any) -> tuple[Any, ...]:
        return value

    def now(self, value: tuple[Any, ...]) -> dict[int, Any]:
        return dict(enumerate(value))

    def copy(self, value: tuple[Any, ...], parts: dict[int, Any]) -> Any:
        return _like(value, list(parts.values()))

    def opened(self, value: tuple[Any, ...]) -> Opened:
        return (type(value), len(value)), partial(_like, value), list(value)


def _like(value: tuple[Any, ...], parts: list[Any]) -> Any:
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
