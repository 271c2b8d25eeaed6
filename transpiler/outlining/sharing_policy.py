"""The choice of the parts of a program that are worth a function of their own.

Work on elements of arrays is faster in one kernel than in several, and a kernel is fast because it
ends only where it must: at a product of matrices, a factorization, a transform, which a library
computes. A part that holds one of these is cut there anyway. In a program that is compiled it
becomes a function; what has none stays with its neighbours. In a program that is read, a function
is what a reader need not read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Statement, Var
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.loops.products.contractions import is_worth


@dataclass(frozen=True)
class SharingPolicy:
    """The least that a function must have and spare, and a statement that it must hold."""

    least: int  # statements of a function
    spared: int  # statements that the program has less
    calls: int  # from which one more may compute what nothing reads
    is_reason: Callable[[Statement], bool] = lambda s: True  # a function holds such a statement

    def saves_enough(self, length: int, times: int) -> bool:
        """True if statements that occur so often are worth a function."""
        return length >= self.least and length * (times - 1) >= self.spared


TO_READ = SharingPolicy(10, 30, 2)


def to_compile(builder: Builder) -> SharingPolicy:
    """The policy for a program of which kernels are made."""
    return SharingPolicy(6, 40, 8, lambda s: isinstance(s, Apply) and _is_of_library(s, builder))


def _is_of_library(s: Apply, builder: Builder) -> bool:
    """True for an operation that ends a kernel, because a library computes it."""
    arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim > 1]
    if s.primitive.kind == "bilinear" and len(arrays) == 2:
        rows, columns = arrays[0].type.dims, arrays[1].type.dims
        known = builder.dims.actual.keys()
        asked = {n for d in (*rows, *columns) for n in dim_symbols(builder.dims.resolve(d))}
        return not asked <= known or is_worth((rows[:-1], rows[-1:], columns[-1:]), builder)
    p = s.primitive
    in_loops = p.element or p.lowering or p.reduction or p.view_back
    return p.kind in ("opaque", "linear") and bool(arrays) and not in_loops
