"""A list of run-time length: arrays of its elements, one for each leaf, and a count."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from calque.transpiler.errors import NeedsKnownValue, UnrollingNeeded
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.heap import Snapshot, partners_of
from calque.transpiler.frontend.values.iterables import (
    FlatElements,
    Iterable,
    Range,
    first_leaf,
    leaves,
    refuse_endless,
)
from calque.transpiler.frontend.values.mixed_numbers import of_classes
from calque.transpiler.frontend.values.nested_lists import (
    Filled,
    alike,
    containers,
    hold,
    hold_again,
)
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int, link, note_twice
from calque.transpiler.ir.core import Var, map_tree
from calque.transpiler.primitives.base import apply, operand
from calque.transpiler.primitives.growing import room


class Facts:
    """Facts about a list that hold on every path."""

    def __init__(self) -> None:
        self.changing = False  # elements are replaced or taken out
        self.own: list[Array] = []  # arrays of elements to which no name has a view


class GrowingRows(Iterable):
    """A list that grows in a run-time loop: arrays of elements, one for each leaf, and a count.

    ``capacity`` is fixed when the number of appends is known before the loop; else arrays double:
    ``roomy`` says that they have a place to begin with, for twice nothing is nothing.
    """

    def __init__(
        self,
        buffers: Any,
        count: Any,
        fixed: bool,
        filled: Filled | None = None,
        roomy: bool = False,
    ):
        self.buffers = buffers  # a tree of Arrays
        self.count = count
        self.fixed = fixed
        self.roomy = roomy
        self.how = filled or Filled()
        self.first: Any = 0  # the length before the loop
        self.before: Any = 0  # the count before an iteration
        self.full = False  # there is no place for another
        self.filled: Any = None  # where the loop ended that the fixed capacity was for
        self.facts = Facts()
        self.since = current().dims.count  # the last symbol from before the arrays

    @property
    def may_change(self) -> bool:
        """True if elements may be replaced or taken out: no name has a view of one."""
        arrays = [b for b in leaves(self.buffers) if b.ndim > 1]
        apart = all(any(b is own for own in self.facts.own) for b in arrays)
        return self.facts.changing and apart

    def let_change(self) -> None:
        """Make reads return copies from now on; arrays that were read before keep their memory."""

        def apart(buffer: Array) -> Array:
            if buffer.ndim == 1 or any(buffer is own for own in self.facts.own):
                return buffer
            new = FUNCTIONS[np.copy](buffer)
            _hold_alike(new, buffer)
            self.facts.own.append(new)
            return new

        self.facts.changing = True
        self.buffers = map_tree(apart, self.buffers)

    def cast(self, types: Any) -> None:
        """Let the arrays hold elements of wider dtypes."""

        def wider(buffer: Array, t: Any) -> Array:
            dtype = np.promote_types(buffer.dtype, t.dtype)
            if dtype == buffer.dtype:
                return buffer
            new = FUNCTIONS["cast"](buffer, dtype)
            if new.ndim > 1:
                _hold_alike(new, buffer)
            self.facts.own.append(new)
            return new

        wide: list[Array] = []
        zip_trees(lambda buffer, t: wide.append(wider(buffer, t)), self.buffers, types)
        made = iter(wide)
        self.buffers = map_tree(lambda _: next(made), self.buffers)

    def begin_to_double(self) -> None:
        """Give arrays that may have no place at all one, before they grow."""
        dims = current().dims
        if self.roomy is True or dims.nonnegative(first_leaf(self.buffers).dims[0] - 1):
            return

        def widen(buffer: Array) -> None:
            place = FUNCTIONS[np.empty]((1, *buffer.shape[1:]), buffer.dtype)
            with _alone(buffer):
                buffer.replace(FUNCTIONS[np.concatenate]((buffer, place)))

        map_tree(widen, self.buffers)
        self.roomy = True

    def make_room(self) -> None:
        """Give the arrays a place for one more element."""

        def widen(buffer: Array) -> None:
            with _alone(buffer):
                buffer.replace(apply(room, buffer, self.count))

        map_tree(widen, self.buffers)

    def calque_children(self) -> list[Any]:
        """The arrays; the count is a location of its own."""
        found: list[Any] = []
        map_tree(found.append, self.buffers)
        return found

    def length(self) -> Any:
        """The number of elements."""
        return self.count

    def put(self, value: Any) -> None:
        """Store one element at the end."""

        def store(buffer: Array, leaf: Any) -> None:
            with _alone(buffer):
                buffer[self.count] = operand(leaf)
            _hold(buffer, leaf)

        self._note_lists(value)
        self.how.note_classes(leaves(kept(value)))
        zip_trees(store, self.buffers, kept(hold(value, self)))
        self.count = self.count + 1

    def replace(self, index: Any, value: Any, checked: bool = False) -> None:
        """Replace an element; ``checked``: the index is valid and counts from the start."""
        index, inside = (index, True) if checked else self._place(index)

        def store(buffer: Array, leaf: Any) -> None:
            with _alone(buffer):
                (buffer if inside else self._counted(buffer))[index] = operand(leaf)
            _hold(buffer, leaf)

        self._note_lists(value)
        zip_trees(store, self.buffers, kept(hold(value, self)))

    def _note_lists(self, value: Any) -> None:
        """Note which arrays of the elements hold lists: their elements stand for lists."""
        self._refuse_named(value)
        numbers = itertools.count()

        def note(_: Array, leaf: Any) -> None:
            number, rows = next(numbers), rows_of(leaf)
            if isinstance(leaf, list):
                self.how.lists.add(number)
            if rows is not None:
                self.how.loops |= rows.how.loops

        zip_trees(note, self.buffers, value)

    def _refuse_named(self, value: Any) -> None:
        """Ask for unrolling if a list with a name becomes an element: it would not see stores."""
        machine: Machine = current().machine
        lists = [c for c in containers(value) if isinstance(c, list) and rows_of(c) is None]
        if not machine.settings.stacking or not lists:
            return
        named = Snapshot(machine.roots(), machine.owned).contents
        if any(id(c) in named for c in lists):
            raise UnrollingNeeded(frozenset(self.how.loops), current().origin)

    def take_last(self, item: Any) -> Any:
        """Remove the last element, which has been read as ``item``, and return it."""
        self.count = self.count - 1
        return item

    def take(self, index: Any) -> Any:
        """Remove the element at an index, and return it."""
        last = isinstance(index, int) and index == -1
        item = self[index]
        if not last:
            start = self._place(index)[0]
            if isinstance(start, int):
                start = self.count + start if start < 0 else start
            else:
                start = FUNCTIONS[np.where](start < 0, start + self.count, start)

            def close(buffer: Array) -> None:
                with _alone(buffer):
                    buffer[start : self.count - 1] = buffer[start + 1 : self.count].copy()

            map_tree(close, self.buffers)
        self.count = self.count - 1
        return item

    def arrange(self, order: Any) -> None:
        """Put the elements into another order."""

        def put(buffer: Array) -> None:
            with _alone(buffer):
                buffer[: self.count] = order(buffer[: self.count])

        map_tree(put, self.buffers)

    def stacked(self) -> Any:
        """The elements as arrays with one more axis in front (a tree of them)."""
        return map_tree(self._used, self.buffers)

    def _counted(self, buffer: Array) -> Any:
        """The used part of a buffer, in which a negative index counts from the end of the list."""
        return buffer[: self.count] if current().machine.reversing else self._used(buffer)

    def _used(self, buffer: Array) -> Any:
        if current().dim_of(self.count) == buffer.dims[0]:
            return buffer
        return buffer[: self.count]

    def __getitem__(self, index: Any) -> Any:
        return self.read(index)

    def read(self, index: Any, checked: bool = False) -> Any:
        """The element at an index; ``checked``: the index is valid and counts from the start."""
        index, inside = (index, True) if checked else self._place(index)
        numbers = itertools.count()

        def read(buffer: Array) -> Array:
            item = (buffer if inside else self._counted(buffer))[index]
            number = next(numbers)
            if number in self.how.lists:
                hold_again(item, self)
            if not item.ndim:
                return of_classes(item, self.how.classes.get(number, ()))
            if not self.facts.changing:
                return item
            copy = FUNCTIONS[np.copy](item)  # its place may be given to another element
            copy.listed = item.listed
            link(copy, buffer.root())
            return copy

        return hold(map_tree(read, self.buffers), self)

    def _place(self, index: Any) -> tuple[Any, bool]:
        """An index, and True if it is known to be valid and to count from the start."""
        if isinstance(index, int) and index < 0 and self.longer_than(-index - 1):
            return self.count + index, True
        return index, self.holds(index)  # if not, NumPy counts, or refuses, as the list does

    def longer_than(self, length: int) -> bool:
        """True if the list is known to be longer, now or before a loop that only appends."""
        if isinstance(self.first, int) and self.first > length and not self.facts.changing:
            return True
        dims = current().dims
        return dims.nonnegative(current().dim_of(self.count) - (length + 1))

    def holds(self, index: Any) -> bool:
        """True if an index is known to be that of an element, counted from the start."""
        if isinstance(index, int):
            return index >= 0 and self.longer_than(index)
        if not isinstance(index, Array) or index.ndim:
            return False
        dims, position = current().dims, current().dim_of(index)
        last = current().dim_of(self.count) - position - 1
        inside = dims.nonnegative(position) and dims.nonnegative(last)
        return inside and dims.is_exact(position)

    def part(self, piece: slice) -> GrowingRows:
        """A slice as a new list: appends to either list do not show in the other."""

        def copied(buffer: Array) -> Array:
            new = FUNCTIONS[np.copy](buffer[: self.count][piece])
            if new.ndim > 1:  # the elements are arrays, which both lists hold
                _hold_alike(new, buffer)
            return new

        buffers = map_tree(copied, self.buffers)
        return GrowingRows(buffers, first_leaf(buffers).shape[0], False, self.how)

    def element(self, position: Any) -> Any:
        """One element."""
        return self[position]

    def __iter__(self) -> Iterator[Any]:
        count = known_int(self.count, "The length of a list that grew in a loop")
        return iter([self[i] for i in range(count)])


def gathered(value: Any) -> Any:
    """A list that grew in a loop, or a range, as the array that NumPy makes; so in containers."""
    rows = rows_of(value)
    if rows is not None:
        return _joined(rows.stacked())
    if isinstance(value, Range):
        return FUNCTIONS[np.arange](value.start, value.stop, value.step)
    if isinstance(value, FlatElements):
        return value.array
    refuse_endless(value)
    if type(value) in (tuple, list) or isinstance(value, list):
        items = [gathered(v) for v in value]
        return (
            value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
        )
    return value


def kept(value: Any) -> Any:
    """An element in the form in which a growing list keeps it: a tree of its leaves.

    A list within the element is an array if the program is found to store into such lists.
    """
    value = gathered(value)
    return _stacked_lists(value) if current().machine.settings.stacking else value


def _stacked_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _stacked_lists(v) for k, v in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    items = [_stacked_lists(v) for v in value]
    if isinstance(value, list):
        if not alike(items):
            return items
        return FUNCTIONS[np.stack if np.ndim(items[0]) else np.array](items)
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _joined(arrays: Any) -> Any:
    """The array of elements that are tuples or lists: their parts lie along axis 1."""
    if isinstance(arrays, (tuple, list)):
        return FUNCTIONS[np.stack]([_joined(part) for part in arrays], axis=1)
    if isinstance(arrays, Array):
        return arrays
    raise NeedsKnownValue(
        "The elements of a list that grew in a loop are no numbers, arrays or sequences of them.",
        current().origin,
    )


def _hold(buffer: Array, leaf: Any) -> None:
    """Link a list's array with an array that is appended: Python's list holds the array itself."""
    if not isinstance(leaf, Array) or not (leaf.ndim or leaf.is_buffer):
        return
    if _may_have(buffer, leaf):
        note_twice(buffer)
    link(buffer, leaf.root())


def _hold_alike(new: Array, buffer: Array) -> None:
    """Link two arrays that hold the same elements."""
    link(new, buffer.root())
    if any(p is buffer for p in buffer.partners):
        note_twice(new)


def _may_have(buffer: Array, leaf: Array) -> bool:
    """True if a list may already hold an element with the same memory."""
    root, bases = leaf.root(), current().machine.loop_bases
    known = any(p is buffer for p in root.partners)
    if not bases or id(buffer) not in bases[-1].contents or id(root) not in bases[-1].contents:
        return root is buffer or known
    older, cell = bases[-1].contents, leaf
    while id(cell) not in older and cell.how is not None:
        cell, _, rest, params = cell.how
        if any(isinstance(a, Var) for a in (*rest, *params.values())):  # mostly, each iteration's
            return root is buffer or any(p is buffer for p in partners_of(root, bases[-1]))
    return True  # each iteration puts the same into it


@contextlib.contextmanager
def _alone(buffer: Array) -> Iterator[None]:
    """Inside, a buffer has no partners: an append changes no array that the list holds."""
    others, buffer.partners = buffer.partners, []
    try:
        yield
    finally:
        buffer.partners = others


def zip_trees(function: Any, left: Any, right: Any) -> None:
    """Call ``function`` on corresponding leaves of two trees of one structure."""
    if isinstance(left, (tuple, list)):
        if not isinstance(right, (tuple, list)) or len(left) != len(right):
            raise NeedsKnownValue(
                "The elements of a growing list differ in structure.", current().origin
            )
        for a, b in zip(left, right, strict=True):
            zip_trees(function, a, b)
    elif isinstance(left, dict):
        for key in left:
            zip_trees(function, left[key], right[key])
    else:
        function(left, right)
