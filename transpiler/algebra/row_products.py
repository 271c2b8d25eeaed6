"""Replace a loop of dot products of one vector with rows of a matrix by one product.

Before, over a triangle::

    for i in range(m):
        for j in range(i, m):
            cov[i, j] = x[:, i] @ x[:, j] / (n - 1.0)

After::

    for i in range(m):
        cov[i, i:] = x[:, i] @ x[:, i:] / (n - 1.0)

The same holds for a square, for a strict or a lower triangle, for two matrices, and with
``cov[j, i] = cov[i, j]`` beside it. So the reverse sweep is a loop of products as well, which
``hoist_products`` merges into one.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import prune_block
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Slot, Statement, Var
from calque.transpiler.ir.path_conditions import facts_of_iterations
from calque.transpiler.ir.phases import label
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.primitives.products import dot, matmul
from calque.transpiler.primitives.templates import normalize

_ALL = slice(None)
_COLUMN = (_ALL, Slot(position=0))
_ROWS = ((Slot(position=0),), (Slot(position=0), _ALL))
_ELEMENT = (Slot(position=0), Slot(position=1))


def multiply_rows(body: Block, builder: Builder) -> None:
    """Replace loops of dot products by products, in place, also in the blocks within a block."""
    made: list[Statement] = []
    for s in body.statements:
        product = _RowLoop(s, builder).product() if isinstance(s, For) else None
        if product is not None:
            made += product
            continue
        if any(
            isinstance(t, Apply) and t.primitive in (dot, matmul) for t in core.walk(Block([s]))
        ):
            facts = facts_of_iterations(s, builder) if isinstance(s, For) else []
            with builder.dims.given(facts):
                for inner in core.blocks_of(s):
                    multiply_rows(inner, builder)
        made.append(s)
    body.statements[:] = made


class _RowLoop:
    """A loop that stores a dot product in each iteration, and the statements that replace it."""

    def __init__(self, loop: For, builder: Builder):
        self.loop, self.builder = loop, builder
        self.inside = core.defined_vars(loop.body) | {loop.index, *loop.phis}
        self.rows: dict[Atom, tuple[Var, int]] = {}  # the matrix of a row, and the row's axis
        self.same: dict[Atom, Any] = {}  # loop-invariant values, computed before the loop
        self.numbers: dict[Atom, Any] = {}  # for a scalar: its values in all iterations
        self.products = 0
        self.k = 0  # the position of the matrix among the carried values

    def product(self) -> list[Statement] | None:
        """The statements that replace the loop; None if it stays."""
        loop, builder = self.loop, self.builder
        matrices = [k for k, phi in enumerate(loop.phis) if phi.type.ndim]
        if len(matrices) != 1 or loop.step != 1 or loop.phis[matrices[0]].type.ndim != 2:
            return None
        prune_block(loop.body)
        made = core.defined_vars(loop.body)
        (self.k,) = matrices
        if any(r in made for k, r in enumerate(loop.body.results) if k != self.k):
            return None
        if not any(
            isinstance(s, Apply) and s.primitive in (dot, matmul) for s in loop.body.statements
        ):
            return None
        if not all(map(self._is_natural, (loop.start, loop.stop))):
            return None  # a slice would count it from the end
        with builder.dims.given(facts_of_iterations(loop, builder)), builder.block() as block:
            now = self._stored()
        if now is None:
            return None
        last = block.statements[-1]
        assert isinstance(last, Apply)
        last.outs = (loop.outs[self.k],)
        builder.definitions[last.out] = last
        label(block.statements, loop.phase)
        return [*block.statements, *self._counting()]

    def _counting(self) -> list[Statement]:
        """The rest of the loop, for other values that it carries: a counter read after it."""
        loop, k = self.loop, self.k
        if len(loop.phis) == 1:
            return []
        loop.outs, loop.phis, loop.inits = (
            (*row[:k], *row[k + 1 :]) for row in (loop.outs, loop.phis, loop.inits)
        )
        del loop.body.results[k]
        loop.body.statements.clear()
        return [loop]

    def _is_natural(self, end: Atom) -> bool:
        return self.builder.dims.always_nonnegative(self.builder.dim_of(wrap(end)))

    def _stored(self) -> Any:
        """The matrix with the products of all iterations, computed in the open block."""
        matrix, now = self.loop.phis[self.k], wrap(self.loop.inits[self.k])
        stored: dict[Atom, Any] = {}  # versions of the matrix
        for s in self.loop.body.statements:
            if not isinstance(s, Apply) or len(s.outs) != 1:
                return None
            with self.builder.at(s.origin):
                if s.primitive is update and s.args[0] is matrix:
                    made = self._store(now, s)
                    now, matrix = made, s.out
                    stored[matrix] = s
                elif s.primitive is getitem and stored and s.args[0] is matrix:
                    made = self._read_again(s, stored[matrix])
                else:
                    made = self._made(s)
            if made is None:
                return None
        return now if matrix is self.loop.body.results[self.k] and self.products == 1 else None

    def _made(self, s: Apply) -> Any:
        """The results of a statement in all iterations, as one array; None if that fails.

        For a row of a matrix, notes the row and returns the matrix.
        """
        if not any(a in self.inside and a not in self.same for a in s.args):
            return self._again(s)
        index = s.params.get("index")
        if s.primitive is getitem and s.args[1:] == (self.loop.index,):
            array = s.args[0]
            if array in self.inside or array.type.ndim != 2 or not self._is_inside(s):
                return None
            if index == _COLUMN or index in _ROWS:
                self.rows[s.out] = array, 1 if index == _COLUMN else 0
                return array
            return None
        if s.primitive in (dot, matmul):
            return self._multiplied(s)
        if s.primitive.kind == "elementwise" and not s.out.type.ndim:
            return self._of_numbers(s)
        return None

    def _again(self, s: Apply) -> Any:
        """Compute a loop-invariant value before the loop; None if that may raise."""
        if not (s.primitive is getitem and self._is_inside(s)) and not s.primitive.total:
            return None
        args = [self.same.get(a, None) if a in self.same else wrap(a) for a in s.args]
        self.same[s.out] = apply(s.primitive, *args, **s.params)
        return self.same[s.out]

    def _multiplied(self, s: Apply) -> Any:
        row = next((a for a in s.args if a in self.rows), None)
        vector = s.args[1] if row is s.args[0] else s.args[0]
        if row is None or vector in self.rows or not isinstance(vector, Var):
            return None
        if vector.type.ndim != 1 or (vector in self.inside and vector not in self.same):
            return None
        if vector.type.dtype.kind not in "fc" or vector.type.dtype != s.out.type.dtype:
            return None
        array, axis = self.rows[row]
        span = slice(wrap(self.loop.start), wrap(self.loop.stop))
        some = wrap(array)[_ALL, span] if axis else wrap(array)[span]
        value = self.same.get(vector, wrap(vector))
        made = apply(matmul, value, some) if axis else apply(matmul, some, value)
        self.products += 1
        return self._note(s, made)

    def _of_numbers(self, s: Apply) -> Any:
        if not all(a in self.numbers or a in self.same or a not in self.inside for a in s.args):
            return None
        values = [self.numbers.get(a, self.same.get(a, None)) for a in s.args]
        args = [wrap(a) if v is None else v for a, v in zip(s.args, values, strict=True)]
        if any(type(v).__name__ == "Array" and v.ndim > 1 for v in args):
            return None
        return self._note(s, apply(s.primitive, *args, **s.params))

    def _note(self, s: Apply, made: Any) -> Any:
        if made.dtype != s.out.type.dtype:
            return None
        self.numbers[s.out] = made
        return made

    def _is_inside(self, s: Apply) -> bool:
        """True if all scalar indices of a statement are known to be in bounds, none negative."""
        dims, dim_of = self.builder.dims, self.builder.dim_of
        sizes = s.args[0].type.dims
        for axis, item in enumerate(s.params["index"]):
            if isinstance(item, Slot):
                place = dim_of(wrap(s.args[s.primitive.first_index + item.position]))
                if place is None or not dims.always_nonnegative(place):
                    return False
                if not dims.always_nonnegative(sizes[axis] - 1 - place):
                    return False
            elif item != _ALL:
                return False
        return True

    def _place(self, s: Apply) -> tuple[Any, ...] | None:
        """The index of a store's elements in all iterations: a slice for the loop's counter."""
        own = s.args[s.primitive.first_index :]
        if (
            s.params["index"] != _ELEMENT
            or own.count(self.loop.index) != 1
            or not self._is_inside(s)
        ):
            return None
        span = slice(wrap(self.loop.start), wrap(self.loop.stop))
        if any(a is not self.loop.index and a in self.inside for a in own):
            return None
        return tuple(span if a is self.loop.index else wrap(a) for a in own)

    def _store(self, now: Any, s: Apply) -> Any:
        value, place = self.numbers.get(s.args[1]), self._place(s)
        if value is None or place is None:
            return None
        template, dynamic = normalize(now, place)
        return apply(update, now, value, *dynamic, index=template)

    def _read_again(self, s: Apply, store: Apply) -> Any:
        """``cov[i, j]``, which was stored just before."""
        if s.params["index"] != _ELEMENT or s.args[1:] != store.args[2:]:
            return None
        return self._note(s, self.numbers[store.args[1]])
