"""The changes that an iteration makes to the state, which the loop must therefore carry."""

from __future__ import annotations

from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.control.loop_memory import CarryPlan
from calque.transpiler.frontend.control.value_join import (
    abstract,
    is_lasting,
    join_types,
    widen,
)
from calque.transpiler.frontend.values.descriptions import Clash, Constant, Structure, same_type
from calque.transpiler.frontend.values.growing_lists import Growing
from calque.transpiler.frontend.values.heap import MISSING, Snapshot
from calque.transpiler.frontend.values.key_presence import has_keys, held_at, reordered
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.types import ArrayType


class Changes(Growing):
    """Compares the state after an iteration with the one before it."""

    def _compare(self, plan: CarryPlan, base: Snapshot, start: Snapshot, after: Snapshot) -> bool:
        """Extend the plan by what the body changed; True if it covered that already."""
        stable = True
        plan.constants.clear()
        planned = {key for key, _ in [*plan.locations, *plan.absent]}
        for key, (container, _) in start.contents.items():
            if key not in base.contents or key not in after.contents:
                continue
            if key not in planned and start.kept(key, after):
                continue
            if isinstance(container, Array):
                stable &= self._compare_cell(plan, key, start, after)
                continue
            if isinstance(container, set):
                if start.contents[key][1] != after.contents[key][1]:
                    raise BranchMismatch(
                        "A set changes in a run-time loop.",
                        self.builder.origin,
                        "use an array of flags",
                    )
                continue
            before, now = start.locations(key), after.locations(key)
            if reordered(container, before, now):
                raise BranchMismatch(
                    "The keys of a dict change their order in a run-time loop.",
                    self.builder.origin,
                    "store into d[key] without taking the key out first",
                )
            if (
                isinstance(container, list)
                and start.contents[key][1][1] is not after.contents[key][1][1]
            ):
                stable = False
                self._grew_within(plan, container)
                continue
            if isinstance(container, list) and len(before) != len(now):
                stable = False
                self._list_changed(plan, container, before, now)
                continue
            for place in {**before, **now}:
                stable &= self._compare_location(
                    plan, base, key, place, before.get(place, MISSING), now.get(place, MISSING)
                )
        return stable

    def _compare_location(
        self, plan: CarryPlan, base: Snapshot, key: int, place: Any, before: Any, now: Any
    ) -> bool:
        known = plan.locations.get((key, place))
        if known is None and (key, place) in plan.absent:
            plan.constants[key, place] = now
        if before is now and not isinstance(known, Structure):
            return True
        initial = held_at(base, key, place)
        old = known if known is not None else self._describe(initial)
        if now is MISSING:
            new: Any = Clash("it is deleted in the loop")
        else:
            new = widen(old, now, self.owned)
        if known is not None and known.same(new, self.builder.dims):
            return True
        if known is None and isinstance(new, Constant):
            keyed = has_keys(base.contents[key][0])
            if initial is MISSING and (keyed or is_lasting(now)):
                plan.constants[key, place] = now
            if initial is MISSING and keyed and (key, place) not in plan.absent:
                plan.absent.add((key, place))
                return False
            return True
        plan.locations[key, place] = new
        return False

    def _describe(self, initial: Any) -> Any:
        return Constant(MISSING) if initial is MISSING else abstract(initial, self.owned)

    def _compare_cell(self, plan: CarryPlan, key: int, start: Snapshot, after: Snapshot) -> bool:
        cell, state = start.contents[key]
        now = after.contents.get(key, (cell, state))[1]
        if state[1] is not None or now[0] is state[0]:
            return True
        old = plan.cells.get(key, state[0].type)
        new = join_types(old, now[0].type, spread=False)
        assert new is not None
        new = ArrayType(old.dtype, new.dims, old.weak)
        if key in plan.cells and same_type(plan.cells[key], new, self.builder.dims):
            return True
        plan.cells[key] = new
        return False
