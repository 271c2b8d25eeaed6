"""Thread mapping: the iterations of a kernel's loops that each CUDA thread runs.

A kernel is one loop with its body. Its forms::

    elements   a thread for each iteration of one loop or of two or three nested ones, with columns
               along threadIdx.x
    rows       a warp for each iteration, or a block if rows are long (the launcher decides); its
               threads share the iterations of the inner loops, along memory
    scan       a block, whose threads share iterations that continue sums of earlier ones
    serial     one thread, for iterations with other dependences

In each form, reductions over iterations (a sum, a maximum) are combined across a block's threads at
the end, and the blocks' parts by a second launch: in the same order on every GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import stored_by
from calque.transpiler.loops.loop_reductions import (
    LoopReduction,
    along_memory,
    counts,
    is_scan,
    reductions,
)
from calque.transpiler.primitives import random
from calque.transpiler.primitives.elementwise import divide
from calque.transpiler.primitives.indexing import getitem, update_add

_FEW_ITERATIONS = 32  # iterations of an inner loop that a single thread may run
_MUCH = 40  # operations
IDENTITY = {"sum": 0, "product": 1}
_DRAWN = {*random.AT_PLACE.values(), random.word}
FLAT = ("blockIdx.x * 256 + threadIdx.x", "gridDim.x * 256")
COLUMNS = ("blockIdx.x * 32 + threadIdx.x", "gridDim.x * 32")
TILE_ROWS = ("blockIdx.y * 8 + threadIdx.y", "gridDim.y * 8")
PLANES = ("blockIdx.z", "gridDim.z")
ROWS = ("blockIdx.x * blockDim.y + threadIdx.y", "gridDim.x * blockDim.y")
ALONG = ("threadIdx.x", "blockDim.x")


@dataclass
class Grid:
    """A kernel's thread mapping: ``spread`` maps loops, by id, to the iterations of a thread.

    ``loops`` are shared by the grid's blocks, outer first. ``lanes`` are loops that a row's threads
    share, ``columns`` the first of them, and ``alike`` the blocks of statements around them, by id,
    which all threads of a row execute. ``totals`` are reductions over all threads. ``terms`` are
    additions, by id, beside a loop that a row's threads share: the operand that only one of these
    threads adds, and the kind of reduction. ``held`` are the bytes of a column of the rows that a
    block keeps in shared memory; ``scans``: the threads of a row share a scan, one cannot run it.
    """

    form: str
    loops: list[For] = field(default_factory=list)
    spread: dict[int, tuple[str, str]] = field(default_factory=dict)
    lanes: set[int] = field(default_factory=set)
    alike: set[int] = field(default_factory=set)
    columns: For | None = None
    totals: list[LoopReduction] = field(default_factory=list)
    terms: dict[int, tuple[int, str]] = field(default_factory=dict)
    held: int = 0
    scans: bool = False


def grid_of(kernel: Kernel) -> Grid:
    """The thread mapping of a kernel, from its loops."""
    loop = kernel.body.statements[-1]
    if (
        isinstance(loop, For)
        and is_scan(loop)
        and (counts(loop) or _FEW_ITERATIONS) >= _FEW_ITERATIONS
    ):
        return Grid("scan", lanes={id(loop)}, columns=loop)
    if not isinstance(loop, For) or not loop.parallel:
        return Grid("serial")
    nest = _nest(kernel)
    totals = reductions(loop)
    last = nest[-1]
    inner = [s for s in last.body.statements if isinstance(s, For) and _is_shared(s)]
    inner = [s for s in inner if (counts(s) or _FEW_ITERATIONS) >= _FEW_ITERATIONS]
    outer = 1 if totals else 2  # blocks of planes have no partial results
    if len(nest) <= outer and inner and along_memory(inner, last):
        return _rows(nest, totals)
    if totals and len(nest) > 1:
        spread = {id(nest[0]): ROWS, id(nest[-1]): ALONG}
        terms = {place: term for s in nest[:-1] for place, term in _terms_beside(s)}
        return Grid("sums", nest[:1], spread, totals=totals, columns=nest[-1], terms=terms)
    return _flat(nest, totals)


def _nest(kernel: Kernel) -> list[For]:
    """The nested loops whose iterations are worth a thread each."""
    found = list(kernel.space)
    while len(found) > 1 and (counts(found[-1]) or _FEW_ITERATIONS) < _FEW_ITERATIONS:
        found.pop()
    for k, s in enumerate(found[:-1]):
        if stored_by(s.body.statements[:-1]):
            return found[: k + 1]  # each iteration's store must run once
        if any(phi.type.ndim == 0 for phi in found[k + 1].phis) != any(
            phi.type.ndim == 0 for phi in s.phis
        ):
            return found[: k + 1]
        ends = (found[k + 1].start, found[k + 1].stop)
        if any(isinstance(a, Var) and a in core.defined_vars(Block([s])) for a in ends):
            return found[: k + 1]  # a triangle
    return found


def _terms_beside(s: For) -> Iterator[tuple[int, tuple[int, str]]]:
    """The terms that an iteration adds to the loop's sums, or products, beside its inner loop.

    All threads that share the inner loop execute the addition; a maximum may repeat a term.
    """
    for r in reductions(s):
        so_far = s.phis[r.position]
        for t in s.body.statements[:-1] if r.how in IDENTITY else ():
            if isinstance(t, Apply) and so_far in t.args:
                yield id(t), (1 - t.args.index(so_far), r.how)
                so_far = t.out


def _flat(nest: list[For], totals: list[LoopReduction]) -> Grid:
    """The form ``elements``: threads along the innermost loop, then rows, then planes."""
    if len(nest) == 1:
        return Grid("elements", nest, {id(nest[0]): FLAT}, totals=totals)
    spread = {id(nest[-1]): COLUMNS, id(nest[-2]): TILE_ROWS}
    shared = nest[-2:]
    if len(nest) > 2:
        spread[id(nest[0])] = PLANES
        shared = [nest[0], *shared]
    return Grid("elements", shared, spread, totals=totals)


def _rows(nest: list[For], totals: list[LoopReduction]) -> Grid:
    """The form ``rows``: a warp or a block for each row, whose threads share its loops."""
    spread = {id(nest[-1]): ROWS}
    if len(nest) == 2:
        spread[id(nest[0])] = PLANES
    made = Grid("rows", nest, spread, totals=totals)
    _share(nest[-1].body, made)
    return made


def _share(block: Block, grid: Grid) -> None:
    """Let a row's threads share the loops of a block that they all execute."""
    grid.alike.add(id(block))
    for s in block.statements:
        many = isinstance(s, For) and (counts(s) or _FEW_ITERATIONS) >= _FEW_ITERATIONS
        if isinstance(s, For) and _is_shared(s) and (many or stored_by([s])):
            grid.spread[id(s)] = ALONG
            grid.lanes.add(id(s))
            grid.scans |= is_scan(s)
            grid.columns = grid.columns or s
        else:
            for inner in core.blocks_of(s):
                _share(inner, grid)


def _is_shared(s: For) -> bool:
    """True if a row's threads may share a loop."""
    return s.parallel or is_scan(s)


def read_in(statements: list[Statement]) -> set[Var]:
    """The versions of arrays whose elements statements read."""
    return {
        s.args[0]
        for s in core.walk(Block(statements))
        if isinstance(s, Apply) and s.primitive in (getitem, update_add)
    }


def at_once(s: For, grid: Grid) -> int:
    """The number of iterations to unroll, so that a thread loads their operands ahead.

    More than 1 only for long loops with small bodies, as loaded operands take registers.
    """
    over = grid.spread.get(id(s))
    long = over in (FLAT, ALONG) or (over is None and counts(s) is None and bool(reductions(s)))
    return _worth_loading(s) if long and grid.form != "serial" else 1


def rows_at_once(grid: Grid) -> int:
    """The number of rows of a tile to unroll; 1 for planes, whose neighbours are in the cache."""
    return _worth_loading(grid.loops[-1]) if len(grid.loops) == 2 else 1


def _worth_loading(s: For) -> int:
    inner = [t for t in core.walk(s.body) if isinstance(t, Apply)]
    if any(not isinstance(t, Apply) for t in s.body.statements):
        return 1
    if len(inner) > _MUCH or any(map(_is_long, inner)):
        return 1
    read = [t.args[0].type.dtype.itemsize for t in inner if t.primitive is getitem]
    return 1 if not read else 4 if max(read) >= 4 else 8


def _is_long(s: Apply) -> bool:
    """True if an operation takes many instructions: random bits, or a quotient of float64."""
    quotient = s.primitive is divide and s.out.type.dtype == np.float64
    return quotient or s.primitive in _DRAWN


def has_loops(s: Statement) -> bool:
    """True if a statement is or holds a loop."""
    return isinstance(s, (For, While)) or (
        isinstance(s, If) and any(has_loops(t) for b in core.blocks_of(s) for t in b.statements)
    )
