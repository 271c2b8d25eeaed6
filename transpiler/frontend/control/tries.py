"""``try``: an error of the body goes to its handler, at run time if only then it is known.

An error within the body leaves it as a ``return`` leaves a function: a hidden name of the function
with the ``try`` is set, and everything up to the end of the body is passed over. After the body, a
branch on that name runs the handler. So the ways are branches, which every pass knows. An error
comes from a ``raise``, also in a function that the body calls, and from operations of which a
test tells that they raise (see ``raising``). A statement that may raise what a handler takes,
and that no test protects, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gast

from calque.transpiler.errors import UndefinedVariable, UnsupportedSyntax
from calque.transpiler.frontend.control import raising
from calque.transpiler.frontend.control.branch import LoopFlags
from calque.transpiler.frontend.control.float_errors import that_raise
from calque.transpiler.frontend.control.leaving_statements import escapes
from calque.transpiler.frontend.control.throws import Scope, Throws
from calque.transpiler.frontend.machine import Completion
from calque.transpiler.frontend.values.containers.container_kinds import MISSING
from calque.transpiler.frontend.values.descriptions import DEAD
from calque.transpiler.frontend.values.optional import Mismatch
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array

Way = tuple[Any, Callable[[], Completion | None]]  # a flag, and what to do where it is set


class Tries(Throws):
    """``try``, and the ways by which an error gets to a handler."""

    def exec_Try(self, node: Any) -> Completion | None:
        """``try`` with handlers, a clause without an error, and a clause in any case."""
        if node.finalbody:
            return self._and_finally(node)
        scope = self._scope(node)
        self.call.frame.locals.update(dict.fromkeys(scope.flags, False))
        before = len(self.builder.blocks[-1].statements)
        with self._handling(scope):
            dead, ends = self._to_end(lambda: self.exec_block(node.body), scope)
        self._check_recorded(node, scope, before)
        flags = [self.call.frame.locals.pop(name) for name in scope.flags]
        if dead is not None and not any(flag is not False for flag in flags):
            return dead
        ways: list[Way] = [
            (flag, partial(self._handle, node, scope, k))
            for k, flag in enumerate(flags)
            if flag is not False
        ]
        return self._continue(node, ways, ends)

    def _continue(self, node: Any, ways: list[Way], ends: list[Way]) -> Completion | None:
        """Run the handler to which an error has come, else leave as the body did, else go on."""
        if not ways:
            ends = [(self.settled_flag(flag), end) for flag, end in ends]
            if any(flag is not False for flag, _ in ends):
                return self._leave_as(ends, node, partial(self.exec_block, node.orelse))
            return self.exec_block(node.orelse)
        (flag, handle), *rest = ways
        flag = self.settled_flag(flag)
        if not isinstance(flag, Array):
            return handle() if flag else self._continue(node, rest, ends)
        others = partial(self._continue, node, rest, ends)
        blocks = [h.body for h in node.handlers]
        leaves = any(end is not False for end, _ in ends)
        if leaves or any(map(self.may_leave, [*blocks, node.orelse])):
            return self.leaving(flag, (handle, others), True, node)
        result = self.fork(flag, handle, others, node)
        return result if isinstance(result, Completion) else None

    def _scope(self, node: Any) -> Scope:
        kinds = [self._caught_by(h) for h in node.handlers]
        flags = [self.fresh_name("caught") for _ in kinds]
        return Scope(self.call, len(self.calls), kinds, flags, [[] for _ in kinds])

    def _caught_by(self, handler: Any) -> tuple[type, ...] | None:
        if handler.type is None:
            return (Exception,)
        try:
            kinds = self.evaluate(handler.type)
        except (UndefinedVariable, AttributeError):
            return None
        return kinds if isinstance(kinds, tuple) else (kinds,)

    @contextmanager
    def _handling(self, scope: Scope) -> Iterator[None]:
        """Inside, errors go to the handlers of a ``try``."""
        call, before = scope.call, scope.call.throws
        call.throws = True
        self.scopes.append(scope)
        try:
            yield
        finally:
            self.scopes.pop()
            call.throws = before

    def _to_end(
        self, action: Callable[[], Completion | None], scope: Scope | None = None
    ) -> tuple[Completion | None, list[Way]]:
        """Run statements to their own end; how they are left is told by flags, with their ways."""
        call, names = self.call, self.call.frame.locals
        outer, pending, blocks = call.flags, call.pending, call.blocks
        broken, returned, value = map(self.fresh_name, ("broken", "returned", "value"))
        flags = LoopFlags(broken, returned, value)
        flags.continued, flags.scope = self.fresh_name("continued"), scope
        hidden = (flags.returned, flags.broken, flags.continued)
        names.update(dict.fromkeys(hidden, False))
        if call.consume is not None:  # a generator: it has nothing to return
            names[flags.value] = None
        call.flags, call.pending, call.blocks = flags, [], 0
        try:
            completion = self._at_boundary(action(), flags)
        finally:
            call.flags, call.pending, call.blocks = outer, pending, blocks
        has_returned, *left = (names.pop(name, False) for name in hidden)
        given = names.pop(flags.value, MISSING)
        caught = [names[name] for name in (scope.flags if scope is not None else ())]
        self._note_presence(flags.at_end or set(), [*caught, has_returned, *left])

        def to_return() -> Completion:
            return Completion("return", DEAD if given is MISSING else given)

        ends = (lambda: Completion("break"), lambda: Completion("continue"))
        dead = completion if completion.kind == "raise" else None
        return dead, [(has_returned, to_return), *zip(left, ends, strict=True)]

    def _note_presence(self, bound: set[str], flags: list[Any]) -> None:
        """Note that names have a value where the statements have been run to their end."""
        presence: Any = True
        for flag in reversed([flag for flag in flags if isinstance(flag, Array)]):
            presence = (flag.atom, False, presence)
        values = [self.call.frame.locals.get(name) for name in sorted(bound)]
        for value in values:
            if isinstance(value, Array) and self.is_unsure(value):
                self.presence[value._value] = presence

    def _handle(self, node: Any, scope: Scope, place: int) -> Completion | None:
        """Interpret a handler."""
        handler, errors = node.handlers[place], scope.errors[place]
        name = getattr(handler.name, "id", handler.name)
        names = self.call.frame.locals
        if scope.kinds[place] is None:
            self.evaluate(handler.type)  # raises
        if name is not None:
            self.write_name(name, self._caught(errors, node), handler)
        self.handled.append(errors)
        try:
            completion = self.exec_block(handler.body)
        finally:
            self.handled.pop()
        if name is not None:
            names.pop(name, None)
        return completion

    def _caught(self, errors: list[Exception], node: Any) -> Any:
        """The error that a handler names, if there is one that may come."""
        if len({(type(e), str(e)) for e in errors}) == 1 and not hasattr(errors[0], "unknown"):
            return errors[0]
        message = "it is an error of which only the run shows the text"
        return Mismatch(message, self.origin(node))

    def raised_again(self, node: Any) -> Completion:
        """``raise`` within a handler: the error that came to it."""
        errors = self.handled[-1] if self.handled else []
        kinds = {(type(e), str(e)) for e in errors}
        if len(kinds) != 1:
            self.fail(
                UnsupportedSyntax,
                node,
                "A bare `raise` is supported where one error only may have come to the handler.",
                "name the error: `raise ValueError(...)`",
            )
        return self.raised(type(errors[0]), list(errors[0].args), {}, node)

    # finally

    def _and_finally(self, node: Any) -> Completion | None:
        """``try ... finally``: the clause runs however the body is left."""
        if escapes(node.finalbody):
            self.fail(
                UnsupportedSyntax,
                node.finalbody[0],
                "A `finally` clause that returns, breaks or continues hides the errors of its "
                "`try`.",
                "leave after the `try` statement",
            )
        before = len(self.builder.blocks[-1].statements)
        body = node.body
        if node.handlers:
            inner = gast.Try(node.body, node.handlers, node.orelse, [])
            body = [gast.copy_location(inner, node)]
        elif node.orelse:
            body = [*node.body, *node.orelse]
        dead, ends = self._to_end(lambda: self.exec_block(body))
        if dead is not None:
            return dead
        completion = self._finally(node, len(self.builder.blocks[-1].statements) != before)
        return completion if completion is not None else self._leave_as(ends, node)

    def _finally(self, node: Any, recorded: bool) -> Completion | None:
        """Run the ``finally`` clause; refuse one whose effects must survive a run-time error."""
        statements = self.builder.blocks[-1].statements
        first, held = len(statements), [(cell, cell._value) for cell in self.arguments]
        self.call.blocks += 1
        try:
            completion = self.exec_block(node.finalbody)
        finally:
            self.call.blocks -= 1
        new = core.walk(core.Block(statements[first:]))
        seen = any(isinstance(s, core.Effect) for s in new)
        if recorded and (seen or any(cell._value is not value for cell, value in held)):
            self._refuse_try(node)
        return completion

    def _refuse_try(self, node: Any, what: str = "`try`") -> None:
        self.fail(
            UnsupportedSyntax,
            node,
            f"{what} is not supported around run-time code.",
            "test the condition with if",
        )

    def _check_recorded(self, node: Any, scope: Scope, before: int) -> None:
        """Refuse recorded code that may raise an error for which there is a handler."""
        new = self.builder.blocks[-1].statements[before:]
        floats = any(kinds and FloatingPointError in kinds for kinds in scope.kinds)
        floats = floats and bool(that_raise(self))
        for s in core.walk(core.Block(new)):
            if id(s) in self.tested:
                continue
            if floats:
                self._refuse_warnings(s, node)
            for kind in raising.kinds_of_statement(s, self.error_classes):
                place = scope.handler_of(kind)
                if place is not None and scope.kinds[place] is not None:
                    raise UnsupportedSyntax(
                        f"This may raise {kind.__name__} at run time, and a `try` around has a "
                        "handler for it.",
                        s.origin or self.origin(node),
                        "test the condition with if",
                    )

    def _refuse_warnings(self, s: Any, node: Any) -> None:
        """Refuse to handle what NumPy raises in the place of a warning, where it is told to."""
        if isinstance(s, core.Apply) and any(o.type.dtype.kind in "fc" for o in s.outs):
            raise UnsupportedSyntax(
                "This may raise FloatingPointError at run time, if NumPy is told to, and a `try` "
                "around has a handler for it.",
                s.origin or self.origin(node),
                "test the result with np.isfinite",
            )


def as_branch(node: Any) -> Any:
    """``assert`` as a branch that raises."""
    error: Any = gast.Name("AssertionError", gast.Load(), None, None)
    args = [] if node.msg is None else [node.msg]
    made = gast.Raise(gast.Call(error, args, []), None)
    branch = gast.If(node.test, [gast.Pass()], [made])
    for part in (branch, *branch.body, made, made.exc, error):
        gast.copy_location(part, node)
    return branch
