"""Totals whose dtype changes: the launch that adds the parts of all blocks stores the new one.

Before::

    sum_of_parts_float64(1, 256, total_of_blocks, total, total_of_blocks.size)
    loss_kernel_2(1, 1, total, total_cast)

After::

    sum_of_parts_float64_to_float32(1, 256, total_of_blocks, total_cast, total_of_blocks.size)
"""

from __future__ import annotations

from calque.transpiler.codegen.cuda.grid import grid_of
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, Kernel, Var
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.primitives.elementwise import astype


def cast_totals(body: Block, folded: set[Var]) -> dict[Var, Var]:
    """The totals of which only another dtype is read, and what is read."""
    kernels = [s for s in core.walk(body) if isinstance(s, Kernel)]
    found = {}
    for s in kernels:
        cast = s.body.statements[0] if len(s.body.statements) == 1 else None
        if not isinstance(cast, Apply) or cast.primitive is not astype or s.outs != cast.outs:
            continue
        total = cast.args[0]
        if not isinstance(total, Var) or folded & {total, cast.out}:
            continue
        if total.type.dtype.kind + cast.out.type.dtype.kind != "ff":
            continue
        made = next((k for k in kernels if total in k.outs), None)
        if made is None or not _is_total(total, made):
            continue
        if count_uses(body, total) == count_uses(Block([made, s]), total):
            found[total] = cast.out
    return found


def _is_total(total: Var, kernel: Kernel) -> bool:
    """True if all threads of a kernel add to a number."""
    loop = kernel.body.statements[-1]
    totals = grid_of(kernel).totals
    return isinstance(loop, For) and any(loop.outs[r.position] is total for r in totals)
