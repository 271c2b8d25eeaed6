"""The readers of every value: statements, and blocks that give it as a result.

A statement *reads* its operands and, from outside, what the blocks within it read. A *use* is one
place where a value stands: an operand of a statement at any depth, or a result of a block. A value
with one use may be written in the place of it; a value without any is dead.
"""

from __future__ import annotations

from collections.abc import Iterator

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Block, Statement, Var
from calque.transpiler.ir.effects import is_size

Reader = Statement | Block


def uses_in(block: Block) -> Iterator[tuple[Var, Reader]]:
    """Every use in a block, at any depth, in order: a value, and the reader where it stands."""
    for s in block.statements:
        for atom in core.operands(s):
            if isinstance(atom, Var):
                yield atom, s
        for inner in core.blocks_of(s):
            yield from uses_in(inner)
    for atom in block.results:
        if isinstance(atom, Var):
            yield atom, block


class Uses:
    """All uses in a block, by values; it is not kept current when the block changes.

    ``uses[var]`` are its readers in order, one for each use.
    """

    def __init__(self, *blocks: Block):
        self._readers: dict[Var, list[Reader]] = {}
        for block in blocks:
            for var, reader in uses_in(block):
                self._readers.setdefault(var, []).append(reader)

    def __getitem__(self, var: Var) -> list[Reader]:
        return self._readers.get(var, [])

    def __contains__(self, var: object) -> bool:
        return var in self._readers

    def count(self, value: object) -> int:
        """The number of uses; 0 of what is no Var."""
        return len(self._readers.get(value, ())) if isinstance(value, Var) else 0


def uses_of(block: Block, var: Var) -> list[Reader]:
    """The readers of one value in a block, at any depth, one for each use."""
    return [reader for found, reader in uses_in(block) if found is var]


def readers_of(block: Block, var: Var) -> list[Reader]:
    """The readers of one value in a block, at any depth, each of them once."""
    return [*dict.fromkeys(uses_of(block, var))]


def element_readers(block: Block, array: Var) -> list[Reader]:
    """The readers of an array in a block, at any depth, but for those that ask its sizes alone."""
    return [reader for reader in readers_of(block, array) if not is_size(reader)]


def count_uses(block: Block, value: object) -> int:
    """The number of uses of one value in a block, at any depth."""
    return sum(found is value for found, _ in uses_in(block))


def reads(statement: Statement) -> dict[Var, None]:
    """The values that a statement reads, itself or within its blocks, in order."""
    found = dict.fromkeys(a for a in core.operands(statement) if isinstance(a, Var))
    for inner in core.blocks_of(statement):
        found |= core.free_vars(inner)
    return found


def is_read(statement: Statement, var: Var) -> bool:
    """True if a statement reads a value, itself or within its blocks."""
    return var in reads(statement)


def direct_readers(block: Block) -> dict[Var, list[Statement]]:
    """The statements of a block itself that read each value, or hold one that does."""
    found: dict[Var, list[Statement]] = {}
    for s in block.statements:
        for var in reads(s):
            found.setdefault(var, []).append(s)
    return found
