"""Iterators like those of ``itertools``, which read their sources only on demand."""

from __future__ import annotations

from typing import Any

import gast

from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.frontend.values.stepwise import MadeAt, Steps, chosen, is_true
from calque.transpiler.ir.builder import current, known_int


class ChainSteps(Steps):
    """``chain`` of the elements of an iterator; each part is read after the one before it ends."""

    def __init__(self, parts: Any, node: Any):
        super().__init__()
        self.parts, self.place, self.ended = parts, MadeAt(node), False
        self.part: Any = None  # the one that is under way

    def step(self) -> Any:
        """The next element of the current part, or of the one after it."""
        while not is_true(self.ended):
            if self.part is None:
                try:
                    following = self.parts.following()
                except StopIteration:
                    self.ended = True
                    break
                self.part = current().machine.steps(following, self.place.node())
            try:
                return self.part.following()
            except StopIteration:
                self.part = None
        raise StopIteration

    def more(self) -> bool:
        """True if the current part may have more, or there may be another part."""
        return self.parts.more() or (self.part is not None and self.part.more())

    def ends(self) -> bool:
        """True if the parts end; the ends of later parts are not known yet."""
        return self.parts.ends() and (self.part is None or self.part.ends())


class Slice(Steps):
    """``islice``: the number of elements that were read, and the index of the next to return."""

    def __init__(self, part: Any, start: int, stop: int | None, step: int):
        super().__init__()
        self.part, self.taken, self.next_one = part, 0, start
        self.stop, self.stride, self.ended = stop, step, False

    def step(self) -> Any:
        """The next one, behind those that are passed over."""
        if is_true(self.ended):
            raise StopIteration
        taken = known_int(self.taken, "Where an iterator stands")
        wanted = known_int(self.next_one, "Where an iterator stands")
        try:
            while taken < wanted:
                self.part.following()
                taken = self.taken = taken + 1
            if self.stop is not None and taken >= self.stop:
                raise StopIteration
            found = self.part.following()
        except StopIteration:
            self.ended = True
            raise
        self.taken = taken + 1
        following = wanted + self.stride
        self.next_one = following if self.stop is None else min(following, self.stop)
        return found

    def more(self) -> bool:
        """True if there may be more elements to read, also if all of them are to be skipped."""
        inside = self.stop is None or not isinstance(self.taken, int) or self.taken < self.stop
        return self.ended is not True and inside and self.part.more()

    def ends(self) -> bool:
        """True if there is a stop."""
        return self.stop is not None or self.part.ends()


class Accumulate(Steps):
    """``accumulate``."""

    def __init__(self, part: Any, function: Any, initial: Any, node: Any):
        super().__init__()
        self.part, self.function, self.place = part, function, MadeAt(node)
        self.started, self.given, self.total = False, initial is not None, initial

    def step(self) -> Any:
        """The total, with one more element."""
        machine, node = current().machine, self.place.node()
        if not is_true(self.started):
            self.started = True
            if not self.given:
                self.total = self.part.following()
            return self.total
        item = self.part.following()
        if self.function is None:
            self.total = machine.binary(gast.Add, self.total, item, node)
        else:
            self.total = machine.call_value(self.function, [self.total, item], {}, node)
        return self.total

    def more(self) -> bool:
        """True if there are elements, or the first value."""
        return (self.given and not self.started) or self.part.more()


class Pairwise(Steps):
    """``pairwise``."""

    def __init__(self, part: Any):
        super().__init__()
        self.part, self.started, self.before, self.ended = part, False, None, False

    def step(self) -> Any:
        """The element before, as it was read, and the next one."""
        if is_true(self.ended):
            raise StopIteration
        try:
            if not is_true(self.started):
                self.before, self.started = self.part.following(), True
            pair = (self.before, self.part.following())
        except StopIteration:
            self.ended = True
            raise
        self.before = pair[1]
        return pair

    def more(self) -> bool:
        """True if there is a next one."""
        return self.ended is not True and self.part.more()


class ZipLongest(Steps):
    """``zip_longest``: parts that have ended are None."""

    def __init__(self, parts: list[Any], filler: Any):
        super().__init__()
        self.parts, self.filler = tuple(parts), filler

    def step(self) -> Any:
        """A tuple, until no part has an element."""
        found: list[Any] = []
        for position, part in enumerate(self.parts):
            try:
                if part is None:
                    raise StopIteration
                found.append(part.following())
            except StopIteration:
                left = [None if k == position else p for k, p in enumerate(self.parts)]
                self.parts = tuple(left)
                if not any(left):
                    raise
                found.append(self.filler)
        if not self.parts:
            raise StopIteration
        return tuple(found)

    def more(self) -> bool:
        """True if any part may have more elements."""
        return any(p is not None and p.more() for p in self.parts)

    def ends(self) -> bool:
        """True if all parts end."""
        return all(p is None or p.ends() for p in self.parts)


class WhileSteps(Steps):
    """``takewhile``; or ``dropwhile``, which starts with the element that ends the former."""

    def __init__(self, function: Any, part: Any, node: Any, takes: bool):
        super().__init__()
        self.function, self.part, self.takes, self.place = function, part, takes, MadeAt(node)
        self.behind = False  # an element for which the function is false

    def step(self) -> Any:
        """The next one of those that are given."""
        if self.takes:
            if is_true(self.behind):
                raise StopIteration
            found = self.part.following()
            if chosen(self.function, found, self.place.node()):
                return found
            self.behind = True
            raise StopIteration
        while True:
            found = self.part.following()
            if is_true(self.behind):
                return found
            if not chosen(self.function, found, self.place.node()):
                self.behind = True
                return found

    def more(self) -> bool:
        """True if there are elements."""
        return not (self.takes and self.behind is True) and self.part.more()


class Compress(Steps):
    """``compress``."""

    def __init__(self, part: Any, tests: Any, node: Any):
        super().__init__()
        self.part, self.tests, self.place = part, tests, MadeAt(node)

    def step(self) -> Any:
        """The next one whose test is true."""
        while True:
            found = self.part.following()
            if chosen(None, self.tests.following(), self.place.node()):
                return found

    def ends(self) -> bool:
        """True if either iterator ends."""
        return self.part.ends() or self.tests.ends()


class Cycle(Steps):
    """``cycle``: elements as they were read the first time."""

    name = "itertools.cycle"

    def __init__(self, part: Any):
        super().__init__()
        self.part, self.position = part, 0
        self.read: Any = current().machine.own(RecordedList())
        self.around = False

    def step(self) -> Any:
        """The next element, or again one that was kept."""
        if not is_true(self.around):
            try:
                found = self.part.following()
            except StopIteration:
                if not self.read:
                    raise
                self.around = True
            else:
                self.read.append(found)
                return found
        position = known_int(self.position, "Where an iterator stands")
        self.position = (position + 1) % len(self.read)
        return self.read[position]

    def more(self) -> bool:
        """There is always another, unless there is none at all."""
        return True

    def ends(self) -> bool:
        """It does not."""
        return False


class Batched(Steps):
    """``batched``."""

    def __init__(self, part: Any, size: int, strict: bool):
        super().__init__()
        self.part, self.size, self.strict = part, size, strict

    def step(self) -> Any:
        """A tuple of the next elements."""
        found: list[Any] = []
        for _ in range(self.size):
            try:
                found.append(self.part.following())
            except StopIteration:
                break
        if not found:
            raise StopIteration
        if self.strict and len(found) < self.size:
            raise ValueError("batched(): incomplete batch")
        return tuple(found)


class Tee(Steps):
    """One of the iterators of ``tee``: elements as the first that came to them has read them."""

    def __init__(self, part: Any, read: Any):
        super().__init__()
        self.part, self.read, self.position = part, read, 0

    def step(self) -> Any:
        """The next element, read now or before."""
        position = known_int(self.position, "Where an iterator stands")
        if position == len(self.read):
            self.read.append(self.part.following())
        self.position = position + 1
        return self.read[position]

    def more(self) -> bool:
        """True if an element is kept, or there may be more to read."""
        kept = not isinstance(self.position, int) or self.position < len(self.read)
        return kept or self.part.more()


class GroupSteps(Steps):
    """``groupby``: groups that share one iterator, so that each ends where the next one begins."""

    def __init__(self, part: Any, key: Any, node: Any):
        super().__init__()
        self.part, self.key, self.place = part, key, MadeAt(node)
        self.read, self.now, self.of_group = False, (None, None), (False, None)
        self.group: Any = None

    def advance(self) -> None:
        """Read one more element, and ask for its key."""
        found = self.part.following()
        machine, node = current().machine, self.place.node()
        key = found if self.key is None else machine.call_value(self.key, [found], {}, node)
        self.now, self.read = (key, found), True

    def same(self) -> bool:
        """True if the element that was read belongs to the group that was given last."""
        machine, node = current().machine, self.place.node()
        test = machine.compare(gast.Eq(), self.of_group[1], self.now[0], node)
        return is_true(machine.truth(test, node))

    def step(self) -> Any:
        """The key of the next group, and the group."""
        self.group = None
        while not is_true(self.read) or (self.of_group[0] and self.same()):
            self.advance()
        self.of_group = (True, self.now[0])
        self.group = Group(self)
        return self.now[0], self.group

    def more(self) -> bool:
        """True if there are elements, or one was read."""
        return self.part.more() or self.read is not False


class Group(Steps):
    """The elements of one group; the iterator of groups must not have gone on."""

    def __init__(self, groups: GroupSteps):
        super().__init__()
        self.groups, self.waits = groups, True  # the first element was read

    def step(self) -> Any:
        """The next element of the same key."""
        groups = self.groups
        if groups.group is not self:
            raise StopIteration
        if not is_true(self.waits):
            groups.advance()
            self.waits = True
        if not groups.same():
            raise StopIteration
        self.waits = False
        return groups.now[1]
