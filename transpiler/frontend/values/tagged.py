"""Values of two kinds: ``x`` is a float on one path and an array on another, or has no value.

Such a value is a tag, which is the truth of the test that decided, and what the name holds on
either path. Where the tests around decide the tag, a read gives the one value. Elsewhere the
statement that reads it is interpreted twice, on a branch over the tag::

    if small:
        kind = "circle"      # before: kind holds a text of two
    else:
        kind = "ellipse"
    if kind == "circle":     # after: if small: area = ..., with kind known
        area = np.pi * a ** 2
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from calque.transpiler.errors import Origin, TagNeeded
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, Opened, kind
from calque.transpiler.frontend.values.containers.object_kinds import ObjectKind
from calque.transpiler.frontend.values.descriptions import Constant, Description, Structure
from calque.transpiler.frontend.values.heap import shown_name
from calque.transpiler.frontend.values.optional import OptionalStructure

_LASTING = (str, bytes, type, FunctionType, BuiltinFunctionType, np.ufunc)
_serial = itertools.count(1)


def moment() -> int:
    """A number greater than the serial number of each tagged value that there is."""
    return next(_serial)


@dataclass(eq=False)
class TaggedValue:
    """``first`` where ``tag`` is true, else ``second``; either may be MISSING."""

    tag: Any
    first: Any
    second: Any
    message: str  # why the two values are not one
    serial: int = field(default_factory=moment)

    def __bool__(self) -> bool:
        raise tag_needed(self, "", None)

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        raise tag_needed(self, "", None)

    __hash__ = object.__hash__

    def calque_children(self) -> list[Any]:
        """The values that a snapshot of the heap must follow."""
        return [self.tag, self.first, self.second]

    def may_be_missing(self) -> bool:
        """True if some path gives the place no value."""
        return any(
            part is MISSING or (isinstance(part, TaggedValue) and part.may_be_missing())
            for part in (self.first, self.second)
        )


def tag_needed(
    value: TaggedValue, name: Any, origin: Origin | None, entering: bool = False
) -> TagNeeded:
    """The error of a read of a tagged value, or of a loop that changes one (``entering``)."""
    needed = TagNeeded(
        f"{shown_name(name) or 'this value'} cannot be used here: {value.message}.",
        origin,
        "give it values of one kind on every path",
    )
    needed.value, needed.entering = value, entering
    return needed


@dataclass(frozen=True)
class TaggedStructure(Structure):
    """The description of a value of two kinds: the tag, and a description of either value."""

    def leaf_values(self, value: Any) -> list[Any]:
        """The tag, and the leaves of both values, or stand-ins for them."""
        if isinstance(value, TaggedValue):
            return super().leaf_values(value)
        tag: Any = value
        if value is MISSING:  # the tag says so
            tag = self.missing_part() == 1
        parts = zip(self.parts[1:], (value, value), strict=True)
        return [tag, *(leaf for part, given in parts for leaf in part.leaf_values(given))]

    def missing_part(self) -> int | None:
        """The position of the part that stands for no value; None if there is none."""
        for position, part in enumerate(self.parts[1:], 1):
            if isinstance(part, Constant) and part.value is MISSING:
                return position
        return None

    def is_plain(self) -> bool:
        return False


def can_be_tagged(description: Description) -> bool:
    """True if a value may be one of two: if it holds nothing that a store would change."""
    if isinstance(description, Constant):
        value = description.value
        return value is None or isinstance(value, _LASTING) or description.is_plain()
    if isinstance(description, (TaggedStructure, OptionalStructure)):
        return all(map(can_be_tagged, description.parts))
    if isinstance(description, Structure):
        holder = description.kind[0]
        is_tuple = isinstance(holder, type) and issubclass(holder, tuple)
        return is_tuple and all(map(can_be_tagged, description.parts))
    return description.is_plain()


@kind(TaggedValue)
class TaggedKind(ObjectKind):
    """The kind of values of two kinds."""

    structure = TaggedStructure

    def opened(self, value: TaggedValue) -> Opened | None:
        rebuild = lambda parts: TaggedValue(parts[0], parts[1], parts[2], value.message)
        return (TaggedValue, 3), rebuild, [value.tag, value.first, value.second]


def raise_if_entering(error: Exception) -> None:
    """Raise an error again if a loop changes a tagged value: it is run for either kind."""
    if isinstance(error, TagNeeded) and error.entering:
        raise error
