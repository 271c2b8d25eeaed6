"""Operators that the user's classes define: their methods are interpreted like other functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import SourceNotFound
from calque.transpiler.frontend.callables import is_interpreted
from calque.transpiler.frontend.library.scipy_objects import is_scipys
from calque.transpiler.frontend.library.scipy_twins import as_twin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.mixed_operations import UFUNCS
from calque.transpiler.frontend.source import source_of
from calque.transpiler.frontend.values.numbers_of_classes import class_of
from calque.transpiler.frontend.values.strings import has_run_time_values
from calque.transpiler.ir.builder import Array

_OF_NUMPY = (Array, np.ndarray, np.generic, int, float, complex)
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def method_of(value: Any, name: str) -> Any:
    """The user's method of a value's class, if its source is available; else None."""
    found: Any = getattr(class_of(value), f"__{name}__", None)
    if not is_interpreted(found):
        return None
    try:
        source_of(found)
    except SourceNotFound:
        return None  # written by ``dataclass``, say
    return found


def _is_sequence(value: Any) -> bool:
    return all(hasattr(type(value), name) for name in ("__len__", "__getitem__"))


def by_method(machine: Machine, name: str, left: Any, right: Any, node: Any) -> Any:
    """``left op right`` by a method of either, in Python's order; NotImplemented by none."""
    if is_scipys(left) and has_run_time_values(right):
        left = as_twin(machine, left, node)
    if is_scipys(right) and has_run_time_values(left):
        right = as_twin(machine, right, node)
    if isinstance(left, Array) and (left.ndim or (not left.type.weak and _is_sequence(right))):
        if getattr(type(right), "__array_ufunc__", right) is not None:
            # NumPy makes an array of what is on the right, unless its class takes ufuncs
            return by_ufunc(machine, UFUNCS.get(name), [left, right], {}, node)
    tries = [(left, right, name), (right, left, _SWAPPED.get(name, f"r{name}"))]
    kinds = class_of(left), class_of(right)
    if kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]):
        tries.reverse()
    for own, other, called in tries:
        method = method_of(own, called)
        if method is not None:
            result = machine.call_value(method, [own, other], {}, node)
            if result is not NotImplemented:
                return result
    return NotImplemented


def in_place(machine: Machine, name: str, old: Any, value: Any, node: Any) -> Any:
    """``old op= value`` by a method such as ``__iadd__``; NotImplemented if there is none."""
    method = method_of(old, f"i{name}")
    if method is None:
        return NotImplemented
    return machine.call_value(method, [old, value], {}, node)


def by_ufunc(machine: Machine, ufunc: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """A ufunc by an argument's method ``__array_ufunc__``; NotImplemented where none has one."""
    if ufunc is None or all(isinstance(value, _OF_NUMPY) for value in args):
        return NotImplemented
    for value in args:
        method = None if isinstance(value, _OF_NUMPY) else method_of(value, "array_ufunc")
        if method is not None:
            given = [value, ufunc, "__call__", *args]
            result = machine.call_value(method, given, kwargs, node)
            if result is not NotImplemented:
                return result
    return NotImplemented
