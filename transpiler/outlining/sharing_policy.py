"""The choice of the parts of a program that are worth a function of their own.

Work on elements of arrays is faster in one kernel than in several, and a kernel is fast because it
ends only where it must: at a product of matrices, a factorization, a transform, which a library
computes. A part that holds one of these is cut there anyway. It becomes a function; what has none
stays with its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Statement, Var
from calque.transpiler.loops.products.contractions import is_worth
from calque.transpiler.outlining.shared_functions import Pays

_SAVED = 60  # statements that are not compiled again
_LEAST, _FEWER = 10, 30  # statements of a function, and those that a reader is spared


def pays_in_kernels(builder: Builder) -> Pays:
    """The policy for programs that are compiled."""

    def pays(statements: Sequence[Statement], times: int) -> bool:
        if len(statements) * (times - 1) < _SAVED:
            return False
        return any(isinstance(s, Apply) and _is_of_library(s, builder) for s in statements)

    return pays


def pays_in_text(statements: Sequence[Statement], times: int) -> bool:
    """The policy for programs that are read: a function is what a reader need not read again."""
    return len(statements) >= _LEAST and len(statements) * (times - 1) >= _FEWER


def _is_of_library(s: Apply, builder: Builder) -> bool:
    """True for an operation that ends a kernel, because a library computes it."""
    arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim > 1]
    if s.primitive.kind == "bilinear" and len(arrays) == 2:
        rows, columns = arrays[0].type.dims, arrays[1].type.dims
        return is_worth((rows[:-1], rows[-1:], columns[-1:]), builder)
    p = s.primitive
    in_loops = p.element or p.lowering or p.reduction or p.view_back
    return p.kind in ("opaque", "linear") and bool(arrays) and not in_loops
