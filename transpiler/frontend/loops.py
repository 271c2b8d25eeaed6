"""Loops. Over known containers they are unrolled; over run-time ranges and arrays they stay loops.

What a loop carries is found by trying: the body is interpreted, every location and cell that it
changed becomes a carried value (its type widened to hold what came in and what came out), and the
body is interpreted again, until nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler import core
from calque.transpiler.builder import FUNCTIONS, OPERATORS, Array, atom, loop_index, type_of
from calque.transpiler.core import Block, Var, map_tree
from calque.transpiler.errors import BranchMismatch, NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.branches import Branches, GrowingList, LoopFlags, escapes
from calque.transpiler.frontend.expressions import and_
from calque.transpiler.frontend.heap import MISSING, RecordedList, Snapshot, set_location, shown_name
from calque.transpiler.frontend.interpreter import Completion, Mismatch
from calque.transpiler.frontend.iteration import GrowingRows, Iterable, Range, as_iterable, zip_trees
from calque.transpiler.frontend.joining import (
    Clash,
    Constant,
    abstract,
    coerce,
    fresh_leaf,
    instantiate,
    join_types,
    leaf_values,
    shape_of,
    widen,
)
from calque.transpiler.primitives.base import apply
from calque.transpiler.types import ArrayType

_ROUNDS = 40
_UNROLL_LIMIT = 4096
FIRST_CAPACITY = 16


@dataclass(eq=False)
class Plan:
    """What is known so far of what a loop carries."""

    locations: dict[tuple[int, Any], Any] = field(default_factory=dict)  # (container, key) -> description
    cells: dict[int, ArrayType] = field(default_factory=dict)
    growing: dict[int, Growth] = field(default_factory=dict)
    as_while: bool = False


@dataclass(eq=False)
class Growth:
    """A list that the loop appends to: how often in each round (None: it depends), and a sample element."""

    values: RecordedList
    per_round: int | None
    sample: Any
    rows: GrowingRows | None = None


@dataclass(eq=False)
class Carried:
    """The phis of one attempt."""

    phis: list[Var] = field(default_factory=list)
    inits: list[Any] = field(default_factory=list)
    slots: list[tuple[Any, Any, Any, int]] = field(default_factory=list)  # container, key, description, n
    cells: list[tuple[Array, Var]] = field(default_factory=list)


class Loops(Branches):
    """For and while."""

    def exec_For(self, node: Any) -> Completion | None:
        """``for target in iterable``."""
        iterable = as_iterable(self.evaluate(node.iter))
        with self._loop(node) as flags, self.at(node):
            length = iterable.length() if not isinstance(iterable, Range) else _known_length(iterable)
            known_length = isinstance(length, int)
            if not iterable.runtime():
                return self._unrolled(node, iterable, 0, self._items(iterable, length), flags)
            if known_length and length <= 1:
                return self._unrolled(node, iterable, 0, length, flags)
            base = Snapshot([*self.roots(), iterable], self.owned)
            marks = self._marks()
            try:
                return self._for(node, iterable, flags)
            except (NeedsKnownValue, BranchMismatch, GrowingList) as error:
                base.restore()
                self._back_to(marks)
                if not known_length:
                    if isinstance(error, NeedsKnownValue):
                        raise self._sized(iterable, error) from None
                    raise
                if length > _UNROLL_LIMIT:
                    raise
                try:
                    return self._unrolled(node, iterable, 0, length, flags)
                except NeedsKnownValue:
                    raise error from None

    def _sized(self, iterable: Iterable, error: NeedsKnownValue) -> Exception:
        """Ask for the loop's length to be made static, so that it can be unrolled; else the error."""
        length = iterable.length()
        wanted = self.builder.needs_known(length, "The length of a loop")
        return error if isinstance(wanted, NeedsKnownValue) else wanted

    def _items(self, iterable: Iterable, length: Any) -> int:
        if isinstance(length, Array):
            raise self.builder.needs_known(length, "The length of a loop over a list")
        return int(length)

    def _marks(self) -> tuple[Any, ...]:
        block = self.builder.blocks[-1]
        dims = self.builder.dims
        return (
            block,
            len(block.statements),
            dict(dims.values),
            dict(dims.assumptions),
            len(self.builder.equal_dims),
            dict(self.builder._sizes[-1]),
        )

    def _back_to(self, marks: tuple[Any, ...]) -> None:
        block, count, values, assumptions, equal, sizes = marks
        del block.statements[count:]
        self.builder.dims.values = dict(values)
        self.builder.dims.assumptions = dict(assumptions)
        del self.builder.equal_dims[equal:]
        self.builder._sizes[-1].clear()
        self.builder._sizes[-1].update(sizes)

    def _loop(self, node: Any) -> Any:
        return _LoopScope(self, node)

    # unrolled

    def _unrolled(
        self, node: Any, iterable: Iterable, first: int, length: int, flags: LoopFlags
    ) -> Completion | None:
        names = self.call.frame.locals
        for position in range(first, length):
            self.assign(node.target, iterable.element(position), node)
            completion = self._body(node)
            if completion is not None and completion.kind == "break":
                return None
            if completion is not None and completion.kind in ("return", "raise"):
                return completion
            stop = self._stopped(flags, node)
            if isinstance(stop, Array):
                self._rest_if_running(stop, node, iterable, position + 1, length, flags)
                break
            if stop:
                break
        broken = names[flags.broken]
        result = self._after(node, flags, broken)
        return result

    def _stopped(self, flags: LoopFlags, node: Any) -> Any:
        names = self.call.frame.locals
        broken, returned = names[flags.broken], names[flags.returned]
        if broken is True or returned is True:
            return True
        if isinstance(broken, Array) and isinstance(returned, Array):
            return self.short_circuit(broken, lambda: returned, node, is_and=False)
        return broken if isinstance(broken, Array) else returned

    def _rest_if_running(
        self, stop: Array, node: Any, iterable: Iterable, first: int, length: int, flags: LoopFlags
    ) -> None:
        if first >= length:
            return

        def rest() -> None:
            names = self.call.frame.locals
            completion = self._unrolled_flagged(node, iterable, first, length, flags)
            if completion is not None and completion.kind == "return":
                names[flags.returned], names[flags.value] = True, completion.value

        self.fork(stop, lambda: None, rest, node)

    def _unrolled_flagged(
        self, node: Any, iterable: Iterable, first: int, length: int, flags: LoopFlags
    ) -> Completion | None:
        """The remaining rounds; how they end stays in the flags."""
        names = self.call.frame.locals
        for position in range(first, length):
            self.assign(node.target, iterable.element(position), node)
            completion = self._body(node)
            if completion is not None and completion.kind == "break":
                names[flags.broken] = True
                return None
            if completion is not None and completion.kind in ("return", "raise"):
                return completion
            stop = self._stopped(flags, node)
            if isinstance(stop, Array):
                self._rest_if_running(stop, node, iterable, position + 1, length, flags)
                return None
            if stop:
                return None
        return None

    def _body(self, node: Any) -> Completion | None:
        call = self.call
        saved, call.pending = call.pending, []
        completion = self.exec_block(node.body)
        call.pending = saved
        if completion is not None and completion.kind in ("continue", "end"):
            return None
        return completion

    def _after(self, node: Any, flags: LoopFlags, broken: Any) -> Completion | None:
        """The else clause, and a return from within the loop."""
        names = self.call.frame.locals
        returned, value = names[flags.returned], names.get(flags.value, MISSING)
        _leave_flags(self.call, flags)
        if returned is True:
            return Completion("return", value)
        if isinstance(returned, Array):
            given = self.checked(value, "the value returned from within the loop", node)
            if not node.orelse or broken is True:
                return self.escaping(
                    returned, lambda: Completion("return", given), lambda: None, node
                )
            return self.escaping(
                returned,
                lambda: Completion("return", given),
                lambda: self._else(node, broken),
                node,
            )
        return self._else(node, broken)

    def _else(self, node: Any, broken: Any) -> Completion | None:
        if not node.orelse or broken is True:
            return None
        if not isinstance(broken, Array):
            return self.exec_block(node.orelse)
        if escapes(node.orelse):
            return self.escaping(broken, lambda: None, lambda: self.exec_block(node.orelse), node)
        result = self.fork(broken, lambda: None, lambda: self.exec_block(node.orelse), node)
        return result if isinstance(result, Completion) else None

    # loops of the generated program

    def _for(self, node: Any, iterable: Iterable, flags: LoopFlags) -> Completion | None:
        plan = Plan()
        loop = iterable if isinstance(iterable, Range) else Range(0, iterable.length())

        def attempt(plan: Plan, carried: Carried, block: Block) -> tuple[Completion | None, Any]:
            stop = loop.stop - 1 if loop.step > 0 else loop.start
            low, high = (loop.start, stop) if loop.step > 0 else (loop.stop + 1, loop.start)
            name = getattr(node.target, "id", None) if loop is iterable else None
            index = loop_index(self.builder.dim_of(low), self.builder.dim_of(high), name)
            self._set_counts(plan, self._round_of(loop, index))
            element = index if loop is iterable else iterable.element(index)
            self.assign(node.target, element, node)
            return self._body(node), index

        def emit(outs: list[Var], index: Any, carried: Carried, block: Block, test: Any) -> None:
            bounds = tuple(map(atom, (loop.start, loop.stop, loop.step)))
            self.builder.emit(
                core.For(
                    tuple(outs), index.atom, *bounds, tuple(carried.phis), tuple(carried.inits), block,
                    self.builder.origin,
                )
            )

        done = self._fixpoint(node, plan, attempt, emit, None, loop, flags, [iterable])
        if not done:
            return self._for_as_while(node, iterable, flags)
        return self._after(node, flags, self.call.frame.locals[flags.broken])

    def _round_of(self, loop: Range, index: Array) -> Any:
        if loop.step == 1:
            return index - loop.start
        return OPERATORS["floordiv"](index - loop.start, loop.step)

    def _for_as_while(self, node: Any, iterable: Iterable, flags: LoopFlags) -> Completion | None:
        """A for that may break: a while over positions."""
        names = self.call.frame.locals
        counter = self.fresh_name(getattr(node.target, "id", "k") + "_")
        length = iterable.length()
        names[counter] = 0

        def test() -> Any:
            more = self.compare_less(names[counter], length)
            return self._and_running(more, flags, node)

        def body() -> Completion | None:
            position = names[counter]
            if isinstance(position, Array):
                index = self.builder.dims.fresh()
                self.builder.dim_values[position.atom] = index
                symbol = next(iter(index.symbols()))
                self.builder.dims.ranges[symbol] = (0, self.builder.dim_of(length) - 1)
            self.assign(node.target, iterable.element(position), node)
            completion = self._body(node)
            names[counter] = position + 1
            return completion

        self._while_loop(node, test, body, flags, [iterable, length])
        names.pop(counter, None)
        return self._after(node, flags, names[flags.broken])

    def compare_less(self, left: Any, right: Any) -> Any:
        """``left < right``."""
        if not isinstance(left, Array) and not isinstance(right, Array):
            return left < right
        return OPERATORS["lt"](left, right)

    def _and_running(self, test: Any, flags: LoopFlags, node: Any) -> Any:
        """``test and not stopped``."""
        stop = self._stopped(flags, node)
        if not isinstance(stop, Array):
            return False if stop else test
        running = self.logical_not(stop, node)
        if not isinstance(test, Array):
            return running if test else False
        return apply(and_, test, running)

    def exec_While(self, node: Any) -> Completion | None:
        """``while test``."""
        with self._loop(node) as flags, self.at(node):
            names = self.call.frame.locals
            if self._probe(node) is False:
                return self._after(node, flags, names[flags.broken])

            def test() -> Any:
                return self.truth(self.evaluate(node.test), node.test)

            def run_test() -> Any:
                stop = self._stopped(flags, node)
                if not isinstance(stop, Array):
                    return False if stop else test()
                return self.short_circuit(self.logical_not(stop, node), test, node, is_and=True)

            base, marks = Snapshot(self.roots(), self.owned), self._marks()
            try:
                self._while_loop(node, run_test, lambda: self._body(node), flags, [])
            except (NeedsKnownValue, BranchMismatch, GrowingList) as error:
                base.restore()
                self._back_to(marks)
                if not self._unroll_while(node, flags, error):
                    raise
            return self._after(node, flags, names[flags.broken])

    def _unroll_while(self, node: Any, flags: LoopFlags, error: Exception) -> bool:
        """Rounds with a known test, run now; False where the test is not known."""
        for _ in range(_UNROLL_LIMIT):
            test = self.truth(self.evaluate(node.test), node.test)
            if isinstance(test, Array):
                return False
            if not test:
                return True
            completion = self._body(node)
            names = self.call.frame.locals
            if completion is not None and completion.kind == "break":
                names[flags.broken] = True
            elif completion is not None and completion.kind == "return":
                names[flags.returned], names[flags.value] = True, completion.value
            stop = self._stopped(flags, node)
            if isinstance(stop, Array):
                return False
            if stop:
                return True
        return False

    def _probe(self, node: Any) -> Any:
        """The first test, without recording anything."""
        base, marks = Snapshot(self.roots(), self.owned), self._marks()
        with self.builder.block():
            value = self.truth(self.evaluate(node.test), node.test)
        base.restore()
        self._back_to(marks)
        return value if isinstance(value, bool) else None

    def _while_loop(
        self,
        node: Any,
        test: Callable[[], Any],
        body: Callable[[], Completion | None],
        flags: LoopFlags,
        holding: list[Any],
    ) -> None:
        plan = Plan(as_while=True)

        def attempt(plan: Plan, carried: Carried, block: Block) -> tuple[Completion | None, Any]:
            start = Snapshot(self.roots(), self.owned)
            with self.builder.block() as test_block:
                value = test()
                test_block.results.append(atom(value))
            start.restore()
            if value is False:
                raise UnsupportedSyntax("The loop never runs.", self.builder.origin)
            return body(), test_block

        def emit(outs: list[Var], test_block: Any, carried: Carried, block: Block, _: Any) -> None:
            phis, inits = tuple(carried.phis), tuple(carried.inits)
            self.builder.emit(
                core.While(tuple(outs), phis, inits, test_block, block, self.builder.origin)
            )

        self._fixpoint(node, plan, attempt, emit, None, None, flags, holding)

    # the fixpoint

    def _fixpoint(
        self,
        node: Any,
        plan: Plan,
        attempt: Callable[..., Any],
        emit: Callable[..., None],
        test: Any,
        trip: Range | None,
        flags: LoopFlags,
        holding: list[Any],
    ) -> bool:
        """Try the body until what it carries is stable; False where a for turns out to break."""
        outer = Snapshot([*self.roots(), *holding], self.owned)
        marks = self._marks()
        names = self.call.frame.locals
        self.holding.append(tuple(holding))
        try:
            for _ in range(_ROUNDS):
                self._prepare_growth(plan, trip)
                base = Snapshot(self.roots(), self.owned)
                carried = self._install(plan, base)
                start = Snapshot(self.roots(), self.owned)
                try:
                    with self.builder.block() as block:
                        completion, extra = attempt(plan, carried, block)
                        self._reset_counts(plan)
                        if completion is not None and completion.kind in ("break", "return"):
                            self._record_exit(completion, flags)
                        if trip is not None and not self._runs_through(names, flags):
                            outer.restore()
                            self._back_to(marks)
                            return False
                        after = Snapshot(self.roots(), self.owned)
                        stable = self._compare(plan, base, start, after)
                        if stable:
                            self._next_values(carried, block)
                except GrowingList as growth:
                    self._note_growth(plan, growth)
                    stable = False
                if stable:
                    base.restore()
                    outs = [Var(p.type, p.name, self.builder.origin) for p in carried.phis]
                    emit(outs, extra, carried, block, test)
                    self._publish(plan, base, carried, outs, trip)
                    return True
                outer.restore()
                self._back_to(marks)
        finally:
            self.holding.pop()
        raise BranchMismatch("What this loop carries does not settle.", self.origin(node))

    def _record_exit(self, completion: Completion, flags: LoopFlags) -> None:
        names = self.call.frame.locals
        if completion.kind == "break":
            names[flags.broken] = True
        else:
            names[flags.returned], names[flags.value] = True, completion.value

    def _runs_through(self, names: dict[str, Any], flags: LoopFlags) -> bool:
        return names[flags.broken] is False and names[flags.returned] is False

    def _install(self, plan: Plan, base: Snapshot) -> Carried:
        """Put phis where the plan says."""
        carried = Carried()
        for (key, place), description in plan.locations.items():
            container = base.contents[key][0]
            initial = base.locations(key).get(place, MISSING)
            first = len(carried.phis)
            name = shown_name(place)
            value = instantiate(
                description,
                lambda t, n=name: fresh_leaf(t, carried.phis, n),
                lambda m: Mismatch(m, self.builder.origin),
            )
            for leaf in leaf_values(description, initial, self.owned):
                phi = carried.phis[len(carried.inits)]
                carried.inits.append(coerce(leaf, phi.type))
            set_location(container, place, value)
            carried.slots.append((container, place, description, first))
        for key, t in plan.cells.items():
            cell = base.contents[key][0]
            phi = fresh_leaf(t, carried.phis, cell._value.name)
            carried.inits.append(coerce(Array(cell._value), t))
            if cell._value in self.builder.contiguous:
                self.builder.contiguous.add(phi._value)
            cell._value = phi._value
            carried.cells.append((cell, phi._value))
        return carried

    def _compare(self, plan: Plan, base: Snapshot, start: Snapshot, after: Snapshot) -> bool:
        """Extend the plan by what the body changed; whether it covered that already."""
        stable = True
        for key, (container, _) in start.contents.items():
            if key not in base.contents:
                continue
            if isinstance(container, Array):
                stable &= self._compare_cell(plan, key, start, after)
                continue
            if isinstance(container, set):
                if start.contents[key][1] != after.contents[key][1]:
                    raise BranchMismatch("A set changes in a run-time loop.", self.builder.origin)
                continue
            before, now = start.locations(key), after.locations(key)
            if isinstance(container, list) and len(before) != len(now):
                stable = False
                self._list_changed(plan, container, before, now)
                continue
            for place in {**before, **now}:
                stable &= self._compare_location(
                    plan, base, key, place, before.get(place, MISSING), now.get(place, MISSING)
                )
        return stable

    def _compare_location(
        self, plan: Plan, base: Snapshot, key: int, place: Any, before: Any, now: Any
    ) -> bool:
        known = plan.locations.get((key, place))
        if before is now:
            return True
        initial = base.locations(key).get(place, MISSING)
        old = known if known is not None else self._describe(initial)
        if now is MISSING:
            new: Any = Clash("it is deleted in the loop")
        else:
            new = widen(old, now, self.owned)
        if known is not None and _same_description(known, new, self.builder.dims):
            return True
        if known is None and isinstance(new, Constant):
            return True
        plan.locations[key, place] = new
        return False

    def _describe(self, initial: Any) -> Any:
        return Constant(MISSING) if initial is MISSING else abstract(initial, self.owned)

    def _compare_cell(self, plan: Plan, key: int, start: Snapshot, after: Snapshot) -> bool:
        cell, state = start.contents[key]
        now = after.contents.get(key, (cell, state))[1]
        if state[1] is not None or now[0] is state[0]:
            return True
        old = plan.cells.get(key, state[0].type)
        new = join_types(old, now[0].type, spread=False)
        assert new is not None
        new = ArrayType(old.dtype, new.dims, old.weak)
        if key in plan.cells and _same_type(plan.cells[key], new, self.builder.dims):
            return True
        plan.cells[key] = new
        return False

    def _next_values(self, carried: Carried, block: Block) -> None:
        """The body's results: the next value of every phi."""
        for container, place, description, first in carried.slots:
            target = getattr(container, "locals", container)
            if isinstance(target, dict):
                value = target.get(place, MISSING)
            else:
                value = target[place] if isinstance(target, list) else vars(target).get(place, MISSING)
            for offset, leaf in enumerate(leaf_values(description, value, self.owned)):
                block.results.append(coerce(leaf, carried.phis[first + offset].type))
        for cell, phi in carried.cells:
            block.results.append(coerce(Array(cell._value), phi.type))

    def _publish(
        self, plan: Plan, base: Snapshot, carried: Carried, outs: list[Var], trip: Range | None
    ) -> None:
        """The state after the loop."""
        for container, place, description, first in carried.slots:
            numbers = iter(range(first, len(outs)))
            value = instantiate(
                description, lambda t: Array(outs[next(numbers)]), lambda m: Mismatch(m, self.builder.origin)
            )
            set_location(container, place, value)
        last = len(carried.phis) - len(carried.cells)
        for (cell, phi), out in zip(carried.cells, outs[last:], strict=True):
            cell._value = out
            if phi in self.builder.contiguous:
                self.builder.contiguous.add(out)
        for growth in plan.growing.values():
            if growth.per_round is not None and trip is not None:
                rows = growth.values.rows
                rows.count = rows.first + trip.length() * growth.per_round

    # lists that grow

    def _list_changed(self, plan: Plan, values: Any, before: dict[int, Any], now: dict[int, Any]) -> None:
        if not isinstance(values, RecordedList) or id(values) in self.foreign or len(now) < len(before):
            raise BranchMismatch("A list changes its length in a run-time loop.", self.builder.origin)
        if any(now[i] is not before[i] for i in before):
            raise BranchMismatch(
                "A list is appended to and changed otherwise in a run-time loop.", self.builder.origin
            )
        element = now[len(before)]
        plan.growing[id(values)] = Growth(values, len(now) - len(before), self._sample(element))

    def _note_growth(self, plan: Plan, growth: GrowingList) -> None:
        if id(growth.values) in plan.growing and plan.growing[id(growth.values)].per_round is None:
            raise growth
        plan.growing[id(growth.values)] = Growth(growth.values, None, self._sample(growth.element))

    def _sample(self, element: Any) -> Any:
        return map_tree(type_of, element)

    def _prepare_growth(self, plan: Plan, trip: Range | None) -> None:
        """Turn the lists that the loop appends to into arrays, allocated before it."""
        for growth in plan.growing.values():
            values = growth.values
            if values.rows is not None:
                continue
            fixed = growth.per_round is not None and trip is not None
            head: Any = len(values)
            if fixed:
                assert trip is not None and growth.per_round is not None
                capacity = trip.length() * growth.per_round + head
            else:
                capacity = max(FIRST_CAPACITY, 2 * head)
            buffers = map_tree(lambda t, c=capacity: self._buffer(t, c), growth.sample)
            rows = self._rows_of(growth, buffers, fixed)
            items, values[:] = list(values), []
            values.rows = rows
            for item in items:
                rows.put(item)
            rows.first = head
            self.owned[id(rows)] = rows

    def _rows_of(self, growth: Growth, buffers: Any, fixed: bool) -> GrowingRows:
        """The same cells in every attempt, so that the plan can speak of them."""
        if growth.rows is None:
            growth.rows = GrowingRows(buffers, 0, fixed)
        else:
            zip_trees(_take_version, growth.rows.buffers, buffers)
            growth.rows.count, growth.rows.fixed = 0, fixed
        return growth.rows

    def _buffer(self, t: ArrayType, capacity: Any) -> Array:
        shape = (capacity, *shape_of(t))
        return FUNCTIONS[np.empty](shape, t.dtype)

    def _set_counts(self, plan: Plan, round_number: Any) -> None:
        """At the start of a round: how long each list is by then."""
        for growth in plan.growing.values():
            rows = growth.values.rows
            if growth.per_round is not None and rows.fixed:
                rows.before = rows.count
                step = growth.per_round
                offset = round_number * step if step != 1 else round_number
                rows.count = offset + rows.first if rows.first else offset

    def _reset_counts(self, plan: Plan) -> None:
        """A fixed list's length is a formula of the round, not a carried value."""
        for growth in plan.growing.values():
            rows = growth.values.rows
            if growth.per_round is not None and rows.fixed:
                rows.count = rows.before


def _take_version(cell: Array, new: Array) -> None:
    cell._value = new._value


def _known_length(iterable: Range) -> Any:
    values = (iterable.start, iterable.stop)
    return iterable.length() if not any(isinstance(v, Array) for v in values) else None


def _same_description(left: Any, right: Any, dims: Any) -> bool:
    if type(left) is not type(right):
        return False
    match left:
        case Constant():
            return left.value is right.value or bool(left.value == right.value)
        case Clash():
            return True
    if hasattr(left, "parts"):
        return left.kind == right.kind and all(
            _same_description(a, b, dims) for a, b in zip(left.parts, right.parts, strict=True)
        )
    return _same_type(left.type, right.type, dims)


def _same_type(left: ArrayType, right: ArrayType, dims: Any) -> bool:
    if left.dtype != right.dtype or left.weak != right.weak or left.ndim != right.ndim:
        return False
    return all(
        dims.same(a, b) or _unknown(a) for a, b in zip(left.dims, right.dims, strict=True)
    )


def _unknown(dim: Any) -> bool:
    """A symbol made by a join: it stands for any size."""
    return not isinstance(dim, int) and len(dim.terms) == 1 and dim.terms[0][0].startswith("_")


def _leave_flags(call: Any, flags: LoopFlags) -> None:
    for name in (flags.broken, flags.returned, flags.value):
        call.frame.locals.pop(name, None)
    call.flags = call.flag_stack.pop()


class _LoopScope:
    """Makes a loop's hidden flags the current ones; restores the outer loop's on every way out."""

    def __init__(self, machine: Loops, node: Any):
        self.machine, self.node = machine, node

    def __enter__(self) -> LoopFlags:
        call = self.machine.call
        self.flags = LoopFlags(*(self.machine.fresh_name(s) for s in ("broken", "returned", "value")))
        call.frame.locals[self.flags.broken] = False
        call.frame.locals[self.flags.returned] = False
        self.outer, self.depth = call.flags, len(call.flag_stack)
        call.flag_stack.append(call.flags)
        call.flags = self.flags
        return self.flags

    def __exit__(self, *_: Any) -> None:
        call = self.machine.call
        for name in (self.flags.broken, self.flags.returned, self.flags.value):
            call.frame.locals.pop(name, None)
        call.flags = self.outer
        del call.flag_stack[self.depth :]

