"""Copies of results: each has memory of its own, unless the function returns an argument itself.

The gradient of ``c @ x`` is ``c``: the caller who scales it must not change ``c``. The same holds
where only some paths return an array of the caller's: in ``y = x.copy()``, ``if k > 2: y = y *
0.5``, the path without a product copies ``x``, and a loop that may run zero times starts with a
copy.
"""

from __future__ import annotations

from collections.abc import Collection

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.versions import Versions, of_nothing
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.indexing import copy


class Results:
    """Gives each result that is not an argument's own cell its own memory."""

    def __init__(self, body: Block, cells: Collection[Array], given: Collection[Var]):
        self.own = {id(cell) for cell in cells}
        self.without_axes = {c._value for c in cells if c.is_buffer and not c.ndim}
        self.given = {*given, *(cell._value for cell in cells)}  # nobody else's memory
        self.copies: dict[tuple[int, Var], Array] = {}  # of cells, where they were returned
        self.made: dict[Var, Statement] = {}
        self.place: dict[Var, int] = {}  # which of a loop's values a Var is
        self.home: dict[int, Block] = {}
        self.seen: set[tuple[int, int]] = set()  # statements and places that a result comes from
        self.claimed: dict[tuple[int, Var], int] = {}  # who hands an array on
        self._visit(body)
        on_paths = Versions(self.made, of_nothing)
        for cell in cells:
            self.given |= {v for v in on_paths.origins(cell._value) if isinstance(v, Var)}

    def _visit(self, block: Block) -> None:
        for s in block.statements:
            self.home[id(s)] = block
            for row in (s.outs, s.phis if isinstance(s, (For, While)) else ()):
                self.made.update(dict.fromkeys(row, s))
                self.place.update((v, k) for k, v in enumerate(row))
            for inner in core.blocks_of(s):
                self._visit(inner)

    def returned(self, value: Array) -> Array:
        """A result, or a copy of it."""
        cell = id(value.root())
        if cell in self.own or not (value.ndim or value.atom in self.without_axes):
            return value
        root = self._root(value.atom)
        if root in self.given:
            if (cell, value.atom) not in self.copies:
                self.copies[cell, value.atom] = apply(copy, value)
            return self.copies[cell, value.atom]
        self.own.add(cell)
        ends = {root}
        self._follow(root, ends)
        self.given |= ends
        return value

    def _root(self, var: Var) -> Var:
        """The array that owns the memory of a view; an array that is no view is its own root."""
        made = self.made.get(var)
        while isinstance(made, Apply) and made.primitive.view_back is not None:
            if not isinstance(made.args[0], Var):
                break
            var = made.args[0]
            made = self.made.get(var)
        return var

    def _follow(self, root: Var, ends: set[Var]) -> None:
        """Copy arrays of other owners that branches or loops yield; ``ends`` collects roots."""
        s, k = self.made.get(root), self.place.get(root, 0)
        if not isinstance(s, (If, For, While)):
            ends.add(root)
            return
        if root in s.outs:
            ends.add(root)  # it may be another result as it is
        if (id(s), k) in self.seen:
            return
        self.seen.add((id(s), k))
        if isinstance(s, (For, While)):
            home = self.home[id(s)]
            before = home, home.statements.index(s)
            first = self._apart(s.inits[k], (id(s), k), before, ends, root.name)
            s.inits = (*s.inits[:k], first, *s.inits[k + 1 :])
        for block in (s.then, s.orelse) if isinstance(s, If) else (s.body,):
            inside = None if isinstance(s, If) else core.defined_vars(block) | {*s.phis}
            last = block, len(block.statements)
            end = block.results[k]
            block.results[k] = self._apart(end, (id(block), k), last, ends, root.name, inside)

    def _apart(
        self,
        atom: Atom,
        slot: tuple[int, int],
        where: tuple[Block, int],
        ends: set[Var],
        name: str | None,
        inside: Collection[Var] | None = None,
    ) -> Atom:
        """An atom that a block yields, or a copy of it if its memory has another owner."""
        if not isinstance(atom, Var) or not atom.type.ndim:
            return atom
        root = self._root(atom)
        handed_on, k = slot
        twice = self.claimed.setdefault((handed_on, root), k) != k
        if root not in self.given and not twice and (inside is None or root in inside):
            self._follow(root, ends)
            return atom
        block, at = where
        out = Var(atom.type, name or atom.name, atom.origin)
        made = Apply((out,), copy, (atom,), {}, atom.origin)
        block.statements.insert(at, made)
        current().definitions[out] = self.made[out] = made
        return out
