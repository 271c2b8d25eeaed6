"""What a kernel's text must hand back, and what its launcher may not have: asked of variables.

Several values may share a variable, so that a value may be in an argument already when the kernel
ends; and a variable may be unset on some path, although a call has to name it.
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
    """Whether a kernel assigns to the variable of a value, beside storing into an argument."""
    for now in _versions(var, program, kernel.params):
        if isinstance(now, Var):
            before, made = _before(now, program), program.definition.get(now)
            if isinstance(made, Apply) and made.primitive in (room, widened):
                return True  # another array, where it has grown
            if not before or not all(groups.together(now, atom) for atom in before):
                return True
    return False


def may_be_unset(var: Var, program: PrintedProgram) -> bool:
    """Whether some path to where a value is read has not given it one."""
    return any(v is UNDEFINED for v in _versions(var, program))


def type_given(var: Var, kernel: Kernel, program: PrintedProgram) -> ArrayType:
    """The type of what a kernel gives: a number is NumPy's if one that it may be is."""
    versions = [v for v in _versions(var, program, kernel.params) if isinstance(v, Var)]
    return next((v.type for v in versions if not v.type.weak), var.type)


def _versions(var: Var, program: PrintedProgram, known: Iterable[Var] = ()) -> list[Atom]:
    """A value and all that it may be, through stores, branches and loops; but for ``known``."""
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
    """What a value may be, one step back; nothing where it is computed."""
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
    """Whether control does not come out at the end."""
    last = block.statements[-1] if block.statements else None
    return isinstance(last, Effect) and last.template.strip().startswith("raise")
