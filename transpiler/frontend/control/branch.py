"""Branches on run-time values: both arms are interpreted, and their states are joined.

An arm that may leave the enclosing loop or function (``return``, ``break``, ``continue``) is
interpreted together with everything that follows, up to that boundary; so an early return needs no
rewriting, and costs nothing where its condition is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from calque.transpiler.errors import BranchMismatch, IndexOutOfRange, UnsupportedSyntax
from calque.transpiler.frontend.control.exit_chains import Links, flatten_exits
from calque.transpiler.frontend.control.hoisting import HIDDEN
from calque.transpiler.frontend.control.leaving_statements import (
    escapes,
    may_go_on_twice,
    surely_leaves,
)
from calque.transpiler.frontend.control.python_errors import origin_of, raised
from calque.transpiler.frontend.control.state_join import Join, Outcome
from calque.transpiler.frontend.control.swaps import undo_exchanges
from calque.transpiler.frontend.expressions import Expressions
from calque.transpiler.frontend.interpreter import place
from calque.transpiler.frontend.machine import Completion
from calque.transpiler.frontend.values.containers.container_kinds import MISSING
from calque.transpiler.frontend.values.containers.list_kinds import GrowingList, rows_of
from calque.transpiler.frontend.values.descriptions import DEAD
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.optional import Maybe, Mismatch
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, link
from calque.transpiler.ir.core import Block, Var, map_tree
from calque.transpiler.ir.types import Dim

Arms = tuple[Callable[[], Any], Callable[[], Any]]  # where a test holds, and where it does not

_COPIES = 4  # copies, at most, of the code that follows branches with arms that may leave


@dataclass(eq=False)
class LoopFlags:
    """The hidden locals that say how a loop was left."""

    broken: str
    returned: str
    value: str
    scope: Any = None  # the `try` whose body is left
    at_break: set[str] | None = None  # the names that have a value wherever the loop is broken
    at_end: set[str] | None = None  # and wherever an iteration runs to its end
    stored: set[int] = field(default_factory=set)  # cells that the loop stores into
    certain: bool | Dim = True  # the loop runs, or runs if this is at least 0
    continued: str | None = None  # of a branch whose arms are joined: the loop around goes on

    def forget(self) -> None:
        """Forget the ways out, before the body is interpreted anew."""
        self.at_break = self.at_end = None

    def note(self, kind: str, bound: set[str]) -> None:
        """Record one more way out of an iteration, and the names that have a value there."""
        if kind == "break":
            self.at_break = bound if self.at_break is None else self.at_break & bound
        elif kind in ("continue", "normal"):
            self.at_end = bound if self.at_end is None else self.at_end & bound


def do_nothing() -> None:
    """An empty arm, for which no state is compared or restored."""


class PathEnds(Exception):
    """The path that is being interpreted ends, at run time, with an error."""


@contextmanager
def on_a_path() -> Iterator[None]:
    """Mark an error of code that not every path reaches: no handler may take it for all of them."""
    try:
        yield
    except (PathEnds, GrowingList):
        raise
    except Exception as error:
        error.calque_on_a_path = True  # type: ignore[attr-defined]
        raise


class Branches(Expressions):
    """If statements and conditional expressions."""

    def roots(self) -> list[Any]:
        """Everything the program can reach now."""
        frames = [call.frame for call in self.calls]
        return [*frames, *self.holding, *self.arguments, self.outside]

    def fork(
        self,
        test: Array,
        then: Callable[[], Any],
        orelse: Callable[[], Any],
        node: Any,
        leaves: bool = False,
    ) -> Any:
        """Interpret both arms on one state, join the states they leave, return the joined value.

        An error within the arms may go to a handler if they are statements up to a boundary
        (``leaves``).
        """
        throws, self.call.throws = self.call.throws, self.call.throws and leaves
        try:
            return self._forked(test, then, orelse, node)
        finally:
            self.call.throws = throws

    def _forked(
        self, test: Array, then: Callable[[], Any], orelse: Callable[[], Any], node: Any
    ) -> Any:
        base = Snapshot(self.roots(), self.owned)
        self.tests.append(test)
        try:
            outcomes = [
                self._arm(arm, base, (atom(test), holds))
                for arm, holds in ((then, True), (orelse, False))
            ]
        finally:
            self.tests.pop()
        if all(o.dead for o in outcomes):
            self._emit_if(test, outcomes, [], [], node)
            return Completion("raise")
        try:
            joined = Join(self, base, outcomes, node, test).run(test)
            if any(o.dead for o in outcomes):  # what follows is on one path
                self.facts.append((atom(test), outcomes[1].dead))
            return joined
        except (BranchMismatch, GrowingList) as error:
            self.ask_for(test)
            if isinstance(error, GrowingList) and not self.loop_depth:
                raise BranchMismatch(
                    "A list has different lengths on two paths.",
                    self.origin(node),
                    "append on every path, or use an array and a mask",
                ) from None
            raise

    def fork_of_chain(
        self, key: Any, test: Array, then: Callable[[], Any], orelse: Callable[[], Any], node: Any
    ) -> Any:
        """A fork whose arms may end with a fork of the same key: long chains are flattened."""
        outermost, self.links = self.links is None, self.links or Links()
        try:
            result = self.fork(test, then, orelse, node, leaves=True)
            block = self.builder.blocks[-1]
            self.links.note(block, key)
            if outermost:
                flatten_exits(block, self.builder, self.links)
        finally:
            self.links = None if outermost else self.links
        return result

    def loops_around(self) -> bool:
        """True while a loop of the generated program is being interpreted."""
        return self.loop_depth > 0

    def path_raises(self, error: Exception, node: Any) -> None:
        """End this path with an error at run time; raise the error now outside of an arm."""
        if not self.arm_loop_depths or self.arm_loop_depths[-1] != self.loop_depth:
            raise error  # every path comes here, or only some iterations of a loop do
        with self.at(node):
            self.builder.effect(f"raise {type(error).__name__}({error.args[0]!r})", [])
        raise PathEnds

    def raises_here(self, error: Exception) -> NoReturn:
        """Raise an error of Python's within a statement: at run time, if not all calls reach it."""
        if not self.tests and not self.loop_depth:
            place(error, self.builder.origin)
            raise error
        if self.ends[-1:] != [self.loop_depth]:
            raise UnsupportedSyntax(f"{error}.", self.builder.origin)
        self.builder.effect(f"raise {type(error).__name__}({str(error)!r})", [])
        raise PathEnds

    def required(self, value: Maybe, name: str, node: Any) -> Any:
        """A value that may be None, after generated code that raises TypeError if it is."""
        error = TypeError(f"{name} is None")
        self.fork(value.there, do_nothing, lambda: self.path_raises(error, node), node)
        self.facts.append((value.there.atom, True))  # for what follows
        return value.value

    def decided(self, value: Any, *more: tuple[Any, bool]) -> Any:
        """A value that may be None, or tagged, resolved if the tests around, or ``more``, do."""
        facts, definitions = [*self.facts, *more], self.builder.definitions
        while isinstance(value, TaggedValue):
            known = self.flags.truth(value.tag, facts, definitions)
            if known is None:
                return value
            value = value.first if known else value.second
        return self.flags.decided(value, facts, definitions)

    def raise_if_reached(self, error: Exception) -> NoReturn:
        """Raise an error that plain Python raises, too: at run time, if not all calls reach it."""
        if not self.tests and not self.loop_depth:
            raise error
        if getattr(error, "calque_on_a_path", False) or self.ends[-1:] != [self.loop_depth]:
            raise error  # what is around is neither an arm nor the body of a loop
        if self.arm_loop_depths[-1:] == [self.loop_depth]:
            raise error  # to the arm, unless a handler within it is for this
        if isinstance(error, IndexOutOfRange):
            error = IndexError(error.message)
        self.builder.effect(f"raise {type(error).__name__}({str(error)!r})", [])
        raise PathEnds  # to the arm, or to the body of the loop, that is interpreted

    def _raise_on_path(self, error: Exception) -> None:
        """Raise in an arm, at run time, what plain Python raises there; refuse other errors."""
        text = raised(error)
        if text is None or self.settings.stacking or self.arrays_for_lists:  # not for good
            raise error
        before, self.builder.origin = self.builder.origin, origin_of(error) or self.builder.origin
        self.builder.effect(text, [])
        self.builder.origin = before
        self.error_on_path = error

    def raise_in_body(self, error: Exception) -> None:
        """Raise an error in the body of a loop within an arm, which may run no iteration."""
        if self.arm_loop_depths[-1:] in ([], [self.loop_depth]):
            raise error
        self._raise_on_path(error)

    def _arm(self, arm: Callable[[], Any], base: Snapshot, fact: tuple[Any, bool]) -> Outcome:
        if arm is do_nothing:
            return Outcome(Block(), None, base, False)
        call, pending = self.call, list(self.call.pending)
        known = len(self.facts)
        self.facts.append(fact)
        self.arm_loop_depths.append(self.loop_depth)
        self.ends.append(self.loop_depth)
        try:
            with self.builder.block() as block:
                try:
                    with on_a_path():
                        value = arm()
                    self._lists_again(base)
                    undo_exchanges(self, base)
                except PathEnds:
                    call.pending, value = pending, Completion("raise")
                except Exception as error:
                    self._raise_on_path(error)
                    call.pending, value = pending, Completion("raise")
            dead = isinstance(value, Completion) and value.kind == "raise"
            return Outcome(block, value, Snapshot([*self.roots(), value], self.owned), dead)
        finally:
            del self.facts[known:]
            self.arm_loop_depths.pop()
            self.ends.pop()
            base.restore()

    def _lists_again(self, base: Snapshot) -> None:
        """Lists of known length that a loop in this arm keeps in arrays are lists again."""
        for values, content in base.contents.values():
            rows = rows_of(values)
            if rows is not None and rows.full and content[1] is None:
                values[:], values.rows = list(rows), None

    def _emit_if(
        self, test: Array, outcomes: list[Outcome], outs: list[Var], results: list[Any], node: Any
    ) -> None:
        then, orelse = (o.block for o in outcomes)
        statement = core.If(tuple(outs), atom(test), then, orelse, self.builder.origin)
        self.builder.emit(statement)

    def choose(
        self, test: Array, then: Callable[[], Any], orelse: Callable[[], Any], node: Any
    ) -> Any:
        """``then() if test else orelse()`` on a run-time test."""
        result = self.fork(test, then, orelse, node)
        if isinstance(result, Completion):  # both raise
            raise self.error_on_path
        return self.checked(result, "the value of this expression", node)

    def exec_If(self, node: Any) -> Completion | None:
        """An if statement."""
        test = self.condition(node.test)
        if not isinstance(test, Array):
            return self.exec_block(node.body if test else node.orelse)
        with self.at(node):
            orelse = partial(self.exec_block, node.orelse) if node.orelse else do_nothing
            arms = partial(self.exec_block, node.body), orelse
            return self.branch_over(test, arms, (node.body, node.orelse), node)

    def branch_over(
        self, test: Array, arms: Arms, statements: Sequence[list[Any]], node: Any
    ) -> Completion | None:
        """Branch to two arms, which run these statements."""
        if any(map(escapes, statements)):
            twice = sum(not surely_leaves(arm) for arm in statements) > 1
            return self.leaving(test, arms, twice, node)
        if any(map(self.may_leave, statements)):
            return self._join_arms(test, arms, node)
        result = self.fork(test, *arms, node)
        return result if isinstance(result, Completion) else None

    def leaving(self, test: Array, arms: Arms, twice: bool, node: Any) -> Completion | None:
        """A branch of which an arm may leave; ``twice``: both arms may go on to what follows.

        The code that follows is written for each arm that may go on. If more such branches follow
        and copies would multiply, the arms are joined instead, with flags for how they were left.
        """
        before = self.copies
        both = any(self.call.pending) and twice
        if both and not self.settings.arms_apart and not self.call.blocks:
            more = sum(map(may_go_on_twice, chain.from_iterable(self.call.pending)))
            if self.joined or before << (1 + more) > _COPIES:
                self.joined = True
                return self._join_arms(test, arms, node)
        self.copies = before * (1 + both)
        try:
            return self.escaping(test, *arms, node)
        finally:
            self.copies = before

    def _join_arms(self, test: Array, arms: Arms, node: Any) -> Completion | None:
        """Run both arms to their own ends and join them; then leave as the joined flags say."""
        call, names = self.call, self.call.frame.locals
        outer, pending = call.flags, call.pending
        broken, returned, value = map(self.fresh_name, ("broken", "returned", "value"))
        flags = LoopFlags(broken, returned, value)
        flags.continued = self.fresh_name("continued")
        hidden = (flags.returned, flags.broken, flags.continued)
        names.update(dict.fromkeys(hidden, False))
        if call.consume is not None:  # a generator: it has nothing to return
            names[flags.value] = None

        def to_end(arm: Callable[[], Completion | None]) -> Completion:
            call.pending = []
            return self._at_boundary(arm(), flags)

        call.flags = flags
        try:
            then, orelse = (partial(to_end, arm) for arm in arms)
            result = self.fork(test, then, orelse, node, leaves=True)
        finally:
            call.flags, call.pending = outer, pending
            has_returned, *left = (names.pop(name, False) for name in hidden)
            given = names.pop(flags.value, MISSING)
        if isinstance(result, Completion) and result.kind == "raise":
            return result

        def to_return() -> Completion:
            if given is MISSING:
                return Completion("return", DEAD)  # by errors only
            return Completion("return", self.checked(given, "the value returned here", node))

        ends = (lambda: Completion("break"), lambda: Completion("continue"))
        return self._leave_as([(has_returned, to_return), *zip(left, ends)], node)

    def _leave_as(
        self,
        ends: list[tuple[Any, Callable[[], Completion | None]]],
        node: Any,
        orelse: Callable[[], Completion | None] = do_nothing,
    ) -> Any:
        """Leave in the first of several ways whose flag is set; ``orelse`` where none is."""
        while ends:
            (flag, end), *ends = ends
            flag = self.settled_flag(flag)
            if isinstance(flag, Array):
                rest = partial(self._leave_as, ends, node, orelse)
                return self.escaping(flag, end, rest, node)
            if flag:
                return end()
        return orelse()

    def settled_flag(self, flag: Any) -> Any:
        """A flag, known if the tests around decide it."""
        if not isinstance(flag, Array):
            return flag
        known = self.flags.follows(flag.atom, self.facts, self.builder.definitions)
        return flag if known is None else known

    def escaping(
        self,
        test: Array,
        then: Callable[[], Completion | None],
        orelse: Callable[[], Completion | None],
        node: Any,
    ) -> Completion | None:
        """A branch with an arm that may leave: both arms are interpreted up to the boundary."""
        call = self.call
        if call.blocks:
            self.fail(
                UnsupportedSyntax,
                node,
                "A run-time test, or a loop, leaves the block of a `with`.",
                "bind a name in the block, and return or break after it",
            )
        pending, flags = list(call.pending), self.flags_of_loop()

        def to_boundary(arm: Callable[[], Completion | None]) -> Completion:
            call.pending = list(pending)
            completion = arm()
            while completion is None and call.pending:
                completion = self.exec_block(call.pending.pop())
            return self._at_boundary(completion, flags)

        try:
            result = self.fork_of_chain(
                ("leaving", flags or call),
                *(test, lambda: to_boundary(then), lambda: to_boundary(orelse), node),
            )
        finally:
            call.pending = pending
        if isinstance(result, Completion):
            return result
        assert isinstance(result, Mismatch)
        self.ask_for(test)
        raise BranchMismatch(
            f"The results do not fit together: {result.message}.",
            self.origin(node),
            "return values of one structure and type on every path",
        )

    def _at_boundary(self, completion: Completion | None, flags: LoopFlags | None) -> Completion:
        if completion is not None and completion.kind == "raise":
            return completion
        if flags is None:
            if completion is None or completion.kind == "end":
                return Completion("return", None)
            return completion
        names = self.call.frame.locals
        if completion is not None and completion.kind in ("return", "break", "continue"):
            for name in [n for n in names if n.startswith(HIDDEN)]:
                del names[name]
        flags.note("normal" if completion is None else completion.kind, self.bound_names())
        if completion is not None and completion.kind == "continue" and flags.continued:
            names[flags.continued] = True
        elif completion is not None and completion.kind == "break":
            names[flags.broken] = True
        elif completion is not None and completion.kind == "return":
            names[flags.returned] = True
            if completion.value is DEAD and flags.scope is not None:
                names[flags.returned] = self.left_by_error(flags.scope)
            if completion.value is not DEAD:
                names[flags.value] = self.kept(completion.value, flags)
        return Completion("end")

    def kept(self, value: Any, flags: LoopFlags) -> Any:
        """A value returned from within a loop; arrays that its iterations store into are copied."""

        def apart(leaf: Any) -> Any:
            root = leaf.root() if isinstance(leaf, Array) and leaf.ndim else None
            if root is None or flags.stored.isdisjoint(map(id, (root, *root.partners))):
                return leaf
            copy = FUNCTIONS[np.copy](leaf)
            link(copy, root)
            return copy

        return map_tree(apart, value) if isinstance(value, (Array, tuple)) else value

    def bound_names(self) -> set[str]:
        """The user's local names that have a value on this path."""
        return {
            name
            for name, value in self.call.frame.locals.items()
            if not name.startswith("%")
            and value is not MISSING
            and not isinstance(value, Mismatch)
            and not (isinstance(value, TaggedValue) and value.may_be_missing())
            and not (isinstance(value, Array) and value._value in self.unsure)
        }

    def flags_of_loop(self) -> LoopFlags | None:
        """The flags of the innermost loop of this call; None directly in the function."""
        return self.call.flags
