"""Tape storage for arrays whose size differs between iterations: one after the other in one array.

In the forward and in the reverse loop::

    z_top_new = z_top + z.shape[0]
    while z_saved.shape[0] < z_top_new:
        z_saved = np.concatenate((z_saved, np.empty_like(z_saved)))
    z_saved[z_top:z_top_new] = z
    ...
    z = z_saved[z_top:z_top + z_size]

Every loop and branch around carries the array and its top. The reverse sweep reads the last version
of the array at the tops, which are saved like any other number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.autodiff.tape.nest_storage import Nests
from calque.transpiler.autodiff.tape.storage import FIRST_CAPACITY
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import first_use, insert_before
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Statement, Var, While
from calque.transpiler.ir.types import INT, dim_symbols
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import space
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import getitem, update

Compound = If | For | While
Path = list[tuple[Compound, Block]]  # the statements around, each with the block that is entered


class FlatSaves(Nests):
    """Saves values that no array of a fixed size for each iteration can hold."""

    def save_flat(self, value: Var, block: Block) -> None:
        """Save a value of any size where the forward program defines it; ``block`` reads it."""
        path, inner, where = self._place(value)
        outermost = path[0][0]
        with self.forward_of(outermost), self.builder.block() as allocation:
            first = apply(space, FIRST_CAPACITY, dtype=value.type.dtype)
        first.atom.name = name = self.saved_name(value)
        insert_before(self.function.body, outermost, allocation.statements)
        flat: Atom = first.atom
        top: Atom = 0
        entering: list[tuple[Atom, Atom]] = []
        for s, _ in path:
            entering.append((flat, top))
            if isinstance(s, (For, While)):
                flat, top = self._variables(first.atom, name, s)
                s.phis, s.inits = (*s.phis, flat, top), (*s.inits, *entering[-1])
        with self.forward_of(outermost), self.builder.block() as stores:
            with self.builder.at(value.origin or path[-1][0].origin):
                sizes, after, stored = self._stored(value, flat, top)
        inner.statements[where:where] = stores.statements
        found: tuple[Atom, Atom] = (stored, after)
        for (s, around), before in zip(path[::-1], entering[::-1], strict=True):
            outs = self._variables(first.atom, name, s)
            around.results += found
            if isinstance(s, If):
                (s.orelse if around is s.then else s.then).results += before
            s.outs, found = (*s.outs, *outs), outs
        self._read_flat(value, block, found[0], top, sizes)

    def _place(self, value: Var) -> tuple[Path, Block, int]:
        """The definition of a value: the path to its block, the block, the position after it."""

        def search(block: Block, path: Path) -> tuple[Path, Block, int] | None:
            for where, s in enumerate(block.statements):
                if value in s.outs:
                    return path, block, where + 1
                if not isinstance(s, Compound):
                    continue
                if isinstance(s, (For, While)) and value in s.phis:
                    return [*path, (s, s.body)], s.body, 0
                for inner in core.blocks_of(s):
                    if (found := search(inner, [*path, (s, inner)])) is not None:
                        return found
            return None

        found = search(self.function.body, [])
        assert found is not None and found[0]
        return found

    def _variables(self, first: Var, name: str | None, s: Statement) -> tuple[Var, Var]:
        """Vars for a version of the long array and of its top."""
        t = first.type.with_dims((self.builder.dims.fresh(),))
        top = Var(INT, f"{(name or 'values').removesuffix('_saved')}_top", s.origin)
        for known in dim_symbols(self.builder.dim_of(Array(top))):
            self.builder.dims.natural.add(known)
        return Var(t, name, s.origin), top

    def _stored(self, value: Var, flat: Atom, top: Atom) -> tuple[tuple[Any, ...], Any, Any]:
        """Store the value; return its sizes, the next top, and the long array."""
        sizes = Array(value).shape
        row = Array(value) if value.type.ndim == 1 else FUNCTIONS[np.ravel](Array(value))
        after = Array(top) + row.shape[0]
        larger = apply(room, Array(flat), after, several=True)
        larger.atom.name = flat.name
        index = (slice(Slot(0), Slot(1)),)
        stored = apply(update, larger, row, Array(top), after, index=index)
        stored.atom.name = flat.name
        made = self.builder.definitions[stored.atom]
        assert isinstance(made, Apply)
        made.proven = True
        return sizes, atom(after), stored.atom

    def _read_flat(
        self, value: Var, block: Block, flat: Var, top: Atom, sizes: tuple[Any, ...]
    ) -> None:
        """Let ``block`` of the reverse sweep read the value where it first needs it."""
        where = first_use(block, value)
        with self.builder.block() as new, self.builder.at(self.origin_at(block, where)):
            size = sizes[0]
            for other in sizes[1:]:
                size = size * other
            index = (slice(Slot(0), Slot(1)),)
            read = apply(getitem, Array(flat), Array(top), Array(top) + size, index=index)
            part = self.builder.definitions[read.atom]
            assert isinstance(part, Apply)
            part.proven = True
            if value.type.ndim > 1:
                read = FUNCTIONS[np.reshape](read, sizes)
        made = new.statements[-1]
        assert isinstance(made, Apply)
        out = made.outs[0]
        out.type, out.name, out.word = value.type, value.name, value.word
        block.statements[where:where] = new.statements
        core.substitute(block, {value: read.atom})
