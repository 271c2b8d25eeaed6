"""Decides which values get a line of their own, and which are folded into their uses.

A value used once and not named by the user moves into its use, unless a name or memory that it
reads is given another value on the way.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import is_size, is_store
from calque.transpiler.memory.bufferize import Memory
from calque.transpiler.memory.printed_program import PrintedProgram, continues
from calque.transpiler.primitives.elementwise import add, subtract

_STATEMENT_STARTS = ("if ", "elif ", "if(", "else", "for ", "while ", "return")


def is_simple(s: Statement) -> bool:
    """True for a size, or a number added to an index: it is repeated instead of named."""
    if not isinstance(s, Apply):
        return False
    if s.primitive.kind == "size":
        return True
    if s.primitive not in (add, subtract):
        return False
    t = s.outs[0].type
    count = sum(isinstance(a, Var) for a in s.args)
    return t.weak and t.dtype.kind == "i" and count == 1


def is_choice(s: Statement, bound: frozenset[Var]) -> bool:
    """True if an If can be written as an expression, ``a if test else b``."""
    if not isinstance(s, If) or len(s.outs) != 1 or s.outs[0] in bound:
        return False
    text = s.origin.statement if s.origin else ""
    if s.outs[0].name is not None and (not text or text.startswith(_STATEMENT_STARTS)):
        return False
    if any(a is core.UNDEFINED for a in (s.then.results[0], s.orelse.results[0])):
        return False
    return _pure(s.then, bound) and _pure(s.orelse, bound)


def choices_in(program: PrintedProgram, bound: frozenset[Var]) -> set[int]:
    """The ids of the branches that are written as expressions; ``bound`` Vars have a name."""
    return {id(s) for s in program.once(_choices) if not bound or is_choice(s, bound)}


def _choices(program: PrintedProgram) -> list[Statement]:
    return [s for s in core.walk(program.body) if is_choice(s, frozenset())]


def _pure(block: Block, bound: frozenset[Var]) -> bool:
    used: dict[Var, int] = {}
    for s in block.statements:
        for inner in core.walk(Block([s])):
            for atom in core.operands(inner):
                if isinstance(atom, Var):
                    used[atom] = used.get(atom, 0) + 1
    for atom in block.results:
        if isinstance(atom, Var):
            used[atom] = used.get(atom, 0) + 1
    for s in block.statements:
        if isinstance(s, Apply):
            if is_store(s) or len(s.outs) != 1:
                return False
        elif not is_choice(s, bound):
            return False
        out = s.outs[0]
        if out.name is not None or used.get(out) != 1 or out in bound:
            return False
    return True


def _leads_into(program: PrintedProgram, s: Statement, use: Statement | None) -> bool:
    """True if a named value is only a part of its single use."""
    return continues(program, s, use) or (
        isinstance(use, Apply)
        and is_store(use)
        and use.args[1] is s.outs[0]
        and use.args[0].name == s.outs[0].name
    )


class _Readers:
    """The readers of each Var (of a block's results: no statement), and the carried ones."""

    def __init__(self, program: PrintedProgram):
        self.uses: dict[Var, list[tuple[Block, Statement | None]]] = {}
        self.moved: set[Var] = set()
        self.handed: set[Var] = set()  # parameters and results of kernels
        self.places: dict[int, int] = {}  # positions of statements in their blocks
        self._block(program.body)

    def _block(self, block: Block) -> None:
        for place, s in enumerate(block.statements):
            self.places[id(s)] = place
            if isinstance(s, Kernel):
                self.handed.update(s.params, s.outs)
                self._block(s.body)
                continue
            for atom in core.operands(s):
                if isinstance(atom, Var):
                    self.uses.setdefault(atom, []).append((block, s))
            for inner in core.blocks_of(s):
                self._block(inner)
            pairs: list[tuple[Any, Var]] = []
            if isinstance(s, (For, While)):
                pairs = [*zip(s.body.results, s.phis), *zip(s.inits, s.phis)]
            elif isinstance(s, If):
                pairs = [*zip(s.then.results, s.outs), *zip(s.orelse.results, s.outs)]
            self.moved |= {a for a, phi in pairs if isinstance(a, Var) and a.name == phi.name}
        for atom in block.results:
            if isinstance(atom, Var) and atom not in self.handed:
                self.uses.setdefault(atom, []).append((block, None))


class Folding:
    """The set of folded Vars, and the Vars that are read when an atom is printed."""

    def __init__(
        self,
        program: PrintedProgram,
        memory: Memory,
        groups: Groups,
        bound: frozenset[Var],
        choices: set[int],
    ):
        self.program, self.memory, self.groups = program, memory, groups
        self.bound, self.choices = bound, choices
        self.folded: set[Var] = set()
        self._leaves: dict[Var, int] = {}
        self._sized: dict[Var, int] = {}  # of these, the ones of which only sizes are read
        self._touched: dict[Var, int] = {}
        self._changes = memory.changes
        self._collective: set[Var] = set()  # folded calls that every device must execute
        readers = program.once(_Readers)
        self._uses, self._moved = readers.uses, readers.moved
        self._handed, self._places = readers.handed, readers.places
        self._block(program.body)

    # queries

    def reads(self, atom: Atom) -> int:
        """The bound Vars that printing an atom reads, as a bit mask."""
        if not isinstance(atom, Var):
            return 0
        return self._leaves[atom] if atom in self.folded else self.program.bit(atom)

    def reads_apart(self, atom: Atom) -> int:
        """The same, with Vars of which only sizes are read in a second half of the bit mask."""
        if not isinstance(atom, Var) or atom not in self.folded:
            return self.reads(atom)
        sized = self._sized[atom]
        return self._leaves[atom] & ~sized | sized << len(self.program.vars)

    def hidden(self, atom: Atom) -> bool:
        """True if an atom has no name in the text."""
        return not isinstance(atom, Var) or atom in self.folded

    def skip(self, s: Statement) -> bool:
        """True if a statement is only written within others."""
        return bool(s.outs) and self.folded.issuperset(s.outs)

    # the decision

    def _block(self, block: Block) -> None:
        for s in block.statements:
            for inner in core.blocks_of(s):
                if id(s) not in self.choices:
                    self._block(inner)
            if id(s) in self.choices:
                self._choice(s)
            if isinstance(s, Apply) and len(s.outs) == 1 and not is_store(s):
                self._consider(s)
            elif id(s) in self.choices:
                self._consider(s)

    def _choice(self, s: Statement) -> None:
        for block in core.blocks_of(s):
            for inner in block.statements:
                if id(inner) in self.choices:
                    self._choice(inner)
                self._fold(inner)

    def _consider(self, s: Statement) -> None:
        out = s.outs[0]
        if out in self.bound or out in self._handed or self.groups.shared(out):
            return
        uses = self._uses.get(out, [])
        size = out.name is None and is_simple(s)
        if not uses or not (len(uses) == 1 or size):
            return
        moved = out.name is None or out in self._moved
        if not moved and not (len(uses) == 1 and _leads_into(self.program, s, uses[0][1])):
            return
        if size and len(uses) > 1 and not self._is_short(s):
            return
        if self._is_store_base(out):
            return
        if all(self._can_reach(s, path, size) for path in uses):
            self._fold(s)

    def _is_short(self, s: Statement) -> bool:
        """True if a size or an index is short enough to be repeated instead of named."""
        for atom in core.operands(s):
            if isinstance(atom, Var) and atom in self.folded:
                made = self.program.definition[atom]
                if not is_simple(made) or not self._is_short(made):
                    return False
        return True

    def _fold(self, s: Statement) -> None:
        out = s.outs[0]
        self.folded.add(out)
        self._leaves[out], self._touched[out], self._sized[out] = self._read_by(s)
        if self._is_collective(s):
            self._collective.add(out)

    def _is_collective(self, s: Statement) -> bool:
        """True if an expression holds a call that all devices must execute."""
        if isinstance(s, Apply) and s.primitive.kind == "collective":
            return True
        return any(a in self._collective for a in core.operands(s) if isinstance(a, Var))

    def _read_by(self, s: Statement) -> tuple[int, int, int]:
        """Bit masks for an expression: names read, memory read, names read for sizes only."""
        leaves = touched = asked = 0
        atoms = list(core.operands(s))
        for block in core.blocks_of(s):
            atoms += block.results
        sized = is_size(s)
        for atom in atoms:
            found = self.reads(atom)
            only = found if sized and not self.hidden(atom) else self._sized.get(atom, 0)
            leaves, asked = leaves | found & ~only, asked | only
            if isinstance(atom, Var) and not sized:
                touched |= self._touched.get(atom, 0) | self.memory.at(atom)
        return leaves | asked, touched, asked & ~leaves

    def _is_store_base(self, out: Var) -> bool:
        for _, s in self._uses.get(out, []):
            if s is not None and is_store(s) and isinstance(s, Apply) and s.args[0] is out:
                if id(s) in self.memory.backs:
                    continue
                back = self.memory.takes.get(id(self.program.definition[out]))
                if back is None or back.last is not s.out:
                    return True
        return False

    # the path from a definition to a use

    def _can_reach(self, made: Statement, use: tuple[Block, Statement | None], size: bool) -> bool:
        home = self.program.block_of[id(made)]
        block, stop = use
        if block is not home and self._is_collective(made):
            return False  # in an arm or a loop, it would be called a different number of times
        leaves, touched, sized = self._read_by(made)
        names = self.groups.whole(leaves & ~sized) | self._otherwise_sized(sized)
        if isinstance(stop, For) and made.outs[0] in (stop.start, stop.stop, stop.step):
            if names & self.groups.whole(self.program.mask(stop.phis)):
                return False
        while True:
            start = self._places[id(made)] + 1 if block is home else 0
            end = len(block.statements) if stop is None else self._places[id(stop)]
            if self._changes.meet(block, start, end, names, touched):
                return False
            if block is home:
                return True
            owner = self.program.home[id(block)][1]
            assert owner is not None
            if isinstance(owner, (For, While)):
                binds, _ = self._changes.of(owner)
                if not size or binds & names:
                    return False
            block, stop = self.program.block_of[id(owner)], owner

    def _otherwise_sized(self, mask: int) -> int:
        """The values that share a variable with one of the Vars but have other dimensions."""
        found = 0
        for var in self.program.members(mask & self.groups.joined):
            together = self.program.members(self.groups.whole(self.program.bit(var)))
            found |= self.program.mask(v for v in together if v.type.dims != var.type.dims)
        return found
