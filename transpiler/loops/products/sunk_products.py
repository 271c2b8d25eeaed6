"""Sink products out of loops: outer products and matrix-vector products become one matmul.

Before, in the reverse pass of ``h = np.tanh(x[t] @ W + h @ U)``::

    for t in range(n - 1, -1, -1):
        s_bar = h_bar * (1.0 - h[t] * h[t])
        W_bar += np.outer(x[t], s_bar)
        x_bar[t] += W @ s_bar
        h_bar = U @ s_bar

After::

    for t in range(n - 1, -1, -1):
        s_bar = s_bar_saved[t] = h_bar * (1.0 - h[t] * h[t])
        h_bar = U @ s_bar
    W_bar += x.T @ s_bar_saved
    x_bar += s_bar_saved @ W.T

No iteration may read the arrays that are added to. The order of the additions changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.uses import Uses
from calque.transpiler.loops.products.array_sections import (
    Iterations,
    Section,
    sizes_at_hand,
)
from calque.transpiler.loops.products.contractions import (
    OF_MATRICES,
    PRODUCTS,
    Operand,
    are_few,
    axes_of,
    combined,
    contract,
    multiplies_matrices,
    worth_a_product,
)
from calque.transpiler.loops.products.triangular_sums import (
    PlacedRows,
    TriangularTerm,
    all_added,
    triangular_term,
)
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import space, zeros
from calque.transpiler.primitives.elementwise import add, subtract
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.primitives.products import outer
from calque.transpiler.primitives.templates import indexed_dims, normalize

_NO_MATRIX = "it carries no matrix of floats"


@dataclass(frozen=True, eq=False)
class _Term:
    """A product that each iteration adds to an array, or stores into a part of it."""

    base: Var  # the array before the addition
    link: Apply  # the statement that adds or stores
    product: Apply
    rows: tuple[Atom, ...]  # the vectors, or matrices, that differ between iterations
    part: Section | None  # the section added to or stored; None for the whole array
    turned: tuple[bool, ...] = ()  # of a product of matrices: whether it multiplies a transpose


def sink_products(function: Function, builder: Builder) -> None:
    """Sink products out of the function's outermost loops, in place."""
    with builder.active(), builder.block():
        made: list[Statement] = []
        for s in function.body.statements:
            if not isinstance(s, For):
                made.append(s)
                continue
            sums = _Sums(s, builder)
            with builder.block():  # sizes that are only asked about are dropped
                refused = sums.find()
            if refused is not None:
                missed(builder, "raise_products", s, refused, "after the loop")
                made.append(s)
                continue
            applied(builder, "raise_products", s, "after the loop")
            with builder.block() as before:
                sums.keep_rows()
            with builder.block() as after:
                sums.take_out()
            label([*before.statements, *after.statements], s.phase)
            made += [*before.statements, s, *after.statements]
        function.body.statements[:] = made
    remove_dead_code(function)


class _Sums:
    """The arrays of a loop that no iteration reads, and the products added to them."""

    def __init__(self, loop: For, builder: Builder):
        self.loop, self.builder = loop, builder
        self.iterations = Iterations(loop, builder)
        self.found: dict[Var, list[_Term | TriangularTerm]] = {}
        self.users = Uses(loop.body)
        self.saved: dict[Var, Var] = {}  # a vector of each iteration -> the matrix of all
        self.placed: list[tuple[PlacedRows, Var]] = []

    def find(self) -> Refused | None:
        """Find the products that can be computed after the loop; the reason if there are none."""
        iterations, dims = self.iterations, self.builder.dims
        if not iterations.can_be_counted():
            return Refused("it does not count by one")
        refused: list[Refused] = []  # those about products come first
        found: dict[Var, list[_Term | TriangularTerm]] = {}
        for phi in self.loop.phis:
            links = self._links(phi)
            terms = links if isinstance(links, Refused) else self._terms(links)
            if not isinstance(terms, Refused):
                found[phi] = terms
            else:
                refused.insert(len(refused) if terms is links else 0, terms)
        if not found:
            nothing = Refused(_NO_MATRIX)
            return max(refused, key=lambda r: len(r.statements), default=nothing)
        if not dims.assume_nonnegative(iterations.count()):
            return Refused("it is not known to have a trip count of 0 or more")
        self.found = found
        return None

    def keep_rows(self) -> None:
        """Let the loop save the vectors of each iteration; emits their matrices before the loop."""
        terms = [term for found in self.found.values() for term in found]
        values = [a for term in terms if isinstance(term, _Term) for a in term.rows]
        for value in dict.fromkeys(values):
            if self._read(value) is None:
                self.saved[value] = self._save(value)
        for term in terms:
            if isinstance(term, TriangularTerm) and self._placed(term) is None:
                self.placed.append((term.placed, self._place(term.placed)))

    def take_out(self) -> None:
        """Emit the products into the open block, which comes after the loop."""
        for phi, terms in self.found.items():
            self._take(phi, terms)

    # the products that can be sunk

    def _links(self, phi: Var) -> list[tuple[Var, Apply]] | Refused:
        """The versions of an array that the loop carries, and what adds to or stores into each."""
        k = self.loop.phis.index(phi)
        result, t = self.loop.body.results[k], phi.type
        init = self.loop.inits[k]
        if t.ndim < 2 or t.dtype.kind not in "fc" or not isinstance(init, Var):
            return Refused(_NO_MATRIX)
        if not all(map(self.builder.dims.same, t.dims, init.type.dims)):
            return Refused("it may change the size of a matrix")
        links: list[tuple[Var, Apply]] = []
        now = phi
        while now is not result:
            link = self._only_user(now)
            if link is None or not _goes_on(link, now) or link not in self.loop.body.statements:
                return self._used(now)
            links.append((now, link))
            now = link.out
        sets = any(link.primitive is update for _, link in links)
        if self.users[now] != [self.loop.body]:
            return self._used(now)
        if sets and len(links) > 1:
            return Refused("{0} stores into a matrix that changes again", (links[0][1].origin,))
        return links

    def _terms(self, links: list[tuple[Var, Apply]]) -> list[_Term | TriangularTerm] | Refused:
        """The products that are added to or stored into an array, if they can be sunk."""
        made = [self._term(*link) for link in links]
        terms = [term for term in made if not isinstance(term, Refused)]
        refused = (term for term in made if isinstance(term, Refused))
        return terms or next(refused, Refused("it leaves a matrix as it is"))

    def _used(self, value: Var) -> Refused:
        """The reason why the versions of a matrix cannot be followed behind one of them."""
        users = [user for user in self.users[value] if not isinstance(user, Block)]
        odd = (s for s in users if not isinstance(s, Apply) or not _goes_on(s, value))
        first = next(iter((*odd, *users)), None)
        if first is None:
            return Refused("it replaces a matrix, or exchanges it with another")
        return Refused("{0} reads a matrix, or changes it in an inner loop", (first.origin,))

    def _only_user(self, value: Var) -> Apply | None:
        users = self.users[value]
        return users[0] if len(users) == 1 and isinstance(users[0], Apply) else None

    def _term(self, base: Var, link: Apply) -> _Term | TriangularTerm | Refused:
        """The product that a statement adds or stores, or the reason why it stays."""
        here = (link.origin,)
        given = link.args[1] if link.args[0] is base else link.args[0]
        product = self.iterations.made.get(given) if isinstance(given, Var) else None
        if not isinstance(product, Apply) or len(product.outs) != 1:
            return Refused("{0} adds or stores no product of the iteration's own", here)
        if len(self.users[product.out]) != 1:
            return Refused("{0} makes a product that is used again in the loop", (product.origin,))
        if not all(isinstance(a, Var) for a in product.args):
            return Refused("{0} adds or stores no product of arrays", here)
        stores = is_plain_store(link)
        dims = link.out.type.dims
        if stores:
            dims = tuple(indexed_dims(dims, link.params["index"], [*map(wrap, link.args[2:])]))
        own = product.out.type
        if own.dtype != link.out.type.dtype or len(own.dims) != len(dims):
            return Refused("{0} adds or stores a value of another type than the matrix", here)
        if not all(map(self.builder.dims.same, own.dims, dims)):
            return Refused("{0} combines sizes that are not known to be equal", here)
        term = self._row(base, link, product) if stores else self._outer(base, link, product)
        if isinstance(term, str):
            return triangular_term(base, link, product, self.iterations) or Refused(term, here)
        if not self._is_worth(term):
            return Refused("{0} adds or stores a product not known to be large in this call", here)
        return term

    def _outer(self, base: Var, link: Apply, product: Apply) -> _Term | str:
        """``W += np.outer(a, b)``, or the reason why it is nothing of the kind."""
        if multiplies_matrices(product):
            return self._of_matrices(base, link, product)
        if product.primitive is not outer:
            return "{0} adds no outer product"
        if not all(map(self._is_row, product.args)):
            return "{0} adds the outer product of vectors that cannot be saved for all iterations"
        if not any(map(self._read, product.args)):
            return "{0} adds the outer product of vectors that are no rows of an array"
        return _Term(base, link, product, product.args, None)  # the array bounds the trip count

    def _of_matrices(self, base: Var, link: Apply, product: Apply) -> _Term | str:
        """``W += a.T @ b``: the rows of all iterations are those of two matrices."""
        rows = tuple(map(self._upright, product.args))
        if not all(self._is_row(a, 2) for a in rows):
            return "{0} adds a product of matrices that cannot be saved for all iterations"
        if not any(map(self._read, rows)):
            return "{0} adds a product of matrices that are no sections of an array"
        turned = tuple(a is not row for a, row in zip(product.args, rows, strict=True))
        return _Term(base, link, product, rows, None, turned)

    def _upright(self, value: Atom) -> Any:
        """The matrix that a value is the transpose of; itself if it is none."""
        made = self.iterations.made.get(value) if isinstance(value, Var) else None
        if isinstance(made, Apply) and made.primitive is transpose and value.type.ndim == 2:
            return made.args[0]
        return value

    def _row(self, base: Var, link: Apply, product: Apply) -> _Term | str:
        """``y[t] = W @ a``, or ``a @ W``, or the reason why it is nothing of the kind."""
        part = self.iterations.part_at(link)
        if part is None or not part.upward or not self.iterations.is_inside(part):
            return "{0} does not store into a row that moves up by one, and is known to be inside"
        if product.primitive not in PRODUCTS or product.out.type.ndim != 1:
            return "{0} stores no product of a matrix and a vector"
        left, right = product.args
        row, matrix = (left, right) if left.type.ndim == 1 else (right, left)
        if matrix.type.ndim != 2 or not self.iterations.is_steady(matrix):
            return "{0} stores a product with a matrix that differs between iterations"
        if not self._is_row(row):
            return "{0} stores the product of a vector that cannot be saved for all iterations"
        return _Term(base, link, product, (row,), part)

    def _is_row(self, value: Var, rank: int = 1) -> bool:
        """True if a vector differs between iterations and can be saved for use after the loop."""
        if value.type.ndim != rank or self.iterations.is_steady(value):
            return False
        if not sizes_at_hand(value.type.dims, self.builder):
            return False
        return value in self.iterations.made or value in self.loop.phis

    def _read(self, value: Var) -> Section | None:
        """The section of an array that already holds the vectors of all iterations; else None."""
        part = self.iterations.part(value)
        if part is None or not part.upward or not self.iterations.is_inside(part):
            return None
        return part

    def _is_worth(self, term: _Term) -> bool:
        parts = [term.part, *map(self._read, term.rows)]
        part = next(p for p in parts if p is not None)
        count = part.read.args[0].type.dims[part.axis]  # at most
        if term.turned:
            summed = term.product.args[0].type.dims[1]
            if not are_few(summed, self.builder):
                return False
            return worth_a_product((count, summed, *term.product.out.type.dims), self.builder)
        matrix = next((a for a in term.product.args if a.type.ndim == 2), term.product.out)
        return worth_a_product((count, *matrix.type.dims), self.builder)

    # rewriting

    def _take(self, phi: Var, terms: list[_Term | TriangularTerm]) -> None:
        """Sink the products of one array out of the loop."""
        loop = self.loop
        k = loop.phis.index(phi)
        out, now = loop.outs[k], wrap(loop.inits[k])
        for term in terms:
            loop.body.statements.remove(term.link)
            core.substitute(loop.body, {term.link.out: term.base})
            for other in terms:
                if other.base is term.link.out:
                    object.__setattr__(other, "base", term.base)
        if loop.body.results[k] is phi:
            self._drop(k)
        else:
            inner = Var(out.type, out.name, out.origin)
            loop.outs = (*loop.outs[:k], inner, *loop.outs[k + 1 :])
            now = wrap(inner)
        for term in terms:
            if isinstance(term, _Term):
                with self.builder.at(term.link.origin):
                    now = self._added(now, term)
        of_slices = [term for term in terms if isinstance(term, TriangularTerm)]
        for matrix in dict.fromkeys(term.matrix for term in of_slices):
            same = [term for term in of_slices if term.matrix is matrix]
            now = all_added(now, same, self._placed_rows, self.iterations)
        last = self.builder.definitions[atom(now)]
        assert isinstance(last, Apply | If) and len(last.outs) == 1
        last.outs = (out,)
        self.builder.definitions[out] = last

    def _drop(self, k: int) -> None:
        """Remove a carried array from the loop."""
        loop = self.loop
        loop.phis, loop.inits, loop.outs = (
            (*row[:k], *row[k + 1 :]) for row in (loop.phis, loop.inits, loop.outs)
        )
        del loop.body.results[k]

    def _added(self, now: Any, term: _Term) -> Any:
        """The array with the product of all iterations added or stored."""
        whole = self._product(term)
        if term.part is None:
            return combined(now, whole, (), term.link.primitive)
        turned = sum(isinstance(i, slice) for i in term.part.items[: term.part.axis])
        whole = whole.T if turned else whole
        return combined(now, whole, self.iterations.index_of_all(term.part), term.link.primitive)

    def _placed_rows(self, term: TriangularTerm) -> Array:
        kept = self._placed(term)
        assert kept is not None
        return Array(kept)

    def _placed(self, term: TriangularTerm) -> Var | None:
        """The matrix that holds the rows of a term; None if there is none yet."""
        same = (kept for rows, kept in self.placed if rows.same(term.placed, self.builder))
        return next(same, None)

    def _product(self, term: _Term) -> Any:
        """The product of all iterations: their sum, or one row for each."""
        if term.turned:
            factors = zip(term.rows, term.turned, OF_MATRICES, strict=True)
            left, right = (
                Operand(self._rows(row), ("iteration", *(axes[::-1] if turned else axes)))
                for row, turned, axes in factors
            )
            return contract(left, right, (0, 1))
        labels = axes_of(term.product)
        assert labels is not None
        rows = iter(term.rows)
        left, right = (
            Operand(self._rows(next(rows)), ("iteration", *axes))
            if len(axes) == 1
            else Operand(self.iterations.outside(a), axes)
            for a, axes in zip(term.product.args, labels, strict=True)
        )
        return contract(left, right, (0, 1) if term.part is None else ("iteration", 0))

    def _rows(self, value: Var) -> Any:
        """The vectors of all iterations, as the rows of a matrix."""
        part = self._read(value)
        return Array(self.saved[value]) if part is None else self.iterations.all_parts(part)

    def _save(self, value: Var) -> Var:
        """Let the loop save a vector of each iteration; return the matrix."""
        with self.builder.at(self.loop.origin):
            first = self.iterations.first()
            sizes = [size_at_hand(d) for d in value.type.dims]
            rows = apply(space, self.iterations.end() - first, *sizes, dtype=value.type.dtype)
        return self._keep(value, rows, lambda: (wrap(self.loop.index) - first,), again=True)

    def _place(self, rows: PlacedRows) -> Var:
        """Let the loop save a part of a row in each iteration; return the matrix."""
        with self.builder.at(self.loop.origin):
            sizes = map(size_at_hand, rows.sizes)
            made = apply(zeros, *sizes, dtype=rows.vector.type.dtype)
        index = (wrap(rows.place.place), rows.columns)
        return self._keep(rows.vector, made, lambda: index, again=False)

    def _keep(self, value: Var, rows: Any, index: Callable[[], Any], again: bool) -> Var:
        """Let iterations save a vector in a matrix, and products read it ``again`` from there."""
        builder, loop = self.builder, self.loop
        rows.atom.name = f"{builder.described(value) or 'row'}_saved"
        phi, out = (Var(rows.type, rows.atom.name, loop.origin) for _ in range(2))
        with builder.block() as storing, builder.at(value.origin or loop.origin):
            template, dynamic = normalize(Array(phi), index())
            stored = apply(update, Array(phi), Array(value), *dynamic, index=template)
            if again:
                self._read_again(value, apply(getitem, stored, *dynamic, index=template).atom)
        body, made = loop.body.statements, self.iterations.made
        needed = [made[a] for a in (value, *map(atom, dynamic)) if a in made]
        where = max((body.index(s) + 1 for s in needed), default=0)
        body[where:where] = storing.statements
        stored.atom.name = phi.name
        loop.phis, loop.inits = (*loop.phis, phi), (*loop.inits, rows.atom)
        loop.outs = (*loop.outs, out)
        loop.body.results.append(stored.atom)
        return out

    def _read_again(self, value: Var, kept: Var) -> None:
        """Let products read the saved vector, rather than compute it for each of their rows."""
        for s in self.loop.body.statements:
            if isinstance(s, Apply) and s.primitive in PRODUCTS:
                s.args = tuple(kept if a is value else a for a in s.args)


def _goes_on(link: Apply, array: Var) -> bool:
    """True if ``link`` adds to ``array`` or stores into it: its result is the next version."""
    first, *rest = link.args
    if link.primitive is add:
        return (first is array) != (rest[0] is array)
    changes = link.primitive is subtract or is_plain_store(link)
    return changes and first is array and array not in rest
