"""Find triangular matrices by the operations that compute them."""

from __future__ import annotations

from collections.abc import Callable

from calque.transpiler.algebra.filled_arrays import Stored
from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import Apply, Atom, Function, Var
from calque.transpiler.primitives import decompositions, scipy_factors, scipy_linalg
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.complexes import conj, real
from calque.transpiler.primitives.decompositions import cholesky
from calque.transpiler.primitives.diagonals import diag, eye, tril, triu
from calque.transpiler.primitives.elementwise import (
    add,
    astype,
    divide,
    multiply,
    negative,
    positive,
    subtract,
)
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.linalg import inv
from calque.transpiler.primitives.products import matmul
from calque.transpiler.primitives.scipy_eigen import qr
from calque.transpiler.primitives.scipy_matrices import expm

Kinds = frozenset[str]
LOWER, UPPER = frozenset(["lower"]), frozenset(["upper"])
DIAGONAL, UNKNOWN = LOWER | UPPER, frozenset[str]()
# operations on one matrix that keep each zero triangle
_SAME = (
    conj, negative, positive, real, astype, copy,
    inv, scipy_linalg.inv, expm,
)


class Triangles:
    """Tells for each matrix of a function which triangle may be nonzero."""

    def __init__(self, function: Function):
        self.stored = Stored(function)
        self._found: dict[Var, Kinds] = {}

    def __call__(self, matrix: Atom) -> Kinds:
        """The kind of a matrix, or of all matrices of a stack; ``DIAGONAL`` is both triangles."""
        if not isinstance(matrix, Var) or matrix.type.ndim < 2:
            return UNKNOWN
        if matrix not in self._found:
            self._found[matrix] = UNKNOWN  # for a carried matrix, which depends on itself
            made = self.stored.apply(matrix)
            self._found[matrix] = UNKNOWN if made is None else self._of(made, matrix)
        return self._found[matrix]

    def _of(self, s: Apply, matrix: Var) -> Kinds:
        if s.primitive in _SAME:
            return self(s.args[0])
        rule = _RULES.get(s.primitive)
        return UNKNOWN if rule is None else rule(self, s, matrix)

    def _cut(self, s: Apply, matrix: Var) -> Kinds:
        kept, k = self(s.args[0]), s.params["k"]
        if s.primitive is tril:
            return kept | LOWER if k <= 0 else kept
        return kept | UPPER if k >= 0 else kept

    def _transposed(self, s: Apply, matrix: Var) -> Kinds:
        axes, kinds = s.params["axes"], self(s.args[0])
        last = len(axes) - 1
        if tuple(axes[-2:]) == (last - 1, last):
            return kinds
        turned = {LOWER: UPPER, UPPER: LOWER, DIAGONAL: DIAGONAL}
        return turned.get(kinds, UNKNOWN) if tuple(axes[-2:]) == (last, last - 1) else UNKNOWN

    def _scaled(self, s: Apply, matrix: Var) -> Kinds:
        left, right = s.args
        if not isinstance(right, Var) or not right.type.ndim:
            return self(left)
        number = not isinstance(left, Var) or not left.type.ndim
        return self(right) if number and s.primitive is multiply else UNKNOWN

    def _both(self, s: Apply, matrix: Var) -> Kinds:
        """The kind of a sum or a product: a triangle is zero if it is in both operands."""
        if not all(isinstance(a, Var) and _alike(a, matrix) for a in s.args):
            return UNKNOWN
        return self(s.args[0]) & self(s.args[1])

    def _diagonal(self, s: Apply, matrix: Var) -> Kinds:
        return DIAGONAL if s.params["k"] == 0 else UNKNOWN

    def _taken(self, s: Apply, matrix: Var) -> Kinds:
        """The kind of a read: matrices of a stack, or a matrix that a loop has saved."""
        base, index = s.args[0], s.params["index"]
        leading = len(index) - index.count(None) <= base.type.ndim - 2
        if leading and Ellipsis not in index and _alike(base, matrix) and self(base):
            return self(base)
        stores = self.stored.saved(s)
        return frozenset.intersection(*(self(t.args[1]) for t in stores)) if stores else UNKNOWN


def _alike(a: Var, b: Var) -> bool:
    """True if two matrices, or those of two stacks, are known to have the same size."""
    pairs = zip(a.type.dims[-2:], b.type.dims[-2:], strict=False)
    return a.type.ndim > 1 and all(current().dims.same(m, n) for m, n in pairs)


_RULES: dict[Primitive, Callable[[Triangles, Apply, Var], Kinds]] = {
    cholesky: lambda found, s, matrix: LOWER,
    scipy_factors.cholesky: lambda found, s, matrix: LOWER if s.params["lower"] else UPPER,
    qr: lambda found, s, matrix: UPPER if matrix is s.outs[1] else UNKNOWN,
    decompositions.qr: lambda found, s, matrix: UPPER if matrix is s.outs[1] else UNKNOWN,
    tril: Triangles._cut,
    triu: Triangles._cut,
    transpose: Triangles._transposed,
    multiply: Triangles._scaled,
    divide: Triangles._scaled,
    add: Triangles._both,
    subtract: Triangles._both,
    matmul: Triangles._both,
    eye: Triangles._diagonal,
    diag: Triangles._diagonal,
    getitem: Triangles._taken,
}
