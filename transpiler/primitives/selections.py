"""Conditions under which an adjoint can differ from zero, and how they combine.

A ``Selection`` is a condition that is written into the program only when somebody asks for it. Two
of them are compared by their keys, so that ``c & c`` is ``c`` and is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.ir.core import Apply, Block, If, Var

_MOST_AGAIN = 6  # operations by which a condition is made of values outside of an arm
_LINKS = 4  # how far back a flag is followed that stays true


@dataclass(frozen=True)
class Selection:
    """The elements of an adjoint that can differ from zero, as a condition that can be written."""

    write: Callable[[], Any]  # the result broadcasts against the adjoint
    key: Any  # conditions of one key are equal
    number: bool  # one condition for all elements
    needs: frozenset[Var]  # the values that the condition is written of
    places: bool = False  # an array of flags, into which stores into the adjoint are noted
    tested: bool = True  # a test has a part in it, not only loops that may have no iteration


@dataclass(frozen=True)
class _AnyOf:
    """The key of a condition that holds where one of several does."""

    keys: frozenset[Any]


# the adjoint is zero everywhere
NEVER = Selection(lambda: False, _AnyOf(frozenset()), True, frozenset())


@dataclass
class Selections:
    """The selections that one reverse sweep knows."""

    noted: set[Var] = field(default_factory=set)  # adjoints that are zero where another is chosen
    guards: dict[Var, Selection | None] = field(default_factory=dict)
    infinite: dict[Var, bool] = field(default_factory=dict)  # whether a value may be, where unused
    anywhere: dict[Var, bool] = field(default_factory=dict)  # whether a value may be at all
    conditions: dict[Any, tuple[Block, int, Apply]] = field(default_factory=dict)  # those written
    written: dict[Var, Selection] = field(default_factory=dict)  # what conditions say
    inside: dict[Var, set[Var]] = field(default_factory=dict)  # what only a branch's arms see
    reversing: Apply | None = None  # the statement whose rule is at work


@contextmanager
def selections() -> Iterator[None]:
    """Selections are noted, and found again, until this is left."""
    builder = current()
    before, builder.selections = builder.selections, Selections()
    try:
        yield
    finally:
        builder.selections = before


def is_zero(value: Any) -> bool:
    """True of the number zero."""
    return not isinstance(value, (Var, Array)) and value == 0


def written(guard: Selection) -> Any:
    """The condition, written once for all statements that see it."""
    builder, conditions = current(), current().selections.conditions
    block, place, made = conditions.get(guard.key, (None, 0, None))
    if any(b is block for b in builder.blocks) and block.statements[place : place + 1] == [made]:
        return Array(made.out)
    condition = guard.write()
    if not isinstance(condition, Array):
        return condition
    builder.selections.written.setdefault(condition.atom, guard)
    block = builder.blocks[-1]
    if block.statements and block.statements[-1].outs == (condition.atom,):
        place = len(block.statements) - 1
        conditions[guard.key] = block, place, block.statements[place]
    return condition


def key_of(value: Any, depth: int = 8) -> Any:
    """A key that two values share if they are made in the same way of the same values."""
    made = current().definitions.get(value) if depth and isinstance(value, Var) else None
    if not isinstance(made, Apply):
        return value
    of = (key_of(a, depth - 1) for a in made.args)
    return made.primitive.name, made.outs.index(value), repr(made.params), *of


def same_condition(left: Any, right: Any) -> bool:
    """True if two conditions are known to be equal."""
    return left is right or key_of(left) == key_of(right)


def holds(test: Var, negated: bool = False) -> Selection:
    """The selection of what is used where ``test`` holds, or where it does not."""
    known = current().selections.written.get(test)
    if known is not None and not negated:
        return known
    key, number, needs = key_of(test), not test.type.ndim, frozenset([test])
    if negated:
        opposite = lambda: FUNCTIONS[np.logical_not](Array(test))
        return Selection(opposite, ("not", key), number, needs)
    if test.type.dtype.kind != "b":  # the truth of a number
        return Selection(lambda: Array(test) != 0, key, number, needs)
    return Selection(lambda: Array(test), key, number, needs)


def flagged(flag: Var, tested: bool = True) -> Selection:
    """The selection that an array of flags, or one flag, says at run time."""
    alone = not flag.type.ndim
    return Selection(lambda: Array(flag), flag, alone, frozenset([flag]), not alone, tested)


def both(left: Selection, right: Selection | None) -> Selection:
    """The elements that two selections have in common; None selects every element."""
    if right is None or _implies(left.key, right.key):
        return left
    if _implies(right.key, left.key):
        return right
    key = _parts(left.key) | _parts(right.key)
    return Selection(lambda: written(left) & written(right), key, *_joined(left, right))


def either(left: Selection | None, right: Selection | None) -> Selection | None:
    """The elements that one of two selections has; None selects every element."""
    if left is None or right is None:
        return None
    for one, other in ((left, right), (right, left)):
        if _implies(other.key, one.key):
            return one
    arms = _arms(left.key) | _arms(right.key)
    if any(("not", arm) in arms for arm in arms):
        return None  # one of the two holds everywhere
    key = _AnyOf(arms)
    return Selection(lambda: written(left) | written(right), key, *_joined(left, right))


def outside(guard: Selection, inside: Collection[Var]) -> Selection | None:
    """The same selection without the values of a block; None if these cannot be recomputed outside.

    What they are made of by functions of single elements is compared there once more.
    """
    if guard.needs.isdisjoint(inside):
        return guard
    needs: set[Var] = set()
    if not all(_can_be_again(v, inside, needs, _MOST_AGAIN) for v in guard.needs):
        return None

    def write() -> Any:
        builder = current()
        with builder.block() as block:
            condition = guard.write()
        if not isinstance(condition, Array):
            return condition
        made: dict[Var, Var] = {}
        local = {out: s for s in block.statements for out in s.outs}

        def again(atom: Any) -> Any:
            if not isinstance(atom, Var) or atom in made:
                return made.get(atom, atom)
            found = local.get(atom) or (atom in inside and builder.definitions.get(atom))
            if not isinstance(found, Apply):
                return atom
            args = tuple(map(again, found.args))
            made[atom] = atom.again()
            builder.emit(replace(found, outs=(made[atom],), args=args, origin=builder.origin))
            return made[atom]

        return Array(again(condition.atom))

    return replace(guard, write=write, needs=frozenset(needs))


def _can_be_again(value: Var, inside: Collection[Var], needs: set[Var], depth: int) -> bool:
    """True if a value of a block can be made outside; ``needs`` gets what it is made of there."""
    if value not in inside:
        needs.add(value)
        return True
    made = current().definitions.get(value)
    if not depth or not isinstance(made, Apply) or made.primitive.kind != "elementwise":
        return False
    t = made.outs[0].type
    if t.weak and t.dtype.kind in "fc" and not made.primitive.total:
        return False  # Python's numbers raise errors where the block does not run
    operands = (a for a in made.args if isinstance(a, Var))
    return all(_can_be_again(a, inside, needs, depth - 1) for a in operands)


def chosen(test: Var, then: Selection | None, orelse: Selection | None) -> Selection | None:
    """The elements used by the arm that a test takes; None selects every element."""
    if then is None and orelse is None:
        return None
    if then is not None and orelse is not None and then.key == orelse.key:
        return then
    if then is None:
        return either(holds(test), orelse)
    if orelse is None:
        return either(then, holds(test, negated=True))
    return either(both(holds(test), then), both(holds(test, negated=True), orelse))


def _joined(left: Selection, right: Selection) -> tuple[bool, frozenset[Var], bool, bool]:
    number, needs = left.number and right.number, left.needs | right.needs
    return number, needs, left.places or right.places, left.tested or right.tested


def _parts(key: Any) -> frozenset[Any]:
    """The keys of the conditions that hold together."""
    return key if isinstance(key, frozenset) else frozenset([key])


def _arms(key: Any) -> frozenset[Any]:
    """The keys of the conditions of which one must hold."""
    return key.keys if isinstance(key, _AnyOf) else frozenset([key])


def _implies(key: Any, other: Any) -> bool:
    """True if a condition follows from another, by the parts of both."""
    if isinstance(key, _AnyOf):
        return all(_implies(arm, other) for arm in key.keys)
    parts = _parts(key)
    if _parts(other) <= parts:
        return True
    known = parts | _held_before(parts)

    def follows(part: Any) -> bool:
        if part in known:
            return True
        arms = _arms(part) if isinstance(part, _AnyOf) else ()
        return any(all(map(follows, _parts(arm))) for arm in arms)

    return all(map(follows, _parts(other)))


def _held_before(keys: frozenset[Any]) -> set[Any]:
    """The conditions that a loop had not been left at earlier times, if it has not been by now.

    Where a test holds, the flag behind it does: ``left.1 = left.0 or ...``, said as a branch.
    """
    found: set[Any] = set()
    for key in keys:
        flag: Any = key[1] if type(key) is tuple and key[0] == "not" else None
        for _ in range(_LINKS):
            made = current().definitions.get(flag) if isinstance(flag, Var) else None
            if not isinstance(made, If):
                break
            held = made.then.results[made.outs.index(flag)]
            if held is not True and held is not made.test:
                break
            flag = made.test
            found.add(("not", key_of(flag)))
    return found
