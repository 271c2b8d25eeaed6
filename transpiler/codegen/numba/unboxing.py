"""Unbox 0-d arrays: kernels are passed scalars, as Numba does not accept 0-d arrays for them.

``np.where(a, b, c)`` of scalars, ``np.reshape(x, ())`` and an argument may each be a 0-d array.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.codegen.text.spelling import fill_expression
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.versions import Versions
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
    for v in program.once(_kept).earlier(var):
        if isinstance(v, Var) and is_strong(v):
            made = program.definition.get(v)
            new = isinstance(made, Apply) and made.primitive in ARRAYS
            if new or v in program.function.params:
                return True
    return False


def _kept(program: PrintedProgram) -> Versions:
    """The values that a 0-d array may be handed on from."""
    of_same = lambda s: s.args[:1] if s.primitive in SAME else ()
    return Versions.within(program.body, taken=of_same)
