"""Range queries on statements: the names and memory that a range of a block changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from calque.transpiler.ir.core import Block, Statement

Change = tuple[int, int]  # bit masks of the names that are bound and the memory that is written
_WIDTH = 16  # entries of one row that are combined into one of the next


class StatementRanges:
    """The changes of statements, and of longer and longer ranges of them."""

    def __init__(self, of: Callable[[Statement], Change]):
        self._of = of
        self._known: dict[int, Change] = {}  # by the id of a statement
        self._rows: dict[int, list[list[Change]]] = {}  # by the id of a block

    def of(self, s: Statement) -> Change:
        """The changes that one statement makes, also within its blocks."""
        if id(s) not in self._known:
            self._known[id(s)] = self._of(s)
        return self._known[id(s)]

    def meet(self, block: Block, start: int, end: int, names: int, memory: int) -> bool:
        """True if a statement in a range binds one of these names or writes this memory."""
        if not names and not memory:
            return False

        def hit(changes: Iterable[Change]) -> bool:
            return any(binds & names or writes & memory for binds, writes in changes)

        statements = block.statements
        if end - start <= 2 * _WIDTH:
            return hit(map(self.of, statements[start:end]))
        rows = self._rows_of(block)
        first, last = -(-start // _WIDTH), end // _WIDTH
        if hit(map(self.of, statements[start : first * _WIDTH] + statements[last * _WIDTH : end])):
            return True
        for row, _ in pairwise(rows):
            if last - first <= 2 * _WIDTH:
                return hit(row[first:last])
            start, end, first, last = first, last, -(-first // _WIDTH), last // _WIDTH
            if hit(row[start : first * _WIDTH] + row[last * _WIDTH : end]):
                return True
        return hit(rows[-1][first:last])

    def _rows_of(self, block: Block) -> list[list[Change]]:
        """The changes of a block's statements, of 16 together, of 16 such groups, and so on."""
        if id(block) not in self._rows:
            row = list(map(self.of, block.statements))
            rows = self._rows[id(block)] = []
            while not rows or len(row) > 2 * _WIDTH:
                row = [_together(row[k : k + _WIDTH]) for k in range(0, len(row), _WIDTH)]
                rows.append(row)
        return self._rows[id(block)]


def _together(changes: Iterable[Change]) -> Change:
    names = memory = 0
    for binds, writes in changes:
        names |= binds
        memory |= writes
    return names, memory
