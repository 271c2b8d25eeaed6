"""Parallel scans: loops with running sums, whose iterations a row's threads share.

Before::

    for i in range(n):
        total += x[i] * x[i]
        out[i] = total

After, in tiles of as many iterations as there are threads; all threads compute the running sum::

    for (Index tile = 0; tile < n; tile += blockDim.x) {
        Index i = tile + threadIdx.x;
        double total_term = 0.0;
        if (i < n)
            total_term = x[i] * x[i];
        total = row_running_sum(total, total_term);
        if (i < n)
            out[i] = total;
        total = row_last(total);
    }
"""

from __future__ import annotations

from typing import Any

import gast

from calque.transpiler.codegen.cuda.c_lines import bounds_of, raw
from calque.transpiler.codegen.cuda.c_types import c_number, c_type
from calque.transpiler.codegen.cuda.device_functions import suffix
from calque.transpiler.codegen.cuda.grid import IDENTITY
from calque.transpiler.codegen.cuda.kernel_scope import KernelScope
from calque.transpiler.codegen.text.spelling import call, name, target
from calque.transpiler.ir.core import For
from calque.transpiler.loops.loop_reductions import Scanned


def scan_by_row(scope: KernelScope, s: For, loop: Any) -> None:
    """Rewrite a loop's body for threads that compute its running sums together, in place."""
    _, stop, step = bounds_of(loop)
    compared = gast.Lt() if step is None else gast.Gt()
    inside = gast.Compare(name(loop.target.id), [compared], [stop])
    made: list[Any] = []
    after: list[Any] = []
    now: list[Any] = []
    for line in loop.body:
        found = getattr(line, "scanned", None)
        if found is None:
            now.append(line)
            continue
        made += _step(scope, s, found, now, inside)
        after.append(_last(scope, s, found))
        now = []
    made += [gast.If(inside, now, [])] if now else []
    loop.body = [*made, *after]


def _step(scope: KernelScope, s: For, found: Scanned, before: list[Any], inside: Any) -> list[Any]:
    """The lines for a thread's term and the running sum up to it."""
    names, phi = scope.writer.expressions.names, s.phis[found.position]
    own, so_far = names(found.made.out), names(phi)
    term = scope.new_number(f"{own}_term", c_type(phi.type.dtype))
    value = scope.writer.expressions.atom(found.term)
    value = gast.UnaryOp(gast.USub(), value) if found.minus else value
    nothing: Any = name(so_far)  # the identity of a maximum with the value so far
    if found.how in IDENTITY:
        nothing = raw(c_number(IDENTITY[found.how], phi.type.dtype))
    function = f"row_running_{found.how}{suffix(phi.type.dtype)}"
    return [
        gast.Assign([target(name(term))], nothing, None),
        gast.If(inside, [*before, gast.Assign([target(name(term))], value, None)], []),
        gast.Assign([target(name(own))], call(name(function), name(so_far), name(term)), None),
    ]


def _last(scope: KernelScope, s: For, found: Scanned) -> Any:
    """The line that sets the initial value of the next tile."""
    names, phi = scope.writer.expressions.names, s.phis[found.position]
    value = call(name(f"row_last{suffix(phi.type.dtype)}"), name(names(found.made.out)))
    return gast.Assign([target(name(names(phi)))], value, None)
