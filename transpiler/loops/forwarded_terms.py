"""Compute the terms of a running sum where they are summed instead of storing them in an array.

Before, on a grid, where each loop is a kernel launch::

    for i in range(n):
        squares[i] = x[i] * x[i]
    for i in range(n):
        total = total + squares[i]
        out[i] = total

After::

    for i in range(n):
        total = total + x[i] * x[i]
        out[i] = total

A long sum is computed in parts and reads its terms twice: reading ``x`` twice moves less memory
than storing the terms and reading them twice. An array that anything else reads stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.uses import element_readers, readers_of
from calque.transpiler.loops.accesses import is_element
from calque.transpiler.loops.cell_nests import CellNest, cell_nest, is_number, is_whole
from calque.transpiler.loops.loop_reductions import is_scan
from calque.transpiler.loops.whole_nests import index_of, touched_at
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.indexing import checked_index, getitem, update
from calque.transpiler.primitives.shapes import flat, reshape


def forward_terms(function: Function, builder: Builder) -> None:
    """Compute such terms where they are read, in place."""
    with builder.active():
        for block in _blocks(function.body):
            for scan in [s for s in core.walk(block) if is_scan(s)]:
                assert isinstance(scan, For)
                for read in [s for s in scan.body.statements if isinstance(s, Apply)]:
                    if read.primitive is getitem and is_element(read, builder):
                        _forward(read, scan.body, block, builder)
    remove_dead_code(function)


def _blocks(block: Block) -> Iterator[Block]:
    """Yield the blocks whose loops are kernel launches."""
    yield block
    for s in block.statements:
        if not (isinstance(s, For) and (s.parallel or is_scan(s))):
            for inner in core.blocks_of(s):
                yield from _blocks(inner)


def _forward(read: Apply, body: Block, block: Block, builder: Builder) -> None:
    """Replace a read by the computation of its element, if nothing else reads the array."""
    shown = read.args[0]
    made = {o: s for s in block.statements for o in s.outs}
    view = made.get(shown)
    flattened = isinstance(view, Apply) and view.primitive is reshape
    array = view.args[0] if flattened and isinstance(view, Apply) else shown
    if element_readers(block, shown) != [read]:
        return
    if flattened and element_readers(block, array) != [view]:
        return
    nest = cell_nest(made[array], builder) if array in made else None
    if not isinstance(nest, CellNest) or len(nest.loop.phis) != 1:
        return
    if not _is_of_terms(nest, made, builder):
        return
    kept = made if flattened else None
    if flattened and not _is_elementwise(nest, made, shown, builder):
        return
    value = _computed(nest, index_of(read, read.args), kept, builder)
    if value is None:
        return
    new, found = value
    label_rest(new.statements, read.phase)
    at = body.statements.index(read)
    body.statements[at : at + 1] = new.statements
    core.substitute(body, {read.out: found})
    for use in readers_of(block, shown):  # sizes are read from the array as it was allocated
        if isinstance(use, Apply) and not flattened:
            use.args = (nest.loop.inits[0], *use.args[1:])


def _is_of_terms(nest: CellNest, made: dict[Var, Statement], builder: Builder) -> bool:
    """True if a nest stores a number in every element of a new array, without index checks."""
    store = nest.store(0)
    start = made.get(nest.loop.inits[0])
    if store is None or store.primitive is not update:
        return False
    if not isinstance(start, Apply) or start.primitive is not empty:
        return False
    value = store.args[1]
    if not isinstance(value, Var) or value.type.dtype != store.out.type.dtype or value.type.weak:
        return False
    box = nest.box(store, builder)
    plain = all((is_number(s) and not _is_checked(s)) or s is store for s in nest.body.statements)
    return plain and box is not None and is_whole(box, store.out.type.dims, builder)


def _is_checked(s: Statement) -> bool:
    """True if a statement checks an index: checks are not to be repeated."""
    return isinstance(s, Apply) and s.primitive is checked_index


def _is_elementwise(
    nest: CellNest, made: dict[Var, Statement], shown: Var, builder: Builder
) -> bool:
    """True if one loop reads only its own elements of flattened arrays shaped like ``shown``."""
    index, resolve = nest.loop.index, builder.dims.resolve
    dims = [resolve(d) for d in shown.type.dims]
    for s in (*nest.ahead, *nest.body.statements):
        if index not in s.args:  # type: ignore[union-attr]
            continue
        assert isinstance(s, Apply)
        if s.primitive is update:
            continue
        source = made.get(s.args[0]) if s.primitive is getitem else None
        if not isinstance(source, Apply) or source.primitive is not flat:
            return False
        if s.args[1:] != (index,) or [resolve(d) for d in source.args[0].type.dims] != dims:
            return False
    return len(nest.loops) == 1


def _computed(
    nest: CellNest, at: list[Any], made: dict[Var, Statement] | None, builder: Builder
) -> tuple[Block, Atom] | None:
    """The statements that compute what a nest stores at index ``at``, and their result, or None.

    ``made``: the definitions of flattened arrays, which are read in their original shape.
    """
    store = nest.store(0)
    assert store is not None
    box = nest.box(store, builder)
    assert box is not None
    mapping: dict[Var, Atom] = {}
    if made is None:
        if any(box.shifts):
            return None
        mapping = {p.index: atom(at[axis]) for p, axis in zip(nest.loops, box.axes, strict=True)}
    with builder.block() as new:
        for s in (*nest.ahead, *nest.body.statements):
            if s is store:
                continue
            assert isinstance(s, Apply)
            args = [mapping.get(a, a) if isinstance(a, Var) else a for a in s.args]
            with builder.at(s.origin):
                if s.primitive is getitem and made is not None and nest.loop.index in s.args:
                    whole = made[s.args[0]]
                    assert isinstance(whole, Apply)
                    mapping[s.out] = touched_at(s, whole.args[0], at, builder)
                elif s.primitive is getitem:
                    mapping[s.out] = touched_at(s, args[0], index_of(s, args), builder)
                elif s.primitive.kind == "size":
                    return None
                else:
                    found = apply(s.primitive, *map(wrap, args), **s.params)
                    mapping[s.out] = atom(found)
    return new, mapping.get(store.args[1], store.args[1])
