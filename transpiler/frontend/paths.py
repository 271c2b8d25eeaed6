"""Paths to the values that a program reads outside of itself: closure cell, attribute, index.

A path starts at one object (a module's globals, say), or at the function that a program is of. The
latter is given when the path is read: so one program serves all functions made of the same code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

_ABSENT: Any = object()
_PLAIN_DICTS = (GetSetDescriptorType, MemberDescriptorType)  # of an instance's own attributes


class Path:
    """A way to a value: ``read(function)`` goes it.

    Two paths with equal places read the same values.
    """

    __slots__ = ("base", "keys", "moves", "operation", "place", "read", "value")

    def __init__(self, read: Callable[[Any], Any], place: tuple[Any, ...], moves: bool):
        self.read, self.place = read, place
        self.moves = moves  # from one function to another
        self.operation: Any = None  # the last step, with what it starts from and is given besides
        self.base: Path = self
        self.keys: tuple[Any, ...] = ()
        self.value: Any = None  # the object, of a path that is no more than that


FUNCTION = Path(lambda function: function, ("function",), True)


def of_object(value: Any) -> Path:
    """The path that ends where it starts, at one object."""
    made = Path(lambda function: value, ("object", id(value)), False)
    made.value = value
    return made


def step(operation: Callable[..., Any], base: Path, *keys: Any) -> Path:
    """The path to what ``operation`` finds, given what ``base`` leads to and some keys.

    >>> import operator
    >>> step(operator.getitem, step(getattr, FUNCTION, "__defaults__"), 0).read(lambda x=2.0: x)
    2.0
    """
    before, value = base.read, base.value
    read: Callable[[Any], Any] = lambda function: operation(before(function), *keys)
    if base is FUNCTION:
        read = lambda function: operation(function, *keys)
    elif base.operation is None:  # one object
        read = lambda function: operation(value, *keys)
    named = [key if isinstance(key, (str, int)) else id(key) for key in keys]
    made = Path(read, (operation, base.place, *named), base.moves)
    made.operation, made.base, made.keys = operation, base, keys
    return made


def both(question: Callable[[Any, Any], Any], left: Path, right: Path) -> Path:
    """The path to the answer to a question on what two others lead to."""
    one, other = left.read, right.read
    place, moves = (question, left.place, right.place), left.moves or right.moves
    made = Path(lambda function: question(one(function), other(function)), place, moves)
    made.operation = question
    return made


def in_cell(function: Any, number: int) -> Any:
    """The present value of a closure cell."""
    return function.__closure__[number].cell_contents


def static_member(owner: Any, name: str) -> Any:
    """``inspect.getattr_static(owner, name, None)``, quickly for most classes and instances.

    >>> static_member(1, "real") is int.real, static_member(Path, "read") is Path.read
    (True, True)
    """
    kind = type(owner)
    if kind is type:
        for base in owner.__mro__:
            if name in base.__dict__:
                return base.__dict__[name]
    if type(kind) is not type or isinstance(owner, type):
        return inspect.getattr_static(owner, name, None)
    found = _ABSENT
    for base in kind.__mro__:
        members = base.__dict__
        if found is _ABSENT and name in members:
            found = members[name]
        own = members.get("__dict__")
        if own is not None and type(own) not in _PLAIN_DICTS:
            return inspect.getattr_static(owner, name, None)
    try:
        held = dict.get(object.__getattribute__(owner, "__dict__"), name, _ABSENT)
    except AttributeError:  # an instance with slots alone
        held = _ABSENT
    if held is _ABSENT:
        return None if found is _ABSENT else found
    if found is _ABSENT:
        return held
    return inspect.getattr_static(owner, name, None)
