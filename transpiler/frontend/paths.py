"""Paths to the values that a program reads outside of itself: closure cell, attribute, index.

A path starts at one object (a module's globals, say), or at the function that a program is of. The
latter is given when the path is read: so one program serves all functions made of the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
