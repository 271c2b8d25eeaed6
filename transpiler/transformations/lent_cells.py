"""The closure cells that hold the arguments of a transformed function while it is interpreted.

A store into one of them does not change the caller's array; plain Python would show it through
every other name of that memory, too. So a store is refused where one array is two of the arguments,
or is also captured. For the arguments of the whole program each call checks the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from calque.transpiler.errors import AliasUndecided
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.kinds import kinds_of
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.arrays import LentMemory
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import Block, Var
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.uses import uses_of


class LentCells:
    """The cells of one call, and what each of them stands for."""

    def __init__(self, given: Iterable[Any]):
        roots = (x.root() for x in given if isinstance(x, Array))
        self.beside = frozenset(k for root in roots for k in root.lent.leaves)
        self.cells: list[tuple[Array, Var, Array]] = []

    def cell(self, var: Var, given: Any) -> Array:
        """A cell with a version of its own, in the place of what is given."""
        made = Array(var)
        if isinstance(given, Array):
            root = given.root()
            made.lent = LentMemory(root.lent.leaves, self.beside)
            self.cells.append((made, var, root))
        return made

    def check(self, block: Block) -> None:
        """Refuse a store that the function would see through another name in plain Python."""
        for cell, var, root in self.cells:
            if cell._value is var:
                continue
            same = {id(root), *map(id, root.partners)}
            beside = [other for made, _, other in self.cells if made is not cell]
            if any(id(other) in same for other in beside):
                _refuse("another argument of this call")
            if root._value is not var and _reads(block, root._value):
                _refuse("what it captured")


def _reads(block: Block, var: Var) -> bool:
    """True if a block reads elements of an array from outside."""
    return any(isinstance(r, Block) or not is_size(r) for r in uses_of(block, var))


def _refuse(what: str) -> None:
    raise AliasUndecided(
        f"An array is stored into by a function that is transformed here, and is {what}.",
        current().origin,
        "pass a copy: x.copy()",
    )


def called_on_copies(
    machine: Machine, function: Any, primals: Sequence[Any], node: Any
) -> tuple[list[Any], Any]:
    """Copies of the primals, to be kept, and what the function gives for others."""
    given = pytrees.flatten(list(primals))[0]
    kept = [copies(p, LentCells(given)) for p in primals]
    cells = LentCells(given)
    result = machine.call_value(function, [copies(p, cells) for p in primals], {}, node)
    cells.check(Block())
    return kept, result


def copies(value: Any, cells: LentCells) -> Any:
    """The value with cells of its own: a store into one of the two leaves the other."""
    leaves, structure = pytrees.flatten(value)
    if not any(isinstance(leaf, Array) for leaf in leaves):
        return value
    made = [_copied(x, cells) if isinstance(x, Array) else x for x in leaves]
    return pytrees.unflatten(structure, made)


def _copied(cell: Array, cells: LentCells) -> Array:
    made = cells.cell(cell.atom, cell)
    made.kinds = kinds_of(cell)
    made.is_buffer, made.leaf = cell.is_buffer, cell.leaf
    return made
