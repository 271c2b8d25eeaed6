"""Loops that only add to data-dependent elements: threads share them by atomic additions.

Before::

    for i in range(n):
        out[columns[i]] = out[columns[i]] + x[i]

After: ``out[columns[i]] += x[i]``, one atomic addition to memory. The order of an element's terms,
and with it the last bits of the sum, is the order in which threads arrive.
"""

from __future__ import annotations

from collections.abc import Callable

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, Statement, Var
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.loops.nest import build_general
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import getitem, update, update_add

_ATOMIC = ("f4", "f8", "i4", "u4", "i8", "u8")


def is_chosen(s: Apply, definition: Callable[[Var], Statement | None]) -> bool:
    """True if ``s`` adds, in a dtype with atomic addition, at an index read from an array."""
    if s.primitive is not update_add or s.out.type.dtype.str[1:] not in _ATOMIC:
        return False
    pending, seen = list(s.args[2:]), set[Var]()
    while pending:
        atom = pending.pop()
        made = definition(atom) if isinstance(atom, Var) and atom not in seen else None
        if isinstance(made, Apply):
            seen.update(made.outs)
            if made.primitive is getitem:
                return True
            pending += made.args
    return False


def added_arrays(loop: For, builder: Builder) -> set[Var]:
    """The arrays that a loop carries and only adds to, at data-dependent elements."""
    nest = build_general(loop, builder)
    if isinstance(nest, Refused):
        return set()
    define = builder.definitions.get
    other = {a.array for a in nest.accesses if not is_chosen(a.statement, define)}
    return {phi for k, phi in enumerate(loop.phis) if phi.type.ndim and k not in other}


def write_as_additions(block: Block) -> None:
    """Write ``x[k] = x[k] + v`` as ``x[k] += v``, in place, where nothing else reads the sum."""
    for s in block.statements:
        for inner in core.blocks_of(s):
            write_as_additions(inner)
    made = {o: s for s in block.statements for o in s.outs}
    for s in list(block.statements):
        if not isinstance(s, Apply) or s.primitive is not update:
            continue
        total = made.get(s.args[1])
        if not isinstance(total, Apply) or total.primitive is not add:
            continue
        if count_uses(block, total.out) > 1:
            continue
        for read, other in (total.args, total.args[::-1]):
            found = made.get(read)
            if not isinstance(found, Apply) or not _is_same(found, s):
                continue
            if count_uses(block, found.out) == 1:
                if total.out.type.dtype == s.out.type.dtype:
                    s.primitive, s.args = update_add, (s.args[0], other, *s.args[2:])
                    block.statements.remove(total)
                    block.statements.remove(found)
                    break


def _is_same(read: Apply, store: Apply) -> bool:
    """True if ``read`` reads the element that ``store`` overwrites."""
    return (
        read.primitive is getitem
        and read.args == (store.args[0], *store.args[2:])
        and read.params["index"] == store.params["index"]
    )
