"""Dependences between the iterations of a nest, through the arrays that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, For, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.loops.accesses import element_index, steady_symbols
from calque.transpiler.loops.dependence import may_alias_across_iterations


@dataclass(frozen=True)
class CarriedAccess:
    """A read or a store of a part of an array that all loops of a nest carry."""

    array: Var
    statement: Apply
    loops: tuple[For, ...]  # around the statement, outermost first
    adds: bool


def dependent(
    accesses: Sequence[CarriedAccess], loops: Sequence[For], builder: Builder
) -> Apply | None:
    """An access to an element that another iteration accesses, too; None if there is none.

    Reads of one element are no dependence, and neither are two statements that add to it. Without
    dependences, each statement may be done for all iterations before the next one.
    """
    counters = [dim_symbols(builder.dim_values[loop.index]) for loop in loops]
    steady = steady_symbols(loops[0], builder).difference(*counters)
    for one, other in combinations_with_replacement(accesses, 2):
        stores = [a for a in (one, other) if is_plain_store(a.statement)]
        if one.array is not other.array or not stores or (one.adds and other.adds):
            continue
        here, there = (element_index(a.statement, builder) for a in (one, other))
        for loop in one.loops:
            (counter,) = dim_symbols(builder.dim_values[loop.index])
            shared = loop in other.loops
            if shared and may_alias_across_iterations(here, there, counter, steady, builder):
                return other.statement
    return None
