"""Liveness analysis: the values needed after each statement, which must not share a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Atom, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.types import DimLike
from calque.transpiler.memory.printed_program import PrintedProgram


class Liveness:
    """Live sets after each statement.

    ``reads`` returns the Vars that printing an atom reads (its operands', if it is folded), and
    ``skip`` selects the statements that print nothing of their own. An array needed only for its
    size clashes just with arrays of other sizes, as any version of the same size may be asked: such
    needs are kept in a second half of the live sets (``sized``).
    """

    def __init__(
        self,
        program: PrintedProgram,
        reads: Callable[[Atom], int] | None = None,
        skip: Callable[[Statement], bool] = lambda statement: False,
    ):
        self.program, self._count = program, len(program.vars)
        self._every = (1 << self._count) - 1
        self.reads = reads or program.bit
        self.skip = skip
        self._after: dict[int, int] = {}  # statement -> live after it
        self._around: dict[int, int] = {}  # loop -> live through it, without its phis
        self.clash = [0] * self._count  # the Vars live at the definition of each
        self._free: dict[int, int] = {}
        self._alike: dict[tuple[DimLike, ...], int] = {}  # the Vars with these dimensions
        for var in program.vars:
            dims = var.type.dims
            self._alike[dims] = self._alike.get(dims, 0) | program.bit(var)
        entry = self._visit(program.body, 0)
        params = program.mask(program.function.params)
        self._define(program.function.params, entry | params)

    def after(self, s: Statement) -> int:
        """The set of Vars that are needed after a statement, also if only for their sizes."""
        return self._whole(self._after[id(s)])

    def around(self, loop: For | While) -> int:
        """The set of Vars that are needed through a loop, without its carried values."""
        return self._whole(self._around[id(loop)])

    def read_by(self, block: Block) -> int:
        """The set of Vars that a block reads from outside."""
        return self._whole(self._read_by(block))

    def _whole(self, live: int) -> int:
        return (live | live >> self._count) & self._every

    def _read(self, atoms: Iterable[Atom]) -> int:
        found = 0
        for atom in atoms:
            if isinstance(atom, Var):
                found |= self.reads(atom)
        return found

    def _operands(self, s: Statement) -> int:
        if isinstance(s, core.Apply) and s.primitive.kind == "size":
            return self._sized(s.args[0])
        return self._read(core.operands(s))

    def _sized(self, atom: Atom) -> int:
        """The set of Vars that reading a size of ``atom`` reads; ``atom``: in the second half."""
        found = self.reads(atom)
        alone = isinstance(atom, Var) and found == self.program.bit(atom)
        return found << self._count if alone else found

    def _without(self, live: int, vars: Iterable[Var]) -> int:
        mask = self.program.mask(vars)
        return live & ~(mask | mask << self._count)

    def _read_by(self, block: Block) -> int:
        if id(block) not in self._free:
            mask = self._read(block.results)
            for s in reversed(block.statements):
                if not self.skip(s):
                    mask = self._without(mask, s.outs) | self._operands(s)
                    for inner in core.blocks_of(s):
                        mask |= self._without(self._read_by(inner), core.bound_vars(s))
            self._free[id(block)] = mask
        return self._free[id(block)]

    def _define(self, vars: Iterable[Var], live: int) -> None:
        sized = live >> self._count
        for var in vars:
            others = sized and sized & ~self._alike[var.type.dims]
            bit = self.program.bit(var)
            self.clash[self.program.index[var]] |= (live & self._every | others) & ~bit

    def _visit(self, block: Block, out: int) -> int:
        live = out | self._read(block.results)
        for s in reversed(block.statements):
            if not self.skip(s):
                live = self._statement(s, live)
        return live

    def _statement(self, s: Statement, live: int) -> int:
        self._after[id(s)] = live
        if isinstance(s, Kernel):
            return self._visit(s.body, live)
        self._define(s.outs, live)
        live = self._without(live, s.outs)
        match s:
            case If():
                outs = self._after[id(s)] | self.program.mask(s.outs)
                self._define(s.outs, outs)
                live = self._visit(s.then, live) | self._visit(s.orelse, live)
            case For() | While():
                live = self._loop(s, live)
        return live | self._operands(s)

    def _loop(self, s: For | While, live: int) -> int:
        phis = self.program.mask(s.phis)
        around = live
        for block in core.blocks_of(s):
            around |= self._without(self._read_by(block), core.bound_vars(s))
        self._around[id(s)] = around
        entry = around | phis
        if isinstance(s, For):
            entry |= self._read((s.start, s.stop, s.step))
            inner = (t.index for t in core.walk(s.body) if isinstance(t, For))
            self._define([s.index], self.program.mask(inner))  # nested loops: other names
        self._define(s.phis, entry)
        begin = self._visit(s.body, around)
        if isinstance(s, For):
            self._define([s.index], begin | phis | around)
        else:
            self._visit(s.test, around | phis)
        return around
