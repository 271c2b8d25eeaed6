"""The effects of statements beside defining their results: stores, prints, errors.

Core is functional: a store defines the next version of its array, and the printer puts versions
into one piece of memory. Passes that move, repeat or drop statements ask here what these do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, Effect, If, Statement, Var

_REFUSING = ("raise", "assert")


def is_store(s: object) -> TypeGuard[Apply]:
    """True for a statement that defines the next version of its first operand, an array."""
    return isinstance(s, Apply) and s.primitive.kind == "store"


def is_indexed_store(s: object) -> TypeGuard[Apply]:
    """True for ``x[index] = v``, ``x[index] += v`` and ``np.add.at(x, index, v)``."""
    return is_store(s) and "index" in s.params


def is_plain_store(s: object) -> TypeGuard[Apply]:
    """True for ``x[index] = v`` and ``x[index] += v``."""
    return is_indexed_store(s) and not s.primitive.repeats


def is_access(s: object) -> TypeGuard[Apply]:
    """True for ``x[index]``, and for a plain store."""
    return is_plain_store(s) or (isinstance(s, Apply) and s.primitive.kind == "indexing")


def is_size(s: object) -> TypeGuard[Apply]:
    """True for the size of an axis: it needs no element of its array."""
    return isinstance(s, Apply) and s.primitive.kind == "size"


def stored_into(statements: Iterable[Statement]) -> set[Var]:
    """The versions of arrays into which plain stores go, among statements and those within."""
    return {s.args[0] for s in core.walk(Block([*statements])) if is_plain_store(s)}


def stored_by(statements: Iterable[Statement]) -> set[Var]:
    """The versions of arrays that plain stores define, among statements and those within."""
    return {s.out for s in core.walk(Block([*statements])) if is_plain_store(s)}


def acts(s: Statement) -> bool:
    """True for a statement that does more than define its results, those within aside."""
    if isinstance(s, Effect):
        return True
    return isinstance(s, Apply) and getattr(s.primitive, "effects", False)


def has_effects(s: Statement) -> bool:
    """True if a statement, or one within it, does more than define its results."""
    return acts(s) or any(acts(t) for block in core.blocks_of(s) for t in core.walk(block))


def ends_call(s: Statement) -> bool:
    """True for a ``raise`` and for an ``assert``: where they are reached they may end the call."""
    return isinstance(s, Effect) and s.template.strip().startswith(_REFUSING)


def refuses(s: Statement) -> bool:
    """True for a branch that does nothing but raise where its test holds."""
    if not isinstance(s, If) or s.outs or s.orelse.statements:
        return False
    raised = [isinstance(t, Effect) and t.template.startswith("raise") for t in s.then.statements]
    return any(raised) and all(raised)
