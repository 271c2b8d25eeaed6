"""Rewrite reductions over any axes as reductions over the last ones, for GPU threads.

Before::

    total = np.sum(x, axis=0)          # of x of (n, m)

After: ``total = np.sum(np.transpose(x), axis=1)``: the loop over the columns is the outer one, and
its iterations are independent. No array is transposed: elements are read at transposed indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.ir.core import Apply, Statement, Var
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import apply


def sums_other_axes(s: Statement) -> bool:
    """True if a statement is a reduction over axes that are not the last ones."""
    if not isinstance(s, Apply) or s.primitive.reduction is None or not isinstance(s.args[0], Var):
        return False
    ndim, axis = s.args[0].type.ndim, s.params["axis"]
    return axis is not None and sorted(axis) != list(range(ndim - len(axis), ndim))


def summed_last(s: Apply, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The same reduction of a transposed operand, over its last axes."""
    axis = tuple(sorted(params["axis"]))
    kept = tuple(a for a in range(args[0].ndim) if a not in axis)
    turned = apply(transpose, args[0], axes=(*kept, *axis))
    last = tuple(range(len(kept), args[0].ndim))
    total = apply(s.primitive, turned, **{**params, "axis": last, "keepdims": False})
    return FUNCTIONS[np.expand_dims](total, axis) if params["keepdims"] else total
