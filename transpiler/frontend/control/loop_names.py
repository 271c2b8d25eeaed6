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
from calque.transpiler.ir.types import Dim


@dataclass
class Ending:
    """The end of a loop: its results and range, and that it runs, or what is then at least 0."""

    outs: list[Var]
    trip: Range | None
    certain: bool | Dim
    finals: dict[Any, Array] = field(default_factory=dict)  # arrays that it carried, after it


class LoopNames(Changes):
    """Tells which values loops may leave undefined.

    A loop over sizes is taken to run where a name that only it sets is read: that becomes a
    condition on sizes.
    """

    def runs_if(self, trip: Range | None) -> bool | Dim:
        """Return what is at least 0 if a loop over a range runs; True or False if that is known."""
        if trip is None:
            return False
        dim_of = self.builder.dim_of
        span = dim_of(trip.stop) - dim_of(trip.start)
        room = self.builder.dims.resolve((span if trip.step > 0 else -span) - 1)
        return room if isinstance(room, Dim) else room >= 0

    def is_unsure(self, value: Any) -> bool:
        """True if some path does not define a value; that a loop runs may become a condition."""
        if not isinstance(value, Array):
            return False
        if not all(map(self.surely_runs, self.of_loops.get(value._value, ()))):
            self.unsure[value._value] = None
        return value._value in self.unsure

    def surely_runs(self, certain: bool | Dim) -> bool:
        """True if a loop runs at least once; that may become a condition on sizes."""
        dims = self.builder.dims
        return dims.assume_nonnegative(certain) if isinstance(certain, Dim) else certain

    def _ran(self, trip: Range | None) -> bool:
        return self.surely_runs(self.runs_if(trip))

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
            if slot.initial is MISSING and isinstance(ending.certain, Dim) and not tagged:
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
            elif isinstance(ending.certain, Dim):
                ranges = (*ranges, ending.certain)
        if ranges:
            self.of_loops[value._value] = ranges


def _variable(value: Any) -> Any:
    return value._value if isinstance(value, Array) else None
