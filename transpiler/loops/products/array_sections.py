"""The section of an array that each iteration of a loop reads, and all sections as one array.

In ::

    for t in range(1, n):
        h = np.tanh(x[t - 1] @ W + h @ U)

iteration t reads row t - 1 of ``x``, which the loop does not change: the rows of all iterations are
``x[: n - 1]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, For, Slot, Statement, Var
from calque.transpiler.ir.path_conditions import facts_of_iterations
from calque.transpiler.ir.rewrite import copy_facts
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols
from calque.transpiler.loops.bounds import is_inside
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.elementwise import add, multiply, negative, subtract
from calque.transpiler.primitives.indexing import getitem

_AFFINE = (add, subtract, negative, multiply)


@dataclass(frozen=True, eq=False)
class Section:
    """``array[items]``; along each moving axis, a counter's next value moves the item by a step."""

    read: Apply
    items: tuple[Any, ...]  # with atoms, one for each axis
    moving: Mapping[int, tuple[For, int]]  # by axis: the loop and the step

    @property
    def axis(self) -> int:
        """The first moving axis."""
        return next(iter(self.moving))

    @property
    def place(self) -> Atom:
        """The index along ``axis``."""
        return self.items[self.axis]

    @property
    def upward(self) -> bool:
        """True if items move up by 1 with their counters, along all moving axes."""
        return all(step == 1 for _, step in self.moving.values())


class Iterations:
    """The iterations of a loop that steps by 1 or -1, and the sections that they access.

    With ``inner`` loops, the iterations of the nest that these make together.
    """

    def __init__(self, loop: For, builder: Builder, inner: Sequence[For] = ()):
        self.loop, self.builder, self.loops = loop, builder, (loop, *inner)
        statements = [s for each in self.loops for s in each.body.statements]
        self.made: dict[Var, Statement] = {o: s for s in statements for o in s.outs}
        self.inside = core.defined_vars(loop.body) | {loop.index, *loop.phis}

    def can_be_counted(self, loop: For | None = None) -> bool:
        """True if a loop steps by 1 or -1 and its counter is known as a dimension."""
        loop = loop or self.loop
        return loop.step in (1, -1) and loop.index in self.builder.dim_values

    def first(self, loop: For | None = None) -> Any:
        """The lowest value of the counter."""
        loop = loop or self.loop
        return self.outside(loop.start) if loop.step == 1 else self.outside(loop.stop) + 1

    def end(self, loop: For | None = None) -> Any:
        """One more than the highest value of the counter."""
        loop = loop or self.loop
        return self.outside(loop.stop) if loop.step == 1 else self.outside(loop.start) + 1

    def count(self, loop: For | None = None) -> DimLike:
        """The loop's trip count, where it is not negative."""
        loop, dim_of = loop or self.loop, self.builder.dim_of
        return (dim_of(wrap(loop.stop)) - dim_of(wrap(loop.start))) * loop.step

    # loop-invariant values

    def is_steady(self, value: Atom) -> bool:
        """True if a value is loop-invariant and can be computed before the loop."""
        if not isinstance(value, Var) or value not in self.inside:
            return True
        made = self.made.get(value)
        if not isinstance(made, Apply) or not all(map(self.is_steady, made.args)):
            return False
        return made.primitive.kind == "size" or self._is_view(made) or is_affine(made)

    def _is_view(self, made: Apply) -> bool:
        """True for a transpose, or a read of a part of an array that is inside of it."""
        if made.primitive is transpose:
            return True
        return made.primitive is getitem and is_inside(made, self.builder)

    def outside(self, value: Atom, counter: Any = None) -> Any:
        """A loop-invariant value, or one affine in a counter for counter value ``counter``."""
        if not isinstance(value, Var) or value not in self.inside:
            return wrap(value)
        made = self.made.get(value)
        if made is None:
            return counter
        assert isinstance(made, Apply)
        args = [self.outside(a, counter) for a in made.args]
        again = apply(made.primitive, *args, **made.params)
        if made.primitive.kind == "size" and isinstance(again, Array):
            copy_facts(self.builder, value, again.atom)
        return again

    def _moves(self, index: Atom) -> bool:
        """True if an index is computed by sums and products of counters and invariants."""
        if any(index is loop.index for loop in self.loops) or self.is_steady(index):
            return True
        made = self.made.get(index)
        return isinstance(made, Apply) and is_affine(made) and all(map(self._moves, made.args))

    def steps(self, index: Atom) -> dict[For, int] | None:
        """The coefficients of counters in an index, by loops; None if they are not known."""
        if not self._moves(index):
            return None
        dim_of = self.builder.dim_of
        dim = dim_of(wrap(index))
        terms = dict(dim.terms) if isinstance(dim, Dim) else {}
        counters = {loop: dim_symbols(dim_of(wrap(loop.index))) for loop in self.loops}
        return {loop: terms[s] for loop, own in counters.items() for s in own if s in terms}

    def _step_of(self, index: Atom) -> int | None:
        """The coefficient of the outermost loop's counter in an index; None if it is not known."""
        steps = self.steps(index)
        return None if steps is None else steps.get(self.loop, 0)

    # parts

    def part(self, value: Atom) -> Section | None:
        """The section of a loop-invariant array that a value reads; None for any other value."""
        made = self.made.get(value) if isinstance(value, Var) else None
        if not isinstance(made, Apply) or made.primitive is not getitem:
            return None
        return self.part_at(made) if self.is_steady(made.args[0]) else None

    def part_at(self, access: Apply) -> Section | None:
        """The section that a read or a store accesses; None if it does not move along one axis."""
        part = self.section(access)
        if part is None or [abs(step) for _, step in part.moving.values()] != [1]:
            return None
        return part

    def section(self, access: Apply) -> Section | None:
        """The section that an access is to; None if an item moves with several counters."""
        items, moving = self.items(access), {}
        for axis, item in enumerate(items or ()):
            bounds = (item.start, item.stop) if isinstance(item, slice) else ()
            steps = {} if isinstance(item, slice) else self.steps(item)
            if steps is None or len(steps) > 1 or not all(map(self.is_steady, bounds)):
                return None
            if steps:
                ((moving[axis]),) = steps.items()
            elif not isinstance(item, slice) and not self.is_steady(item):
                return None
        return None if items is None else Section(access, items, moving)

    def items(self, access: Apply) -> tuple[Any, ...] | None:
        """The index of an access, with an item of atoms for each axis; None for index arrays."""
        first = access.primitive.first_index
        dynamic, rank = access.args[first:], access.args[0].type.ndim
        if any(isinstance(d, Var) and d.type.ndim for d in dynamic):
            return None
        template = full_template(access.params["index"], [wrap(d) for d in dynamic], rank)
        if any(item is None for item in template):
            return None
        return tuple(_filled(item, dynamic) for item in template)

    def most_of(self, value: Atom, axis: int) -> tuple[Var, slice] | None:
        """The matrix that a value is read from and its slice as of ``most_along``; else None."""
        made = self.made.get(value) if isinstance(value, Var) else None
        if not isinstance(made, Apply) or made.primitive is not getitem:
            return None
        array = made.args[0]
        if array.type.ndim != 2 or not self.is_steady(array) or made.out.type.ndim != 2:
            return None
        part = self.most_along(made, axis)
        return None if part is None else (array, part)

    def most_along(self, access: Apply, axis: int) -> slice | None:
        """The slice of a matrix along ``axis`` that grows or shrinks with the counter; else None.

        One end of the slice is the matrix's end. The other end moves with the counter, and begins
        or stops at most 4 elements from the matrix's other end. The other axis is not sliced.
        """
        items = self.items(access)
        if items is None or len(items) != 2 or not all(isinstance(i, slice) for i in items):
            return None
        part, other = items[axis], items[1 - axis]
        if not is_whole(other) or part.step not in (None, 1):
            return None
        size = access.args[0].type.dims[axis]
        dims, dim_of = self.builder.dims, self.builder.dim_of
        begins = part.start is None or dims.same(dim_of(wrap(part.start)), 0)
        ends = part.stop is None or dims.same(dim_of(wrap(part.stop)), size)
        if ends and not begins and self._step_of(part.start) == 1:
            gap: DimLike = dim_of(self.outside(part.start, self.first()))
            left = dims.resolve(size - dim_of(self.outside(part.start, self.end() - 1)))
            if not isinstance(left, int) or left < 0:
                return None
        elif begins and not ends and self._step_of(part.stop) == 1:
            gap = size - dim_of(self.outside(part.stop, self.end() - 1))
        else:
            return None
        gap = dims.resolve(gap)
        if not isinstance(gap, int) or not 0 <= gap <= 4:
            return None
        return slice(*(None if b is None else wrap(b) for b in (part.start, part.stop)))

    def is_inside(self, part: Section) -> bool:
        """True if the sections of all iterations are known to be within the array."""
        with self.builder.dims.given(facts_of_iterations(self.loop, self.builder)):
            return is_inside(part.read, self.builder)

    def low(self, part: Section, axis: int | None = None) -> Any:
        """The lowest index along a moving axis in all iterations."""
        axis = part.axis if axis is None else axis
        loop, step = part.moving[axis]
        counter = self.first(loop) if step == 1 else self.end(loop) - 1
        return self.outside(part.items[axis], counter)

    def high(self, part: Section, axis: int | None = None) -> Any:
        """One more than the highest index along a moving axis in all iterations."""
        axis = part.axis if axis is None else axis
        loop, step = part.moving[axis]
        if step == 1:
            return self.outside(part.items[axis], self.end(loop))
        return self.outside(part.items[axis], self.first(loop)) + 1

    def index_of_all(self, part: Section) -> tuple[Any, ...]:
        """The index that selects the sections of all iterations, in increasing order."""
        dims = self.builder.dims
        spans = {}
        for axis in part.moving:
            low, high = self.low(part, axis), self.high(part, axis)
            size = part.read.args[0].type.dims[axis]
            start = None if dims.same(self.builder.dim_of(low), 0) else low
            stop = None if dims.same(self.builder.dim_of(high), size) else high
            spans[axis] = slice(start, stop)
        items = [spans.get(axis) or self._outside(item) for axis, item in enumerate(part.items)]
        while items and is_whole(items[-1]):
            items.pop()
        return tuple(items)

    def all_parts(self, part: Section) -> Any:
        """The sections that all iterations read, along a first axis: of vectors, a matrix."""
        array, index = self.outside(part.read.args[0]), self.index_of_all(part)
        whole = array[index] if index else array
        before = sum(isinstance(i, slice) for i in part.items[: part.axis])
        if before and len(whole.dims) == 2:
            return whole.T
        return np.moveaxis(whole, before, 0) if before else whole

    def _outside(self, item: Any) -> Any:
        if not isinstance(item, slice):
            return None if item is None or not self.is_steady(item) else self.outside(item)
        start, stop = (None if b is None else self.outside(b) for b in (item.start, item.stop))
        return slice(start, stop, item.step)


def _filled(item: Any, dynamic: tuple[Atom, ...]) -> Any:
    """An item of an index template, with atoms in place of its slots."""
    if isinstance(item, Slot):
        return dynamic[item.position]
    if isinstance(item, slice):
        start, stop = (_filled(b, dynamic) for b in (item.start, item.stop))
        return slice(start, stop, item.step)
    return item


def is_whole(item: Any) -> bool:
    """True if an item of an index is ``:``."""
    return isinstance(item, slice) and item.start is item.stop is item.step is None


def is_affine(made: Apply) -> bool:
    """True if ``made`` computes a Python number by addition, subtraction or multiplication."""
    return made.primitive in _AFFINE and not made.out.type.ndim and made.out.type.weak


def sizes_at_hand(dims: tuple[DimLike, ...], builder: Builder) -> bool:
    """True if sizes depend on the sizes of arguments alone."""
    return all(dim_symbols(builder.dims.resolve(d)) <= builder.dims.arguments for d in dims)
