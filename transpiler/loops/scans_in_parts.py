"""Split a long scan into parts: one block of threads would use a hundredth of a GPU.

Before, on a GPU::

    total = 0.0
    for i in range(n):
        total = total + x[i]
        out[i] = total

After::

    for part in range(parts):
        total = 0.0
        for i in range(part * n // parts, (part + 1) * n // parts):
            total = total + x[i]
        total_of_parts[part] = total
    for part in range(parts):
        before = 0.0
        for k in range(part):
            before = before + total_of_parts[k]
        total = before
        for i in range(part * n // parts, (part + 1) * n // parts):
            total = total + x[i]
            out[i] = total

The number of parts depends on the size only. A loop whose final sum is read stays whole.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Slot, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned_loop, emit_fold, emit_loop
from calque.transpiler.loops.loop_reductions import Scanned, counts, is_scan, scans
from calque.transpiler.loops.schedule.parts import bounds_of_part
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.elementwise import add, floor_divide, subtract
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.primitives.scalars import max_, min_

_ITERATIONS, _PARTS = 2048, 8192  # iterations of a part, at least; parts, at most
_IDENTITY = {"sum": 0, "product": 1}
_PLACE = {"index": (Slot(0),)}


def scan_in_parts(function: Function, builder: Builder) -> None:
    """Split the long scans of a function into parts, in place."""
    read = _read_in(function.body)
    with builder.active():
        _within(function.body, read, function, builder)


def _read_in(block: Block) -> set[Var]:
    found = {a for a in block.results if isinstance(a, Var)}
    for s in core.walk(block):
        found.update(a for a in core.operands(s) if isinstance(a, Var))
        found.update(a for b in core.blocks_of(s) for a in b.results if isinstance(a, Var))
    return found


def _within(block: Block, read: set[Var], function: Function, builder: Builder) -> None:
    made: list[Statement] = []
    for s in block.statements:
        if not isinstance(s, For) or not is_scan(s):
            if not isinstance(s, For) or not s.parallel:
                for inner in core.blocks_of(s):
                    _within(inner, read, function, builder)
            made.append(s)
            continue
        with builder.block() as new, builder.at(s.origin):
            known = _cut(s, read, builder)
        if isinstance(known, Refused):
            missed(builder, "scan_in_parts", s, known)
            made.append(s)
            continue
        applied(builder, "scan_in_parts", s)
        function.dim_values.update(known)
        label_rest(new.statements, s.phase)
        made += new.statements
    block.statements[:] = made


def _cut(s: For, read: set[Var], builder: Builder) -> dict[Var, Any] | Refused:
    """Emit the loops of both phases, or return the reason why the loop cannot be split."""
    found = scans(s)
    numbers = [k for k, phi in enumerate(s.phis) if not phi.type.ndim]
    if len(found) != 1 or numbers != [found[0].position]:
        return Refused("it has several running sums, or a number that is none", (s.origin,))
    if (s.start, s.step) != (0, 1):
        return Refused("it does not count up from 0", (s.origin,))
    if s.outs[numbers[0]] in read:
        return Refused("the last sum is read after the loop", (s.origin,))
    if counts(s) is not None:
        return Refused("its number of iterations is known, and one block runs them", (s.origin,))
    alone = _sum_alone(s, found[0], builder)
    if alone is None:
        return Refused("the sum reads arrays that the loop stores into", (found[0].made.origin,))
    iterations = wrap(s.stop)
    most = apply(min_, apply(floor_divide, iterations, _ITERATIONS), _PARTS)
    parts = apply(max_, most, 1)
    parts.atom.name = "parts"
    totals = apply(empty, parts, dtype=s.phis[numbers[0]].type.dtype)
    totals.atom.name = f"{s.phis[numbers[0]].name or 'total'}_of_parts"
    summed = _first_phase(s, alone, totals.atom, iterations, parts, builder)
    _second_phase(s, found[0], summed, iterations, parts, builder)
    return {parts.atom: builder.dim_of(parts)}


def _sum_alone(s: For, found: Scanned, builder: Builder) -> For | None:
    """A copy of the loop that only sums; None if the sum reads the arrays that the loop carries."""
    copy = cloned_loop(builder, s)
    k = found.position
    others = {phi for phi in copy.phis if phi is not copy.phis[k]}
    copy.body.results, copy.phis = [copy.body.results[k]], (copy.phis[k],)
    copy.inits, copy.outs = (copy.inits[k],), (copy.outs[k],)
    if found.how in _IDENTITY:
        copy.inits = (copy.phis[0].type.dtype.type(_IDENTITY[found.how]).item(),)
    remove_dead_code(Function("alone", [], Block([copy], list(copy.outs)), None))
    copy.parallel, copy.verdict = True, None
    return None if others & _read_in(Block([copy])) else copy


def _part_index(parts: Any, builder: Builder) -> Array:
    return loop_index(0, builder.dim_of(parts) - 1, "part")


def _first_phase(
    s: For, alone: For, totals: Var, iterations: Any, parts: Any, builder: Builder
) -> Var:
    """Emit the loop that sums each part; return the array of these sums."""
    part = _part_index(parts, builder)
    phi, stored = (Var(totals.type, totals.name, s.origin) for _ in range(2))

    def step(phi: Var) -> list[Var]:
        alone.start, alone.stop = bounds_of_part(part, iterations, parts)
        builder.emit(alone)
        args = phi, alone.outs[0], part.atom
        builder.emit(Apply((stored,), update, args, _PLACE, s.origin, proven=True))
        return [stored]

    ends = (0, parts, 1)
    facts = {"origin": s.origin, "scheduled": True, "parallel": True}
    return emit_fold(builder, part.atom, ends, [totals], step, phis=[phi], **facts).outs[0]


def _second_phase(
    s: For, found: Scanned, totals: Var, iterations: Any, parts: Any, builder: Builder
) -> None:
    """Emit the loop that starts each part with the sum of the parts before it."""
    part = _part_index(parts, builder)
    arrays = [k for k in range(len(s.phis)) if k != found.position]
    phis = tuple(Var(s.phis[k].type, s.phis[k].name, s.origin) for k in arrays)
    outs, inits = tuple(s.outs[k] for k in arrays), tuple(s.inits[k] for k in arrays)

    def step(*phis: Var) -> list[Var]:
        before = _sum_before(s, found, totals, part, builder)
        s.start, s.stop = bounds_of_part(part, iterations, parts)
        begun = dict(zip(arrays, phis, strict=True)) | {found.position: before}
        s.inits = tuple(begun[k] for k in range(len(s.phis)))
        s.outs = tuple(Var(o.type, o.name, s.origin) for o in s.outs)
        builder.emit(s)
        return [s.outs[k] for k in arrays]

    facts = {"origin": s.origin, "scheduled": True, "parallel": True}
    emit_fold(builder, part.atom, (0, parts, 1), inits, step, phis=phis, outs=outs, **facts)


def _sum_before(s: For, found: Scanned, totals: Var, part: Array, builder: Builder) -> Var:
    """The initial value of the scan plus the sums of all parts before ``part``."""
    scalar = s.phis[found.position]
    phi, one, both = (Var(scalar.type, scalar.name, s.origin) for _ in range(3))
    k, one.name = Var(part.atom.type, "k", s.origin), None
    primitive = add if found.made.primitive is subtract else found.made.primitive
    read = Apply((one,), getitem, (totals, k), _PLACE, found.made.origin, proven=True)
    summed = Apply((both,), primitive, (phi, one), {}, found.made.origin)
    body = Block([read, summed], [both])
    inits = [s.inits[found.position]]
    carried = [phi], inits, body
    made = emit_loop(
        *(builder, k, (0, part, 1), *carried), origin=s.origin, scheduled=True, parallel=True
    )
    return made.outs[0]
