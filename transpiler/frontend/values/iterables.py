"""Iterables of a ``for`` whose length or elements are known only at run time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

import numpy as np

from calque.transpiler.errors import NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.nested_lists import hold_again
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.ir.core import map_tree


class Iterable:
    """A sequence with a length, perhaps recorded, and elements by position, perhaps recorded.

    Of Python's iterators (``zip`` and its kin) ``spent`` says whether they have been consumed, and
    ``cursor`` takes steps where ``next`` has; both are None of sequences, such as ``range``.
    """

    spent: bool | None = None
    cursor: Any = None

    def iterates(self) -> None:
        """Note that this is one of Python's iterators."""
        self.spent = False
        current().machine.own(self)

    def consume(self) -> None:
        """Python's iterators can be consumed once only."""
        if self.spent:
            raise UnsupportedSyntax(
                "An iterator is read again that a loop, or another iterator, has consumed.",
                current().origin,
                "make a list of it first: list(...)",
            )
        if self.spent is not None:
            self.spent = True

    def length(self) -> Any:
        """The number of elements."""
        raise NotImplementedError

    def element(self, position: Any) -> Any:
        """The element at a position."""
        raise NotImplementedError

    def calque_children(self) -> list[Any]:
        """The values that a snapshot of the heap must follow."""
        return list(vars(self).values())


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


class FlatElements(Iterable):
    """``x.flat``: an iterator over elements, which an index sends back to its start."""

    def __init__(self, array: Any):
        self.array = array
        self.iterates()

    def length(self) -> Any:
        """The number of elements."""
        return self.array.shape[0]

    def element(self, position: Any) -> Any:
        """The element that is there now."""
        return self.array[position]

    def __getitem__(self, index: Any) -> Any:
        self.spent, self.cursor = False, None
        found = self.array[index]
        return FUNCTIONS[np.copy](found) if isinstance(found, Array) and found.ndim else found

    def calque_store(self, index: Any, value: Any) -> None:
        """A store into the array."""
        self.spent, self.cursor = False, None
        self.array[index] = value


class Behind(Iterable):
    """All elements of an iterable after the first ``count``."""

    def __init__(self, values: Iterable, count: int):
        self.values, self.count = values, count

    def length(self) -> Any:
        """The number of elements that are left."""
        return self.values.length() - self.count

    def element(self, position: Any) -> Any:
        """The element at a position, counted after the first ``count``."""
        return self.values.element(position + self.count)


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

    def __init__(self, items: list[Any] | tuple[Any, ...]):
        self.items = items

    def length(self) -> Any:
        """The number of items."""
        return len(self.items)

    def element(self, position: Any) -> Any:
        """The item."""
        return self.items[known_int(position, "A position in a list")]


class Endless(Iterable):
    """``itertools.count`` and its like: elements by position.

    Where it stands is a value that branches can change.
    """

    def __init__(self, name: str, at: Callable[[Any], Any]):
        self.name, self.at = name, at
        self.position: Any = 0
        self.walked = False  # by a zip, which leaves it somewhere

    def length(self) -> Any:
        """There is none."""
        refuse_unending(self)

    def element(self, position: Any) -> Any:
        """The one at a position, counted from where it stood at first."""
        return self.at(position)

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

    def more(self) -> bool:
        """There is always another."""
        return True

    def ends(self) -> bool:
        """It does not."""
        return False

    def __iter__(self) -> Iterator[Any]:
        return self.length()


def refuse_unending(steps: Any) -> NoReturn:
    """Refuse to consume to its end an iterator that never ends."""
    raise UnsupportedSyntax(
        f"{getattr(steps, 'name', 'This iterator')} has no end.",
        current().origin,
        "zip it with what has one, or take itertools.islice of it; for a loop that ends by "
        "`break` write `while True` and count in it",
    )


class Zipped(Iterable):
    """``zip``."""

    def __init__(self, parts: list[Iterable]):
        self.parts = parts
        self.iterates()

    def length(self) -> Any:
        """The shortest part's."""
        return shortest(self.parts)

    def element(self, position: Any) -> Any:
        """A tuple of elements."""
        return tuple(p.element(position) for p in self.parts)


class Enumerated(Iterable):
    """``enumerate``."""

    def __init__(self, part: Iterable, start: Any):
        self.part, self.start = part, start
        self.iterates()

    def length(self) -> Any:
        """As many as there are."""
        return self.part.length()

    def element(self, position: Any) -> Any:
        """A pair."""
        return (position + self.start, self.part.element(position))


class Reversed(Iterable):
    """``reversed``."""

    def __init__(self, part: Iterable):
        self.part = part
        self.count = part.length() if walked_lists(part) else None  # of a list when this was made
        self.iterates()

    def length(self) -> Any:
        """As many as there were."""
        length, dim_of = self.part.length(), current().dim_of
        if self.count is not None and dim_of(self.count) != dim_of(length):
            raise UnsupportedSyntax(
                "A list has another length than when `reversed` was called.",
                current().origin,
                "call it where it is consumed",
            )
        return length

    def element(self, position: Any) -> Any:
        """From the end."""
        return self.part.element(self.part.length() - 1 - position)


class MappedElements(Zipped):
    """``map`` with a function over run-time elements."""

    def __init__(self, function: Any, parts: list[Iterable]):
        super().__init__(parts)
        self.function = function

    def element(self, position: Any) -> Any:
        """The function of the elements."""
        return self.function(*[p.element(position) for p in self.parts])


def shortest(parts: list[Iterable]) -> Any:
    """The length of the shortest part that has one."""
    lengths = [p.length() for p in ending(parts)]
    found = lengths[0]
    for other in lengths[1:]:
        a, b = current().dim_of(found), current().dim_of(other)
        if a == b:
            continue
        found = FUNCTIONS[np.minimum](found, other)
        if isinstance(a, int) and isinstance(b, int):
            found = min(a, b)
    return found


class Iterated(Iterable):
    """``iter`` of a value that a loop of the generated program can run over."""

    def __init__(self, values: Any):
        self.values: Any = values
        self.inner: Any = None
        self.iterates()

    def consume(self) -> None:
        """Begin to read the elements that the value has when each is read."""
        super().consume()
        self.inner = sequence(self.values)

    def length(self) -> Any:
        """The present number of elements."""
        return self.inner.length()

    def element(self, position: Any) -> Any:
        """The element that is there now."""
        return self.inner.element(position)


def walked_lists(value: Any) -> list[Any]:
    """The lists whose elements a loop over a value reads by their positions, as it goes."""
    if isinstance(value, Iterated):
        value = value.inner
    if isinstance(value, Rows):
        return [] if value.owner is None else [value.owner]
    parts = getattr(value, "parts", None) or [getattr(value, "part", None)]
    return [v for p in parts if p is not None for v in walked_lists(p)]


class Walk:
    """A for statement under way: the lists that it reads by positions, and those that it holds."""

    def __init__(self, lists: Collection[Any], held: Collection[Any] = ()):
        self.lists, self.held = lists, [*lists, *held]

    def misses(self, values: Any, live: bool) -> bool:
        """True if Python's loop would see a change that this one does not.

        ``live``: a change that it sees where it reads the list as it goes.
        """
        return not live and any(v is values for v in self.lists)


class Positions:
    """The elements at the first positions of a sequence, one after the other."""

    def __init__(self, values: Iterable, length: int):
        self.values, self.length, self.position = values, length, 0

    def following(self) -> Any:
        """The next one; StopIteration behind the last."""
        if not self.more():
            raise StopIteration
        self.position += 1
        return self.values.element(self.position - 1)

    def more(self) -> bool:
        """True if there is another."""
        return self.position < self.length


def ending(parts: list[Iterable]) -> list[Iterable]:
    """The parts that have an end: a zip of them ends with the first."""
    return [p for p in parts if not isinstance(p, Endless)] or parts


def sequence(value: Any) -> Any:
    """A value with a length and positions in a loop of the generated program; None of others."""
    if isinstance(value, Iterable):
        return value
    if isinstance(value, Array):
        return Rows(value)
    if isinstance(value, range):
        return Range(value.start, value.stop, value.step)
    rows = rows_of(value)
    return None if rows is None else Rows(rows.stacked(), value)


def positional(value: Any) -> Any:
    """``sequence`` of a value that is consumed; None also for iterators that ``next`` has read."""
    found = sequence(value)
    if isinstance(found, Endless):
        found.walk()
    if found is None or found.cursor is not None:
        return None
    found.consume()
    return found.inner if isinstance(found, Iterated) else found


def refuse_endless(value: Any) -> None:
    """Refuse values that Python would iterate for ever, and iterators from outside.

    A class without ``__iter__`` is iterated by ``__getitem__`` until an IndexError, which recorded
    reads never give.
    """
    kind, machine = type(value), current().machine
    mine = id(value) in machine.owned or id(value) in machine.made
    if hasattr(kind, "__next__") and not mine:
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise UnsupportedSyntax(
            f"A captured {module}{kind.__name__} changes from call to call.",
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
        self.started: Any = False  # True, or what takes its steps
        self.taken = 0  # how many steps


def leaves(arrays: Any) -> list[Array]:
    """The arrays of a tree of them."""
    found: list[Array] = []
    map_tree(found.append, arrays)
    return found


def first_leaf(arrays: Any) -> Array:
    """The first array of a tree of them."""
    return leaves(arrays)[0]
