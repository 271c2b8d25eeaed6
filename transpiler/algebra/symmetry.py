"""Find symmetric matrices: always symmetric, or symmetric if the function's arguments are.

NumPy's ``eigh`` and ``cholesky`` read one triangle. The gradient by a symmetric matrix is
symmetric, as in JAX; by any other matrix it is nonzero only at the entries that are read.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Var, While, free_vars
from calque.transpiler.primitives import scipy_linalg
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.complexes import real
from calque.transpiler.primitives.creation import constant, ones, zeros
from calque.transpiler.primitives.diagonals import diag, eye
from calque.transpiler.primitives.elementwise import (
    add,
    astype,
    multiply,
    negative,
    positive,
    where,
)
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.linalg import inv
from calque.transpiler.primitives.products import dot, matmul
from calque.transpiler.primitives.scipy_matrices import expm


class Symmetry(IntEnum):
    """The symmetry of a matrix, or of each matrix of a stack."""

    UNKNOWN = 0
    AS_ARGUMENTS = 1
    ALWAYS = 2


_SAME = (astype, copy, negative, positive, inv, real, scipy_linalg.inv, expm)
_COMMUTING = (add, multiply)


def symmetries(function: Function) -> dict[Var, Symmetry]:
    """The symmetry of each matrix in a function."""
    computed = current().definitions  # by the code around
    around = [v for v in free_vars(function.body) if v not in computed]
    given = {*function.params, *around}
    found = {v: Symmetry.AS_ARGUMENTS for v in given if _is_matrix(v)}
    finder = _Finder(found)
    finder.visit(function.body)
    return finder.found


def _is_matrix(value: Var) -> bool:
    """True if a value may be a square matrix; a row or column that broadcasts to one is not."""
    dims = value.type.dims
    return len(dims) > 1 and (dims[-2] == 1) == (dims[-1] == 1)


class _Finder:
    def __init__(self, found: dict[Var, Symmetry]):
        self.found = found
        self.made: dict[Var, Apply] = {}

    def of(self, value: Atom) -> Symmetry:
        """The symmetry of an operand; a number counts as a matrix of equal entries."""
        if not isinstance(value, Var) or all(d == 1 for d in value.type.dims[-2:]):
            return Symmetry.ALWAYS
        return self.found.get(value, Symmetry.UNKNOWN)

    def visit(self, block: Block) -> None:
        """Note the symmetry of each value that a block defines."""
        for s in block.statements:
            match s:
                case Apply(outs=(out,)):
                    self.made[out] = s
                    if _is_matrix(out):
                        self.found[out] = self._made_by(s)
                case If(then=then, orelse=orelse):
                    self.visit(then)
                    self.visit(orelse)
                    for out, a, b in zip(s.outs, then.results, orelse.results, strict=True):
                        self.found[out] = min(self.of(a), self.of(b))
                case For() | While():
                    self._loop(s)

    def _loop(self, s: For | While) -> None:
        """Note a loop's carried values: the weakest symmetry of initial and next value."""
        for phi, init in zip(s.phis, s.inits, strict=True):
            self.found[phi] = self.of(init)
        while True:
            self.visit(s.body)
            changed = False
            for phi, after in zip(s.phis, s.body.results, strict=True):
                if self.of(after) < self.found[phi]:
                    self.found[phi], changed = self.of(after), True
            if not changed:
                break
        for out, phi in zip(s.outs, s.phis, strict=True):
            self.found[out] = self.found[phi]

    def _made_by(self, s: Apply) -> Symmetry:
        if s.primitive in _SAME:
            return self.of(s.args[0])
        if s.primitive.kind == "elementwise" or s.primitive is where:
            if s.primitive in _COMMUTING and self._transposes(*s.args):
                return Symmetry.ALWAYS
            return min(map(self.of, s.args))
        rule = _RULES.get(s.primitive)
        return Symmetry.UNKNOWN if rule is None else rule(self, s)

    def _transposes(self, a: Atom, b: Atom) -> bool:
        return self._factors(a, True) == self._factors(b, False)

    def _factors(self, value: Atom, turned: bool) -> list[Any]:
        """The factors of a matrix product, each with True if it is transposed."""
        made = self.made.get(value) if isinstance(value, Var) else None
        if made is not None and made.primitive is transpose and _swaps(made):
            return self._factors(made.args[0], not turned)
        if made is not None and made.primitive in (matmul, dot):
            if all(isinstance(a, Var) and a.type.ndim > 1 for a in made.args):
                parts = [self._factors(a, turned) for a in made.args]
                left, right = reversed(parts) if turned else parts
                return [*left, *right]
        return [(value, turned)]

    def product(self, s: Apply) -> Symmetry:
        """The symmetry of a product: ``a @ s @ a.T`` has that of ``s``."""
        factors = self._factors(s.outs[0], False)
        half = len(factors) // 2
        back = [(value, not turned) for value, turned in reversed(factors)]
        if factors[:half] != back[:half]:
            return Symmetry.UNKNOWN
        return self.of(factors[half][0]) if len(factors) % 2 else Symmetry.ALWAYS


def _swaps(s: Apply) -> bool:
    axes = tuple(s.params["axes"])
    return len(axes) > 1 and axes == (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2)


def _transposed(finder: _Finder, s: Apply) -> Symmetry:
    rank = len(s.params["axes"])
    kept = set(s.params["axes"][-2:]) == {rank - 2, rank - 1}
    return finder.of(s.args[0]) if kept else Symmetry.UNKNOWN


def _indexed(finder: _Finder, s: Apply) -> Symmetry:
    """One matrix of a stack."""
    base, index = s.args[0], s.params["index"]
    if not isinstance(base, Var) or not isinstance(index, tuple):
        return Symmetry.UNKNOWN
    leading = len(index) <= base.type.ndim - 2 and all(type(i) is int for i in index)
    return finder.of(base) if leading else Symmetry.UNKNOWN


def _constant(finder: _Finder, s: Apply) -> Symmetry:
    value = np.array(s.params["value"])
    same = np.array_equal(value, np.swapaxes(value, -1, -2))
    return Symmetry.ALWAYS if same else Symmetry.UNKNOWN


def _diagonal(finder: _Finder, s: Apply) -> Symmetry:
    on_it = s.params.get("k", 0) == 0
    return Symmetry.ALWAYS if on_it else Symmetry.UNKNOWN


_RULES: dict[Primitive, Callable[[_Finder, Apply], Symmetry]] = {
    transpose: _transposed,
    getitem: _indexed,
    constant: _constant,
    eye: _diagonal,
    diag: _diagonal,
    zeros: lambda finder, s: Symmetry.ALWAYS,
    ones: lambda finder, s: Symmetry.ALWAYS,
    matmul: _Finder.product,
    dot: _Finder.product,
}
