"""The units of a fusion plan in program order, with their dependences as bit masks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from calque.transpiler.errors import CalqueError
from calque.transpiler.ir.core import Statement, Var
from calque.transpiler.loops.fusion_groups import Loop, Root

Unit = Statement | Loop
_FAR = 40  # earlier nests that are tried for fusion with a root


class UnitOrder:
    """Units in the order of planning; sets of units are integers with one bit for each."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.number: dict[int, int] = {}  # by the id of a unit
        self._needs: list[int] = []  # the direct predecessors of each unit
        self._behind: list[int] = []  # the transitive predecessors of each unit
        self._readers: list[list[int]] = []  # the direct successors of each unit
        self._touching: dict[Var, list[int]] = {}  # the nests that touch an array in memory

    def add(self, unit: Unit, needs: Iterable[Unit], root: Root | None) -> None:
        """Add a unit, or a further root of a known one, with the units that it depends on."""
        number = self.number.setdefault(id(unit), len(self.units))
        if number == len(self.units):
            self.units.append(unit)
            self._needs.append(0)
            self._behind.append(0)
            self._readers.append([])
        mask = self._mask(needs) & ~(1 << number)
        for needed in _members(mask & ~self._needs[number]):
            self._readers[needed].append(number)
        self._needs[number] |= mask
        self._wait(number, mask | self.waited_for(mask))
        for array in root.arrays() if root is not None else ():
            touching = self._touching.setdefault(array, [])
            if number not in touching[-1:]:
                touching.append(number)

    def _wait(self, number: int, mask: int) -> None:
        """Add predecessors to a unit and to its transitive successors."""
        pending = [number]
        while pending:
            number = pending.pop()
            if mask & ~self._behind[number]:
                self._behind[number] |= mask
                pending += self._readers[number]

    def waited_for(self, mask: int) -> int:
        """The transitive predecessors of some units."""
        found = 0
        for number in _members(mask):
            found |= self._behind[number]
        return found

    def sharing(self, root: Root, needs: Iterable[Unit]) -> Iterator[Loop]:
        """Yield nests that touch an array of a root and may take it in, latest first."""
        mask = self._mask(needs)
        waited_for = self.waited_for(mask)
        numbers = {n for array in root.arrays() for n in self._touching.get(array, [])[-_FAR:]}
        for number in sorted(numbers, reverse=True)[:_FAR]:
            unit = self.units[number]
            if isinstance(unit, Loop) and not waited_for >> number & 1:
                yield unit

    def sorted(self) -> list[Unit]:
        """The units in topological order, otherwise in the order of the program."""
        left = [mask.bit_count() for mask in self._needs]
        ready = [number for number, count in enumerate(left) if not count]
        made: list[Unit] = []
        while ready:
            number = heapq.heappop(ready)
            made.append(self.units[number])
            for reader in self._readers[number]:
                left[reader] -= 1
                if not left[reader]:
                    heapq.heappush(ready, reader)
        if len(made) < len(self.units):
            raise CalqueError("the loops wait for each other")
        return made

    def _mask(self, units: Iterable[Unit]) -> int:
        found = 0
        for unit in units:
            found |= 1 << self.number[id(unit)]
        return found


def _members(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
