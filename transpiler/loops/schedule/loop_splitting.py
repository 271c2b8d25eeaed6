"""Distribute a loop with independent iterations into two, cut before a given statement.

Before::

    for i in range(m):
        mean = (sum of x[:, i]) / n
        out[i] = sum of (x[:, i] - mean) ** 2

After::

    for i in range(m):
        mean_of_iterations[i] = (sum of x[:, i]) / n
    for i in range(m):
        mean = mean_of_iterations[i]
        out[i] = sum of (x[:, i] - mean) ** 2
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Slot, Statement, Var
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.loops.nest import last_versions
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.indexing import getitem, update

_PLACE = {"index": (Slot(0),)}


def split_before(loop: For, statement: Statement, builder: Builder) -> For | None:
    """Cut ``loop`` before a statement of its body; return the loop over the rest, or None.

    Arrays for the scalars that cross the cut are emitted. None means that the loop cannot be cut.
    """
    if statement not in loop.body.statements or (loop.start, loop.step) != (0, 1):
        return None
    at = loop.body.statements.index(statement)
    before, after = loop.body.statements[:at], loop.body.statements[at:]
    later = last_versions(before)
    last = {phi: later.get(phi, phi) for phi in loop.phis}
    needed = [v for v in core.free_vars(Block(after, loop.body.results)) if isinstance(v, Var)]
    made = {o: s for s in before for o in s.outs}
    crossing = [v for v in needed if v in made and v not in last.values()]
    if last.keys() & set(needed) - set(last.values()) or any(v.type.ndim for v in crossing):
        return None  # the rest reads an old version of an array
    sizes = [v for v in crossing if _is_size(made[v], made)]
    (index,) = renewed(builder, [loop.index])
    arrays = [(v, _array_of(v, loop)) for v in crossing if v not in sizes]
    kept = [_kept(v, array, loop.index) for v, array in arrays]
    first = [last[phi] for phi in loop.phis]
    handed = tuple(out.again() for out in loop.outs)  # values before the rest has run
    phis = renewed(builder, loop.phis)
    renamed: dict[Var, Any] = {loop.index: index, **dict(zip(first, phis, strict=True))}
    outs = tuple(Var(array.type, array.name) for _, array in arrays)
    head: list[Statement] = []
    for v in sizes:
        head += cloned(builder, Block([made[v]]), renamed).statements
    for (v, _), out in zip(arrays, outs, strict=True):
        renewed(builder, [v], renamed)
        head.append(Apply((renamed[v],), getitem, (out, index), _PLACE, v.origin, proven=True))
    body = Block(after, list(loop.body.results))
    core.substitute(body, renamed)
    body.statements[:0] = head
    parts = {"phis": phis, "inits": handed, "body": body, "parallel": loop.parallel}
    rest = derived(loop, index=index, start=0, step=1, **parts)
    loop.body = Block([*before, *kept], [*first, *(s.out for s in kept)])
    loop.phis = (*loop.phis, *(s.args[0] for s in kept))
    loop.inits, loop.outs = (*loop.inits, *(array for _, array in arrays)), (*handed, *outs)
    return rest


def _is_size(s: Statement, made: dict[Var, Statement]) -> bool:
    """True if ``s`` asks the size of an array from outside the loop: it can be computed again."""
    return is_size(s) and not any(a in made for a in core.operands(s))


def _array_of(number: Var, loop: For) -> Var:
    made = apply(empty, wrap(loop.stop), dtype=number.type.dtype)
    made.atom.name = f"{number.name}_of_iterations" if number.name else "kept"
    return made.atom


def _kept(number: Var, array: Var, index: Var) -> Apply:
    version, out = (Var(array.type, array.name) for _ in range(2))
    return Apply((out,), update, (version, number, index), _PLACE, number.origin, proven=True)
