"""Attributes that interpreted code sets: by ``__setattr__``, setters and descriptors of classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodWrapperType
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.attributes import guard_member
from calque.transpiler.frontend.machine import NEXT, Args, Kwargs, Machine
from calque.transpiler.frontend.methods import method_of
from calque.transpiler.frontend.outside_writes import write_attribute
from calque.transpiler.frontend.values.numbers_of_classes import NumberOfClass, set_on_number
from calque.transpiler.ir.builder import Array


def set_attribute(machine: Machine, owner: Any, name: str, value: Any, node: Any) -> None:
    """``owner.name = value``."""
    if isinstance(owner, Array):
        return _set_on_array(machine, owner, name, value, node)
    setter = method_of(owner, "setattr")
    if setter is not None:
        guard_member(machine, type(owner), "__setattr__")
        machine.call_value(setter, [owner, name, value], {}, node)
        return None
    return set_plainly(machine, owner, name, value, node, setattr)


def set_plainly(
    machine: Machine,
    owner: Any,
    name: str,
    value: Any,
    node: Any,
    write: Callable[[Any, str, Any], None] = object.__setattr__,
) -> None:
    """``object.__setattr__(owner, name, value)``: by a descriptor of the class, if there is one.

    ``write`` sets an attribute of an object of the program; ``setattr`` asks its class.
    """
    if isinstance(owner, (bool, int, float, complex, str, np.generic, np.ndarray)):
        if not hasattr(owner, name):
            setattr(owner, name, value)  # raises what Python raises
    member = None if isinstance(owner, type) else inspect.getattr_static(type(owner), name, None)
    by_descriptor = method_of(member, "set")
    if isinstance(member, property) and member.fset is not None:
        guard_member(machine, type(owner), name)
        machine.call_value(member.fset, [owner, value], {}, node)
        return
    if by_descriptor is not None:
        guard_member(machine, type(owner), name)
        machine.call_value(by_descriptor, [member, owner, value], {}, node)
        return
    if write_attribute(machine, owner, name, value, node):
        return
    machine.check_writable(owner, node, f"Setting .{name}")
    machine.name_value(value, name)
    write(owner, name, value)


def _set_on_array(machine: Machine, owner: Array, name: str, value: Any, node: Any) -> None:
    if isinstance(owner, NumberOfClass):
        set_on_number(machine, owner, name, value, node)
        return
    if name == "shape":
        machine.fail(UnsupportedSyntax, node, "The shape of an array is set.", "use reshape")
    if name in ("flat", "T", "real", "imag"):
        getattr(owner, name)[...] = value
        return
    if hasattr(np.ndarray, name):
        machine.fail(UnsupportedSyntax, node, f"The attribute {name} of an array is set.")
    raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")


def _set(machine: Machine, owner: Any, args: Args, node: Any) -> None:
    name, value = args
    set_plainly(machine, owner, name, value, node)


def _get(machine: Machine, owner: Any, args: Args, node: Any) -> Any:
    return machine.attribute(owner, args[0], node)


_OF_OBJECT: dict[str, Callable[..., Any]] = {"__setattr__": _set, "__getattribute__": _get}


def by_wrapper(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """``obj.__setattr__(name, value)``, and the like: Python's own of an object of the program."""
    handler = _OF_OBJECT.get(function.__name__)
    if handler is None or not isinstance(function, MethodWrapperType):
        return NEXT
    return handler(machine, function.__self__, args, node)


def of_object(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """``object.__setattr__(obj, name, value)``, and the like."""
    return _OF_OBJECT[function.__name__](machine, args[0], args[1:], node)


def is_objects(function: Any) -> bool:
    """True for Python's own ``object.__setattr__`` and ``object.__getattribute__``."""
    return function is object.__setattr__ or function is object.__getattribute__
