"""Reductions across threads: over the threads of a row, and over all blocks.

Before::

    for i in range(n):
        total += x[i]

After, where the threads of a row share the loop, and where all threads of the grid do::

    for (Index i = threadIdx.x; i < n; i += blockDim.x)
        total += x[i];
    total = row_sum(total);

    total = block_sum(total);
    if (threadIdx.x == 0)
        total_of_blocks[blockIdx.x] = total;
"""

from __future__ import annotations

from typing import Any

import gast

from calque.transpiler.codegen.cuda.c_lines import raw
from calque.transpiler.codegen.cuda.c_types import c_number, c_type
from calque.transpiler.codegen.cuda.device_functions import suffix
from calque.transpiler.codegen.cuda.grid import IDENTITY, Grid
from calque.transpiler.codegen.cuda.kernel_scope import KernelScope, statement
from calque.transpiler.codegen.text.spelling import call, name, target
from calque.transpiler.ir.core import Apply, For, Var
from calque.transpiler.loops.loop_reductions import LoopReduction, reductions


def by_one_thread(grid: Grid, s: Apply, trees: list[Any]) -> list[Any]:
    """The operands of ``s``; a term beside a loop that a row shares is added by one thread only."""
    if id(s) not in grid.terms:
        return trees
    k, how = grid.terms[id(s)]
    nothing = raw(c_number(IDENTITY[how], s.out.type.dtype))
    own = gast.IfExp(raw("threadIdx.x == 0", 7), trees[k], nothing)
    return [own if j == k else tree for j, tree in enumerate(trees)]


def reduced_by_row(scope: KernelScope, s: For, lines: list[Any], at: int) -> list[Any]:
    """The lines of a loop that a row shares: initial values before it, row reductions after it."""
    names = scope.writer.expressions.names
    before: list[Any] = []
    after: list[Any] = []
    online = {r.relative_to: r for r in reductions(s)}
    for r in reductions(s):
        phi = s.phis[r.position]
        own = names(phi)
        if r.how == "rescaled":  # with its maximum
            continue
        if r.position in online:
            after += _rescaled_by_row(scope, phi, s.phis[online[r.position].position])
            continue
        before += _begun(own, s.inits[r.position], phi, r, "threadIdx.x == 0")
        function = f"row_{r.how}{suffix(phi.type.dtype)}"
        whole = call(name(function), name(own, phi))
        after.append(gast.Assign([target(name(own, phi))], whole, None))
    return [*lines[:at], *before, lines[at], *after, *lines[at + 1 :]]


def _rescaled_by_row(scope: KernelScope, phi: Var, sum_phi: Var) -> list[Any]:
    """The lines that reduce a maximum, and a sum of exponentials relative to each thread's."""
    names, letter = scope.writer.expressions.names, suffix(phi.type.dtype)
    own, total = names(phi), names(sum_phi)
    whole = scope.new_number(f"row_{own}", c_type(phi.type.dtype))
    relative = call(name(f"rescaled{letter}"), name(total), name(own), name(whole))
    return [
        gast.Assign([target(name(whole))], call(name(f"row_max{letter}"), name(own)), None),
        gast.Assign([target(name(total))], call(name("row_sum"), relative), None),
        gast.Assign([target(name(own))], name(whole), None),
    ]


def _begun(own: str, init: Any, phi: Var, r: LoopReduction, first: str) -> list[Any]:
    """Initialize the accumulator to the identity on every thread but the first."""
    if r.how not in IDENTITY or (not isinstance(init, Var) and init == IDENTITY[r.how]):
        return []
    nothing = raw(c_number(IDENTITY[r.how], phi.type.dtype))
    value = gast.IfExp(raw(first, 7), name(own, phi), nothing)
    return [gast.Assign([target(name(own, phi))], value, None)]


def reduced_by_all(scope: KernelScope, s: For, lines: list[Any], at: int) -> list[Any]:
    """The lines of a loop, with the reduction of all iterations to one part for each block."""
    grid, names = scope.grid, scope.writer.expressions.names
    before: list[Any] = []
    after: list[Any] = []
    thread = "blockIdx.x == 0 && threadIdx.x == 0"
    thread += " && threadIdx.y == 0" if grid.form in ("rows", "sums") else ""
    for r in grid.totals:
        phi, out = s.phis[r.position], s.outs[r.position]
        own = names(phi)
        before += _begun(own, s.inits[r.position], phi, r, thread)
        value: Any = name(own, phi)
        if grid.form == "rows" and r.how in IDENTITY:  # all threads of a row have the same value
            nothing = raw(c_number(IDENTITY[r.how], phi.type.dtype))
            value = gast.IfExp(raw("threadIdx.x == 0", 7), value, nothing)
        function = f"block_{r.how}{suffix(phi.type.dtype)}"
        after.append(gast.Assign([target(name(own, phi))], call(name(function), value), None))
        place = f"{names(out)}_of_blocks[blockIdx.x] = {own};"
        first = "threadIdx.x == 0" + (" && threadIdx.y == 0" if grid.form != "elements" else "")
        after.append(gast.If(raw(first, 3), [statement(place)], []))
    return [*lines[:at], *before, lines[at], *after]
