"""Dependence analysis: test if a later read can be of the element that a store wrote.

A read meets a store if it can run later and their indices can agree. Both are systems of affine
inequalities over loop counters and over numbers that iterations increase. An index that is not
affine, or that may be negative and so count from the end, is assumed to agree with every other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

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
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.inequalities import CONSTANT, Affine, combined, solvable
from calque.transpiler.ir.path_conditions import SIDES, comparisons_where
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.primitives.indexing import getitem, update


@dataclass(frozen=True, eq=False)
class ProgramPoint:
    """A program point: a statement, its number in the text, and the loops and tests around it."""

    statement: Statement | None
    number: int
    loops: tuple[For | While, ...]
    tests: tuple[tuple[Atom, bool], ...] = ()


@dataclass(eq=False)
class Reads:
    """A program's statements in order, with the data flow and the reads of each array."""

    places: list[ProgramPoint] = field(default_factory=list)
    home: dict[int, Block] = field(default_factory=dict)
    definitions: dict[Var, Statement] = field(default_factory=dict)
    readers: dict[Var, list[ProgramPoint]] = field(default_factory=dict)
    inside: set[Hashable] = field(default_factory=set)  # symbols that differ between iterations
    loops: dict[Var, tuple[For | While, ...]] = field(default_factory=dict)  # around a value
    steady: set[Hashable] = field(default_factory=set)  # symbols of sizes that do not
    alike: dict[int, Hashable] = field(default_factory=dict)  # see _alike
    met: dict[Hashable, bool] = field(default_factory=dict)  # the answers of meets

    def note_sizes(self, function: Function) -> None:
        """Note the symbols of the sizes of a function's arguments."""
        for v in function.params:
            self.steady |= {name for d in v.type.dims for name in dim_symbols(d)}

    def add(
        self,
        block: Block,
        loops: tuple[For | While, ...] = (),
        tests: tuple[tuple[Atom, bool], ...] = (),
    ) -> None:
        """Note a block's statements, and those within."""
        for s in block.statements:
            place = ProgramPoint(s, len(self.places), loops, tests)
            self.places.append(place)
            self.home[id(s)] = block
            self.definitions.update(dict.fromkeys(s.outs, s))
            around = (*loops, s) if isinstance(s, (For, While)) else loops
            for made, where in ((s.outs, loops), (core.bound_vars(s), around)):
                self.loops.update(dict.fromkeys(made, where))
                if where:
                    self.inside.update(made)
            self._sizes(core.bound_vars(s), around)
            for inner in core.blocks_of(s):
                taken = ((s.test, inner is s.then),) if isinstance(s, If) else ()
                self.add(inner, around, tests + taken)
            self._sizes(s.outs, loops)
            for atom in self._read(s):
                if isinstance(atom, Var) and atom.type.ndim:
                    self.readers.setdefault(atom, []).append(place)

    def _sizes(self, made: Iterable[Var], loops: tuple[For | While, ...]) -> None:
        """Note the symbols of sizes: one first seen in a loop has a value for each iteration."""
        new = {name for v in made for d in v.type.dims for name in dim_symbols(d)}
        if loops:
            self.inside |= new - self.steady
        else:
            self.steady |= new - self.inside

    def _read(self, s: Statement) -> Iterable[Atom]:
        match s:
            case Apply(primitive=primitive) if primitive.kind == "size":
                return ()
            case Apply(primitive=primitive) if primitive is update:
                return s.args[1:]
            case For() | While():
                return ()  # the initial values flow into them
        return core.operands(s)


def may_reach(reads: Reads, store: ProgramPoint, read: ProgramPoint) -> bool:
    """True if a read can run after a store and be of the same element."""
    key = (_alike(reads, store), _alike(reads, read), read.number > store.number)
    if key not in reads.met:
        reads.met[key] = _may_reach(reads, store, read)
    return reads.met[key]


def _alike(reads: Reads, place: ProgramPoint) -> Hashable:
    """A key that places share if they meet the same ones: the same elements at the same times."""
    if place.number not in reads.alike:
        parts = _parts_of(place.statement)
        ends = [None if part is None else _ends(reads, part, {}) for part in parts or ()]
        elements = tuple(
            None if e is None else tuple(None if a is None else frozenset(a.items()) for a in e)
            for e in ends
        )
        reads.alike[place.number] = (place.loops, place.tests, parts is None, elements)
    return reads.alike[place.number]


def _may_reach(reads: Reads, store: ProgramPoint, read: ProgramPoint) -> bool:
    common = 0
    for one, two in zip(store.loops, read.loops):
        if one is not two:
            break
        common += 1
    parts = _parts_of(store.statement), _parts_of(read.statement)
    for shared in range(common + 1):
        if shared == common and read.number <= store.number:
            continue  # within one iteration of all common loops, the read comes first
        second = _renamed(reads, store.loops[:shared])
        system = bounds_of(reads, store, {}) + bounds_of(reads, read, second)
        if shared < common:
            system += _later_iteration(reads, store, shared, second)
        system += _same_element(reads, *parts, system, second)
        if solvable(system):
            return True
    return False


def _renamed(reads: Reads, shared: tuple[For | While, ...]) -> dict[Hashable, Hashable]:
    """New names for symbols that have other values at a later access, in the ``shared`` loops."""
    second: dict[Hashable, Hashable] = {}
    for name in reads.inside:
        around = reads.loops.get(name) if isinstance(name, Var) else None
        if around is None or around != shared[: len(around)]:
            second[name] = (name, "later")
    return second


def elements_of(s: Statement | None) -> Sequence[Atom | None] | None:
    """The indices of a statement that reads or stores; None for a slice along an axis."""
    parts = _parts_of(s)
    if parts is None:
        return None
    return [part.start if part is not None and part.single else None for part in parts]


@dataclass(frozen=True)
class _Along:
    """A number as index, if ``single``, or a slice of step 1."""

    start: Atom
    stop: Atom | None
    single: bool


def _parts_of(s: Statement | None) -> Sequence[_Along | None] | None:
    """The part of each axis that a statement reads or stores; None where nothing is known.

    None altogether if its index is more than numbers and slices.
    """
    if not isinstance(s, Apply) or not is_access(s):
        return None
    dynamic = s.args[1:] if s.primitive is getitem else s.args[2:]
    found: list[_Along | None] = []
    for t in s.params["index"]:
        ends = [t.start, t.stop, t.step] if isinstance(t, slice) else [t]
        atoms = [dynamic[e.position] if isinstance(e, Slot) else e for e in ends]
        if not isinstance(t, slice):
            if not _is_number(atoms[0]):
                return None
            found.append(_Along(atoms[0], None, True))
            continue
        start, stop, step = atoms[0] or 0, atoms[1], atoms[2]
        known = _is_number(start) and (stop is None or _is_number(stop)) and step in (None, 1)
        found.append(_Along(start, stop, False) if known else None)
    whole = s.args[0].type.ndim if isinstance(s.args[0], Var) else 0
    return [*found, *[None] * (whole - len(found))]


def _is_number(atom: Atom) -> bool:
    if isinstance(atom, Var):
        return not atom.type.ndim and atom.type.dtype.kind in "iu"
    return type(atom) is int


def expression_of(reads: Reads, atom: Atom, renamed: dict[Hashable, Hashable]) -> Affine:
    found = affine_of(atom, reads.definitions)
    return {renamed.get(name, name): c for name, c in found.items()}


def bounds_of(reads: Reads, place: ProgramPoint, renamed: dict[Hashable, Hashable]) -> list[Affine]:
    """The inequalities by which loops and tests around a statement bound their counters."""
    system = []
    for loop in place.loops:
        for phi, init, _, up in _counters(reads, loop):
            start = expression_of(reads, init, renamed)
            system.append(combined(combined({}, {renamed.get(phi, phi): 1}, up), start, -up))
        if not isinstance(loop, For) or type(loop.step) is not int:
            continue
        index = {renamed.get(loop.index, loop.index): 1}
        start, stop = (expression_of(reads, a, renamed) for a in (loop.start, loop.stop))
        up = 1 if loop.step > 0 else -1
        system.append(combined(combined({}, index, up), start, -up))
        last = combined(combined({}, stop, up), index, -up)
        system.append(combined(last, {CONSTANT: 1}, -1))
    for test, holds in place.tests:
        for comparison, left, right in comparisons_where(test, holds, reads.definitions):
            gap = combined(
                expression_of(reads, right, renamed), expression_of(reads, left, renamed), -1
            )
            for sign, more in SIDES[comparison]:
                side = combined({}, gap, sign)
                below = combined({CONSTANT: -1}, side, -1)
                if comparison != "not_equal" or not solvable([*system, below]):
                    system.append(combined(side, {CONSTANT: more}))
    return system


def _later_iteration(
    reads: Reads, place: ProgramPoint, shared: int, renamed: dict[Hashable, Hashable]
) -> list[Affine]:
    """The inequalities between numbers of a loop in a later iteration and at a place in it."""
    loop = place.loops[shared]
    system = []
    if isinstance(loop, For) and type(loop.step) is int:
        up = 1 if loop.step > 0 else -1
        ahead = combined({renamed[loop.index]: up}, {loop.index: up}, -1)
        system.append(combined(ahead, {CONSTANT: 1}, -1))
    for phi, _, after, up in _counters(reads, loop):
        for test, holds in place.tests:
            made = reads.definitions.get(after) if isinstance(after, Var) else None
            if isinstance(made, If) and made.test is test:
                after = (made.then if holds else made.orelse).results[made.outs.index(after)]
        least = min(up * step for step in _steps(reads, phi, after) or (0,))
        ahead = combined({renamed[phi]: up}, {phi: up}, -1)
        system.append(combined(ahead, {CONSTANT: least}, -1))
    return system


def _counters(reads: Reads, loop: For | While) -> Iterator[tuple[Var, Atom, Atom, int]]:
    """The numbers that a loop only raises or only lowers: first, next value and direction."""
    for phi, init, after in zip(loop.phis, loop.inits, loop.body.results, strict=False):
        if phi not in reads.loops or phi.type.ndim or phi.type.dtype != np.int64:
            continue
        steps = _steps(reads, phi, after)
        for up in (1, -1):
            if steps and all(up * step >= 0 for step in steps):
                yield phi, init, after, up
                break


def _steps(reads: Reads, phi: Var, after: Atom) -> list[int] | None:
    """The steps that an iteration may add to a number, one for each path, if they are known."""
    made = reads.definitions.get(after) if isinstance(after, Var) else None
    if isinstance(made, If):
        k = made.outs.index(after)
        arms = [_steps(reads, phi, arm.results[k]) for arm in (made.then, made.orelse)]
        return None if None in arms else [step for arm in arms for step in arm or ()]
    gap = combined(affine_of(after, reads.definitions), {phi: 1}, -1)
    return [gap.get(CONSTANT, 0)] if set(gap) <= {CONSTANT} else None


def _same_element(
    reads: Reads,
    stored: Sequence[_Along | None] | None,
    read: Sequence[_Along | None] | None,
    system: list[Affine],
    renamed: dict[Hashable, Hashable],
) -> list[Affine]:
    """The system with the condition that indices agree; one that may be negative adds nothing."""
    if stored is None or read is None:
        return []
    found: list[Affine] = []
    for axis, (one, two) in enumerate(zip(stored, read, strict=True)):
        if one is None or two is None:
            continue
        ends = [*_ends(reads, one, {}), *_ends(reads, two, renamed)]
        chosen = _chosen(reads, one, {}) + _chosen(reads, two, renamed)
        system, found = [*system, *chosen], [*found, *chosen]
        negative = [combined({CONSTANT: -1}, e, -1) for e in ends if e is not None]
        if any(solvable([*system, n]) for n in negative):
            continue
        element: Affine = {("element", axis): 1}
        for start, stop in (ends[:2], ends[2:]):  # the element is between both, in both
            found.append(combined(element, start or {}, -1))
            if stop is not None:
                found.append(combined(combined(stop, element, -1), {CONSTANT: 1}, -1))
    return found


def _ends(
    reads: Reads, part: _Along, renamed: dict[Hashable, Hashable]
) -> tuple[Affine, Affine | None]:
    """The first element of a part and, if it is known, the one behind the last."""
    start = expression_of(reads, part.start, renamed)
    if part.single:
        return start, combined(start, {CONSTANT: 1})
    return start, None if part.stop is None else expression_of(reads, part.stop, renamed)


def _chosen(reads: Reads, part: _Along, renamed: dict[Hashable, Hashable]) -> list[Affine]:
    """The inequalities between a maximum (minimum) where a part starts or stops and its terms."""
    found = []
    for end in (part.start, part.stop):
        made = reads.definitions.get(end) if isinstance(end, Var) else None
        if isinstance(made, Apply) and made.primitive.arithmetic in ("max", "min"):
            up = 1 if made.primitive.arithmetic == "max" else -1
            own = combined({}, expression_of(reads, made.out, renamed), up)
            found += [combined(own, expression_of(reads, a, renamed), -up) for a in made.args]
    return found
