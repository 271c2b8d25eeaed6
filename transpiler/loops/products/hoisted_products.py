"""Hoist products of a matrix with one row per iteration out of a loop, as one matrix product.

Before::

    for t in range(n):
        h = np.tanh(x[t] @ W + h @ U)

After::

    x_dot_W = x @ W
    for t in range(n):
        h = np.tanh(x_dot_W[t] + h @ U)

BLAS reads the matrix once for many rows; each iteration would read it for one row. Only the rows
that iterations use are read. Iterations may use a shrinking or a growing part of the matrix, as in
``x[i] @ x[i + 1 :].T``: then all of it is multiplied, which is twice the work and still several
times faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Statement
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import DimLike
from calque.transpiler.loops.products.array_sections import Iterations, Section
from calque.transpiler.loops.products.contractions import (
    PRODUCTS,
    Operand,
    are_few,
    axes_of,
    contract,
    multiplies_matrices,
    worth_a_product,
)


def hoist_products(function: Function, builder: Builder) -> None:
    """Hoist such products out of the loops of a function, in place."""
    with builder.active(), builder.block():
        made: list[Statement] = []
        for s in function.body.statements:
            if isinstance(s, For):
                ahead = _before(s, builder)
                if isinstance(ahead, Refused):
                    missed(builder, "raise_products", s, ahead, "before the loop")
                else:
                    applied(builder, "raise_products", s, "before the loop")
                    label(ahead, s.phase)
                    made += ahead
            made.append(s)
        function.body.statements[:] = made
    remove_dead_code(function)


def _before(loop: For, builder: Builder) -> list[Statement] | Refused:
    """Let a loop read hoisted products, which the statements before it compute; or say why not."""
    iterations = Iterations(loop, builder)
    if not iterations.can_be_counted():
        return Refused("it does not count by one")
    refused: list[Refused] = []
    before: list[Statement] = []
    body: list[Statement] = []
    for s in loop.body.statements:
        if not isinstance(s, Apply) or s.primitive not in PRODUCTS:
            body.append(s)
            continue
        with builder.block() as ahead, builder.at(s.origin):
            read = _read_instead(s, iterations)
        if isinstance(read, Refused):
            refused.append(read)
            body.append(s)
            continue
        builder.definitions[s.out] = read.statements[-1]
        before += ahead.statements
        body += read.statements
    loop.body.statements[:] = body
    return before or next(iter(refused), Refused("it multiplies no row by a matrix"))


def _read_instead(s: Apply, iterations: Iterations) -> Block | Refused:
    """The statements that read the product, which the open block computes; or why it stays."""
    here = (s.origin,)
    if multiplies_matrices(s):
        return _matrix_instead(s, iterations)
    axes_of_both = axes_of(s)
    if s.out.type.ndim != 1 or axes_of_both is None:
        return Refused("{0} is no product of a row and a matrix", here)
    factors = zip(s.args, axes_of_both, strict=True)
    (row, own), (matrix, axes) = sorted(factors, key=lambda factor: len(factor[1]))
    part = iterations.part(row)
    if part is None:
        return Refused("{0} multiplies no row that the counter selects of an unchanged array", here)
    kept = axes.index(0)
    shrinking = iterations.most_of(matrix, kept)
    if shrinking is None and not iterations.is_steady(matrix):
        return Refused("{0} multiplies by a matrix that differs between iterations", here)
    array, columns = (matrix, None) if shrinking is None else shrinking
    length = s.out.type.dims[0] if shrinking is None else array.type.dims[kept]
    not_worth = _not_worth(s, part, length, iterations)
    if not_worth:
        return Refused(not_worth, here)
    steady = Operand(iterations.outside(array), axes)
    rows = Operand(iterations.all_parts(part), ("iteration", *own))
    whole = contract(rows, steady, ("iteration", 0))
    low = iterations.low(part)
    with iterations.builder.block() as reading:
        place = wrap(part.place) - low
        found = whole[place] if columns is None else whole[place, columns]
    return _named(reading, found, s)


def _matrix_instead(s: Apply, iterations: Iterations) -> Block | Refused:
    """The same for ``x[t] @ W`` with a few rows in each iteration: all rows are one matrix's."""
    here, (rows, matrix) = (s.origin,), s.args
    part = iterations.part(rows)
    if part is None or not iterations.is_steady(matrix):
        return Refused("{0} multiplies no rows that the counter selects by an unchanged one", here)
    builder, few = iterations.builder, rows.type.dims[0]
    if not are_few(few, builder):
        return Refused("{0} multiplies matrices that are large in each iteration", here)
    not_worth = _not_worth(s, part, s.out.type.dims[1], iterations)
    if not_worth:
        return Refused(not_worth, here)
    whole = np.tensordot(iterations.all_parts(part), iterations.outside(matrix), 1)
    low = iterations.low(part)
    with builder.block() as reading:
        found = whole[wrap(part.place) - low]
    return _named(reading, found, s)


def _not_worth(s: Apply, part: Section, length: DimLike, iterations: Iterations) -> str | None:
    """The reason if one product for all iterations is not known to be right and faster."""
    array = part.read.args[0]
    if s.out.type.dtype.kind not in "fc":
        return "{0} multiplies numbers that are no floats"
    if not iterations.is_inside(part):
        return "{0} reads rows that are not known to be inside of their array"
    builder = iterations.builder
    count = array.type.dims[part.axis]
    known = all(a.type.ndim for a in s.args) and builder.dims.same(
        s.args[0].type.dims[-1], s.args[1].type.dims[0]
    )
    if not known:
        return "{0} multiplies sizes that are not known to be equal"
    large = worth_a_product((count, *part.read.out.type.dims, length), builder)
    return None if large else "{0} is not known to be large enough in this call"


def _named(reading: Block, found: Any, s: Apply) -> Block | Refused:
    """Let a block that reads a row define the product's variable; refused if dtypes differ."""
    last = reading.statements[-1]
    assert isinstance(last, Apply) and last.out is atom(found)
    if last.out.type.dtype != s.out.type.dtype:
        return Refused("{0} has another dtype for all iterations at once", (s.origin,))
    last.outs = s.outs
    return reading
