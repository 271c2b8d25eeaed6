"""Numbers that NumPy may hold in arrays of no axes, which Numba does not take for numbers.

``np.where(a, b, c)`` of numbers, ``np.reshape(x, ())`` and an argument may each be one of these; a
kernel is given the number in it.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.codegen.text.spelling import fill_expression
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, If, Var, While
from calque.transpiler.memory.printed_program import PrintedProgram

ARRAYS = frozenset(
    """constant copy np.array np.broadcast_to np.empty np.empty_like np.full np.ones np.ones_like
    np.reshape np.squeeze np.tensordot np.transpose np.where np.zeros np.zeros_like""".split()
)  # the primitives that give an array even where it has no axes
SAME = frozenset(("astype", "np.conj", "np.real", "np.imag", "getitem"))  # as their argument


def is_strong(var: Var) -> bool:
    """Whether a number is one of NumPy's."""
    return not var.type.ndim and not var.type.weak


def element_of(array: Any) -> Any:
    """The number in an array of no axes; a number of NumPy's is itself."""
    return fill_expression("{0}[()]", [array])


def may_be_array(var: Var, program: PrintedProgram) -> bool:
    """Whether NumPy may hold a number in an array of no axes."""
    seen: set[Var] = set()

    def visit(atom: Atom) -> bool:
        if not isinstance(atom, Var) or atom in seen or not is_strong(atom):
            return False
        seen.add(atom)
        match program.definition.get(atom):
            case None:
                return atom in program.function.params
            case Apply() as s:
                same = s.primitive.name in SAME
                return s.primitive.name in ARRAYS or (same and visit(s.args[0]))
            case If() | For() | While() as s:
                return any(visit(r) for r in _ends(s, s.outs.index(atom)))
        return False

    return visit(var)


def _ends(s: If | For | While, k: int) -> list[Atom]:
    """What a branch or a loop may give as one of its results."""
    ends = [block.results[k] for block in core.blocks_of(s) if k < len(block.results)]
    return ends if isinstance(s, If) else [*ends, s.inits[k]]
