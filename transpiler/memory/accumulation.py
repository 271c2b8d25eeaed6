"""Rewrite ``x = x + v`` as ``x += v`` where that costs no copy.

In the reverse pass, adjoints are summed in place; elsewhere, all sums except assignments that the
user wrote out::

    x_bar_1 = np.add(x_bar, v)    ->    t = np.add(x_bar, v); x_bar_1 = update(x_bar, t, ...)
"""

from __future__ import annotations

from collections.abc import Sequence

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.memory.bufferize import Memory, settle
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram, continues
from calque.transpiler.primitives.indexing import update

_OPERATIONS = ("add", "subtract", "multiply", "divide")


def accumulate_in_place(program: PrintedProgram) -> None:
    """Rewrite sums as in-place sums; those that would need a copy stay."""
    chosen = _candidates(program)
    if not chosen:
        return
    _convert_most(program, chosen, _cost(program))


def _convert_most(program: PrintedProgram, chosen: Sequence[Apply], before: float) -> None:
    """Convert all of them if that costs no copy; otherwise try each half by itself."""
    for s in chosen:
        _convert(program, s)
    program.renumber()
    if _cost(program) <= before:
        return
    for s in chosen:
        _revert(program, s)
    program.renumber()
    if len(chosen) > 1:
        half = len(chosen) // 2
        _convert_most(program, chosen[:half], before)
        _convert_most(program, chosen[half:], before)


def _cost(program: PrintedProgram) -> float:
    memory: Memory = program.once(settle)
    return memory.cost(memory.copies)


def _candidates(program: PrintedProgram) -> list[Apply]:
    live, uses, dims = program.once(Liveness), program.uses(), Dims()
    for equal in program.function.equal_dims:
        dims.unify(equal.left, equal.right)
    found: list[Apply] = []
    for s in core.walk(program.body):
        if not isinstance(s, Apply) or s.primitive.arithmetic not in _OPERATIONS:
            continue
        if not s.out.type.ndim:
            continue
        old = s.args[0]
        if not isinstance(old, Var) or old.name is None or old.name != s.out.name:
            continue
        if live.after(s) & program.bit(old) or old in program.function.params:
            continue
        if not _same_type(old.type, s.out.type, dims):
            continue
        made = program.definition.get(old)
        if uses[old] == 1 and made not in found and continues(program, made, s):
            continue
        text = s.origin.statement if s.origin else ""
        if not text.startswith(f"{s.out.name} = ") or s.phase == "reverse":
            found.append(s)
    return found


def _same_type(one: ArrayType, other: ArrayType, dims: Dims) -> bool:
    same = one.dtype == other.dtype and one.ndim == other.ndim
    return same and all(map(dims.same, one.dims, other.dims))


def _convert(program: PrintedProgram, s: Apply) -> None:
    """Store the sum over its first operand; ``s`` keeps computing the sum."""
    out, total = s.out, Var(s.out.type, None, s.origin)
    s.outs = (total,)
    params = {"index": (Ellipsis,)}
    store = Apply((out,), update, (s.args[0], total), params, s.origin, phase=s.phase)
    statements = program.block_of[id(s)].statements
    statements.insert(statements.index(s) + 1, store)


def _revert(program: PrintedProgram, s: Apply) -> None:
    statements = program.block_of[id(s)].statements
    store = statements.pop(statements.index(s) + 1)
    s.outs = store.outs
