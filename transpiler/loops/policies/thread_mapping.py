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
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.verdicts import SCAN, Verdict
from calque.transpiler.loops.carried_dependences import of_number
from calque.transpiler.loops.chosen_cells import added_arrays, write_as_additions
from calque.transpiler.loops.chosen_extrema import write_as_extrema
from calque.transpiler.loops.loop_reductions import reduction_at, scan_at, scans
from calque.transpiler.loops.parallelize import of_arrays, upward


def map_to_threads(
    function: core.Function, builder: Builder, deterministic: bool = False
) -> None:
    """Mark loops that threads may share, in place; ``deterministic``: without atomic additions."""
    with builder.active():
        write_as_additions(function.body)
        write_as_extrema(function.body)
        _mark(function.body, builder, deterministic)


def _mark(block: Block, builder: Builder, deterministic: bool) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _mark(inner, builder, deterministic)
        if isinstance(s, For):
            refused = _in_order(s, builder, deterministic)
            s.parallel = refused is None
            if refused is None:
                made += upward(s, builder)
            elif continues(s, builder):
                words = "{0} continues what the iteration before made"
                s.verdict, refused = Verdict(SCAN, words, (s.origin,)), None
            if refused is None:
                applied(builder, "map_to_threads", s)
            else:
                missed(builder, "map_to_threads", s, refused)
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


def _in_order(s: For, builder: Builder, deterministic: bool) -> Refused | None:
    """The reason unless a loop is independent, reductions and additions to elements aside.

    ``deterministic``: without such additions, which would be atomic, in any order.
    """
    if s.step not in (1, -1):
        return Refused("it does not count by one", (s.origin,))
    if s.index not in builder.dim_values or not s.phis:
        return Refused("the results of its iterations are not known")
    numbers = [k for k, phi in enumerate(s.phis) if not phi.type.ndim]
    verdicts = [of_number(s, k) for k in numbers if reduction_at(s, k) is None]
    if not verdicts:
        added = set() if deterministic else added_arrays(s, builder)
        verdicts = [of_arrays(s, builder, added)]
    found = verdicts[0]
    return None if found.parallel else Refused(found.words, found.statements)
