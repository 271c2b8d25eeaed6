"""Values that interpretation needs, and that a type, or an array on a GPU, does not tell."""

from __future__ import annotations

from typing import Any

from calque.runtime.call.addressed import Addressed
from calque.runtime.spec import Spec
from calque.transpiler.errors import NeedsKnownValue, SpecializationNeeded


def check_present(needed: SpecializationNeeded, leaves: list[Any]) -> None:
    """A type cannot give the value that interpretation asks for."""
    specs = [leaves[i] for i in needed.leaves | needed.memory if isinstance(leaves[i], Spec)]
    named = {d for x in leaves if isinstance(x, Spec) for d in x.dims if isinstance(d, str)}
    if specs or needed.symbols & named:
        hint = "give the value, or the size, in --args instead of a type or a letter"
        raise unknown(needed, "must be known when the code is generated.", hint)
    if any(isinstance(leaves[i], Addressed) for i in needed.leaves):
        hint = "pass x.item(), which waits for the GPU"
        raise unknown(needed, "must be known when the code is generated: it is on a GPU.", hint)


def unknown(needed: SpecializationNeeded, what: str, hint: str | None = None) -> NeedsKnownValue:
    """The error of a value that must be known, with the place that needs it."""
    error = NeedsKnownValue(f"{needed.why} {what}", needed.origin, hint)
    error.calls = needed.calls
    return error
