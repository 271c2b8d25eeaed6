"""Frames: the local names of interpreted calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.frontend.values.containers.container_kinds import Container, kind


@dataclass(eq=False)
class Frame:
    """The local names of one interpreted call, and the frame its function was defined in."""

    locals: dict[str, Any] = field(default_factory=dict)
    parent: Frame | None = None
    comprehension: bool = False
    names: frozenset[str] = frozenset()  # the function's own: without a value, not those outside


@kind(Frame)
class FrameKind(Container):
    """The kind of frames: a name without a value is an error where it is read."""

    keyed, shared = False, True

    def now(self, value: Frame) -> dict[str, Any]:
        return value.locals

    def within(self, value: Frame, content: Any) -> Iterable[Any]:
        return content.values() if value.parent is None else [*content.values(), value.parent]
