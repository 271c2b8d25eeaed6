"""Split sums down columns into parts of the rows: one thread per column would be too few.

Before, on a GPU, with one thread for each column, contiguous in memory::

    for i in range(m):
        total = 0.0
        for j in range(n):
            total = total + x[j, i]
        out[i] = total / n

After::

    for part in range(parts):
        for i in range(m):
            total = 0.0
            for j in range(part, n, parts):
                total = total + x[j, i]
            total_of_parts[i, part] = total
    for i in range(m):
        total = 0.0
        for k in range(parts):
            total = total + total_of_parts[i, k]
        out[i] = total / n

A sum along a row takes one block, which is too few for few long rows: these sums are split, too,
if the sizes at the launcher's call make it worthwhile::

    parts = min(n // 4096, 256 // max(m, 1) * 16)
    if parts > 8:
        for i in range(m):
            for part in range(parts):
                ...
    else:
        for i in range(m):
            ...

The number of parts depends on sizes only: the order of additions is the same on every GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Slot, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned_loop, derived
from calque.transpiler.loops.carried_dependences import made_by
from calque.transpiler.loops.loop_reductions import LoopReduction, along_memory, counts, reductions
from calque.transpiler.loops.schedule.loop_splitting import split_before
from calque.transpiler.loops.schedule.parts import bounds_of_part
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.elementwise import add, floor_divide, multiply, subtract
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.primitives.logic import greater
from calque.transpiler.primitives.scalars import max_, min_

_THREADS = 2**20  # four times what a large GPU has at a time
_ROWS = 64  # of a part, at least: it stores little compared with its reads
_FEW_ROWS = 256  # that have a block each
_COLUMNS = 4096  # of a part of a row, which is a warp's, at least
_WARPS = 16  # parts of each of so many rows
_BLOCK = 8  # warps: as many parts of a row are no more threads than without
_IDENTITY = {"sum": 0, "product": 1, "rescaled": 0}


def sum_in_parts(function: Function, builder: Builder) -> None:
    """Split sums into parts, in place."""
    with builder.active():
        _within(function.body, function, builder)
    remove_dead_code(function)


def _within(block: Block, function: Function, builder: Builder) -> None:
    made: list[Statement] = []
    for s in block.statements:
        if not isinstance(s, For) or not s.parallel:
            for inner in core.blocks_of(s):
                _within(inner, function, builder)
            made.append(s)
            continue
        with builder.block() as new, builder.at(s.origin):
            sums = _sums_of(s)
            if isinstance(sums, _SplittableSums) and sums.along:
                applied(builder, "sum_in_parts", s)
                _choose(s, sums.loops, function, builder)
            else:
                _in_parts(s, function, builder)
        label_rest(new.statements, s.phase)
        made += new.statements
    block.statements[:] = made


def _in_parts(loop: For, function: Function, builder: Builder, parts: Any = None) -> None:
    """Emit a loop with its sums split; sums that depend on others get loops of their own.

    ``parts`` is the number of parts of rows; for columns, each sum determines it.
    """
    pending = [loop]
    while pending:
        s = pending.pop()
        sums = _sums_of(s)
        if isinstance(sums, _SplittableSums) and sums.along != (parts is not None):
            sums = Refused("its sums go along rows beside others down columns", (s.origin,))
        if isinstance(sums, Refused):
            missed(builder, "sum_in_parts", s, sums)
            builder.emit(s)
            continue
        later = _needs_others(sums.loops, nest_of(s)[-1].body)
        rest = split_before(s, later, builder) if later is not None else None
        if rest is not None:
            pending += [rest, s]
            continue
        if later is None:
            applied(builder, "sum_in_parts", s)
            function.dim_values.update(_cut(s, sums.loops, builder, parts))
        else:
            needed = Refused("{0} needs the sum of a loop before it", (later.origin,))
            missed(builder, "sum_in_parts", s, needed)
        builder.emit(s)


def _choose(loop: For, sums: list[For], function: Function, builder: Builder) -> None:
    """Emit both forms of a loop over rows, and a test of the sizes that chooses one."""
    rows, columns = wrap(loop.stop), _outside(sums[0].stop, loop)
    most = apply(multiply, apply(floor_divide, _FEW_ROWS, apply(max_, rows, 1)), _WARPS)
    parts = apply(min_, apply(floor_divide, columns, _COLUMNS), most)
    parts.atom.name = "parts"
    function.dim_values[parts.atom] = builder.dim_of(parts)
    test = atom(apply(greater, parts, _BLOCK))
    copy = cloned_loop(builder, loop)
    last = copy.outs  # also the results of the last loop that replaces it
    with builder.block() as then:
        _in_parts(copy, function, builder, parts)
        then.results = list(last)
    outs = loop.outs
    loop.outs = tuple(Var(o.type, o.name, o.origin) for o in outs)
    builder.emit(If(outs, test, then, Block([loop], list(loop.outs)), loop.origin))


def nest_of(loop: For) -> list[For]:
    """A loop and its inner parallel loops, as far as each is the last statement of the former."""
    found = [loop]
    while found[-1].body.statements:
        *before, last = found[-1].body.statements
        if any(map(core.blocks_of, before)) or not isinstance(last, For) or not last.parallel:
            break
        if any(not phi.type.ndim for phi in last.phis) or any(map(is_plain_store, before)):
            break
        found.append(last)
    return found


@dataclass(frozen=True)
class _SplittableSums:
    """The loops within a nest that sum down columns, or ``along`` rows, and can be split."""

    loops: list[For]
    along: bool


def _sums_of(loop: For) -> _SplittableSums | Refused:
    """The sums of a nest that can be split, or the reason why not."""
    nest = nest_of(loop)
    here = (loop.origin,)
    if any(not phi.type.ndim for s in nest for phi in s.phis):
        return Refused("its iterations carry a number", here)
    if any((s.start, s.step) != (0, 1) or _at_most(s, 1) for s in nest):
        return Refused("it does not count up from 0 over several rows or columns", here)
    last = nest[-1]
    inner = [s for s in last.body.statements if core.blocks_of(s)]
    sums = [s for s in inner if isinstance(s, For) and s.parallel]
    if not inner:
        return Refused("its iterations have no loop that sums", here)
    if len(sums) < len(inner):
        return Refused("its iterations have a test, or a loop that is no sum", here)
    along = along_memory(sums, last)
    if len(nest) > (1 if along else 2):
        return Refused("its nest has more loops than one for each axis", here)
    reason = _refusal(sums, last, along)
    if reason is None and along and (counts(loop) or 0) > _FEW_ROWS:
        reason = Refused("there are enough rows for a block of threads each", here)
    if reason is None and any(_size_before(s.stop, loop) is None for s in (*nest, sums[0])):
        reason = Refused("the sizes are not known before the loop", here)
    if reason is None and all(counts(s) is not None for s in (*nest, sums[0])):
        reason = Refused("sizes are constant, for which the number of parts is one", here)
    return reason or _SplittableSums(sums, along)


def _refusal(sums: list[For], last: For, along: bool) -> Refused | None:
    """The reason why loops in ``last`` cannot be summed in parts; None if there is none."""
    first = sums[0]
    ends = first.start, first.stop, first.step
    least = _COLUMNS * (_BLOCK + 1) if along else 2 * _ROWS
    if any((s.start, s.stop, s.step) != ends for s in sums) or ends[0] != 0 or ends[2] != 1:
        return Refused("sums go over different elements, or not from 0 up", (first.origin,))
    if _at_most(first, least - 1):
        return Refused("{0} sums too few elements for parts", (first.origin,))
    if any(phi.type.ndim for s in sums for phi in s.phis):
        return Refused("{0} stores into an array", (first.origin,))
    if any(core.blocks_of(t) for s in sums for t in s.body.statements):
        return Refused("{0} has an inner loop or a test", (first.origin,))
    if _need_stores(sums, last):
        return Refused("{0} reads an element that its iteration stores", (first.origin,))
    return None


def _need_stores(sums: list[For], last: For) -> bool:
    """True if sums read elements that their iteration stores: the loop of parts has no stores."""
    needed = {v for s in sums for v in core.free_vars(Block([s]))}
    for s in reversed(last.body.statements):
        if s not in sums and needed.intersection(s.outs):
            if is_plain_store(s):
                return True
            needed.update(a for a in core.operands(s) if isinstance(a, Var))
    return False


def _at_most(s: For, iterations: int) -> bool:
    """True if a loop's trip count is known and at most ``iterations``."""
    known = counts(s)
    return known is not None and known <= iterations


def _needs_others(sums: list[For], body: Block) -> For | None:
    """The first summing loop that depends on another one's result; None if there is none."""
    late = {o for s in sums for o in s.outs}
    for s in body.statements:
        if late.intersection(core.free_vars(Block([s]))):
            if isinstance(s, For):
                return s
            late.update(s.outs)
    return None


def _cut(loop: For, sums: list[For], builder: Builder, parts: Any = None) -> dict[Var, Any]:
    """Emit the loop over parts; let ``loop`` sum their results. Return the number of parts."""
    nest = nest_of(loop)
    first, *inner = nest
    sizes = [wrap(first.stop), *(_outside(s.stop, loop) for s in inner)]
    iterations = _outside(sums[0].stop, loop)
    along = parts is not None
    if not along:
        columns = sizes[0]
        for size in sizes[1:]:
            columns = apply(multiply, columns, size)
        parts = _number_of_parts(iterations, columns)
        parts.atom.name = "parts"
    whole = [
        (k, r, _memory(s.phis[r.position], [*sizes, parts]))
        for k, s in enumerate(sums)
        for r in reductions(s)
    ]
    made = _parts_loop(loop, whole, parts, iterations if along else None, builder)
    outs = iter(made.outs)
    for s in sums:
        arrays = [next(outs) for _ in reductions(s)]
        _combine_partial_sums(s, arrays, [n.index for n in nest], parts)
    return {parts.atom: builder.dim_of(parts)}


def _size_before(atom: Atom, loop: For) -> Atom | Apply | None:
    """A trip count known before ``loop``, or a statement that computes it there; else None."""
    bound = core.bound_vars(loop)
    if atom in bound or not any(atom in s.outs for s in core.walk(loop.body)):
        return None if atom in bound else atom
    made = next(s for s in core.walk(loop.body) if atom in s.outs)
    inside = core.defined_vars(Block([loop]))
    starts = dict(zip(loop.phis, loop.inits, strict=True))
    if not isinstance(made, Apply) or core.blocks_of(made):
        return None
    args = [starts.get(a, a) if isinstance(a, Var) and a.type.ndim else a for a in made.args]
    return None if inside.intersection(args) else replace(made, args=tuple(args))


def _outside(atom: Atom, loop: For) -> Any:
    """A size that a loop's body computes, computed before the loop."""
    made = _size_before(atom, loop)
    if not isinstance(made, Apply):
        return wrap(made)
    return apply(made.primitive, *map(wrap, made.args), **made.params)


def _number_of_parts(rows: Any, columns: Any) -> Any:
    most = apply(floor_divide, _THREADS, apply(max_, columns, 1))
    return apply(max_, apply(min_, apply(floor_divide, rows, _ROWS), most), 1)


def _memory(phi: Var, sizes: list[Any]) -> Var:
    made = apply(empty, *sizes, dtype=phi.type.dtype)
    made.atom.name = f"{phi.name or 'total'}_of_parts"
    return made.atom


def _parts_loop(
    loop: For,
    whole: list[tuple[int, LoopReduction, Var]],
    parts: Any,
    iterations: Any,
    builder: Builder,
) -> For:
    """The loop over the parts: a copy of the loop that stores the sums of each part.

    The parts of rows, for which ``iterations`` is given, are contiguous.
    """
    copy = cloned_loop(builder, loop)
    nest = nest_of(copy)
    unchanged: dict[Var, Atom] = {}
    for s in nest:
        starts = (unchanged.get(a, a) if isinstance(a, Var) else a for a in s.inits)
        unchanged.update(zip(s.phis, starts, strict=True))
    core.substitute(nest[-1].body, unchanged)
    part = loop_index(0, builder.dim_of(parts) - 1, "part")
    body = nest[-1].body
    sums = [s for s in body.statements if isinstance(s, For)]
    with builder.block() as bounds, builder.at(None):  # the sums quote the statement
        ends = bounds_of_part(part, iterations, parts) if iterations is not None else None
    body.statements[:0] = bounds.statements
    for s in sums:
        if ends is None:
            s.start, s.step = part.atom, parts.atom
        else:
            s.start, s.stop = ends
        for r in reductions(s):
            if r.how in _IDENTITY:
                nothing = s.phis[r.position].type.dtype.type(_IDENTITY[r.how]).item()
                s.inits = _with(s.inits, r.position, nothing)
    places = (*(s.index for s in nest), part.atom)
    stores = [_stored(array, sums[k].outs[r.position], places) for k, r, array in whole]
    body.statements += stores
    span = {"index": part.atom, "start": 0, "stop": parts.atom, "step": 1}
    over = derived(loop, outs=(), **span, phis=(), inits=(), body=Block(), parallel=True)
    over.scheduled = True
    if ends is None:
        order, over.body.statements = [over, *nest], [copy]
    else:  # a block takes eight parts of a row
        order, over.body.statements, body.statements = [*nest, over], body.statements, [over]
    results = [s.out for s in stores]
    phis = [s.args[0] for s in stores]
    for s in reversed(order):
        s.body.results, s.phis = list(results), tuple(phis)
        s.outs = tuple(Var(p.type, p.name) for p in phis)
        phis = [Var(p.type, p.name) for p in phis]
        s.inits, results = tuple(phis), list(s.outs)
    order[0].inits = tuple(array for *_, array in whole)
    builder.emit(order[0])
    return order[0]


def _with(items: tuple[Any, ...], position: int, value: Any) -> tuple[Any, ...]:
    return (*items[:position], value, *items[position + 1 :])


def _stored(array: Var, value: Var, places: tuple[Any, ...]) -> Apply:
    version, out = (Var(array.type, array.name) for _ in range(2))
    index = {"index": tuple(map(Slot, range(len(places))))}
    return Apply((out,), update, (version, value, *places), index, proven=True)


def _combine_partial_sums(s: For, arrays: list[Var], around: list[Var], parts: Any) -> None:
    """Let a summing loop go over the sums of the parts, rather than over the rows."""
    found = reductions(s)
    by_position = dict(zip([r.position for r in found], arrays, strict=True))
    k = Var(s.index.type, "k")
    reads: dict[int, Apply] = {}
    combined: dict[int, Apply] = {}
    for position, (phi, result) in enumerate(zip(s.phis, s.body.results, strict=True)):
        last = made_by(s.body, result)
        assert isinstance(last, Apply)
        primitive = add if last.primitive is subtract else last.primitive
        array = by_position[position]
        one, both = Var(phi.type, None, s.origin), Var(phi.type, phi.name, s.origin)
        index = {"index": tuple(map(Slot, range(array.type.ndim)))}
        args = array, *around, k
        reads[position] = Apply((one,), getitem, args, index, last.origin, proven=True)
        combined[position] = Apply((both,), primitive, (phi, one), {}, last.origin)
    for r in found:
        if r.relative_to is not None:
            (total, part), (largest, its) = combined[r.position].args, combined[r.relative_to].args
            combined[r.position].args = total, largest, its, part
    order = sorted(found, key=lambda r: r.relative_to is None)  # before the maximum changes
    made: list[Statement] = [*reads.values(), *(combined[r.position] for r in order)]
    results = [combined[position].out for position in range(len(s.phis))]
    s.start, s.stop, s.step, s.index, s.scheduled = 0, parts.atom, 1, k, True
    s.body = Block(made, list(results))
