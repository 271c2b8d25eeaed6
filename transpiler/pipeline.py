"""From a function and the types of its arguments to generated source: this file knows the order.

interpretation (with the passes of the transformations that are called on the way) -> dead code
-> text
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import calque.transpiler.primitives  # noqa: F401  (fills the tables)
from calque.transpiler import core
from calque.transpiler.analyses.liveness import remove_dead_code
from calque.transpiler.core import blocks_of
from calque.transpiler.emit.python import emit_function, emit_module
from calque.transpiler.frontend.trace import Traced, trace
from calque.transpiler.primitives.calls import inline_calls
from calque.transpiler.types import ArrayType


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call: a type or a value for each leaf, and how to build them."""

    types: tuple[ArrayType | None, ...]
    values: tuple[Any, ...]
    build: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def to_core(function: Any, arguments: Arguments, pinned: dict[str, int] | None = None) -> Traced:
    """Interpret, transform, and drop what is not needed."""
    with np.errstate(all="ignore"):
        traced = trace(function, arguments.types, arguments.values, arguments.build, pinned=pinned)
    inline_calls(traced.function, traced.builder)
    remove_dead_code(traced.function)
    core.verify(traced.function)
    traced.function.phases = _phases(traced.function)
    return traced


def _phases(function: core.Function) -> dict[int, str]:
    """Statements within a phase belong to it."""
    found = dict(function.phases)

    def visit(block: core.Block, phase: str) -> None:
        for s in block.statements:
            own = found.get(id(s), phase)
            if own:
                found[id(s)] = own
            for inner in blocks_of(s):
                visit(inner, own)

    visit(function.body, "")
    return found


def function_text(traced: Traced, name: str) -> str:
    """The ``def`` of the generated function."""
    traced.function.name = name
    return emit_function(traced.function, phases=traced.function.phases)


def module_text(traced: Traced, name: str, title: str, provenance: Sequence[str]) -> str:
    """A whole module, with a docstring that says where it comes from."""
    traced.function.name = name
    return emit_module(
        traced.function, title=title, provenance=list(provenance), phases=traced.function.phases
    )


def core_text(traced: Traced, name: str) -> str:
    """The Core program, for reading."""
    traced.function.name = name
    return core.show(traced.function)
