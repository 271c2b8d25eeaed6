"""The interface of a kernel: the variables that it must return, and those that may be unset.

Several values may share a variable, so that a result may be in an argument already when the kernel
ends; and a variable that a call must pass may be unset on some path.
"""

from __future__ import annotations

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.ir import core
from calque.transpiler.ir.core import UNDEFINED, Apply, Atom, Block, Effect, If, Kernel, Var
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.ir.versions import Versions
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.growing import room, widened


def is_assigned(var: Var, kernel: Kernel, program: PrintedProgram, groups: Groups) -> bool:
    """True if a kernel assigns to the variable of a value, beside storing into an argument."""
    versions = program.once(_Reached)
    for now in versions.earlier(var, until=kernel.params):
        if isinstance(now, Var) and now not in kernel.params:
            before, made = versions.sources(now), program.definition.get(now)
            if isinstance(made, Apply) and made.primitive in (room, widened):
                return True  # a new array, if it was enlarged
            if not before or not all(groups.together(now, atom) for atom in before):
                return True
    return False


def may_be_unset(var: Var, program: PrintedProgram) -> bool:
    """True if a value may be undefined on some path."""
    return any(v is UNDEFINED for v in program.once(_Reached).earlier(var))


def type_given(var: Var, kernel: Kernel, program: PrintedProgram) -> ArrayType:
    """The type of a kernel's result: a NumPy scalar if one of its possible sources is."""
    found = program.once(_Reached).earlier(var, until=kernel.params)
    types = (v.type for v in found if isinstance(v, Var) and v not in kernel.params)
    return next((t for t in types if not t.weak), var.type)


class _Reached(Versions):
    """The versions on paths that are left by no error: an arm that ends with a raise gives none."""

    def __init__(self, program: PrintedProgram):
        super().__init__(Versions.within(program.body).made)

    def sources(self, var: Atom) -> tuple[Atom, ...]:
        """The values one of which ``var`` is, on those paths."""
        s = self.made.get(var) if isinstance(var, Var) else None
        if not isinstance(s, If) or not any(map(_leaves, core.blocks_of(s))):
            return super().sources(var)
        k = s.outs.index(var)
        return tuple(arm.results[k] for arm in core.blocks_of(s) if not _leaves(arm))


def _leaves(block: Block) -> bool:
    """True if a block ends with a raise, so that control does not reach its end."""
    last = block.statements[-1] if block.statements else None
    return isinstance(last, Effect) and last.template.strip().startswith("raise")
