"""Find the scatters of a loop nest: additions at indices that move with the counters.

The reverse of a stencil is one, and additions commute::

    for i in range(n - 2, 0, -1):
        y_bar[i + 1] += 0.5 * x_bar[i]      # elements 2 .. n - 1, one after the counter
        y_bar[i - 1] += 0.5 * x_bar[i]      # elements 0 .. n - 3, one before it
        x_bar[i] = 0.0                      # no addition

Each such store is a term. A term may move before the nest if its value reads no element that the
nest has stored before, and after the nest if it reads no element that the nest stores later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Slot, Statement, Var
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols
from calque.transpiler.loops.accesses import (
    differ,
    element_index,
)
from calque.transpiler.loops.nest import LoopNest, NestAccess
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.elementwise import add, multiply, negative, subtract, to_int
from calque.transpiler.primitives.indexing import getitem

INTEGER = (add, subtract, multiply, negative)
CHEAP = (*INTEGER, getitem, to_int)
MOST_READS = 2  # of elements, for one term, which saves one read and one store
MOST_OPERATIONS = 12
MOST_TERMS = 32  # of one sum
DEEPEST = 3  # loops of a nest: the borders of each cost compile time

Interval = tuple[DimLike, DimLike]  # start, and the end that is excluded


@dataclass(eq=False)
class Term:
    """One store of a scatter: the elements that it adds to, and the operands of its value."""

    store: Apply
    array: int
    needs: list[Apply]  # statements that compute the value, in order
    loops: tuple[For, ...]
    shifts: tuple[int, ...]  # index minus counter, for each loop
    places: tuple[Interval, ...]  # range of indices along the axis of each loop
    fixed: tuple[tuple[int, DimLike], ...]  # the other axes, each with its index
    versions: dict[Var, int]  # a version that is read -> its array
    made_by: dict[Var, Apply]  # the statements of the nest
    late: bool  # it may only move after the nest


@dataclass(eq=False)
class Nest:
    """A loop of a block with its terms, and its original initial and final arrays."""

    loop: For
    position: int
    terms: list[Term]
    inits: tuple[Atom, ...]
    outs: tuple[Var, ...]
    adding: set[int]  # arrays that it only adds to


@dataclass(eq=False)
class PlaceSum:
    """Terms of one array that become one loop over elements, before or after a nest."""

    nest: Nest
    array: int
    late: bool
    terms: list[tuple[Nest, Term]] = field(default_factory=list)

    def fits(self, term: Term, builder: Builder) -> bool:
        """True if a term's index ranges differ from those of the other terms by constants only."""
        other = self.terms[0][1]
        if other.fixed != term.fixed or len(other.places) != len(term.places):
            return False
        if other.store.out.type != term.store.out.type or len(self.terms) >= MOST_TERMS:
            return False
        gaps = (
            builder.dims.resolve(mine - its)
            for ours, theirs in zip(term.places, other.places, strict=True)
            for mine, its in zip(ours, theirs, strict=True)
        )
        return all(isinstance(gap, int) for gap in gaps)


class ScatterTerms:
    """The terms of one nest of loops."""

    def __init__(self, nest: LoopNest):
        self.nest, self.loop, self.builder = nest, nest.loop, nest.builder
        self.outside = nest.invariant()
        self.known = self.outside | nest.counters(nest.loops)

    def terms(self) -> list[Term] | Refused:
        """All terms, or the reason why the nest has none."""
        nest, loop = self.nest, self.loop
        if nest.numbers:
            return Refused("it carries a scalar", (loop.origin,))
        for s in nest.loops:
            if s.step not in (1, -1):
                return Refused("{0} does not count by one", (s.origin,))
        for other in nest.others:
            if other.primitive is not getitem or other.out.type.ndim:
                return Refused("{0} uses an array that the loops do not carry", (other.origin,))
        adding = nest.only_added_to()
        candidates = (a for a in nest.accesses if a.array in adding)
        return [term for a in candidates if (term := self._term(a)) is not None]

    # terms

    def _term(self, t: NestAccess) -> Term | None:
        """A store as a term; None if its indices or its value are not simple enough."""
        if t.statement.phase != "reverse" or not t.statement.out.type.is_float:
            return None
        if len(t.loops) > DEEPEST:
            return None
        needs = self._needs(t.statement)
        where = self._places(t)
        if needs is None or where is None or not self._cheap(t.statement, needs):
            return None
        orders = {
            self._order(read, store)
            for read in self.nest.accesses
            if any(read.statement is s for s in needs)
            for store in self.nest.accesses
            if store.writes and store.array == read.array
        } - {""}
        if orders - {"read", "store"} or len(orders) > 1:
            return None
        array_of = self.nest.array_of
        versions = {a: array_of[a] for s in needs for a in s.args if a in array_of}
        late = orders == {"store"}
        return Term(t.statement, t.array, needs, t.loops, *where, versions, self.nest.made_by, late)

    def _needs(self, store: Apply) -> list[Apply] | None:
        """The statements that compute a store's value and index, in order; None for sizes."""
        found: dict[int, Apply] = {}
        pending = list(store.args[1:])
        while pending:
            made = self.nest.made_by.get(pending.pop())
            if made is None or id(made) in found:
                continue
            if made.primitive.kind == "size":
                return None
            found[id(made)] = made
            pending += [a for a in made.args if a not in self.nest.array_of]
        return sorted(found.values(), key=lambda s: self.nest.number[id(s)])

    def _cheap(self, store: Apply, needs: list[Apply]) -> bool:
        """True if a value is cheap to compute, and of the array's dtype throughout."""
        dtype = store.out.type.dtype
        numbers = [s for s in needs if s.out.type.dtype.kind in "fc"]
        reads = {
            (s.args[0], element_index(s, self.builder))
            for s in numbers
            if s.primitive is getitem
        }
        value = store.args[1]
        return (
            all(s.primitive in CHEAP for s in needs)
            and all(s.out.type.dtype == dtype for s in numbers)
            and isinstance(value, Var)
            and value.type.dtype == dtype
            and len(numbers) <= MOST_OPERATIONS
            and len(reads) <= MOST_READS
        )

    def _places(
        self, t: NestAccess
    ) -> tuple[tuple[int, ...], tuple[Interval, ...], tuple[tuple[int, DimLike], ...]] | None:
        """The shift and the index range for each loop, and the fixed axes; None if irregular."""
        counters = [self.nest.counters([s]) for s in t.loops]
        own = frozenset().union(*counters)
        shifts: list[int] = []
        places: list[Interval] = []
        fixed: list[tuple[int, DimLike]] = []
        dynamic = t.statement.args[2:]
        items = full_template(t.statement.params["index"], dynamic, len(t.place))
        index = [dynamic[k.position] if isinstance(k, Slot) else k for k in items]
        for axis, dim in enumerate(t.place):
            assert dim is not None
            moving = dim_symbols(dim) & own
            if not moving:
                if not dim_symbols(dim) <= self.outside or not self._steady(index[axis]):
                    return None
                fixed.append((axis, dim))
                continue
            at = len(shifts)
            shift = dim - self.builder.dim_values[t.loops[at].index] if at < len(t.loops) else None
            bounds = self._bounds(t.loops[at]) if at < len(t.loops) else None
            if not isinstance(shift, int) or bounds is None:
                return None
            shifts.append(shift)
            places.append((bounds[0] + shift, bounds[1] + shift))
        if len(shifts) < len(t.loops):
            return None
        return tuple(shifts), tuple(places), tuple(fixed)

    def _bounds(self, s: For) -> Interval | None:
        """The range of a loop's counter, end excluded; None if it varies in the nest."""
        start, stop = (self.builder.dim_of(wrap(a)) for a in (s.start, s.stop))
        if s is not self.loop and not dim_symbols(start) | dim_symbols(stop) <= self.outside:
            return None
        if not self._steady(s.start) or not self._steady(s.stop):
            return None
        return (start, stop) if s.step == 1 else (stop + 1, start + 1)

    def _steady(self, number: Atom) -> bool:
        """True if an integer can be computed before the nest."""
        made = self.nest.made_by.get(number) if isinstance(number, Var) else None
        return made is None or (
            made.primitive in INTEGER and all(map(self._steady, made.args))
        )

    # the order of a read and a store of one element

    def _order(self, read: NestAccess, store: NestAccess) -> str:
        """The access that comes first at a common element: "read" or "store".

        Empty if there is no common element, "unknown" if the order is not known.
        """
        together = [a for a, b in zip(read.loops, store.loops, strict=False) if a is b]
        apart = self.nest.counters([*read.loops[len(together) :], *store.loops[len(together) :]])
        ahead: dict[str, int] = {}  # the store's counters minus the read's
        for left, right in zip(read.place, store.place, strict=True):
            assert left is not None and right is not None
            symbols = dim_symbols(left) | dim_symbols(right)
            if symbols & apart or not symbols <= self.known:
                continue
            moving = symbols & self.nest.counters(together)
            if not moving:
                if differ(left, right, self.builder):
                    return ""
                continue
            gap = self.builder.dims.resolve(left - right)
            if len(moving) > 1 or not isinstance(gap, int):
                continue
            (symbol,) = moving
            if not isinstance(left, Dim) or dict(left.terms)[symbol] != 1:
                continue
            if ahead.setdefault(symbol, gap) != gap:
                return ""
        for loop in together:
            (symbol,) = self.nest.counters([loop])
            if symbol not in ahead:
                return "unknown"
            if ahead[symbol]:
                return "read" if ahead[symbol] * loop.step > 0 else "store"
        return "read" if read.position < store.position else "store"


def origin_of(terms: Sequence[Term]) -> Origin | None:
    """The origin of some terms; terms of several user statements quote none of them."""
    origin = terms[0].store.origin
    statements = {t.store.origin.statement for t in terms if t.store.origin is not None}
    if origin is None or len(statements) == 1:
        return origin
    return replace(origin, note="the sums of several statements")


def without(loop: For, stores: set[int]) -> dict[Var, Atom]:
    """Remove stores from a loop, in place; map results that it no longer changes to their inits."""
    kept: list[Statement] = []
    mapping: dict[Var, Atom] = {}
    for s in loop.body.statements:
        core.substitute(Block([s]), mapping)
        if id(s) in stores:
            assert isinstance(s, Apply)
            mapping[s.out] = s.args[0]
            continue
        if isinstance(s, For):
            mapping.update(without(s, stores))
        kept.append(s)
    loop.body.statements[:] = kept
    core.substitute(loop.body, mapping)
    same = [r is phi for r, phi in zip(loop.body.results, loop.phis, strict=True)]
    passed = {o: i for o, i, left in zip(loop.outs, loop.inits, same, strict=True) if left}
    inner = {p: i for p, i, left in zip(loop.phis, loop.inits, same, strict=True) if left}
    core.substitute(loop.body, inner)
    kept_arrays = [k for k, left in enumerate(same) if not left]
    loop.outs = tuple(loop.outs[k] for k in kept_arrays)
    loop.phis = tuple(loop.phis[k] for k in kept_arrays)
    loop.inits = tuple(loop.inits[k] for k in kept_arrays)
    loop.body.results = [loop.body.results[k] for k in kept_arrays]
    return passed
