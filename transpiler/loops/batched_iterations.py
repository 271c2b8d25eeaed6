"""Write loop nests whose iterations multiply a row by a matrix as products of whole arrays.

Before, and in the reverse pass::

    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q] = A[r, q] @ C

    for r in range(A.shape[0] - 1, -1, -1):
        for q in range(A.shape[1] - 1, -1, -1):
            C_bar += np.outer(A[r, q], A_bar[r, q])
            A_bar[r, q] = C @ A_bar[r, q]

After::

    A_product = A @ C

    C_bar += np.tensordot(A, A_bar, axes=((0, 1), (0, 1)))
    A_bar = A_bar @ C.T

An iteration may read what it stores, since no other iteration accesses that part. If one statement
of a nest cannot be written for all iterations at once, the whole nest stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, For, Function, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import DimLike
from calque.transpiler.loops.products.array_sections import Iterations, is_affine, is_whole
from calque.transpiler.loops.products.contractions import worth_a_product
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, subtract
from calque.transpiler.primitives.indexing import copy, getitem, update
from calque.transpiler.primitives.products import dot, matmul, outer

_NOT_OWN = "{0} accesses an array elsewhere than at the loops' counters, or these do not cover it"
_SIZES_DIFFER = "{0} combines sizes that are not known to be equal"
_NO_FLOATS = "{0} multiplies numbers that are no floats"


class _Left(Exception):
    """Raised where a nest must stay as it is; {0} in its words is the statement at hand."""


@dataclass(frozen=True)
class _Rows:
    """The values of all iterations: an array whose leading axes are those of the loops."""

    all: Any
    depth: int  # the number of loops


@dataclass(frozen=True)
class _Outer:
    """Outer products of the rows of two arrays."""

    left: Any
    right: Any


@dataclass(frozen=True)
class _Carried:
    """An array of which each iteration accesses its own part, or to which each iteration adds."""

    first: Var  # the phi of the nest's outermost loop
    init: Any
    rows: Any = None  # the parts of all iterations, once they are stored
    sums: tuple[tuple[Apply, _Outer], ...] = ()  # each statement that adds, and the terms


def batch_iterations(function: Function, builder: Builder) -> None:
    """Write such nests of a function as products, in place."""
    with builder.active(), builder.block():
        made: list[Statement] = []
        for s in function.body.statements:
            if not isinstance(s, For):
                made.append(s)
                continue
            with builder.block() as whole:
                results = _Nest(builder, s).results()
            if isinstance(results, Refused):
                missed(builder, "batch_iterations", s, results)
                made.append(s)
                continue
            applied(builder, "batch_iterations", s)
            label(whole.statements, s.phase)
            made += whole.statements
            core.substitute(function.body, dict(zip(s.outs, results, strict=True)))
            core.substitute(core.Block(made), dict(zip(s.outs, results, strict=True)))
        function.body.statements[:] = made
    remove_dead_code(function)


class _Nest:
    """Converts the statements of a nest one by one into operations over all iterations."""

    def __init__(self, builder: Builder, loop: For):
        self.builder, self.loop = builder, loop
        self.at_hand: Statement = loop
        self.loops: list[For] = []
        self.inside = core.defined_vars(loop.body) | {loop.index, *loop.phis}
        self.values: dict[Var, _Rows | _Outer | _Carried] = {}
        self.steady: dict[Var, Any] = {}  # loop-invariant values that the nest computes
        self.products: list[tuple[DimLike, ...]] = []  # the sizes of each product

    def results(self) -> list[Atom] | Refused:
        """The results of the loop, computed in the open block, or the reason why it stays."""
        try:
            self._loop(self.loop)
            found = [self._after(out) for out in self.loop.outs]
        except _Left as left:
            return Refused(str(left), (self.at_hand.origin,))
        if not self.products:
            return Refused("it multiplies no row by a matrix")
        if not any(worth_a_product(p, self.builder) for p in self.products):
            return Refused("its products are not known to be large enough in this call")
        return found

    # statements

    def _loop(self, loop: For) -> None:
        self.at_hand = loop
        if not self._is_whole(loop):
            raise _Left("{0} does not count by one from 0 to a size, or back")
        if not loop.phis:
            raise _Left("{0} changes no array")
        for phi, init in zip(loop.phis, loop.inits, strict=True):
            if self.loops:
                self.values[phi] = self._carried(init)
            elif isinstance(init, Var) and init.type.ndim:
                self.values[phi] = _Carried(phi, wrap(init))
            else:
                raise _Left("{0} carries a scalar to its next iteration")
        self.loops.append(loop)
        for s in loop.body.statements:
            with self.builder.at(s.origin):
                self._statement(s)
        self.loops.pop()
        self.at_hand = loop
        for phi, result, out in zip(loop.phis, loop.body.results, loop.outs, strict=True):
            last = self._carried(result)
            if last.first is not self._carried(phi).first:
                raise _Left("{0} exchanges its arrays")
            self.values[out] = last

    def _is_whole(self, loop: For) -> bool:
        """True if a loop counts up from 0, or down to 0, with bounds invariant in the nest."""
        iterations, dims = Iterations(loop, self.builder), self.builder.dims
        steady = all(map(self._is_steady, (loop.start, loop.stop)))
        if not steady or not iterations.can_be_counted():
            return False
        low = self.builder.dim_of(wrap(loop.start if loop.step == 1 else loop.stop))
        return dims.same(low, 0 if loop.step == 1 else -1)

    def _statement(self, s: Statement) -> None:
        if isinstance(s, For):
            self._loop(s)
            return
        self.at_hand = s
        if not isinstance(s, Apply) or len(s.outs) != 1:
            raise _Left("{0} is more than an operation with one result")
        if s.primitive.kind == "size":
            self.steady[s.out] = apply(s.primitive, self._sized(s.args[0]), **s.params)
        elif all(map(self._is_steady, s.args)):
            if s.primitive is not transpose and not is_affine(s):
                raise _Left("{0} computes the same in all iterations")
            args = [self._outside(a) for a in s.args]
            self.steady[s.out] = apply(s.primitive, *args, **s.params)
        else:
            self.values[s.out] = self._value_of(s)

    def _value_of(self, s: Apply) -> _Rows | _Outer | _Carried:
        """The values that a statement computes in all iterations."""
        if is_plain_store(s):
            return self._store(s)
        if s.primitive is outer:
            return self._outer(s)
        if s.primitive in (add, subtract) and self._is_outer(s.args[1]):
            return self._sum(s, *s.args)
        if s.primitive is add and self._is_outer(s.args[0]):
            return self._sum(s, *s.args[::-1])
        if s.primitive is getitem:
            rows = self._part(s)
        elif s.primitive is copy:
            rows = self._rows(s.args[0])
        elif s.primitive in (matmul, dot):
            rows = self._product(s)
        elif s.primitive.kind == "elementwise":
            rows = self._elementwise(s)
        else:
            raise _Left("{0} is no operation that a product of whole arrays can take in")
        if rows.dtype != s.out.type.dtype or rows.ndim != s.out.type.ndim + len(self.loops):
            raise _Left("{0} has another type for all iterations at once")
        return _Rows(rows, len(self.loops))

    # operands

    def _is_outer(self, value: Atom) -> bool:
        return isinstance(value, Var) and isinstance(self.values.get(value), _Outer)

    def _is_steady(self, value: Atom) -> bool:
        return not isinstance(value, Var) or value not in self.inside or value in self.steady

    def _outside(self, value: Atom) -> Any:
        """A loop-invariant value, as computed outside of the nest."""
        if not self._is_steady(value):
            raise _Left("{0} multiplies by a matrix that differs between iterations")
        return self.steady.get(value) if value in self.steady else wrap(value)

    def _sized(self, value: Atom) -> Any:
        """An array from outside of the nest with the sizes of ``value``."""
        return self._outside(value) if self._is_steady(value) else self._carried(value).init

    def _rows(self, value: Atom) -> Any:
        """The values of ``value`` in all iterations, as one array."""
        found = self.values.get(value) if isinstance(value, Var) else None
        if not isinstance(found, _Rows) or found.depth != len(self.loops):
            raise _Left("{0} uses more than its own rows and what all iterations share")
        return found.all

    def _carried(self, value: Atom) -> _Carried:
        found = self.values.get(value) if isinstance(value, Var) else None
        if not isinstance(found, _Carried):
            raise _Left("{0} uses a value that is no array carried by all loops")
        return found

    def _is_own(self, access: Apply) -> bool:
        """True if an access is to ``A[r, q]`` with the loops' counters, which cover ``A``."""
        items, depth = Iterations(self.loops[-1], self.builder).items(access), len(self.loops)
        if items is None or len(items) < depth:
            return False
        sizes = access.args[0].type.dims[:depth]
        counts = [Iterations(loop, self.builder).count() for loop in self.loops]
        return (
            all(i is loop.index for i, loop in zip(items, self.loops, strict=False))
            and all(map(is_whole, items[depth:]))
            and all(map(self.builder.dims.same, sizes, counts))
        )

    # operations over all iterations

    def _part(self, s: Apply) -> Any:
        """The parts of an array that the iterations read, as one array."""
        if not self._is_own(s):
            raise _Left(_NOT_OWN)
        if self._is_steady(s.args[0]):
            return self._outside(s.args[0])
        carried = self._carried(s.args[0])
        if carried.sums:
            raise _Left("{0} reads an array that iterations add products to")
        return carried.init if carried.rows is None else carried.rows

    def _store(self, s: Apply) -> _Carried:
        """An array with the parts of all iterations stored, or added to."""
        carried, rows = self._carried(s.args[0]), self._rows(s.args[1])
        now = carried.init if carried.rows is None else carried.rows
        if not self._is_own(s):
            raise _Left(_NOT_OWN)
        if carried.sums:
            raise _Left("{0} stores into an array that iterations add products to")
        if rows.dtype != now.dtype or rows.ndim != now.ndim:
            raise _Left("{0} stores a value of another type than the array's parts")
        if not all(map(self.builder.dims.same, rows.dims, now.dims)):
            raise _Left(_SIZES_DIFFER)
        return replace(carried, rows=rows if s.primitive is update else now + rows)

    def _product(self, s: Apply) -> Any:
        """The products of the rows of all iterations with a matrix."""
        left, right = s.args
        if (left.type.ndim, right.type.ndim) == (1, 2):
            rows, matrix = self._rows(left), self._outside(right)
        elif (left.type.ndim, right.type.ndim) == (2, 1):
            rows, matrix = self._rows(right), self._outside(left).T
        else:
            raise _Left("{0} is no product of a row and a matrix")
        if s.out.type.dtype.kind not in "fc":
            raise _Left(_NO_FLOATS)
        if not self.builder.dims.same(rows.dims[-1], matrix.dims[0]):
            raise _Left(_SIZES_DIFFER)
        self.products.append((*rows.dims, matrix.dims[1]))
        return apply(matmul, rows, matrix)

    def _outer(self, s: Apply) -> _Outer:
        """The outer products of the rows of all iterations."""
        left, right = map(self._rows, s.args)
        if {a.type.ndim for a in s.args} != {1}:
            raise _Left("{0} is no outer product of two rows")
        if s.out.type.dtype.kind not in "fc":
            raise _Left(_NO_FLOATS)
        self.products.append((*left.dims, right.dims[-1]))
        return _Outer(left, right)

    def _sum(self, s: Apply, array: Atom, added: Atom) -> _Carried:
        """An array to which all iterations add outer products."""
        carried = self._carried(array)
        if carried.rows is not None:
            raise _Left("{0} adds a product to an array that iterations store rows into")
        if not all(map(self.builder.dims.same, carried.init.dims, s.out.type.dims)):
            raise _Left(_SIZES_DIFFER)
        product = self.values.get(added) if isinstance(added, Var) else None
        assert isinstance(product, _Outer)
        if carried.init.dtype != s.out.type.dtype or s.out.type.ndim != 2:
            raise _Left("{0} adds a product to an array of another type")
        return replace(carried, sums=(*carried.sums, (s, product)))

    def _elementwise(self, s: Apply) -> Any:
        """An elementwise operation on the operands of all iterations."""
        args = []
        for a in s.args:
            same = self._is_steady(a)
            if isinstance(a, Var) and a.type.ndim != (0 if same else s.out.type.ndim):
                raise _Left("{0} combines a row with an array of other dimensions")
            args.append(self._outside(a) if same else self._rows(a))
        return apply(s.primitive, *args, **s.params)

    # results

    def _after(self, out: Var) -> Atom:
        """The value of an array after all iterations."""
        carried = self._carried(out)
        now = carried.init if carried.rows is None else carried.rows
        made = self.builder.definitions.get(atom(now))
        zero = isinstance(made, Apply) and made.primitive.filled_with == 0
        for s, product in carried.sums:
            axes = tuple(range(product.left.ndim - 1))
            with self.builder.at(s.origin):
                whole = np.tensordot(product.left, product.right, (axes, axes))
                subtracts = s.primitive is subtract
                now = now - whole if subtracts else whole if zero else now + whole
            zero = False
        if now is not carried.init and not atom(now).name:
            atom(now).name = out.name
        return atom(now)
