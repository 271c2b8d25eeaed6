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

from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Statement, label
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.types import DimLike
from calque.transpiler.loops.array_sections import Iterations, Section, worth_a_product
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.products import dot, matmul

PRODUCTS = (matmul, dot)


def hoist_products(function: Function, builder: Builder) -> None:
    """Hoist such products out of the loops of a function, in place."""
    with builder.active(), builder.block():
        made: list[Statement] = []
        for s in function.body.statements:
            if isinstance(s, For):
                ahead = _before(s, builder)
                label(ahead, s.phase)
                made += ahead
            made.append(s)
        function.body.statements[:] = made
    remove_dead_code(function)


def _before(loop: For, builder: Builder) -> list[Statement]:
    """Let a loop read hoisted products; return the statements that compute them before it."""
    iterations = Iterations(loop, builder)
    if not iterations.can_be_counted():
        return []
    before: list[Statement] = []
    body: list[Statement] = []
    for s in loop.body.statements:
        with builder.block() as ahead, builder.at(s.origin):
            read = _read_instead(s, iterations) if isinstance(s, Apply) else None
        if read is not None:
            builder.definitions[s.outs[0]] = read.statements[-1]
        before += ahead.statements if read is not None else []
        body += [s] if read is None else read.statements
    loop.body.statements[:] = body
    return before


def _read_instead(s: Apply, iterations: Iterations) -> Block | None:
    """The statements that read the product, which the open block computes; None if it stays."""
    if s.primitive not in PRODUCTS or s.out.type.ndim != 1:
        return None
    left, right = s.args
    of_rows = left.type.ndim == 1
    row, matrix = (left, right) if of_rows else (right, left)
    part = iterations.part(row)
    if part is None:
        return None
    shrinking = iterations.most_of(matrix, 1 if of_rows else 0)
    if shrinking is None and not iterations.is_steady(matrix):
        return None
    array, columns = (matrix, None) if shrinking is None else shrinking
    length = s.out.type.dims[0] if shrinking is None else array.type.dims[1 if of_rows else 0]
    if not _is_worth(s, part, length, iterations):
        return None
    steady = iterations.outside(array)
    rows = iterations.all_parts(part)
    whole = apply(matmul, rows, steady if of_rows else steady.T)
    low = iterations.low(part)
    with iterations.builder.block() as reading:
        place = wrap(part.place) - low
        found = whole[place] if columns is None else whole[place, columns]
    return _named(reading, found, s)


def _is_worth(s: Apply, part: Section, length: DimLike, iterations: Iterations) -> bool:
    array = part.read.args[0]
    if s.out.type.dtype.kind not in "fc" or not iterations.is_inside(part):
        return False
    builder = iterations.builder
    inner, count = part.read.out.type.dims[0], array.type.dims[part.axis]
    known = all(a.type.ndim for a in s.args) and builder.dims.same(
        s.args[0].type.dims[-1], s.args[1].type.dims[0]
    )
    return known and worth_a_product((count, inner, length), builder)


def _named(reading: Block, found: Any, s: Apply) -> Block | None:
    """Let a block that reads a row define the product's variable; None if dtypes differ."""
    last = reading.statements[-1]
    assert isinstance(last, Apply) and last.out is atom(found)
    if last.out.type.dtype != s.out.type.dtype:
        return None
    last.outs = s.outs
    return reading
