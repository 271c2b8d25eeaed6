"""The arrays that the reverse phase reads and that are kept in memory for it.

These are arrays that a statement of the forward phase makes and a statement of the reverse phase,
later in the same block, reads: buffers of loops, and values at hand. What the reverse phase repeats
for a checkpointed function is such a forward phase, too. Arguments and results are in memory
anyway. A block within, such as a segment of a checkpointed loop, may hold both phases: its arrays
come on top of those of the block around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from calque.transpiler.costs.formulas import Formula
from calque.transpiler.costs.integer_formulas import IntegerFormulas
from calque.transpiler.costs.memory_traffic import stored_part
from calque.transpiler.costs.user_lines import Line, line_of
from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Statement, Var
from calque.transpiler.ir.effects import is_indexed_store, is_size, is_store
from calque.transpiler.ir.phases import PHASES, runs_again
from calque.transpiler.ir.versions import Versions
from calque.transpiler.memory.alias import viewed
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives import creation
from calque.transpiler.primitives.growing import room

Growing = frozenset[Var]  # the versions of an array that grows


@dataclass(frozen=True)
class SavedArray:
    """An array that is kept for the reverse phase."""

    name: str
    size: Formula  # in bytes
    line: Line
    of_loop: bool  # it holds a value of each iteration

    def resized(self, change: Callable[[Formula], Formula]) -> SavedArray:
        """The same array, its size changed."""
        return replace(self, size=change(self.size))


@dataclass
class TimeInMemory:
    """A saved array, and the places in a block from which and until which it is in memory."""

    array: SavedArray
    since: int
    until: int


def _taken(s: Apply) -> tuple[Atom, ...]:
    """The arrays whose memory the results of an operation are in."""
    return s.args[:1] if is_store(s) else viewed(s)


class SavedMemory:
    """The arrays that one program saves."""

    def __init__(self, program: PrintedProgram, sizes: IntegerFormulas):
        self.program, self.sizes = program, sizes
        self.memory = Versions.within(program.body, _taken)
        self.stores = Versions.within(program.body)
        self.roots: dict[Var, Var] = {}
        self.results = {self._root(a) for a in program.body.results if isinstance(a, Var)}
        self.grown: dict[Var, Growing] = {}
        for s in core.walk(program.body):
            if isinstance(s, Apply) and s.primitive is room:
                family = self.stores.family(s.out)
                self.grown.update(dict.fromkeys(family, family))

    def growing(self, array: Atom) -> Growing | None:
        """The versions of an array, if it grows."""
        return self.grown.get(array) if isinstance(array, Var) else None

    def stored(self, s: Apply) -> Formula:
        """The bytes that a store adds to an array that grows."""
        return self.sizes.bytes(stored_part(s, self.sizes))

    def crossing(self, block: Block, grown: Callable[[Growing], Formula]) -> list[TimeInMemory]:
        """The arrays that phases of a block leave to later ones, each with its time in memory.

        ``grown`` gives the bytes that the block stores into an array that grows.
        """
        made: dict[Var, tuple[int, int]] = {}  # the phase and the place of each array of the block
        kept: dict[Var, TimeInMemory] = {}
        for place, s in enumerate(block.statements):
            phase = _rank(s)
            for read in _arrays_read(s):
                root = self._root(read)
                if made.get(read, (phase,))[0] >= phase or root not in made or root in self.results:
                    continue
                if root not in kept:
                    kept[root] = TimeInMemory(self._saved(root, read, grown), made[root][1], place)
                kept[root].until = place
            made.update(dict.fromkeys(s.outs, (phase, place)))
        return list(kept.values())

    def _saved(self, root: Var, read: Var, grown: Callable[[Growing], Formula]) -> SavedArray:
        growing = self.growing(root)
        size = self.sizes.bytes(root.type) if growing is None else grown(growing)
        made = self.program.definition.get(root)
        of_loop = isinstance(made, Apply) and made.primitive is creation.space
        filled = of_loop or (isinstance(made, Apply) and made.primitive is creation.empty)
        name = root.name or read.name or self.sizes.builder.described(root) or "a value"
        origin = self._origin(root) if filled else root.origin
        return SavedArray(name, size, line_of(origin, self.program.function.origin), of_loop)

    def _origin(self, buffer: Var) -> Origin | None:
        """The line that computes the values in a buffer."""
        stores = (self.program.definition.get(v) for v in self.stores.later(buffer))
        values = [s.args[1] for s in stores if is_indexed_store(s)]
        value = next((v for v in values if isinstance(v, Var)), buffer)
        while (carried := self.program.carried.get(value)) and isinstance(carried[1], Var):
            value = carried[1]
        made = self.program.definition.get(value)
        return (made.origin if isinstance(made, Apply) else None) or value.origin or buffer.origin

    def _root(self, var: Var) -> Var:
        """The version in whose memory an array is: the first, or a loop's result."""
        found, passed = var, []
        while found not in self.roots:
            before = self.memory.before(found)
            passed.append(found)
            if before is None:
                break
            found = before
        self.roots.update(dict.fromkeys(passed, root := self.roots.get(found, found)))
        return root


def _rank(s: Statement) -> int:
    """The order of a statement's phase; what a phase repeats comes before the phase."""
    return 2 * (PHASES.index(s.phase) if s.phase in PHASES else 0) - runs_again(s)


def _arrays_read(s: Statement) -> Iterator[Var]:
    """The arrays whose elements a statement reads, or one within it."""
    if isinstance(s, Apply) and (is_size(s) or s.primitive.kind == "creation"):
        return
    atoms = list(core.operands(s))
    for block in core.blocks_of(s):
        atoms += block.results
    yield from (a for a in atoms if isinstance(a, Var) and a.type.ndim)
    for block in core.blocks_of(s):
        for inner in block.statements:
            yield from _arrays_read(inner)
