"""Compute the values of a row again where a later loop of the same iteration reads them.

Before::

    for i in range(n):
        for j in range(m):
            e[i, j] = exp(x[i, j] - largest)
            total = total + e[i, j]
        for j in range(m):
            out[i, j] = e[i, j] / total

After, on a GPU, where an operation costs less than an element of memory::

    for i in range(n):
        for j in range(m):
            total = total + exp(x[i, j] - largest)
        for j in range(m):
            out[i, j] = exp(x[i, j] - largest) / total

The array ``e`` is dead then. One that is read elsewhere stays.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Slot, Var, While
from calque.transpiler.ir.effects import has_effects, is_size, is_store
from calque.transpiler.ir.rewrite import cloned
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.primitives.indexing import getitem, update

_MOST = 40  # operations


def compute_rows_again(loop: For, around: Block, builder: Builder) -> None:
    """Replace reads of arrays that only their own iteration of ``loop`` reads, in place."""
    inner = [s for s in loop.body.statements if isinstance(s, For)]
    for first in inner:
        for k, out in enumerate(first.outs):
            store = _store_of(first, k) if out.type.ndim else None
            later = _reads(out, inner, loop, around)
            if store is None or later is None:
                continue
            steps = _computation(first, store)
            if steps is None or not _reads_kept(steps, around):
                continue
            if all(_is_there(r, s, store, first, builder) for s, r in later):
                for second, read in later:
                    _replace(read, second, steps, store.args[1], first, builder)


def _store_of(first: For, k: int) -> Apply | None:
    """The store of a value of the array's dtype, into one element in each iteration; else None."""
    result = first.body.results[k]
    found = next((s for s in first.body.statements if result in s.outs), None)
    if not isinstance(found, Apply) or found.primitive is not update:
        return None
    value = found.args[1]
    plain = isinstance(value, Var) and not value.type.ndim and not value.type.weak
    if not plain or value.type.dtype != found.out.type.dtype or found.args[0] is not first.phis[k]:
        return None
    alone = count_uses(first.body, first.phis[k]) == 1
    return found if alone and _row_of(found, first) is not None else None


def _row_of(s: Apply, loop: For) -> tuple[Atom, ...] | None:
    """The indices of an element before the last one, which is the loop's counter; else None."""
    items, first = s.params["index"], s.primitive.first_index
    if not all(isinstance(i, Slot) for i in items) or len(items) != s.args[0].type.ndim:
        return None
    places = [s.args[first + i.position] for i in items]
    return tuple(places[:-1]) if places[-1] is loop.index else None


def _reads(
    array: Var, inner: list[For], loop: For, around: Block
) -> list[tuple[For, Apply]] | None:
    """The reads of elements, each with its loop, if nothing else needs the array; else None."""
    found = []
    for second in inner:
        for s in core.walk(second.body):
            if isinstance(s, Apply) and s.primitive is getitem and s.args[0] is array:
                if s not in second.body.statements:
                    return None
                found.append((second, s))
    handed = [k for k, r in enumerate(loop.body.results) if r is array]
    sizes = sum(1 for s in core.walk(loop.body) if is_size(s) and s.args[0] is array)
    if count_uses(loop.body, array) != len(found) + len(handed) + sizes or len(handed) > 1:
        return None
    dead = all(count_uses(around, loop.outs[k]) == 0 for k in handed)
    return found if found and dead else None


def _computation(first: For, store: Apply) -> list[Apply] | None:
    """The operations of an iteration that make the stored value, in order; None if it cannot."""
    needed: set[Any] = {store.args[1]}
    steps: list[Apply] = []
    for s in reversed(first.body.statements):
        if not needed & {*s.outs}:
            continue
        if not isinstance(s, Apply) or has_effects(s) or is_store(s):
            return None
        steps.insert(0, s)
        needed |= {a for a in s.args if isinstance(a, Var)}
    return None if len(steps) > _MOST or needed & {*first.phis} else steps


def _reads_kept(steps: list[Apply], around: Block) -> bool:
    """True if nothing is stored into what operations read: no later read needs a copy."""
    read = {s.args[0] for s in steps if s.primitive is getitem}
    for s in core.walk(around):
        if is_store(s) and s.args[0] in read:
            return False
        if isinstance(s, (For, While)) and read & {*s.inits}:
            return False
    return True


def _is_there(read: Apply, second: For, store: Apply, first: For, builder: Builder) -> bool:
    """True if a later loop reads the element that the same iteration of ``first`` has stored."""
    one, other = (
        (builder.dim_of(wrap(s.start)), builder.dim_of(wrap(s.stop)), s.step)
        for s in (first, second)
    )
    return one == other and _row_of(read, second) == _row_of(store, first)


def _replace(
    read: Apply, second: For, steps: list[Apply], value: Atom, first: For, builder: Builder
) -> None:
    values = builder.dim_values
    counters = None
    if first.index in values and second.index in values:
        counters = dict.fromkeys(dim_symbols(values[first.index]), values[second.index])
    mapping: dict[Var, Any] = {first.index: second.index}
    made = cloned(builder, Block(list(steps)), mapping, counters)
    at = second.body.statements.index(read)
    second.body.statements[at : at + 1] = made.statements
    assert isinstance(value, Var)
    core.substitute(second.body, {read.out: mapping.get(value, value)})
