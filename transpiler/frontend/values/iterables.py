"""What a ``for`` can run over when its length, or its elements, exist at run time only."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calque.transpiler.errors import NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.values.heap import rows_of
from calque.transpiler.frontend.values.key_presence import check_dict
from calque.transpiler.frontend.values.nested_lists import hold_again
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.ir.core import map_tree


class Iterable:
    """A sequence with a length, perhaps recorded, and elements by position, perhaps recorded."""

    def length(self) -> Any:
        """The number of elements."""
        raise NotImplementedError

    def element(self, position: Any) -> Any:
        """The element at a position."""
        raise NotImplementedError

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return list(vars(self).values())

    def runtime(self) -> bool:
        """Whether a loop over it can be a loop of the generated program."""
        return True


class Range(Iterable):
    """``range`` with a recorded bound, or a known one: the loop wraps ``range`` objects."""

    def __init__(self, start: Any, stop: Any, step: Any = 1):
        self.start, self.stop, self.step = start, stop, known_int(step, "The step of a range")
        if self.step == 0:
            raise ValueError("range() arg 3 must not be zero")

    def length(self) -> Any:
        """The trip count; recorded when it is not known."""
        if all(isinstance(v, (int, np.integer)) for v in (self.start, self.stop)):
            span = int(self.stop) - int(self.start)
            return max(-(-span // self.step), 0)  # len() has an end
        span = self.stop - self.start if self.step > 0 else self.start - self.stop
        if abs(self.step) != 1:
            span = (span + (abs(self.step) - 1)) // abs(self.step)
        dims = current().dims
        if abs(self.step) == 1:
            affine = current().dim_of(self.stop) - current().dim_of(self.start)
            affine = affine if self.step > 0 else -affine
            if dims.assume_nonnegative(affine):
                return span
        return FUNCTIONS[np.maximum](span, 0)

    def element(self, position: Any) -> Any:
        """The number at a position."""
        if isinstance(position, int) and position < 0:
            position = self.length() + position
        return self.start + position * self.step


class Rest(Iterable):
    """All elements but the first."""

    def __init__(self, values: Iterable):
        self.values = values

    def length(self) -> Any:
        """One less: there is a first."""
        return self.values.length() - 1

    def element(self, position: Any) -> Any:
        """The one after."""
        return self.values.element(position + 1)

    def runtime(self) -> bool:
        """As the whole."""
        return self.values.runtime()


class Rows(Iterable):
    """The rows of an array; or of a tree of arrays, each element a tree of that structure."""

    def __init__(self, arrays: Any, owner: Any = None):
        self.arrays = arrays
        self.owner = owner  # the list of which these are the elements

    def length(self) -> Any:
        """The size of axis 0."""
        return first_leaf(self.arrays).shape[0]

    def element(self, position: Any) -> Any:
        """One row, a view."""
        rows = rows_of(self.owner)
        if rows is not None:
            return rows.read(position)
        return map_tree(lambda array: hold_again(array[position], array.listed), self.arrays)


class Known(Iterable):
    """A known sequence; its elements can be taken at known positions only."""

    def __init__(self, items: list[Any]):
        self.items = items

    def length(self) -> Any:
        """How many."""
        return len(self.items)

    def element(self, position: Any) -> Any:
        """The item."""
        return self.items[known_int(position, "A position in a list")]

    def runtime(self) -> bool:
        """Its elements may differ in type."""
        return False


class Endless(Iterable):
    """``itertools.count`` and its like: elements by position.

    Where it stands is a value that branches can change.
    """

    def __init__(self, name: str, at: Callable[[Any], Any], anywhere: bool = True):
        self.name, self.at = name, at
        self.anywhere = anywhere  # whether a position may be known at run time only
        self.position: Any = 0
        self.walked = False  # by a zip, which leaves it somewhere

    def length(self) -> Any:
        """There is none."""
        raise UnsupportedSyntax(
            f"{self.name} has no end.",
            current().origin,
            "zip it with what has one, or take itertools.islice of it; for a loop that ends by "
            "`break` write `while True` and count in it",
        )

    def element(self, position: Any) -> Any:
        """The one at a position, counted from where it stood at first."""
        return self.at(position)

    def runtime(self) -> bool:
        """If it can be computed from the position."""
        return self.anywhere

    def walk(self) -> None:
        """Note that it is walked from its start; a second time it would start elsewhere."""
        if self.walked or not isinstance(self.position, int) or self.position:
            raise UnsupportedSyntax(
                f"This {self.name} has been walked before.",
                current().origin,
                "make a new one",
            )
        self.walked = True

    def following(self) -> Any:
        """``next``."""
        if self.walked:
            self.walk()
        position = known_int(self.position, "Where an iterator stands")
        self.position = position + 1
        return self.at(position)


class Zipped(Iterable):
    """``zip``."""

    def __init__(self, parts: list[Iterable]):
        self.parts = parts

    def length(self) -> Any:
        """The shortest part's."""
        lengths = [p.length() for p in ending(self.parts)]
        shortest = lengths[0]
        for other in lengths[1:]:
            a, b = current().dim_of(shortest), current().dim_of(other)
            if a == b:
                continue
            shortest = FUNCTIONS[np.minimum](shortest, other)
            if isinstance(a, int) and isinstance(b, int):
                shortest = min(a, b)
        return shortest

    def element(self, position: Any) -> Any:
        """A tuple of elements."""
        return tuple(p.element(position) for p in self.parts)

    def runtime(self) -> bool:
        """If all parts can."""
        return all(p.runtime() for p in self.parts)


class Enumerated(Iterable):
    """``enumerate``."""

    def __init__(self, part: Iterable, start: Any):
        self.part, self.start = part, start

    def length(self) -> Any:
        """As many as there are."""
        return self.part.length()

    def element(self, position: Any) -> Any:
        """A pair."""
        return (position + self.start, self.part.element(position))

    def runtime(self) -> bool:
        """If the elements can."""
        return self.part.runtime()


class Reversed(Iterable):
    """``reversed``."""

    def __init__(self, part: Iterable):
        self.part = part

    def length(self) -> Any:
        """As many as there are."""
        return self.part.length()

    def element(self, position: Any) -> Any:
        """From the end."""
        return self.part.element(self.part.length() - 1 - position)

    def runtime(self) -> bool:
        """If the elements can."""
        return self.part.runtime()


class MappedElements(Iterable):
    """``map`` with a function over run-time elements."""

    def __init__(self, function: Any, parts: list[Iterable]):
        self.function, self.parts = function, parts

    def length(self) -> Any:
        """The first part's."""
        return Zipped(self.parts).length()

    def element(self, position: Any) -> Any:
        """The function of the elements."""
        return self.function(*[p.element(position) for p in self.parts])

    def runtime(self) -> bool:
        """If a part is: known ones are taken, and the function called, as they are reached."""
        return any(p.runtime() for p in self.parts)


class Deferred(Iterable):
    """``filter`` and its kin: what they choose is settled where they are consumed."""

    def __init__(self, make: Callable[[], list[Any]], sources: list[Any]):
        self.make, self.sources = make, sources
        self.items: Any = None

    def length(self) -> Any:
        """How many there are."""
        if self.items is None:
            self.items = self.make()
        return len(self.items)

    def element(self, position: Any) -> Any:
        """The item."""
        return self.items[known_int(position, "A position in a list")]

    def runtime(self) -> bool:
        """Its elements may differ in type."""
        return False

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return [*self.sources, self.items]


class Taken(list):
    """What ``zip`` and the like took out of known lists: it does not show what they hold later.

    It is consumed where it stands; what has a name is a ``Cursor`` instead (see ``once``).
    """

    def __init__(self, items: Any, sources: list[Any], in_step: bool = True):
        super().__init__(items)
        self.sources = sources
        self.in_step = in_step  # element k comes of their elements k


class Walkable(Iterable):
    """``iter`` of a list of run-time length: a ``for`` runs over the list itself, once."""

    def __init__(self, values: Any):
        self.values, self.spent = values, False

    def length(self) -> Any:
        """As many as there are now."""
        return as_iterable(self.values).length()

    def element(self, position: Any) -> Any:
        """The list's own."""
        return as_iterable(self.values).element(position)


class Cursor:
    """An iterator of known items; where it stands is a value that branches can change."""

    def __init__(self, items: list[Any], sources: list[Any] | None = None):
        self.items, self.position = items, 0
        self.sources = sources or []
        self.walked = False  # by a for statement or another iterator, which may leave it anywhere
        self.readers: list[Cursor] = []  # what was made of it, and has a name
        for source in self.sources:
            if isinstance(source, Cursor):
                source.readers.append(self)
        self.made_of = [(s, tuple(s)) for s in _lists(self.sources)]

    def check(self) -> None:
        """Refuse to go on where Python would see what a list holds now, or stand elsewhere."""
        if self.walked or any(not r.spent() for r in self.readers):
            raise UnsupportedSyntax(
                "An iterator that a for statement, or another iterator, walks is read again.",
                current().origin,
                "make a list of it first: list(...)",
            )
        for values, before in self.made_of:
            same = len(values) == len(before) and all(map(operator.is_, values, before))
            if not same:
                raise UnsupportedSyntax(
                    "A list has changed since this iterator over it was made.",
                    current().origin,
                    "make the iterator where it is consumed",
                )

    def __iter__(self) -> Any:
        self.check()
        rest = self.items[self.position :]
        self.position = len(self.items)
        return iter(rest)

    def spent(self) -> bool:
        """Whether it is known to have come to its end."""
        return isinstance(self.position, int) and self.position == len(self.items)

    def taken(self, take: Callable[[Iterator[Any]], Any]) -> Any:
        """What ``take`` makes of the items from here on; those that it does not reach stay."""
        rest = iter(self)
        found = take(rest)
        self.position -= operator.length_hint(rest)
        return found


def walk_cursors(value: Any) -> None:
    """What is read as it is needed may leave the iterators that it reads anywhere."""
    for source in (value, *getattr(value, "sources", ())):
        if isinstance(source, Cursor):
            source.walked = True


def _lists(sources: list[Any]) -> list[list[Any]]:
    """The lists that an iterator was made of."""
    nested = [s.sources for s in sources if isinstance(s, (Taken, Cursor))]
    plain = [s for s in sources if isinstance(s, list) and not isinstance(s, Taken)]
    return plain + [v for n in nested for v in _lists(n)]


def once(value: Any, own: Any) -> Any:
    """What a name is given: Python's ``zip`` and its kin can be consumed once only."""
    if isinstance(value, Taken):
        return own(Cursor(list(value), value.sources))
    if type(value).__module__ == "itertools":
        return own(Cursor(list(value)))
    lazy = (Zipped, Enumerated, Reversed, MappedElements, Deferred)
    if isinstance(value, lazy) and not hasattr(value, "spent"):
        value.spent = False  # type: ignore[union-attr]
        own(value)
    return value


def walked_lists(value: Any) -> tuple[list[Any], list[Any]]:
    """The lists that a loop over a value reads as it goes, and those that it has read before."""
    if isinstance(value, (Taken, Deferred)):
        nested = [walked_lists(s) for s in value.sources]
        return [], [v for live, taken in nested for v in (*live, *taken)]
    if isinstance(value, Cursor):
        return [], [v for s in value.sources for part in walked_lists(s) for v in part]
    if isinstance(value, Rows):
        return [value.owner], []
    if isinstance(value, Known):
        value = value.items
    if isinstance(value, list):
        return [value], []
    parts = getattr(value, "parts", None) or [getattr(value, "part", None)]
    nested = [walked_lists(p) for p in parts if p is not None]
    return [v for n in nested for v in n[0]], [v for n in nested for v in n[1]]


def _in_step(value: Any) -> list[Any]:
    """The lists of which round k of a loop over a value has the element k."""
    if isinstance(value, Taken):
        return [v for s in value.sources for v in _in_step(s) if value.in_step]
    return [value] if isinstance(value, list) else []


class Walk:
    """A for statement under way, and the lists that it runs over."""

    def __init__(self, source: Any, iterable: Iterable):
        taken_from = isinstance(source, (Taken, Cursor, Deferred))
        self.live, self.taken = walked_lists(source if taken_from else iterable)
        self.in_step = _in_step(source) if isinstance(source, Taken) else []
        self.position = -1  # of the round, where it is known

    def misses(self, values: Any, live: bool, place: int | None) -> bool:
        """Whether Python's loop would see a change, and this one does not.

        ``live``: one that it sees where it reads the list as it goes; ``place``: of one element.
        """
        if any(v is values for v in self.taken):
            passed = place is not None and 0 <= place <= self.position
            if not (passed and any(v is values for v in self.in_step)):
                return True
        return not live and any(v is values for v in self.live)


def ending(parts: list[Iterable]) -> list[Iterable]:
    """The parts that have an end: a zip of them ends with the first."""
    return [p for p in parts if not isinstance(p, Endless)] or parts


def is_runtime_iterable(value: Any) -> bool:
    """Whether a value is one of the above."""
    return isinstance(value, Iterable)


def as_iterable(value: Any) -> Iterable:
    """Anything a ``for`` can run over, with length and positions."""
    if not isinstance(value, Generator):
        machine = current().machine
        value = machine.consumed_value(machine.iterated(value, None), None)
    if isinstance(value, Endless):
        value.walk()
    if isinstance(value, Iterable) and hasattr(value, "cursor"):
        value = Known(list(value.cursor))
    if isinstance(value, Iterable):
        if getattr(value, "spent", False):
            raise UnsupportedSyntax(
                "An iterator is consumed a second time.",
                current().origin,
                "make a list of it first: list(...)",
            )
        if hasattr(value, "spent"):
            value.spent = True
        return value
    if isinstance(value, Generator):
        raise UnsupportedSyntax(
            f"The generator {value.closure.name} is consumed step by step.",
            current().origin,
            "consume it by a for alone, or make a list of it first: list(...)",
        )
    if isinstance(value, Array):
        return Rows(value)
    if isinstance(value, range):
        return Range(value.start, value.stop, value.step)
    rows = rows_of(value)
    if rows is not None:
        return Rows(rows.stacked(), value)
    refuse_endless(value)
    check_dict(value)
    return Known(value if isinstance(value, list) else list(value))


def refuse_endless(value: Any) -> None:
    """What Python would iterate for ever while the function is read.

    A class without ``__iter__`` is iterated by ``__getitem__`` until an IndexError, which recorded
    reads never give.
    """
    kind = type(value)
    if isinstance(value, (itertools.count, itertools.cycle, itertools.repeat)):
        raise UnsupportedSyntax(
            f"A captured itertools.{kind.__name__} changes from call to call.",
            current().origin,
            "make it inside the function",
        )
    users = not kind.__module__.startswith("numpy")  # np.mgrid is indexed, never iterated
    if users and hasattr(kind, "__getitem__") and not hasattr(kind, "__iter__"):
        raise NeedsKnownValue(
            f"The items of a {kind.__name__}, which has no __iter__, end where an index is out of "
            "range; that is not known when the code is generated.",
            current().origin,
            "give the class an __iter__, or loop over range(len(...))",
        )


class Generator:
    """A call of a generator function, or a generator expression, before it is consumed."""

    def __init__(self, closure: Any, frame: Any, origin: Any):
        self.closure, self.frame, self.origin = closure, frame, origin
        self.started: Any = False


def leaves(arrays: Any) -> list[Array]:
    """The arrays of a tree of them."""
    found: list[Array] = []
    map_tree(found.append, arrays)
    return found


def first_leaf(arrays: Any) -> Array:
    """The first array of a tree of them."""
    return leaves(arrays)[0]
