"""Sums of products with a slice that shrinks or grows in each iteration, as matrix products.

Before, in the reverse pass of ``cov[i, i:] = x[:, i] @ x[:, i:]``::

    for i in range(m - 1, -1, -1):
        s_bar = cov_bar[i, i:]
        x_bar[:, i:] += np.outer(x[:, i], s_bar)
        x_bar[:, i] += x[:, i:] @ s_bar

After::

    s_bar_saved = np.zeros((m, m))
    for i in range(m - 1, -1, -1):
        s_bar_saved[i, i:] = cov_bar[i, i:]
    if np.all(np.isfinite(x)):
        x_bar += x @ (s_bar_saved + s_bar_saved.T)
    else:
        for i in range(m - 1, -1, -1):
            x_bar[:, i:] += np.outer(x[:, i], s_bar_saved[i, i:])
            x_bar[:, i] += x[:, i:] @ s_bar_saved[i, i:]

The vectors of the iterations are rows of a matrix that is zero elsewhere, and all of ``x`` is
multiplied, at most twice the work. Zero times infinity would be NaN, so the loop stays for ``x``
that is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Builder, atom, loop_index, wrap
from calque.transpiler.ir.core import Apply, If, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.loops.products.array_sections import (
    Iterations,
    Section,
    is_whole,
    sizes_at_hand,
)
from calque.transpiler.loops.products.contractions import PRODUCTS, combined, worth_a_product
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.indexing import update_add
from calque.transpiler.primitives.products import matmul, outer


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """The vectors of all iterations, as parts of the rows of a matrix that is zero elsewhere."""

    vector: Var
    place: Section  # along its axis, the row of an iteration
    columns: slice  # the part of the row
    width: DimLike

    @property
    def sizes(self) -> tuple[DimLike, DimLike]:
        """The shape of the matrix."""
        return self.place.read.args[0].type.dims[self.place.axis], self.width

    def same(self, other: PlacedRows, builder: Builder) -> bool:
        """True if ``self`` and ``other`` describe the same matrix."""
        dims, dim_of = builder.dims, builder.dim_of
        mine, theirs = ((p.place.place, p.columns.start, p.columns.stop) for p in (self, other))
        return (
            self.vector is other.vector
            and all(map(dims.same, self.sizes, other.sizes))
            and all(
                a is b if a is None or b is None else dims.same(dim_of(wrap(a)), dim_of(wrap(b)))
                for a, b in zip(mine, theirs, strict=True)
            )
        )


@dataclass(frozen=True, eq=False)
class TriangularTerm:
    """A product with a vector of varying length that each iteration adds to a part of a matrix.

    Over all iterations it is ``matrix @ rows`` if it ``spreads`` over parts of all rows, or
    ``matrix @ rows.T`` if each iteration makes a column; the transpose of these if ``turned``.
    """

    base: Var  # the array before the addition
    link: Apply  # the statement that adds or stores
    placed: PlacedRows
    matrix: Var
    transposed: bool  # the matrix is read transposed
    spreads: bool  # an outer product is added
    turned: bool

    def whole(self, iterations: Iterations, rows: Any) -> Any:
        """The sum over all iterations, as one matrix product."""
        rows = rows if self.spreads else rows.T
        matrix = iterations.outside(self.matrix)
        matrix = matrix.T if self.transposed != self.turned else matrix
        return apply(matmul, rows.T, matrix) if self.turned else apply(matmul, matrix, rows)

    def both(self, iterations: Iterations, rows: Any) -> Any:
        """The sum over all iterations of this term and the one that it pairs with."""
        matrix = iterations.outside(self.matrix)
        matrix = matrix.T if self.transposed != self.turned else matrix
        rows = rows + rows.T
        return apply(matmul, rows, matrix) if self.turned else apply(matmul, matrix, rows)

    def added(self, now: Any, whole: Any, iterations: Iterations) -> Any:
        """The array ``now`` with the sum ``whole`` added or stored."""
        index = () if self.spreads else iterations.index_of_all(self.placed.place)
        return combined(now, whole[index] if index else whole, index, self.link.primitive)

    def one(self, now: Any, rows: Any, counter: Any, iterations: Iterations) -> Any:
        """The array ``now`` with the term of one iteration added or stored."""
        place = iterations.outside(self.placed.place.place, counter)
        ends = (self.placed.columns.start, self.placed.columns.stop)
        part = slice(*(None if e is None else iterations.outside(atom(e), counter) for e in ends))
        vector, matrix = rows[place, part], iterations.outside(self.matrix)
        item = place if self.spreads else part
        own = matrix[item] if self.transposed else matrix[:, item]
        if self.spreads:
            product = apply(outer, *((vector, own) if self.turned else (own, vector)))
        else:
            product = apply(matmul, *((vector, own) if self.transposed else (own, vector)))
        item = part if self.spreads else place
        index = (item,) if self.turned else (slice(None), item)
        return combined(now, product, index, self.link.primitive)

    def pairs_with(self, other: TriangularTerm, builder: Builder) -> bool:
        """True if one matrix product can compute both terms: one spreads, the other gathers."""
        return (
            self.spreads != other.spreads
            and self.link.primitive is other.link.primitive is update_add
            and self.matrix is other.matrix
            and self.transposed == other.transposed
            and self.turned == other.turned
            and builder.dims.same(*self.placed.sizes)
            and self.placed.same(other.placed, builder)
        )


def all_added(
    now: Any,
    terms: Sequence[TriangularTerm],
    rows: Callable[[TriangularTerm], Any],
    iterations: Iterations,
) -> Any:
    """The array with all iterations' terms of one matrix, by one product if that is finite."""
    builder = iterations.builder
    name = terms[0].link.out.name
    with builder.at(terms[0].link.origin):
        finite: Any = np.all(np.isfinite(iterations.outside(terms[0].matrix)))
        finite.atom.name = f"{builder.described(terms[0].matrix) or 'all'}_is_finite"
        with builder.block() as whole:
            whole.results = [atom(_at_once(now, terms, rows, iterations))]
        with builder.block() as each:
            each.results = [atom(_one_by_one(now, terms, rows, iterations))]
        out = Var(now.type, name, builder.origin)
        builder.emit(If((out,), atom(finite), whole, each, builder.origin))
    return wrap(out)


def _at_once(
    now: Any,
    terms: Sequence[TriangularTerm],
    rows: Callable[[TriangularTerm], Any],
    iterations: Iterations,
) -> Any:
    left = [*terms]
    while left:
        term = left.pop(0)
        like = next((t for t in left if term.pairs_with(t, iterations.builder)), None)
        if like is None:
            now = term.added(now, term.whole(iterations, rows(term)), iterations)
            continue
        left.remove(like)
        spread = term if term.spreads else like
        now = spread.added(now, spread.both(iterations, rows(term)), iterations)
    return now


def _one_by_one(
    now: Any,
    terms: Sequence[TriangularTerm],
    rows: Callable[[TriangularTerm], Any],
    iterations: Iterations,
) -> Any:
    builder, loop = iterations.builder, iterations.loop
    first, end = (builder.dim_of(wrap(a)) for a in (loop.start, loop.stop))
    low, high = (first, end - 1) if loop.step == 1 else (end + 1, first)
    counter = loop_index(low, high, loop.index.name, (first, end))

    def step(total: Var) -> list[Any]:
        each: Any = wrap(total)
        for term in terms:
            each = term.one(each, rows(term), counter, iterations)
        return [each]

    phi = Var(now.type, atom(now).name, builder.origin)
    span = (loop.start, loop.stop, loop.step)
    return wrap(emit_fold(builder, counter.atom, span, [now], step, phis=[phi]).outs[0])


def triangular_term(
    base: Var, link: Apply, product: Apply, iterations: Iterations
) -> TriangularTerm | Refused | None:
    """The triangular term that a statement adds or stores, or why it stays; None in other forms."""
    if base.type.ndim != 2 or not is_plain_store(link):
        return None
    if product.primitive is outer:
        found = _spread(base, link, product, iterations)
    elif product.primitive in PRODUCTS and product.out.type.ndim == 1:
        found = _gathered(base, link, product, iterations)
    else:
        return None
    return None if found is None else _unplaced(found, iterations) or found


def _spread(
    base: Var, link: Apply, product: Apply, iterations: Iterations
) -> TriangularTerm | None:
    """``y[:, i:] += np.outer(x[:, i], s)``, or ``y[i:] += np.outer(s, x[:, i])``."""
    if link.primitive is not update_add:
        return None
    for axis in (0, 1):
        columns = iterations.most_along(link, axis)
        part = iterations.part(product.args[1 - axis])
        if columns is None or part is None or part.read.args[0].type.ndim != 2:
            continue
        placed = PlacedRows(product.args[axis], part, columns, base.type.dims[axis])
        matrix = part.read.args[0]
        return TriangularTerm(base, link, placed, matrix, part.axis == 0, True, axis == 0)
    return None


def _gathered(
    base: Var, link: Apply, product: Apply, iterations: Iterations
) -> TriangularTerm | None:
    """``y[:, i] += x[:, i:] @ s``, or ``y[i] = s @ x[i:]``."""
    part = iterations.part_at(link)
    left, right = product.args
    vector, matrix = (left, right) if left.type.ndim == 1 else (right, left)
    axis = 1 if matrix is left else 0
    most = iterations.most_of(matrix, axis)
    if part is None or most is None or vector.type.ndim != 1:
        return None
    array, columns = most
    placed = PlacedRows(vector, part, columns, array.type.dims[axis])
    return TriangularTerm(base, link, placed, array, axis == 0, False, part.axis == 0)


def _unplaced(term: TriangularTerm, iterations: Iterations) -> Refused | None:
    """The reason if the rows cannot be saved, leave much of their matrix empty, or do not pay."""
    builder, placed, here = iterations.builder, term.placed, (term.link.origin,)
    part = placed.place
    others = [item for k, item in enumerate(part.items) if k != part.axis]
    if placed.vector not in iterations.made or not all(map(is_whole, others)):
        return Refused("{0} uses a vector that cannot be saved for all iterations", here)
    if not sizes_at_hand((*term.matrix.type.dims, *placed.sizes), builder):
        return Refused("{0} uses a matrix whose sizes are not those of arguments", here)
    length = dim_symbols(builder.dims.resolve(placed.vector.type.dims[0]))
    counter = builder.dim_of(wrap(iterations.loop.index))
    if not length <= builder.dims.arguments | dim_symbols(counter):
        return Refused("{0} uses a slice that may begin after the end of its array", here)
    gap = builder.dims.resolve(placed.sizes[0] - iterations.count())
    if not isinstance(gap, int) or not 0 <= gap <= 4 or not iterations.is_inside(part):
        return Refused("{0} uses some rows of a matrix, not known to be nearly all of them", here)
    if not worth_a_product((*term.matrix.type.dims, *placed.sizes), builder):
        return Refused("{0} adds or stores a product not known to be large in this call", here)
    return None
