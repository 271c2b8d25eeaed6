"""Tuple unpacking, ``a, b = array``, if all elements of an array get names one after the other.

t = random.split(key); key = t[0]; sub = t[1]    ->    key, sub = random.split(key)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calque.transpiler.codegen.text.folding import Folding
from calque.transpiler.ir.core import Apply, Block, Statement, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.indexing import getitem


@dataclass(frozen=True)
class Unpacking:
    """The reads of elements, and the array's statement if nothing else reads the array."""

    array: Var
    elements: tuple[Apply, ...]
    made: Apply | None

    def instead_of(self) -> Sequence[Apply]:
        """The statements that the unpacking replaces, except the first element's read."""
        return self.elements[1:] if self.made is None else (self.made, *self.elements[1:])


def unpackings(block: Block, program: PrintedProgram, folding: Folding) -> list[Unpacking]:
    """The unpackings of a block."""
    lines = [s for s in block.statements if not folding.skip(s)]
    found: list[Unpacking] = []
    for k, s in enumerate(lines):
        array, count = _first_of(s)
        if array is None or count < 2:
            continue
        parts = lines[k : k + count]
        reads = [t for t in parts if isinstance(t, Apply)]
        elements = [t for j, t in enumerate(reads) if _is_element(t, array, j)]
        if len(elements) == count:
            before = lines[k - 1] if k else None
            alone = array.name is None and program.uses()[array] == count
            made = before if isinstance(before, Apply) and before.outs == (array,) else None
            kept = made is not None and (not alone or is_store(made))
            found.append(Unpacking(array, tuple(elements), None if kept else made))
    return found


def _first_of(s: Statement) -> tuple[Var | None, int]:
    """The array whose first element a statement reads, and its length; else None and 0."""
    if not isinstance(s, Apply) or s.primitive is not getitem or not isinstance(s.args[0], Var):
        return None, 0
    array = s.args[0]
    size = array.type.dims[0] if array.type.ndim else 0
    return (array, size) if isinstance(size, int) and _is_element(s, array, 0) else (None, 0)


def _is_element(s: Apply, array: Var, place: int) -> bool:
    return (
        s.primitive is getitem
        and s.args == (array,)
        and s.params["index"] == (place,)
        and not s.out.type.weak
    )
