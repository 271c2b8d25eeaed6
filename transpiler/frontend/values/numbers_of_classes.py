"""Numbers of a user's class, ``class Metres(float)``, whose value only a run knows.

The number is the program's; what else the instance has, attributes and methods, is known.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from calque.transpiler.errors import UnsupportedFunction, UnsupportedSyntax
from calque.transpiler.frontend.machine import Args, Machine
from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.ir.core import Var

BASES = (float, int, complex)


class NumberOfClass(Array):
    """A number whose class is the user's; ``instance`` holds its attributes."""

    __slots__ = ("depth", "instance")

    def __init__(self, value: Var, instance: Any, depth: int):
        super().__init__(value)
        self.instance = instance
        self.depth = depth  # of the run-time tests and loops where it was made
        self.kinds = frozenset([type(instance)])


def class_of(value: Any) -> Any:
    """The class of a value in plain Python, of a number of the user's class that."""
    return type(value.instance) if isinstance(value, NumberOfClass) else type(value)


def is_users_number(cls: type) -> bool:
    """True for a class of the user's that is a number."""
    return issubclass(cls, BASES) and cls.__module__ not in ("builtins", "numpy", "enum")


def made(machine: Machine, base: type, cls: type, value: Any, node: Any) -> Any:
    """``base.__new__(cls, value)`` of a run-time number."""
    number = machine.call_value(base, [value], {}, node)
    if not isinstance(number, Array):
        number = FUNCTIONS["cast"](number, base)
    if cls is base:
        return number
    if isinstance(getattr(cls, "__bool__", None), FunctionType):
        message = f"The truth of a {cls.__name__} is its own, and its value only a run knows."
        machine.fail(UnsupportedFunction, node, message, "compare it with a number")
    instance: Any = base.__new__(cls, 1)
    found = NumberOfClass(plain(number).atom, instance, _depth(machine))
    builder, var = current(), found._value
    builder.celled[var] = builder.celled.get(var, frozenset()) | {cls}
    return found


def plain(value: Any) -> Any:
    """A number of the user's class as Python's."""
    return Array(value.atom) if isinstance(value, NumberOfClass) else value


def _depth(machine: Machine) -> int:
    return len(machine.tests) + machine.loop_depth


def member_of(value: NumberOfClass, name: str) -> tuple[type, Any] | None:
    """The class that has an attribute, and what it has; None without one."""
    bases = type(value.instance).__mro__
    return next(((b, vars(b)[name]) for b in bases if name in vars(b)), None)


def attribute_of_number(machine: Machine, value: NumberOfClass, name: str, node: Any) -> Any:
    """``value.name``: of the class, of the instance, or of the number."""
    cls, found = type(value.instance), member_of(value, name)
    if name == "__class__":
        return cls
    owner, member = found or (cls, None)
    if isinstance(member, property) and member.fget is not None:
        return machine.call_value(member.fget, [value], {}, node)
    if name in vars(value.instance):
        return machine.checked(vars(value.instance)[name], name, node)
    if found is None:
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")
    if owner in (*BASES, object):
        return machine.attribute(plain(value), name, node)
    if isinstance(member, FunctionType):
        return MethodType(member, value)
    return machine.attribute(cls, name, node)


def set_on_number(machine: Machine, value: NumberOfClass, name: str, given: Any, node: Any) -> None:
    """``value.name = given``."""
    _, member = member_of(value, name) or (None, None)
    if isinstance(member, property) and member.fset is not None:
        machine.call_value(member.fset, [value, given], {}, node)
        return
    if _depth(machine) != value.depth:
        machine.fail(
            UnsupportedSyntax,
            node,
            f"An attribute of a number is set where a run-time test or loop decides: .{name}.",
            "set it where the number is made",
        )
    object.__setattr__(value.instance, name, given)


def check_class(value: Array, name: str) -> None:
    """Refuse an attribute of a number that only some paths made an instance of a class."""
    classes = [k.__name__ for k in value.kinds or () if is_users_number(k)]
    if classes and not isinstance(value, NumberOfClass) and not hasattr(float, name):
        raise UnsupportedFunction(
            f"An attribute of {' or '.join(sorted(classes))} that several paths, or the "
            f"iterations of a loop, make: .{name}.",
            current().origin,
            "read it where the number is made",
        )


def constructed(machine: Machine, cls: type, args: Args, node: Any) -> Any:
    """``cls(value)``, whose class is a number and leaves it to that; None for other classes."""
    base: Any = next((b for b in BASES if issubclass(cls, b)), None)
    if base is None or cls.__new__ is not base.__new__ or not is_users_number(cls):
        return None
    if args and isinstance(args[0], Array):
        return made(machine, base, cls, args[0], node)
    return machine.own(base.__new__(cls, *args))
