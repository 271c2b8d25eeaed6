"""Rows in shared memory: what several loops of a row's threads read comes from memory once.

Before::

    for (Index j = threadIdx.x; j < m; j += blockDim.x)
        largest = maximumf(largest, x[i * m + j]);
    ...
    for (Index j = threadIdx.x; j < m; j += blockDim.x)
        out[i * m + j] = expf(x[i * m + j] - largest) / total;

After, where the launch sets how many columns a block holds, by the length of a row::

    extern __shared__ char row_memory[];
    float* x_row = (float*)(row_memory + threadIdx.y * held * 4);
    for (Index j = threadIdx.x; j < m; j += blockDim.x) {
        if (j < held)
            x_row[j] = x[i * m + j];
        largest = maximumf(largest, x[i * m + j]);
    }
    ...
    for (Index j = threadIdx.x; j < m; j += blockDim.x)
        out[i * m + j] = expf((j < held ? x_row[j] : x[i * m + j]) - largest) / total;

Each thread reads only the columns that it has stored itself, so that no barrier is needed.
"""

from __future__ import annotations

import copy
from typing import Any

import gast

from calque.transpiler.codegen.cuda.c_lines import raw
from calque.transpiler.codegen.cuda.c_types import c_type
from calque.transpiler.codegen.cuda.grid import Grid
from calque.transpiler.codegen.cuda.kernel_scope import KernelScope
from calque.transpiler.codegen.text.spelling import name, target
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, Kernel, Slot, Var
from calque.transpiler.ir.effects import is_size
from calque.transpiler.loops.loop_reductions import is_scan
from calque.transpiler.primitives.indexing import getitem

MEMORY, HELD = "row_memory", "held"


class HeldRows:
    """The arrays of a kernel whose rows a block keeps; ``bytes`` are those of one column."""

    def __init__(self, kernel: Kernel, grid: Grid, scope: KernelScope):
        self._scope = scope
        self._loops: dict[int, dict[str, bool]] = {}  # by array: True where the loop fills the row
        self.arrays: dict[str, Var] = {}
        for own, loops in self._found(grid).items():
            self.arrays[own] = scope.arrays[own]
            for k, s in enumerate(loops):
                self._loops.setdefault(id(s), {})[own] = k == 0
        order = sorted(self.arrays, key=lambda n: -self.arrays[n].type.dtype.itemsize)
        self.arrays = {n: self.arrays[n] for n in order}  # the widest first, for their alignment
        self.bytes = sum(v.type.dtype.itemsize for v in self.arrays.values())
        grid.held = self.bytes
        scope.declarations += self._declarations()

    def _found(self, grid: Grid) -> dict[str, list[For]]:
        """The loops that read an element of a row in each iteration, by array; two at least."""
        if grid.form != "rows" or grid.columns is None:
            return {}
        read: dict[str, list[tuple[For, tuple[Atom, ...]]]] = {}
        unfit = set(self._scope.stored)
        for s in grid.loops[-1].body.statements:
            if not isinstance(s, For) or id(s) not in grid.lanes or not self._is_like(s, grid):
                continue
            for t in core.walk(s.body):
                if isinstance(t, Apply) and t.primitive is getitem:
                    own = self._scope.names_of(self._scope.given(t.args[0]))
                    place = _row_of(t, s)
                    if place is None or t.args[0].type.dtype.kind == "c":
                        unfit.add(own)
                    elif not any(loop is s and at == place for loop, at in read.get(own, [])):
                        read.setdefault(own, []).append((s, place))
        return {
            own: [s for s, _ in found]
            for own, found in read.items()
            if own not in unfit and len(found) > 1 and self._is_one_row(own, found)
        }

    def _is_like(self, s: For, grid: Grid) -> bool:
        """True if a loop goes over the same columns as the first loop that the threads share."""
        assert grid.columns is not None
        first = grid.columns
        ends = zip((s.start, s.stop), (first.start, first.stop), strict=True)
        return not is_scan(s) and s.step == first.step == 1 and all(self._is_same(*e) for e in ends)

    def _is_same(self, one: Atom, two: Atom) -> bool:
        """True if two bounds are the same number."""
        if not isinstance(one, Var) or not isinstance(two, Var):
            return not isinstance(one, Var) and not isinstance(two, Var) and one == two
        known = self._size_of(one), self._size_of(two)
        return one is two or (known[0] is not None and known[0] == known[1])

    def _size_of(self, bound: Var) -> Any:
        """The size that a number is, over the sizes of arguments; None if it is no size."""
        program, named = self._scope.writer.program, self._scope.named
        made = program.definition.get(bound)
        if isinstance(made, Apply) and is_size(made):
            axis = made.params.get("axis")
            dims = made.args[0].type.dims
            return named.resolved(dims[axis]) if axis is not None else None
        return named.resolved(program.dim_values[bound]) if bound in program.dim_values else None

    def _is_one_row(self, own: str, found: list[tuple[For, tuple[Atom, ...]]]) -> bool:
        """True if loops read the same row, the first of them in each iteration."""
        first, place = found[0]
        loops = {id(s) for s, _ in found}
        checked = any(check.out in place for check in self._scope.checks)
        inside = core.defined_vars(first.body)
        always = any(
            isinstance(t, Apply)
            and t.primitive is getitem
            and self._scope.names_of(self._scope.given(t.args[0])) == own
            for t in first.body.statements
        )
        alone = len(loops) == len(found) and not checked
        return always and alone and all(at == place for _, at in found) and not inside & {*place}

    # the text

    def row(self, own: str) -> str:
        """The name of an array's row."""
        return f"{own}_row"

    def mark(self, s: For, line: Any) -> None:
        """Let a loop's lines read, or fill, the rows that it shares with other loops, in place."""
        kept = self._loops.get(id(s))
        if not kept:
            return
        counter = line.target.id
        fills: dict[str, Any] = {}
        for node in [n for t in line.body for n in gast.walk(t) if isinstance(n, gast.Subscript)]:
            own = self._array_of(node)
            items = node.slice.elts if isinstance(node.slice, gast.Tuple) else [node.slice]
            if own not in kept or not isinstance(items[-1], gast.Name) or items[-1].id != counter:
                continue
            if kept[own]:
                fills.setdefault(own, copy.copy(node))
            else:
                node.held = f"{counter} < {HELD} ? {self.row(own)}[{counter}] : "
        begun: list[Any] = []
        for own, node in fills.items():
            store = gast.Assign([target(name(f"{self.row(own)}[{counter}]"))], node, None)
            begun.append(gast.If(raw(f"{counter} < {HELD}", 8), [store], []))
        line.body = [*begun, *line.body]

    def _array_of(self, node: Any) -> str:
        shown = getattr(node.value, "shows", None)
        if shown is None or not shown.type.ndim:
            return ""
        return self._scope.names_of(self._scope.given(shown))

    def _declarations(self) -> list[str]:
        """The lines of C that declare the rows."""
        if not self.arrays:
            return []
        made = [f"extern __shared__ char {MEMORY}[];  // {HELD} columns of each row"]
        before = ""
        for own, var in self.arrays.items():
            kind = c_type(var.type.dtype)
            begin = before or f"{MEMORY} + threadIdx.y * {HELD} * {self.bytes}"
            made.append(f"{kind}* {self.row(own)} = ({kind}*)({begin});")
            before = f"{self.row(own)} + {HELD}"
        return made


def _row_of(read: Apply, s: For) -> tuple[Atom, ...] | None:
    """The indices before the last one, which is the loop's counter; None of other elements."""
    items = read.params["index"]
    if not all(isinstance(i, Slot) for i in items) or len(items) != read.args[0].type.ndim:
        return None
    places = [read.args[1 + i.position] for i in items]
    return tuple(places[:-1]) if places[-1] is s.index else None
