"""Interchange of loops in the lines of a kernel, before they are printed as C."""

from __future__ import annotations

from typing import Any

from calque.transpiler.codegen.cuda.grid import Grid, has_loops, rows_at_once


def turn(line: Any, grid: Grid) -> None:
    """Put the column loop outside a thread's row (or plane) loop, in place.

    Code that depends on the column only then runs once, and rows are loaded several at once.
    """
    nest = [line]
    while len(nest) < len(grid.loops) and len(nest[-1].body) == 1:
        (inner,) = nest[-1].body
        if not hasattr(inner, "spread"):  # no loop, or one that each thread runs entirely
            return
        nest.append(inner)
    if len(nest) < len(grid.loops) or any(map(has_loops, grid.loops[-1].body.statements)):
        return
    heads = [(t.target, t.iter, t.spread) for t in nest]
    for t, (counter, span, spread) in zip(nest, reversed(heads), strict=True):
        t.target, t.iter, t.spread = counter, span, spread
    nest[-1].at_once = rows_at_once(grid)
