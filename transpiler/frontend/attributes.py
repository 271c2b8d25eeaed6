"""Attributes that interpreted code reads: of arrays, modules and objects."""

from __future__ import annotations

import sys
from functools import cached_property, partial
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.library.surroundings import holds_surroundings
from calque.transpiler.frontend.machine import NEXT, Closure, Machine
from calque.transpiler.frontend.methods import method_of
from calque.transpiler.frontend.mixed_operations import attribute_of_mixed
from calque.transpiler.frontend.outside_writes import attribute_written, place_of
from calque.transpiler.frontend.paths import static_member, step
from calque.transpiler.frontend.values.iterables import FlatElements
from calque.transpiler.frontend.values.kinds import attribute_of
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.mutable_objects import is_mutable
from calque.transpiler.frontend.values.numbers_of_classes import (
    NumberOfClass,
    attribute_of_number,
    check_class,
)
from calque.transpiler.frontend.values.strings import TEXT_METHODS, RuntimeText, TextMethod
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array

_OF_FLAT_ELEMENTS = frozenset(("copy", "base", "__array__"))
# of library modules, which nobody gives other values
_CONSTANTS = frozenset("pi e tau inf nan infj nanj newaxis euler_gamma float_info maxsize".split())


def _of_array(machine: Machine, value: Array, name: str, node: Any) -> Any:
    if name == "flat":
        return FlatElements(value.flat)
    if hasattr(list, name) and not name.startswith("__"):
        machine.check_apart(value, node)
    if isinstance(value, NumberOfClass):
        return attribute_of_number(machine, value, name, node)
    check_class(value, name)
    if isinstance(value, MixedNumber) and name != "__class__":
        return attribute_of_mixed(machine, value, name, node)
    return attribute_of(machine, value, name, node)


def read_attribute(machine: Machine, value: Any, name: str, node: Any) -> Any:
    """An attribute: of an Array, a module, or an object, whose arrays become hidden inputs."""
    if isinstance(value, FlatElements) and name in _OF_FLAT_ELEMENTS:
        value = value.array
    if isinstance(value, Array):
        return _of_array(machine, value, name, node)
    if isinstance(value, RuntimeText) and name in TEXT_METHODS:
        return TextMethod(value, name)
    value = machine.settled(value, node)
    if isinstance(value, Closure) and name == "__name__":
        return value.name
    found = attribute_written(machine, value, name, node)
    if found is not NEXT:
        return found
    if name == "__dict__" and id(value) in machine.owned:
        if not machine.tests and not machine.loop_depth:
            return machine.own(vars(value))
    if isinstance(value, super):
        return _inherited(machine, value, name, node)
    for base in type(value).__mro__:
        member = vars(base).get(name)
        if isinstance(value, PurePath):
            break
        if isinstance(member, property) and member.fget is not None and not isinstance(value, type):
            guard_member(machine, type(value), name)
            return machine.call_value(member.fget, [value], {}, node)
        if isinstance(member, cached_property) and id(value) in machine.owned:
            return _cached(machine, value, name, member, node)
        if member is not None:
            break
    by_hook = _by_hook(machine, value, name, member, node)
    if by_hook is not NEXT:
        return by_hook
    try:
        found = getattr(value, name)
    except AttributeError:
        machine.outside.asked[place_of(value, name)] = value
        machine.guards.append(Guard(step(hasattr, machine.path_of(value), name), False))
        raise
    if isinstance(found, Array):
        return machine.checked(found, name, node)
    if holds_surroundings(found):
        return machine.lift(found, name, step(getattr, machine.path_of(value), name))
    if is_library_object(value):
        if not callable(found) and _may_change(machine, value, name):
            return machine.lift(found, name, step(getattr, machine.path_of(value), name))
        return machine.checked(found, name, node)
    mine = id(value) in machine.owned
    if mine and pytrees.has_attributes(value) and name in pytrees.contents(value):
        return machine.checked(found, name, node)
    if callable(found) and not isinstance(found, np.ndarray):
        guard_member(machine, type(value) if mine else value, name)
        return found
    if mine and not hasattr(type(value), name):
        return machine.checked(found, name, node)
    if mine:
        if not isinstance(found, (bool, int, float, complex, str, np.ndarray)):
            return machine.checked(found, name, node)
        value = type(value)
    machine.outside.asked[place_of(value, name)] = value
    return machine.lift(found, name, step(getattr, machine.path_of(value), name))


def _by_hook(machine: Machine, value: Any, name: str, member: Any, node: Any) -> Any:
    """An attribute that a descriptor gives, or ``__getattr__`` of an object made here."""
    if isinstance(value, (type, ModuleType)):
        return NEXT
    held = pytrees.has_attributes(value) and name in pytrees.contents(value)
    by_descriptor = method_of(member, "get")
    if by_descriptor is not None and not (held and not hasattr(type(member), "__set__")):
        guard_member(machine, type(value), name)
        return machine.call_value(by_descriptor, [member, value, type(value)], {}, node)
    hook = None if member is not None or held else method_of(value, "getattr")
    if hook is None or id(value) not in machine.owned:
        return NEXT
    guard_member(machine, type(value), "__getattr__")
    return machine.call_value(hook, [value, name], {}, node)


def _may_change(machine: Machine, value: Any, name: str) -> bool:
    """True if an attribute of a library's object may have another value at the next call."""
    if isinstance(value, ModuleType):
        return name not in _CONSTANTS and not isinstance(getattr(value, name), ModuleType)
    if id(value) in machine.owned or id(value) in machine.made:
        return False
    return isinstance(value, partial) or is_mutable(value)


def _cached(
    machine: Machine, value: Any, name: str, member: cached_property[Any], node: Any
) -> Any:
    """A ``functools.cached_property`` of an object made here: computed once, then held."""
    if name not in vars(value):
        guard_member(machine, type(value), name)
        found = machine.call_value(member.func, [value], {}, node)
        machine.set_attribute(value, name, found, node)
    return machine.checked(vars(value)[name], name, node)


def _inherited(machine: Machine, value: Any, name: str, node: Any) -> Any:
    """An attribute of ``super()``."""
    order = value.__self_class__.__mro__
    for base in order[order.index(value.__thisclass__) + 1 :]:
        member = vars(base).get(name)
        if member is not None:
            guard_member(machine, base, name)
        if isinstance(member, property) and member.fget is not None:
            return machine.call_value(member.fget, [value.__self__], {}, node)
        if member is not None:
            break
    return getattr(value, name)


def guard_member(machine: Machine, owner: Any, name: str) -> None:
    """Add the guard that a method, property or function of ``owner`` stays the same object."""
    read = step(static_member, machine.path_of(owner), name)
    machine.guards.append(Guard(read, static_member(owner, name)))


def is_library_object(value: Any) -> bool:
    """True for an object of a library, whose attributes do not change between two calls."""
    if isinstance(value, (list, tuple, dict)):
        return True
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, ModuleType):
        where = value.__name__
    else:
        where = (value if isinstance(value, (type, FunctionType)) else type(value)).__module__ or ""
    top = where.split(".")[0]
    return top in ("numpy", "scipy", "builtins") or top in sys.stdlib_module_names
