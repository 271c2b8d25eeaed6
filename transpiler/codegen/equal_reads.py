"""A part of an array that several statements read has one name.

Before::

    main_first = main[0]
    c = upper[0] / main_first
    main_first_again = main[0]
    d = rhs[0] / main_first_again

After, there is one ``main_first``, as there is one array for a constant that is written twice, and
one result of a branch for two that are the same in both arms. Reads that stand in one expression
each stay: ``x[i]`` is as short as a name.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.effects import is_store
from calque.transpiler.memory.printed_program import PrintedProgram, is_basic
from calque.transpiler.primitives.creation import constant
from calque.transpiler.primitives.indexing import getitem


def share_equal_reads(program: PrintedProgram) -> None:
    """Read equal parts of unchanged arrays once where each has several readers, in place."""
    shared = _EqualReads(program)
    shared.visit(program.body, ChainMap())
    if shared.equal:
        core.substitute(program.body, shared.equal)
        program.renumber()


class _EqualReads:
    def __init__(self, program: PrintedProgram):
        self.uses = program.uses()
        self.equal: dict[Var, Atom] = {}
        self.changed: set[Atom] = set()  # arrays with a later version, maybe in the same memory
        for s in core.walk(program.body):
            if is_store(s) and isinstance(s, Apply):
                self.changed.add(s.args[0])
            elif isinstance(s, (For, While)):
                self.changed.update(s.inits)
                self.changed.update(s.phis)

    def visit(self, block: Block, known: ChainMap[Any, Var]) -> None:
        """Share in a block the reads that are ``known`` before it, and its own."""
        kept: list[Statement] = []
        for s in block.statements:
            if isinstance(s, If):
                self._share_results(s)
            if isinstance(s, Apply) and self._is_known(s, known):
                continue
            kept.append(s)
            for inner in core.blocks_of(s):
                self.visit(inner, known.new_child())
        block.statements[:] = kept

    def _is_known(self, s: Apply, known: ChainMap[Any, Var]) -> bool:
        """True if an equal read comes before a statement, which is dropped."""
        key = self._key(s)
        if key is None or self.uses[s.out] < 2 or s.out.name is not None:
            return False
        first = known.setdefault(key, s.out)
        if first is s.out or first.type != s.out.type:
            return False
        self.equal[s.out] = first
        return True

    def _key(self, s: Apply) -> Any:
        """A key that is equal for reads of equal values; None if memory could change between."""
        if s.primitive is constant and s.out not in self.changed:
            value = s.params["value"]
            return constant.name, repr(value), str(s.out.type)
        if s.primitive is not getitem or not is_basic(s):
            return None
        args = [self.equal.get(a, a) if isinstance(a, Var) else a for a in s.args]
        if s.out.type.ndim and (s.out in self.changed or args[0] in self.changed):
            return None
        said = [a if isinstance(a, Var) else (type(a), repr(a)) for a in args]
        return getitem.name, *said, repr(s.params["index"])

    def _share_results(self, s: If) -> None:
        """Drop a result of a branch that is another one in both arms."""
        first: dict[Any, Var] = {}
        kept = []
        for k, (out, *arms) in enumerate(zip(s.outs, s.then.results, s.orelse.results)):
            said = [a if isinstance(a, Var) else (type(a), repr(a)) for a in arms]
            same = first.setdefault((*said, str(out.type)), out)
            if same is out or out.name not in (None, same.name):
                kept.append(k)
            else:
                self.equal[out] = same
        if len(kept) < len(s.outs):
            s.outs = tuple(s.outs[k] for k in kept)
            for arm in (s.then, s.orelse):
                arm.results = [arm.results[k] for k in kept]
