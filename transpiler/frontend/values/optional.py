"""Values that are None on some paths: ``best = None`` before a loop that may find a number.

Such a value is a flag and a value, which may be read where the tests around imply that it is not
None. Python raises TypeError for arithmetic with None: so does a read that no test protects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.frontend.values.containers.container_kinds import MISSING, Opened, kind
from calque.transpiler.frontend.values.containers.object_kinds import ObjectKind
from calque.transpiler.frontend.values.descriptions import DEAD, Structure
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Apply, If, Origin, Statement, Var
from calque.transpiler.primitives.logic import (
    and_,
    bitwise_and,
    bitwise_or,
    logical_and,
    logical_not,
    logical_or,
    not_,
    or_,
)

Facts = list[tuple[Any, bool]]  # tests that are known to be true, or false


@dataclass(eq=False)
class Mismatch:
    """The value of a location whose versions in two arms do not fit together; never read."""

    message: str
    origin: Origin | None
    test: Any = None  # what decides between the arms
    undefined: bool = False  # it has no value on one path
    absent: bool = False  # on one path its container does not even have the key


@dataclass(eq=False)
class Maybe:
    """``value`` where ``there`` is true, else None."""

    there: Any
    value: Any

    def calque_children(self) -> list[Any]:
        """The values that a snapshot of the heap must follow."""
        return [self.there, self.value]


@dataclass(frozen=True)
class OptionalStructure(Structure):
    """The description of a value that may be None: a flag, and the value."""

    def leaf_values(self, value: Any) -> list[Any]:
        """The flag, and the leaves of the value, or stand-ins for them."""
        if isinstance(value, Maybe):
            return super().leaf_values(value)
        if value is MISSING or value is DEAD:
            return [v for p in self.parts for v in p.leaf_values(value)]
        return [value is not None, *self.parts[1].leaf_values(value)]


@kind(Maybe)
class MaybeKind(ObjectKind):
    """The kind of values that may be None."""

    structure = OptionalStructure

    def opened(self, value: Maybe) -> Opened:
        return (Maybe, 2), rebuilt, [value.there, value.value]


def rebuilt(parts: list[Any]) -> Maybe:
    """A Maybe of its parts, the flag named after the value."""
    there, value = parts
    if isinstance(there, Array) and isinstance(value, Array) and value._value.name:
        there._value.name = f"has_{value._value.name}"
    return Maybe(there, value)


class Flags:
    """Flags that are always equal: of ``best, at = None, None`` that are set together, say."""

    def __init__(self) -> None:
        self._same: dict[Var, Var] = {}

    def first(self, flag: Any) -> Any:
        """The representative of a flag among its equals; a known flag is its own."""
        while isinstance(flag, Var) and flag in self._same:
            flag = self._same[flag]
        return flag

    def of(self, value: Any) -> Any:
        """The flag of a value that may be None; for any other value, True unless it is None."""
        if not isinstance(value, Maybe):
            return value is not None
        there = value.there
        return self.first(there.atom) if isinstance(there, Array) else bool(there)

    def starting_alike(self, slots: Sequence[Any], values: Sequence[Any]) -> list[list[Any]]:
        """The values of a loop's optional places, grouped by the flags that these start with."""
        found: dict[Any, list[Any]] = {}
        for slot, value in zip(slots, values, strict=True):
            if isinstance(slot.description, OptionalStructure):
                found.setdefault(self.of(slot.initial), []).append(value)
        return list(found.values())

    def unite(self, values: Iterable[Any]) -> None:
        """Note that the flags of these values are equal from now on."""
        first: Any = None
        for flag in map(self.of, values):
            if not isinstance(flag, Var) or flag is first:
                continue
            if first is None:
                first = flag
            else:
                self._same[flag] = first

    def decided(self, value: Any, facts: Facts, definitions: Mapping[Var, Statement]) -> Any:
        """The value itself, or None, if facts decide which; else the optional value."""
        flag = self.of(value)
        if not isinstance(value, Maybe):
            return value
        known = flag if isinstance(flag, bool) else self.follows(flag, facts, definitions)
        return value if known is None else value.value if known else None

    def follows(self, flag: Var, facts: Facts, definitions: Mapping[Var, Statement]) -> bool | None:
        """The flag that tests known to be true, or false, imply; None if they do not decide it."""
        pending = list(facts)
        seen: set[tuple[Var, bool]] = set()  # facts are made of one another
        while pending:
            test, holds = pending.pop()
            if self.first(test) is flag:
                return holds
            if isinstance(test, Var) and (test, holds) not in seen:
                seen.add((test, holds))
                pending += _parts(test, definitions.get(test), holds)
        return None


def _parts(test: Var, made: Statement | None, holds: bool) -> Iterable[tuple[Any, bool]]:
    """The tests that a test which holds, or does not, is made of."""
    if isinstance(made, If):
        then, orelse = (arm.results[made.outs.index(test)] for arm in (made.then, made.orelse))
        if isinstance(then, (bool, np.bool_)) and then != holds:
            yield from ((made.test, False), (orelse, holds))
        if isinstance(orelse, (bool, np.bool_)) and orelse != holds:
            yield from ((made.test, True), (then, holds))
    if not isinstance(made, Apply):
        return
    primitive = made.primitive
    if primitive in (not_, logical_not):
        yield made.args[0], not holds
    elif (primitive in (and_, logical_and, bitwise_and) and holds) or (
        primitive in (or_, logical_or, bitwise_or) and not holds
    ):
        yield from ((arg, holds) for arg in made.args)
