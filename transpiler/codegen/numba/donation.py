"""Buffer donation: reuse the memory of dead arrays for arrays that later kernels fill.

Before::

    y = np.empty((8192, 2, 4))
    z = np.empty((4096, 2, 8))
    step_kernel(x, t)
    step_kernel_2(t, y)
    step_kernel_3(y, z)

After::

    y = np.empty((8192, 2, 4))
    step_kernel(x, t)
    step_kernel_2(t, y)
    z = t.reshape(4096, 2, 8)  # t is not read again
    step_kernel_3(y, z)

The operating system maps the pages of a large new array at their first access, which takes as long
as a kernel's own work; and arrays read last are still in the cache. The analysis is on the
launcher's syntax tree: a kernel's arguments are all its memory, so none gets one array twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gast

from calque.transpiler.codegen.text.expression_writer import ExpressionWriter
from calque.transpiler.codegen.text.layout import Notes
from calque.transpiler.codegen.text.spelling import call, name, target
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.types import ArrayType, DimLike
from calque.transpiler.ir.versions import Versions
from calque.transpiler.memory.bufferize import Memory
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.creation import empty, full, ones, zeros
from calque.transpiler.primitives.shapes import flat, reshape

Family = frozenset[Var]  # values that may share memory
NEW = (empty, full, zeros, ones)
_WHOLE = (*NEW, reshape, flat)
_SMALL = 2**15  # bytes; the allocator reuses such blocks by itself


def donate(
    body: list[Any],
    program: PrintedProgram,
    memory: Memory,
    expressions: ExpressionWriter,
    notes: Notes,
) -> None:
    """Let the launcher's lines reuse memory, in place; lines with new arrays have ``made``."""
    made = [line for line in body if hasattr(line, "made") and line.made.out.type.ndim]
    if len(made) < 2:
        return
    family = _aliases(program, memory).family
    named: dict[str, list[Var]] = {}
    unnamed = expressions.folding.folded | expressions.paths.keys()
    for var in program.vars:
        if var.type.ndim and var not in unnamed:
            named.setdefault(expressions.names(var), []).append(var)
    of = {text: {*map(family, found)} for text, found in named.items()}

    def touched(node: gast.Name) -> set[Family]:
        if node.id not in of or getattr(node, "shows", None) is None:
            return of.get(node.id, set())
        return {family(node.shows)}

    arrays = []
    for line in made:
        text = expressions.names(line.made.out)
        if len(of[text]) == 1 and _sources(program, memory, *of[text]) == 1:
            shown = {v.type.dims for v in named[text]}
            whole = all(_is_whole(program.definition.get(v)) for v in named[text])
            arrays.append(_Array(line, text, line.made.out.type, of[text], shown, whole))
    _note_uses(body, arrays, touched)
    _take_over(body, sorted(arrays, key=lambda a: a.first), notes)


def _is_whole(made: Any) -> bool:
    """True if the result of a statement is a whole array, in order."""
    return not isinstance(made, Apply) or made.primitive in _WHOLE or is_store(made)


@dataclass(eq=False)
class _Array:
    """An array that the launcher allocates; the first and last line that may access its memory."""

    line: Any
    name: str
    type: ArrayType
    families: set[Family]
    shown: set[tuple[DimLike, ...]]  # the dimensions of all values with its name
    whole: bool  # True if each of these is the whole array
    first: int = -1
    last: int = -1

    def fits(self, other: _Array) -> bool:
        """True if the other's memory is equally large, for all sizes of the arguments."""
        same = self.type.dtype == other.type.dtype and _size(self.type) == _size(other.type)
        return same and other.whole

    def spelled(self, other: _Array) -> Any:
        """The expression of the other's memory in the shape of this array."""
        if other.shown == {self.type.dims}:
            return name(other.name)
        shape = self.line.value.args[0]
        sizes = shape.elts if isinstance(shape, gast.Tuple) else [shape]
        return call(gast.Attribute(name(other.name), "reshape", gast.Load()), *sizes)


def _size(t: ArrayType) -> tuple[int, list[str]]:
    """The number of elements: the known factor, and the unknown dimensions."""
    known = math.prod(d for d in t.dims if isinstance(d, int))
    return known, sorted(str(d) for d in t.dims if not isinstance(d, int))


def _aliases(program: PrintedProgram, memory: Memory) -> Versions:
    """The values that may share memory with each other, through loops and branches, too."""

    def held(s: Apply) -> list[Var]:
        found = (program.members(memory.at(o) & ~memory.unwritable) for o in s.outs if o.type.ndim)
        return [v for several in found for v in several if v.type.ndim]

    return Versions.within(program.body, taken=held)


def _sources(program: PrintedProgram, memory: Memory, family: Family) -> int:
    """The number of arguments and statements that bring memory to an alias set."""
    brings = (v for v in family if memory.at(v) == program.bit(v))
    made = (isinstance(program.definition.get(v), Apply) for v in brings)
    return sum(v in family for v in program.function.params) + sum(made)


def _note_uses(
    body: Sequence[Any], arrays: Sequence[_Array], families: Callable[[gast.Name], set[Family]]
) -> None:
    """Note the lines that access each array's memory, under any name."""
    for k, line in enumerate(body):
        nodes = (n for n in gast.walk(line) if isinstance(n, gast.Name))
        touched = set().union(*map(families, nodes))
        for array in arrays:
            if line is not array.line and not touched.isdisjoint(array.families):
                array.first = k if array.first < 0 else array.first
                array.last = k


def _take_over(body: list[Any], arrays: Sequence[_Array], notes: Notes) -> None:
    """Give arrays the memory of fitting ones whose last access is before their first."""
    lines = list(body)
    free = [a for a in arrays if a.first >= 0]
    for array in [a for a in free if a.line.made.primitive is empty]:
        known, unknown = _size(array.type)
        if not unknown and known * array.type.dtype.itemsize < _SMALL:
            continue
        late = [a for a in free if a.last < array.first and array.fits(a)]
        if not late or not _same_sizes(array, lines[lines.index(array.line) : array.first]):
            continue
        other = max(late, key=lambda a: a.last)
        free.remove(other)
        taken = gast.Assign([target(name(array.name))], array.spelled(other), None)
        body.remove(array.line)
        at = body.index(lines[array.first])
        body[at:at] = [taken, notes.trailing(f"{other.name} is not read again")]


def _same_sizes(array: _Array, between: Sequence[Any]) -> bool:
    """True if no line in ``between`` assigns a name that the array's shape reads."""
    read = {n.id for n in gast.walk(array.line.value) if isinstance(n, gast.Name)}
    stored = (n for line in between for n in gast.walk(line) if isinstance(n, gast.Name))
    return read.isdisjoint(n.id for n in stored if isinstance(n.ctx, gast.Store))
