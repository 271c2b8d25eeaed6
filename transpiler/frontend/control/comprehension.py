"""Comprehensions and generator expressions, run as the loops they abbreviate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from calque.transpiler.frontend.call_kinds import CallKinds
from calque.transpiler.frontend.control.generator_steps import steps_of
from calque.transpiler.frontend.expressions import ELEMENT
from calque.transpiler.frontend.interpreter import PYTHON_ERRORS
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import Generator, Iterable
from calque.transpiler.ir.effects import has_effects


class Comprehensions(CallKinds):
    """Displays by comprehension. Each has a scope of its own, as in Python."""

    def eval_ListComp(self, node: Any) -> Any:
        """A list comprehension."""
        result = self.own(RecordedList())
        self.collect(result, node, lambda: self.append(result, self.evaluate(node.elt), node))
        return result

    def consumed(self, node: Any) -> Any:
        """An expression that is consumed at once: a generator's items may be computed now."""
        if isinstance(node, gast.GeneratorExp):
            with self.at(node):
                return self.eval_ListComp(node)
        return self.consumed_value(self.evaluate(node), node)

    def consumed_value(self, value: Any, node: Any) -> Any:
        """The items that a generator yields, as a list; any other value as it is."""
        if not isinstance(value, Generator):
            return value
        return self.listed(value, value.closure.node if node is None else node)

    def listed(self, values: Any, node: Any) -> Any:
        """The elements of any iterable, in a list of its own."""
        result = self.own(RecordedList())
        self.holding.append(result)
        try:
            self.each(values, node, lambda item: self.append(result, item, node))
        finally:
            self.holding.pop()
        return result

    def known_items(self, value: Any, node: Any) -> list[Any]:
        """The items of an iterable whose length is known."""
        value = self.iterated(value, node)
        return super().known_items(self.consumed_value(value, node), node)

    def steps(self, value: Any, node: Any) -> Any:
        """An iterator, read one element at a time, over a value."""
        with self.at(node):
            return steps_of(self.iterated(value, node))

    def eval_SetComp(self, node: Any) -> Any:
        """A set comprehension."""
        result: set[Any] = self.own(set())
        element = lambda: self.hashable(self.evaluate(node.elt), node.elt, ELEMENT)
        self.collect(result, node, lambda: result.add(element()))
        return result

    def eval_DictComp(self, node: Any) -> Any:
        """A dict comprehension."""
        result: dict[Any, Any] = self.own({})

        def add() -> None:
            key = self.hashable(self.evaluate(node.key), node.key)
            result[key] = self.evaluate(node.value)

        self.collect(result, node, add)
        return result

    def collect(self, result: Any, node: Any, action: Callable[[], None]) -> None:
        """Fill ``result``, which no name holds yet: branches and loops must see it change."""
        self.holding.append(result)
        try:
            self.comprehend(node.generators, action)
        finally:
            self.holding.pop()

    def comprehend(self, generators: list[Any], action: Callable[[], None]) -> None:
        """Run ``action`` in every iteration of nested generators, as the loops they abbreviate."""
        hook = _Hook(action)
        gast.copy_location(hook, generators[0].iter)
        body: Any = hook
        for generator in reversed(generators):
            for test in reversed(generator.ifs):
                body = gast.copy_location(gast.If(test=test, body=[body], orelse=[]), test)
            loop = gast.For(
                target=generator.target,
                iter=generator.iter,
                body=[body],
                orelse=[],
                type_comment=None,
            )
            body = gast.copy_location(loop, generator.iter)
        call = self.call
        outer, pending, flags = call.frame, call.pending, call.flags
        call.frame, call.pending = Frame({}, outer, comprehension=True), []
        throws, call.throws = call.throws, False
        try:
            self.exec_For(body)
        finally:
            call.frame, call.pending, call.flags, call.throws = outer, pending, flags, throws

    def each(self, values: Any, node: Any, action: Callable[[Any], None]) -> None:
        """Run ``action`` on every element, in a loop of the program if need be."""
        fold(self, node, values, None, lambda _, item: action(item))

    def exec__Hook(self, node: Any) -> None:
        """The innermost action of a comprehension."""
        node.action()


class _Hook(gast.Pass):
    """A statement that runs Python."""

    def __init__(self, action: Callable[[], None]):
        super().__init__()
        self.action = action


def unless_changed(
    machine: Comprehensions,
    source: Any,
    quick: Callable[[], Any],
    exact: Callable[[], Any],
    effects: bool = True,
) -> Any:
    """Return the result of ``quick`` if it changes nothing that can be read later.

    Else it is undone, and ``exact`` consumes the source: it stops where Python does, and goes on in
    Python's order. ``effects``: an error, or what is printed, counts as a change.
    """
    base, marks = Snapshot([*machine.roots(), source], machine.owned), machine._marks()
    before = readable_later(Snapshot(machine.roots(), machine.owned))
    block = machine.builder.blocks[-1]
    count = len(block.statements)
    try:
        result = quick()
    except (*PYTHON_ERRORS, ArithmeticError, LookupError, TypeError, ValueError):
        pass  # of an element that Python may not reach
    else:
        changed = before.differs(Snapshot(machine.roots(), machine.owned))
        acts = effects and any(map(has_effects, block.statements[count:]))
        if not changed and not acts:
            return result
    base.restore()
    machine._back_to(marks)
    return exact()


def readable_later(moment: Snapshot) -> Snapshot:
    """The state that can be read later, without what can be consumed once only."""
    once = (Generator, Iterable)
    moment.contents = {k: v for k, v in moment.contents.items() if not isinstance(v[0], once)}
    return moment


def accumulate(machine: Comprehensions, generator: Any, start: Any, step: Any) -> Any:
    """``sum`` and the like over a generator expression: a loop that carries the result."""
    name = machine.fresh_name("result")
    names = machine.call.frame.locals
    names[name] = start

    def action() -> None:
        names[name] = step(names[name], machine.evaluate(generator.elt))

    machine.comprehend(generator.generators, action)
    return names.pop(name)


def fold(machine: Comprehensions, node: Any, values: Any, start: Any, step: Any) -> Any:
    """A loop over any iterable, written as the generator expression over it."""
    name = machine.fresh_name("values")
    item = machine.fresh_name("item")
    names = machine.call.frame.locals
    names[name] = values
    read = gast.Name(id=name, ctx=gast.Load(), annotation=None, type_comment=None)
    target = gast.Name(id=item, ctx=gast.Store(), annotation=None, type_comment=None)
    element = gast.Name(id=item, ctx=gast.Load(), annotation=None, type_comment=None)
    for part in (read, target, element):
        gast.copy_location(part, node)
    clause = gast.comprehension(target=target, iter=read, ifs=[], is_async=0)
    generator = gast.copy_location(gast.GeneratorExp(elt=element, generators=[clause]), node)
    result = accumulate(machine, generator, start, step)
    names.pop(name)
    return result
