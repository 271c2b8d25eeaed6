"""Numba as a target for kernels that add in the order of the program: ``reassociate=False``.

Loops add numbers one after the other. Operations that sum many numbers in an order of their own,
as ``np.sum`` or a matrix product, stay calls of NumPy. No product is fused with a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.codegen.numba.numba_target import NUMBA, Numba
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Kernel, Statement, Var
from calque.transpiler.ir.target import Target
from calque.transpiler.primitives import scalars
from calque.transpiler.primitives.elementwise import power


class NumbaInOrder(Numba):
    """Kernels that Numba compiles without permission to reorder sums."""

    name = "numba, in order"
    has_parts = False

    def can_compile(self, s: Statement, looping: bool = False) -> bool:
        """False for statements that hold a sum in NumPy's order; else as in ``Numba``."""
        inner = (t for block in core.blocks_of(s) for t in core.walk(block))
        return not any(map(_sums, (s, *inner))) and super().can_compile(s, looping)

    def can_be_scalar(self, s: Apply) -> bool:
        """False for an operation that sums in NumPy's order; else as in ``Numba``."""
        return not _sums(s) and super().can_be_scalar(s)

    def is_inside(self, s: Apply, looping: bool) -> bool:
        """False for a folded operation that sums in NumPy's order; else as in ``Numba``."""
        return not _sums(s) and super().is_inside(s, looping)

    def head(self, s: Kernel, options: dict[str, Any]) -> str:
        """The decorator, with ``reassociate=False``; threads only run independent iterations."""
        found = super().head(s, options)
        given = found.removeprefix("kernel").strip("()")
        return f"kernel({', '.join(filter(None, [given, 'reassociate=False']))})"

    def operation(self, s: Apply) -> str | None:
        """The template of an operation; powers call the C library, as Python and NumPy do."""
        return _power(s) or super().operation(s)


NUMBA_IN_ORDER = NumbaInOrder()


def in_order(target: Target) -> Target:
    """The target for ``reassociate=False``."""
    return NUMBA_IN_ORDER if target is NUMBA else target


def _sums(s: Statement) -> bool:
    """True if a statement adds or multiplies many floats in an order of its own."""
    if not isinstance(s, Apply) or not s.primitive.sums:
        return False
    return any(o.type.dtype.kind in "fc" for o in s.outs)


def _power(s: Apply) -> str | None:
    """The text of a real power with a known exponent, except squares, which are products."""
    if s.primitive not in (power, scalars.pow_) or isinstance(s.args[1], Var) or s.out.type.ndim:
        return None
    t = s.out.type.dtype
    if t.kind != "f" or s.args[1] == 2 or not isinstance(s.args[0], Var):
        return None
    exponent = repr(float(s.args[1]))
    return f"{{0}} ** {f'np.float32({exponent})' if t == np.float32 else exponent}"
