"""Values that an array of the forward sweep still holds when the reverse sweep reads them.

Before, where the reverse sweep needs each ``y[i - 1]`` and each ``np.tanh(..)``::

    for i in range(1, n):
        y[i] = np.tanh(a * y[i - 1])

Both were saved in arrays of their own. After, the reverse sweep reads them from ``y`` as the
forward sweep left it: no store that runs after ``y[i]`` was stored, or ``y[i - 1]`` was read, can
be of the same element (see ``access_order``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.autodiff.tape.access_order import (
    ProgramPoint,
    Reads,
    bounds_of,
    elements_of,
    expression_of,
    may_reach,
)
from calque.transpiler.autodiff.tape.restored_versions import versions_after
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, wrap
from calque.transpiler.ir.core import Apply, Function, Statement, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.inequalities import CONSTANT, combined, solvable
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.indexing import getitem, update

_MOST_SEEN = 200  # values that an index is followed through
_KEEPING = (room, widened)  # stores that enlarge an array and leave all elements as they are


@dataclass(frozen=True)
class Kept:
    """An element, or a part, that an array holds until the end of the forward sweep.

    ``own`` is the version that it was read from or stored into, ``final`` the last version.
    """

    own: Var
    final: Var
    read: Apply  # of ``final``

    def of(self, array: Var) -> Apply:
        """The read of this element from a given version of the array."""
        return Apply(
            self.read.outs,
            getitem,
            (array, *self.read.args[1:]),
            self.read.params,
            self.read.origin,
            self.read.proven,
        )


@dataclass(eq=False)
class KeptElements:
    """Finds the elements that arrays of a forward program hold until its end."""

    function: Function
    builder: Builder
    reads: Reads = field(default_factory=Reads)
    places: dict[int, ProgramPoint] = field(default_factory=dict)
    tops: dict[int, Statement] = field(default_factory=dict)  # the top-level one around it
    stores: dict[Var, list[Apply]] = field(default_factory=dict)  # of a value, into an array
    starting: dict[Var, list[Statement]] = field(default_factory=dict)  # stores and loops by array
    found: dict[Var, Kept | None] = field(default_factory=dict)

    def find(self, value: Var) -> Kept | None:
        """The array element that holds a value after the forward sweep; None if there is none."""
        if value not in self.found:
            self._note()
            candidates = (k for k in self._candidates(value) if not self._needs(k, value))
            self.found[value] = next(candidates, None)
        return self.found[value]

    def _needs(self, kept: Kept, value: Var) -> bool:
        """True if the index of a kept value may depend on it, as in ``y[c] = d; z[d] = c``."""
        pending, seen = [*kept.read.args[1:]], set[Var]()
        while pending:
            atom = pending.pop()
            if atom is value or len(seen) > _MOST_SEEN:
                return True
            if not isinstance(atom, Var) or atom in seen:
                continue
            seen.add(atom)
            other = self.found.get(atom)
            if other is not None:
                pending += other.read.args[1:]
            elif isinstance(made := self.reads.definitions.get(atom), Apply):
                pending += made.args
        return False

    def _note(self) -> None:
        """Walk through the program, once."""
        if self.places:
            return
        self.reads.note_sizes(self.function)
        self.reads.add(self.function.body)
        self.places = {id(p.statement): p for p in self.reads.places}
        for top in self.function.body.statements:
            for s in core.walk(core.Block([top])):
                self.tops[id(s)] = top
                if is_store(s):
                    self._start(s.args[0], s)
                    if s.primitive is update and isinstance(s.args[1], Var):
                        self.stores.setdefault(s.args[1], []).append(s)
                elif isinstance(s, (core.For, core.While)):
                    for init in s.inits:
                        self._start(init, s)

    def _start(self, array: core.Atom, s: Statement) -> None:
        if isinstance(array, Var) and array.type.ndim:
            self.starting.setdefault(array, []).append(s)

    def _candidates(self, value: Var) -> Iterator[Kept]:
        for store in self.stores.get(value, ()):
            if self.reads.home[id(store)] is self._home(value):  # it runs whenever the value exists
                yield from self._kept(value, store, store.outs[0], store.args[2:])
        made = self.reads.definitions.get(value)
        if isinstance(made, Apply) and made.primitive is getitem and isinstance(made.args[0], Var):
            yield from self._kept(value, made, made.args[0], made.args[1:])

    def _home(self, value: Var) -> core.Block | None:
        """The block that computes a value, or the loop body whose parameter it is."""
        made = self.reads.definitions.get(value)
        if made is not None:
            return self.reads.home[id(made)]
        loops = self.reads.loops.get(value)
        return loops[-1].body if loops else None

    def _kept(self, value: Var, s: Apply, own: Var, dynamic: Any) -> Iterator[Kept]:
        """The element of a read or a store, if its array holds it until the end."""
        if elements_of(s) is None or value.type.dtype != own.type.dtype:
            return
        final = self._last_version(own, self.places[id(s)])
        if final is None or not self._same_place(s, own, final):
            return
        read = self._read(value, final, s, dynamic)
        if read is not None:
            yield Kept(own, final, read)

    def _read(self, value: Var, final: Var, s: Apply, dynamic: Any) -> Apply | None:
        """The read of the element from the last version, if it gives the whole value."""
        index = s.params["index"]
        with self.builder.block() as block:
            try:
                found = apply(getitem, Array(final), *map(wrap, dynamic), index=index)
            except CalqueError:
                return None
        if len(block.statements) != 1 or not self._same_sizes(found.type, value.type):
            return None
        stored = s.primitive is update  # into an element that is there, then
        return Apply((value,), getitem, (final, *dynamic), s.params, s.origin, proven=stored)

    def _same_sizes(self, one: ArrayType, other: ArrayType) -> bool:
        return one.ndim == other.ndim and all(map(self.builder.dims.same, one.dims, other.dims))

    def _same_place(self, s: Apply, own: Var, final: Var) -> bool:
        """True if an index is the same element of both versions: negative ones need equal sizes."""
        if self._same_sizes(own.type, final.type):
            return True
        elements = elements_of(s) or ()
        bounds = bounds_of(self.reads, self.places[id(s)], {})
        for element in elements:
            if element is None:
                return False
            below = combined({CONSTANT: -1}, expression_of(self.reads, element, {}), -1)
            if solvable([*bounds, below]):
                return False
        return True

    def _last_version(self, version: Var, place: ProgramPoint) -> Var | None:
        """The last version of an array, if no store between writes the element of ``place``."""
        if place.statement is None or self.tops[id(place.statement)] is place.statement:
            return None  # the value is at hand
        top = self.tops[id(place.statement)]
        following = versions_after(top, version, within=True)
        while following is not None:
            final, versions = following
            if any(self._changes(s, place) for v in versions for s in self.starting.get(v, ())):
                return None
            tops = {id(t): t for t in map(self._top_of, self.starting.get(final, ()))}
            if not tops:
                return final
            if len(tops) > 1:
                return None  # two successors: one of them is a copy
            (top,) = tops.values()
            following = versions_after(top, final, within=False)
        return None

    def _top_of(self, s: Statement) -> Statement:
        return self.tops[id(s)]

    def _changes(self, s: Statement, place: ProgramPoint) -> bool:
        """True if a statement may run after ``place`` and store into its element."""
        if not isinstance(s, Apply) or s.primitive in _KEEPING:
            return False
        return may_reach(self.reads, place, self.places[id(s)])



@dataclass(eq=False)
class Sources:
    """The sources of values within a loop or an arm: kept elements, or operands.

    Where the reverse sweep is ``restoring`` versions of an array, elements are read from those that
    it has ``restored``: the last version no longer exists then.
    """

    definitions: dict[Var, Statement]
    kept: KeptElements
    restored: Collection[Var] = ()
    restoring: Collection[Var] = ()

    def holds(self, value: Var) -> bool:
        """True if an array still holds a value."""
        return self._read(value) is not None

    def get(self, value: Var) -> Statement | None:
        """The statement that computes a value once more, if one is known."""
        return self._read(value) or self.definitions.get(value)

    def __getitem__(self, value: Var) -> Statement:
        return self._read(value) or self.definitions[value]

    def _read(self, value: Var) -> Apply | None:
        found = self.kept.find(value)
        if found is None:
            return None
        if found.own in self.restored:
            return found.of(found.own)
        return None if found.own in self.restoring else found.read
