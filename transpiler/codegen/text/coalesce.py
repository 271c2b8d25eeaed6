"""Coalescing: versions of a value linked by a store, a loop or a branch share one variable."""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, If, Var, While
from calque.transpiler.ir.effects import is_store
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.shapes import reused


class Groups:
    """Disjoint sets of Vars that share a variable; no two of a set are live at once."""

    def __init__(self, program: PrintedProgram, choices: set[int], paths: set[Var]):
        self.program = program
        self._group = list(range(len(program.vars)))
        self.members = [1 << i for i in range(len(program.vars))]
        self.joined = 0  # the Vars whose groups have other members
        self._clash = list(program.once(Liveness).clash)
        self._paths = program.mask(paths)
        self._uses = program.uses()
        self._join_all(choices)

    def of(self, var: Var) -> int:
        """The number of a Var's group: its first member."""
        return self._group[self.program.index[var]]

    def together(self, a: Atom, b: Atom) -> bool:
        """True if two atoms share a variable."""
        return isinstance(a, Var) and isinstance(b, Var) and self.of(a) == self.of(b)

    def shared(self, var: Var) -> bool:
        """True if a Var's group has other members."""
        return bool(self.joined & self.program.bit(var))

    def whole(self, mask: int) -> int:
        """The union of the groups of some Vars."""
        found = mask
        for var in self.program.members(mask & self.joined):
            found |= self.members[self.of(var)]
        return found

    def names(self, group: int) -> set[str]:
        """The user's names of a group's members; at most one."""
        return {v.name for v in self.program.members(self.members[group]) if v.name is not None}

    def _are_apart(self, first: int, second: int) -> bool:
        """True if two groups interfere: a member is defined where one of the other is live."""
        one_way = self._clash[first] & self.members[second]
        return bool(one_way or self._clash[second] & self.members[first])

    def _join(self, a: Atom, b: Atom) -> None:
        if not isinstance(a, Var) or not isinstance(b, Var):
            return
        first, second = sorted((self.of(a), self.of(b)))
        if first == second or self._are_apart(first, second):
            return
        if (self.members[first] | self.members[second]) & self._paths:
            return
        if len(self.names(first) | self.names(second)) > 1:
            return
        for var in self.program.members(self.members[second]):
            self._group[self.program.index[var]] = first
        self.members[first] |= self.members[second]
        self.joined |= self.members[first]
        self._clash[first] |= self._clash[second]

    def _join_all(self, choices: set[int]) -> None:
        statements = list(core.walk(self.program.body))
        for s in statements:
            if isinstance(s, (For, While)):
                for phi, out in zip(s.phis, s.outs, strict=True):
                    if phi.name != out.name:
                        phi.name = out.name = phi.name or out.name
                    self._join(phi, out)
        for s in statements:
            if isinstance(s, Apply) and (is_store(s) or s.primitive is reused):
                self._join(s.out, s.args[0])
        for s in statements:
            if isinstance(s, (For, While)):
                apart = self._permuted(s)
                for k, phi in enumerate(s.phis):
                    if k not in apart:
                        self._join(phi, s.body.results[k])
                    self._join(phi, s.inits[k])
            elif isinstance(s, If) and id(s) not in choices:
                for k, out in enumerate(s.outs):
                    self._join(out, s.then.results[k])
                    self._join(out, s.orelse.results[k])

    def _permuted(self, loop: For | While) -> set[int]:
        """The values that one tuple assignment should give: ``a, b = b, a + b``."""
        made: dict[int, Apply] = {}
        for k, (phi, after) in enumerate(zip(loop.phis, loop.body.results, strict=True)):
            s = self.program.definition.get(after) if isinstance(after, Var) else None
            single = isinstance(after, Var) and self._uses[after] == 1
            single = single and after.name in (None, phi.name)
            if single and isinstance(s, Apply) and not is_store(s) and len(s.outs) == 1:
                if self.program.block_of[id(s)] is loop.body:
                    made[k] = s
        apart: set[int] = set()
        for k, first in made.items():
            phi = loop.phis[k]
            if not self._are_apart(self.of(phi), self.of(first.out)):
                continue
            for j, second in made.items():
                later = self.program.number[id(first)] < self.program.number[id(second)]
                if later and self._mentions(second, phi) and _same_statement(first, second):
                    apart |= {j, k}
        return apart

    def _mentions(self, s: Apply, var: Var) -> bool:
        for atom in s.args:
            made = self.program.definition.get(atom) if isinstance(atom, Var) else None
            unnamed = isinstance(made, Apply) and made.out.name is None
            if atom is var or (unnamed and isinstance(made, Apply) and self._mentions(made, var)):
                return True
        return False


def _same_statement(a: Apply, b: Apply) -> bool:
    if a.origin is None or b.origin is None:
        return True
    return (a.origin.line, a.origin.statement) == (b.origin.line, b.origin.statement)
