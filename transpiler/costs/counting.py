"""Counts the operations, the memory traffic and the saved memory of a program, by the user's lines.

The counted program is the one that NumPy's text shows, with the copies that its stores need. What a
loop holds counts once for each iteration; of a branch the arm counts that costs more, each measure
for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from calque.transpiler.codegen.numpy.emit import printed_program
from calque.transpiler.costs.formulas import Formula
from calque.transpiler.costs.integer_formulas import IntegerFormulas
from calque.transpiler.costs.memory_traffic import bytes_moved
from calque.transpiler.costs.operation_counts import operations_of
from calque.transpiler.costs.saved_memory import SavedArray, SavedMemory
from calque.transpiler.costs.size_symbols import SizeSymbols
from calque.transpiler.costs.user_lines import Line, line_of
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, If, Statement, While
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.ir.phases import spread_phases
from calque.transpiler.ir.target import NUMPY
from calque.transpiler.memory.printed_program import PrintedProgram

OPERATIONS, FUNCTIONS, MOVED = "operations", "functions", "moved"


OPERATIONS, FUNCTIONS, MOVED = "operations", "functions", "moved"


class Tally:
    """Formulas by measure and line."""

    def __init__(self, parts: dict[tuple[Hashable, Line], Formula] | None = None):
        self.parts = parts or {}

    def add(self, measure: Hashable, line: Line, value: Formula) -> None:
        """Add to the measure of a line."""
        if value:
            self.parts[measure, line] = self.parts.get((measure, line), Formula()) + value

    def include(self, other: Tally) -> None:
        """Add all that another tally holds."""
        for (measure, line), value in other.parts.items():
            self.add(measure, line, value)

    def changed(self, change: Callable[[Formula], Formula]) -> Tally:
        """The tally with every formula changed."""
        return Tally({key: change(value) for key, value in self.parts.items()})

    def measures(self) -> list[Hashable]:
        """The measures that occur."""
        return list(dict.fromkeys(measure for measure, _ in self.parts))

    def lines(self, measure: Hashable) -> dict[Line, Formula]:
        """The parts of a measure, by line."""
        return {line: value for (m, line), value in self.parts.items() if m == measure}

    def total(self, measure: Hashable) -> Formula:
        """The sum over all lines."""
        return sum(self.lines(measure).values(), Formula())


@dataclass
class Cost:
    """The cost of one program."""

    tally: Tally
    saved: list[SavedArray]
    uncounted: dict[tuple[str, Line], None] = field(default_factory=dict)  # names of operations
    branches: dict[Line, None] = field(default_factory=dict)  # of which one arm is counted
    masks: dict[Line, None] = field(default_factory=dict)  # lines of masks: all elements count

    def total(self, measure: str) -> Formula:
        """The sum of a measure."""
        return self.tally.total(measure)

    def bytes_saved(self) -> Formula:
        """The memory that the reverse phase needs of the forward phase."""
        return sum((array.size for array in self.saved), Formula())


def cost_of(traced: Traced, symbols: SizeSymbols) -> Cost:
    """The cost of a program for NumPy; ``symbols`` has the sizes and integers of its arguments."""
    copied = traced.copied({})
    spread_phases(copied.function)
    program = printed_program(copied.function, NUMPY)
    copied.builder.dim_values.update(program.dim_values)
    copied.builder.definitions.update(program.definition)
    return _Counter(program, copied.builder, symbols).cost()


class _Counter:
    """A walk through one program."""

    def __init__(self, program: PrintedProgram, builder: Builder, symbols: SizeSymbols):
        self.program = program
        self.sizes = IntegerFormulas(program, builder, symbols)
        self.symbols = symbols
        self.memory = SavedMemory(program, self.sizes)
        self.found = Cost(Tally(), [])
        self.fresh = map("@{}".format, itertools.count())  # symbols of counters

    def cost(self) -> Cost:
        """The cost of the whole program."""
        self.found.tally, self.found.saved = self.block(self.program.body)
        self.found.masks = self.sizes.masks
        return self.found

    def line(self, s: Statement) -> Line:
        """The user's line of a statement."""
        return line_of(s.origin, self.program.function.origin)

    def block(self, block: Block) -> tuple[Tally, list[SavedArray]]:
        """The counts of a block, and what is saved at the worst moment within it."""
        tally, inner = Tally(), list[list[SavedArray]]()
        for s in block.statements:
            counted, saved = self.statement(s)
            tally.include(counted)
            inner.append(saved)
        kept = self.memory.crossing(block, tally.total)
        turns = {place for k in kept for place in (k.since, k.until)}
        moments = [
            [k.array for k in kept if k.since <= place <= k.until] + saved
            for place, saved in enumerate(inner)
            if saved or place in turns
        ]
        return tally, self._largest(moments)

    def _largest(self, found: Iterable[list[SavedArray]]) -> list[SavedArray]:
        """The moment at which most is saved: one after the other needs its memory."""
        moments = list(found)
        arrays = {id(a): a for saved in moments for a in saved}
        sizes = {key: self.symbols.nominal(a.size) for key, a in arrays.items()}
        return max(moments, key=lambda saved: sum(sizes[id(a)] for a in saved), default=[])

    def statement(self, s: Statement) -> tuple[Tally, list[SavedArray]]:
        """The counts of one statement."""
        match s:
            case Apply():
                return self.apply(s), []
            case For() | While():
                return self.loop(s)
            case If():
                return self.branch(s)
        return Tally(), []

    def apply(self, s: Apply) -> Tally:
        """The counts of one operation."""
        tally, line = Tally(), self.line(s)
        counted = operations_of(s, self.sizes)
        if counted is None:
            self.found.uncounted[s.primitive.name, line] = None
        else:
            tally.add(OPERATIONS, line, counted.count)
            tally.add(FUNCTIONS, line, counted.count if counted.functions else Formula())
        tally.add(MOVED, line, bytes_moved(s, self.sizes))
        if is_indexed_store(s) and (growing := self.memory.growing(s.args[0])) is not None:
            tally.add(growing, line, self.memory.stored(s))
        return tally

    def loop(self, s: For | While) -> tuple[Tally, list[SavedArray]]:
        """The counts of all iterations of a loop."""
        count, symbol = self.sizes.iterations(s), next(self.fresh)
        with self.sizes.within(s, symbol, count):
            tally, saved = self.block(s.body)
            if isinstance(s, While):
                tally.include(self.block(s.test)[0])
        last = count - 1

        def at_largest(size: Formula) -> Formula:
            ends = (size.at({symbol: 0}), size.at({symbol: last}))
            return max(ends, key=self.symbols.nominal) if symbol in size.symbols() else size

        saved = [array.resized(at_largest) for array in saved]
        return tally.changed(lambda value: value.summed(symbol, count)), saved

    def branch(self, s: If) -> tuple[Tally, list[SavedArray]]:
        """The counts of the arm that costs more; of each measure for itself."""
        arms = [self.block(arm) for arm in (s.then, s.orelse)]
        tallies = [tally for tally, _ in arms]
        chosen = Tally()
        for measure in dict.fromkeys(m for tally in tallies for m in tally.measures()):
            totals = [tally.total(measure) for tally in tallies]
            if totals[0] != totals[1]:
                self.found.branches[self.line(s)] = None
            larger = tallies[self.symbols.nominal(totals[1]) > self.symbols.nominal(totals[0])]
            for line, value in larger.lines(measure).items():
                chosen.add(measure, line, value)
        return chosen, self._largest(saved for _, saved in arms)
