"""Solve systems with a triangular matrix by substitution, without factoring the matrix.

Before::

    L = np.linalg.cholesky(K)
    x = np.linalg.solve(L.T, np.linalg.solve(L, y))

After: ``x = solve_triangular(L.T, solve_triangular(L, y, lower=True), lower=False)``.
"""

from __future__ import annotations

from calque.transpiler.algebra.triangularity import LOWER, Triangles
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, While
from calque.transpiler.primitives.composed import is_small_factorization
from calque.transpiler.primitives.linalg import solve
from calque.transpiler.primitives.systems import solve_triangular


def solve_by_substitution(function: Function, builder: Builder) -> None:
    """Replace ``solve`` by ``solve_triangular``, in place; kernels solve small systems in loops."""
    triangles, primitive = Triangles(function), solve_triangular
    if any(p.name == primitive.name for p in function.signature):
        return  # in the generated source that name is the argument

    def visit(block: Block, looping: bool) -> None:
        for s in block.statements:
            for inner in core.blocks_of(s):
                visit(inner, looping or isinstance(s, (For, While)))
            if not isinstance(s, Apply) or s.primitive is not solve:
                continue
            kinds = triangles(s.args[0])
            if kinds and not (looping and is_small_factorization([wrap(a) for a in s.args])):
                s.primitive = primitive
                s.params = {"lower": kinds >= LOWER}

    with builder.active():
        visit(function.body, False)
