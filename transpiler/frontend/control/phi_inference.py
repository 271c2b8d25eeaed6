"""Inference of the values that a loop carries, by a fixpoint.

The body is interpreted, every location and cell that it changed becomes a carried value (its type
widened to hold what came in and what came out), and the body is interpreted again, until nothing
changes any more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import gast

from calque.transpiler.errors import BranchMismatch, ShapeError, UnequalIterations
from calque.transpiler.frontend.control.branch import LoopFlags, on_a_path
from calque.transpiler.frontend.control.loop_memory import (
    Carried,
    CarriedSlot,
    CarryPlan,
    link_cells,
)
from calque.transpiler.frontend.control.loop_names import Ending, LoopNames
from calque.transpiler.frontend.control.rising_counters import note_rising, take_rising
from calque.transpiler.frontend.control.state_join import poison_of
from calque.transpiler.frontend.control.swaps import undo_exchanges
from calque.transpiler.frontend.control.value_join import (
    coerce,
    fresh_leaf,
    stand_in,
)
from calque.transpiler.frontend.machine import Completion
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.containers.list_kinds import GrowingList
from calque.transpiler.frontend.values.descriptions import DEAD
from calque.transpiler.frontend.values.growing_lists import appended
from calque.transpiler.frontend.values.heap import Snapshot, shown_name
from calque.transpiler.frontend.values.iterables import Range
from calque.transpiler.frontend.values.key_presence import (
    held_at,
    mark_absent,
    note_unsure,
    place_lacks,
    unsure_key,
)
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber, alternatives_of
from calque.transpiler.frontend.values.nested_lists import hold_again
from calque.transpiler.frontend.values.optional import Maybe, Mismatch, OptionalStructure
from calque.transpiler.frontend.values.tagged import TaggedStructure, TaggedValue, tag_needed
from calque.transpiler.ir.builder import Array, atom
from calque.transpiler.ir.core import UNDEFINED, Block, Var
from calque.transpiler.ir.types import ArrayType, Dim, DimLike, dim_symbols, substitute_dim

_ATTEMPTS = 40


class Carrying(LoopNames):
    """The fixpoint that every loop of the generated program needs."""

    def place_of(self, node: Any) -> Any:
        """A key that identifies a loop, however often it is interpreted."""
        what = node.iter if isinstance(node, gast.For) else node.test
        return (self.call.source.file, what.lineno, what.col_offset)

    def _marks(self) -> tuple[Any, ...]:
        block = self.builder.blocks[-1]
        dims = self.builder.dims
        return (
            block,
            len(block.statements),
            dict(dims.values),
            dict(dims.assumptions),
            len(self.builder.equal_dims),
            self.builder._sizes[-1],  # of this block: who goes back may be within another
            dict(self.builder._sizes[-1]),
            len(self.element_sizes),
            len(self.facts),
        )

    def _back_to(self, marks: tuple[Any, ...]) -> None:
        block, count, values, assumptions, equal, sizes, known, elements, facts = marks
        del block.statements[count:]
        self.builder.dims.values = dict(values)
        self.builder.dims.assumptions = dict(assumptions)
        del self.builder.equal_dims[equal:]
        del self.element_sizes[elements:]
        del self.facts[facts:]
        sizes.clear()
        sizes.update(known)

    def _fixpoint(
        self,
        node: Any,
        plan: CarryPlan,
        attempt: Callable[..., Any],
        emit: Callable[..., None],
        test: Any,
        trip: Range | None,
        flags: LoopFlags,
        holding: list[Any],
        certain: bool | Dim,
    ) -> bool:
        """Interpret the body until the plan is stable; False if a for turns out to break."""
        marks = self._marks()
        names = self.call.frame.locals
        self.holding.append(tuple(holding))
        self.loop_depth += 1
        outer = Snapshot(self.roots(), self.owned)
        try:
            for _ in range(_ATTEMPTS):
                self._prepare_growth(plan, trip, self.place_of(node))
                base = Snapshot(self.roots(), self.owned) if plan.growing else outer
                carried = self._install(plan, base)
                flags.stored = set(plan.cells)
                self.loop_bases.append(base)
                start = base if plan.is_empty() else Snapshot(self.roots(), self.owned)
                self._link_first(plan, carried, start, flags)
                try:
                    with on_a_path(), self._solving(carried), self.builder.block() as block:
                        completion, extra = attempt(plan, carried, block)
                        self._record_exit(completion, flags)
                        if trip is not None and not self._runs_through(names, flags):
                            outer.restore()
                            self._back_to(marks)
                            return False
                        self._reset_counts(plan)
                        stable = self._settles(plan, carried, base, start, block)
                except GrowingList as growth:
                    self._note_growth(plan, growth, base)
                    stable = False
                finally:
                    self.loop_bases.pop()
                if stable:
                    base.restore()
                    self._fill(node, carried, flags)
                    outs = self._outs(carried, block)
                    emit(outs, extra, carried, block, test)
                    ending = Ending(outs, trip, certain)
                    self._publish(plan, base, carried, ending)
                    flags.certain = ending.certain
                    return True
                outer.restore()
                self._back_to(marks)
        finally:
            self.holding.pop()
            self.loop_depth -= 1
        raise BranchMismatch(
            "What this loop carries does not settle.",
            self.origin(node),
            "give every value that the loop changes one type and structure",
        )

    def _settles(
        self, plan: CarryPlan, carried: Carried, base: Snapshot, start: Snapshot, block: Block
    ) -> bool:
        """True if the plan covers the body's changes; the next values become its results."""
        undo_exchanges(self, base)
        if not note_rising(self, plan, carried):
            return False
        after = Snapshot(self.roots(), self.owned)
        stable = self._compare(plan, base, start, after)
        stable &= self._compare_memory(plan, carried, start, after)
        stable = stable and self._stay_together(plan, carried)
        if not stable or not self._next_values(carried, block):
            return False
        self._check_elements(self.builder.dims.changing(*carried.sizes))
        return True

    def _outs(self, carried: Carried, block: Block) -> list[Var]:
        """The results of a loop; sizes that change between iterations are new ones after it."""
        dims = self.builder.dims
        changed: dict[str, DimLike] = {}
        for phi, after in zip(carried.phis, block.results, strict=True):
            if isinstance(after, Var) and after.type.ndim == phi.type.ndim:
                for own, next_one in zip(phi.type.dims, after.type.dims, strict=True):
                    if not dims.same(own, next_one):
                        changed.update({s: dims.fresh() for s in dim_symbols(dims.resolve(own))})
        return [
            Var(
                p.type.with_dims([substitute_dim(dims.resolve(d), changed) for d in p.type.dims])
                if changed
                else p.type,
                p.name,
                self.builder.origin,
            )
            for p in carried.phis
        ]

    def _fill(self, node: Any, carried: Carried, flags: LoopFlags) -> None:
        """Initialize arrays that only a return, a break or the ``else`` of a loop binds.

        No path reads them, but a reverse sweep, or a kernel, may read the shape of an array.
        """
        if getattr(node, "orelse", None):
            names = self.call.frame.locals
            self.half_bound |= {(id(names), n): names for n in flags.at_break or ()}
        for slot in carried.slots:
            values = slot.container.locals if isinstance(slot.container, Frame) else None
            bound = slot.place == flags.value or (id(values), slot.place) in self.half_bound
            optional = slot.initial is None and isinstance(slot.description, OptionalStructure)
            tagged = isinstance(slot.description, TaggedStructure)
            if not optional and not tagged and (slot.initial is not MISSING or not bound):
                continue
            for number in range(slot.first, slot.first + len(slot.arrays)):
                t = carried.phis[number].type
                if not t.ndim or (tagged and carried.inits[number] is not UNDEFINED):
                    continue
                carried.inits[number] = atom(stand_in(t))

    def _record_exit(self, completion: Completion | None, flags: LoopFlags) -> None:
        names = self.call.frame.locals
        match completion:
            case Completion(kind="break"):
                names[flags.broken] = True
            case Completion(kind="return", value=value):
                names[flags.returned], names[flags.value] = True, self.kept(value, flags)

    def _runs_through(self, names: dict[str, Any], flags: LoopFlags) -> bool:
        return names[flags.broken] is False and names[flags.returned] is False

    def _install(self, plan: CarryPlan, base: Snapshot) -> Carried:
        """Put phis into the locations and cells of the plan."""
        carried = Carried()
        for (key, place), description in plan.locations.items():
            if key not in base.contents:
                continue
            container = base.contents[key][0]
            first = held_at(base, key, place)
            initial = base.frozen(first)
            if isinstance(initial, TaggedValue) and not initial.may_be_missing():
                raise tag_needed(initial, place, self.origin(None), True)
            self._note_holder(plan, (key, place), first)
            earlier = len(carried.phis)
            slot = CarriedSlot((key, place), container, description, earlier, initial, None)
            slot.value = description.instantiate(
                partial(self._phi, slot=slot, carried=carried),
                lambda m: Mismatch(m, self.builder.origin),
            )
            for leaf in description.leaf_values(initial):
                phi = carried.phis[len(carried.inits)]
                self._agree(leaf, phi.type)
                carried.inits.append(coerce(leaf, phi.type))
            carried.slots.append(slot)
            take_rising(self, plan, slot)
        for slot in carried.slots:
            for number, leaf in enumerate(self._leaves(slot, slot.initial)):
                slot.arrays[number].poison = poison_of(leaf) or plan.stale.get((slot.key, number))
            slot.store(hold_again(slot.value, plan.held.get(slot.key)))
            if kind_of(slot.container).keyed and place_lacks(base, slot.key):
                note_unsure(self, slot.container, slot.place, slot.now())
            self._note_aliases(plan, slot)
        if plan.together:
            for group in self.flags.starting_alike(carried.slots, [s.value for s in carried.slots]):
                self.flags.unite(group)
        mark_absent(plan, base, self.builder.origin)
        for key, origin in plan.poison.items():
            if key in base.contents:
                base.contents[key][0].poison = origin
        for key, t in plan.cells.items():
            if key not in base.contents:
                continue
            cell = base.contents[key][0]
            start = fresh_leaf(t, carried.phis, cell._value.name)
            self._agree(cell, t)
            carried.inits.append(coerce(Array(cell._value), t))
            if cell._value in self.builder.contiguous:
                self.builder.contiguous.add(start._value)
            cell._value = start._value
            carried.cells.append((cell, start._value))
        if self.builder.varying is not None:
            self.builder.varying.entries.update(zip(carried.phis, carried.inits, strict=True))
        return carried

    def _stay_together(self, plan: CarryPlan, carried: Carried) -> bool:
        """True if values that are taken to be None together still are after an iteration."""
        groups = self.flags.starting_alike(carried.slots, [s.now() for s in carried.slots])
        if plan.together and any(len({*map(self.flags.of, g)}) > 1 for g in groups):
            plan.together = False
            return False
        return True

    def _agree(self, initial: Any, t: ArrayType) -> None:
        """Unify again sizes that an earlier attempt unified: its checks were undone with it."""
        if not isinstance(initial, Array) or initial.ndim != t.ndim:
            return
        before = len(self.builder.doubted)
        for own, dim in zip(initial.dims, t.dims, strict=True):
            if isinstance(dim, int) or dim.symbols() <= self.builder.dims.arguments:
                self.builder.unify(own, dim)
        if len(self.builder.doubted) > before:
            raise BranchMismatch("A size that this loop carries is not known.", self.builder.origin)

    def _phi(self, t: ArrayType, slot: CarriedSlot, carried: Carried) -> Array:
        array = fresh_leaf(t, carried.phis, shown_name(slot.place))
        slot.arrays.append(array)
        self._note_first(slot, array)
        return array

    def _next_values(self, carried: Carried, block: Block) -> bool:
        """The body's results: the next value of every phi; False where its size may be another."""
        for slot in carried.slots:
            slot.next_value = slot.now()
            of_two = isinstance(slot.description, (TaggedStructure, OptionalStructure))
            for offset, leaf in enumerate(self._leaves(slot, slot.now())):
                phi = carried.phis[slot.first + offset]  # it stands in for none of its size
                block.results.append(phi if of_two and leaf is DEAD else coerce(leaf, phi.type))
        for cell, phi in carried.cells:
            block.results.append(coerce(Array(cell._value), phi.type))
        ends = [*zip(carried.phis, carried.inits), *zip(carried.phis, block.results)]
        solved, held = None, True
        while solved != len(self.builder.dims.values):
            solved = len(self.builder.dims.values)
            held &= not [phi for phi, end in ends if not self._holds(end, phi.type)]
        return held

    def _holds(self, end: Any, t: ArrayType) -> bool:
        """Unify a phi's final sizes with those that the body requires; False if that fails."""
        if not isinstance(end, Var) or end.type.ndim != t.ndim:
            return True
        before = len(self.builder.doubted)
        for own, dim in zip(end.type.dims, t.dims, strict=True):
            known = self.builder.dims.resolve(dim)
            if known == dim:
                continue
            try:
                self.builder.unify(own, known)
            except ShapeError as error:
                why = f"An array has another size after an iteration of a loop: {error.message}."
                hint = "give it a fixed size, and count how much of it is used"
                raise UnequalIterations(why, self.builder.origin, hint) from None
            if len(self.builder.doubted) > before:
                self.builder.dims.unsolvable |= dim_symbols(dim)
                return False
        return True

    def _solving(self, carried: Carried) -> AbstractContextManager[None]:
        """Inside, what the body requires of a carried array's size may become a condition."""
        return self.builder.dims.solving(*carried.sizes)

    def _publish(self, plan: CarryPlan, base: Snapshot, carried: Carried, ending: Ending) -> None:
        """The state after the loop."""
        ends = [self._publish_slot(s, plan, base, carried, ending) for s in carried.slots]
        if plan.together:
            for group in self.flags.starting_alike(carried.slots, ends):
                self.flags.unite(group)
        self._publish_constants(plan, base, ending)
        self._publish_memory(plan, base, carried, ending)
        for growth in plan.growing.values():
            rows = growth.values.rows
            rows.filled = (self.loop_depth - 1, len(self.tests))
            if growth.per_iteration is not None and rows.fixed:
                rows.count = appended(ending.trip, growth, rows.first)

    def _publish_slot(
        self, slot: CarriedSlot, plan: CarryPlan, base: Snapshot, carried: Carried, ending: Ending
    ) -> Any:
        """Set a location to its value after the loop, and return that value."""
        certain, numbers = ending.certain, iter(range(slot.first, len(ending.outs)))
        made: list[Array] = []

        def leaf(t: ArrayType) -> Array:
            made.append(Array(ending.outs[next(numbers)]))
            return made[-1]

        end = value = slot.description.instantiate(
            leaf, lambda m: Mismatch(m, self.builder.origin)
        )
        ending.finals.update({("phi", slot.key, i): array for i, array in enumerate(made)})
        for number, first in enumerate(self._leaves(slot, slot.initial)):
            made[number].poison = poison_of(first) or plan.stale.get((slot.key, number))
        if not certain:
            self._check_keys(slot.container, slot.place, slot.initial)
        if isinstance(value, Maybe) and not self._is_none(slot) and self._ran(ending.trip):
            value = value.value
        if isinstance(value, MixedNumber):
            value = self._of_last_iteration(slot, value, ending)
        self._note_final(slot, value, ending)
        if made:
            self._count_after(slot, carried.phis[slot.first], made[0]._value, ending.trip)
        slot.store(hold_again(value, plan.held.get(slot.key)))
        late = place_lacks(base, slot.key) and not certain
        if kind_of(slot.container).keyed and (
            late or unsure_key(self, slot.container, slot.place, slot.next_value)
        ):
            note_unsure(self, slot.container, slot.place, slot.now())
        self._note_aliases(plan, replace(slot, value=value))
        return end

    def _publish_constants(self, plan: CarryPlan, base: Snapshot, ending: Ending) -> None:
        """Set locations to known values that an iteration leaves; the loop may run zero times."""
        for (key, place), constant in plan.constants.items():
            container = base.contents[key][0]
            kind = kind_of(container)
            hidden = isinstance(container, Frame) and place.startswith("%")
            if hidden or (ending.certain if kind.keyed else self.surely_runs(ending.certain)):
                kind.store(container, place, constant)  # hidden names have tests of their own
            else:
                self._check_keys(container, place, MISSING)
                message = "it exists only where the loop runs"
                missing = Mismatch(message, self.builder.origin, None, not kind.keyed, kind.keyed)
                kind.store(container, place, missing)

    def _publish_memory(
        self, plan: CarryPlan, base: Snapshot, carried: Carried, ending: Ending
    ) -> None:
        """Link arrays that may share memory after the loop, and set the last versions of cells."""
        finals = ending.finals
        for pair in plan.partners | carried.partners:
            link_cells(
                *[finals[t] if t in finals else self._cell_of(t, carried, base) for t in pair]
            )
        for key, origin in plan.poison.items():
            if key in base.contents:
                base.contents[key][0].poison = origin
        last = len(carried.phis) - len(carried.cells)
        for (cell, phi), out in zip(carried.cells, ending.outs[last:], strict=True):
            cell._value = out
            if phi in self.builder.contiguous:
                self.builder.contiguous.add(out)

    def _of_last_iteration(self, slot: CarriedSlot, value: MixedNumber, ending: Ending) -> Any:
        """A number after a loop whose iterations all leave the same class.

        A loop without iterations leaves what was before it. Where that is a Python number of the
        same dtype, or a known one that the class of the iterations holds, it counts as one of that
        class; else there must be an iteration, which may be a condition on sizes.
        """
        last, first = alternatives_of(slot.next_value), alternatives_of(slot.initial) or ()
        if last is None or len(last) != 1 or slot.initial is MISSING:
            return value
        dtype = last[0].type.dtype
        known = all(a.type.weak and a.known is not None and a.held_by(dtype) for a in first)
        alike = not last[0].type.weak and all(a.type.dtype == dtype for a in first)
        if not (known or alike) and not self._ran(ending.trip):
            return value
        return value.of_class(last[0].type)

    @staticmethod
    def _is_none(slot: CarriedSlot) -> bool:
        """True if an iteration leaves None, or a value that may be None."""
        return slot.next_value is None or isinstance(slot.next_value, Maybe)

    def _check_keys(self, container: Any, key: Any, initial: Any) -> None:
        """Refuse a key of a dict that exists only if the loop runs at all."""
        if isinstance(container, dict) and initial is MISSING:
            raise BranchMismatch(
                f"Only this loop gives the key {key!r} of a dict a value, and it may not run.",
                self.builder.origin,
                "give the key a value before the loop",
            )
