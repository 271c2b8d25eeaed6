"""Loops. Over known containers they are unrolled; over run-time ranges and arrays they stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gast

from calque.transpiler.errors import BranchMismatch, CalqueError, NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.control.branch import LoopFlags, PathEnds, do_nothing
from calque.transpiler.frontend.control.leaving_statements import escapes
from calque.transpiler.frontend.control.loop_else import ElseArms
from calque.transpiler.frontend.control.loop_exits import LoopScope, leave_flags
from calque.transpiler.frontend.control.loop_memory import Carried, CarryPlan
from calque.transpiler.frontend.control.phi_inference import Carrying
from calque.transpiler.frontend.machine import Completion
from calque.transpiler.frontend.values.containers.container_kinds import MISSING
from calque.transpiler.frontend.values.containers.list_kinds import GrowingList
from calque.transpiler.frontend.values.descriptions import DEAD
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import (
    Iterable,
    Positions,
    Range,
    Walk,
    positional,
    refuse_unending,
    walked_lists,
)
from calque.transpiler.frontend.values.stepwise import lists_within
from calque.transpiler.frontend.values.tagged import raise_if_entering
from calque.transpiler.ir.builder import OPERATORS, Array, atom, loop_index
from calque.transpiler.ir.core import Block, Var
from calque.transpiler.ir.rewrite import emit_loop, emit_while
from calque.transpiler.ir.types import Dim
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.logic import and_

_UNROLL_LIMIT = 4096
_UNROLL_ON_ERRORS = 64
_WORTH_UNROLLING = (CalqueError, GrowingList, LookupError, TypeError, ValueError)


class Loops(Carrying):
    """For and while."""

    def for_over(self, node: Any, source: Any) -> Completion | None:
        """``for target in iterable``, which has positions."""
        iterable = positional(source)
        if iterable is None:
            steps = self.steps(source, node.iter)
            iterable = steps.left()
            if iterable is None:
                return self._stepping(node, steps)
        with self._loop(node) as flags, self.at(node), self._walking(Walk(walked_lists(iterable))):
            length = _known_length(iterable) if isinstance(iterable, Range) else iterable.length()
            known_length = isinstance(length, int)
            if known_length and length == 0:
                return self._unrolled(node, Positions(iterable, 0), flags)
            base = Snapshot([*self.roots(), iterable], self.owned)
            marks, stack = self._marks(), list(self.call.flag_stack)

            def back() -> None:
                base.restore()
                self.call.flags, self.call.flag_stack[:] = flags, stack
                self._back_to(marks)

            if known_length and length == 1:
                try:
                    return self._unrolled(node, Positions(iterable, 1), flags)
                except (NeedsKnownValue, BranchMismatch, GrowingList) as error:
                    raise_if_entering(error)
                    back()  # a list that grows on one path does so in a loop only
                    flags.forget()
            try:
                self._check_unrolled(node)
                return self._for(node, iterable, flags)
            except _WORTH_UNROLLING as error:
                raise_if_entering(error)
                back()
                if not known_length or length > _UNROLL_ON_ERRORS:
                    with suppress(CalqueError), self._indexing(error):
                        flags.forget()
                        return self._for(node, iterable, flags)
                    back()
                if not known_length:
                    if isinstance(error, (NeedsKnownValue, BranchMismatch)):
                        raise self._sized(iterable, error) from None
                    raise
                structural = isinstance(error, (NeedsKnownValue, BranchMismatch, GrowingList))
                if length > (_UNROLL_LIMIT if structural else _UNROLL_ON_ERRORS):
                    raise
                flags.forget()
                try:
                    return self._unrolled(node, Positions(iterable, length), flags)
                except _WORTH_UNROLLING:
                    raise error from None

    def _stepping(self, node: Any, steps: Any) -> Completion | None:
        """A loop over an iterator that is read one element at a time: it is unrolled."""
        if not steps.ends():
            refuse_unending(steps)
        with self._loop(node) as flags, self.at(node), self._walking(Walk((), lists_within(steps))):
            return self._unrolled(node, steps, flags)

    @contextmanager
    def _walking(self, walk: Walk) -> Iterator[None]:
        """Inside, a loop runs over lists, whose changes it must see or refuse."""
        self.walked.append(walk)
        try:
            yield
        finally:
            self.walked.pop()

    def _sized(self, iterable: Iterable, error: CalqueError) -> Exception:
        """Ask for the loop's length to be static, so that it can be unrolled; else the error."""
        length = iterable.length()
        wanted = self.builder.needs_known(length, "The length of a loop")
        return error if isinstance(wanted, NeedsKnownValue) else wanted

    def _loop(self, node: Any) -> Any:
        return LoopScope(self, node)

    # unrolled

    def _check_unrolled(self, node: Any) -> None:
        """A loop must be unrolled if the lists or dicts that it puts into a list are changed."""
        place = self.place_of(node)
        if place in self.settings.unrolled:
            raise BranchMismatch(
                "This needs a list or a dict itself that a run-time loop puts into a list.",
                self.settings.unrolled[place],
                "put copies into the list, or let the loop run over a known length",
            )

    def _unrolled(self, node: Any, steps: Any, flags: LoopFlags) -> Completion | None:
        completion = self._iterations(node, steps, flags)
        if completion is not None:
            return None if completion.kind == "break" else completion
        return self._after(node, flags, self.call.frame.locals[flags.broken])

    def _iterations(self, node: Any, steps: Any, flags: LoopFlags) -> Completion | None:
        """Run known iterations one by one; return the completion that ends them, else None."""
        while True:
            try:
                element = steps.following()
            except StopIteration:
                return None
            self.assign(node.target, element, node)
            completion = self._body(node)
            if completion is not None and completion.kind in ("break", "return", "raise"):
                return completion
            stop = self._stopped(flags, node)
            if isinstance(stop, Array):
                self._rest_if_running(stop, node, steps, flags)
                return None
            if stop:
                return None

    def _stopped(self, flags: LoopFlags, node: Any) -> Any:
        names = self.call.frame.locals
        broken, returned = names[flags.broken], names[flags.returned]
        if broken is True or returned is True:
            return True
        if isinstance(broken, Array) and isinstance(returned, Array):
            return self.short_circuit(broken, lambda: returned, node, is_and=False)
        return broken if isinstance(broken, Array) else returned

    def _rest_if_running(self, stop: Array, node: Any, steps: Any, flags: LoopFlags) -> None:
        if not steps.more():
            return

        def rest() -> None:
            names = self.call.frame.locals
            if names.get(flags.value) is not None:
                del names[flags.value]  # a path that comes here has not returned
            completion = self._unrolled_flagged(node, steps, flags)
            if completion is not None and completion.kind == "return":
                names[flags.returned], names[flags.value] = True, completion.value

        self.fork_of_chain(flags, stop, do_nothing, rest, node)

    def _unrolled_flagged(self, node: Any, steps: Any, flags: LoopFlags) -> Completion | None:
        """Run the remaining iterations; the flags say how they ended."""
        completion = self._iterations(node, steps, flags)
        if completion is not None and completion.kind == "break":
            self.call.frame.locals[flags.broken] = True
            return None
        return completion

    def _body(self, node: Any) -> Completion | None:
        call = self.call
        (saved, call.pending), (held, call.blocks) = (call.pending, []), (call.blocks, 0)
        self.ends.append(self.loop_depth)
        known = len(self.facts)
        try:
            completion = self.exec_block(node.body)
        except PathEnds:
            completion = Completion("raise")
        except Exception as error:
            self.raise_in_body(error)
            completion = Completion("raise")
        finally:
            self.ends.pop()
            del self.facts[known:]
            call.pending, call.blocks = saved, held
        if call.flags is not None:
            kind = "normal" if completion is None else completion.kind
            call.flags.note(kind, self.bound_names())
        if completion is not None and completion.kind in ("continue", "end"):
            return None
        return completion

    def _after(self, node: Any, flags: LoopFlags, broken: Any) -> Completion | None:
        """The else clause, and a return from within the loop."""
        names = self.call.frame.locals
        returned, value = names[flags.returned], names.get(flags.value, MISSING)
        leave_flags(self.call, flags)
        if returned is True:
            return Completion("return", DEAD if value is MISSING and self.scopes else value)
        if isinstance(returned, Array):
            given: Any = DEAD  # left by errors only
            if value is not MISSING or not self.scopes:
                given = self.checked(value, "the value returned from within the loop", node)
            return self.escaping(
                returned,
                lambda: Completion("return", given),
                lambda: self._else(node, broken, flags),
                node,
            )
        return self._else(node, broken, flags)

    def _else(self, node: Any, broken: Any, flags: LoopFlags) -> Completion | None:
        arms = ElseArms(self, node, flags)
        if not isinstance(broken, Array) and not broken:
            arms.only_ended()
            return self.exec_block(node.orelse)
        if not node.orelse or broken is True:
            return None
        if escapes(node.orelse):
            return self.escaping(broken, arms.broken, arms.ended, node)
        result = self.fork(broken, arms.broken, arms.ended, node)
        arms.leave()
        return result if isinstance(result, Completion) else None

    # loops of the generated program

    def _for(self, node: Any, iterable: Iterable, flags: LoopFlags) -> Completion | None:
        plan, dim_of = CarryPlan(), self.builder.dim_of
        loop = iterable if isinstance(iterable, Range) else Range(0, iterable.length())

        def attempt(
            plan: CarryPlan, carried: Carried, block: Block
        ) -> tuple[Completion | None, Any]:
            flags.forget()
            stop = loop.stop - 1 if loop.step > 0 else loop.start
            low, high = (loop.start, stop) if loop.step > 0 else (loop.stop + 1, loop.start)
            name = getattr(node.target, "id", None) if loop is iterable else None
            low, high, start, stop = map(dim_of, (low, high, loop.start, loop.stop))
            index = loop_index(low, high, name, (start, stop, stop - start))
            self._set_counts(plan, self._iteration_of(loop, index))
            element = index if loop is iterable else iterable.element(index)
            self.assign(node.target, element, node)
            return self._body(node), index

        def emit(outs: list[Var], index: Any, carried: Carried, block: Block, test: Any) -> None:
            span = loop.start, loop.stop, loop.step
            emit_loop(self.builder, index.atom, span, carried.phis, carried.inits, block, outs)

        runs = self.runs_if(loop)
        done = self._fixpoint(node, plan, attempt, emit, None, loop, flags, [iterable], runs)
        if not done:
            return self._for_as_while(node, iterable, flags)
        return self._after(node, flags, self.call.frame.locals[flags.broken])

    def _iteration_of(self, loop: Range, index: Array) -> Any:
        if loop.step == 1:
            return index - loop.start
        return OPERATORS["floordiv"](index - loop.start, loop.step)

    def _for_as_while(self, node: Any, iterable: Iterable, flags: LoopFlags) -> Completion | None:
        """A for that may break: a while over positions."""
        names = self.call.frame.locals
        counter = self.fresh_name(getattr(node.target, "id", "k") + "_")
        length = iterable.length()
        if type(length) is int and length == 0:  # range(n, n)
            return self._unrolled(node, Positions(iterable, 0), flags)
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
                ends = self.builder.dims.ends[symbol] = (0, self.builder.dim_of(length))
                self.builder.dims.ranges[symbol] = (0, ends[1] - 1)
            self.assign(node.target, iterable.element(position), node)
            completion = self._body(node)
            names[counter] = position + 1
            return completion

        runs = self.runs_if(Range(0, length))
        self._while_loop(node, test, body, flags, [iterable, length], runs)
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
        if not node.orelse and self.tests_may_throw(node.test):
            return self._test_within(node)
        with LoopScope(self, node) as flags, self.at(node):
            names = self.call.frame.locals
            first = self._probe(node)
            if first is False:
                return self._after(node, flags, names[flags.broken])
            endless = isinstance(node.test, gast.Constant) and bool(node.test.value)

            def test() -> Any:
                return self.condition(node.test)

            def run_test() -> Any:
                stop = self._stopped(flags, node)
                if not isinstance(stop, Array):
                    return False if stop else test()
                running = self.logical_not(stop, node)
                return running if endless else self.short_circuit(running, test, node, is_and=True)

            base, marks = Snapshot(self.roots(), self.owned), self._marks()
            certain = endless or first is True

            def attempt() -> None:
                self._while_loop(node, run_test, lambda: self._body(node), flags, [], certain)

            try:
                self._check_unrolled(node)
                attempt()
            except (NeedsKnownValue, BranchMismatch, GrowingList) as error:
                raise_if_entering(error)
                base.restore()
                self._back_to(marks)
                try:
                    unrolled = self._unroll_while(node, flags, error)
                except _WORTH_UNROLLING:
                    unrolled = False
                if not unrolled:
                    base.restore()
                    self._back_to(marks)
                    with self._indexing(error):
                        attempt()
            except _TestStores:
                base.restore()
                self._back_to(marks)
                return self._test_within(node)
            if endless and names[flags.broken] is False:
                names[flags.returned] = True  # there is no other way out
            return self._after(node, flags, names[flags.broken])

    def _test_within(self, node: Any) -> Completion | None:
        """A while whose test binds names: ``while True`` with the test and a break in the body."""
        if node.orelse:
            self.fail(
                UnsupportedSyntax,
                node.test,
                "The test of a `while ... else` changes something.",
                "move the assignment into the body",
            )
        stop = gast.If(test=node.test, body=[gast.Pass()], orelse=[gast.Break()])
        always = gast.Constant(value=True, kind=None)
        for part in (stop, *stop.body, *stop.orelse, always):
            gast.copy_location(part, node.test)
        again = gast.While(test=always, body=[stop, *node.body], orelse=[])
        return self.exec_While(gast.copy_location(again, node))

    def _unroll_while(self, node: Any, flags: LoopFlags, error: Exception) -> bool:
        """Run the iterations while the test is known; False if the loop must run at run time."""
        for _ in range(_UNROLL_LIMIT):
            test = self.condition(node.test)
            if isinstance(test, Array):
                wanted = self.builder.needs_known(test, "How often a while loop runs")
                if isinstance(error, GrowingList) or isinstance(wanted, NeedsKnownValue):
                    return False
                raise wanted from None  # known once sizes and integers are
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
        self.loop_depth += 1  # a generator must not be taken further by a trial
        try:
            with self.builder.block():
                value = self.condition(node.test)
        except NeedsKnownValue:
            value = None
        finally:
            self.loop_depth -= 1
        if base.differs(Snapshot(self.roots(), self.owned)):
            value = None
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
        certain: bool | Dim,
    ) -> None:
        plan = CarryPlan(as_while=True)

        def attempt(
            plan: CarryPlan, carried: Carried, block: Block
        ) -> tuple[Completion | None, Any]:
            flags.forget()
            start = Snapshot(self.roots(), self.owned)
            with self.builder.block() as test_block:
                value = test()
                test_block.results.append(atom(value))
            if start.differs(Snapshot(self.roots(), self.owned)):
                raise _TestStores
            start.restore()
            if value is False:
                raise UnsupportedSyntax("The loop never runs.", self.builder.origin)
            known = len(self.facts)
            self.facts.append((test_block.results[0], True))
            try:
                return body(), test_block
            finally:
                del self.facts[known:]

        def emit(outs: list[Var], test_block: Any, carried: Carried, block: Block, _: Any) -> None:
            emit_while(self.builder, carried.phis, carried.inits, test_block, block, outs)

        self._fixpoint(node, plan, attempt, emit, None, None, flags, holding, certain)


class _TestStores(Exception):
    """The test of a while binds a name or stores into something."""


def _known_length(iterable: Range) -> Any:
    values = (iterable.start, iterable.stop)
    return iterable.length() if not any(isinstance(v, Array) for v in values) else None
