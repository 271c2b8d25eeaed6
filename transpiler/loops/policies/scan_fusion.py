"""Fuse a scan with the elementwise loop that reads its results.

Before, for a grid, where the first loop is a scan::

    for i in range(n):
        total = total + x[i]
        sums[i] = total
    for i in range(n):
        out[i] = 0.5 * sums[i]

After::

    for i in range(n):
        total = total + x[i]
        sums[i] = total
        out[i] = 0.5 * total

``forward_terms`` then removes arrays that are no longer read.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Var
from calque.transpiler.ir.effects import has_effects
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.loops.loop_reductions import is_scan
from calque.transpiler.loops.schedule.body_fusion import crossing_iterations, join


def fuse_scans(function: Function, builder: Builder) -> None:
    """Fuse scans with the loops after them, in place."""
    with builder.active():
        _within(function.body, builder)


def _within(block: Block, builder: Builder) -> None:
    for s in block.statements:
        for inner in core.blocks_of(s):
            _within(inner, builder)
    while _fuse_one(block, builder):
        pass


def _fuse_one(block: Block, builder: Builder) -> bool:
    """Fuse one pair of loops; return False if there is none."""
    for k, first in enumerate(block.statements):
        if not isinstance(first, For) or not is_scan(first):
            continue
        for j in range(k + 1, len(block.statements)):
            second, between = block.statements[j], block.statements[k + 1 : j]
            if isinstance(second, For):
                refused = _unlike(second, first, builder)
                refused = refused or crossing_iterations(first, second, between)
                if refused is None:
                    applied(builder, "fuse_scans", first)
                    join(first, second, builder)
                    block.statements[k : j + 1] = [*between, first]
                    return True
                missed(builder, "fuse_scans", first, refused)
            read = {a for a in core.operands(second) if isinstance(a, Var)}
            if not isinstance(second, Apply) or has_effects(second) or read & {*first.outs}:
                break
    return False


def _unlike(second: For, first: For, builder: Builder) -> Refused | None:
    """The reason if ``second`` has reductions, dependent iterations, or other bounds."""
    there = (second.origin,)
    ends = [(s.start, builder.dim_of(wrap(s.stop)), s.step) for s in (first, second)]
    if not second.parallel or any(not phi.type.ndim for phi in second.phis):
        return Refused("the iterations of {0} depend on each other, or sum", there)
    if ends[0] != ends[1] or first.step != 1:
        return Refused("{0} goes over other elements", there)
    return None
