"""Mark the loops that a grid of GPU threads may share: independent, reductions and scans.

Before::

    for i in range(n):
        out[i] = f(x[i])
        total = total + x[i]

After: the loop is ``parallel``; each thread reduces its own iterations, and then the threads
combine their results. Loops at every depth are marked, since a grid has threads for inner loops,
too. With ``out[i] = total`` in its body, the loop is a scan, which the threads of a row or a block
share.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Block, For, Statement
from calque.transpiler.ir.verdicts import SCAN, Verdict
from calque.transpiler.loops.chosen_cells import added_arrays, write_as_additions
from calque.transpiler.loops.loop_reductions import reduction_at, scan_at, scans
from calque.transpiler.loops.parallelize import of_arrays, upward


def map_to_threads(
    function: core.Function, builder: Builder, deterministic: bool = False
) -> None:
    """Mark loops that threads may share, in place; ``deterministic``: without atomic additions."""
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
            elif continues(s, builder):
                s.verdict = Verdict(
                    SCAN, "{0} continues what the iteration before made", (s.origin,)
                )
        made.append(s)
    block.statements[:] = made


def continues(s: For, builder: Builder) -> bool:
    """True if a loop is a scan: its iterations depend on each other only by running sums."""
    if s.step not in (1, -1) or s.index not in builder.dim_values or not scans(s):
        return False
    numbers = [k for k, phi in enumerate(s.phis) if not phi.type.ndim]
    if any(reduction_at(s, k) is None and scan_at(s, k) is None for k in numbers):
        return False
    return of_arrays(s, builder).parallel


def is_shared(s: For, builder: Builder, deterministic: bool = False) -> bool:
    """True if a loop is independent, except for reductions and additions to elements.

    ``deterministic``: without such additions, which would be atomic, in any order.
    """
    numbers = [k for k, phi in enumerate(s.phis) if not phi.type.ndim]
    if s.step not in (1, -1) or s.index not in builder.dim_values or not s.phis:
        return False
    if any(reduction_at(s, k) is None for k in numbers):
        return False
    added = set() if deterministic else added_arrays(s, builder)
    return of_arrays(s, builder, added).parallel
