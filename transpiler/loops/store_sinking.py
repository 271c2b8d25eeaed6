"""Stores moved behind what still reads the array as it was: then each can be made in place.

Core's stores give new versions, so that a value read before a store may be computed after it::

    x_bar_i = x_bar[i]                      x_bar_i = x_bar[i]
    x_bar_1 = update(x_bar, 0.0, i)   ->    y_bar_1 = update_add(y_bar, x_bar_i * w, i)
    y_bar_1 = update_add(...x_bar_i...)     x_bar_1 = update(x_bar, 0.0, i)
"""

from __future__ import annotations

from calque.transpiler.ir.core import Apply, Block, For, Statement, Var, While
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.ir.uses import reads


def late_stores(block: Block) -> None:
    """Move the stores of a block, in place; what each computes stays the same."""
    stores = [s for s in reversed(block.statements) if _is_store(s)]
    if stores:
        known = _Reads(block.statements)
        for store in stores:
            _move(block.statements, store, known)


def _is_store(s: Statement) -> bool:
    return is_indexed_store(s)


class _Reads:
    """What each statement of a block reads; where each lazy one stands: these are not moved."""

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
        """An array, and what is computed of its elements before a store."""
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
        """All that a store reads, and what that is computed of."""
        found = {a for a in store.args if isinstance(a, Var)}
        pending = list(found)
        while pending:
            made = self.makers.get(pending.pop())
            new = {*self.of[id(made)]} - found if made is not None else set()
            found |= new
            pending.extend(new)
        return found


def _move(statements: list[Statement], store: Statement, known: _Reads) -> None:
    """After the last statement that reads the old version, if nothing before needs the new one."""
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
    """Whether loops may compute a statement's elements where they are read."""
    lazy = isinstance(s, Apply) and s.primitive.kind in ("elementwise", "indexing", "linear")
    return lazy and any(v.type.ndim for v in s.outs)


def _overwritten(s: Statement) -> set[Var]:
    """The arrays that a statement may change where they are."""
    if _is_store(s):
        return {a for a in s.args[:1] if isinstance(a, Var)}  # type: ignore[union-attr]
    if isinstance(s, (For, While)):
        return {i for i in s.inits if isinstance(i, Var)}
    return set()
