"""Stores moved behind what still reads the array as it was: then each can be made in place.

Core's stores give new versions, so that a value read before a store may be computed after it::

    x_bar_i = x_bar[i]                      x_bar_i = x_bar[i]
    x_bar_1 = update(x_bar, 0.0, i)   ->    y_bar_1 = update_add(y_bar, x_bar_i * w, i)
    y_bar_1 = update_add(...x_bar_i...)     x_bar_1 = update(x_bar, 0.0, i)
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, Statement, Var, While
from calque.transpiler.loops.accesses import STORES


def late_stores(block: Block) -> None:
    """Move the stores of a block, in place; what each computes stays the same."""
    for store in [s for s in reversed(block.statements) if _is_store(s)]:
        _move(block.statements, store)


def _is_store(s: Statement) -> bool:
    return isinstance(s, Apply) and s.primitive in STORES


def _move(statements: list[Statement], store: Statement) -> None:
    """After the last statement that reads the old version, if nothing before needs the new one."""
    at = statements.index(store)
    assert isinstance(store, Apply)
    old = _computed_from(store.args[0], statements[:at])
    needed = _inputs(store, statements[:at])
    last = at
    for k in range(at + 1, len(statements)):
        now = statements[k]
        reads = _reads(now)
        if store.outs[0] in reads or not needed.isdisjoint(_overwritten(now)):
            break
        if not old.isdisjoint(reads):
            last = k
            old.update(now.outs if _is_lazy(now) else ())
    if last > at:
        statements.insert(last, statements.pop(at))


def _is_lazy(s: Statement) -> bool:
    """Whether loops may compute a statement's elements where they are read."""
    lazy = isinstance(s, Apply) and s.primitive.kind in ("elementwise", "indexing", "linear")
    return lazy and any(v.type.ndim for v in s.outs)


def _reads(s: Statement) -> set[Var]:
    found = {a for a in core.operands(s) if isinstance(a, Var)}
    for inner in core.blocks_of(s):
        found.update(core.free_vars(inner))
    return found


def _computed_from(base: object, before: list[Statement]) -> set[Var]:
    """An array, and what is computed of its elements."""
    found = {base} if isinstance(base, Var) else set()
    for s in before:
        if _is_lazy(s) and not found.isdisjoint(_reads(s)):
            found.update(s.outs)
    return found


def _inputs(store: Apply, before: list[Statement]) -> set[Var]:
    """All that a store reads, and what that is computed of."""
    found = {a for a in store.args if isinstance(a, Var)}
    for s in reversed(before):
        if _is_lazy(s) and not found.isdisjoint(s.outs):
            found |= _reads(s)
    return found


def _overwritten(s: Statement) -> set[Var]:
    """The arrays that a statement may change where they are."""
    if _is_store(s):
        return {s.args[0]} & _reads(s)  # type: ignore[union-attr]
    if isinstance(s, (For, While)):
        return {i for i in s.inits if isinstance(i, Var)}
    return set()
