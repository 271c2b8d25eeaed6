"""Calls: NumPy functions by their rules, user functions interpreted, known values by Python."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import (
    CalqueError,
    NeedsKnownValue,
    SourceNotFound,
    UnsupportedFunction,
    UnsupportedSyntax,
)
from calque.transpiler.frontend.attributes import guard_member
from calque.transpiler.frontend.callables import (
    code_of,
    default_of,
    given_to,
    is_generator,
    is_in,
    is_interpreted,
    is_library,
    is_plain_class,
    made_dataclass,
    plain_known,
    stands_in_pythons,
    with_defaults,
)
from calque.transpiler.frontend.captures import captured_cells
from calque.transpiler.frontend.control.generator import first_yield
from calque.transpiler.frontend.control.python_errors import missing_arguments, too_many_arguments
from calque.transpiler.frontend.guarding import Guard, contents, guard_native
from calque.transpiler.frontend.library.generator_builtins import takes_steps
from calque.transpiler.frontend.library.scipy_objects import (
    is_scipys,
    is_scipys_code,
    is_users_code,
)
from calque.transpiler.frontend.machine import Activation, Args, Closure, Kwargs
from calque.transpiler.frontend.mixed_operations import called_library, holds_mixed
from calque.transpiler.frontend.native_calls import NativeCalls
from calque.transpiler.frontend.paths import step
from calque.transpiler.frontend.source import (
    assigned_functions,
    bound_names,
    has_source,
    source_of,
)
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, readable
from calque.transpiler.frontend.values.iterables import Generator, Iterable
from calque.transpiler.frontend.values.kinds import noted_of
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.frontend.values.numbers_of_classes import class_of, constructed
from calque.transpiler.frontend.values.stepwise import is_iterator
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import FUNCTIONS, Array, known
from calque.transpiler.ir.numpy_errors import asked
from calque.transpiler.primitives.logic import outer_product

_MAX_DEPTH = 200
_DEPTH_IN_BRANCHES = 16
_CREATORS = (
    *(np.zeros, np.ones, np.empty, np.ndarray, np.full, np.array),
    *(np.arange, np.linspace, np.eye, np.identity),
)

# what the builtins mean; filled by calque.transpiler.frontend.library
BUILTINS: dict[Any, Callable[..., Any]] = {}
# and what objects of a class mean where they are called
OBJECTS: dict[type, Callable[..., Any]] = {}
# those that ask of what kind a value is, which may be None
QUESTIONS: set[Any] = set()
# those that run a generator expression as a loop of their own
CONSUMERS = (sum, any, all, min, max)


def builtin(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let builtins mean the decorated function of (machine, node, args, kwargs)."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            BUILTINS[function] = handler
        return handler

    return declare


class Calls(NativeCalls):
    """Calls of functions, by Python's rules for arguments, and of classes."""

    def eval_Call(self, node: Any) -> Any:
        """A call."""
        function = self.evaluate(node.func)
        value = self.call_value(function, *self.arguments_of(function, node), node)
        if isinstance(value, TaggedValue):
            return self.checked(value, "the value of this call", node)
        return value

    def arguments_of(self, function: Any, node: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, evaluated."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for position, item in enumerate(node.args):
            if position == 0 and is_generator(item) and is_in(function, CONSUMERS):
                args.append(item)
                continue
            if isinstance(item, gast.Starred):
                args += self.known_items(self.consumed(item.value), item)
            else:
                args.append(self._argument(function, item))
        for keyword in node.keywords:
            if keyword.arg is None:
                kwargs.update(self.evaluate(keyword.value))
            else:
                kwargs[keyword.arg] = self._handed_to(function, keyword.value)
        return args, kwargs

    def _argument(self, function: Any, node: Any) -> Any:
        """An argument; a generator becomes a list where the function would make one of it."""
        steps = takes_steps(function)
        if is_generator(node) and not is_interpreted(function) and not steps:
            return self.consumed(node)
        if is_generator(node) and steps:
            return self.lazy_expression(node)
        value = self._handed_to(function, node)
        if not isinstance(value, Generator) or steps or is_in(function, (sum, any, all, max, min)):
            return value
        eager = is_in(function, BUILTINS) or self.rule_of(function) is not None
        return self.consumed_value(value, node) if eager else value

    def _handed_to(self, function: Any, node: Any) -> Any:
        """The value of an argument; a question, or a function of the user's, takes None, too."""
        inner = getattr(function, "__func__", function)
        inner = inner.__init__ if isinstance(inner, type) else inner  # type: ignore[misc]
        tests = is_in(function, QUESTIONS) or is_interpreted(inner)
        if tests and self.rule_of(function) is None:
            return self.unread_value(node)
        return self.evaluate(node)

    def _lifted_partial(self, function: functools.partial[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments that a partial made outside the program carries."""
        path = self.path_of(function)
        read = step(contents, step(getattr, path, "keywords"))
        self.guards.append(Guard(read, contents(function.keywords)))
        stem = getattr(function.func, "__name__", "partial")
        args = [
            self.lift(a, f"{stem}_argument", step(given_to, path, i))
            for i, a in enumerate(function.args)
        ]
        given = function.keywords.items()
        lifted = {k: self.lift(v, k, step(given_to, path, k)) for k, v in given}
        return args, lifted

    @staticmethod
    def rule_of(function: Any) -> Callable[..., Any] | None:
        """The rule of a function of NumPy, or of SciPy; None without one."""
        if is_in(function, FUNCTIONS):
            return FUNCTIONS[function]
        owner = getattr(function, "__self__", None)
        if isinstance(owner, np.ufunc):
            found = FUNCTIONS.get((owner, function.__name__))
            outer = function.__name__ == "outer" and owner in FUNCTIONS and owner.nin == 2
            return outer_product(owner) if found is None and outer else found
        if is_scipys(function) or isinstance(function, np.ufunc):
            return FUNCTIONS["register scipy"](function)
        return None

    def _library(
        self, function: Any, handler: Callable[..., Any], args: Args, kwargs: Kwargs
    ) -> Any:
        """A NumPy function: computed when everything is known and the result is no array."""
        given = [*args, *kwargs.values()]
        if holds_mixed(given):
            again = lambda *args, **named: self._library(function, handler, list(args), named)
            return called_library(self, function, args, kwargs, again)
        args = [self._called_by_library(gathered(a)) for a in args]
        kwargs = {k: self._called_by_library(gathered(v)) for k, v in kwargs.items()}
        values = [*args, *kwargs.values()]
        if function not in _CREATORS and all(map(plain_known, values)):
            result = function(*args, **kwargs)
            if not isinstance(result, (np.ndarray, list)) and not (
                isinstance(result, tuple) and any(isinstance(r, np.ndarray) for r in result)
            ):
                return result
        result = self._apart(asked(function, handler, *args, **kwargs), values, given)
        return self._owned(noted_of(function, result, args, kwargs))

    def _apart(self, result: Any, values: list[Any], given: list[Any]) -> Any:
        """An array that NumPy makes of a list is never the memory in which the list is kept."""
        pairs = zip(values, given, strict=True)
        lists = [v.root() for v, g in pairs if v is not g and isinstance(v, Array)]
        if isinstance(result, Array) and any(result.root() is root for root in lists):
            return FUNCTIONS[np.copy](result)
        return result

    def _called_by_library(self, value: Any) -> Any:
        """An argument of a NumPy function, with the user's functions made callable from it."""
        if isinstance(value, (list, tuple)) and any(map(is_interpreted, value)):
            return [self._called_by_library(v) for v in value]
        if not is_interpreted(value):
            return value
        return lambda *args, **kwargs: self.call_value(value, list(args), kwargs, None)

    def _owned(self, result: Any) -> Any:
        if type(result) is list:
            return self.own(RecordedList(result))
        return result

    def _call_function(self, function: FunctionType, args: Args, kwargs: Kwargs, node: Any) -> Any:
        try:
            source = source_of(function)
        except SourceNotFound as error:
            if known((args, list(kwargs.values()))):
                return self.native(function, args, kwargs, node)
            if getattr(function, "__wrapped__", None) is not None:
                return self.call_value(function.__wrapped__, args, kwargs, node)  # type: ignore[attr-defined]
            if self.calls:
                self.fail(UnsupportedFunction, node, error.message, error.hint)
            raise
        path = self.path_of(function)
        self.guards.append(Guard(step(code_of, path), function.__code__))
        name = function.__name__
        if args and name.startswith("__") and getattr(type(args[0]), name, None) is function:
            guard_member(self, type(args[0]), name)
        self.sources[source.file] = source.lines
        closure = Closure(
            source,
            source.node,
            Frame(),
            function.__globals__,
            captured_cells(function, path),
            tuple(
                self.lift(d, parameter, step(default_of, path, i))
                for i, d, parameter in with_defaults(function)
            ),
            {
                k: self.lift(v, k, step(default_of, path, k))
                for k, v in (function.__kwdefaults__ or {}).items()
            },
            function.__name__,
        )
        try:
            return self.call_closure(closure, args, kwargs, node)
        except CalqueError as error:
            if node is not None and stands_in_pythons(error.origin):
                caller = self.origin(node)
                if not stands_in_pythons(caller):
                    error.origin, error.hint = caller, error.hint or "write it in NumPy"
            raise

    def call_for_user(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """Interpret a library's Python code; its records and errors get the caller's origin."""
        library = self.in_library or is_scipys_code(function.__code__.co_filename)
        with self.acting_for(self.on_behalf or self.origin(node), library):
            try:
                return self._call_function(function, args, kwargs, node)
            except CalqueError as error:
                own = os.path.dirname(function.__code__.co_filename)
                if error.origin is None or os.path.dirname(error.origin.file) == own:
                    error.origin = self.on_behalf
                elif library and (caller := self.on_behalf) is not None:
                    if caller not in (error.origin, *error.calls):
                        error.calls.append(caller)
                raise
            except NotImplementedError as error:  # a twin refuses
                raise UnsupportedFunction(str(error), self.on_behalf) from None

    def call_closure(self, closure: Closure, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """Interpret a call of a function whose source is at hand."""
        if self.in_library and is_users_code(closure.source.file):
            with self.acting_for(None):  # a function of the user's that the library calls back
                return self.call_closure(closure, args, kwargs, node)
        if len(self.calls) >= _DEPTH_IN_BRANCHES and self.tests:
            self._end_recursion(closure, node)
        if sum(call.node is closure.node for call in self.calls) >= _MAX_DEPTH:
            self.fail(
                UnsupportedSyntax,
                node,
                f"{closure.name} calls itself more than {_MAX_DEPTH} times: "
                "recursion must end on known structure.",
                "write it as a loop",
            )
        frame = Frame({}, closure.frame, names=bound_names(closure.node))
        body = closure.node
        if not isinstance(body, gast.Lambda):
            self._refuse_coroutine(closure)
        if first_yield(body) is not None:
            return self.generator(closure, args, kwargs, node)
        self.bind(closure, frame, args, kwargs, node)
        nonlocals, written = assigned_functions(body)
        made = Activation(
            *(frame, closure.source, closure.globals, closure.cells, nonlocals, written, body),
            place=self.call_place(node),
        )
        stands_alone = node is not None and self.site is node
        made.throws = made.throws_out = stands_alone and self.call.throws
        self.site = None
        self.calls.append(made)
        before = self.statement
        try:
            if isinstance(body, gast.Lambda):
                if len(self.calls) == 1:
                    self.statement = (closure.source.text(body.body), body.lineno)
                value = self.evaluate(body.body)
                self.return_origin = self.origin(body.body)
                return value
            completion = self.exec_block(body.body)
            if completion is None:
                self.return_origin = self.origin(body)
        except Exception as error:
            self.note_call(error, node)
            raise
        finally:
            self.calls.pop()
            self.statement = before
        if completion is None or completion.kind == "raise":
            return None
        return completion.value

    def _end_recursion(self, closure: Closure, node: Any) -> None:
        """Ask for known tests of a recursion within run-time branches, which would not end."""
        if sum(call.node is closure.node for call in self.calls) < _DEPTH_IN_BRANCHES // 2:
            return
        for test in reversed(self.tests):
            self.ask_for(test)
        self.fail(
            # an unrolled loop may end it
            NeedsKnownValue if self.loop_depth else UnsupportedSyntax,
            node,
            f"{closure.name} calls itself until a run-time value says otherwise.",
            "write it as a loop",
        )

    def _refuse_coroutine(self, closure: Closure) -> None:
        body = closure.node
        if isinstance(body, gast.AsyncFunctionDef):
            raise UnsupportedSyntax(
                f"{body.name} is a coroutine.",
                closure.source.origin(body),
                "write it without `async`",
            )

    def bind(self, closure: Closure, frame: Frame, args: Args, kwargs: Kwargs, node: Any) -> None:
        """Bind arguments to parameters, as Python does."""
        spec = closure.node.args
        names = [a.id for a in [*getattr(spec, "posonlyargs", []), *spec.args]]
        keyword_only = [a.id for a in spec.kwonlyargs]
        values = dict(zip(names, args, strict=False))
        rest = args[len(names) :]
        if rest and spec.vararg is None:
            least, most = len(names) - len(closure.defaults), len(names)
            raise TypeError(too_many_arguments(closure.name, least, most, len(args)))
        extra: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in values:
                raise TypeError(f"{closure.name}() got multiple values for argument '{key}'")
            if key in names or key in keyword_only:
                values[key] = value
            elif spec.kwarg is not None:
                extra[key] = value
            else:
                raise TypeError(f"{closure.name}() got an unexpected keyword argument '{key}'")
        first_default = len(names) - len(closure.defaults)
        for position, name in enumerate(names):
            if name not in values and position >= first_default:
                values[name] = closure.defaults[position - first_default]
        for name in keyword_only:
            if name not in values and name in closure.kw_defaults:
                values[name] = closure.kw_defaults[name]
        for named in (names, keyword_only):
            if missing := [n for n in named if n not in values]:
                raise TypeError(missing_arguments(closure.name, missing, named is keyword_only))
        if spec.vararg is not None:
            values[spec.vararg.id] = tuple(rest)
        if spec.kwarg is not None:
            values[spec.kwarg.id] = self.own(extra)
        frame.locals.update(values)
        for name, value in values.items():
            self.name_value(value, name)

    def construct(self, cls: type, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """Make an instance of a user's class; its ``__init__`` is interpreted if it has source."""
        if issubclass(cls, np.ndarray):
            self.fail(
                UnsupportedFunction,
                node,
                f"{cls.__name__} is a subclass of np.ndarray: what NumPy does with it is its own.",
                "compute with plain arrays; a class may hold one (self.values = np.asarray(q))",
            )
        init = cls.__init__  # type: ignore[misc]
        make: Any = cls.__new__
        plain = type(cls).__call__ is type.__call__ and isinstance(make, FunctionType)
        plain = plain and cls.__module__.split(".")[0] not in sys.stdlib_module_names
        if plain and not is_library(make) and has_source(make):
            made = self.call_value(make, [cls, *args], kwargs, node)
            if issubclass(class_of(made), cls) and init is not object.__init__:
                self.call_value(init, [made, *args], kwargs, node)
            return made
        if isinstance(init, FunctionType) and not is_library(init):
            if not has_source(init):
                if hasattr(cls, "__dataclass_fields__"):
                    return made_dataclass(self, cls, args, kwargs, node)
                guard_native(self, [*args, *kwargs.values()], node)
                return self.own(cls(*args, **kwargs))
            instance = constructed(self, cls, args, node)
            instance = self.own(make(cls)) if instance is None else instance
            self.call_value(init, [instance, *args], kwargs, node)
            return instance
        if issubclass(cls, dict) and init is dict.__init__ and cls.__module__ != "collections":
            return self.own(cls(BUILTINS[dict](self, node, args, kwargs)))
        number = constructed(self, cls, args, node)
        if number is not None:
            return number
        args = [self.known_items(a, node) if is_iterator(a) else a for a in args]
        if issubclass(cls, BaseException):
            return cls(*args, **kwargs)  # no program changes it
        known_here = readable((args, list(kwargs.values())))
        known_here = known_here and not any(isinstance(a, (Generator, Iterable)) for a in args)
        if cls.__module__ != "itertools" and (known_here or is_plain_class(cls)):
            guard_native(self, [*args, *kwargs.values()], node)
            return self.own(cls(*args, **kwargs))
        return self.native(cls, args, kwargs, node)
