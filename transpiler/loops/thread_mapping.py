"""Loops whose rounds a grid of threads may share: independent ones, and reductions.

Before::

    for i in range(n):
        out[i] = f(x[i])
        total = total + x[i]

After: the loop is ``parallel``; each thread puts its own rounds together, and then the threads do.
At every depth, since a grid has room for the rounds of inner loops, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, Statement, Var
from calque.transpiler.ir.verdicts import REDUCTION
from calque.transpiler.loops.carried_dependences import made_by, of_number
from calque.transpiler.loops.chosen_cells import only_adds, write_as_additions
from calque.transpiler.loops.parallelize import of_arrays, upward
from calque.transpiler.primitives.elementwise import add, multiply, subtract
from calque.transpiler.primitives.logic import bitwise_and, bitwise_or, maximum, minimum
from calque.transpiler.primitives.scalars import max_, min_

# how the numbers of several rounds become one
COMBINED = {add: "sum", subtract: "sum", multiply: "product", maximum: "max", minimum: "min"}
COMBINED |= {max_: "max", min_: "min"}
_OF_TRUTHS = {bitwise_or: "max", bitwise_and: "min"}


@dataclass(frozen=True)
class PutTogether:
    """A number that all rounds of a loop go into: the k-th phi, and how: "sum", "max"."""

    position: int
    how: str


def map_to_threads(
    function: core.Function, builder: Builder, deterministic: bool = False
) -> None:
    """Mark loops that threads may share, in place; ``deterministic``: those of one result."""
    with builder.active():
        write_as_additions(function.body)
        _mark(function.body, builder, deterministic)


def _mark(block: Block, builder: Builder, deterministic: bool) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _mark(inner, builder, deterministic)
        if isinstance(s, For):
            s.parallel = is_shared(s, builder, deterministic)
            if s.parallel:
                made += upward(s, builder)
        made.append(s)
    block.statements[:] = made


def is_shared(s: For, builder: Builder, deterministic: bool = False) -> bool:
    """Whether threads may share a loop's rounds."""
    numbers = [k for k, phi in enumerate(s.phis) if not phi.type.ndim]
    if s.step not in (1, -1) or s.index not in builder.dim_values or not s.phis:
        return False
    if any(reduction_at(s, k) is None for k in numbers):
        return False
    added = set() if deterministic else {p for p in s.phis if p.type.ndim}
    added = {phi for phi in added if only_adds(s, phi, builder)}
    return of_arrays(s, builder, added).parallel


def reductions(s: For) -> list[PutTogether]:
    """The numbers that a loop which threads share puts together."""
    found = [reduction_at(s, k) for k, phi in enumerate(s.phis) if not phi.type.ndim]
    return [r for r in found if r is not None]


def reduction_at(s: For, position: int) -> PutTogether | None:
    """What becomes of the k-th phi, if threads can put it together."""
    if of_number(s, position).kind != REDUCTION:
        return None
    made = made_by(s.body, s.body.results[position])
    if not isinstance(made, Apply):
        return None
    how = COMBINED.get(made.primitive)
    if how is None and made.out.type.dtype.kind == "b":
        how = _OF_TRUTHS.get(made.primitive)
    return PutTogether(position, how) if how else None


def counts(s: For) -> int | None:
    """How many rounds a loop has, where it is known."""
    ends = (s.start, s.stop, s.step)
    return None if any(isinstance(a, Var) for a in ends) else len(range(*ends))
