"""Lists: known ones, and those that a run-time loop makes grow, which are kept in arrays."""

from __future__ import annotations

from operator import is_
from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.values.containers.container_kinds import (
    MISSING,
    Container,
    Opened,
    Owned,
    kind,
    own,
)
from calque.transpiler.frontend.values.descriptions import Constant, Leaf, Structure
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.arrays import known
from calque.transpiler.ir.builder import current
from calque.transpiler.ir.types import ArrayType


class RecordedList(list):
    """A list made by the program. ``rows`` is set while it grows in a run-time loop."""

    rows: Any = None


def rows_of(value: Any) -> Any:
    """The arrays in which a list of the program is kept; None for every other value.

    The type is tested: a user's class may have an attribute ``rows``.
    """
    return value.rows if isinstance(value, RecordedList) else None


def readable(value: Any) -> bool:
    """True if Python itself can read a value: it contains no Array and no list kept in arrays."""
    if isinstance(value, (tuple, list)):
        return rows_of(value) is None and all(map(readable, value))
    return known(value)


def _elements(value: RecordedList) -> tuple[tuple[Any, ...], None]:
    """The nodes of a list in a tree: of one that grew in a loop, its length must be known."""
    return tuple(value if value.rows is None else value.rows), None


pytrees.register(RecordedList, pytrees.Registration(_elements, lambda aux, c: list(c)))


class GrowingList(Exception):
    """A list was appended to in one arm of a branch only: the loop around must record it."""

    def __init__(self, values: RecordedList, element: Any):
        super().__init__("a list grows under a condition")
        self.values = values
        self.element = element


class ChangingList(GrowingList):
    """Elements of a list are removed or replaced: the loop must prepare the list at its start."""


class IndexedList(GrowingList):
    """An element at a run-time index is replaced: the list is an array of fixed length."""


class ExchangedList(GrowingList):
    """Two lists change places: each must have room for as many elements as the other one."""


class WideningList(GrowingList):
    """An element has a wider dtype than those before it."""


class ListStructure(Structure):
    """The description of a list: known elements, or the arrays and the length of one that grew."""

    def parts_of(self, value: Any) -> list[Any]:
        grown = rows_of(value) is not None and self.kind[0] == "list"
        return list(value.rows) if grown else super().parts_of(value)

    def matched(self, other: Structure) -> tuple[Structure, Structure]:
        """Both descriptions, element by element if one list grew to a known length."""
        if {self.kind[0], other.kind[0]} != {"rows", "list"}:
            return self, other
        return self._spread(), other._spread() if isinstance(other, ListStructure) else other

    def _spread(self) -> ListStructure:
        match self.parts:
            case (Constant(value=int() as count), Leaf(type=t)) if self.kind == ("rows", "0"):
                element = Leaf(ArrayType(t.dtype, t.dims[1:]))
                rebuild = lambda parts: own(RecordedList(parts))
                return ListStructure(("list", count), rebuild, (element,) * count)
        return self


@kind(list)
class ListKind(Container):
    """The kind of lists: an element each is joined; a list that grows needs a loop's arrays."""

    keyed = False
    structure = ListStructure

    def now(self, value: list[Any]) -> dict[int, Any]:
        return dict(enumerate(value))

    def content(self, value: list[Any], owned: Owned) -> Any:
        return list(value), rows_of(value)

    def within(self, value: list[Any], content: Any) -> list[Any]:
        items, rows = content
        return items if rows is None else [*items, rows]

    def locations(self, content: Any) -> dict[int, Any]:
        return dict(enumerate(content[0]))

    def same(self, content: Any, other: Any) -> bool:
        (one, rows), (two, others) = content, other
        return rows is others and len(one) == len(two) and all(map(is_, one, two))

    def restore(self, value: list[Any], content: Any) -> None:
        value[:] = content[0]
        if isinstance(value, RecordedList):
            value.rows = content[1]

    def read(self, value: list[Any], place: Any) -> Any:
        return value[place]

    def store(self, value: list[Any], place: Any, new: Any) -> None:
        if new is not MISSING:
            value[place : place + 1] = [new]

    def copy(self, value: list[Any], parts: dict[int, Any]) -> Any:
        return RecordedList(parts.values())

    def opened(self, value: list[Any]) -> Opened:
        rows = rows_of(value)
        if rows is None:
            return ("list", len(value)), lambda parts: own(RecordedList(parts)), list(value)
        leaves: list[Any] = []
        core.map_tree(leaves.append, rows.buffers)

        def rebuild(parts: list[Any]) -> Any:
            rest, new = iter(parts[1:]), RecordedList()
            buffers = core.map_tree(lambda _: next(rest), rows.buffers)
            new.rows = own(type(rows)(buffers, parts[0], False, rows.how, rows.roomy))
            return own(new)

        shape = str(core.map_tree(lambda _: 0, rows.buffers))
        return ("rows", shape), rebuild, [rows.count, *leaves]

    def join(self, value: Any, before: Any, states: list[Any], origin: Any) -> None:
        (first, _), (second, _) = states[0], states[-1]
        if len(first) != len(second):
            if not isinstance(value, RecordedList):  # of a class of a library: a UserList's
                raise BranchMismatch("A list has different lengths on two paths.", origin)
            raise GrowingList(value, max(first, second, key=len)[-1])
        if before[1] is None and any(rows is not None for _, rows in states):
            raise BranchMismatch(
                "A list grows in a loop on one path only.",
                origin,
                "start with the loop, or with an array, before the branch",
            )

    def widen(self, plan: Any, value: Any, before: Any, after: Any) -> bool:
        if before[1] is not after[1]:
            current().machine.grew_within(plan, value)
        elif len(before[0]) != len(after[0]):
            current().machine.list_changed(plan, value, before[0], after[0])
        else:
            return True
        return False
