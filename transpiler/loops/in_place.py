"""Elementwise results written into the memory of an array that is not read any more.

``x = x + v`` in a loop would allocate an array in each iteration; a store into ``x`` needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, If, Statement, Var
from calque.transpiler.ir.effects import is_access, is_size
from calque.transpiler.ir.uses import reads
from calque.transpiler.ir.versions import Versions, of_indexed_stores
from calque.transpiler.loops.fusion_groups import Loop, Root, leaves
from calque.transpiler.primitives.indexing import update

# arrays that only the block uses, with the value that their memory must hold at its end
Owned = Mapping[Var, Atom]


class InPlace:
    """Find results that can reuse a dead array in the units of one block; write them as stores."""

    def __init__(
        self,
        builder: Builder,
        block: Block,
        units: Sequence[Statement | Loop],
        virtual: dict[Var, Apply],
        owned: Owned,
        renewed: dict[int, int],
    ):
        self.builder, self.block, self.virtual, self.owned = builder, block, virtual, owned
        self.renewed = renewed
        self.leaf: dict[Root, tuple[int, tuple[int, ...]]] = {}
        self.kept: set[Var] = {a for a in block.results if isinstance(a, Var)}
        self.read: dict[Var, int] = {}  # unit of an array's last read outside of element loops
        for number, unit in enumerate(units):
            if isinstance(unit, Loop):
                for path, roots in leaves(unit, ()):
                    self.leaf.update((root, (number, path)) for root in roots)
            elif isinstance(unit, If):
                for inner in core.blocks_of(unit):
                    self.read.update(dict.fromkeys(core.free_vars(inner), number))
                    self.kept.update(_handed_on(inner))
            elif not is_size(unit):
                self.kept.update(a for a in core.operands(unit) if isinstance(a, Var))
                for inner in core.blocks_of(unit):
                    self.kept.update(core.free_vars(inner))

    def write(self) -> bool:
        """Write results as stores, each into another array; return False if there is none."""
        taken: set[Var] = set()
        for root in self.leaf:
            if root.kind != "map":
                continue
            for var in dict.fromkeys(v for v, _ in root.loads):
                if var not in taken and self._free(var, root):
                    self._store(root.statement, var)
                    taken.add(var)
                    break
        return bool(taken)

    def _free(self, var: Var, root: Root) -> bool:
        """True if ``root`` may be stored into ``var``: it is owned, and last read by this loop."""
        out = root.out
        if var is out or var in self.kept or var.type.dtype != out.type.dtype:
            return False
        resolve = self.builder.dims.resolve
        if [resolve(d) for d in var.type.dims] != [resolve(d) for d in out.type.dims]:
            return False
        if var not in self.owned or out not in versions(self.owned[var], self.block):
            return False
        if self.read.get(var, -1) >= self.leaf[root][0]:
            return False
        return all(self._read_before(var, root, other) for other in self.leaf)

    def _read_before(self, var: Var, root: Root, other: Root) -> bool:
        """True if ``other`` does not read ``var``, or only before ``root`` overwrites it."""
        reads = [read for v, read in other.loads if v is var]
        if other.kind == "store" and other.statement.args[0] is var:
            return False
        if not reads or self.leaf[other][0] < self.leaf[root][0]:
            return True
        return self.leaf[other] == self.leaf[root] and all(
            tuple(read) == tuple(other.written) for read in reads
        )

    def _store(self, s: Apply, array: Var) -> None:
        (out,) = s.outs
        value = Var(out.type, None, s.origin)
        made = Apply((value,), s.primitive, s.args, s.params, s.origin, s.proven, s.phase)
        params: dict[str, Any] = {"index": (Ellipsis,)}
        store = Apply((out,), update, (array, value), params, s.origin, phase=s.phase)
        at = self.block.statements.index(s)
        self.block.statements[at : at + 1] = [made, store]  # s stays as it is, for another try
        self.builder.definitions.update({value: made, out: store})
        self.renewed.update({id(made): id(s), id(store): id(s)})


def _handed_on(block: Block) -> Iterator[Var]:
    """Yield arrays whose memory may outlive a block: its results, operands of loops and views."""
    yield from (a for a in block.results if isinstance(a, Var))
    for s in core.walk(block):
        match s:
            case Apply() if is_access(s) and not s.outs[0].type.ndim:
                pass
            case Apply() if s.primitive.kind in ("elementwise", "size", "reduction"):
                pass
            case _:
                yield from (a for a in core.operands(s) if isinstance(a, Var))
        for inner in core.blocks_of(s):
            yield from (a for a in inner.results if isinstance(a, Var))


def versions(target: Atom, block: Block) -> list[Var]:
    """An array, then its earlier versions before stores and loops of a block, latest first."""
    made = {v: s for s in block.statements if not isinstance(s, If) for v in s.outs}
    found = Versions(made, of_indexed_stores).earlier(target)
    return [v for v in found if isinstance(v, Var)]


class UsesOfOwned:
    """The last reads of the arrays that only a block uses, and the branches that update them."""

    def __init__(self, block: Block, owned: Owned):
        self.read: dict[Var, int] = {}  # the number of the last statement that reads an array
        self.number = {id(s): number for number, s in enumerate(block.statements)}
        self.made: dict[int, list[tuple[Var, Var]]] = {}  # by branch: an own array, its new version
        if not owned:
            return
        makers = {v: id(s) for s in block.statements for v in s.outs}
        for var, target in owned.items():
            if var not in block.results:
                found = [(makers.get(v), v) for v in versions(target, block)]
                for maker, v in reversed(found):  # the latest of each branch
                    self.made.setdefault(maker or 0, []).append((var, v))
        for number, s in enumerate(block.statements):
            self.read.update(dict.fromkeys(reads(s), number))

    def in_arm(self, s: If, arm: Block) -> dict[Var, Atom]:
        """Own arrays of the block around ``s`` that ``arm`` may overwrite: not read later."""
        here = self.number.get(id(s), 0)
        return {
            var: arm.results[s.outs.index(made)]
            for var, made in self.made.get(id(s), ())
            if self.read.get(var, -1) <= here
        }
