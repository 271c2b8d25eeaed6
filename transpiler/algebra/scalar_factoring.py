"""Move scalar factors out of matrix products: scale the result instead of an operand.

Before::

    w = (alpha * A) @ x

After: ``w = alpha * (A @ x)``, without a temporary array of the size of ``A``.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, Function, Statement, Var
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import multiply
from calque.transpiler.primitives.products import dot, matmul

_PRODUCTS = (matmul, dot)


def factor_out_scalars(function: Function, builder: Builder) -> None:
    """Move scalar factors of operands out of all matrix products of a function, in place."""
    made: dict[Var, Statement] = {v: s for s in core.walk(function.body) for v in s.outs}
    with builder.active():
        _within(function.body, builder, made)


def _within(block: Block, builder: Builder, made: dict[Var, Statement]) -> None:
    written: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _within(inner, builder, made)
        statements = [s] if not isinstance(s, Apply) else _product(s, builder, made)
        for t in statements:
            t.phase = s.phase
        written += statements
    block.statements[:] = written


def _product(s: Apply, builder: Builder, made: dict[Var, Statement]) -> list[Statement]:
    """The statements that replace ``s``; ``s`` itself if nothing changes."""
    if s.primitive not in _PRODUCTS or s.out.type.dtype.kind not in "fc":
        return [s]
    factors: list[Atom] = []
    with builder.block() as block, builder.at(s.origin):
        matrices = [_without_factors(a, s, made, factors) for a in s.args]
        if not factors:
            return [s]
        value: Any = apply(s.primitive, *map(wrap, matrices), **s.params)
        for factor in factors:
            value = apply(multiply, wrap(factor), value)
    last = block.statements[-1]
    if not isinstance(last, Apply) or last.out is not atom(value):
        return [s]
    if (last.out.type.dtype, last.out.type.ndim) != (s.out.type.dtype, s.out.type.ndim):
        return [s]
    last.outs = s.outs
    return block.statements


def _without_factors(
    a: Atom, product: Apply, made: dict[Var, Statement], factors: list[Atom]
) -> Atom:
    """A matrix without its scalar factors, which are appended to ``factors``."""
    s = made.get(a) if isinstance(a, Var) and a.type.ndim > 1 else None
    if not isinstance(s, Apply) or s.out.type.dtype != product.out.type.dtype:
        return a
    if s.primitive is transpose and isinstance(s.args[0], Var):
        inner = _without_factors(s.args[0], product, made, factors)
        return a if inner is s.args[0] else atom(apply(s.primitive, wrap(inner), **s.params))
    if s.primitive is multiply:
        for number, matrix in (s.args, s.args[::-1]):
            is_number = not isinstance(number, Var) or not number.type.ndim
            if is_number and isinstance(matrix, Var) and matrix.type.dtype == s.out.type.dtype:
                factors.append(number)
                return _without_factors(matrix, product, made, factors)
    return a
