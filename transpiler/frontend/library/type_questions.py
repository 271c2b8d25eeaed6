"""Questions about types and attributes: plain Python's answers for what the value is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from calque.transpiler.errors import NeedsKnownValue, UnsupportedFunction
from calque.transpiler.frontend.calls import QUESTIONS, builtin
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.library.polyfills import Deque
from calque.transpiler.frontend.machine import Args, Closure, Kwargs, Machine
from calque.transpiler.frontend.outside_writes import place_of
from calque.transpiler.frontend.paths import step
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.frontend.values.key_presence import check_key
from calque.transpiler.frontend.values.kinds import Unread, answer
from calque.transpiler.frontend.values.mutable_objects import is_mutable
from calque.transpiler.frontend.values.optional import Maybe
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import ATTRIBUTES, METHODS, Array
from calque.transpiler.primitives.logic import and_, not_, or_
from calque.transpiler.primitives.record import apply

Handler = Callable[[Machine, Any, Args, Kwargs], Any]


def question(function: Any) -> Callable[[Handler], Handler]:
    """Let a builtin that says yes or no of its first argument mean the decorated function.

    The argument may be None on some paths.
    """

    def declare(handler: Handler) -> Handler:
        def of_any(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
            value, *rest = args or kwargs.values()
            if isinstance(value, TaggedValue):
                value = machine.of_one_kind(value, "this value", node)
            if isinstance(value, Maybe):
                inner = of_any(machine, node, [value.value, *rest], {})
                return _by_presence(value.there, inner, function(None, *rest))
            return handler(machine, node, [value, *rest], {})

        QUESTIONS.add(function)
        return builtin(function)(of_any)

    return declare


@question(isinstance)
def _isinstance(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value, kinds = args
    if isinstance(value, Deque):
        return issubclass(deque, kinds)
    if isinstance(value, Closure):
        return issubclass(FunctionType, kinds)
    if isinstance(value, Array):
        return answer(machine, value, lambda x: isinstance(x, kinds), "isinstance", node)
    if isinstance(value, Unread):
        raise value.refused()
    _guard_class(machine, value)
    return isinstance(value, kinds)


def _by_presence(there: Any, inner: Any, of_none: bool) -> Any:
    """The answer ``inner`` where a value is there, and ``of_none`` where it is None."""
    if not isinstance(inner, Array) and bool(inner) == of_none:
        return of_none
    if of_none:
        return apply(or_, apply(not_, there), inner) if inner is not False else apply(not_, there)
    return there if not isinstance(inner, Array) else apply(and_, there, inner)


def _guard_class(machine: Machine, value: Any) -> None:
    """Guard the class of an instance from outside whose class was tested."""
    if id(value) not in machine.owned and is_mutable(value):
        machine.guards.append(Guard(step(type, machine.path_of(value)), type(value)))


@builtin(type)
def _type(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (value,) = args
    if isinstance(value, Array):
        return answer(machine, value, type, "Its class", node)
    if isinstance(value, Unread):
        raise value.refused()
    if isinstance(value, Deque):
        return deque
    if isinstance(value, Closure):
        return FunctionType
    _guard_class(machine, value)
    return list if isinstance(value, RecordedList) else type(value)


@question(np.isscalar)
def _isscalar(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (value,) = args
    if isinstance(value, Array):
        return answer(machine, value, np.isscalar, "np.isscalar", node)
    return np.isscalar(value)


@question(np.iterable)
def _iterable(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (value,) = args
    if isinstance(value, Array):
        return bool(value.ndim)
    return np.iterable(value)


@builtin(getattr)
def _getattr(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value, name = args[:2]
    if len(args) < 3:
        return machine.attribute(value, name, node)
    if not _has(machine, node, value, name):
        return args[2]
    if not isinstance(value, Array) or name in METHODS or name in ATTRIBUTES:
        return machine.attribute(value, name, node)
    try:
        return machine.attribute(value, name, node)
    except (AttributeError, UnsupportedFunction, NeedsKnownValue):
        return Unread(name)


@question(hasattr)
def _hasattr(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return _has(machine, node, *args)


def _has(machine: Machine, node: Any, value: Any, name: str) -> bool:
    if isinstance(value, Array):
        found = answer(machine, value, lambda x: hasattr(x, name), f"hasattr {name!r}", node)
        return bool(found)
    place = place_of(value, name)
    if place in machine.outside.written:
        return kind_of(machine.outside).read(machine.outside, place) is not MISSING
    container = isinstance(value, (list, dict, set))
    if not container and id(value) in machine.owned and pytrees.has_attributes(value):
        check_key(machine, value, name, node)
    elif not container and not isinstance(value, Closure):
        machine.outside.asked[place] = value
        read = step(hasattr, machine.path_of(value), name)
        machine.guards.append(Guard(read, hasattr(value, name)))
    return hasattr(value, name)


@question(callable)
def _callable(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if isinstance(args[0], Array):
        return False
    return isinstance(args[0], Closure) or callable(args[0])
