"""Generators: their code is inlined where a ``for`` consumes them.

The body of the ``for`` stands in the place of each ``yield``, as Python would interleave the two.
Where the ``for`` may be left, so may the generator: after a ``yield`` it returns.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gast

from calque.transpiler.errors import CalqueError, UnsupportedSyntax
from calque.transpiler.frontend.control.branch import LoopFlags
from calque.transpiler.frontend.control.leaving_statements import escapes
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.machine import Activation, Args, Closure, Completion, Kwargs
from calque.transpiler.frontend.source import assigned_functions, bound_names
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.iterables import (
    Endless,
    Generator,
    MappedElements,
    positional,
    sequence,
)
from calque.transpiler.frontend.values.key_presence import VIEWS
from calque.transpiler.frontend.values.lists import Lists
from calque.transpiler.frontend.values.stepwise import Map
from calque.transpiler.ir.builder import Array

_SCOPES = (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda, gast.ClassDef)
_bodies: dict[tuple[Any, bool], list[Any]] = {}


class Generators(Lists):
    """``yield``, and the loops that consume yielded values."""

    def exec_For(self, node: Any) -> Completion | None:
        """``for target in iterable``, which may be a generator."""
        source = self.iterated(self.evaluate(node.iter), node.iter)
        if not isinstance(source, Generator) or not isinstance(source.started, bool):
            return self.for_over(node, source)
        self.start(source, node.iter)
        consumer, leaves = self.call, escapes(node.body, leaving=(gast.Break,))
        names = consumer.frame.locals
        with self._loop(node) as flags, self.at(node):

            def consume(value: Any) -> Any:
                self.calls.append(consumer)
                try:
                    self.assign(node.target, value, node)
                    return self._left(self._body(node), flags, node)
                finally:
                    self.calls.pop()

            completion = self.run_generator(source, consume, leaves)
            if completion is not None and completion.kind == "raise":
                return completion
            return self._after(node, flags, names[flags.broken])

    def _left(self, completion: Completion | None, flags: LoopFlags, node: Any) -> Any:
        """The flag, perhaps a run-time value, that the body of a ``for`` has left it."""
        if completion is not None and completion.kind == "raise":
            return completion
        if completion is not None:
            self._record_exit(completion, flags)
        return self._stopped(flags, node)

    def start(self, source: Generator, node: Any) -> None:
        """Mark a generator as started; refuse one that has started, since it runs only once."""
        if source.started is not False:
            self.fail(
                UnsupportedSyntax,
                node,
                f"The generator {source.closure.name} is consumed a second time, or in a loop.",
                "make a list of it first: list(...)",
            )
        source.started = True

    def run_generator(
        self, source: Generator, consume: Callable[[Any], Any], leaves: bool
    ) -> Completion | None:
        """Interpret the code of a generator; ``consume`` tells after each value if it is left."""
        self.calls.append(self.activation(source, consume))
        try:
            return self.exec_block(self.body_of(source, leaves))
        except CalqueError as error:
            if error.origin is not None and error.origin.file == polyfills.__file__:
                if source.closure.source.file == polyfills.__file__:
                    error.origin = source.origin
            raise
        finally:
            self.calls.pop()

    def body_of(self, source: Generator, leaves: bool) -> list[Any]:
        """The code of a generator, each ``yield`` a statement."""
        key = (source.closure.node, leaves)
        if key not in _bodies:
            _bodies[key] = _Yields(source.closure, leaves).body()
        return _bodies[key]

    def activation(self, source: Generator, consume: Callable[[Any], Any] | None) -> Activation:
        """The call in which a generator's code runs."""
        closure = source.closure
        nonlocals, written = assigned_functions(closure.node)
        return Activation(
            *(source.frame, closure.source, closure.globals, closure.cells),
            *(nonlocals, written, closure.node),
            consume=consume,
            place=source.origin,
        )

    def exec_YieldHere(self, node: Any) -> Completion | None:
        """One ``yield``: the consumer's turn."""
        value = None if node.value is None else self.evaluate(node.value)
        consume = self.call.consume
        assert consume is not None
        stop = consume(value)
        if isinstance(stop, Completion):
            return stop
        if not isinstance(stop, Array):
            return Completion("return") if stop else None
        return self.escaping(stop, lambda: Completion("return"), lambda: None, node)

    def generator(self, closure: Closure, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """The generator that a call of a generator function makes."""
        frame = Frame({}, closure.frame, names=bound_names(closure.node))
        self.bind(closure, frame, args, kwargs, node)
        origin = closure.source.origin(first_yield(closure.node))
        return self.own(Generator(closure, frame, origin))

    def eval_GeneratorExp(self, node: Any) -> Any:
        """A generator expression: the first iterable is evaluated now, the rest when it runs."""
        return self._expression(node, self.evaluate(node.generators[0].iter))

    def lazy_expression(self, node: Any) -> Any:
        """A generator expression for a function that reads it in steps: ``map`` where possible."""
        first = self.evaluate(node.generators[0].iter)
        source = self.iterated(first, node)
        found = sequence(source)
        if not _one_by_one(node) or isinstance(source, (Generator, Endless)):
            return self._expression(node, source)
        function = self.closure(_as_lambda(node), "lambda")
        if found is None or found.cursor is not None:
            return Map(function, [self.steps(source, node)], node)
        call = lambda value: self.call_value(function, [value], {}, node)
        return MappedElements(call, [positional(source)])

    def _expression(self, node: Any, first: Any) -> Any:
        if any(isinstance(n, gast.NamedExpr) for n in gast.walk(node)):
            self.fail(UnsupportedSyntax, node, "`:=` in a generator expression.", "use a loop")
        if isinstance(first, (dict, set, frozenset, *VIEWS)):
            first = self.steps(first, node)  # of another size by then: an error
        call, values = self.call, self.fresh_name("values")
        closure = Closure(
            *(call.source, _as_function(node, values), call.frame, call.globals, call.cells),
            *((), {}, "expression"),
        )
        return self.own(Generator(closure, Frame({values: first}, call.frame), self.origin(node)))


def _one_by_one(node: Any) -> bool:
    """True if a generator expression yields one value for each element that it runs over."""
    first, *rest = node.generators
    named = any(isinstance(n, gast.NamedExpr) for n in gast.walk(node))
    return not (rest or first.ifs or named) and isinstance(first.target, gast.Name)


def first_yield(node: Any) -> Any:
    """A ``yield`` of a function's own code, which makes it a generator function; or None."""
    pending = list(node.body) if isinstance(node.body, list) else [node.body]
    while pending:
        item = pending.pop()
        if isinstance(item, (gast.Yield, gast.YieldFrom)):
            return item
        if not isinstance(item, _SCOPES):
            pending += gast.iter_child_nodes(item)
    return None


class YieldHere(gast.Pass):
    """A ``yield`` that is a statement."""

    def __init__(self, value: Any, leaves: bool):
        super().__init__()
        self.value, self.leaves = value, leaves


class _Yields(gast.NodeTransformer):
    """Makes statements of the yields in a generator's code."""

    def __init__(self, closure: Closure, leaves: bool):
        self.closure, self.leaves = closure, leaves

    def body(self) -> list[Any]:
        """The generator's statements."""
        made: list[Any] = []
        body = self.closure.node.body
        if not isinstance(body, list):  # a lambda
            body = [gast.copy_location(gast.Expr(body), body)]
        for statement in copy.deepcopy(body):
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    def visit(self, node: Any) -> Any:
        """Nested functions have yields of their own."""
        return node if isinstance(node, _SCOPES) else super().visit(node)

    def visit_Expr(self, node: Any) -> Any:
        """``yield value``, ``yield from values``."""
        if isinstance(node.value, gast.Yield):
            return gast.copy_location(YieldHere(node.value.value, self.leaves), node)
        if not isinstance(node.value, gast.YieldFrom):
            return self.generic_visit(node)
        name = "%yielded"
        target, read = (
            gast.copy_location(gast.Name(name, context, None, None), node)
            for context in (gast.Store(), gast.Load())
        )
        turn = gast.copy_location(YieldHere(read, self.leaves), node)
        loop = gast.For(target, node.value.value, [turn], [], None)
        return gast.copy_location(loop, node)

    def visit_Yield(self, node: Any) -> Any:
        """Refuse a ``yield`` whose value is used: the values sent to a generator are not known."""
        raise UnsupportedSyntax(
            "The value of a `yield` is used.",
            self.closure.source.origin(node),
            "pass values to the function as arguments",
        )

    visit_YieldFrom = visit_Yield


def _as_lambda(node: Any) -> Any:
    """The function of one element that a generator expression is."""
    name = gast.copy_location(node.generators[0].target, node.elt)
    spec = gast.arguments([name], [], None, [], [], None, [])
    return gast.copy_location(gast.Lambda(spec, node.elt), node.elt)


def _as_function(node: Any, values: str) -> Any:
    """A generator expression as the generator function that it is."""
    first, *rest = node.generators
    value = gast.copy_location(gast.Yield(node.elt), node.elt)
    body: Any = gast.copy_location(gast.Expr(value), node.elt)
    read = gast.copy_location(gast.Name(values, gast.Load(), None, None), first.iter)
    clauses = [(first.target, read, first.ifs), *((c.target, c.iter, c.ifs) for c in rest)]
    for target, iterable, tests in reversed(clauses):
        for test in reversed(tests):
            body = gast.copy_location(gast.If(test, [body], []), test)
        body = gast.copy_location(gast.For(target, iterable, [body], [], None), iterable)
    none = gast.arguments([], [], None, [], [], None, [])
    made = gast.FunctionDef("expression", none, [body], [], None, None, [])
    return gast.copy_location(made, node)
