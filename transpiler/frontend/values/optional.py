"""Values that are None on some paths: ``best = None`` before a loop that may find a number.

Such a value is a flag and a value, which may be read where the tests around imply that it is not
None. Python raises TypeError for arithmetic with None: so does a read that no test protects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.frontend.same_computations import SameComputations
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
_CASES = 4  # branches, at most, both arms of which are considered
Presence = bool | tuple[Any, Any, Any]  # a test, and what holds where it does, and where not


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

    def truth(
        self, flag: Any, facts: Facts, definitions: Mapping[Var, Statement]
    ) -> bool | None:
        """The truth of a flag, if it is known or facts decide it; else None."""
        if not isinstance(flag, Array):
            return bool(flag)
        return self.follows(self.first(flag.atom), facts, definitions)

    def decided(self, value: Any, facts: Facts, definitions: Mapping[Var, Statement]) -> Any:
        """The value itself, or None, if facts decide which; else the optional value."""
        flag = self.of(value)
        if not isinstance(value, Maybe):
            return value
        known = flag if isinstance(flag, bool) else self.follows(flag, facts, definitions)
        return value if known is None else value.value if known else None

    def present(
        self, presence: Presence, facts: Facts, definitions: Mapping[Var, Statement]
    ) -> bool:
        """True if facts imply that a value is there."""
        if isinstance(presence, bool):
            return presence
        test, *arms = presence
        known = self.follows(self.first(test), facts, definitions)
        return all(
            self.present(arm, [*facts, (test, holds)], definitions)
            for arm, holds in zip(arms, (True, False), strict=True)
            if known is None or known is holds
        )

    def follows(
        self, flag: Any, facts: Facts, definitions: Mapping[Var, Statement], cases: int = _CASES
    ) -> bool | None:
        """The flag that tests known to be true, or false, imply; None if they do not decide it."""
        pending = list(facts)
        known: dict[Var, bool] = {}
        seen: set[tuple[Var, bool]] = set()  # facts are made of one another
        while pending:
            test, holds = pending.pop()
            if self.first(test) is flag or SameComputations(definitions).atoms(test, flag):
                return holds
            if isinstance(test, Var) and (test, holds) not in seen:
                seen.add((test, holds))
                known[test] = holds
                pending += _parts(test, definitions.get(test), holds)
            if not pending:
                pending += _chosen_facts(known, definitions)
                pending = [fact for fact in pending if fact not in seen]
        found = self._chosen(flag, known, definitions)
        return self._in_both_cases(flag, facts, definitions, cases) if found is None else found

    def _in_both_cases(
        self, flag: Any, facts: Facts, definitions: Mapping[Var, Statement], cases: int
    ) -> bool | None:
        """A flag that a branch chose, if facts imply the same one in either arm."""
        made = definitions.get(flag) if isinstance(flag, Var) else None
        if not cases or not isinstance(made, If) or not isinstance(made.test, Var):
            return None
        place, found = made.outs.index(flag), set()
        for arm, holds in ((made.then, True), (made.orelse, False)):
            if place >= len(arm.results):
                return None
            more = [*facts, (made.test, holds)]
            found.add(self.follows(arm.results[place], more, definitions, cases - 1))
        return found.pop() if len(found) == 1 else None

    def _chosen(
        self, flag: Any, known: Mapping[Var, bool], definitions: Mapping[Var, Statement]
    ) -> bool | None:
        """A flag that a branch chose, if the branch's test is known; else None."""
        if isinstance(flag, (bool, np.bool_)):
            return bool(flag)
        if flag in known:
            return known[flag]
        made = definitions.get(flag)
        if not isinstance(made, If) or not isinstance(made.test, Var):
            return None
        test = self._chosen(made.test, known, definitions)
        if test is None:
            return None
        arm = made.then if test else made.orelse
        return self._chosen(arm.results[made.outs.index(flag)], known, definitions)


def _chosen_facts(
    known: Mapping[Var, bool], definitions: Mapping[Var, Statement]
) -> Iterable[tuple[Any, bool]]:
    """Facts about what branches chose whose test is known."""
    for test, holds in known.items():
        made = definitions.get(test)
        if isinstance(made, If) and isinstance(made.test, Var) and made.test in known:
            arm = made.then if known[made.test] else made.orelse
            value = arm.results[made.outs.index(test)]
            if isinstance(value, Var):
                yield value, holds


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
