"""Liveness analysis: the values needed after each statement, which must not share a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Atom, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.memory.printed_program import PrintedProgram


class Liveness:
    """Live sets after each statement.

    ``reads`` returns the Vars that printing an atom reads (its operands', if it is folded), and
    ``skip`` selects the statements that print nothing of their own. With ``sizes_apart``, an array
    needed only for its size clashes just with arrays of other sizes: any version of the same size
    may be asked. Such needs are kept in a second half of the live sets (``sized``).
    """

    def __init__(
        self,
        program: PrintedProgram,
        reads: Callable[[Atom], int] | None = None,
        skip: Callable[[Statement], bool] = lambda statement: False,
        sizes_apart: bool = False,
    ):
        self.program, self.sizes_apart = program, sizes_apart
        self._every = (1 << len(program.vars)) - 1
        self.reads = reads or program.bit
        self.skip = skip
        self.after: dict[int, int] = {}  # statement -> live after it
        self.around: dict[int, int] = {}  # loop -> live through it, without its phis
        self.clash = [0] * len(program.vars)  # the Vars live at the definition of each
        self._free: dict[int, int] = {}
        entry = self._visit(program.body, 0)
        params = program.mask(program.function.params)
        self._define(program.function.params, entry | params)

    def read(self, atoms: Iterable[Atom]) -> int:
        """The set of Vars that printing several atoms reads."""
        found = 0
        for atom in atoms:
            found |= self.reads(atom)
        return found

    def _operands(self, s: Statement) -> int:
        if self.sizes_apart and isinstance(s, core.Apply) and s.primitive.kind == "size":
            return self.sized(s.args[0])
        return self.read(core.operands(s))

    def sized(self, atom: Atom) -> int:
        """The set of Vars that reading a size of ``atom`` reads; ``atom``: in the second half."""
        found = self.reads(atom)
        alone = isinstance(atom, Var) and found == self.program.bit(atom)
        return found << len(self.program.vars) if alone else found

    def _without(self, live: int, vars: Iterable[Var]) -> int:
        mask = self.program.mask(vars)
        return live & ~(mask | mask << len(self.program.vars))

    def free(self, block: Block) -> int:
        """The set of Vars that a block reads from outside."""
        if id(block) not in self._free:
            mask = self.read(block.results)
            for s in reversed(block.statements):
                if not self.skip(s):
                    mask = self._without(mask, s.outs) | self._operands(s)
                    for inner in core.blocks_of(s):
                        mask |= self._without(self.free(inner), core.bound_vars(s))
            self._free[id(block)] = mask
        return self._free[id(block)]

    def _define(self, vars: Iterable[Var], live: int) -> None:
        sized = [*self.program.members(live >> len(self.program.vars))]
        for var in vars:
            others = self.program.mask(v for v in sized if v.type.dims != var.type.dims)
            bit = self.program.bit(var)
            self.clash[self.program.index[var]] |= (live & self._every | others) & ~bit

    def _visit(self, block: Block, out: int) -> int:
        live = out | self.read(block.results)
        for s in reversed(block.statements):
            if not self.skip(s):
                live = self._statement(s, live)
        return live

    def _statement(self, s: Statement, live: int) -> int:
        self.after[id(s)] = live
        if isinstance(s, Kernel):
            return self._visit(s.body, live)
        self._define(s.outs, live)
        live = self._without(live, s.outs)
        match s:
            case If():
                outs = self.after[id(s)] | self.program.mask(s.outs)
                self._define(s.outs, outs)
                live = self._visit(s.then, live) | self._visit(s.orelse, live)
            case For() | While():
                live = self._loop(s, live)
        return live | self._operands(s)

    def _loop(self, s: For | While, live: int) -> int:
        phis = self.program.mask(s.phis)
        around = live
        for block in core.blocks_of(s):
            around |= self._without(self.free(block), core.bound_vars(s))
        self.around[id(s)] = around
        entry = around | phis
        if isinstance(s, For):
            entry |= self.read((s.start, s.stop, s.step))
            inner = (t.index for t in core.walk(s.body) if isinstance(t, For))
            self._define([s.index], self.program.mask(inner))  # nested loops: other names
        self._define(s.phis, entry)
        begin = self._visit(s.body, around)
        if isinstance(s, For):
            self._define([s.index], begin | phis | around)
        else:
            self._visit(s.test, around | phis)
        return around
