"""``next`` of a generator: its code is run up to the next ``yield`` each time.

Its position is state of Python's own, which no branch or loop of the program can restore: a step
is taken only in the branch and loop where the generator was first read, and only if its tests and
loops around a ``yield`` are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gast

from calque.transpiler.errors import NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.control.generator import YieldHere
from calque.transpiler.frontend.machine import Activation, Machine
from calque.transpiler.frontend.values.iterables import Generator
from calque.transpiler.frontend.values.stepwise import Steps, stepping
from calque.transpiler.ir.builder import Array, current


class Stepper:
    """The code of one generator under way."""

    def __init__(self, machine: Machine, source: Generator, node: Any):
        machine.start(source, node)
        self.machine, self.source = machine, source
        self.place = (machine.loop_depth, len(machine.tests))
        self.call: Activation = machine.activation(source, None)
        self.call.blocks = 1  # no run-time test may leave it: what follows is not at hand
        self.steps: Iterator[Any] = self._block(machine.body_of(source, False))
        self.taken = 0
        self.error: Exception | None = None  # Python ends what has failed: it fails again

    def following(self, node: Any) -> Any:
        """The next value; StopIteration at the end."""
        machine = self.machine
        if (machine.loop_depth, len(machine.tests)) != self.place:
            raise NeedsKnownValue(
                "A generator is taken a step further in a run-time loop, or under a run-time test.",
                machine.origin(node),
                "make a list of it first: list(...), or write its steps into the loop",
            )
        if self.error is not None:
            raise self.error
        if self.taken != self.source.taken:
            raise NeedsKnownValue(
                "A generator was taken a step further where a loop had to be tried in two ways.",
                machine.origin(node),
                "make a list of it first: list(...)",
            )
        self.taken = self.source.taken = self.taken + 1
        try:
            return next(self.steps)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise

    def _here(self, action: Callable[[], Any]) -> Any:
        """Run something within the generator's own call."""
        calls = self.machine.calls
        calls.append(self.call)
        try:
            return action()
        finally:
            calls.pop()

    def _block(self, statements: list[Any]) -> Any:
        for statement in statements:
            end = yield from self._statement(statement)
            if end is not None:
                return end
        return None

    def _statement(self, node: Any) -> Any:
        machine = self.machine
        if isinstance(node, YieldHere):
            yield None if node.value is None else self._here(lambda: machine.evaluate(node.value))
            return None
        if not any(isinstance(part, YieldHere) for part in gast.walk(node)):
            return self._here(lambda: machine.execute(node))
        match node:
            case gast.If():
                return (yield from self._block(node.body if self._test(node) else node.orelse))
            case gast.While():
                return (yield from self._loop(node, self._iterations_of_while(node)))
            case gast.For():
                return (yield from self._loop(node, self._iterations_of_for(node)))
        return self._here(
            lambda: machine.fail(
                UnsupportedSyntax,
                node,
                f"A `yield` within `{type(node).__name__.lower()}`, taken step by step.",
                "make a list of it first: list(...)",
            )
        )

    def _test(self, node: Any) -> bool:
        test = self._here(lambda: self.machine.condition(node.test))
        if isinstance(test, Array):
            raise self.machine.builder.needs_known(test, "A test around a yield that next() meets")
        return bool(test)

    def _iterations_of_while(self, node: Any) -> Iterator[None]:
        while self._test(node):
            yield

    def _iterations_of_for(self, node: Any) -> Iterator[None]:
        machine = self.machine
        source = self._here(lambda: machine.iterated(machine.evaluate(node.iter), node.iter))
        steps = self._here(lambda: machine.steps(source, node.iter))
        while True:
            try:
                item = self._here(steps.following)
            except StopIteration:
                return
            self._here(lambda value=item: machine.assign(node.target, value, node))  # type: ignore[misc]
            yield

    def _loop(self, node: Any, iterations: Iterator[None]) -> Any:
        for _ in iterations:
            end = yield from self._block(node.body)
            if end is not None and end.kind == "break":
                return None
            if end is not None and end.kind != "continue":
                return end
        return (yield from self._block(node.orelse))


class GeneratorSteps(Steps):
    """A generator as an iterator: each step runs its code on to the next ``yield``."""

    def __init__(self, source: Generator):
        super().__init__()
        self.source = source

    def step(self) -> Any:
        """The value that the generator yields next."""
        if not isinstance(self.source.started, Stepper):
            self.source.started = Stepper(current().machine, self.source, None)
        return self.source.started.following(None)


def steps_of(value: Any) -> Any:
    """An iterator, read one element at a time, over a value."""
    return GeneratorSteps(value) if isinstance(value, Generator) else stepping(value)
