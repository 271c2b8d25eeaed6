"""The changes that an iteration makes to the state, which the loop must therefore carry."""

from __future__ import annotations

from typing import Any

from calque.transpiler.frontend.control.loop_memory import CarryPlan
from calque.transpiler.frontend.control.value_join import is_lasting, widen
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.descriptions import (
    Clash,
    Constant,
    Description,
    Structure,
    describe,
)
from calque.transpiler.frontend.values.growing_lists import Growing
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.key_presence import held_at
from calque.transpiler.frontend.values.optional import Mismatch
from calque.transpiler.frontend.values.tagged import (
    TaggedStructure,
    TaggedValue,
    can_be_tagged,
    of_two,
)


class Changes(Growing):
    """Compares the state after an iteration with the one before it."""

    def _compare(self, plan: CarryPlan, base: Snapshot, start: Snapshot, after: Snapshot) -> bool:
        """Extend the plan by what the body changed; True if it covered that already."""
        stable = True
        plan.constants.clear()
        planned = {key for key, _ in [*plan.locations, *plan.absent]}
        for key, (container, content) in start.contents.items():
            if key not in base.contents or key not in after.contents:
                continue
            if key not in planned and start.kept(key, after):
                continue
            if not kind_of(container).widen(plan, container, content, after.contents[key][1]):
                stable = False
                continue
            before, now = start.locations(key), after.locations(key)
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
            new = widen(old, now)
            if self.settings.tagging:
                new = self._with_tag(old, new, now, base.contents[key][0])
        if known is not None and known.same(new, self.builder.dims):
            return True
        if known is None and isinstance(new, Constant):
            keyed = kind_of(base.contents[key][0]).keyed
            if initial is MISSING and (keyed or is_lasting(now) or isinstance(now, Mismatch)):
                plan.constants[key, place] = now
            if initial is MISSING and keyed and (key, place) not in plan.absent:
                plan.absent.add((key, place))
                return False
            return True
        plan.locations[key, place] = new
        return False

    def _with_tag(self, old: Description, new: Any, now: Any, container: Any) -> Any:
        """The description of what a loop leaves, with a tag where values are of two kinds."""
        missing = isinstance(old, Constant) and old.value is MISSING
        named = isinstance(container, Frame) or kind_of(container).keyed
        asked = missing and self.settings.loops_tag and named
        if not (asked or isinstance(new, Clash)) or isinstance(now, TaggedValue):
            return new
        if isinstance(old, TaggedStructure) or not can_be_tagged(describe(now)):
            return new
        if not missing and not can_be_tagged(old):
            return new
        message = new.message if isinstance(new, Clash) else "only the loop gives it a value"
        return of_two(describe(now), old, message)

    def _describe(self, initial: Any) -> Any:
        return Constant(MISSING) if initial is MISSING else describe(initial)
