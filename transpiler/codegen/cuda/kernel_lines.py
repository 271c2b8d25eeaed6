"""Lines of a kernel, before they are C: nests are turned around, and the launcher's leave."""

from __future__ import annotations

from typing import Any

import gast

from calque.transpiler.codegen.cuda.grid import Grid, has_loops, rows_at_once


def turn(line: Any, grid: Grid) -> None:
    """Columns outside, and within them the rows (or planes) of a thread: it has several, with what
    the column alone decides made once, and loads of four rows at once.
    """
    nest = [line]
    while len(nest) < len(grid.loops) and len(nest[-1].body) == 1:
        (inner,) = nest[-1].body
        if not hasattr(inner, "spread"):  # no loop, or one that each thread runs whole
            return
        nest.append(inner)
    if len(nest) < len(grid.loops) or any(map(has_loops, grid.loops[-1].body.statements)):
        return
    heads = [(t.target, t.iter, t.spread) for t in nest]
    for t, (counter, span, spread) in zip(nest, reversed(heads), strict=True):
        t.target, t.iter, t.spread = counter, span, spread
    nest[-1].at_once = rows_at_once(grid)


def without_renaming(lines: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """A kernel's lines; those that give an array another name are the launcher's, around it."""
    loops = (gast.For, gast.While)
    loop = next((k for k, line in enumerate(lines) if isinstance(line, loops)), len(lines))
    ahead = [t for t in lines[:loop] if _renames(t)]
    behind = [t for t in lines[loop:] if _renames(t)]
    return ahead, [t for t in lines if not _renames(t)], behind


def named_twice(ahead: list[Any], lines: list[Any]) -> dict[str, str]:
    """Second names of arrays that a kernel has by both: no two of its parameters are one memory."""
    used = {t.id for line in lines for t in gast.walk(line) if isinstance(t, gast.Name)}
    found: dict[str, str] = {}
    for line in ahead:
        new, old = line.targets[0].id, found.get(line.value.id, line.value.id)
        if old in used:
            found[new] = old
    return found


def _renames(line: Any) -> bool:
    match line:
        case gast.Assign(targets=[gast.Name() as place], value=gast.Name()):
            shown = getattr(place, "shows", None)
            return shown is not None and shown.type.ndim > 0
    return False
