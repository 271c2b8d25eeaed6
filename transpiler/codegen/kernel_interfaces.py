"""The interface of a kernel: the variables that it must return, and those that may be unset.

Several values may share a variable, so that a result may be in an argument already when the kernel
ends; and a variable that a call must pass may be unset on some path.
"""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.ir.core import (
    UNDEFINED,
    Apply,
    Atom,
    Block,
    Effect,
    For,
    If,
    Kernel,
    Var,
    While,
)
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.growing import room, widened


def is_assigned(var: Var, kernel: Kernel, program: PrintedProgram, groups: Groups) -> bool:
    """True if a kernel assigns to the variable of a value, beside storing into an argument."""
    for now in _versions(var, program, kernel.params):
        if isinstance(now, Var):
            before, made = _before(now, program), program.definition.get(now)
            if isinstance(made, Apply) and made.primitive in (room, widened):
                return True  # a new array, if it was enlarged
            if not before or not all(groups.together(now, atom) for atom in before):
                return True
    return False


def may_be_unset(var: Var, program: PrintedProgram) -> bool:
    """True if a value may be undefined on some path."""
    return any(v is UNDEFINED for v in _versions(var, program))


def type_given(var: Var, kernel: Kernel, program: PrintedProgram) -> ArrayType:
    """The type of a kernel's result: a NumPy scalar if one of its possible sources is."""
    versions = [v for v in _versions(var, program, kernel.params) if isinstance(v, Var)]
    return next((v.type for v in versions if not v.type.weak), var.type)


def _versions(var: Var, program: PrintedProgram, known: Iterable[Var] = ()) -> list[Atom]:
    """A value and its sources through stores, branches and loops, not followed past ``known``."""
    found: dict[Atom, None] = {}
    outside = set(known)
    pending: list[Atom] = [var]
    while pending:
        now = pending.pop()
        if now not in found and now not in outside:
            found[now] = None
            pending += _before(now, program) if isinstance(now, Var) else ()
    return list(found)


def _before(var: Var, program: PrintedProgram) -> tuple[Atom, ...]:
    """The values that a value may be, one step back; none if it is computed."""
    match program.definition.get(var):
        case Apply() as s if is_store(s):
            return s.args[:1]
        case If() as s:
            k = s.outs.index(var)
            return tuple(b.results[k] for b in (s.then, s.orelse) if not _leaves(b))
        case For() | While() as s:
            return (s.phis[s.outs.index(var)],)
    return program.carried.get(var, ())


def _leaves(block: Block) -> bool:
    """True if a block ends with a raise, so that control does not reach its end."""
    last = block.statements[-1] if block.statements else None
    return isinstance(last, Effect) and last.template.strip().startswith("raise")
