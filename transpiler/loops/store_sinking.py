"""Move stores after the last read of the old version of an array, so that each can be in place.

Stores in Core make new versions, so a value read before a store may be computed after it::

    x_bar_i = x_bar[i]                      x_bar_i = x_bar[i]
    x_bar_1 = update(x_bar, 0.0, i)   ->    y_bar_1 = update_add(y_bar, x_bar_i * w, i)
    y_bar_1 = update_add(...x_bar_i...)     x_bar_1 = update(x_bar, 0.0, i)
"""

from __future__ import annotations

from calque.transpiler.ir.core import Apply, Block, For, Statement, Var, While
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.ir.uses import reads


def late_stores(block: Block) -> None:
    """Sink the stores of a block, in place; all values stay the same."""
    stores = [s for s in reversed(block.statements) if is_indexed_store(s)]
    if stores:
        known = _Reads(block.statements)
        for store in stores:
            _move(block.statements, store, known)


class _Reads:
    """The reads of each statement of a block, and the positions of the lazy ones, which stay."""

    def __init__(self, statements: list[Statement]):
        self.number = {id(s): k for k, s in enumerate(statements)}
        self.of = {id(s): reads(s) for s in statements}
        self.lazy = {id(s) for s in statements if _is_lazy(s)}
        self.makers: dict[Var, Statement] = {}
        self.readers: dict[Var, list[Statement]] = {}
        for s in statements:
            if id(s) in self.lazy:
                self.makers.update(dict.fromkeys(s.outs, s))
                for v in self.of[id(s)]:
                    self.readers.setdefault(v, []).append(s)

    def computed_from(self, base: object, store: Statement) -> set[Var]:
        """An array, and the lazy results computed from it before a store."""
        found = {base} if isinstance(base, Var) else set()
        pending, limit = list(found), self.number[id(store)]
        while pending:
            for s in self.readers.get(pending.pop(), ()):
                if self.number[id(s)] < limit:
                    new = set(s.outs) - found
                    found |= new
                    pending.extend(new)
        return found

    def inputs(self, store: Apply) -> set[Var]:
        """All variables that a store reads, directly or through lazy results."""
        found = {a for a in store.args if isinstance(a, Var)}
        pending = list(found)
        while pending:
            made = self.makers.get(pending.pop())
            new = {*self.of[id(made)]} - found if made is not None else set()
            found |= new
            pending.extend(new)
        return found


def _move(statements: list[Statement], store: Statement, known: _Reads) -> None:
    """Move a store after the last reader of the old version, but before users of the new one."""
    at = statements.index(store)
    assert isinstance(store, Apply)
    old = known.computed_from(store.args[0], store)
    needed = known.inputs(store)
    last = at
    for k in range(at + 1, len(statements)):
        now = statements[k]
        reads = known.of[id(now)]
        if store.outs[0] in reads or not needed.isdisjoint(_overwritten(now)):
            break
        if not old.isdisjoint(reads):
            last = k
            old.update(now.outs if id(now) in known.lazy else ())
    if last > at:
        statements.insert(last, statements.pop(at))


def _is_lazy(s: Statement) -> bool:
    """True if loops may compute a statement's elements at their reads, without an array."""
    lazy = isinstance(s, Apply) and s.primitive.kind in ("elementwise", "indexing", "linear")
    return lazy and any(v.type.ndim for v in s.outs)


def _overwritten(s: Statement) -> set[Var]:
    """The arrays that a statement may change in place."""
    if is_indexed_store(s):
        return {a for a in s.args[:1] if isinstance(a, Var)}
    if isinstance(s, (For, While)):
        return {i for i in s.inits if isinstance(i, Var)}
    return set()
