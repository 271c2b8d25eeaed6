"""Kernels of Core as CUDA C, and the CuPy statements that launch them.

The launcher is the NumPy source with CuPy's arrays, in which each kernel is a launch::

    out = cp.empty(x.size)
    selu_kernel(blocks(x.size), 256, x, alpha, out, x.size)
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.cuda.c_lines import raw
from calque.transpiler.codegen.cuda.c_types import c_type
from calque.transpiler.codegen.cuda.cast_totals import cast_totals
from calque.transpiler.codegen.cuda.device_functions import suffix
from calque.transpiler.codegen.cuda.grid import Grid, at_once, grid_of, read_in
from calque.transpiler.codegen.cuda.held_rows import HeldRows
from calque.transpiler.codegen.cuda.integers import as_stored
from calque.transpiler.codegen.cuda.kernel_lines import turn
from calque.transpiler.codegen.cuda.kernel_scope import KernelScope, statement
from calque.transpiler.codegen.cuda.last_steps import LastStep, last_steps
from calque.transpiler.codegen.cuda.named_sizes import NamedSizes
from calque.transpiler.codegen.cuda.reduced_numbers import (
    by_one_thread,
    reduced_by_all,
    reduced_by_row,
)
from calque.transpiler.codegen.cuda.row_scans import scan_by_row
from calque.transpiler.codegen.formed_errors import on_host
from calque.transpiler.codegen.host_values import device_numbers
from calque.transpiler.codegen.kernel_forms import form
from calque.transpiler.codegen.launcher import BOTH, Launcher
from calque.transpiler.codegen.text.spelling import (
    attribute,
    call,
    constant,
    dtype_name,
    name,
    target,
)
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, For, Kernel, Statement, Var
from calque.transpiler.ir.effects import is_size, is_store, stored_by
from calque.transpiler.ir.phases import answers
from calque.transpiler.ir.types import Dim, dim_symbols
from calque.transpiler.loops.chosen_cells import is_chosen
from calque.transpiler.loops.loop_reductions import Scanned, is_scan, scans
from calque.transpiler.primitives.indexing import checked_index, getitem

_SINGLE = re.compile(r"\b(?:np\.)?float32\((-?[\d.]+(?:e-?\d+)?)\)")
_FEW = 256  # iterations that need no further block of threads


@dataclass
class CudaKernel:
    """A kernel's name and text; ``held`` are the bytes of a column that its blocks hold."""

    name: str
    text: list[str]
    held: int


class CudaLauncher(Launcher):
    """Writes the launcher; ``cuda_kernels`` are launched, ``used`` are the functions they call."""

    cuda_kernels: list[CudaKernel]

    def function_body(self) -> list[Any]:
        """The launcher's statements."""
        self.cuda_kernels, self.used = [], set[str]()
        self.combining: dict[str, tuple[str, str, tuple[np.dtype, np.dtype]]] = {}
        self._found: dict[Any, tuple[CudaKernel, KernelScope, tuple[Var, ...], list[str]]] = {}
        self._grid: Grid | None = None
        self._scanned: dict[int, Scanned] = {}
        self._checks = False
        return super().function_body()

    def finish(self, body: list[Any]) -> None:
        """Raise what earlier kernels found, before everything else."""
        super().finish(body)
        if self._checks:
            body.insert(0, gast.Expr(call(name("raise_if_outside"))))

    @cached_property
    def device(self) -> set[Var]:
        """The scalars that are in the GPU's memory."""
        return device_numbers(self.program)

    @cached_property
    def sizes(self) -> NamedSizes:
        """The arguments' sizes, by name."""
        params = self.program.function.params
        shapes: dict[str, set[Any]] = {}
        for var in self.program.vars:
            if var not in self.expressions.folding.folded and var not in self.expressions.paths:
                shapes.setdefault(self.expressions.names(var), set()).add(var.type.dims)
        own = {
            v
            for v in params
            if v in self.expressions.paths or len(shapes.get(self.expressions.names(v), ())) == 1
        }
        return NamedSizes(self.program.function, own)

    @cached_property
    def _last_steps(self) -> dict[int, LastStep]:
        """The loops whose last step fills the caller's array: by the memory, and by the copy."""
        found = last_steps(self.program, self.memory, self.device)
        return {id(s): step for step in found for s in (step.new, step.store)}

    @cached_property
    def _stored(self) -> int:
        """The set of memory that some statement stores into, as a bit mask."""
        found = 0
        for s in self.program.body.statements:
            found |= self.memory.writes(s)
        return found

    def _assigned(self, out: Var, s: Statement) -> Any:
        """Assign an element; copy it if its array is stored into, as CuPy returns a view."""
        made = super()._assigned(out, s)
        if self.expressions.inside or not isinstance(s, Apply) or s.primitive is not getitem:
            return made
        if not out.type.ndim and self.memory.at(s.args[0]) & self._stored:
            plain = out.type.weak  # a Python number already
            made.value = made.value if plain else call(attribute(made.value, "copy"))
        return made

    def _augmented(self, own: str, s: Apply, tree: Any) -> tuple[Any, Any, Atom] | None:
        """None for scalars on the device: CuPy would change them under all their names."""
        there = not self.expressions.inside and s.out in self.device
        return None if there else super()._augmented(own, s, tree)

    def _unplaced(self, s: Statement, depth: int) -> list[Any]:
        """Write an effect; its message shows scalars on the device as Python numbers."""
        if not isinstance(s, Effect) or self.device.isdisjoint(core.operands(s)):
            return super()._unplaced(s, depth)
        made = on_host(s, self.expressions.operands(s.args), self.device)
        return [self._fitting(made, s.args, depth, s)]

    # launches

    def _kernel(self, s: Kernel, depth: int) -> list[Any]:
        """A kernel's launch, with its allocations and the reduction of the blocks' parts."""
        if s.outs and s.outs[0] in self._casts.values():  # with the total that it casts
            return []
        grid = grid_of(s)
        scope = KernelScope(self, s, grid, self.device, self.sizes)
        made = self._written_kernel(s, grid, scope, self._lines_of(s, grid, scope))
        arrays = tuple(v for v in s.outs if v.type.ndim)
        return [*made, *self._moves(arrays, list(map(scope.given, arrays)), depth)]

    def _lines_of(self, s: Kernel, grid: Grid, scope: KernelScope) -> list[Any]:
        self._grid, self._scope, self._held = grid, scope, HeldRows(s, grid, scope)
        self.expressions.as_added = partial(by_one_thread, grid)
        try:
            return self._kernel_lines(s)
        finally:
            self._grid = None

    def _written_kernel(
        self, s: Kernel, grid: Grid, scope: KernelScope, lines: list[Any]
    ) -> list[Any]:
        text, values = form(s.body.statements, self.expressions.folding)
        places = {v: k for k, v in enumerate(values)}
        symbols: dict[str, int] = {}
        shapes = tuple(self._pattern(v, symbols) for v in values)
        kinds = tuple((scope.passed_as(v), self._size_told(v, symbols)) for v in values)
        given = tuple(places[v] for v in s.outs if v in places)
        key = text, given, shapes, scope.named_alike(values), kinds
        known = self._found.get(key)
        if known is None:
            title = f"{self.program.function.name.removesuffix('_jit')}_kernel"
            title += f"_{len(self._found) + 1}" if self._found else ""
            body = scope.text(lines)
            self.used |= scope.used
            kernel = CudaKernel(title, scope.definition(title, body), grid.held)
            self.cuda_kernels.append(kernel)
            known = self._found[key] = (kernel, scope, values, list(symbols))
        kernel, first, others, sizes = known
        here: dict[Any, Any] = dict(zip(others, values, strict=True))
        here |= dict(zip(sizes, symbols, strict=True))
        return self._launch(s, grid, kernel, first, here, scope.checks)

    def _pattern(self, var: Var, symbols: dict[str, int]) -> Any:
        """An array's sizes with numbered symbols: equal for arrays that can share a kernel."""
        made, given = [], self.sizes.places
        for dim in map(self.sizes.resolved, var.type.dims):
            terms = dim.terms if isinstance(dim, Dim) else ()
            const = dim.const if isinstance(dim, Dim) else dim
            own = [(symbols.setdefault(s, len(symbols)), c, s in given) for s, c in terms]
            made.append((const, *sorted(own)))
        return tuple(made)

    def _size_told(self, number: Var, symbols: dict[str, int]) -> Any:
        """A scalar as a sum of numbered symbols of array sizes; None if it is no such sum."""
        dim = self.program.dim_values.get(number)
        dim = None if dim is None else self.sizes.resolved(dim)
        if not isinstance(dim, Dim) or not dim_symbols(dim) <= symbols.keys():
            return None
        return dim.const, *sorted((symbols[s], c) for s, c in dim.terms)

    def _launch(
        self,
        s: Kernel,
        grid: Grid,
        kernel: CudaKernel,
        first: KernelScope,
        here: dict[Any, Any],
        checks: list[Apply],
    ) -> list[Any]:
        made: list[Any] = []
        given: list[Any] = []
        combined: list[Any] = []
        shape, threads = self._shape(grid)
        taken = [v for _, (what, v) in first.parameters if what in ("array", "number")]
        own_names = [here.get(v, v) for v in taken if v not in self.expressions.paths]
        before = {self.expressions.names(v) for v in own_names}
        for _, what in first.parameters:
            match what:
                case ("array", var):
                    given.append(self._array_given(here.get(var, var)))
                case ("number", var):
                    given.append(self._plain_given(here.get(var, var)))
                case ("size", str() as symbol):
                    given.append(self._size_tree(*self.sizes.places[here.get(symbol, symbol)]))
                case ("size", (var, axis)):
                    given.append(self._size_tree(here.get(var, var), axis))
                case ("held", _):
                    held = call(name("held_columns"), self._columns(grid), constant(grid.held))
                    given.append(held)
                case ("checks", _):
                    places = call(name("outside"), *map(_place_text, checks))
                    given.append(gast.Starred(places, gast.Load()))
                case ("out", var):
                    own = self.expressions.names(here.get(var, var))
                    cell = f"{own}_out" if own in before else own
                    made.append(self._new_number(cell, var.type.dtype))
                    given.append(name(cell))
                    if cell != own:  # the kernel reads the previous value
                        combined.append(gast.Assign([target(name(own))], name(cell), None))
                case ("parts", (var, how)):
                    out = here.get(var, var)
                    parts = f"{self.expressions.names(out)}_of_blocks"
                    made.append(self._parts(parts, shape, out.type.dtype))
                    total = self._casts.get(out, out)
                    cell = self.expressions.names(total)
                    combined.append(self._new_number(cell, total.type.dtype))
                    given.append(name(parts))
                    combined.append(self._combine(parts, out, how, total))
        shape_tree = shape if shape is not None else constant(1)
        launch = call(name(kernel.name), shape_tree, threads, *given)
        return [*made, gast.Expr(launch), *combined]

    def _parts(self, title: str, shape: Any, dtype: np.dtype) -> Any:
        size = call(name("parts_of"), shape, constant(dtype_name(dtype)))
        return gast.Assign([target(name(title))], size, None)

    def _combine(self, parts: str, out: Var, how: str, total: Var) -> Any:
        own, cast = (np.dtype(v.type.dtype) for v in (out, total))
        function = f"{how}_of_parts_{own.name}" + (f"_to_{cast.name}" if cast != own else "")
        self.combining.setdefault(function, (how, suffix(own), (own, cast)))
        cell = name(self.expressions.names(total))
        size = attribute(name(parts), "size")
        return gast.Expr(call(name(function), constant(1), constant(256), name(parts), cell, size))

    @cached_property
    def _casts(self) -> dict[Var, Var]:
        """The totals that the launch which adds them stores in another dtype."""
        return cast_totals(self.program.body, self.expressions.folding.folded)

    def _new_number(self, own: str, dtype: np.dtype) -> Any:
        empty = attribute(name("cp"), "empty")
        made = call(empty, gast.Tuple([], gast.Load()), constant(dtype_name(dtype)))
        return gast.Assign([target(name(own))], made, None)

    def _array_given(self, var: Var) -> Any:
        if var in self.expressions.paths:
            return self.expressions.paths[var][0]
        tree = name(self.expressions.names(var), var)
        return tree

    def _plain_given(self, var: Var) -> Any:
        return self.expressions.atom(var)

    def _size_tree(self, var: Var, axis: int | None) -> Any:
        tree = self._array_given(var)
        if axis is None or var.type.ndim == 1:
            return attribute(tree, "size")
        shape = attribute(tree, "shape")
        return gast.Subscript(shape, constant(axis), gast.Load())

    def _shape(self, grid: Grid) -> tuple[Any, Any]:
        """The expressions of a launch for the number of blocks and the threads of each."""
        ends = [self._trip_count(loop) for loop in grid.loops]
        if grid.form == "serial":
            return None, constant(1)
        if grid.form == "scan":
            return None, constant(256)
        if grid.form in ("rows", "sums"):
            columns = self._columns(grid)
            held = [gast.keyword("held", constant(grid.held))] if grid.held else []
            made = [call(name("row_blocks"), *ends, columns), call(name("row_threads"), columns)]
            for one in made:
                one.keywords = list(held)
            return made[0], made[1]
        if len(ends) == 1:
            return call(name("blocks"), *ends), constant(256)
        return call(name("tiles"), *ends), gast.Tuple([constant(32), constant(8)], gast.Load())

    def _columns(self, grid: Grid) -> Any:
        """The trip count of the loop that a row's threads share; 32 if it differs between rows."""
        loop = grid.columns
        assert loop is not None
        own = {*core.defined_vars(Block(list(grid.loops)))}
        ends = [a for a in (loop.start, loop.stop) if isinstance(a, Var)]

        def is_known(end: Var) -> bool:
            made = self.program.definition.get(end)
            return end not in own or (is_size(made) and own.isdisjoint(made.args))

        if not all(map(is_known, ends)):
            return constant(32)
        count = self._trip_count(loop)
        return call(name("max"), count, constant(16)) if grid.scans else count

    def _trip_count(self, loop: For) -> Any:
        """The trip count of a loop; approximately its stop, if it starts at a small number."""
        stop = self._bound(loop.stop)
        if not isinstance(loop.start, Var) and 0 <= loop.start < _FEW:
            return stop
        if isinstance(loop.start, int) and isinstance(loop.stop, int):
            return constant(max(loop.stop - loop.start, 0))
        return gast.BinOp(stop, gast.Sub(), self._bound(loop.start))

    def _bound(self, atom: Atom) -> Any:
        """The bound of a kernel's loop, by the names that arrays have before the launch."""
        return _Given(self, self._scope).visit(self.expressions.atom(atom))

    def _width(self, line: str) -> int:
        """The width of a line; within kernels of the C text: ``1.67f`` for ``np.float32(1.67)``."""
        return len(_SINGLE.sub(r"\1f", line)) if self._grid is not None else len(line)

    def _store(self, s: Apply, depth: int) -> list[Any]:
        """Write a store; additions at data-dependent indices are atomic on several threads."""
        lines = super()._store(s, depth)
        lines = lines if self._grid is None else lines[:1]  # without the name of the new version
        shared = self._grid is not None and self._grid.form != "serial"
        added = bool(lines) and isinstance(lines[0], gast.AugAssign)
        if shared and added and is_chosen(s, self.program.definition.get):
            lines[0].is_atomic = True
            if s.out.type.dtype == np.int64 or s.out.type.dtype.kind == "c":
                self.used.add(f"atomicAdd of {c_type(s.out.type.dtype)}")
        return lines if self._grid is None else list(map(partial(as_stored, s), lines))

    # checked indices

    def _apply(self, s: Apply, depth: int) -> list[Any]:
        """Write an operation; a checked index gets the arguments that report an index error."""
        lines = super()._apply(s, depth)
        if self._grid is None and id(s) in self._last_steps:
            return self._last_steps[id(s)].written(self, s, lines)
        if id(s) in self._scanned:
            lines[-1].scanned = self._scanned[id(s)]
        if s.primitive is not checked_index:
            return lines
        if self._grid is None:
            lines[0].value.args.append(_place_text(s))
            return lines
        self._checks = True
        index = s.args[0]
        if isinstance(index, Var) and index.type.dtype == np.uint64:
            lines[0].value.args[0] = call(name("as_index"), lines[0].value.args[0])
        number = next(k for k, check in enumerate(self._scope.checks) if check is s)
        place = f"place + {number}" if number else "place"
        lines[0].value.args += [raw("outside"), raw(place)]
        return lines

    # within kernels

    def _moves(self, outs: tuple[Var, ...], atoms: list[Atom], depth: int) -> list[Any]:
        """Assign variables; within kernels scalars only: an array's versions are one parameter."""
        pairs = list(zip(outs, atoms, strict=True))
        if self._grid is not None:
            pairs = [(out, atom) for out, atom in pairs if not out.type.ndim]
        return super()._moves(tuple(o for o, _ in pairs), [a for _, a in pairs], depth)

    def _kernel_block(self, block: Block, depth: int) -> list[Any]:
        """Write a block; where threads share a row, one of them stores, with barriers between."""
        if self._grid is None or id(block) not in self._grid.alike:
            return super()._kernel_block(block, depth)
        made: list[Any] = []
        written: set[Var] = set()  # arrays stored into since the last barrier of the row's threads
        seen: set[Var] = set()
        phase, self._quoted = "", self._header()
        both = block is self._grid.loops[-1].body and self.phase_of(self._grid.loops[0]) == BOTH
        for s in block.statements:
            lines = self._statement(s, depth)
            if not lines:
                continue
            if both and (now := self.phase_of(s)) and now not in (phase, BOTH):
                made += self._phase(now, bool(made))
                phase = now
            read = set(map(self._scope.given, self._arrays_read(s)))
            stored = set(map(self._scope.given, stored_by([s])))
            if written & read or seen & stored:
                made.append(self._wait())
                written, seen = set(), set()
            written |= stored
            seen |= read
            if isinstance(s, Apply) and is_store(s):
                lines = [gast.If(raw("threadIdx.x == 0"), lines, [])]
            if self._generated or answers(s.phase):
                made += self._comment(s, depth)
            made += lines
        if seen & written and block is not self._grid.loops[-1].body:
            made.append(self._wait())  # before the next iteration
        return made

    def _wait(self) -> Any:
        self.used.add("row_wait")
        return statement("row_wait();")

    def _phase_said(self, found: str) -> str:
        """The phase comment of a kernel; empty for rows with both phases, commented within."""
        rows = self._grid is not None and self._grid.form == "rows"
        return "" if rows and found == BOTH else found

    def _arrays_read(self, s: Statement) -> set[Var]:
        return read_in([s]) | {v for t in [s] for v in self._folded_reads(t)}

    def _folded_reads(self, s: Statement) -> set[Var]:
        """The arrays that are read in expressions written within a statement."""
        found: set[Var] = set()
        pending = [a for t in core.walk(Block([s])) for a in core.operands(t)]
        while pending:
            atom = pending.pop()
            if isinstance(atom, Var) and atom in self.expressions.folding.folded:
                made = self.program.definition[atom]
                found |= read_in([made])
                pending += list(core.operands(made))
        return found

    def _for(self, s: For, depth: int) -> list[Any]:
        grid = self._grid
        if grid is None:
            return super()._for(s, depth)
        if id(s) in grid.lanes and is_scan(s):
            self._scanned.update((id(r.made), r) for r in scans(s))
        lines = super()._for(s, depth)
        at = next((k for k, t in enumerate(lines) if isinstance(t, gast.For)), None)
        if at is None:
            return lines
        if id(s) in grid.spread:
            lines[at].spread = grid.spread[id(s)]
        lines[at].at_once = at_once(s, grid)
        if id(s) in grid.lanes:
            self._held.mark(s, lines[at])
            if is_scan(s):
                scan_by_row(self._scope, s, lines[at])
            return reduced_by_row(self._scope, s, lines, at)
        if grid.loops and s is grid.loops[0] and grid.totals:
            return reduced_by_all(self._scope, s, lines, at)
        if grid.loops and s is grid.loops[0] and len(grid.loops) > 1 and grid.form == "elements":
            turn(lines[at], grid)
        return lines


class _Given(gast.NodeTransformer):
    """Replaces names of arrays' versions by the names of the kernel's parameters."""

    def __init__(self, writer: CudaLauncher, scope: KernelScope):
        self.writer, self.scope = writer, scope

    def visit_Name(self, node: Any) -> Any:
        """``x`` for ``x_now``, which is ``x`` after the kernel."""
        shown = getattr(node, "shows", None)
        if shown is None or not shown.type.ndim:
            return node
        given = self.scope.given(shown)
        return node if given is shown else self.writer._array_given(given)


def _place_text(s: Apply) -> Any:
    """The file, line and statement of an index in the user's source, as a constant."""
    origin = s.origin
    if origin is None:
        return constant("generated code")
    statement = " ".join((origin.statement or origin.text).split())
    return constant(f"{os.path.basename(origin.file)}, line {origin.line}: {statement}")
