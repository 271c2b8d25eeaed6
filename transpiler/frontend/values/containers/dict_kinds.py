"""Dicts: ordered ones, those with a default, and counters too."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.values.containers.container_kinds import (
    MISSING,
    Container,
    Opened,
    kind,
    own,
)
from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import dict_like


@kind(dict)
class DictKind(Container):
    """The kind of dicts: two are joined if they have one class, and their keys one order."""

    def now(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return value

    def lacking(self, value: dict[Any, Any]) -> Any:
        if isinstance(value, Counter):
            return 0
        factory = value.default_factory if isinstance(value, defaultdict) else None
        return factory() if factory in (int, float) else MISSING

    def copy(self, value: dict[Any, Any], parts: dict[Any, Any]) -> Any:
        return parts

    def opened(self, value: dict[Any, Any]) -> Opened:
        keys, kept = list(value), (type(value), getattr(value, "default_factory", None))
        rebuild = lambda parts: own(dict_like(value, dict(zip(keys, parts, strict=True))))
        return (kept, tuple(keys)), rebuild, list(value.values())

    def join(self, value: Any, before: Any, states: list[Any], origin: Any) -> None:
        if _reordered(states[0], states[-1]):
            current().machine.disordered[id(value)] = value

    def widen(self, plan: Any, value: Any, before: Any, after: Any) -> bool:
        if _reordered(before, after):
            raise BranchMismatch(
                "The keys of a dict change their order in a run-time loop.",
                current().origin,
                "store into d[key] without taking the key out first",
            )
        return True


def _reordered(first: dict[Any, Any], second: dict[Any, Any]) -> bool:
    """True if two versions of a dict have their common keys in different orders."""
    return [k for k in first if k in second] != [k for k in second if k in first]
