"""The ways by which an error within the body of a ``try`` gets to its handler.

An error leaves the body as a ``return`` leaves a function: a hidden name of the function with the
``try`` is set, and everything up to the end of the body is passed over (see ``tries``).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gast
import numpy as np

from calque.transpiler.frontend.callables import is_interpreted
from calque.transpiler.frontend.control import float_errors, raising
from calque.transpiler.frontend.control.chosen_elements import missing_key
from calque.transpiler.frontend.control.generator import Generators
from calque.transpiler.frontend.control.hoisting import HIDDEN, Hoisting
from calque.transpiler.frontend.control.leaving_statements import escapes
from calque.transpiler.frontend.control.python_errors import as_python_raises
from calque.transpiler.frontend.machine import Activation, Completion
from calque.transpiler.frontend.values.descriptions import DEAD
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.logic import or_

_ARITHMETIC = (gast.Div, gast.FloorDiv, gast.Mod, gast.Pow)
_BUILTINS = vars(builtins)
_NEVER = (abs, min, max, len, range, enumerate, zip, isinstance, print, super, list, tuple, dict)


@dataclass(eq=False)
class Scope:
    """The body of a ``try`` that is being interpreted, and its handlers."""

    call: Activation
    depth: int  # the number of calls around
    kinds: list[tuple[type, ...] | None]  # of each handler; None: no name of a class
    flags: list[str]  # hidden names, one for each handler: an error has come to it
    errors: list[list[Exception]] = field(default_factory=list)  # the errors that may come

    def handler_of(self, kind: type) -> int | None:
        """The place of the handler that takes errors of a class."""
        for place, kinds in enumerate(self.kinds):
            if kinds is None or issubclass(kind, kinds):
                return place
        return None


class Throws(Generators):
    """Errors on their way to handlers, and the expressions that may raise them."""

    # errors

    def handler_for(self, kind: type) -> tuple[Scope, int] | None:
        """The ``try`` around the present statement that handles errors of a class."""
        depth = len(self.calls)
        if not self.scopes or not self.call.throws:
            return None
        for scope in reversed(self.scopes):
            while depth > scope.depth:
                if not self.calls[depth - 1].throws_out:
                    return None
                depth -= 1
            place = scope.handler_of(kind)
            if place is not None:
                return scope, place
        return None

    def visible_scopes(self) -> list[Scope]:
        """The bodies of ``try`` that an error of the present statement may leave."""
        found: list[Scope] = []
        depth = len(self.calls)
        if not self.scopes or not self.call.throws:
            return found
        for scope in reversed(self.scopes):
            while depth > scope.depth:
                if not self.calls[depth - 1].throws_out:
                    return found
                depth -= 1
            found.append(scope)
        return found

    def throw(self, error: Exception) -> Completion:
        """Leave for the handler of an error."""
        found = self.handler_for(type(error))
        assert found is not None
        scope, place = found
        scope.call.frame.locals[scope.flags[place]] = True
        scope.errors[place].append(error)
        return self._passed_over()

    def left_by_error(self, scope: Scope) -> Any:
        """The flag of an error that goes on, past the handlers of this ``try``."""
        others = [s.call.frame.locals[f] for s in self.scopes if s is not scope for f in s.flags]
        if any(flag is True for flag in others):
            return True
        return self._any([flag for flag in others if isinstance(flag, Array)])

    def _any(self, tests: list[Array]) -> Any:
        """True where one of several tests holds."""
        test: Any = tests[0] if tests else False
        for other in tests[1:]:
            test = apply(or_, test, other)
        return test

    def _passed_over(self) -> Completion:
        """Leave the present call, or the body of a ``try`` in it, without a value."""
        names = self.call.frame.locals
        for name in [n for n in names if n.startswith(HIDDEN)]:
            del names[name]
        return Completion("return", DEAD)

    def thrown(self, error: Exception) -> Completion | None:
        """The way to the handler of an error met while translating; None if there is none."""
        if not self.scopes or getattr(error, "calque_on_a_path", False):
            return None
        meant = as_python_raises(error)
        if meant is None or self.handler_for(type(meant)) is None:
            return None
        return self.throw(meant)

    # expressions that may raise

    def may_leave(self, statements: list[Any]) -> bool:
        """True if statements may leave the block around: also by an error that is handled."""
        return escapes(statements) or (bool(self.visible_scopes()) and self._may_throw(statements))

    def _may_throw(self, statements: list[Any]) -> bool:
        marked: tuple[type, ...] = (gast.Raise, gast.Assert)
        if self._takes(IndexError, KeyError, TypeError):
            marked += (gast.Subscript,)
        if self._takes(AttributeError):
            marked += (gast.Attribute,)
        raises = self._raising_parts()
        return any(
            isinstance(part, marked) or (isinstance(part, gast.expr) and raises(part))
            for s in statements
            for part in gast.walk(s)
        )

    def _takes(self, *classes: type) -> bool:
        """True if a handler around takes errors of one of these classes."""
        kinds = [k for s in self.visible_scopes() for ks in s.kinds for k in ks or ()]
        return any(issubclass(c, k) for c in classes for k in kinds)

    def _raising_parts(self) -> Callable[[Any], bool]:
        """Tells the expressions that may raise an error which a handler around takes."""
        divides = self._takes(ZeroDivisionError, OverflowError)
        floats = self._takes(FloatingPointError) and bool(float_errors.that_raise(self))
        reads = self._takes(IndexError, KeyError)

        def raises(node: Any) -> bool:
            if isinstance(node, gast.Call):
                return self._call_may_throw(node) or (floats and self._is_ufunc(node))
            if isinstance(node, gast.BinOp):
                return floats or (divides and isinstance(node.op, _ARITHMETIC))
            return reads and isinstance(node, gast.Subscript) and isinstance(node.ctx, gast.Load)

        return raises

    def _call_may_throw(self, node: gast.Call) -> bool:
        """True unless a call is known to be of a function that raises no handled error."""
        function = self._seen(node.func)
        return not self._is_ufunc(node) and not any(function is f for f in _NEVER)

    def _is_ufunc(self, node: gast.Call) -> bool:
        return isinstance(self._seen(node.func), np.ufunc)

    def _seen(self, node: Any) -> Any:
        """The value of a name of a module, without reading it for the program; else None."""
        if isinstance(node, gast.Attribute):
            owner = self._seen(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, type(np)) else None
        if not isinstance(node, gast.Name):
            return None
        frame: Any = self.call.frame
        while frame is not None:
            if node.id in frame.locals or node.id in frame.names:
                return frame.locals.get(node.id) if node.id in frame.locals else None
            frame = frame.parent
        if node.id in self.call.cells:
            return None
        return self.call.globals.get(node.id, _BUILTINS.get(node.id))

    def tests_may_throw(self, test: Any) -> bool:
        """True if the test of a loop has a part that may raise what a handler takes."""
        return bool(self.visible_scopes()) and Hoisting(self._raising_parts()).may_raise(test)

    def hoisted(self, statement: Any) -> list[Any] | None:
        """The statements to run in the place of one that may raise what a handler takes."""
        if not self.visible_scopes():
            return None
        return Hoisting(self._raising_parts()).of(statement)

    def exec_Hoisted(self, node: Any) -> Completion | None:
        """Bind a hidden name to an expression that may raise."""
        value = node.value
        with self.at(value):
            if isinstance(value, gast.BinOp):
                left, right = self.evaluate(value.left), self.evaluate(value.right)
                found = raising.of_operator(type(value.op), left, right)
                compute = lambda: self.binary(type(value.op), left, right, value)
                if found:
                    return self._unless_raising(found, compute, node)
                return self._unless_invalid(type(value.op), [left, right], compute, node)
            if isinstance(value, gast.Subscript):
                owner, index = self.evaluate(value.value), self.evaluate(value.slice)
                found = [*raising.of_index(owner, index), *missing_key(self, owner, index, value)]
                return self._unless_raising(
                    found, lambda: self.subscript(owner, index, value), node
                )
            return self._hoisted_call(node)

    def exec_Forgotten(self, node: Any) -> None:
        """Forget hidden names."""
        for name in node.names:
            self.call.frame.locals.pop(name, None)

    def _unless_raising(
        self,
        found: list[raising.Raising],
        compute: Callable[[], Any],
        node: Any,
        tested: bool = False,
    ) -> Completion | None:
        """Compute a value where no test holds; else leave with an error."""
        tested = tested or bool(found)
        for place, (test, kind, text) in enumerate(found):
            if self.handler_for(kind) is None or not isinstance(test, (Array, bool, np.bool_)):
                continue
            error = kind(text)
            error.unknown = True  # type: ignore[attr-defined]
            if isinstance(test, Array):
                rest = partial(self._unless_raising, found[place + 1 :], compute, node, tested)
                return self.escaping(test, partial(self.throw, error), rest, node)
            if test:
                return self.throw(error)
        statements = self.builder.blocks[-1].statements
        before = len(statements)
        value = compute()
        if tested:
            self.tested.update((id(s), s) for s in core.walk(core.Block(statements[before:])))
        self.call.frame.locals[node.name] = value
        return None

    def _unless_invalid(
        self, operation: Any, operands: list[Any], compute: Callable[[], Any], node: Any
    ) -> Completion | None:
        """Compute a value; leave with an error where NumPy is told to raise one."""
        if not self._takes(FloatingPointError):
            return self._unless_raising([], compute, node)
        statements = self.builder.blocks[-1].statements
        before = len(statements)
        tried = compute()  # apart from the value, whose derivative is of one path only
        kinds = float_errors.that_raise(self)
        found = float_errors.of_operation(operation, operands, tried, kinds)
        self.tested.update((id(s), s) for s in core.walk(core.Block(statements[before:])))
        return self._unless_raising(found, compute, node, True)

    def _hoisted_call(self, node: Any) -> Completion | None:
        call = node.value
        function = self.evaluate(call.func)
        if not raises_by_itself(function):
            args, kwargs = self.arguments_of(function, call)
            found = raising.of_call(function, args, kwargs)
            compute = lambda: self.call_value(function, args, kwargs, call)
            if not found and isinstance(function, np.ufunc) and not kwargs:
                return self._unless_invalid(function, args, compute, node)
            return self._unless_raising(found or [], compute, node)
        flags = [(scope, name) for scope in self.visible_scopes() for name in scope.flags]
        before = [_flag(place) for place in flags]
        args, kwargs = self.arguments_of(function, call)
        self.site = call
        try:
            value = self.call_value(function, args, kwargs, call)
        finally:
            self.site = None
        changed = [p for p, old in zip(flags, before, strict=True) if not _same(_flag(p), old)]
        if any(_flag(place) is True for place in changed):
            return self._passed_over()
        self.call.frame.locals[node.name] = value
        return self._unless_thrown(changed, node)

    def _unless_thrown(self, places: list[tuple[Scope, str]], node: Any) -> Completion | None:
        """Go on where a call has sent no error to the handlers with these flags."""
        if not places:
            return None
        (scope, name), *rest = places
        flag = scope.call.frame.locals[name]

        def leaves() -> Completion:
            scope.call.frame.locals[name] = True
            return self._passed_over()

        def goes_on() -> Completion | None:
            scope.call.frame.locals[name] = False
            return self._unless_thrown(rest, node)

        if not isinstance(flag, Array):
            return goes_on()
        return self.escaping(flag, leaves, goes_on, node)


def raises_by_itself(function: Any) -> bool:
    """True for a function, method or class of the user's, whose errors leave it by themselves."""
    if isinstance(function, type):
        init = function.__init__  # type: ignore[misc]
        return is_interpreted(init)
    return is_interpreted(getattr(function, "__func__", function))


def _flag(place: tuple[Scope, str]) -> Any:
    scope, name = place
    return scope.call.frame.locals[name]


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, Array) and isinstance(two, Array):
        return one._value is two._value
    return one is two
