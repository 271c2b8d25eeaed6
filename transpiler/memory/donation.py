"""Buffer donation: reuse the memory of dead arrays for arrays that later kernels fill.

Before::

    y = np.empty((8192, 2, 4))
    z = np.empty((4096, 2, 8))
    x, t = kernel(x, t)
    t, y = kernel(t, y)
    y, z = kernel(y, z)

After: from before the last kernel on, ``z`` is ``t.reshape(4096, 2, 8)``, as ``t`` is dead.

The operating system maps the pages of a large new array at their first access, which takes as long
as a kernel's own work; and arrays read last are still in the cache. A kernel's parameters are all
its memory, so none gets one array twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Kernel, Statement, Var
from calque.transpiler.ir.uses import reads
from calque.transpiler.ir.versions import Versions
from calque.transpiler.memory.bufferize import Memory
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.creation import empty, full, ones, zeros
from calque.transpiler.primitives.shapes import reused

NEW = (empty, full, zeros, ones)
_SMALL = 2**15  # bytes; the allocator reuses such blocks by itself


def donate_memory(program: PrintedProgram, memory: Memory) -> bool:
    """Let new arrays that kernels fill lie in memory of dead ones; return True if any does."""
    statements = list(program.body.statements)
    handed = {p for s in core.walk(program.body) if isinstance(s, Kernel) for p in s.params}
    made = [s for s in statements if isinstance(s, Apply) and s.primitive in NEW]
    made = [s for s in made if s.out in handed and s.out.type.ndim]
    if len(made) < 2:
        return False
    aliases = _aliases(program, memory)
    arrays = [_Array(s, aliases.family(s.out), s.out) for s in made]
    arrays = [a for a in arrays if _sources(program, memory, a.family) == 1]
    for k, touched in enumerate([*map(_touched, statements), {*program.body.results}]):
        for array in arrays:
            if statements[k : k + 1] != [array.made] and not touched.isdisjoint(array.family):
                array.first = k if array.first < 0 else array.first
                array.last = k
    free = sorted((a for a in arrays if a.first >= 0), key=lambda a: a.first)
    taking: list[tuple[_Array, _Array]] = []
    for array in [a for a in free if a.made.primitive is empty and not a.is_small()]:
        late = [a for a in free if a.last < array.first and a.size() == array.size()]
        if late:
            other = max(late, key=lambda a: a.last)
            free.remove(other)
            taking.append((array, other))
    _take_over(program, taking, statements)
    return bool(taking)


@dataclass(eq=False)
class _Array:
    """A new array, and the positions of the first and last statement that use its memory."""

    made: Apply
    family: frozenset[Var]  # all values that may lie in it
    now: Var  # the array when it has its memory
    first: int = -1
    last: int = -1

    def size(self) -> tuple[object, int, list[str]]:
        """The dtype, and the number of elements: the known factor, and the unknown dimensions."""
        t = self.made.out.type
        known = math.prod(d for d in t.dims if isinstance(d, int))
        return t.dtype, known, sorted(str(d) for d in t.dims if not isinstance(d, int))

    def is_small(self) -> bool:
        """True if the array is known to take little memory."""
        _, known, unknown = self.size()
        return not unknown and known * self.made.out.type.dtype.itemsize < _SMALL


def _touched(s: Statement) -> set[Var]:
    """The values that a statement reads or defines, at any depth."""
    return reads(s).keys() | core.defined_vars(Block([s]))


def _aliases(program: PrintedProgram, memory: Memory) -> Versions:
    """The values that may share memory with each other, through loops and branches, too."""

    def held(s: Apply) -> list[Var]:
        found = (program.members(memory.at(o) & ~memory.unwritable) for o in s.outs if o.type.ndim)
        return [v for several in found for v in several if v.type.ndim]

    return Versions.within(program.body, taken=held)


def _sources(program: PrintedProgram, memory: Memory, family: frozenset[Var]) -> int:
    """The number of arguments and statements that bring memory to an alias set."""
    brings = (v for v in family if memory.at(v) == program.bit(v))
    made = (isinstance(program.definition.get(v), Apply) for v in brings)
    return sum(v in family for v in program.function.params) + sum(made)


def _take_over(
    program: PrintedProgram, taking: Sequence[tuple[_Array, _Array]], before: Sequence[Statement]
) -> None:
    """Let arrays lie in the memory of others' last versions; ``before``: the statements so far."""
    for array, _ in taking:
        array.now = array.made.out.again()
    core.substitute(program.body, {array.made.out: array.now for array, _ in taking})
    versions, statements = Versions.within(program.body), program.body.statements
    flat = (t for s in before for t in (s.body.statements if isinstance(s, Kernel) else [s]))
    order: dict[Atom, int] = {o: k for k, o in enumerate(o for t in flat for o in t.outs)}
    for array, other in taking:
        held = [v for v in versions.later(other.now) if v in order]
        last = max(held, key=order.__getitem__, default=other.now)
        args = (array.made.out, last, *array.made.args)
        made = Apply((array.now,), reused, args, {}, array.made.origin)
        made.phase = array.made.phase
        statements.insert(statements.index(before[array.first]), made)
