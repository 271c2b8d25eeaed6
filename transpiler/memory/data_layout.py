"""Data layout: permute the axes of internal arrays to the order of the loops over them.

Values saved for the reverse pass have the axes of the user's loops. If ``interchange`` has changed
the order of these, each iteration would touch another row::

    saved = np.empty((n, m, k))
    for r in range(n):
        for i in range(k):
            for j in range(m):
                saved[r, j, i] = A[i, j]

After: ``saved`` has the size ``(n, k, m)``, and ``saved[r, i, j]`` is contiguous. An array that is
only used transposed, as a batch of Jacobians is, is made in that layout. See Kandemir, Choudhary,
Ramanujam and Banerjee, A matrix-based approach to global locality optimization, 1999.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    Effect,
    For,
    Function,
    Slot,
    Var,
    While,
)
from calque.transpiler.ir.effects import is_access, is_indexed_store
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.ir.versions import Versions
from calque.transpiler.loops.accesses import element_index, template_of
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.creation import empty, full, space, zeros

_NEW = (empty, zeros, space, full)
# a statement that uses an array: its block, itself, and the loops around it
_Place = tuple[Block, Apply | Effect, tuple[For | While, ...]]


def choose_data_layout(function: Function, builder: Builder) -> None:
    """Permute the axes of internal arrays where that pays, in place."""
    whole = _Whole(function.body)
    for s in [*function.body.statements]:
        if isinstance(s, Apply) and s.primitive in _NEW and s.out.type.ndim > 1:
            if _Kept(s, builder).put_in_order(function, whole):
                whole = _Whole(function.body)


class _Whole:
    """A program: its versions, and the statements that read or define each value."""

    def __init__(self, body: Block):
        self.versions = Versions.within(body)
        self.places: dict[Var, list[_Place]] = {}
        self._visit(body, ())

    def _visit(self, block: Block, around: tuple[For | While, ...]) -> None:
        for s in block.statements:
            if isinstance(s, (Apply, Effect)):
                for var in {*_vars(s.args), *s.outs}:
                    self.places.setdefault(var, []).append((block, s, around))
            else:
                inner = (*around, s) if isinstance(s, (For, While)) else around
                for b in core.blocks_of(s):
                    self._visit(b, inner)


@dataclass(eq=False)
class _Kept:
    """An array, its versions, and its element accesses, each with the surrounding loops."""

    new: Apply
    builder: Builder
    versions: frozenset[Var] = frozenset()
    accesses: list[tuple[Apply, tuple[For | While, ...]]] = field(default_factory=list)
    makers: list[Apply] = field(default_factory=list)  # allocations of all versions
    turned: list[tuple[Block, Apply]] = field(default_factory=list)  # transposes of the array

    def put_in_order(self, function: Function, whole: _Whole) -> bool:
        """Permute the axes, if every use is of one element and all agree on the last axis.

        Returns True if the program has changed.
        """
        body = function.body
        self.versions = whole.versions.family(self.new.out)
        if not self.versions.isdisjoint([*function.params, *_vars(body.results)]):
            return False
        places = {id(p[1]): p for v in self.versions for p in whole.places.get(v, ())}
        if not all(self._is_of_elements(*place) for place in places.values()):
            return False
        order = self._as_turned() if self.turned else self._order()
        if order is None or order[-1] == len(order) - 1:
            return False  # the last axis stays: accesses are contiguous already
        for s, _ in self.accesses:
            _permute(s, order)
        for version in self.versions:
            dims = version.type.dims
            version.type = version.type.with_dims([dims[k] for k in order])
        for made in self.makers:
            first = made.primitive.sizes_from
            sizes = made.args[first:]
            made.args = (*made.args[:first], *(sizes[k] for k in order))
        for block, t in self.turned:
            block.statements.remove(t)
            core.substitute(body, {t.out: t.args[0]})
        return True

    def _is_of_elements(
        self, block: Block, s: Apply | Effect, around: tuple[For | While, ...]
    ) -> bool:
        """Collect an access of an element; return False if the array is used as a whole."""
        if not isinstance(s, Apply):
            return False
        if self._makes(s):
            self.makers.append(s)
            return s.primitive in _NEW
        touched = [a for a in _vars(s.args) if a in self.versions]
        if s.primitive is transpose and not around:
            self.turned.append((block, s))
            return True
        self.accesses.append((s, around))
        return self._is_access(s, touched)

    def _makes(self, s: Apply) -> bool:
        """True if a statement makes a version of the array, other than by a store into one."""
        if self.versions.isdisjoint(s.outs):
            return False
        return not is_indexed_store(s) or s.args[0] not in self.versions

    def _is_access(self, s: Apply, touched: Sequence[Var]) -> bool:
        items = s.params.get("index", ())
        return (
            is_access(s)
            and touched == [s.args[0]]
            and len(items) == s.args[0].type.ndim
            and all(isinstance(item, (Slot, int)) for item in items)
            and not any(a.type.ndim for a in _vars(s.args[1:]))
        )

    def _as_turned(self) -> list[int] | None:
        """The axes in the order of the transpose, if the deepest loops are then contiguous."""
        orders = [list(s.params["axes"]) for _, s in self.turned]
        deepest = max((len(around) for _, around in self.accesses), default=0)
        for s, around in self.accesses:
            depths = self._depths(s, around) if len(around) == deepest else None
            if len(around) == deepest and (
                depths is None or not 0 <= max(depths) == depths[orders[0][-1]]
            ):
                return None
        return orders[0] if len(orders) == 1 else None

    def _order(self) -> list[int] | None:
        """The axes, outermost loop first; None if accesses in the deepest loops disagree."""
        deepest = max((len(around) for _, around in self.accesses), default=0)
        orders: list[list[int]] = []
        for s, around in self.accesses:
            if len(around) == deepest:
                depths = self._depths(s, around)
                if depths is None:
                    return None
                moving = [k for k, depth in enumerate(depths) if depth >= 0]
                order = list(range(len(depths)))
                for k, axis in zip(moving, sorted(moving, key=depths.__getitem__), strict=True):
                    order[k] = axis
                orders.append(order)
        return orders[0] if orders and all(o == orders[0] for o in orders) else None

    def _depths(self, s: Apply, around: Sequence[For | While]) -> list[int] | None:
        """For each axis, the innermost loop whose counter is in the index; None if irregular."""
        values, resolve = self.builder.dim_values, self.builder.dims.resolve
        counters = [
            dim_symbols(resolve(values[loop.index]))
            if isinstance(loop, For) and loop.index in values
            else frozenset[str]()
            for loop in around
        ]
        found = []
        for place in element_index(s, self.builder):
            if place is None:
                return None
            found.append(_deepest(place, counters))
        return found


def _deepest(place: DimLike, counters: Sequence[frozenset[str]]) -> int:
    """The position of the last loop whose counter is in an index; -1 for none."""
    return max((k for k, c in enumerate(counters) if dim_symbols(place) & c), default=-1)


def _permute(s: Apply, order: Sequence[int]) -> None:
    """Permute the index of an access, in place, for an array with permuted axes."""
    first = s.primitive.first_index
    items = s.params["index"]
    index = [s.args[first + k.position] if isinstance(k, Slot) else k for k in items]
    template, dynamic = template_of([wrap(index[k]) for k in order])
    s.args = (*s.args[:first], *dynamic)
    s.params = {**s.params, "index": template}


def _vars(atoms: Sequence[Atom]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var)]
