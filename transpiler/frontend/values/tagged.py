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
from dataclasses import dataclass, field, replace
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from calque.transpiler.errors import BranchMismatch, Origin, TagNeeded
from calque.transpiler.frontend.values.containers.container_kinds import (
    MISSING,
    Opened,
    kind,
    kind_of,
)
from calque.transpiler.frontend.values.containers.object_kinds import ObjectKind
from calque.transpiler.frontend.values.descriptions import (
    DEAD,
    Constant,
    Description,
    Leaf,
    Structure,
    is_number,
    join_types,
    same_constant,
)
from calque.transpiler.frontend.values.heap import shown_name
from calque.transpiler.frontend.values.mixed_numbers import MixedStructure, alternatives_of
from calque.transpiler.frontend.values.optional import Maybe, Mismatch, OptionalStructure
from calque.transpiler.ir.builder import Array, current, type_of

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
        which = None if value is DEAD else self.part_of(value)
        if which is None and not any(value is v for v in (DEAD, MISSING, None)):
            raise BranchMismatch("This is of one of three kinds.", current().origin)
        given = [value if which == k else None for k in range(2)]  # None: zeros stand in
        pairs = zip(self.parts[1:], given, strict=True)
        return [which == 0, *(leaf for part, held in pairs for leaf in part.leaf_values(held))]

    def part_of(self, value: Any) -> int | None:
        """The position of the alternative that a value is of; None if it is of neither."""
        return next((k for k, part in enumerate(self.parts[1:]) if accepts(part, value)), None)

    def with_part(self, position: int, part: Description) -> TaggedStructure:
        """The description with another one at a position."""
        parts = [part if k == position + 1 else p for k, p in enumerate(self.parts)]
        return replace(self, parts=tuple(parts))

    def is_plain(self) -> bool:
        return False


def _rebuilt(message: str, parts: list[Any]) -> TaggedValue:
    """A tagged value of its parts, the tag named after the value."""
    tag, first, second = parts
    there = next((p for p in (first, second) if isinstance(p, Array)), None)
    if isinstance(tag, Array):
        name = None if there is None else there._value.name
        missing = first is MISSING or second is MISSING
        tag._value.name = f"has_{name}" if name and missing else None
    return TaggedValue(tag, first, second, message)


def of_two(first: Description, second: Description, message: str) -> TaggedStructure:
    """The description of a value that is one of two."""
    rebuild = partial(_rebuilt, message)
    return TaggedStructure((TaggedValue, 3), rebuild, (Leaf(type_of(True)), first, second))


def accepts(description: Description, value: Any) -> bool:
    """True if a value needs no wider description."""
    if isinstance(description, Constant):
        return same_constant(description.value, value)
    if isinstance(description, TaggedStructure):
        return isinstance(value, TaggedValue) or description.part_of(value) is not None
    if isinstance(description, OptionalStructure):
        given = value.value if isinstance(value, Maybe) else value
        return value is None or accepts(description.parts[1], given)
    if isinstance(description, MixedStructure):
        return alternatives_of(value) is not None
    if isinstance(description, Structure):
        opened = kind_of(value).opened(value)
        if opened is None or opened[0] != description.kind:
            return False
        return all(map(accepts, description.parts, opened[2]))
    wanted = description.leaf_type()
    if wanted is None or not (isinstance(value, Array) or is_number(value)):
        return False
    joined = join_types(wanted, type_of(value), False)
    return joined is not None and joined.dtype == wanted.dtype and joined.weak == wanted.weak


def can_be_tagged(description: Description) -> bool:
    """True if a value may be one of two: if it holds nothing that a store would change."""
    if isinstance(description, Constant):
        value = description.value
        lasting = isinstance(value, (*_LASTING, Mismatch))
        return lasting or value is None or value is MISSING or description.is_plain()
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
        parts = [value.tag, value.first, value.second]
        return (TaggedValue, 3), partial(_rebuilt, value.message), parts


def raise_if_entering(error: Exception) -> None:
    """Raise an error again if a loop changes a tagged value: it is run for either kind."""
    if isinstance(error, TagNeeded) and error.entering:
        raise error
