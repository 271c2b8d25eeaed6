"""Statements other than branches and loops: assignments, stores, effects, definitions."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import (
    DtypeError,
    IndexOutOfRange,
    SpecializationNeeded,
    UndefinedVariable,
    UnsupportedSyntax,
)
from calque.transpiler.frontend.attribute_writes import set_attribute
from calque.transpiler.frontend.callables import is_interpreted
from calque.transpiler.frontend.comparisons import always
from calque.transpiler.frontend.control.chosen_elements import NEW_KEY, store_in_dict
from calque.transpiler.frontend.control.leaving_statements import surely_leaves
from calque.transpiler.frontend.control.tagged_reads import TaggedReads
from calque.transpiler.frontend.control.tries import as_branch
from calque.transpiler.frontend.expressions import BINARY
from calque.transpiler.frontend.machine import Args, Completion, Kwargs
from calque.transpiler.frontend.methods import in_place
from calque.transpiler.frontend.mixed_operations import added_to, holds_mixed, stored
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.frontend.values.kinds import check_items
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.opaque_objects import is_opaque
from calque.transpiler.frontend.values.strings import UNKNOWN, RuntimeText, display
from calque.transpiler.ir.builder import OPERATORS, Array, type_of
from calque.transpiler.ir.numpy_errors import asked
from calque.transpiler.primitives.indexing import store_add


class Statements(TaggedReads):
    """A method for each kind of statement, which returns how it ended (None: normally)."""

    def exec_block(self, statements: list[Any]) -> Completion | None:
        """Statements in order; the rest is kept for branches that must run on to the boundary."""
        pending = self.call.pending
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            if rest:
                pending = self.call.pending
                pending.append(rest)
            depth = len(self.call.pending)
            completion = self.execute(statement)
            if rest and len(self.call.pending) == depth:
                self.call.pending.pop()
            if completion is not None:
                return completion
        return None

    def execute(self, node: Any) -> Completion | None:
        """One statement."""
        if len(self.calls) == 1 or self.call.is_quoted:
            self.statement = (self.call.source.text(node), node.lineno)
        with self.at(node):
            method = getattr(self, f"exec_{type(node).__name__}", None)
            if method is None:
                return self._refuse(node)
            try:
                if self.scopes and (instead := self.hoisted(node)) is not None:
                    return self.exec_block(instead)
                return self.executed(node, method)
            except Exception as error:
                completion = self.thrown(error)
                if completion is None and isinstance(error, (IndexOutOfRange, ZeroDivisionError)):
                    return self.raise_if_reached(error)
                if completion is None:
                    raise
                return completion

    def _refuse(self, node: Any) -> Any:
        reasons = {
            "AsyncFor": ("`async` is not supported.", None),
            "AsyncWith": ("`async` is not supported.", None),
            "AsyncFunctionDef": ("`async` is not supported.", None),
            "TypeAlias": ("A type cannot be named here.", "write it outside the function"),
            "TryStar": ("`except*` is not supported.", "write `except`"),
            "ClassDef": ("A class cannot be defined here.", "define it outside the function"),
        }
        message, hint = reasons.get(
            type(node).__name__, (f"{type(node).__name__} is not supported.", None)
        )
        return self.fail(UnsupportedSyntax, node, message, hint)

    def exec_Pass(self, node: Any) -> None:
        """``pass``."""

    def exec_Expr(self, node: Any) -> None:
        """An expression for its effect."""
        if not isinstance(node.value, gast.Constant):
            self.evaluate(node.value)

    def exec_Return(self, node: Any) -> Completion:
        """``return``."""
        value = None if node.value is None else self.unread_value(node.value)
        self.return_origin = self.origin(node)
        return Completion("return", value)

    def exec_Break(self, node: Any) -> Completion:
        """``break``."""
        return Completion("break")

    def exec_Continue(self, node: Any) -> Completion:
        """``continue``."""
        return Completion("continue")

    def exec_Global(self, node: Any) -> None:
        """``global``: reading is fine, writing is refused where it happens."""

    exec_Nonlocal = exec_Global

    def exec_Import(self, node: Any) -> None:
        """``import`` within a function."""
        for alias in node.names:
            module = __import__(alias.name)
            if alias.asname:
                for part in alias.name.split(".")[1:]:
                    module = getattr(module, part)
            self._imported(alias.asname or alias.name.split(".")[0], module)

    def exec_ImportFrom(self, node: Any) -> None:
        """``from module import name`` within a function."""
        names, where = [a.name for a in node.names], self.call.globals
        module = __import__(node.module or "", where, None, names, node.level)
        for alias in node.names:
            self._imported(alias.asname or alias.name, getattr(module, alias.name))

    def _imported(self, name: str, value: Any) -> None:
        """Bind what an import gives."""
        scope: Any = self.call.frame.locals
        if name in self.call.globals_written:
            scope = self.call.globals  # as a call of the function itself does it, once for all
        scope[name] = value

    def exec_FunctionDef(self, node: Any) -> None:
        """A nested function."""
        value: Any = self.closure(node, node.name)
        for decorator in reversed(node.decorator_list):
            value = self.call_value(self.evaluate(decorator), [value], {}, decorator)
        self.write_name(node.name, value, node)

    def exec_Delete(self, node: Any) -> None:
        """``del``."""
        for target in node.targets:
            if isinstance(target, gast.Name):
                if target.id not in self.call.frame.locals:
                    self.fail(UndefinedVariable, target, f"name '{target.id}' is not defined.")
                del self.call.frame.locals[target.id]
            elif isinstance(target, gast.Subscript):
                container = self.evaluate(target.value)
                if isinstance(container, Array):
                    self.fail(UnsupportedSyntax, target, "Elements of an array cannot be deleted.")
                index = self.evaluate(target.slice)
                if rows_of(container) is not None:
                    self.delete_elements(container, index, target)
                    continue
                self.check_writable(container, target, "This deletion")
                if isinstance(container, list):
                    self.check_not_walked(container, target, "This deletion")
                if isinstance(container, (list, dict)):
                    del container[self.hashable(index, target)]
                else:
                    method = type(container).__delitem__
                    self.call_value(method, [container, index], {}, target)
            else:
                self.fail(UnsupportedSyntax, target, "This cannot be deleted.")

    # assignment

    def exec_Assign(self, node: Any) -> None:
        """``a = b = value``."""
        patterns = all(isinstance(t, (gast.Tuple, gast.List)) for t in node.targets)
        value = self._handed(node.value, patterns)
        for target in node.targets:
            self.assign(target, value, node)

    def _handed(self, node: Any, patterns: bool) -> Any:
        """The value of an assignment; for patterns, a generator's items in a list."""
        with self.handing_on(node):
            return self.consumed(node) if patterns else self.evaluate(node)

    def exec_AnnAssign(self, node: Any) -> None:
        """``a: type = value``."""
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value), node)

    def assign(self, target: Any, value: Any, node: Any) -> None:
        """Bind a target: a name, a pattern, an element, an attribute."""
        if isinstance(target, gast.Name):
            self.write_name(target.id, value, target)
        elif isinstance(target, (gast.Tuple, gast.List)):
            self._unpack(target, value, node)
        elif isinstance(target, gast.Subscript):
            container = self.evaluate(target.value)
            index = self.evaluate(target.slice)
            with self.at(target):
                self.store(container, index, value, target)
        elif isinstance(target, gast.Attribute):
            owner = self.evaluate(target.value)
            self.set_attribute(owner, target.attr, value, target)
        else:
            self.fail(UnsupportedSyntax, target, "This cannot be assigned to.")

    def set_attribute(self, owner: Any, name: str, value: Any, node: Any) -> None:
        """``owner.name = value``."""
        set_attribute(self, owner, name, value, node)

    def store(self, container: Any, index: Any, value: Any, node: Any) -> None:
        """``container[index] = value``."""
        if isinstance(container, Array):
            check_items(container, stores=True)
            if isinstance(index, slice) or not _holds(container, value):
                self.check_apart(container, node)
            if holds_mixed([index, value]):
                again = lambda index, value: self.store(container, index, value, node)
                return stored(self, container, index, value, again)
            return asked(operator.setitem, OPERATORS["setitem"], container, gathered(index), value)
        if hasattr(container, "calque_store"):
            return container.calque_store(index, value)
        self.check_writable(container, node, "This store")
        if isinstance(container, list):
            self.replace_element(container, index, value, node)
        elif isinstance(container, dict):
            unrolled = self.loops_around() and not self.indexing
            if unrolled and isinstance(index, Array) and not self._is_of_data(index.atom):
                self.hashable(index, node, NEW_KEY)  # an unrolled loop may know it
            store_in_dict(self, container, index, value, node)
        else:
            self.call_value(type(container).__setitem__, [container, index, value], {}, node)

    def _unpack(self, target: Any, value: Any, node: Any) -> None:
        given = getattr(node, "value", node)
        items = self.known_items(self.checked(value, getattr(given, "id", ""), given), node)
        starred = [i for i, t in enumerate(target.elts) if isinstance(t, gast.Starred)]
        count = len(target.elts)
        if (not starred and len(items) != count) or len(items) < count - len(starred):
            few = f"not enough values to unpack (expected {count}, got {len(items)})"
            many = f"too many values to unpack (expected {count})"
            raise ValueError(few if len(items) < count else many)
        if starred:
            at, rest = starred[0], count - starred[0] - 1
            middle = items[at : len(items) - rest]
            items = [*items[:at], self.own(RecordedList(middle)), *items[len(items) - rest :]]
        for part, item in zip(target.elts, items, strict=True):
            self.assign(part.value if isinstance(part, gast.Starred) else part, item, node)

    def exec_AugAssign(self, node: Any) -> None:
        """``target op= value``, in place where Python would be."""
        target = node.target
        if isinstance(target, gast.Subscript):
            container = self.evaluate(target.value)
            index = self.evaluate(target.slice)
            value = self.evaluate(node.value)
            with self.at(node):
                self._augmented_store(container, index, value, node)
            return
        if isinstance(target, gast.Attribute):
            owner = self.evaluate(target.value)
            old = self.attribute(owner, target.attr, target)
        else:
            old = self.read_name(target.id, target)
        value = self.evaluate(node.value)
        with self.at(node):
            new = self.augmented(old, value, node)
            if isinstance(target, gast.Attribute):
                if new is not old:
                    self.set_attribute(owner, target.attr, new, target)
            else:
                self.write_name(target.id, new, target)

    def augmented(self, old: Any, value: Any, node: Any) -> Any:
        """``old op= value``: an array is stored into, a list extended, all else computed anew."""
        if isinstance(old, Array) and (old.ndim or old.is_buffer):
            self.check_apart(old, node)
            new = self.binary(type(node.op), old, value, node)
            self._check_in_place(old, new, node)
            index: Any = Ellipsis
            asked(operator.setitem, OPERATORS["setitem"], old, index, new)
            return old
        if isinstance(old, RecordedList) and isinstance(node.op, gast.Add):
            self.extend(old, value, node)
            return old
        if isinstance(old, (set, dict, list)):
            self.check_writable(old, node, "This augmented assignment")
        own = in_place(self, BINARY[type(node.op)][0], old, value, node)
        if own is not NotImplemented:
            return own
        if is_opaque(old):
            name = BINARY[type(node.op)][0]
            return self.native(getattr(operator, f"i{name}"), [old, value], {}, node)
        new = self.binary(type(node.op), old, value, node)
        if isinstance(old, (set, dict, list)) and type(new) is type(old):
            return self._refilled(old, new, node)
        return new

    def _refilled(self, old: Any, new: Any, node: Any) -> Any:
        """A list, dict or set, now with the contents of ``new``: its identity stays."""
        if isinstance(old, list):
            self.check_not_walked(old, node, "This augmented assignment")
            old[:] = new
        else:
            old.clear()
            old.update(new)
        return old

    def _check_in_place(self, old: Array, new: Any, node: Any) -> None:
        if not np.can_cast(type_of(new).dtype, old.dtype, "same_kind"):
            self.fail(
                DtypeError,
                node,
                f"A result of dtype {type_of(new).dtype} cannot be stored into {old.dtype}.",
                f"write `x = x {_sign(node.op)} ...`, or make the array float",
            )

    def _augmented_store(self, container: Any, index: Any, value: Any, node: Any) -> None:
        if isinstance(container, Array):
            check_items(container, stores=False)
            index = gathered(index)
            if not _holds(container, value):
                self.check_apart(container, node)
            value = added_to(self, container, BINARY[type(node.op)][0], value)
        mixed = isinstance(value, MixedNumber)
        if not mixed and isinstance(container, Array) and isinstance(node.op, (gast.Add, gast.Sub)):
            value = self.recorded(value)
            if store_add(container, index, value, isinstance(node.op, gast.Sub)):
                return
        old = self.subscript(container, index, node)
        if isinstance(container, Array):
            new = self.binary(type(node.op), Array(old.atom), value, node)
            self._check_in_place(container, new, node)
            if holds_mixed([index, new]):
                return self.store(container, index, new, node)
            asked(operator.setitem, OPERATORS["setitem"], container, index, new)
            return
        new = self.augmented(old, value, node)
        if new is not old or not isinstance(new, Array):
            self.store(container, index, new, node)

    # effects

    def exec_Assert(self, node: Any) -> Completion | None:
        """``assert``: checked now if known, else kept in the generated source."""
        if self.handler_for(AssertionError) is not None:
            return self.execute(as_branch(node))
        test = self.condition(node.test)
        if not isinstance(test, Array):
            message = [] if test or node.msg is None else [self.evaluate(node.msg)]
            return None if test else self.raised(AssertionError, message, {}, node)
        args: list[Any] = [test]
        text = "assert {0}"
        if node.msg is not None:
            text += ", " + display(self.evaluate(node.msg), args)
        self.builder.effect(text, args)
        return None

    def exec_Raise(self, node: Any) -> Completion:
        """``raise``: at run time, on the path that reaches it."""
        if node.exc is None:
            return self.raised_again(node)
        return self.raised(*self._exception(node), node)

    def _exception(self, node: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        """The class of the error that a ``raise`` makes, and its arguments."""
        if isinstance(node.exc, gast.Call):
            function = self.evaluate(node.exc.func)
            if is_exception(function):
                return function, *self.arguments_of(function, node.exc)
        error = self.evaluate(node.exc)
        if is_exception(error):
            return error, [], {}
        if not isinstance(error, BaseException) or is_interpreted(type(error).__init__):
            self.fail(
                UnsupportedSyntax,
                node,
                "Only an exception class, called or not, can be raised here.",
                "write `raise ValueError(...)`",
            )
        return type(error), list(error.args), {}

    def raised(self, kind: Any, args: Args, kwargs: Kwargs, node: Any) -> Completion:
        """Raise now if every call reaches this point; else generated code raises."""
        self.error_classes[kind.__name__] = kind
        if self.handler_for(kind) is not None:
            return self.throw(self._error(kind, args, kwargs))
        ends = kind is StopIteration and getattr(self.call.node, "name", "") == "__next__"
        if ends or (not self.tests and not self.loop_depth):
            error = self._error(kind, args, kwargs)
            error.calque_placed = True  # the user's own
            raise error
        values: list[Any] = []
        shown = [display(v, values) for v in args]
        shown += [f"{key}={display(v, values)}" for key, v in kwargs.items()]
        if kind.__module__ != "builtins":
            self.builder.imports[kind.__name__] = kind.__module__
        self.builder.effect(f"raise {kind.__name__}({', '.join(shown)})", values)
        return Completion("raise")

    def _error(self, kind: Any, args: Args, kwargs: Kwargs) -> Any:
        """An error whose text has the sizes and integers of this call."""
        given = [self._written_now(v) for v in args]
        named = {k: self._written_now(v) for k, v in kwargs.items()}
        error = kind(*given, **named)
        if any(isinstance(v, (RuntimeText, Array)) for v in [*args, *kwargs.values()]):
            error.unknown = True
        return error

    def _written_now(self, value: Any) -> Any:
        """A text with the sizes and integers of this call, and "..." for run-time values."""

        def found(part: Any) -> Any:
            dim = self.builder.dim_of(part) if part.dtype.kind in "iu" and not part.ndim else None
            if isinstance(dim, int):
                return dim
            wanted = self.builder.needs_known(part, "A text")
            if isinstance(wanted, SpecializationNeeded):
                raise wanted
            return UNKNOWN

        return value.written_now(found) if isinstance(value, RuntimeText) else value

    # match

    def exec_Match(self, node: Any) -> Completion | None:
        """``match`` on a known structure; literal patterns may meet run-time numbers."""
        subject = self.evaluate(node.subject)
        return self._cases(subject, node.cases, node)

    def _cases(self, subject: Any, cases: list[Any], node: Any) -> Completion | None:
        from calque.transpiler.frontend.control.match import match_pattern

        for position, case in enumerate(cases):
            bindings: dict[str, Any] = {}
            test = match_pattern(self, case.pattern, subject, bindings)
            if test is False:
                continue
            for name, value in bindings.items():
                self.write_name(name, value, case.pattern)
            if case.guard is not None:
                guard = self.condition(case.guard)
                test = (
                    guard if test is True else self.short_circuit(test, always(guard), node, True)
                )
            if isinstance(test, Array):
                rest = cases[position + 1 :]
                return (
                    self.leaving(
                        test,
                        (
                            partial(self.exec_block, case.body),
                            partial(self._cases, subject, rest, node),
                        ),
                        not surely_leaves(case.body),
                        node,
                    )
                    if any(self.may_leave(c.body) for c in cases)
                    else self._plain_fork(test, case, rest, subject, node)
                )
            if test:
                return self.exec_block(case.body)
        return None

    def _plain_fork(
        self, test: Array, case: Any, rest: Any, subject: Any, node: Any
    ) -> Completion | None:
        result = self.fork(
            test, lambda: self.exec_block(case.body), lambda: self._cases(subject, rest, node), node
        )
        return result if isinstance(result, Completion) else None


def _holds(array: Array, value: Any) -> bool:
    """True if an array's dtype holds a value unchanged, as a list would."""
    known = isinstance(value, (Array, np.generic, bool, int, float, complex))
    return known and np.promote_types(array.dtype, type_of(value).dtype) == array.dtype


def is_exception(value: Any) -> bool:
    """True for a class of exceptions."""
    return isinstance(value, type) and issubclass(value, BaseException)


def _sign(op: Any) -> str:
    return {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.get(BINARY[type(op)][0], "op")
