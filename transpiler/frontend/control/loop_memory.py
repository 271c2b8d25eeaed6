"""The plan of the values that a loop carries, and the cells that may share memory in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.frontend.control.branch import Branches, LoopFlags
from calque.transpiler.frontend.control.state_join import poison_of
from calque.transpiler.frontend.values.containers.container_kinds import is_mutable, kind_of
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.frontend.values.heap import Snapshot, partners_of
from calque.transpiler.frontend.values.list_arrays import GrowingRows
from calque.transpiler.frontend.values.nested_lists import holder
from calque.transpiler.ir.arrays import partners_in
from calque.transpiler.ir.builder import Array, link, note_twice
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import ArrayType, DimLike


@dataclass(eq=False)
class CarryPlan:
    """The values that a loop carries, as far as interpreting its body has shown."""

    locations: dict[tuple[int, Any], Any] = field(
        default_factory=dict
    )  # (container, key) -> description
    constants: dict[tuple[int, Any], Any] = field(default_factory=dict)  # bound in every iteration
    cells: dict[int, ArrayType] = field(default_factory=dict)
    growing: dict[int, Growth] = field(default_factory=dict)
    partners: set[tuple[Any, Any]] = field(
        default_factory=set
    )  # tokens of cells that may be one memory
    poison: dict[int, Any] = field(default_factory=dict)  # cells of which a partner is stored into
    stale: dict[Any, Any] = field(default_factory=dict)  # and phis: (location, number) -> where
    undecided: set[Any] = field(
        default_factory=set
    )  # locations whose container may have another name
    held: dict[Any, Any] = field(default_factory=dict)  # locations of elements: of which list
    absent: set[tuple[int, Any]] = field(
        default_factory=set
    )  # keys that an iteration adds, with a value that need not be carried
    as_while: bool = False
    rising: set[Any] = field(default_factory=set)  # counters that are never lowered, from 0 on
    falling: set[Any] = field(default_factory=set)  # those that were taken for such, and are not
    together: bool = True  # what may be None, and starts so, is there or not at one time

    def is_empty(self) -> bool:
        """True if a body can be interpreted in the state in which the loop is met."""
        known = (self.locations, self.cells, self.growing, self.poison, self.absent)
        return not any(known)


@dataclass(eq=False)
class Growth:
    """A list that the loop appends to: appends per iteration (None: they vary), sample element."""

    values: RecordedList
    per_iteration: Any
    sample: Any
    rows: GrowingRows | None = None
    changing: bool = False  # elements are taken out, or arrays replaced
    appends: bool = True  # or elements are replaced or widened, or two lists change places
    widened: Any = None  # the arrays of one that was there before, as every attempt has them
    after: Any = 0  # the length at the end of an iteration, if each appends equally often


@dataclass(eq=False)
class Carried:
    """The phis of one attempt."""

    phis: list[Var] = field(default_factory=list)
    inits: list[Any] = field(default_factory=list)
    slots: list[CarriedSlot] = field(default_factory=list)
    cells: list[tuple[Array, Var]] = field(default_factory=list)
    partners: set[tuple[Any, Any]] = field(default_factory=set)  # those of the first iteration

    @property
    def sizes(self) -> tuple[list[DimLike], list[DimLike]]:
        """The dimensions of the phis, and those of their initial values."""
        first = [d for a in self.inits if isinstance(a, Var) for d in a.type.dims]
        return [d for p in self.phis for d in p.type.dims], first


@dataclass(eq=False)
class CarriedSlot:
    """One carried location: its value at the start of an iteration, and its phis."""

    key: tuple[int, Any]  # the container's id, and the place in it
    container: Any
    description: Any
    first: int  # of its phis
    initial: Any
    value: Any
    arrays: list[Array] = field(default_factory=list)
    next_value: Any = None

    @property
    def place(self) -> Any:
        """The key, index or name of the location in its container."""
        return self.key[1]

    def store(self, value: Any) -> None:
        """Let the location hold a value."""
        kind_of(self.container).store(self.container, self.place, value)

    def now(self) -> Any:
        """The current value at the location; MISSING if there is none."""
        return kind_of(self.container).read(self.container, self.place)


def link_cells(left: Array | None, right: Array | None) -> None:
    """Note that two cells, if both exist, may share memory; or elements of one cell may."""
    if left is not None and left is right:
        note_twice(left)
    elif left is not None and right is not None:
        link(left, right)


class LoopMemory(Branches):
    """Cells and containers of a loop that may, or may not, be the same."""

    def _leaves(self, slot: CarriedSlot, value: Any) -> list[Any]:
        return slot.description.leaf_values(value)

    def _link_first(
        self, plan: CarryPlan, carried: Carried, start: Snapshot, flags: LoopFlags
    ) -> None:
        """Link phis with the cells whose memory they may share, in any iteration.

        A path that starts an iteration has not returned: a returned value shares no phi's memory.
        """
        holders = [(s, self._leaves(s, s.initial)) for s in carried.slots]
        carried.partners = self._sharing(holders, start, set())
        for pair in plan.partners | carried.partners:
            if any(kind == "phi" and key[1] == flags.value for kind, key, _ in pair):
                continue
            cells = [self._cell_of(token, carried, start) for token in pair]
            link_cells(*cells)

    def _cell_of(self, token: Any, carried: Carried, moment: Snapshot) -> Any:
        kind, key, offset = token
        if kind == "cell":
            found = moment.contents.get(key)
            return None if found is None else found[0]
        for slot in carried.slots:
            if slot.key == key:
                return slot.arrays[offset] if offset < len(slot.arrays) else None
        return None

    def _sharing(
        self, holders: list[tuple[CarriedSlot, list[Any]]], moment: Snapshot, own: set[int]
    ) -> set[tuple[Any, Any]]:
        """Pairs of tokens that share memory: two phis, or a phi and a cell that stays."""
        pairs: set[tuple[Any, Any]] = set()
        roots: dict[int, list[Any]] = {}
        for slot, values in holders:
            for offset, value in enumerate(values):
                if not isinstance(value, Array) or not (value.ndim or value.is_buffer):
                    continue
                token = ("phi", slot.key, offset)
                root = value.root()
                for cell in partners_of(root, moment):
                    if id(cell) in moment.contents and id(cell) not in own:
                        pairs.add((token, ("cell", id(cell), 0)))
                    pairs |= {(token, other) for other in roots.get(id(cell), ())}
                roots.setdefault(id(root), []).append(token)
        return pairs

    def _compare_memory(
        self, plan: CarryPlan, carried: Carried, start: Snapshot, after: Snapshot
    ) -> bool:
        """Extend the plan by memory shared after an iteration; True if it covered that already."""
        own = {id(a) for s in carried.slots for a in s.arrays}
        settled = [s for s in carried.slots if plan.locations.get(s.key) is s.description]
        holders = [(s, self._leaves(s, s.now())) for s in settled]
        staying = Snapshot([], self.owned)
        staying.contents = {k: v for k, v in after.contents.items() if k in start.contents}
        pairs = self._sharing(holders, staying, own) | self._linked(start, after, own)
        pairs -= carried.partners | plan.partners
        plan.partners |= pairs
        stable = not pairs
        for key, (cell, state) in start.contents.items():
            now = after.contents.get(key)
            if isinstance(cell, Array) and key not in own and now is not None:
                if now[1][5] is not None and state[5] is None:
                    plan.poison[key] = now[1][5]
                    stable = False
        for slot, leaves in holders:
            for number, leaf in enumerate(leaves):
                stored = poison_of(leaf)
                if stored is not None and (slot.key, number) not in plan.stale:
                    plan.stale[slot.key, number] = stored
                    stable = False
        for slot in carried.slots:
            value = slot.now()
            stable &= self._note_holder(plan, slot.key, value)
            if value is not slot.value and is_mutable(value) and id(value) in start.contents:
                if slot.key not in plan.undecided:
                    plan.undecided.add(slot.key)
                    stable = False
        return stable

    def _note_holder(self, plan: CarryPlan, key: Any, value: Any) -> bool:
        """Extend the plan by the list kept in arrays that holds a value; True if nothing is new."""
        rows = holder(value)
        if rows is None or key in plan.held:
            return True
        plan.held[key] = rows
        return False

    def _linked(self, start: Snapshot, after: Snapshot, own: set[int]) -> set[tuple[Any, Any]]:
        """Pairs of staying cells that may share memory, as an iteration found."""
        pairs: set[tuple[Any, Any]] = set()
        for key, (cell, state) in start.contents.items():
            if isinstance(cell, Array) and key in after.contents and key not in own:
                new = set(map(id, partners_in(after.contents[key][1][4], state[4]))) - own
                pairs |= {(("cell", key, 0), ("cell", p, 0)) for p in new if p in start.contents}
        return pairs

    def _note_aliases(self, plan: CarryPlan, slot: CarriedSlot) -> None:
        """Mark a container that a loop makes anew, and the old one that another name may hold."""
        if is_mutable(slot.initial) and not isinstance(slot.value, Array):
            where = Snapshot(self.roots(), self.owned)
            if id(slot.initial) in where.contents or slot.key in plan.undecided:
                self.undecided[id(slot.value)] = slot.value
                self.undecided[id(slot.initial)] = slot.initial
