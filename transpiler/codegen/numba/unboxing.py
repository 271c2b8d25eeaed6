"""Unbox 0-d arrays: kernels are passed scalars, as Numba does not accept 0-d arrays for them.

``np.where(a, b, c)`` of scalars, ``np.reshape(x, ())`` and an argument may each be a 0-d array.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.codegen.text.spelling import fill_expression
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, If, Var, While
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.axes import squeeze, transpose
from calque.transpiler.primitives.complexes import conj, imag, real
from calque.transpiler.primitives.creation import (
    constant,
    empty,
    empty_like,
    full,
    ones,
    ones_like,
    stack_rows,
    zeros,
    zeros_like,
)
from calque.transpiler.primitives.elementwise import astype, where
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.products import tensordot
from calque.transpiler.primitives.shapes import broadcast_to, reshape

# the primitives that return 0-d arrays, and those that return a 0-d array for a 0-d array
ARRAYS = (
    constant, stack_rows, empty, empty_like, full, ones, ones_like, zeros, zeros_like,
    copy, broadcast_to, reshape, squeeze, tensordot, transpose, where,
)
SAME = (astype, conj, real, imag, getitem)


def is_strong(var: Var) -> bool:
    """True if a value is a NumPy scalar."""
    return not var.type.ndim and not var.type.weak


def element_of(array: Any) -> Any:
    """The expression of the scalar in a 0-d array; a NumPy scalar is returned unchanged."""
    return fill_expression("{0}[()]", [array])


def may_be_array(var: Var, program: PrintedProgram) -> bool:
    """True if a scalar may be a 0-d array at run time."""
    seen: set[Var] = set()

    def visit(atom: Atom) -> bool:
        if not isinstance(atom, Var) or atom in seen or not is_strong(atom):
            return False
        seen.add(atom)
        match program.definition.get(atom):
            case None:
                return atom in program.function.params
            case Apply() as s:
                same = s.primitive in SAME
                return s.primitive in ARRAYS or (same and visit(s.args[0]))
            case If() | For() | While() as s:
                return any(visit(r) for r in _ends(s, s.outs.index(atom)))
        return False

    return visit(var)


def _ends(s: If | For | While, k: int) -> list[Atom]:
    """The possible values of result ``k`` of a branch or a loop."""
    ends = [block.results[k] for block in core.blocks_of(s) if k < len(block.results)]
    return ends if isinstance(s, If) else [*ends, s.inits[k]]
