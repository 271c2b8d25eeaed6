"""Lists that the program changes: known ones by Python, others within their arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, cast

import numpy as np

from calque.transpiler.errors import (
    BranchMismatch,
    NeedsKnownValue,
    SpecializationNeeded,
    UnsupportedSyntax,
)
from calque.transpiler.frontend.comparisons import always
from calque.transpiler.frontend.control.loop import Loops
from calque.transpiler.frontend.expressions import is_count
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.machine import Args, Completion, Kwargs
from calque.transpiler.frontend.values.containers.list_kinds import (
    ChangingList,
    GrowingList,
    IndexedList,
    RecordedList,
    WideningList,
    rows_of,
)
from calque.transpiler.frontend.values.growing_lists import differing_elements, rows_sample
from calque.transpiler.frontend.values.iterables import Generator, leaves
from calque.transpiler.frontend.values.list_arrays import GrowingRows, gathered, kept, zip_trees
from calque.transpiler.frontend.values.nested_lists import alike
from calque.transpiler.ir.builder import FUNCTIONS, Array, known_int, type_of
from calque.transpiler.ir.core import map_tree
from calque.transpiler.ir.types import DimLike, dim_symbols

_METHODS = {
    "insert": polyfills.inserted,
    "index": polyfills.place_of,
    "remove": polyfills.removed,
    "count": polyfills.counted,
}


class Lists(Loops):
    """Operations on lists. ``values.rows`` is set if one grew, or shrank, in a run-time loop."""

    def subscript(self, value: Any, index: Any, node: Any) -> Any:
        """``value[index]``."""
        if isinstance(value, RecordedList):
            message = "list index out of range"
            self._check_index(value, index, message, node)
            if value.rows is not None:
                start = self._from_start(value.rows, index, message, node)
                if start is not None:
                    return value.rows.read(start, checked=True)
        return super().subscript(value, index, node)

    def _known_index(self, index: Any, value: Any, node: Any) -> Any:
        """An index of a known list; one that turns out to grow in the loops around is an array."""
        try:
            return super()._known_index(index, value, node)
        except (NeedsKnownValue, SpecializationNeeded):
            if isinstance(value, RecordedList) and value and self._has_grown(value):
                raise GrowingList(value, value[len(value) - 1]) from None
            raise

    def _has_grown(self, values: Any) -> bool:
        lengths = {
            len(b.contents[id(values)][1][0]) for b in self.loop_bases if id(values) in b.contents
        }
        return bool(lengths - {len(values)})

    def _check_index(self, values: Any, index: Any, message: str, node: Any) -> None:
        """End the path with an error for a missing element, which a later iteration may have."""
        if not isinstance(index, int) or not self._met_in_loop(values):
            return
        rows = values.rows
        length = len(values) if rows is None else self.builder.dim_of(rows.count)
        if isinstance(length, int) and not -length <= index < length:
            self.path_raises(IndexError(message), node)

    def append(self, values: Any, item: Any, node: Any) -> None:
        """``values.append(item)``; a list that grows in a run-time loop is kept in arrays."""
        self.check_not_walked(values, node, "`append`")
        rows = values.rows
        if rows is None:
            self.check_writable(values, node, "append")
            list.append(values, item)
            return
        self._let_hold(values, item, node)
        if rows.full and rows.filled is None:
            raise GrowingList(values, item)
        if rows.fixed and rows.filled is not None:  # full, and now it grows again
            if rows.filled != (self.loop_depth, len(self.tests)):
                if self.loop_depth:
                    raise GrowingList(values, item)
                self.fail(BranchMismatch, node, "A list has different lengths on two paths.")
            rows.fixed = False
        if not rows.fixed:
            rows.begin_to_double()
            rows.make_room()
        rows.put(item)

    def extend(self, values: Any, items: Any, node: Any) -> None:
        """``values.extend(items)``."""
        rows = rows_of(items) is not None and items is not values
        if rows or isinstance(items, Generator):
            self.each(items, node, lambda item: self.append(values, item, node))
            return
        for item in self.known_items(items, node):
            self.append(values, item, node)

    def replace_element(self, values: Any, index: Any, value: Any, node: Any) -> None:
        """``values[index] = value``."""
        self.check_not_walked(values, node, "This store", live=True)
        self._check_index(values, index, "list assignment index out of range", node)
        rows = rows_of(values)
        if rows is None:
            index = self._known_index(index, values, node)
            if isinstance(index, slice):
                self.check_not_walked(values, node, "This store")
                value = self.known_items(value, node)
            if isinstance(index, Array):
                self._replace_somewhere(values, index, value, node)
            else:
                values[index] = value
            return
        if isinstance(index, slice):
            self.fail(
                UnsupportedSyntax,
                node,
                "A slice of a list that grows in a loop is replaced.",
                "store its elements one by one, or make the list an array with np.array",
            )
        self._let_hold(values, value, node)
        if isinstance(value, Array):
            self.check_apart(value, node)
        if any(b.ndim > 1 for b in leaves(rows.buffers)):
            self._let_change(values)
        start = self._from_start(rows, index, "list assignment index out of range", node)
        rows.replace(index if start is None else start, value, checked=start is not None)

    def _replace_somewhere(self, values: Any, index: Array, value: Any, node: Any) -> None:
        """``values[index] = value`` of a known list: an array in a loop, or each if it is meant."""
        if any(id(values) in base.contents for base in self.loop_bases):
            raise IndexedList(values, value)
        refuse = self._refusing("list assignment index out of range")
        count, place = len(values), cast(Any, index)
        outside = self.short_circuit(place < -count, lambda: place >= count, node, is_and=False)
        self.fork(outside, refuse, lambda: None, node)
        for k, old in enumerate(values):
            meant = (place == k) | (place == k - count)
            values[k] = self.choose(meant, always(value), always(old), node)

    def _refusing(self, message: str) -> Callable[[], Completion]:
        def refuse() -> Completion:
            self.builder.effect(f"raise IndexError({message!r})", [])
            return Completion("raise")

        return refuse

    def _from_start(self, rows: GrowingRows, index: Any, message: str, node: Any) -> Any:
        """A checked index from the start, for a reverse sweep to use; None: keep the index."""
        if not (self.reversing and self.loop_depth):
            return None
        place, count, refuse = cast(Any, index), cast(Any, rows.count), self._refusing(message)
        if isinstance(index, Array) and not index.ndim and not rows.holds(index):
            outside = self.short_circuit(place < -count, lambda: place >= count, node, is_and=False)
            self.fork(outside, refuse, lambda: None, node)
            return FUNCTIONS[np.where](place < 0, place + count, place)
        if isinstance(index, int) and not rows.longer_than(max(-index - 1, index)):
            shortest = max(-index, index + 1)
            self.fork(count < shortest, refuse, lambda: None, node)
            return count - (-index) if index < 0 else index
        return None

    def pop(self, values: Any, index: Any, node: Any) -> Any:
        """``values.pop(index)``."""
        self.check_not_walked(values, node, "`pop`")
        self._check_index(values, index, "pop from empty list", node)
        if values.rows is None:
            self.check_writable(values, node, "`pop`")
            return list.pop(values, known_int(index, "The index of what is popped"))
        self._let_change(values)
        if self.reversing and self.loop_depth and not (isinstance(index, int) and index == -1):
            raise NeedsKnownValue(
                "`pop` from elsewhere than the end of a list, in a run-time loop, moves elements "
                "that the reverse phase would have to move back.",
                self.origin(node),
                "leave them where they are, and count: v = values[head]; head += 1",
            )
        start = self._from_start(values.rows, index, "pop from empty list", node)
        if start is not None:
            return values.rows.take_last(values.rows.read(start, checked=True))
        return values.rows.take(index)

    def delete_elements(self, values: Any, index: Any, node: Any) -> None:
        """``del values[index]``."""
        if isinstance(index, slice):
            if (index.start, index.stop, index.step) != (None, None, None):
                self.fail(
                    UnsupportedSyntax, node, "A slice of a list that grows in a loop is deleted."
                )
            self.clear(values, node)
        else:
            self.pop(values, index, node)

    def clear(self, values: Any, node: Any) -> None:
        """``values.clear()``."""
        self.check_not_walked(values, node, "`clear`")
        self._let_change(values)
        values.rows.count = 0

    def sort(self, values: Any, options: dict[str, Any], node: Any) -> None:
        """``values.sort()`` of a list of run-time length."""
        self.check_not_walked(values, node, "`sort`", live=True)
        order = self._order(values, options, node)
        if any(b.ndim > 1 for b in leaves(values.rows.buffers)):
            self._let_change(values)
        values.rows.arrange(order)

    def ordered(self, values: Any, options: dict[str, Any], node: Any) -> Any:
        """``sorted(values)`` of a list of run-time length."""
        order = self._order(values, options, node)
        made = values.rows.part(slice(None))
        made.arrange(order)
        return self._list_of(made)

    def reverse(self, values: Any, node: Any) -> None:
        """``values.reverse()``."""
        self.check_not_walked(values, node, "`reverse`", live=True)
        if any(b.ndim > 1 for b in leaves(values.rows.buffers)):
            self._let_change(values)
        values.rows.arrange(lambda array: FUNCTIONS[np.copy](array[::-1]))

    def list_copy(self, values: Any) -> Any:
        """``list(values)`` of a list of run-time length."""
        return self._list_of(values.rows.part(slice(None)))

    def repeated(self, values: Any, count: Any) -> Any:
        """``[0.0] * n``: an array, if ``n`` is a run-time integer and the elements are numbers."""
        if type(values) not in (list, RecordedList) or rows_of(values) is not None:
            return None
        if not is_count(count) or not alike(values) or self.settings.lists_stay:
            return None
        dim = self.builder.dim_of(count)
        if isinstance(self.builder.dims.resolve(dim), int) or type_of(values[0]).ndim:
            return None
        if not self.builder.dims.assume_nonnegative(dim):
            count = FUNCTIONS[np.maximum](count, 0)
        self.arrays_for_lists = True
        if len(values) > 1:
            buffer = FUNCTIONS[np.tile](FUNCTIONS[np.array](list(values)), count)
        elif type(values[0]) is float and str(values[0]) == "0.0":
            buffer = FUNCTIONS[np.zeros](count)
        else:
            buffer = FUNCTIONS[np.full](count, values[0])
        return self._list_of(GrowingRows(buffer, buffer.shape[0], False))

    def list_method(self, name: str, values: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A method of a list of run-time length."""
        match name:
            case "clear":
                return self.clear(values, node)
            case "sort":
                return self.sort(values, kwargs, node)
            case "reverse":
                return self.reverse(values, node)
            case "copy":
                return self.list_copy(values)
        if name in _METHODS and not kwargs:
            return self.call_value(_METHODS[name], [values, *args], {}, node)
        return self.fail(
            UnsupportedSyntax,
            node,
            f"`{name}` of a list that grows in a loop.",
            "append, pop, and store into its elements; or use an array and a counter",
        )

    def _list_of(self, rows: GrowingRows) -> Any:
        made = RecordedList()
        made.rows = self.own(rows)
        return self.own(made)

    def _order(self, values: Any, options: dict[str, Any], node: Any) -> Callable[[Any], Any]:
        """A function that sorts an array of the elements, or of a part of each, like the list."""
        key, reverse = options.get("key"), options.get("reverse", False)
        if isinstance(reverse, Array):
            raise self.builder.needs_known(reverse, "Whether an order is reversed")
        buffers = values.rows.buffers
        if key is None and isinstance(buffers, Array) and buffers.ndim == 1:
            if not reverse:
                return lambda array: np.sort(array)
            return lambda array: FUNCTIONS[np.copy](np.sort(array)[::-1])
        keys = values
        if key is not None:
            keys = self.own(RecordedList())
            self.holding.append(keys)
            try:
                each = lambda item: self.append(keys, self.call_value(key, [item], {}, node), node)
                self.each(values, node, each)
            finally:
                self.holding.pop()
        stacked = keys.rows.stacked() if keys.rows is not None else gathered(list(keys))
        order = self.order_of(leaves(stacked), bool(reverse), node)
        return lambda array: FUNCTIONS[np.copy](array[order])

    def order_of(self, columns: list[Any], reverse: bool, node: Any) -> Any:
        """The stable order of tuples, given as columns: by the first, then by the second."""
        if not columns or any(c.ndim != 1 or c.dtype.kind == "c" for c in columns):
            raise NeedsKnownValue(
                "What a list is sorted by is neither a real number nor a tuple of them.",
                self.origin(node),
                "sort by a key that is one: key=lambda item: ...",
            )
        if not reverse:
            return FUNCTIONS[np.lexsort](columns[::-1])
        last = columns[0].shape[0] - 1
        return last - FUNCTIONS[np.lexsort]([c[::-1] for c in reversed(columns)])[::-1]

    # what a list must be ready for

    def _met_in_loop(self, values: Any) -> bool:
        """True if the list is older than the innermost run-time loop."""
        return bool(self.loop_bases) and id(values) in self.loop_bases[-1].contents

    def _let_change(self, values: Any) -> None:
        """Prepare a list for removing or replacing elements, from the start of loops that do so."""
        rows = values.rows
        if rows.may_change and not (rows.fixed and self._met_in_loop(values)):
            return
        if self._met_in_loop(values):
            raise ChangingList(values, map_tree(lambda b: b[0], rows.buffers))
        rows.let_change()

    def _let_hold(self, values: Any, item: Any, node: Any) -> None:
        """Make the list's arrays hold an element's dtype; refuse another shape."""
        rows, wide, origin = values.rows, [], self.origin(node)

        def compare(buffer: Array, leaf: Any) -> None:
            t = type_of(leaf)
            shape = buffer.type.dims[1:]
            if t.ndim != len(shape) or any(map(self._differ, t.dims, shape, repeat(rows.since))):
                raise BranchMismatch(*differing_elements(origin))
            self.element_sizes.extend(zip(t.dims, shape, repeat(origin)))
            wide.append(np.promote_types(buffer.dtype, t.dtype) != buffer.dtype)

        zip_trees(compare, rows.buffers, kept(item))
        if not rows.how.note_classes(leaves(kept(item))) and self._met_in_loop(values):
            raise WideningList(values, item)
        if any(wide):
            if self._met_in_loop(values):
                raise WideningList(values, item)
            rows.cast(self._wider(rows_sample(rows), self._sample(item)))

    def _differ(self, own: DimLike, place: DimLike, since: int) -> bool:
        """True if an element's size differs from its place's, or may do so in some iteration."""
        own, place = self.builder.dims.resolve(own), self.builder.dims.resolve(place)
        if own == place or (own == 1) != (place == 1):
            return own != place
        return any(_age(name) > since for name in dim_symbols(own))

    # lists that a for statement runs over

    def check_not_walked(self, values: Any, node: Any, what: str, live: bool = False) -> None:
        """Refuse a change that a for statement around would see in Python.

        ``live``: only if it does not see it here.
        """
        self.check_apart(values, node)
        if any(walk.misses(values, live) for walk in self.walked):
            self.fail(
                UnsupportedSyntax,
                node,
                f"{what} changes the list that a for statement runs over.",
                "run over a copy, `for v in list(values)`, or over positions with while",
            )


def _age(name: str) -> int:
    """The number of an internal symbol, and 0 of an argument's."""
    return int(name[1:]) if name[1:].isdecimal() and name[0] == "_" else 0
