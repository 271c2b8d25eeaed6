"""Deterministic scatters on many threads: iterations are sorted by the element they add to.

Before, on a GPU with ``deterministic=True``, one iteration after the other::

    for i in range(n):
        out[k[i]] += v[i]

After: the iterations of an element (cell) are contiguous, in order, and one thread adds them::

    for i in range(n):
        cells[i] = k[i]
    order = np.argsort(cells, kind="stable")
    sorted_cells = cells[order]
    for cell in range(out.size):
        first, last = np.searchsorted(sorted_cells, cell), np.searchsorted(.., side="right")
        for p in range(first, last):
            i = order[p]
            out[cell] += v[i]

A cell that most iterations choose is summed by a single thread: slow, but correct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Slot, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.rewrite import cloned_loop, derived, emit_loop
from calque.transpiler.loops.chosen_cells import added_arrays, write_as_additions
from calque.transpiler.loops.parallelize import of_arrays
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.indexing import getitem, update, update_add
from calque.transpiler.primitives.sorting import argsort, searchsorted

_CELL = {"index": (Slot(0),)}


@dataclass(frozen=True)
class _Scatter:
    """The one store of a loop, its data-dependent index and axis, and the inner loop."""

    store: Apply
    chosen: Var
    axis: int
    inner: For | None


def sort_scatters(function: Function, builder: Builder) -> None:
    """Rewrite the scatters of a function as sorted sums, in place."""
    with builder.active():
        write_as_additions(function.body)
        _within(function.body, builder)
    remove_dead_code(function)


def _within(block: Block, builder: Builder) -> None:
    made: list[Statement] = []
    for s in block.statements:
        found = _scatter_of(s, builder) if isinstance(s, For) else None
        if found is None or not isinstance(s, For):
            for inner in core.blocks_of(s):
                _within(inner, builder)
            made.append(s)
            continue
        with builder.block() as new, builder.at(s.origin):
            order, cells = _sorted_cells(s, found, builder)
            _add_by_cell(s, found, order, cells, builder)
        label_rest(new.statements, s.phase)
        made += new.statements
    block.statements[:] = made


def _scatter_of(s: For, builder: Builder) -> _Scatter | None:
    """The scatter that is the only effect of a loop; None if the loop is not of that form."""
    if (s.start, s.step) != (0, 1) or len(s.phis) != 1 or s.index not in builder.dim_values:
        return None
    added = added_arrays(s, builder)
    if not added or not of_arrays(s, builder, added).parallel or of_arrays(s, builder).parallel:
        return None
    stores = [t for t in core.walk(s.body) if isinstance(t, Apply) and t.primitive is update_add]
    inner = [t for t in s.body.statements if core.blocks_of(t)]
    if len(stores) != 1 or len(inner) > 1 or (inner and inner[0] is not s.body.statements[-1]):
        return None
    loop = inner[0] if inner else None
    if loop is not None and (not isinstance(loop, For) or not _is_plain(loop, s)):
        return None
    return _chosen(stores[0], s, loop)


def _is_plain(inner: For, outer: For) -> bool:
    """True if the inner loop has no nested blocks, and the same trip count in every iteration."""
    if (inner.start, inner.step) != (0, 1) or any(map(core.blocks_of, inner.body.statements)):
        return False
    made = next((t for t in outer.body.statements if inner.stop in t.outs), None)
    own = {outer.index, *(o for t in outer.body.statements for o in t.outs)}
    return made is None or (
        is_size(made) and own.isdisjoint(made.args)
    )


def _chosen(store: Apply, loop: For, inner: For | None) -> _Scatter | None:
    """The scatter with its one data-dependent index, computed in each iteration; else None."""
    items, first = store.params["index"], store.primitive.first_index
    if not all(isinstance(item, Slot) for item in items):
        return None
    places = [store.args[first + item.position] for item in items]
    own = {o for t in loop.body.statements for o in t.outs}
    axes = [axis for axis, place in enumerate(places) if place in own or place is loop.index]
    if len(axes) != 1 or places[axes[0]] is loop.index:
        return None
    within = {o for t in inner.body.statements for o in t.outs} if inner is not None else set()
    if within.intersection(p for p in places if isinstance(p, Var)):
        return None
    return _Scatter(store, places[axes[0]], axes[0], inner)


def _sorted_cells(s: For, found: _Scatter, builder: Builder) -> tuple[Array, Array]:
    """The iterations sorted by the cells that they choose, and the sorted cells."""
    mapping: dict[Var, Any] = {}
    copy = _copy(s, mapping, builder)
    made = apply(empty, wrap(s.stop), dtype=np.dtype("i8"))
    made.atom.name = "cells"
    phi, stored, out = (Var(made.type, "cells", s.origin) for _ in range(3))
    chosen = mapping[found.chosen]
    at = next(k for k, t in enumerate(copy.body.statements) if chosen in t.outs)
    store = Apply((stored,), update, (phi, chosen, copy.index), _CELL, s.origin, proven=True)
    copy.body = Block([*copy.body.statements[: at + 1], store], [stored])
    copy.phis, copy.inits, copy.outs = (phi,), (made.atom,), (out,)
    builder.emit(copy)
    order = apply(argsort, Array(out), axis=0, kind="stable")
    cells = apply(getitem, Array(out), order, index=(Slot(0),))
    order.atom.name, cells.atom.name = "order", "sorted_cells"
    return order, cells


def _copy(s: For, mapping: dict[Var, Any], builder: Builder) -> For:
    copy = cloned_loop(builder, s, mapping)
    for t in core.walk(copy.body):  # the array's size is that of its initial version
        if is_size(t) and t.args[0] in copy.phis:
            t.args = (copy.inits[0], *t.args[1:])
    return copy


def _add_by_cell(s: For, found: _Scatter, order: Array, cells: Array, builder: Builder) -> None:
    """Emit the loops over cells, over the inner loop, and over a cell's iterations."""
    mapping: dict[Var, Any] = {}
    copy = _copy(s, mapping, builder)
    inner = mapping[found.inner.outs[0]] if found.inner is not None else None
    within = next((t for t in copy.body.statements if inner in t.outs), None)
    (phi,), (whole,) = s.phis, s.inits
    size = wrap(builder.size_of(whole.type.dims[found.axis], Array(whole), found.axis))
    cell = loop_index(0, builder.dim_of(size) - 1, "cell")
    with builder.block() as body:
        ends = [apply(searchsorted, cells, cell, side=side) for side in ("left", "right")]
        for end, called in zip(ends, ("first", "last"), strict=True):
            end.atom.name = called
        chain = [Var(phi.type, phi.name, s.origin) for _ in range(6)]
        inner_loop = _inner_loop(copy, within, mapping[found.chosen], order, cell, builder)
        inner_loop.start, inner_loop.stop = ends[0].atom, ends[1].atom
        inner_loop.outs = (chain[0],)
        if isinstance(within, For):
            sizes = [t for t in copy.body.statements if within.stop in t.outs]
            body.statements += sizes
            inner_loop.body.statements = [t for t in inner_loop.body.statements if t not in sizes]
            within.phis, inner_loop.inits = (chain[1],), (chain[1],)
            within.outs, within.inits = (chain[2],), (chain[3],)
            within.body = Block([inner_loop], [chain[0]])
            builder.emit(within)
        else:
            inner_loop.inits = (chain[3],)
            builder.emit(inner_loop)
        body.results = [chain[2] if isinstance(within, For) else chain[0]]
    carried = [chain[3]], [whole], body, s.outs
    emit_loop(builder, cell.atom, (0, size, 1), *carried, origin=s.origin, scheduled=True)


def _inner_loop(
    copy: For, within: Statement | None, chosen: Var, order: Array, cell: Array, builder: Builder
) -> For:
    """A loop over a cell's iterations, with the original body."""
    p = Var(copy.index.type, "p", copy.origin)
    i = Var(order.type.with_dims(()), copy.index.name, copy.origin)
    read = Apply((i,), getitem, (order.atom, p), _CELL, copy.origin, proven=True)
    before = [t for t in copy.body.statements if t is not within and chosen not in t.outs]
    phi, results, inner = copy.phis[0], list(copy.body.results), []
    if isinstance(within, For):
        phi, results, inner = within.phis[0], list(within.body.results), within.body.statements
    body = Block([read, *before, *inner], results)
    core.substitute(body, {copy.index: i, chosen: cell.atom})
    made = derived(copy, outs=(), index=p, phis=(phi,), inits=(), body=body)
    made.scheduled, made.step = True, 1
    return made
