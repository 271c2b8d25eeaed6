"""Kernels of Core as Numba's functions, and the launcher that calls them.

The launcher is the NumPy source of ``codegen/numpy/emit.py``, in which each ``Kernel`` that
``codegen/outline.py`` made is a call::

    out = np.empty(x.size)
    selu_kernel(x.reshape(-1), alpha, scale, out)
"""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.formed_errors import KernelErrors
from calque.transpiler.codegen.kernel_forms import form
from calque.transpiler.codegen.kernel_interfaces import is_assigned, may_be_unset, type_given
from calque.transpiler.codegen.numba.unboxing import element_of, is_strong, may_be_array
from calque.transpiler.codegen.text.instances import helper_names
from calque.transpiler.codegen.text.layout import WIDTH
from calque.transpiler.codegen.text.spelling import (
    call,
    dtype_name,
    fill_expression,
    name,
    plain,
    target,
)
from calque.transpiler.codegen.text.statement_writer import StatementWriter
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, Effect, For, Kernel, Statement, Var
from calque.transpiler.ir.phases import PHASES, answers
from calque.transpiler.ir.statement_forms import sort
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.memory.donation import NEW
from calque.transpiler.primitives.shapes import reused


def _dtype(dtype: np.dtype) -> Any:
    return gast.Attribute(name("np"), dtype_name(dtype), gast.Load())


@dataclass(frozen=True)
class _Launch:
    """A kernel as its launcher calls it; ``outs`` are its results."""

    name: str
    params: list[Var]
    outs: list[Var]


BOTH = "forward and reverse"  # the phase of fused loops


class Launcher(StatementWriter):
    """Writes the launcher, and the kernels beside it."""

    kernels: list[Any]
    launches: list[core.Launch]
    _generated = False
    _divided: set[int]  # the blocks of loops whose iterations have phases

    def function_body(self) -> list[Any]:
        """The launcher's statements."""
        self.kernels, self.launches, self._divided = [], [], set()
        self.errors = KernelErrors(self.program.function.name.removesuffix("_jit"))
        self._known: dict[Any, tuple[_Launch, tuple[Var, ...]]] = {}  # by their forms
        self._taken = helper_names(self.program.function)
        found = (s for s in core.walk(self.program.body) if isinstance(s, Kernel))
        self._alike = Counter(sort([s]) for s in found)
        self._unset: dict[str, Var] = {}
        return super().function_body()

    def finish(self, body: list[Any]) -> None:
        """Create variables that may be unset; those of parameters are there."""
        given = set(map(self.groups.of, self.program.function.params))
        unset = {n: var for n, var in self._unset.items() if self.groups.of(var) not in given}
        body[:0] = [_empty(n, unset[n].type) for n in sorted(unset)]

    def _block(self, block: Block, depth: int) -> list[Any]:
        """Write a block of the launcher with comments for phases only; kernels have the others."""
        if self.expressions.inside:
            return self._kernel_block(block, depth)
        made: list[Any] = []
        written = [(s, self._statement(s, depth)) for s in block.statements]
        written = [(s, lines) for s, lines in written if lines]
        phase, phases = "", self._phases([s for s, _ in written])
        for s, lines in written:
            now = phases[id(s)] if depth == 1 else ""
            if now and now != phase:
                made += self._phase(now, bool(made))
                phase = now
            made += lines
        return made

    def _phases(self, statements: Sequence[Statement]) -> dict[int, str]:
        """The phase of each statement; sizes and new memory belong to the next statement."""
        found: dict[int, str] = {}
        after = ""
        for s in reversed(statements):
            after = found[id(s)] = (self._prepares(s) and after) or self.phase_of(s) or after
        return found

    def phase_of(self, s: Statement) -> str:
        """The phase of a statement, from the statements written for it."""
        hidden = self.expressions.folding.skip
        phases = {t.phase for t in core.walk(Block([s])) if not hidden(t) and not self._prepares(t)}
        return " and ".join(p for p in PHASES if p in phases) or s.phase

    def _prepares(self, s: Statement) -> bool:
        """True if a statement is a size, new memory, or the copy of an argument."""
        if not isinstance(s, Apply):
            return False
        ahead = s.primitive.kind == "creation" and not self.expressions.inside
        made = ahead or s.primitive in NEW
        return made or s.primitive.kind == "size" or id(s) in self.program.kept_arguments

    def _apply(self, s: Apply, depth: int) -> list[Any]:
        """Write an operation; a new array in the memory of a dead one has a comment."""
        if s.outs[0] in self._in_dead_memory:
            return []
        lines = super()._apply(s, depth)
        if s.primitive is reused:
            name = self.expressions.names(s.args[1])
            lines.append(self.notes.trailing(f"{name} is not read again"))
        return lines

    @cached_property
    def _in_dead_memory(self) -> set[Var]:
        """The new arrays for which no memory is allocated."""
        made = (s for s in self.program.body.statements if isinstance(s, Apply))
        return {s.args[0] for s in made if s.primitive is reused}

    def _unplaced(self, s: Statement, depth: int) -> list[Any]:
        """Write an effect; within a kernel a raise passes on the values for the error's text."""
        if isinstance(s, Effect) and self.expressions.inside:
            made = self.errors.statement(s, self.expressions.operands(s.args))
            return [made if isinstance(made, gast.If) else self._fitting(made, s.args, depth, s)]
        return super()._unplaced(s, depth)

    def _phase(self, phase: str, separate: bool) -> list[Any]:
        """The comment above a phase; a function of one phase says it in its kernels alone."""
        if self.program.function.phase and not self.expressions.inside:
            return []
        return super()._phase(phase, separate)

    # launches

    def _kernel(self, s: Kernel, depth: int) -> list[Any]:
        """The call of a kernel, whose function is written beside the launcher."""
        self.errors.used = []
        lines = self._kernel_lines(s)
        if all(map(self.notes.is_note, lines)):
            return []
        kernel = self._written(s, lines)
        places = {p: k for k, p in enumerate(self.program.function.params)}
        given = tuple([(p.type, places.get(p)) for p in kernel.params])
        self.launches.append(core.Launch(kernel.name, given))
        for var in kernel.params:
            if may_be_unset(var, self.program):
                self._unset.setdefault(self.expressions.names(var), var)
        return _received(
            [self.expressions.names(o) for o in kernel.outs],
            [type_given(o, s, self.program) for o in kernel.outs],
            call(name(kernel.name), *map(self._given, kernel.params)),
        )

    def _written(self, s: Kernel, lines: list[Any]) -> _Launch:
        """A new kernel of these lines, or an earlier one of the same form with other arguments."""
        inside = self.expressions.name_inside
        params = sorted({inside(p): p for p in s.params}.values(), key=self.place_of)
        outs = [o for o in s.outs if is_assigned(o, s, self.program, self.groups)]
        outs.sort(key=self.place_of)
        key, values = self._form(s, params, outs)
        if key in self._known:
            first, others = self._known[key]
            here = dict(zip(others, values, strict=True))
            return _Launch(first.name, *([here[v] for v in w] for w in (first.params, first.outs)))
        stem = f"{self.program.function.name.removesuffix('_jit')}_kernel"
        titles = (f"{stem}_{k}" if k > 1 else stem for k in itertools.count(len(self._known) + 1))
        title = next(t for t in titles if t not in self._taken)
        self._taken.add(title)
        made = _Launch(title, params, outs)
        self._known[key] = made, values
        if outs:
            lines = [*lines, gast.Return(_one_or_tuple([name(inside(o)) for o in outs]))]
        taken = gast.arguments([_parameter(inside(p)) for p in params], [], None, [], [], None, [])
        head = self.expressions.kernels.head(s, self.program.function.kernel_options)
        decorators = [fill_expression(head, [])]
        if self.errors.used:
            used = list(dict.fromkeys(self.errors.used))
            decorators.insert(0, call(name("forms_errors"), *map(name, used)))
            makers = map(self.errors.functions.get, used)
            self.kernels += [maker for maker in makers if maker not in self.kernels]
        self.kernels.append(gast.FunctionDef(title, taken, lines, decorators, None, None, []))
        return made

    def _form(
        self, s: Kernel, params: list[Var], outs: list[Var]
    ) -> tuple[Any, tuple[Var, ...]]:
        """A key that is equal for kernels that differ in values alone, and the values in order."""
        if self._alike[found := sort([s])] == 1:
            return found, ()  # no other kernel has such statements
        text, values = form(s.body.statements, self.expressions.folding)
        places = {v: k for k, v in enumerate(values)}
        return (text, *(frozenset(places[v] for v in w) for w in (params, outs))), values

    def counter_of(self, s: For) -> str:
        """The name of a loop's counter."""
        return self._counter(s)

    def place_of(self, var: Var) -> int:
        """The position of a kernel's parameter: arguments first, in the signature's order."""
        return self._firsts.get(self.expressions.name_inside(var), self.program.index[var])

    @cached_property
    def _firsts(self) -> dict[str, int]:
        """The number of the first value with each name."""
        hidden = self.expressions.folding.folded | self.expressions.paths.keys()
        shown = [v for v in self.program.vars if v not in hidden]
        return {self.expressions.names(v): self.program.index[v] for v in reversed(shown)}

    def _given(self, var: Var) -> Any:
        """The argument of a kernel for a value; the scalar within a possible 0-d array."""
        if var in self.expressions.paths:
            path = self.expressions.paths[var][0]
            return element_of(path) if is_strong(var) else path
        made = name(self.expressions.names(var), var)
        if not may_be_array(var, self.program):
            return made
        if var not in self.program.function.params:
            made = fill_expression("np.asarray({0})", [made])
        return element_of(made)

    # within kernels

    def _kernel_lines(self, s: Kernel) -> list[Any]:
        self.expressions.inside, self._rules = True, {""}
        try:
            return self._kernel_block(s.body, 1)
        finally:
            self.expressions.inside = False

    def _kernel_block(self, block: Block, depth: int) -> list[Any]:
        made: list[Any] = []
        phase, self._quoted = "", self._header()
        phases = self._phases_in(block) if depth == 1 or id(block) in self._divided else {}
        for s in block.statements:
            divided = id(s) in phases and self._is_divided(s)
            if divided:
                self._divided.add(id(s.body))  # type: ignore[union-attr]
            lines = self._statement(s, depth)
            if not lines:
                continue
            now = "" if divided else self._phase_said(phases.get(id(s), ""))
            if divided:
                phase = ""
            elif now and now != phase:
                made += self._phase(now, bool(made))
                phase = now
                self._quoted = self._quoted if depth == 1 else None  # it says of which loop this is
            if self._generated or answers(s.phase):
                made += self._comment(s, depth)
            made += lines
            if core.blocks_of(s):  # the statements after it may belong to the same head
                self._quoted = self._header() if answers(s.phase) else None
        return made

    def _phases_in(self, block: Block) -> dict[int, str]:
        skip = self.expressions.folding.skip
        return self._phases([s for s in block.statements if not skip(s)])

    def _is_divided(self, s: Statement) -> bool:
        """True for a loop each iteration of which has one phase after the other: it says so."""
        if not isinstance(s, For):
            return False
        phases = [*self._phases_in(s.body).values()][::-1]  # in the order of the text
        while phases[-1:] == [""]:  # a store of results
            phases.pop()
        if not {*phases} <= {*PHASES}:
            return False
        return len({*phases}) > 1 and phases == sorted(phases, key=PHASES.index)

    def _phase_said(self, found: str) -> str:
        """The phase in the comment above a statement of a kernel."""
        return found

    def _for(self, s: For, depth: int) -> list[Any]:
        before, self._generated = self._generated, s.scheduled
        try:
            lines = super()._for(s, depth)
        finally:
            self._generated = before
        if self.expressions.inside:
            options = self.program.function.kernel_options
            for line in lines:
                if isinstance(line, gast.For) and isinstance(line.iter, gast.Call):
                    line.iter.func = name(self.expressions.kernels.counter(s, depth, options))
        at = next((k for k, line in enumerate(lines) if isinstance(line, gast.For)), None)
        return lines if at is None else [*lines[:at], *self._explained(s, depth), *lines[at:]]

    def _explained(self, s: For, depth: int) -> list[Any]:
        """The comment on a loop's threads, if the user asked for it."""
        if s.verdict is None or not self.program.function.kernel_options.get("explained"):
            return []
        text = s.verdict.comment(self._counter(s))
        return [self.notes.comment(t) for t in textwrap.wrap(text, WIDTH - 2 - 4 * depth)]


def _one_or_tuple(items: list[Any], context: Any = gast.Load) -> Any:
    return items[0] if len(items) == 1 else gast.Tuple(items, context())


def _empty(identifier: str, t: ArrayType) -> Any:
    """An assignment of a placeholder of type ``t`` to a variable that may be unset."""
    zero: Any = plain(t.dtype.type(0).item())
    if t.ndim:
        shape = gast.Tuple([plain(0)] * t.ndim, gast.Load())
        zero = call(gast.Attribute(name("np"), "empty", gast.Load()), shape, _dtype(t.dtype))
    return gast.Assign([target(name(identifier))], zero, None)


def _received(names: list[str], types: list[ArrayType], value: Any) -> list[Any]:
    """A kernel's call, and conversions of its results to NumPy's scalars where needed."""
    if not names:
        return [gast.Expr(value)]
    place = _one_or_tuple([target(name(n)) for n in names], gast.Store)
    strong = {n: t for n, t in zip(names, types, strict=True) if not t.ndim and not t.weak}
    if len(names) == 1 and strong:
        return [gast.Assign([place], call(_dtype(types[0].dtype), value), None)]
    casts = [(target(name(n)), call(_dtype(t.dtype), name(n))) for n, t in strong.items()]
    return [gast.Assign([p], v, None) for p, v in [(place, value), *casts]]


def _parameter(identifier: str) -> Any:
    return gast.Name(identifier, gast.Param(), None, None)
