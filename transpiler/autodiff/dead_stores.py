"""Stores into an array that nothing reads any more: found by comparing indices.

The sweep back puts every element that a loop overwrote back to its old value. Often no later read
meets that element: in ``x[i] = (b[i] - s) / L[i, i]`` the sweep reads ``x[j]`` for j < i only. A
read meets a store if it runs later and their indices can agree: systems of affine inequalities over
the loops' counters. None meets it where a loop between them stores into every element that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.affine import affine_of
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    For,
    Function,
    If,
    Slot,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.inequalities import CONSTANT, Affine, combined, solvable
from calque.transpiler.ir.path_conditions import SIDES, comparisons_where
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.primitives.indexing import getitem, update, update_add


@dataclass(frozen=True, eq=False)
class Place:
    """Where a statement stands: its number in the text, and the loops and tests around it."""

    statement: Statement | None
    number: int
    loops: tuple[For | While, ...]
    tests: tuple[tuple[Atom, bool], ...] = ()


@dataclass(eq=False)
class Reads:
    """A program's statements in order, and where each array goes and is read."""

    places: list[Place] = field(default_factory=list)
    home: dict[int, Block] = field(default_factory=dict)
    definitions: dict[Var, Statement] = field(default_factory=dict)
    flows: dict[Var, list[Var]] = field(default_factory=dict)  # the same memory, later
    readers: dict[Var, list[Place]] = field(default_factory=dict)
    inside: set[Hashable] = field(default_factory=set)  # what differs from round to round
    steady: set[Hashable] = field(default_factory=set)  # the symbols of sizes that do not

    def add(
        self,
        block: Block,
        loops: tuple[For | While, ...] = (),
        tests: tuple[tuple[Atom, bool], ...] = (),
    ) -> None:
        """Note a block's statements, and those within."""
        for s in block.statements:
            place = Place(s, len(self.places), loops, tests)
            self.places.append(place)
            self.home[id(s)] = block
            self.definitions.update(dict.fromkeys(s.outs, s))
            if loops:
                self.inside.update(s.outs)
            around = (*loops, s) if isinstance(s, (For, While)) else loops
            if around:
                self.inside.update(core.bound_vars(s))
            self._sizes(core.bound_vars(s), around)
            for inner in core.blocks_of(s):
                taken = ((s.test, inner is s.then),) if isinstance(s, If) else ()
                self.add(inner, around, tests + taken)
            self._sizes(s.outs, loops)
            self._flow(s)
            for atom in self._read(s):
                if isinstance(atom, Var) and atom.type.ndim:
                    self.readers.setdefault(atom, []).append(place)

    def _sizes(self, made: Iterable[Var], loops: tuple[For | While, ...]) -> None:
        """Note the symbols of sizes: one first seen in a loop has a value for each round."""
        new = {name for v in made for d in v.type.dims for name in dim_symbols(d)}
        if loops:
            self.inside |= new - self.steady
        else:
            self.steady |= new - self.inside

    def _flow(self, s: Statement) -> None:
        pairs: list[tuple[Atom, Var]] = []
        match s:
            case Apply(primitive=primitive) if primitive is update or primitive is update_add:
                pairs = [(s.args[0], s.outs[0])]
            case If():
                for arm in (s.then, s.orelse):
                    pairs += zip(arm.results, s.outs)
            case For() | While():
                for targets in (s.phis, s.outs):
                    pairs += [*zip(s.inits, targets), *zip(s.body.results, targets)]
        for source, target in pairs:
            if isinstance(source, Var):
                self.flows.setdefault(source, []).append(target)

    def _read(self, s: Statement) -> Iterable[Atom]:
        match s:
            case Apply(primitive=primitive) if primitive.kind == "size":
                return ()
            case Apply(primitive=primitive) if primitive is update:
                return s.args[1:]
            case For() | While():
                return ()  # what they start from flows into them
        return core.operands(s)

    def derived(self, start: Var, without: Collection[Var] = ()) -> list[Var]:
        """The versions in which a store's element may still stand."""
        found, pending = {start: None}, [start]
        while pending:
            for later in self.flows.get(pending.pop(), ()):
                if later not in found and later not in without:
                    found[later] = None
                    pending.append(later)
        return list(found)


def drop_unread_stores(
    function: Function, stores: Mapping[Var, Var], kept: Iterable[Atom]
) -> set[Var]:
    """Remove those of ``stores``, keyed by results of ``update``, that no later read meets.

    ``kept`` are values that are read when the program has ended, besides its results. Returns the
    results of the stores that are gone.
    """
    if not stores:
        return set()
    reads = Reads()
    reads.steady |= {name for v in function.params for d in v.type.dims for name in dim_symbols(d)}
    reads.add(function.body)
    end = Place(None, len(reads.places), ())
    for atom in (*function.body.results, *kept):
        if isinstance(atom, Var):
            reads.readers.setdefault(atom, []).append(end)
    where = {id(p.statement): p for p in reads.places}
    over = _overwriting(reads)
    dropped: dict[Var, Atom] = {}
    for out in stores:
        made = reads.definitions.get(out)
        if not isinstance(made, Apply) or made.primitive is not update:
            continue
        own = where[id(made)]
        gone = {v for v, (loop, link) in over.items() if _overwritten(reads, own, loop, link)}
        later = [place for v in reads.derived(out, gone) for place in reads.readers.get(v, ())]
        if not any(_meets(reads, own, place) for place in later):
            reads.home[id(made)].statements.remove(made)
            dropped[out] = made.args[0]
    while any(isinstance(a, Var) and a in dropped for a in dropped.values()):
        dropped = {v: dropped.get(a, a) if isinstance(a, Var) else a for v, a in dropped.items()}
    core.substitute(function.body, dropped)
    return set(dropped)


def _overwriting(reads: Reads) -> dict[Var, tuple[For, Apply]]:
    """Vectors after a loop that stores at its counter in each round, and that loop and store.

    Only loops between bounds that are the same wherever they stand.
    """
    found: dict[Var, tuple[For, Apply]] = {}
    for place in reads.places:
        loop = place.statement
        if not isinstance(loop, For) or loop.step not in (1, -1):
            continue
        ends = (_expression(reads, a, {}) for a in (loop.start, loop.stop))
        if any(name in reads.inside for end in ends for name in end):
            continue
        for out, phi, after in zip(loop.outs, loop.phis, loop.body.results, strict=True):
            for link in _links(reads, loop, phi, after):
                if link.primitive is update and _elements(link) == [loop.index]:
                    found[out] = loop, link
    return found


def _links(reads: Reads, loop: For, phi: Var, after: Atom) -> list[Apply]:
    """The stores that each round makes into an array that the loop carries, if nothing else."""
    found: list[Apply] = []
    while after is not phi:
        made = reads.definitions.get(after) if isinstance(after, Var) else None
        if not isinstance(made, Apply) or made.primitive not in (update, update_add):
            return []
        if reads.home[id(made)] is not loop.body:
            return []
        found.append(made)
        after = made.args[0]
    return found


def _overwritten(reads: Reads, store: Place, loop: For, link: Apply) -> bool:
    """Whether a loop, which need not be near, stores into every element that a store has."""
    elements = _elements(store.statement)
    if elements is None or len(elements) != 1 or elements[0] is None or loop in store.loops:
        return False
    if link not in loop.body.statements:
        return False  # it was needless itself
    element = _expression(reads, elements[0], {})
    start, stop = (_expression(reads, a, {}) for a in (loop.start, loop.stop))
    up = 1 if loop.step == 1 else -1
    before = combined(combined({CONSTANT: -1}, start, up), element, -up)
    behind = combined(combined({}, element, up), stop, -up)
    system = _bounds(reads, store, {})
    return not solvable([*system, before]) and not solvable([*system, behind])


def _meets(reads: Reads, store: Place, read: Place) -> bool:
    """Whether a read can run after a store and be of the same element."""
    common = 0
    for one, two in zip(store.loops, read.loops):
        if one is not two:
            break
        common += 1
    elements = _elements(store.statement), _elements(read.statement)
    for shared in range(common + 1):
        if shared == common and read.number <= store.number:
            continue  # within one round of all common loops, the read comes first
        same = {loop.index for loop in store.loops[:shared] if isinstance(loop, For)}
        second: dict[Hashable, Hashable] = {v: (v, "later") for v in reads.inside if v not in same}
        system = _bounds(reads, store, {}) + _bounds(reads, read, second)
        if shared < common:
            system += _later_round(store.loops[shared], second)
        system += _same_element(reads, *elements, system, second)
        if solvable(system):
            return True
    return False


def _elements(s: Statement | None) -> Sequence[Atom | None] | None:
    """The indices of a statement that reads or stores; None for a slice along an axis."""
    if not isinstance(s, Apply) or s.primitive not in (getitem, update, update_add):
        return None
    dynamic = s.args[1:] if s.primitive is getitem else s.args[2:]
    found: list[Atom | None] = []
    for t in s.params["index"]:
        atom = dynamic[t.position] if isinstance(t, Slot) else t
        scalar = type(atom) is int or (isinstance(atom, Var) and not atom.type.ndim)
        number = scalar and not (isinstance(atom, Var) and atom.type.dtype.kind not in "iu")
        if not number and not isinstance(t, slice):
            return None
        found.append(atom if number else None)
    whole = s.args[0].type.ndim if isinstance(s.args[0], Var) else 0
    return [*found, *[None] * (whole - len(found))]


def _expression(reads: Reads, atom: Atom, renamed: dict[Hashable, Hashable]) -> Affine:
    found = affine_of(atom, reads.definitions)
    return {renamed.get(name, name): c for name, c in found.items()}


def _bounds(reads: Reads, place: Place, renamed: dict[Hashable, Hashable]) -> list[Affine]:
    """What the loops around a statement say of their counters, and the tests."""
    system = []
    for loop in place.loops:
        if not isinstance(loop, For) or type(loop.step) is not int:
            continue
        index = {renamed.get(loop.index, loop.index): 1}
        start, stop = (_expression(reads, a, renamed) for a in (loop.start, loop.stop))
        up = 1 if loop.step > 0 else -1
        system.append(combined(combined({}, index, up), start, -up))
        last = combined(combined({}, stop, up), index, -up)
        system.append(combined(last, {CONSTANT: 1}, -1))
    for test, holds in place.tests:
        for comparison, left, right in comparisons_where(test, holds, reads.definitions):
            gap = combined(
                _expression(reads, right, renamed), _expression(reads, left, renamed), -1
            )
            for sign, more in SIDES[comparison]:
                side = combined({}, gap, sign)
                below = combined({CONSTANT: -1}, side, -1)
                if comparison != "not_equal" or not solvable([*system, below]):
                    system.append(combined(side, {CONSTANT: more}))
    return system


def _later_round(loop: For | While, renamed: dict[Hashable, Hashable]) -> list[Affine]:
    if not isinstance(loop, For) or type(loop.step) is not int:
        return []
    up = 1 if loop.step > 0 else -1
    ahead = combined({renamed[loop.index]: up}, {loop.index: up}, -1)
    return [combined(ahead, {CONSTANT: 1}, -1)]


def _same_element(
    reads: Reads,
    stored: Sequence[Atom | None] | None,
    read: Sequence[Atom | None] | None,
    system: list[Affine],
    renamed: dict[Hashable, Hashable],
) -> list[Affine]:
    """That the indices agree. One that may be negative counts from the end: nothing is known."""
    if stored is None or read is None:
        return []
    found = []
    for one, two in zip(stored, read, strict=True):
        if one is None or two is None:
            continue
        left, right = _expression(reads, one, {}), _expression(reads, two, renamed)
        negative = [combined({CONSTANT: -1}, e, -1) for e in (left, right)]
        if any(solvable([*system, n]) for n in negative):
            continue
        found += [combined(left, right, -1), combined(right, left, -1)]
    return found
