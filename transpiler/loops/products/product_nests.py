"""Write loop nests whose iterations multiply parts of arrays as products of whole arrays.

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

Each statement is written for all iterations at once. That is right if no two iterations access one
element of an array, unless both add to it. If one statement of a nest cannot be written so, the
nest stays, and its inner loops are tried: over a triangle, an inner loop of dot products is one
product of a vector and a matrix, ``out[i, i:] = x[:, i] @ x[:, i:]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, For, Statement, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.loops.bounds import is_inside, is_inside_everywhere
from calque.transpiler.loops.products.array_sections import Iterations, is_affine, is_whole
from calque.transpiler.loops.products.contractions import (
    PRODUCTS,
    Axes,
    Operand,
    Sizes,
    axes_of,
    combined,
    contract,
    is_worth,
)
from calque.transpiler.loops.products.nest_dependences import CarriedAccess, dependent
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, multiply, negative, subtract
from calque.transpiler.primitives.indexing import copy, getitem, update, update_add
from calque.transpiler.primitives.products import outer
from calque.transpiler.primitives.reductions import sum_
from calque.transpiler.primitives.templates import indexed_dims, normalize

_NOT_OWN = "{0} accesses an array elsewhere than at the loops' counters"
_NO_ROWS = "{0} uses more than its own rows and what all iterations share"
_SIZES_DIFFER = "{0} combines sizes that are not known to be equal"
_NO_ELEMENT = "{0} uses a product of each combination of counters"
_OTHER_SUMS = "{0} sums over other counters than those that its factors share"
NO_PRODUCT = Refused("it multiplies no row by a matrix")


class _Left(Exception):
    """Raised where a nest must stay as it is; {0} in its words is the statement at hand."""


@dataclass(frozen=True, eq=False)
class _Pair:
    """The products of two operands for all iterations, which are not computed yet, but summed."""

    left: Operand
    right: Operand
    of_elements: bool = False  # an elementwise product, rather than an outer one
    onto: Apply | None = None  # the read of elements that the products are added to


@dataclass(frozen=True, eq=False)
class _Carried:
    """A version of a value that a loop carries: an array, or a sum of products."""

    first: Var  # the phi of the loop that begins with it
    owner: For
    now: Operand
    terms: tuple[tuple[Apply, _Pair, Axes], ...] = ()  # statements that add products
    stores: bool = False


class ProductNest:
    """Converts the statements of a nest one by one into operations over all iterations.

    ``assume``: what must hold of arguments' sizes may be assumed, where it is not known.
    """

    def __init__(self, builder: Builder, loop: For, assume: bool):
        self.builder, self.loop, self.assume = builder, loop, assume
        self.at_hand: Statement = loop
        self.around: list[For] = []
        inner = [s for s in core.walk(loop.body) if isinstance(s, For)]
        self.iterations = Iterations(loop, builder, inner)
        self.values: dict[Var, Operand | _Pair | _Carried] = {}
        self.accesses: list[CarriedAccess] = []
        self.products: list[tuple[list[Sizes], bool]] = []  # sizes of each; if of elements
        self.dots = 0  # products of one vector and the rows of a matrix

    def results(self) -> list[Any] | Refused:
        """The arrays after the loop, computed in the open block, or the reason why it stays."""
        try:
            self._loop(self.loop)
            self.at_hand = self.loop
            other = dependent(self.accesses, self.iterations.loops, self.builder)
            if other is not None:
                self.at_hand = other
                raise _Left("{0} accesses elements that other iterations change")
            found = [self._operand(out).value for out in self.loop.outs if out.type.ndim]
        except _Left as left:
            return Refused(str(left), (self.at_hand.origin,))
        if not self.products:
            return NO_PRODUCT
        one_matrix = [phi.type.ndim for phi in self.loop.phis if phi.type.ndim] == [2]
        rows = one_matrix and self.dots == len(self.products) == 1
        if not rows and not any(is_worth(p, self.builder, each) for p, each in self.products):
            return Refused("its products are not known to be large enough in this call")
        return found

    # loops

    def _loop(self, loop: For) -> None:
        self.at_hand = loop
        self._check_span(loop)
        for phi, init, result in zip(loop.phis, loop.inits, loop.body.results, strict=True):
            known = self.values.get(init) if isinstance(init, Var) else None
            if isinstance(known, _Carried):
                self.values[phi] = known
            elif phi.type.ndim or loop is not self.loop:
                self.values[phi] = _Carried(phi, loop, self._operand(init))
            elif result in self.iterations.made or result in loop.phis:
                raise _Left("{0} carries a scalar to its next iteration")
        if not loop.phis:
            raise _Left("{0} changes no array")
        self.around.append(loop)
        for s in loop.body.statements:
            with self.builder.at(s.origin):
                if isinstance(s, For):
                    self._loop(s)
                else:
                    self._statement(s)
        self.around.pop()
        self.at_hand = loop
        for phi, result, out in zip(loop.phis, loop.body.results, loop.outs, strict=True):
            if phi in self.values:
                self.values[out] = self._after(loop, phi, result)

    def _check_span(self, loop: For) -> None:
        """Refuse loops that do not step by 1, or whose range is not the same in all iterations."""
        iterations, dims = self.iterations, self.builder.dims
        if not iterations.can_be_counted(loop) or not all(
            map(iterations.is_steady, (loop.start, loop.stop))
        ):
            raise _Left("{0} does not count by one over a range that is the same in all iterations")
        ends = (self.builder.dim_of(wrap(a)) for a in (loop.start, loop.stop))
        least = 0 if loop.step == 1 else -1
        if not all(dims.always_nonnegative(end - least) for end in ends):
            raise _Left("{0} counts from or to a number that may be negative")

    def _after(self, loop: For, phi: Var, result: Atom) -> Operand | _Carried:
        """The value of a phi after its loop: with the sums of all iterations at the outermost."""
        before = self.values[phi]
        carried = self.values.get(result) if isinstance(result, Var) else None
        assert isinstance(before, _Carried)
        if not isinstance(carried, _Carried):
            kind = "an array" if phi.type.ndim else "a scalar"
            raise _Left(f"{{0}} carries {kind} to its next iteration")
        if carried.first is not before.first:
            raise _Left("{0} exchanges its arrays")
        if carried.owner is not loop:
            return carried
        now = carried.now
        for s, pair, loops in carried.terms:
            self.at_hand = s
            with self.builder.at(s.origin):
                now = self._added(now, self._summed(pair, now.axes, loops), s)
        if isinstance(now.value, Array) and now is not carried.now:
            now.value.atom.name = now.value.atom.name or phi.name
        return now

    def _added(self, now: Operand, whole: Operand, s: Apply) -> Operand:
        """A value with the products of all iterations added or subtracted."""
        axes = whole.axes
        if {*now.axes} == {*axes}:
            return Operand(combined(now.value, whole.ordered(now.axes), (), s.primitive), now.axes)
        if s.primitive is add and not isinstance(now.value, Array) and now.value == 0:
            return whole
        first = self._aligned(now, whole, s.out.type.ndim)
        return Operand(apply(s.primitive, first, whole.value), axes)

    # statements

    def _statement(self, s: Statement) -> None:
        self.at_hand = s
        if not isinstance(s, Apply) or len(s.outs) != 1:
            raise _Left("{0} is more than an operation with one result")
        if is_affine(s) and self.iterations.steps(s.out):
            return  # an index
        value = self._value_of(s)
        if isinstance(value, Operand):
            made = value.value
            same = value.rank == s.out.type.ndim
            if isinstance(made, Array) and not (same and made.dtype == s.out.type.dtype):
                raise _Left("{0} has another type for all iterations at once")
        self.values[s.out] = value

    def _value_of(self, s: Apply) -> Operand | _Pair | _Carried:
        """The values that a statement computes in all iterations."""
        values = [self.values.get(a) for a in s.args if isinstance(a, Var)]
        if is_plain_store(s):
            return self._store(s)
        if s.primitive is getitem:
            return self._part(s)
        if s.primitive in (add, subtract) and any(isinstance(v, _Carried) for v in values):
            return self._sum(s)
        if s.primitive.kind == "size" and values and isinstance(values[0], _Carried):
            return Operand(apply(s.primitive, self._array(s.args[0]).now.value, **s.params), ())
        if s.primitive is sum_ and isinstance(values[0], _Pair):
            return self._total(s, values[0])
        if any(isinstance(v, _Pair) for v in values):
            return self._onto(s) if s.primitive in (add, subtract) else self._scaled(s)
        operands = [self._operand(a) for a in s.args]
        if s.primitive is copy:
            return operands[0]
        if not any(o.counters for o in operands):
            if not (s.primitive.total or s.primitive.kind == "size" or is_affine(s)):
                raise _Left("{0} computes the same in all iterations")
            made = apply(s.primitive, *(o.value for o in operands), **s.params)
            return Operand(made, tuple(range(s.out.type.ndim)))
        if s.primitive in (*PRODUCTS, outer):
            return self._product(s, *operands)
        if s.primitive.kind == "elementwise":
            return self._elementwise(s, operands)
        raise _Left("{0} is no operation that a product of whole arrays can take in")

    # operands

    def _operand(self, value: Atom) -> Operand:
        """The values of ``value`` in all iterations."""
        found = self.values.get(value) if isinstance(value, Var) else None
        if isinstance(found, Operand):
            return found
        if isinstance(found, _Pair):
            raise _Left(_NO_ELEMENT)
        if found is not None:
            raise _Left("{0} uses a whole value that iterations change")
        if value in self.iterations.inside:
            raise _Left(_NO_ROWS)
        rank = value.type.ndim if isinstance(value, Var) else 0
        return Operand(wrap(value), tuple(range(rank)))

    def _array(self, value: Atom) -> _Carried:
        """An array that all loops of the nest carry."""
        found = self.values.get(value) if isinstance(value, Var) else None
        if not isinstance(found, _Carried) or found.owner is not self.loop:
            raise _Left("{0} uses a value that is no array carried by all loops")
        return found

    def _axes_of(self, access: Apply) -> tuple[Axes, tuple[Any, ...]]:
        """The counters or own axes along an array's axes at an access; and the index of all."""
        part = self.iterations.section(access)
        loops = [loop for loop, _ in part.moving.values()] if part is not None else []
        if part is None or not part.upward or len({*loops}) < len(loops):
            raise _Left(_NOT_OWN)
        if not (is_inside if self.assume else is_inside_everywhere)(access, self.builder):
            raise _Left("{0} reads or stores elements that are not known to be inside of an array")
        dims = self.builder.dims
        natural = dims.assume_nonnegative if self.assume else dims.nonnegative
        for axis, (loop, _) in part.moving.items():
            if part.items[axis] is not loop.index:
                if not natural(self.iterations.count(loop)):
                    raise _Left("{0} is in a loop not known to have a trip count of 0 or more")
        own = iter(range(len(part.items)))
        axes = tuple(
            part.moving[k][0] if k in part.moving else next(own) if isinstance(i, slice) else None
            for k, i in enumerate(part.items)
        )
        return axes, self.iterations.index_of_all(part)

    def _note(self, carried: _Carried, s: Apply, adds: bool) -> None:
        self.accesses.append(CarriedAccess(carried.first, s, tuple(self.around), adds))

    # operations over all iterations

    def _part(self, s: Apply) -> Operand:
        """The parts of an array that the iterations read, as one array."""
        array = s.args[0]
        made = self.iterations.made.get(array) if isinstance(array, Var) else None
        if isinstance(made, Apply) and made.primitive is update and _reads_back(s, made):
            return self._operand(made.args[1])
        carried = self.values.get(array) if isinstance(array, Var) else None
        if isinstance(carried, _Carried):
            carried = self._array(array)
            if carried.terms:
                raise _Left("{0} reads an array that iterations add products to")
            self._note(carried, s, s.primitive.adds)
        base = carried.now if isinstance(carried, _Carried) else self._operand(array)
        own, index = self._axes_of(s)
        if not base.counters.isdisjoint(own):
            raise _Left(_NOT_OWN)
        items = [
            index[a] if isinstance(a, int) and a < len(index) else slice(None) for a in base.axes
        ]
        axes = tuple(own[a] if isinstance(a, int) else a for a in base.axes)
        while items and is_whole(items[-1]):
            items.pop()
        made = base.value[tuple(items)] if items else base.value
        return Operand(made, tuple(a for a in axes if a is not None))

    def _store(self, s: Apply) -> _Carried:
        """An array with the parts of all iterations stored, or added to."""
        carried = self._array(s.args[0])
        if carried.terms:
            raise _Left("{0} stores into an array that iterations add products to")
        made = self.iterations.made.get(s.args[1])
        if isinstance(made, Apply) and s.primitive is update and _is_of_same(made, s):
            return carried  # the elements have these values
        axes, index = self._axes_of(s)
        axes = tuple(a for a in axes if a is not None)
        value, primitive = self.values.get(s.args[1]), s.primitive
        if isinstance(value, _Pair) and value.onto is not None and _is_of_same(value.onto, s):
            self.accesses = [a for a in self.accesses if a.statement is not value.onto]
            value, primitive = replace(value, onto=None), update_add
        self._note(carried, s, primitive.adds)
        if isinstance(value, _Pair) and primitive.adds:
            whole: Any = self._summed(value, axes, [a for a in self.around if a not in axes])
            if {*whole.axes} != {*axes}:
                raise _Left(_OTHER_SUMS)
            whole = whole.ordered(axes)
        else:
            operand = self._operand(s.args[1])
            loops = {loop for loop in self.around if loop not in axes}
            if primitive.adds and loops:
                raise _Left("{0} adds the same in several iterations")
            if not operand.counters <= {*axes}:
                raise _Left("{0} stores a value of iterations that share an element")
            whole = operand.spread(axes, sum(isinstance(a, int) for a in axes))
        now = carried.now.value
        template, dynamic = normalize(now, index or (slice(None),))
        sizes = indexed_dims(now.dims, template, dynamic)
        missing = len(sizes) - (whole.ndim if isinstance(whole, Array) else 0)
        if isinstance(whole, Array):
            if whole.dtype != now.dtype:
                raise _Left("{0} stores a value of another type than the array's parts")
            if not all(
                d == 1 or self.builder.dims.same(d, size)
                for d, size in zip(whole.dims, sizes[missing:], strict=True)
            ):
                raise _Left(_SIZES_DIFFER)
        spread = missing or 1 in getattr(whole, "dims", ())
        made = combined(now, whole, (slice(None),) if spread and not index else index, primitive)
        return replace(carried, now=Operand(made, carried.now.axes), stores=True)

    def _sum(self, s: Apply) -> _Carried:
        """A value to which all iterations add products."""
        pairs = [isinstance(self.values.get(a), _Pair) for a in s.args]
        if pairs not in ([False, True], [True, False]) or (pairs[0] and s.primitive is subtract):
            raise _Left("{0} adds no product of the iteration's own")
        array, product = s.args if pairs[1] else s.args[::-1]
        carried, pair = self.values[array], self.values[product]
        assert isinstance(carried, _Carried) and isinstance(pair, _Pair)
        if carried.stores:
            raise _Left("{0} adds a product to an array that iterations store rows into")
        dtypes = {carried.first.type.dtype, s.out.type.dtype, product.type.dtype}
        if len(dtypes) > 1 or array.type.ndim != product.type.ndim:
            raise _Left("{0} adds a product to an array of another type")
        if not all(map(self.builder.dims.same, array.type.dims, s.out.type.dims)):
            raise _Left(_SIZES_DIFFER)
        inner = tuple(self.around[self.around.index(carried.owner) :])
        return replace(carried, terms=(*carried.terms, (s, pair, inner)))

    def _product(self, s: Apply, left: Operand, right: Operand) -> Operand | _Pair:
        """The products of rows and a matrix, or of rows and rows; outer products stay pairs."""
        axes = axes_of(s)
        if s.out.type.dtype.kind not in "fc":
            raise _Left("{0} multiplies numbers that are no floats")
        if axes is None:
            raise _Left("{0} is no product of a row and a matrix, and none of two rows")
        pair = _Pair(left.relabelled(axes[0]), right.relabelled(axes[1]))
        if s.primitive is outer:
            return pair
        if left.counters & right.counters:
            raise _Left("{0} multiplies by a matrix that differs between iterations")
        counts = sorted((len(left.counters), len(right.counters)))
        self.dots += not s.out.type.ndim and counts == [0, 1]
        return self._summed(pair, (*self.around, 0), ["summed"])

    def _summed(self, pair: _Pair, wanted: Axes, over: Sequence[Any]) -> Operand:
        """The sums of products over some axes, which both operands must share; axes as wanted."""
        left, right, dims = pair.left, pair.right, self.builder.dims
        summed = [axis for axis in left.axes if axis in right.axes]
        free = [axis for axis in (*left.axes, *right.axes) if axis not in summed]
        if {*summed} != {*over} or not summed or pair.onto is not None:
            raise _Left(_OTHER_SUMS)
        if left.value.dtype != right.value.dtype or left.value.dtype.kind not in "fc":
            raise _Left("{0} multiplies numbers that are no floats")
        if not all(dims.same(left.size(axis), right.size(axis)) for axis in summed):
            raise _Left(_SIZES_DIFFER)
        sizes = [[o.size(axis) for axis in o.axes if axis not in summed] for o in (left, right)]
        groups = sizes[0], [left.size(axis) for axis in summed], sizes[1]
        self.products.append(([*map(tuple, groups)], pair.of_elements))
        axes = tuple(sorted(free, key=[*wanted, *free].index))
        return Operand(contract(left, right, axes), axes)

    def _onto(self, s: Apply) -> _Pair:
        """The sum of an element of a carried array, read for that alone, and a product."""
        first, pair = s.args[0], self.values.get(s.args[1])
        if not isinstance(pair, _Pair) and s.primitive is add:
            first, pair = s.args[1], self.values.get(s.args[0])
        read = self.iterations.made.get(first)
        if not isinstance(pair, _Pair) or pair.onto is not None or not isinstance(read, Apply):
            raise _Left(_NO_ELEMENT)
        if read.primitive is not getitem or count_uses(self.loop.body, first) > 1:
            raise _Left(_NO_ELEMENT)
        left = pair.left if s.primitive is add else replace(pair.left, value=-pair.left.value)
        return replace(pair, left=left, onto=read)

    def _total(self, s: Apply, pair: _Pair) -> Operand:
        """The sum of a product of two rows, for all iterations."""
        if s.out.type.ndim or min(pair.left.rank, pair.right.rank) < 1:
            raise _Left(_OTHER_SUMS)
        left, right = (o.relabelled(("summed",)) for o in (pair.left, pair.right))
        return self._summed(_Pair(left, right), tuple(self.around), ["summed"])

    def _scaled(self, s: Apply) -> _Pair:
        """A pair times a scalar, or its negative."""
        pairs = [v for v in map(self.values.get, s.args) if isinstance(v, _Pair)]
        if len(pairs) != 1 or s.primitive not in (multiply, negative):
            raise _Left(_NO_ELEMENT)
        (pair,) = pairs
        if pair.onto is not None:
            raise _Left(_NO_ELEMENT)
        if s.primitive is negative:
            return replace(pair, left=replace(pair.left, value=-pair.left.value))
        (factor,) = (a for a in s.args if not isinstance(self.values.get(a), _Pair))
        scalar = self._operand(factor)
        for name in ("left", "right"):
            operand = getattr(pair, name)
            if not scalar.rank and scalar.counters <= operand.counters:
                other = self._aligned(scalar, operand, operand.rank)
                made = apply(multiply, operand.value, other)
                if made.dtype == operand.value.dtype:
                    return replace(pair, **{name: replace(operand, value=made)})
        raise _Left("{0} multiplies three values of different counters")

    def _elementwise(self, s: Apply, operands: Sequence[Operand]) -> Operand | _Pair:
        """An elementwise operation on the operands of all iterations."""
        rank = s.out.type.ndim
        loops = set().union(*(o.counters for o in operands))
        for o in operands:
            if loops == o.counters and o.rank == rank:
                args = [self._aligned(each, o, rank) for each in operands]
                return Operand(apply(s.primitive, *args, **s.params), o.axes)
        ranks = sorted(o.rank for o in operands)
        arrays = all(isinstance(o.value, Array) for o in operands)
        if s.primitive is not multiply or max(ranks) > 1 or not arrays:
            raise _Left("{0} combines a row with an array of other dimensions")
        return _Pair(operands[0], operands[1], of_elements=True)

    def _aligned(self, operand: Operand, other: Operand, rank: int) -> Any:
        """An operand's array so that NumPy's broadcasting aligns its axes with another's."""
        loops, same = operand.counters, self.builder.dims.same
        if not all(same(operand.size(a), other.size(a)) for a in loops):
            raise _Left(_SIZES_DIFFER)
        return operand.spread(other.axes, rank)


def _is_of_same(read: Apply, store: Apply) -> bool:
    """True if a read is of the elements of the version that a store changes."""
    place = (store.args[0], *store.args[store.primitive.first_index :])
    same = read.params.get("index") == store.params["index"] and read.args == place
    return read.primitive is getitem and same


def _reads_back(read: Apply, store: Apply) -> bool:
    """True if a read is of the elements that a store has just set to a value of their type."""
    value, first = store.args[1], store.primitive.first_index
    return (
        read.params["index"] == store.params["index"]
        and read.args[1:] == store.args[first:]
        and isinstance(value, Var)
        and (value.type.ndim, value.type.dtype) == (read.out.type.ndim, read.out.type.dtype)
    )
