"""Python's iterators, read one element at a time.

An iterator over an array or a list is a place in it, not its values: each element is read when the
iterator is asked for it, so what is stored in between is seen. How far an iterator has come stands
in its attributes, which branches and loops keep, put back and join like those of any object that
the program made.
"""

from __future__ import annotations

import copy
import operator
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NoReturn

import gast
import numpy as np

from calque.transpiler.errors import AliasUndecided, NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.iterables import (
    Behind,
    Endless,
    Generator,
    Iterable,
    Rows,
    refuse_endless,
    sequence,
)
from calque.transpiler.frontend.values.key_presence import ITEMS, VALUES, VIEWS, check_dict
from calque.transpiler.frontend.values.optional import Mismatch
from calque.transpiler.ir.builder import Array, current, known_int

STEPS = 64  # so many elements are taken one by one; more are left to a loop of the program


class Steps:
    """An iterator: ``following`` gives the next element, or raises StopIteration."""

    part: Any = None  # the iterator whose elements this one reads, if there is one

    def __init__(self) -> None:
        self.unsure = False  # where it stands
        current().machine.own(self)

    def following(self) -> Any:
        """``next``."""
        self._check()
        try:
            return self.step()
        except StopIteration as end:
            if getattr(end, "calque_on_a_path", False):
                _refuse("An iterator ends, or does not, by a run-time test.")
            raise StopIteration from None

    def step(self) -> Any:
        """The next element, read now."""
        raise NotImplementedError

    def more(self) -> bool:
        """True if there may be another element, by what is known without reading it."""
        return self.part is None or bool(self.part.more())

    def ends(self) -> bool:
        """True if the iterator comes to an end."""
        return self.part is None or bool(self.part.ends())

    def left(self) -> Iterable | None:
        """An iterable that a loop of the program can run over instead; None if it takes steps."""
        return None

    def _check(self) -> None:
        machine: Machine = current().machine
        if self.unsure:
            _refuse("An iterator is read again that a loop of the generated program has consumed.")
        if id(self) in machine.undecided:
            raise AliasUndecided(
                "`next` moves an iterator of which another name may, or may not, be an alias.",
                current().origin,
                "make the iterator where it is consumed",
            )
        for value in vars(self).values():
            if isinstance(value, Mismatch):
                machine.checked(value, "this iterator", None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.following()


def _refuse(message: str) -> NoReturn:
    hint = "make a list of it first: list(...)"
    raise UnsupportedSyntax(message, current().origin, hint)


class Over(Steps):
    """An iterator over a sequence: a list, a tuple, an array, or an iterable with positions."""

    def __init__(self, source: Any, fixed: bool = False):
        super().__init__()
        self.source, self.position = source, 0
        self.fixed = tuple(source) if fixed else None  # what a deque held, which must stay
        self.ended: Any = False  # Python's stay at their end, even if the list grows afterwards

    def step(self) -> Any:
        """The element at the place where it stands now."""
        if is_true(self.ended):
            raise StopIteration
        _check_fixed(self.source, self.fixed)
        position = known_int(self.position, "Where an iterator stands")
        if position >= known_length(self.source):
            self.ended = True
            raise StopIteration
        self.position = position + 1
        return element_of(self.source, position)

    def left(self) -> Iterable | None:
        """The elements from here on, if they are many; a loop leaves the iterator anywhere."""
        values, position = sequence(self.source), self.position
        if values is None or type(position) is not int or self.ended is not False:
            return None
        length = values.length()
        if type(length) is int and length - position <= STEPS:
            return None
        self.unsure = True
        return Behind(values, position) if position else values

    def more(self) -> bool:
        """As far as lengths are known."""
        length = None if rows_of(self.source) is not None else length_of(self.source)
        if not isinstance(length, int) or not isinstance(self.position, int):
            return self.ended is not True
        return self.ended is not True and self.position < length


class Backwards(Steps):
    """``reversed`` of a sequence."""

    def __init__(self, source: Any, fixed: bool = False):
        super().__init__()
        self.source, self.position = source, known_length(source) - 1
        self.fixed = tuple(source) if fixed else None

    def step(self) -> Any:
        """The element before the last one given."""
        _check_fixed(self.source, self.fixed)
        position = known_int(self.position, "Where an iterator stands")
        if not 0 <= position < known_length(self.source):
            self.position = -1
            raise StopIteration
        self.position = position - 1
        return element_of(self.source, position)

    def more(self) -> bool:
        """True if the position is not known to be before the first element."""
        return not isinstance(self.position, int) or self.position >= 0


def _check_fixed(source: Any, fixed: tuple[Any, ...] | None) -> None:
    """Python does not go on in a deque that has changed."""
    if fixed is None:
        return
    same = rows_of(source) is None and len(source) == len(fixed)
    if not same or not all(map(operator.is_, source, fixed)):
        raise UnsupportedSyntax(
            "A deque has changed since this iterator over it was made.",
            current().origin,
            "loop over a copy: list(...)",
        )


class OverKeys(Steps):
    """An iterator over a dict, its ``keys``, ``values`` or ``items``, or a set."""

    def __init__(self, source: Any, backwards: bool = False):
        super().__init__()
        check_dict(source)
        self.source, self.position, self.ended = source, 0, False
        self.keys = tuple(self._held())
        self.order = self.keys[::-1] if backwards else self.keys

    def _held(self) -> Any:
        return self.source.mapping if isinstance(self.source, VIEWS) else self.source

    def step(self) -> Any:
        """The next key, or the present value or item of the dict under it."""
        if is_true(self.ended):
            raise StopIteration
        self._check_keys()
        position = known_int(self.position, "Where an iterator stands")
        if position >= len(self.order):
            self.ended = True
            raise StopIteration
        self.position = position + 1
        key = self.order[position]
        if isinstance(self.source, VALUES):
            return self._held()[key]
        return (key, self._held()[key]) if isinstance(self.source, ITEMS) else key

    def _check_keys(self) -> None:
        check_dict(self.source)
        held = self._held()
        if len(held) != len(self.keys):
            kind = "Set" if isinstance(held, (set, frozenset)) else "dictionary"
            message = f"{kind} changed size during iteration"
            if "odict" in type(self.source).__name__ or isinstance(held, OrderedDict):
                message = "OrderedDict mutated during iteration"
            current().machine.raises_here(RuntimeError(message))
        if tuple(held) != self.keys:
            raise UnsupportedSyntax(
                "Other keys are in a dict, or they are in another order, than when an iterator "
                "over it was made.",
                current().origin,
                "loop over a copy: list(...)",
            )

    def more(self) -> bool:
        """Another size raises an error: at the end, too."""
        changed = len(self._held()) != len(self.keys)
        behind = isinstance(self.position, int) and self.position >= len(self.order)
        return self.ended is not True and (changed or not behind)


class CallSteps(Steps):
    """An iterator by a ``__next__`` of the user's, or by ``iter(function, sentinel)``."""

    def __init__(self, function: Any, args: list[Any], sentinel: Any, node: Any):
        super().__init__()
        self.function, self.args, self.sentinel = function, tuple(args), sentinel
        self.place, self.ended = MadeAt(node), False

    def step(self) -> Any:
        """The result of the call."""
        if is_true(self.ended):
            raise StopIteration
        machine, node = current().machine, self.place.node()
        found = machine.call_value(self.function, list(self.args), {}, node)
        if self.sentinel is not NO_SENTINEL:
            same = machine.truth(machine.compare(gast.Eq(), found, self.sentinel, node), node)
            if is_true(same):
                self.ended = True
                raise StopIteration
        return found


NO_SENTINEL: Any = object()


class Zip(Steps):
    """``zip`` of iterators without positions, or read one element at a time."""

    def __init__(self, parts: list[Steps], strict: bool = False):
        super().__init__()
        self.parts, self.strict = tuple(parts), strict

    def step(self) -> Any:
        """The next tuple; if a part ends, the elements read from earlier parts are lost."""
        if not self.parts:
            raise StopIteration
        found: list[Any] = []
        for position, part in enumerate(self.parts):
            try:
                found.append(part.following())
            except StopIteration:
                if self.strict:
                    self._compare(position)
                raise
        return tuple(found)

    def _compare(self, ended: int) -> None:
        """Python's words where parts of ``zip(strict=True)`` are not equally long."""
        if ended:
            raise ValueError(
                f"zip() argument {ended + 1} is shorter than argument{_those_before(ended)}"
            )
        for position, part in enumerate(self.parts[1:], 1):
            try:
                part.following()
            except StopIteration:
                continue
            raise ValueError(
                f"zip() argument {position + 1} is longer than argument{_those_before(position)}"
            )

    def more(self) -> bool:
        """True if the first part may have more: it is read before another one ends."""
        return bool(self.parts) and (self.strict or self.parts[0].more())

    def ends(self) -> bool:
        """True if one part ends."""
        return any(p.ends() for p in self.parts)


def _those_before(position: int) -> str:
    return " 1" if position == 1 else f"s 1-{position}"


class Enumerate(Steps):
    """``enumerate``."""

    def __init__(self, part: Steps, count: Any):
        super().__init__()
        self.part, self.count = part, count

    def step(self) -> Any:
        """A pair."""
        found = self.part.following()
        count, self.count = self.count, self.count + 1
        return count, found


class Map(Zip):
    """``map``, and ``itertools.starmap`` of rows of arguments."""

    def __init__(self, function: Any, parts: list[Steps], node: Any, rows: bool = False):
        super().__init__(parts)
        self.function, self.rows, self.place = function, rows, MadeAt(node)

    def step(self) -> Any:
        """The function of the next elements."""
        machine, node = current().machine, self.place.node()
        args = [part.following() for part in self.parts]
        if self.rows:
            args = machine.known_items(args[0], node)
        return machine.call_value(self.function, args, {}, node)


class Filter(Steps):
    """``filter``, and ``itertools.filterfalse``."""

    def __init__(self, function: Any, part: Steps, node: Any, keeps: bool = True):
        super().__init__()
        self.function, self.part, self.keeps, self.place = function, part, keeps, MadeAt(node)

    def step(self) -> Any:
        """The next element that is kept."""
        while True:
            found = self.part.following()
            if chosen(self.function, found, self.place.node()) == self.keeps:
                return found


class MadeAt:
    """The place where an iterator was made: another function may be the one that consumes it."""

    def __init__(self, node: Any):
        self.made, self.call = node, current().machine.call.source

    def node(self) -> Any:
        """The syntax there, while its own function is interpreted."""
        return self.made if current().machine.call.source is self.call else None


def chosen(function: Any, item: Any, node: Any) -> bool:
    """True if a function, or None for the item itself, says yes; that must be known."""
    machine: Machine = current().machine
    keep = item if function is None else machine.call_value(function, [item], {}, node)
    keep = machine.truth(keep, node)
    if isinstance(keep, Array):
        raise current().needs_known(keep, "Which elements are taken")
    return bool(keep)


def is_true(value: Any) -> bool:
    """A truth that an iterator's next step hangs on."""
    if isinstance(value, Array):
        raise current().needs_known(value, "Whether an iterator has ended")
    return bool(value)


def length_of(source: Any) -> Any:
    """The number of elements that a sequence has now."""
    rows = rows_of(source)
    if rows is not None:
        return rows.length()
    if isinstance(source, Array):
        if not source.ndim:
            raise TypeError("iteration over a 0-d array")
        return source.shape[0]
    return source.length() if isinstance(source, Iterable) else len(source)


def known_length(source: Any) -> int:
    """The number of elements that a sequence has now, which must be known."""
    length = length_of(source)
    if not isinstance(length, Array):
        return int(length)
    wanted = current().needs_known(length, "The number of values")
    if isinstance(wanted, NeedsKnownValue):
        raise UnsupportedSyntax(
            "An iterator over a list of run-time length is taken a step at a time.",
            current().origin,
            "count a position, and read the list there; or loop over it by a for",
        )
    raise wanted


def element_of(source: Any, position: int) -> Any:
    """The element of a sequence at a known position."""
    if isinstance(source, Iterable):
        return source.element(position)
    rows = rows_of(source)
    if rows is not None:
        return rows.read(position)
    return Rows(source).element(position) if isinstance(source, Array) else source[position]


def stepping(value: Any) -> Any:
    """An iterator, read one element at a time, over a value; an iterator is itself."""
    if isinstance(value, (Steps, Endless)):
        return value
    if isinstance(value, Iterable):
        if value.spent is None:
            return Over(value)
        if value.cursor is None:
            value.consume()
            value.cursor = Over(copy.copy(value))  # it holds no cursor: none is within itself
        return value.cursor
    if isinstance(value, (dict, set, frozenset, *VIEWS)):
        return OverKeys(value)
    if isinstance(value, (list, tuple, str, bytes, range, Array, np.ndarray)):
        return Over(value)
    refuse_endless(value)
    return Over(tuple(value))


def is_iterator(value: Any) -> bool:
    """True if ``next`` of a value has a meaning."""
    if isinstance(value, Iterable):
        return value.spent is not None or isinstance(value, Endless)
    return isinstance(value, (Steps, Generator))


def lists_within(steps: Any) -> list[Any]:
    """The lists that an iterator reads, itself or by others."""
    found, pending, seen = [], [steps], set()
    while pending:
        value = pending.pop()
        if isinstance(value, (Steps, Iterable)) and id(value) not in seen:
            seen.add(id(value))
            pending += vars(value).values()
        elif isinstance(value, list):
            found.append(value)
        elif isinstance(value, tuple):
            pending += value
    return found
