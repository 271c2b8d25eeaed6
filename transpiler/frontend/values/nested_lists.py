"""Lists and dicts that are elements of a list kept in arrays: reading one gives a copy.

Python's list holds the container itself, so a change of one must show in the other. The first such
change starts the interpretation again, with the loops unrolled that fill the list.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.frontend.values.containers.container_kinds import all_within
from calque.transpiler.frontend.values.mixed_numbers import alternatives_of
from calque.transpiler.ir.builder import Array, current, type_of
from calque.transpiler.ir.types import ArrayType


@dataclass(eq=False)
class Filled:
    """The loops and elements that filled a list kept in arrays; lists made from it share this."""

    loops: set[Any] = field(default_factory=set)  # the places of those that fill it
    lists: set[int] = field(default_factory=set)  # which arrays hold lists as their elements
    classes: dict[int, set[ArrayType]] = field(default_factory=dict)  # of numbers, array by array

    def note_classes(self, leaves: Iterable[Any]) -> bool:
        """Record the classes of an element's numbers; True if all were known before."""
        known = True
        for number, leaf in enumerate(leaves):
            own = self.classes.setdefault(number, set())
            new = {a.type for a in alternatives_of(leaf) or ()} - own
            known &= not new
            own |= new
        return known


def hold(value: Any, rows: Any) -> Any:
    """Note that the containers within a value are elements of a list kept in arrays."""
    if rows is not None:
        held = current().machine.held
        for container in containers(value):
            held[id(container)] = (container, rows)
    return value


def hold_again(value: Any, rows: Any) -> Any:
    """``hold`` for a value made anew, such as a loop's; an array stands for a list."""
    if not isinstance(value, Array):
        return hold(value, rows)
    if rows is not None and value.ndim:
        value.listed = rows
    return value


def holder(value: Any) -> Any:
    """The list kept in arrays that holds a container within a value; None if there is none."""
    if isinstance(value, Array):
        return value.listed
    held = current().machine.held
    parts = list(value) if isinstance(value, (list, tuple)) else []
    arrays = (p.listed for p in parts if isinstance(p, Array) and p.listed is not None)
    found = itertools.chain((held[id(c)][1] for c in containers(value) if id(c) in held), arrays)
    return next(found, None)


def alike(values: Any) -> bool:
    """True if all values are numbers, or all are arrays, of one dtype and one shape."""
    if not values or not all(isinstance(v, (Array, int, float)) for v in values):
        return False
    resolve = current().dims.resolve
    types = [type_of(v) for v in values]
    return len({(t.dtype, t.weak, tuple(map(resolve, t.dims))) for t in types}) == 1


def containers(value: Any) -> Iterator[Any]:
    """The lists and dicts in a value, itself and those within tuples too."""
    return (part for part in all_within(value) if isinstance(part, (list, dict)))
