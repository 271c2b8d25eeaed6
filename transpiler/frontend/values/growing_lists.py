"""Lists that change their length in a run-time loop: arrays of their elements, and a count.

``out.append(x[i] * t)`` in ``for i in range(n)`` becomes ``out[i] = x[i] * t``, in an array made
before the loop; where the number of elements depends on values, the array doubles when it is full.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calque.transpiler.errors import BranchMismatch, NeedsKnownValue
from calque.transpiler.frontend.control.loop_memory import (
    CarriedSlot,
    CarryPlan,
    Growth,
    LoopMemory,
)
from calque.transpiler.frontend.control.value_join import shape_of, size_at_hand
from calque.transpiler.frontend.values.containers.list_kinds import (
    ChangingList,
    ExchangedList,
    GrowingList,
    IndexedList,
    RecordedList,
    WideningList,
)
from calque.transpiler.frontend.values.descriptions import Leaf
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import Range, leaves
from calque.transpiler.frontend.values.list_arrays import GrowingRows, kept, zip_trees
from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of
from calque.transpiler.ir.core import Var, map_tree
from calque.transpiler.ir.types import INT, ArrayType, dim_symbols

FIRST_CAPACITY = 16


class Growing(LoopMemory):
    """Loops that change lists: the arrays and counts that must exist from a loop's start."""

    def _check_elements(self, changing: set[str]) -> None:
        """Refuse elements whose size a loop changes, unless its body requires the place's size."""
        resolve = self.builder.dims.resolve
        for own, place, origin in self.element_sizes:
            own = resolve(own)
            if not changing.isdisjoint(dim_symbols(own)) and own != resolve(place):
                raise BranchMismatch(*differing_elements(origin))

    @contextmanager
    def _indexing(self, error: Exception) -> Iterator[None]:
        """Inside, lists may be read at run-time indices, from arrays; raise unrelated errors."""
        if self.indexing or not (isinstance(error, NeedsKnownValue) and error.of_list):
            raise error
        self.indexing = True
        try:
            yield
        finally:
            self.indexing = False

    def list_changed(
        self, plan: CarryPlan, values: Any, before: list[Any], now: list[Any]
    ) -> None:
        """Extend the plan by a list that an iteration left longer or shorter than it was."""
        if not isinstance(values, RecordedList) or id(values) in self.foreign:
            raise BranchMismatch(
                "A list changes its length in a run-time loop.",
                self.builder.origin,
                "use an array and a counter",
            )
        grown = len(now) - len(before)
        samples = [self._sample(v) for v in (*before, *now)]
        sample = functools.reduce(self._wider, samples)
        plan.growing[id(values)] = Growth(values, grown if grown > 0 else None, sample)

    def grew_within(self, plan: CarryPlan, values: Any) -> None:
        """Extend the plan by a list to which a loop within this one appended."""
        rows = values.rows
        if rows is None or not isinstance(values, RecordedList):
            raise BranchMismatch(
                "A list changes its length in a run-time loop.",
                self.builder.origin,
                "use an array and a counter",
            )
        sample = rows_sample(rows)
        dim = self.builder.dims.resolve(self.builder.dim_of(rows.count))
        arguments = isinstance(dim, int) or dim.symbols() <= self.builder.dims.arguments
        per_iteration = dim if rows.fixed and arguments and not rows.first else None
        changing = rows.facts.changing
        plan.growing[id(values)] = Growth(values, per_iteration, sample, changing=changing)

    def _note_growth(self, plan: CarryPlan, growth: GrowingList, base: Snapshot) -> None:
        if id(growth.values) not in base.contents:
            raise BranchMismatch(
                "A list has different lengths on two paths.",
                self.builder.origin,
                "append on every path, or use an array and a mask",
            )
        if any(id(growth.values) in outer.contents for outer in self.loop_bases[:-1]):
            raise growth  # the outermost loop that meets the list must know
        key, rows = id(growth.values), growth.values.rows
        old, sample = plan.growing.get(key), self._sample(growth.element)
        if old is not None or rows is not None:
            held = old.sample if rows is None and old is not None else rows_sample(rows)
            sample = self._wider(held, sample)
        indexed, widening = isinstance(growth, IndexedList), isinstance(growth, WideningList)
        appends = not isinstance(growth, (IndexedList, WideningList, ExchangedList))
        changing = indexed or isinstance(growth, ChangingList)
        if old is None:
            per_iteration = 0 if indexed else None
            plan.growing[key] = Growth(
                growth.values, per_iteration, sample, changing=changing, appends=appends
            )
            for places in (plan.locations, plan.constants):  # its elements are no names now
                for place in [p for p in places if p[0] == key]:
                    del places[place]
            return
        new = replace(
            old,
            per_iteration=old.per_iteration if widening else None,
            sample=sample,
            changing=old.changing or changing,
            appends=old.appends or appends,
        )
        if not widening and old.per_iteration is None and old.changing == new.changing:
            raise growth
        plan.growing[key] = new

    def _wider(self, left: Any, right: Any) -> Any:
        """The type that holds elements of two types: the later one's shape, and the wider dtype."""
        found: list[Any] = []

        def join(one: ArrayType, other: ArrayType) -> None:
            if one.ndim != other.ndim:
                raise BranchMismatch(
                    "The elements of a list that grows in a run-time loop differ in rank.",
                    self.builder.origin,
                    "use one list for each kind of element",
                )
            dtype = np.promote_types(one.dtype, other.dtype)
            found.append(ArrayType(dtype, other.dims, one.weak and other.weak))

        zip_trees(join, left, right)
        made = iter(found)
        return map_tree(lambda _: next(made), right)

    def _sample(self, element: Any) -> Any:
        try:
            return map_tree(type_of, kept(element))
        except TypeError:
            raise BranchMismatch(
                "A list that grows in a run-time loop must hold numbers or arrays.",
                self.builder.origin,
                "loop over something of known length",
            ) from None

    def _prepare_growth(self, plan: CarryPlan, trip: Range | None, place: Any) -> None:
        """Turn the lists that the loop appends to into arrays, allocated before it."""
        for growth in plan.growing.values():
            values = growth.values
            if values.rows is not None:
                values.rows.fixed &= growth.per_iteration is not None
                values.rows.cast(growth.sample)
                if not values.rows.fixed and growth.appends:
                    values.rows.begin_to_double()
                if growth.widened is None:
                    growth.widened = values.rows.buffers
                zip_trees(_take_version, growth.widened, values.rows.buffers)
                values.rows.buffers = growth.widened
                if growth.changing:
                    values.rows.let_change()
                self._carry_count(plan, growth)
                continue
            per_iteration = growth.per_iteration
            fixed = per_iteration is not None and (trip is not None or per_iteration == 0)
            head: Any = len(values)
            if fixed:
                capacity = appended(trip, growth, head)
            else:
                capacity = max(FIRST_CAPACITY, 2 * head)
            buffers = map_tree(partial(self._buffer, capacity=capacity), growth.sample)
            rows = self._rows_of(growth, buffers, fixed)
            rows.how.loops.add(place)
            self._name_buffers(values, buffers)
            items, values[:] = list(values), []
            values.rows = rows
            for item in items:
                rows.put(item)
            rows.first = head
            self.owned[id(rows)] = rows
            self._carry_count(plan, growth)

    def _carry_count(self, plan: CarryPlan, growth: Growth) -> None:
        """Carry the count where it varies between iterations, also if the first one pops."""
        rows = growth.values.rows
        if growth.changing and not rows.fixed:
            plan.locations.setdefault((id(rows), "count"), Leaf(INT))

    def _name_buffers(self, values: RecordedList, buffers: Any) -> None:
        """Give the arrays the name of the list, if it has one."""
        for call in reversed(self.calls):
            for name, value in call.frame.locals.items():
                if value is values and not name.startswith("%"):
                    for buffer in leaves(buffers):
                        self.name_value(buffer, name)
                    return

    def _rows_of(self, growth: Growth, buffers: Any, fixed: bool) -> GrowingRows:
        """The arrays of a list: the same cells in every attempt, to which the plan refers."""
        if growth.rows is None:
            growth.rows = GrowingRows(buffers, 0, fixed, roomy=not fixed)
        else:
            zip_trees(_take_version, growth.rows.buffers, buffers)
            growth.rows.count, growth.rows.fixed, growth.rows.filled = 0, fixed, None
            growth.rows.roomy = not fixed
            growth.rows.since = self.builder.dims.count
        growth.rows.full = growth.per_iteration == 0
        if growth.changing:
            growth.rows.facts.changing = True
            growth.rows.facts.own += leaves(growth.rows.buffers)
        return growth.rows

    def _buffer(self, t: ArrayType, capacity: Any) -> Array:
        shape = (capacity, *shape_of(t))
        return FUNCTIONS[np.empty](shape, t.dtype)

    def _set_counts(self, plan: CarryPlan, iteration: Any) -> None:
        """Set the length that each list has at the start of an iteration."""
        for growth in plan.growing.values():
            rows = growth.values.rows
            if growth.per_iteration is not None and rows.fixed and not rows.full:
                rows.before = rows.count
                step = size_at_hand(growth.per_iteration)
                offset = iteration * step if step != 1 else iteration
                rows.count = offset + rows.first if rows.first else offset
                growth.after = self.builder.dim_of(rows.count) + growth.per_iteration

    def _reset_counts(self, plan: CarryPlan) -> None:
        """Reset the lengths of lists: a function of the iteration's number, not carried values.

        A later iteration may not append what the first one does: `if len(out) < 2`.
        """
        for growth in plan.growing.values():
            rows = growth.values.rows
            if growth.per_iteration is not None and rows.fixed and not rows.full:
                if not self.builder.dims.same(self.builder.dim_of(rows.count), growth.after):
                    raise GrowingList(growth.values, map_tree(lambda b: b[0], rows.buffers))
                rows.count = rows.before

    def _count_after(self, slot: CarriedSlot, phi: Var, out: Var, trip: Range | None) -> None:
        """Note the length of a list after a loop whose iterations all append equally often."""
        if trip is None or slot.place != "count" or not isinstance(slot.container, GrowingRows):
            return
        dim_of, dims = self.builder.dim_of, self.builder.dims
        step = dims.resolve(dim_of(slot.next_value) - dim_of(Array(phi)))
        trip_count = dim_of(trip.length())
        if isinstance(step, int):
            self.builder.dim_values[out] = dim_of(slot.initial) + trip_count * step
        elif isinstance(trip_count, int) and step.symbols() <= dims.arguments:
            self.builder.dim_values[out] = dim_of(slot.initial) + step * trip_count


def differing_elements(origin: Any) -> tuple[str, Any, str]:
    """The message, origin and hint that refuse a list whose elements differ in shape."""
    message = "The elements of a list that grows in a run-time loop differ in shape."
    return message, origin, "use one list for each kind of element"


def rows_sample(rows: Any) -> Any:
    """The type of an element."""
    return map_tree(lambda b: ArrayType(b.dtype, b.type.dims[1:]), rows.buffers)


def appended(trip: Range | None, growth: Growth, head: Any) -> Any:
    """The length of a list after a loop that appends equally often in every iteration."""
    step = size_at_hand(growth.per_iteration)
    if trip is None or (isinstance(step, int) and step == 0):
        return head
    count = trip.length() if isinstance(step, int) and step == 1 else trip.length() * step
    return count if isinstance(head, int) and head == 0 else head + count


def _take_version(cell: Array, new: Array) -> None:
    cell.restore(new.state())  # without what an earlier attempt knew of its memory
