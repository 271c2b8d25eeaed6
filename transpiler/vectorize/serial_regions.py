"""Statements that must run for one example after the other, as one of them cannot be stacked.

``y = x[mask]`` has another length for every example, so all statements that read ``y`` join it, up
to one whose result has a shape that is known beforehand: ``np.sum(y)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Block, Statement, Var

Parts = tuple[list[Statement], list[Statement], list[Statement]]


def split_around(statements: Sequence[Statement], fits: Callable[[Var], bool]) -> Parts:
    """The statements before, in, and after the region that the first of them begins.

    ``fits`` says whether a value's shape is known beforehand. What the region needs of the
    statements between is moved before it, or joins it where it depends on it or has no such shape.
    """
    reads = [set(core.free_vars(Block([s]))) for s in statements]
    loose = [{o for o in s.outs if not fits(o)} for s in statements]
    region = {0}
    while True:
        loose_outs = {o for k in region for o in loose[k]}
        grown = region | {k for k, r in enumerate(reads) if r & loose_outs}
        before = _needed_by(grown, statements, reads)
        depending = _depending_on(grown, statements, reads)
        grown |= {k for k in before if k in depending or loose[k]}
        if grown == region:
            break
        region = grown
    after = set(range(len(statements))) - before - region
    first, together, rest = ([statements[k] for k in sorted(p)] for p in (before, region, after))
    return first, together, rest


def _needed_by(
    region: set[int], statements: Sequence[Statement], reads: Sequence[set[Var]]
) -> set[int]:
    """The other statements that the region's values are computed from."""
    needed = {v for k in region for v in reads[k]}
    found: set[int] = set()
    for k in reversed(range(len(statements))):
        if k not in region and needed.intersection(statements[k].outs):
            found.add(k)
            needed |= reads[k]
    return found


def _depending_on(
    region: set[int], statements: Sequence[Statement], reads: Sequence[set[Var]]
) -> set[int]:
    """The other statements that read, directly or not, what the region computes."""
    outs = {o for k in region for o in statements[k].outs}
    found: set[int] = set()
    for k, s in enumerate(statements):
        if k not in region and reads[k] & outs:
            found.add(k)
            outs |= set(s.outs)
    return found
