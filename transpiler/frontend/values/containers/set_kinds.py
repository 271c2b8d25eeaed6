"""Sets, which must be equal on all paths."""

from __future__ import annotations

from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.values.containers.container_kinds import Owned, kind
from calque.transpiler.frontend.values.containers.object_kinds import WholeKind
from calque.transpiler.ir.builder import current


@kind(set)
class SetKind(WholeKind):
    """The kind of sets: paths cannot join them."""

    def content(self, value: set[Any], owned: Owned) -> set[Any]:
        return set(value)

    def same(self, content: Any, other: Any) -> bool:
        return bool(content == other)

    def restore(self, value: set[Any], content: Any) -> None:
        value.clear()
        value.update(content)

    def join(self, value: Any, before: Any, states: list[Any], origin: Any) -> None:
        if states[0] != states[-1]:
            message = "A set differs between two paths."
            raise BranchMismatch(message, origin, "change it before the branch")

    def widen(self, plan: Any, value: Any, before: Any, after: Any) -> bool:
        if before != after:
            message = "A set changes in a run-time loop."
            raise BranchMismatch(message, current().origin, "use an array of flags")
        return True
