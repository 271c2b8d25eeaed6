"""Lists that the program changes: known ones by Python, others within their arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from calque.transpiler.builder import FUNCTIONS, Array, known_int, type_of
from calque.transpiler.core import map_tree
from calque.transpiler.dims import age
from calque.transpiler.errors import BranchMismatch, NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.growth import differing_elements, rows_sample
from calque.transpiler.frontend.heap import RecordedList, rows_of
from calque.transpiler.frontend.interpreter import Completion
from calque.transpiler.frontend.iteration import Generator, leaves
from calque.transpiler.frontend.loops import Loops
from calque.transpiler.frontend.merging import ChangingList, GrowingList, WideningList
from calque.transpiler.frontend.rows import GrowingRows, gathered, zip_trees
from calque.transpiler.types import DimLike, dim_symbols


class Lists(Loops):
    """What changes a list. ``values.rows`` is set where it grew, or shrank, in a run-time loop."""

    def each(self, values: Any, node: Any, action: Callable[[Any], None]) -> None:
        """Run ``action`` on every element (see comprehensions)."""
        raise NotImplementedError

    def subscript(self, value: Any, index: Any, node: Any) -> Any:
        """``value[index]``."""
        if isinstance(value, RecordedList):
            message = "list index out of range"
            self._check_index(value, index, message, node)
            if value.rows is not None:
                start = self._from_start(value.rows, index, message, node)
                if start is not index:
                    return value.rows.read(start, checked=True)
        return super().subscript(value, index, node)

    def _check_index(self, values: Any, index: Any, message: str, node: Any) -> None:
        """An element that is missing in the first round may be there in a later one."""
        if not isinstance(index, int) or not self._met_in_loop(values):
            return
        rows = values.rows
        length = len(values) if rows is None else self.builder.dim_of(rows.count)
        if isinstance(length, int) and not -length <= index < length:
            self.path_raises(IndexError(message), node)

    def append(self, values: Any, item: Any, node: Any) -> None:
        """``values.append(item)``; a list that grows in a run-time loop is an array by then."""
        self.check_not_walked(values, node, "`append`")
        rows = values.rows
        if rows is None:
            self.check_writable(values, node, "append")
            list.append(values, item)
            return
        self._let_hold(values, item, node)
        if rows.fixed and rows.filled is not None:  # full, and now it grows again
            if rows.filled != (self.rounds, len(self.tests)):
                if self.rounds:
                    raise GrowingList(values, item)
                self.fail(BranchMismatch, node, "A list has different lengths on two paths.")
            rows.fixed = False
        if not rows.fixed:
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
        place = index if isinstance(index, int) and index >= 0 else None
        self.check_not_walked(values, node, "This store", live=True, place=place)
        self._check_index(values, index, "list assignment index out of range", node)
        rows = rows_of(values)
        if rows is None:
            index = self._known_index(index, values, node)
            if isinstance(index, slice):
                self.check_not_walked(values, node, "This store")
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
        rows.replace(start, value, checked=start is not index)

    def _from_start(self, rows: GrowingRows, index: Any, message: str, node: Any) -> Any:
        """An index from the end as one from the start: a reverse sweep touches one element."""
        if not (isinstance(index, int) and index < 0 and self.reversing and self.rounds):
            return index
        if not isinstance(rows.count, Array) or rows.longer_than(-index - 1):
            return index

        def refuse() -> Completion:
            self.builder.effect(f"raise IndexError({message!r})", [])
            return Completion("raise")

        count: Any = rows.count
        self.fork(count < -index, refuse, lambda: None, node)
        return rows.count - (-index)

    def pop(self, values: Any, index: Any, node: Any) -> Any:
        """``values.pop(index)``."""
        self.check_not_walked(values, node, "`pop`")
        self._check_index(values, index, "pop from empty list", node)
        if values.rows is None:
            self.check_writable(values, node, "`pop`")
            return list.pop(values, known_int(index, "The index of what is popped"))
        self._let_change(values)
        if self.reversing and self.rounds and not (isinstance(index, int) and index == -1):
            raise NeedsKnownValue(
                "`pop` from elsewhere than the end of a list, in a run-time loop, moves elements "
                "that a reverse sweep would have to move back.",
                self.origin(node),
                "leave them where they are, and count: v = values[head]; head += 1",
            )
        start = self._from_start(values.rows, index, "pop from empty list", node)
        if start is not index:
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
        values.rows.arrange(order)

    def ordered(self, values: Any, options: dict[str, Any], node: Any) -> Any:
        """``sorted(values)`` of a list of run-time length."""
        order = self._order(values, options, node)
        rows = values.rows
        buffer = FUNCTIONS[np.copy](order(rows.stacked()))
        return self._list_of(GrowingRows(buffer, rows.count, False, rows.how))

    def reverse(self, values: Any, node: Any) -> None:
        """``values.reverse()``."""
        self.check_not_walked(values, node, "`reverse`", live=True)
        if any(b.ndim > 1 for b in leaves(values.rows.buffers)):
            self._let_change(values)
        values.rows.arrange(lambda array: FUNCTIONS[np.copy](array[::-1]))

    def list_copy(self, values: Any) -> Any:
        """``list(values)`` of a list of run-time length."""
        return self._list_of(values.rows.part(slice(None)))

    def list_method(self, name: str, values: Any, kwargs: dict[str, Any], node: Any) -> Any:
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
        hint = "make the list an array with np.array" if name in ("index", "count") else None
        return self.fail(
            UnsupportedSyntax,
            node,
            f"`{name}` of a list that grows in a loop.",
            hint or "append, pop, and store into its elements; or use an array and a counter",
        )

    def _list_of(self, rows: GrowingRows) -> Any:
        made = RecordedList()
        made.rows = self.own(rows)
        return self.own(made)

    def _order(self, values: Any, options: dict[str, Any], node: Any) -> Callable[[Any], Any]:
        buffers, reverse = values.rows.buffers, options.get("reverse", False)
        if options.get("key") is not None or isinstance(reverse, Array):
            raise NeedsKnownValue(
                "The order of a list that grew in a loop follows a key.",
                self.origin(node),
                "make arrays of the keys and the values, and use np.argsort",
            )
        if not isinstance(buffers, Array) or buffers.ndim != 1 or buffers.dtype.kind == "c":
            raise NeedsKnownValue(
                "The elements of a list that is sorted are no real numbers.",
                self.origin(node),
                "make an array of the keys, and use np.argsort",
            )
        if not reverse:
            return lambda array: np.sort(array)
        return lambda array: FUNCTIONS[np.copy](np.sort(array)[::-1])

    # what a list must be ready for

    def _met_in_loop(self, values: Any) -> bool:
        """Whether the list is older than the innermost run-time loop."""
        return bool(self.loop_bases) and id(values) in self.loop_bases[-1].contents

    def _let_change(self, values: Any) -> None:
        """Elements are taken out, or replaced: from the start of the loops that meet the list."""
        rows = values.rows
        if rows.may_change and not (rows.fixed and self._met_in_loop(values)):
            return
        if self._met_in_loop(values):
            raise ChangingList(values, map_tree(lambda b: b[0], rows.buffers))
        rows.let_change()

    def _let_hold(self, values: Any, item: Any, node: Any) -> None:
        """The list's arrays must be able to hold an element: its dtype, and its shape."""
        rows, wide, origin = values.rows, [], self.origin(node)

        def compare(buffer: Array, leaf: Any) -> None:
            t = type_of(leaf)
            shape = buffer.type.dims[1:]
            if t.ndim != len(shape) or any(map(self._differ, t.dims, shape, repeat(rows.since))):
                raise BranchMismatch(*differing_elements(origin))
            self.element_sizes.extend(zip(t.dims, shape, repeat(origin)))
            wide.append(np.promote_types(buffer.dtype, t.dtype) != buffer.dtype)

        zip_trees(compare, rows.buffers, gathered(item))
        if any(wide):
            if self._met_in_loop(values):
                raise WideningList(values, item)
            rows.cast(self._wider(rows_sample(rows), self._sample(item)))

    def _differ(self, own: DimLike, place: DimLike, since: int) -> bool:
        """Whether an element is longer or shorter than its place, or may be in some round."""
        own, place = self.builder.dims.resolve(own), self.builder.dims.resolve(place)
        if own == place or (own == 1) != (place == 1):
            return own != place
        return any(age(name) > since for name in dim_symbols(own))

    # lists that a for statement runs over

    def check_not_walked(
        self, values: Any, node: Any, what: str, live: bool = False, place: int | None = None
    ) -> None:
        """Refuse a change that a for statement around would see in Python.

        ``live``: only if it does not see it here; ``place``: of the one element that changes.
        """
        self.check_apart(values, node)
        if any(walk.misses(values, live, place) for walk in self.walked):
            self.fail(
                UnsupportedSyntax,
                node,
                f"{what} changes the list that a for statement runs over.",
                "run over a copy, `for v in list(values)`, or over positions with while",
            )
