"""``with``: context managers, whose steps run however a block is left.

A run-time test within the block of a ``with`` must not leave it: the code of the manager's exit
would have to be written in every arm.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import (
    CalqueError,
    SpecializationNeeded,
    UnrollingNeeded,
    UnsupportedSyntax,
)
from calque.transpiler.frontend.control.branch import PathEnds
from calque.transpiler.frontend.control.float_errors import set_by
from calque.transpiler.frontend.control.tries import Tries
from calque.transpiler.frontend.interpreter import PYTHON_ERRORS
from calque.transpiler.frontend.machine import Completion
from calque.transpiler.frontend.methods import method_of
from calque.transpiler.frontend.source import source_of
from calque.transpiler.frontend.values.containers.list_kinds import GrowingList
from calque.transpiler.frontend.values.iterables import Generator

_INTERNAL = (SpecializationNeeded, UnrollingNeeded, GrowingList, PathEnds, RecursionError)
Body = Callable[[Any], Completion | None]


class Contexts(Tries):
    """Context managers."""

    def exec_With(self, node: Any) -> Completion | None:
        """``with manager as name``: managers one by one, then the block."""
        return self._within(node, 0)

    def _within(self, node: Any, position: int) -> Completion | None:
        if position == len(node.items):
            return self.exec_block(node.body)
        item = node.items[position]

        def body(value: Any) -> Completion | None:
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, node)
            return self._within(node, position + 1)

        with self.at(item.context_expr):
            manager = self.evaluate(item.context_expr)
            if isinstance(manager, np.errstate):  # warnings are no part of a program
                before, self.float_errors = self.float_errors, self.float_errors | set_by(manager)
                try:
                    return body(None)
                finally:
                    self.float_errors = before
            if isinstance(manager, io.IOBase) and id(manager) in self.owned:
                return body(manager)  # what a file holds
            if isinstance(manager, contextlib.nullcontext):
                return body(manager.enter_result)
            if isinstance(manager, warnings.catch_warnings):
                self.catching += 1
                try:
                    with manager as log:
                        return body(log)
                finally:
                    self.catching -= 1
            if isinstance(manager, contextlib.suppress):
                return self._suppressed(manager, partial(body, None), item.context_expr)
            if isinstance(getattr(manager, "gen", None), Generator):
                return self._around_yield(manager.gen, body, item.context_expr)
            return self._between(manager, body, item.context_expr)

    def _suppressed(
        self, manager: Any, body: Callable[[], Completion | None], node: Any
    ) -> Completion | None:
        """``contextlib.suppress``: a handler that does nothing."""
        made = gast.Try([_Run(body)], [], [], [])
        kinds = gast.Constant(manager._exceptions, None)
        made.handlers = [gast.ExceptHandler(kinds, None, [gast.Pass()])]
        for part in (made, made.body[0], kinds, *made.handlers, *made.handlers[0].body):
            gast.copy_location(part, node)
        return self.exec_Try(made)

    def exec__Run(self, node: Any) -> Completion | None:
        """A statement that is interpreted by other means."""
        return node.body()

    @contextlib.contextmanager
    def _held(self, call: Any) -> Any:
        """Inside, no run-time test may leave the block."""
        call.blocks += 1
        try:
            yield
        finally:
            call.blocks -= 1

    def _around_yield(self, source: Generator, body: Body, node: Any) -> Completion | None:
        """``contextlib.contextmanager``: the block stands in the place of the ``yield``."""
        self.start(source, node)
        consumer, place = self.call, (self.loop_depth, len(self.tests))
        ends: list[Completion | None] = []

        def consume(value: Any) -> Any:
            if ends or (self.loop_depth, len(self.tests)) != place:
                raise UnsupportedSyntax(
                    "The generator of a context manager must yield once, and under no run-time "
                    "test or loop.",
                    source.origin,
                    "write a class with __enter__ and __exit__",
                )
            self.calls.append(consumer)
            ends.append(None)  # for a block whose error the generator handles
            try:
                ends[0] = end = body(value)
            finally:
                self.calls.pop()
            return end if end is not None and end.kind == "raise" else False

        with self._held(consumer):
            completion = self.run_generator(source, consume, leaves=False)
        if not ends:
            self.fail(UnsupportedSyntax, node, "The generator of this manager yields nothing.")
        dead = completion is not None and completion.kind == "raise"
        return completion if dead else ends[0]

    def _between(self, manager: Any, body: Body, node: Any) -> Completion | None:
        """A manager of the user's: ``__enter__``, the block, ``__exit__``."""
        enter, leave = method_of(manager, "enter"), method_of(manager, "exit")
        if enter is None or leave is None:
            self.fail(
                UnsupportedSyntax,
                node,
                f"`with {type(manager).__name__}` is not supported.",
                "write its steps as statements, or a manager class in Python",
            )
        before = len(self.builder.blocks[-1].statements)
        value = self.call_value(enter, [manager], {}, node)
        try:
            with self._held(self.call):
                completion = body(value)
        except _INTERNAL:
            raise
        except Exception as error:
            if not _of_python(error) or getattr(error, "calque_on_a_path", False):
                raise
            swallowed = self.call_value(leave, [manager, type(error), error, None], {}, node)
            if not self.truth(swallowed, node):
                raise
            if len(self.builder.blocks[-1].statements) != before:
                self._refuse_try(node, "A manager that handles errors")
            return None
        if len(self.builder.blocks[-1].statements) != before and _may_swallow(leave):
            self._refuse_try(node, "A manager that may handle errors")
        if completion is None or completion.kind != "raise":
            self.call_value(leave, [manager, None, None, None], {}, node)
        return completion


class _Run(gast.Pass):
    """A statement that is interpreted by other means."""

    def __init__(self, body: Callable[[], Completion | None]):
        super().__init__()
        self.body = body


def _of_python(error: Exception) -> bool:
    """True if plain Python would raise this error, too."""
    return not isinstance(error, CalqueError) or isinstance(error, PYTHON_ERRORS)


def _may_swallow(leave: Any) -> bool:
    """True if an ``__exit__`` may return something other than None and False."""
    returns = (n for n in gast.walk(source_of(leave).node) if isinstance(n, gast.Return))
    plain = (None, False)
    return any(
        not (r.value is None or (isinstance(r.value, gast.Constant) and r.value.value in plain))
        for r in returns
    )
