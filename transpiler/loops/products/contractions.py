"""Contractions: sums of products over axes that two arrays share, written as products of matrices.

The axes of an operand have labels: the counter of a loop along whose axis the values of all
iterations stand, or the number of an axis of the value that one iteration has. ``contract`` writes
``s += a[i, k] * b[k, j]`` over all ``i``, ``j`` and ``k`` as ``a @ b``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir import dims
from calque.transpiler.ir.builder import Builder, atom, current
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import subtract
from calque.transpiler.primitives.indexing import update
from calque.transpiler.primitives.products import dot, matmul, outer
from calque.transpiler.primitives.templates import normalize

Axes = tuple[Hashable, ...]
Sizes = tuple[DimLike, ...]

PRODUCTS = (dot, matmul)
# the axes of the operands of a product, by their ranks
_AXES: dict[tuple[int, ...], tuple[Axes, Axes]] = {
    (1, 1): (("summed",), ("summed",)),
    (1, 2): (("summed",), ("summed", 0)),
    (2, 1): ((0, "summed"), ("summed",)),
}
# those of a product of two matrices
OF_MATRICES: tuple[Axes, Axes] = ((0, "summed"), ("summed", 1))


def axes_of(product: Apply) -> tuple[Axes, Axes] | None:
    """The axes of the operands of a product; None if it is none that ``contract`` can write."""
    ranks = tuple(a.type.ndim if isinstance(a, Var) else 0 for a in product.args)
    if product.primitive is outer:
        return ((0,), (1,)) if ranks == (1, 1) else None
    return _AXES.get(ranks) if product.primitive in PRODUCTS else None


@dataclass(frozen=True, eq=False)
class Operand:
    """An array and the labels of its axes."""

    value: Any
    axes: Axes

    @property
    def rank(self) -> int:
        """The number of axes of the value that one iteration has."""
        return sum(isinstance(axis, int) for axis in self.axes)

    @property
    def counters(self) -> set[Hashable]:
        """The other labels: the loops in whose iterations the values differ."""
        return {axis for axis in self.axes if not isinstance(axis, int)}

    def size(self, axis: Hashable) -> DimLike:
        """The size along the axis with this label."""
        return self.value.dims[self.axes.index(axis)]

    def ordered(self, axes: Axes) -> Any:
        """The array with its axes in another order."""
        if axes == self.axes:
            return self.value
        if len(axes) == 2:
            return self.value.T
        return np.transpose(self.value, [self.axes.index(axis) for axis in axes])

    def relabelled(self, own: Axes) -> Operand:
        """The operand with other labels for the axes of one iteration's value."""
        axes = tuple(own[axis] if isinstance(axis, int) else axis for axis in self.axes)
        return Operand(self.value, axes)

    def spread(self, axes: Axes, rank: int) -> Any:
        """The array so that NumPy's broadcasting aligns it with others of these axes."""
        shifted = self.relabelled(tuple(range(rank - self.rank, rank)))
        present = tuple(axis for axis in axes if axis in shifted.axes)
        value = shifted.ordered(present)
        items = [slice(None) if axis in present else None for axis in axes]
        while items and items[0] is None:
            items.pop(0)
        return value[tuple(items)] if None in items else value


def contract(left: Operand, right: Operand, axes: Axes) -> Any:
    """The array with these axes; summed are products over other axes, which both operands have."""
    pairs = ((left, right), (right, left))
    _, product = min((_cost(a, b, axes), k) for k, (a, b) in enumerate(pairs))
    a, b = pairs[product]
    summed = tuple(axis for axis in a.axes if axis in b.axes)
    rest = tuple(axis for axis in a.axes if axis not in summed)
    other = tuple(axis for axis in b.axes if axis not in summed)
    if len(summed) != 1 or len(other) > 1 or (len(rest) > 1 and a.axes[-1:] != summed):
        left_axes, right_axes = (tuple(map(o.axes.index, summed)) for o in (a, b))
        made = np.tensordot(a.value, b.value, (left_axes, right_axes))
    else:
        made = apply(matmul, a.ordered((*rest, *summed)), b.ordered((*summed, *other)))
    return Operand(made, (*rest, *other)).ordered(axes)


def _cost(a: Operand, b: Operand, axes: Axes) -> int:
    """The number of transposes in ``a @ b``; that of the result counts more, as later reads pay."""
    summed = {axis for axis in a.axes if axis in b.axes}
    made = tuple(axis for axis in (*a.axes, *b.axes) if axis not in summed)
    turned = 3 * (made != axes) + (a.axes[-1] not in summed) + (b.axes[0] not in summed)
    return turned if len(b.axes) - len(summed) <= 1 else turned + 1


_FEW = 32  # rows of a matrix of which one for all iterations, with as many times more, is faster


def multiplies_matrices(product: Apply) -> bool:
    """True for a product of two matrices."""
    both = [a for a in product.args if isinstance(a, Var) and a.type.ndim == 2]
    return product.primitive in PRODUCTS and len(both) == 2


def are_few(rows: DimLike, builder: Builder) -> bool:
    """True if a matrix has so few rows in this call that BLAS is far from its best with it.

    By the gradient of an LSTM: with 4 examples in a batch 1.27, with 16 1.10, with 64 1.00 times as
    fast if products of all iterations are one.
    """
    return builder.dims.are_small((rows,), _FEW)


def combined(now: Any, whole: Any, index: Sequence[Any], primitive: Any) -> Any:
    """The array ``now`` with ``whole`` stored at an index by ``primitive``, or added to it all."""
    if index:
        template, dynamic = normalize(now, tuple(index))
        return apply(primitive, now, whole, *dynamic, index=template)
    if primitive is subtract:
        return now - whole
    made = current().definitions.get(atom(now))
    zero = isinstance(made, Apply) and made.primitive.filled_with == 0
    return whole if zero or primitive is update else now + whole


def worth_a_product(sizes: Sizes, builder: Builder) -> bool:
    """True if one BLAS product of these sizes is faster than a product in each iteration.

    The last two sizes are the matrix's, the others are those of the rows.
    """
    return is_worth((sizes[:-2], sizes[-2:-1], sizes[-1:]), builder)


def is_worth(sizes: Sequence[Sizes], builder: Builder, of_elements: bool = False) -> bool:
    """True if a product of matrices is known to be large enough for BLAS in this call.

    The three groups of sizes are those of the rows, of what is summed, and of the columns. A
    product with a small dimension takes longer to read and to write than to compute. Compiled loops
    over elements, which a call of BLAS would divide, are faster up to a larger product.
    """
    are_small, most = builder.dims.are_small, dims.SMALL * (16 if of_elements else 1)
    bounds = [tuple(map(builder.dims.upper_bound, group)) for group in sizes]
    if not all(dim_symbols(d) <= builder.dims.actual.keys() for group in bounds for d in group):
        return False
    small = any(are_small((*group, 1024)) for group in bounds)
    return not small and not are_small(tuple(d for group in bounds for d in group), most)
