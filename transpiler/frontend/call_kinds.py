"""Calls of any value: a table of the kinds of what can be called, with the handler of each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType, MethodWrapperType
from typing import Any

import numpy as np

from calque.transpiler.frontend.attribute_writes import by_wrapper, is_objects, of_object
from calque.transpiler.frontend.callables import (
    is_in,
    is_interpreted,
    is_library,
    is_own,
    is_twin,
)
from calque.transpiler.frontend.calls import BUILTINS, OBJECTS, Calls
from calque.transpiler.frontend.guarding import is_guarded
from calque.transpiler.frontend.library.container_methods import container_method
from calque.transpiler.frontend.library.generator_builtins import stepwise, takes_steps
from calque.transpiler.frontend.library.impure import refuse_impure
from calque.transpiler.frontend.library.numba_ufuncs import call_numbas, is_numbas
from calque.transpiler.frontend.library.scipy_objects import is_frozen, is_scipys
from calque.transpiler.frontend.library.scipy_twins import call_twin
from calque.transpiler.frontend.machine import NEXT, Args, Closure, Kwargs
from calque.transpiler.frontend.methods import by_ufunc, method_of
from calque.transpiler.frontend.values.iterables import Generator
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.frontend.values.numbers_of_classes import BASES, NumberOfClass, made, plain
from calque.transpiler.frontend.values.strings import TEXT_METHODS, RuntimeText, has_run_time_values
from calque.transpiler.ir.builder import Array, known

_CONTAINERS = (list, dict, set, tuple, str, bytes, frozenset, range, slice)
_NAMEDTUPLE = ("_replace", "_asdict", "_make")
Kind = type | Callable[[Any], bool]  # a class, or a test


class CallKinds(Calls):
    """Calls of any value, by its kind."""

    def call_value(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """Call anything with evaluated arguments: by the first of its kinds, else by Python."""
        for kind, call in KINDS:
            if isinstance(function, kind) if isinstance(kind, type) else kind(function):
                result = call(self, function, args, kwargs, node)
                if result is not NEXT:
                    return result
        return self.native(function, args, kwargs, node)

    def _traced(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return function.__calque_trace__(self, args, kwargs, node)

    def _partial(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        given, named = self._lifted_partial(function)
        return self.call_value(function.func, [*given, *args], {**named, **kwargs}, node)

    def _stepwise(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        if not any(isinstance(a, Generator) for a in args):
            return NEXT
        made = stepwise(self, function, args, kwargs, node)
        return NEXT if made is None else made

    def _convert(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A number, by the argument's own method if it has one."""
        own = method_of(args[0], function.__name__) if len(args) == 1 else None
        if own is None and args and isinstance(args[0], NumberOfClass):
            return self._ruled(function, [plain(args[0]), *args[1:]], kwargs, node)
        if own is None:
            return NEXT
        return self._ruled(function, [self.call_value(own, args, {}, node)], kwargs, node)

    def _builtin(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return BUILTINS[function](self, node, args, kwargs)

    def _object(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return OBJECTS[type(function)](self, function, args, kwargs, node)

    def _ruled(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        handler = self.rule_of(function)
        assert handler is not None
        args = [self.settled(a, node) if isinstance(a, RuntimeText) else a for a in args]
        own = NotImplemented
        if isinstance(function, np.ufunc):
            own = by_ufunc(self, function, args, kwargs, node)
        return self._library(function, handler, args, kwargs) if own is NotImplemented else own

    def _method(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A call of a bound method written in Python."""
        if function.__name__ in _NAMEDTUPLE and function.__func__.__module__ == "collections":
            return function(*args, **kwargs)
        owned = [function.__self__, *args]
        if is_frozen(function.__self__):
            return self.call_for_user(function.__func__, owned, kwargs, node)
        if is_scipys(function):
            return self.native(function, args, kwargs, node)
        return self.call_value(function.__func__, owned, kwargs, node)

    def _plain(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A call of a function written in Python."""
        if is_own(function):
            named = {k: gathered(v) for k, v in kwargs.items()}
            return self._owned(function(*map(gathered, args), **named))
        if is_twin(function):
            return self.call_for_user(function, args, kwargs, node)
        return NEXT if is_library(function) else self._call_function(function, args, kwargs, node)

    def _bound(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A call of a method of Python's own classes."""
        owner = function.__self__
        makes = isinstance(owner, type) and function.__name__ == "__new__"
        if makes and owner in (object, tuple, *BASES):
            if owner in BASES and len(args) > 1 and isinstance(args[1], Array):
                return made(self, owner, args[0], args[1], node)
            return self.own(function(*args, **kwargs))
        if isinstance(owner, str) and has_run_time_values((args, kwargs)):
            if function.__name__ in TEXT_METHODS:
                return self.text_method(owner, function.__name__, args, kwargs, node)
        if not isinstance(owner, _CONTAINERS):
            return NEXT
        return self._owned(container_method(self, function, owner, args, kwargs, node))

    def _wrapper(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        wrapped = function.__wrapped__
        if wrapped is None:
            return NEXT
        if known((args, list(kwargs.values()))):
            if not is_interpreted(wrapped):
                return NEXT
            if is_guarded(self, wrapped, node):
                return self.native(wrapped, args, kwargs, node)  # what a cache keeps may be old
        return self.call_value(wrapped, args, kwargs, node)


# The kinds in the order in which they are asked: handlers may leave a call to the next kind.
KINDS: tuple[tuple[Kind, Callable[..., Any]], ...] = (
    (Closure, CallKinds.call_closure),
    (lambda f: hasattr(f, "__calque_trace__"), CallKinds._traced),
    (functools.partial, CallKinds._partial),
    (object, refuse_impure),
    (takes_steps, CallKinds._stepwise),
    (is_objects, of_object),
    (MethodWrapperType, by_wrapper),
    (lambda f: is_in(f, (float, int, complex)), CallKinds._convert),
    (lambda f: is_in(f, BUILTINS), CallKinds._builtin),
    (lambda f: type(f) in OBJECTS, CallKinds._object),
    (is_scipys, call_twin),
    (lambda f: Calls.rule_of(f) is not None, CallKinds._ruled),
    (MethodType, CallKinds._method),
    (type, CallKinds.construct),
    (FunctionType, CallKinds._plain),
    (lambda f: hasattr(f, "__self__"), CallKinds._bound),
    (is_numbas, call_numbas),
    (lambda f: hasattr(f, "__wrapped__"), CallKinds._wrapper),
)
