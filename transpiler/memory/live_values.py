"""Which values are still needed where, and which may therefore not share a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Atom, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.memory.printed_program import PrintedProgram


class Liveness:
    """Live sets after each statement.

    ``reads`` gives the Vars that printing an atom reads (where it is folded, its operands'), and
    ``skip`` tells the statements that print nothing of their own.
    """

    def __init__(
        self,
        program: PrintedProgram,
        reads: Callable[[Atom], int] | None = None,
        skip: Callable[[Statement], bool] = lambda statement: False,
    ):
        self.program = program
        self.reads = reads or program.bit
        self.skip = skip
        self.after: dict[int, int] = {}  # statement -> live after it
        self.around: dict[int, int] = {}  # loop -> what lives through it beside its phis
        self.clash = [0] * len(program.vars)  # what lives where each is defined
        self._free: dict[int, int] = {}
        entry = self._visit(program.body, 0)
        params = program.mask(program.function.params)
        self._define(program.function.params, entry | params)

    def read(self, atoms: Iterable[Atom]) -> int:
        """What printing several atoms reads."""
        found = 0
        for atom in atoms:
            found |= self.reads(atom)
        return found

    def free(self, block: Block) -> int:
        """What a block reads from outside."""
        if id(block) not in self._free:
            mask = self.read(block.results)
            for s in reversed(block.statements):
                if not self.skip(s):
                    mask = (mask & ~self.program.mask(s.outs)) | self.read(core.operands(s))
                    bound = self.program.mask(core.bound_vars(s))
                    for inner in core.blocks_of(s):
                        mask |= self.free(inner) & ~bound
            self._free[id(block)] = mask
        return self._free[id(block)]

    def _define(self, vars: Iterable[Var], live: int) -> None:
        for var in vars:
            self.clash[self.program.index[var]] |= live & ~self.program.bit(var)

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
        live &= ~self.program.mask(s.outs)
        match s:
            case If():
                outs = self.after[id(s)] | self.program.mask(s.outs)
                self._define(s.outs, outs)
                live = self._visit(s.then, live) | self._visit(s.orelse, live)
            case For() | While():
                live = self._loop(s, live)
        return live | self.read(core.operands(s))

    def _loop(self, s: For | While, live: int) -> int:
        phis, bound = self.program.mask(s.phis), self.program.mask(core.bound_vars(s))
        around = live
        for block in core.blocks_of(s):
            around |= self.free(block) & ~bound
        self.around[id(s)] = around
        entry = around | phis
        if isinstance(s, For):
            entry |= self.read((s.start, s.stop, s.step))
            inner = (t.index for t in core.walk(s.body) if isinstance(t, For))
            self._define([s.index], self.program.mask(inner))  # a reader takes them for one
        self._define(s.phis, entry)
        begin = self._visit(s.body, around)
        if isinstance(s, For):
            self._define([s.index], begin | phis | around)
        else:
            self._visit(s.test, around | phis)
        return around
