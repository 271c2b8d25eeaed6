"""Names that a loop sets: they have no value after it where it runs no iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.frontend.control.iteration_changes import Changes
from calque.transpiler.frontend.control.loop_memory import CarriedSlot
from calque.transpiler.frontend.values.containers.container_kinds import MISSING
from calque.transpiler.frontend.values.heap import shown_name
from calque.transpiler.frontend.values.iterables import Range
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Var


@dataclass
class Ending:
    """The end of a loop: its results, its range, and whether it runs, or the range that tells."""

    outs: list[Var]
    trip: Range | None
    certain: bool | Range
    finals: dict[Any, Array] = field(default_factory=dict)  # arrays that it carried, after it


class LoopNames(Changes):
    """Which values loops may leave undefined.

    A loop over sizes is taken to run where a name that only it sets is read: that becomes a
    condition on sizes.
    """

    def _ran(self, trip: Range | None) -> bool:
        """True if a loop runs at least once; that may become a condition on sizes."""
        if trip is None:
            return False
        return self.builder.dims.assume_nonnegative(self.builder.dim_of(trip.length()) - 1)

    def is_unsure(self, value: Any) -> bool:
        """True if some path does not define a value; that a loop runs may become a condition."""
        if not isinstance(value, Array):
            return False
        if not all(map(self._ran, self.of_loops.get(value._value, ()))):
            self.unsure[value._value] = None
        return value._value in self.unsure

    def surely_runs(self, certain: bool | Range) -> bool:
        """True if a loop runs at least once; that may become a condition on sizes."""
        return self._ran(certain) if isinstance(certain, Range) else certain

    def _note_first(self, slot: CarriedSlot, phi: Array) -> None:
        """Note that a name may have no value at the start of an iteration."""
        first = _variable(slot.initial)
        shown = isinstance(slot.place, str) and not slot.place.startswith("%")
        if slot.initial is MISSING and shown:
            self.unsure[phi._value] = None
        elif first in self.unsure:
            self.unsure[phi._value] = self.unsure[first]
        elif first in self.of_loops:
            self.of_loops[phi._value] = self.of_loops[first]

    def _note_final(self, slot: CarriedSlot, value: Any, ending: Ending) -> None:
        """Note a name as unsure that only the loop binds, if some path through it may not."""
        if shown_name(slot.place) != slot.place:
            return
        if not isinstance(value, Array):
            tagged = isinstance(value, TaggedValue)  # the tag tells
            if slot.initial is MISSING and isinstance(ending.certain, Range) and not tagged:
                arrays = [v for v in self._leaves(slot, value) if isinstance(v, Array)]
                self.of_loops.update((array._value, (ending.certain,)) for array in arrays)
            return
        first, last = map(_variable, (slot.initial, slot.next_value))
        if last in self.unsure:
            self.unsure[value._value] = self.unsure[last]
            return
        ranges = self.of_loops.get(last, ())
        if slot.initial is MISSING or first in self.unsure or first in self.of_loops:
            if not ending.certain:
                self.unsure[value._value] = None
            elif isinstance(ending.certain, Range):
                ranges = (*ranges, ending.certain)
        if ranges:
            self.of_loops[value._value] = ranges


def _variable(value: Any) -> Any:
    return value._value if isinstance(value, Array) else None
