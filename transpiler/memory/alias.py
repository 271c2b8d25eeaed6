"""Find results that may share memory with an operand, and stores that go through a view."""

from __future__ import annotations

from dataclasses import dataclass

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import wrap
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.versions import Versions
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram, is_basic
from calque.transpiler.primitives.function_calls import is_call
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.primitives.shapes import read_only


def viewed(s: Apply) -> tuple[Var, ...]:
    """The operands that the results may be views of."""
    p = s.primitive
    if p is getitem:
        whole = s.out.type.ndim or any(t is Ellipsis for t in s.params["index"])
        return _vars(s.args[:1]) if whole and is_basic(s) else ()
    if p.view_back is not None:
        copied = p.copies is not None and p.copies(*map(wrap, s.args), **s.params)
        return () if copied else _vars(s.args[:1])
    if not p.aliases:
        return ()
    if is_call(s):  # a part of a complex array is a real one, and a list holds arrays
        return tuple(a for a in _vars(s.args) if a.type.ndim)
    return tuple(
        a
        for a in _vars(s.args)
        if a.type.ndim and any(a.type.dtype == out.type.dtype for out in s.outs)
    )


def _vars(atoms: tuple[object, ...]) -> tuple[Var, ...]:
    return tuple(a for a in atoms if isinstance(a, Var))


def surely_view(s: Apply) -> bool:
    """True if the result is a view of its operand for every memory layout."""
    p = s.primitive
    return p.view_back is not None and not p.view_sometimes and p.view_back is not read_only


@dataclass(frozen=True, eq=False)
class WriteBack:
    """``view = base[i]``, stores into it, ``out = update(base, last, i)``: the update is free."""

    base: Var
    view: Var
    last: Var
    take: Apply
    final: Apply


def write_backs(program: PrintedProgram, live: Liveness) -> dict[int, WriteBack]:
    """The write-backs whose base is not read meanwhile or later, by the id of the final store."""
    uses = program.uses()
    found: dict[int, WriteBack] = {}
    for s in program.definition.values():
        if isinstance(s, Apply) and s.primitive is update and is_basic(s):
            candidate = _write_back(program, live, s, uses)
            if candidate is not None:
                found[id(s)] = candidate
    return found


def _write_back(
    program: PrintedProgram, live: Liveness, final: Apply, uses: dict[Var, int]
) -> WriteBack | None:
    base, last, *dynamic = final.args
    if not isinstance(base, Var) or not isinstance(last, Var) or uses[last] != 1:
        return None
    block = program.block_of[id(final)]
    stores = Versions(program.definition).stores(last)
    made = program.definition.get(stores[-1].args[0]) if stores else None
    if not isinstance(made, Apply) or made.primitive is not getitem:
        return None
    same = made.args == (base, *dynamic) and made.params["index"] == final.params["index"]
    if not same or not made.out.type.ndim or program.block_of[id(made)] is not block:
        return None
    if live.after(final) & program.bit(base) or _read_between(
        program, live, base, stores[-1], final
    ):
        return None
    return WriteBack(base, made.out, last, made, final)


def _read_between(
    program: PrintedProgram, live: Liveness, base: Var, first: Apply, final: Apply
) -> bool:
    """True if ``base`` is read between the first store and the final one."""
    number = program.number
    for s in program.block_of[id(final)].statements:
        if number[id(first)] < number[id(s)] < number[id(final)]:
            reads = program.mask(core.operands(s))
            for inner in core.blocks_of(s):
                reads |= live.read_by(inner)
            if reads & program.bit(base):
                return True
    return False
