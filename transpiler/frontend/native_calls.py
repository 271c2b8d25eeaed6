"""Calls that Python makes itself: on known values, and of functions that call the program's own."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import SpecializationNeeded, UnsupportedFunction
from calque.transpiler.frontend.callables import is_interpreted, is_library
from calque.transpiler.frontend.guarding import guard_function, guard_native
from calque.transpiler.frontend.library.scipy_objects import instead_of, missing, way_around
from calque.transpiler.frontend.machine import Args, Closure, Kwargs
from calque.transpiler.frontend.statements import Statements
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, readable
from calque.transpiler.frontend.values.iterables import Iterable
from calque.transpiler.frontend.values.opaque_objects import Watch, is_opaque
from calque.transpiler.frontend.values.stepwise import is_iterator
from calque.transpiler.frontend.values.strings import has_run_time_values
from calque.transpiler.ir.builder import FUNCTIONS, Array, function_name

_CALLABLE = (BuiltinFunctionType, MethodWrapperType, FunctionType, type, np.ufunc)


class NativeCalls(Statements):
    """Functions without rules, called while the program is read."""

    def native(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A call on known values, by Python; with run-time values there must be a rule."""
        args = [self.known_items(a, node) if is_iterator(a) else a for a in args]
        everything = [*args, *kwargs.values()]
        if readable(everything) and not any(isinstance(a, (Closure, Iterable)) for a in everything):
            if isinstance(function, _CALLABLE):
                if _calls_what_it_is_given(function):
                    for value in filter(_is_users, everything):
                        guard_function(self, value, node)
                return self._watched(function, args, kwargs, node)
            if not callable(function) or isinstance(function, ModuleType):
                self.fail(UnsupportedFunction, node, f"{function!r} is not callable.")
        method = inspect.getattr_static(type(function), "__call__", None)
        if isinstance(method, FunctionType) and not is_library(method):
            return self.call_value(method, [function, *args], kwargs, node)
        if readable(everything):
            return self._calling_back(function, args, kwargs, node)
        given = [a for a in everything if isinstance(a, Array)]
        wanted = [self.builder.needs_known(a, "An argument of this function") for a in given]
        if wanted and all(isinstance(w, SpecializationNeeded) for w in wanted):
            raise wanted[0]  # sizes and integers: Python can call it once they are known
        name = function_name(function)
        message = missing(function, name)
        return self.fail(UnsupportedFunction, node, message, instead_of(function, name))

    def _calling_back(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """Call a library function that calls functions of the program, which are interpreted.

        Where these give run-time values, a library's function cannot go on, unless its own Python
        code takes them on to its result.
        """
        gave: list[bool] = []
        args = [self._as_function(a, gave, node) for a in args]
        kwargs = {k: self._as_function(v, gave, node) for k, v in kwargs.items()}
        if isinstance(function, type):
            return self._watched(function, args, kwargs, node)
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):  # MINPACK prints what a callback raises
                result = self._watched(function, args, kwargs, node)
        except SpecializationNeeded:
            raise
        except Exception:
            if not any(gave):
                raise
            result = None
        if any(gave) and not has_run_time_values(result):
            name = function_name(function)
            message = f"{name} calls a function of yours that depends on run-time values."
            self.fail(UnsupportedFunction, node, message, way_around(name))
        sys.stderr.write(said.getvalue())
        return result

    def _watched(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
        """A call by Python; refuses changes of objects that the program could not follow."""
        values = [getattr(function, "__self__", None), *args, *kwargs.values()]
        guard_native(self, values, node)
        watch = Watch(self, values)
        result = self._lift_result(function(*args, **kwargs))
        watch.check(node)
        self.made[id(result)] = result
        return self.own(result) if isinstance(function, type) and is_opaque(result) else result

    def _as_function(self, value: Any, gave: list[bool], node: Any) -> Any:
        """A function of the program, as one that Python can call; ``gave``: run-time values."""
        if not isinstance(value, Closure):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            result = self.call_value(value, list(args), kwargs, node)
            gave.append(has_run_time_values(result))
            return result

        return called

    def _lift_result(self, result: Any) -> Any:
        """The result of Python's own call, as the program has it."""
        if isinstance(result, np.ndarray) and result.dtype.kind in "biufc":
            return FUNCTIONS[np.asarray](result)
        if isinstance(result, (list, dict, set)):
            return self.own(RecordedList(result) if type(result) is list else result)
        return result


def _calls_what_it_is_given(function: Any) -> bool:
    """True if a function may call one that it is given: those of Python's library are known."""
    top = (getattr(function, "__module__", None) or "").partition(".")[0]
    return not isinstance(function, type) and top not in sys.stdlib_module_names


def _is_users(value: Any) -> bool:
    """True if a value is a function of the user's, bound or with some of its arguments."""
    while isinstance(value, (functools.partial, MethodType)):
        value = value.func if isinstance(value, functools.partial) else value.__func__
    return is_interpreted(value)
