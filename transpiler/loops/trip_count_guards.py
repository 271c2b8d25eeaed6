"""Guard loop bounds so that a zero-trip loop stays one if its trip count would overflow.

Before::

    for j in range(2, stop):

After: ``for j in range(2, max(stop, 2))``, if ``stop`` may be any integer of 64 bits: a compiled
loop computes the trip count ``stop - 2``, which wraps around to a large number for -2**63.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Builder, atom, wrap
from calque.transpiler.ir.core import Block, For, Function, Statement, Var, While
from calque.transpiler.ir.path_conditions import statements_given
from calque.transpiler.ir.types import dim_symbols


def guard_trip_count(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Clamp such loops' stop to their start, in place, where ``compiles`` accepts a statement."""
    with builder.active():
        loops = _not_held(function.body, builder)
        if not loops:
            return
        for block, compiled in _blocks(function.body, compiles, False):
            for s in [s for s in loops if compiled and s in block.statements]:
                at = block.statements.index(s)
                block.statements[at:at] = _hold(s, builder)


def _not_held(body: Block, builder: Builder) -> list[For]:
    """The loops whose trip count could overflow, given the conditions on their path."""
    dims, found = builder.dims, list[For]()
    for s in statements_given(body, builder):
        if isinstance(s, For) and s.step in (1, -1) and s.index in builder.dim_values:
            start, stop = (builder.dim_of(wrap(end)) for end in (s.start, s.stop))
            exact = all(map(dims.is_exact, (start, stop, stop - start)))
            if not exact and _is_of_python(s.start) and _is_of_python(s.stop):
                found.append(s)
    return found


def _blocks(
    block: Block, compiles: Callable[[Statement], bool], compiled: bool
) -> Iterator[tuple[Block, bool]]:
    """Yield all blocks, each with a flag whether it is in a kernel."""
    yield block, compiled
    for s in block.statements:
        inside = compiled or (isinstance(s, (For, While)) and compiles(s))
        for inner in core.blocks_of(s):
            yield from _blocks(inner, compiles, inside)


def _is_of_python(value: Any) -> bool:
    return not isinstance(value, Var) or value.type.weak


def _hold(s: For, builder: Builder) -> list[Statement]:
    """Clamp a loop's stop to its start; return the statements that compute it."""
    further = FUNCTIONS[np.maximum if s.step == 1 else np.minimum]
    (own,) = dim_symbols(builder.dim_values[s.index])
    if own in builder.dims.ends:
        builder.dims.ends[own] = builder.dims.ends[own][:2]
    with builder.block() as made, builder.at(s.origin):
        s.stop = atom(further(wrap(s.stop), wrap(s.start)))
    return made.statements
