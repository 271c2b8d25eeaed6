"""Python twins of containers that Python keeps in C: interpreted where a program makes one."""

from __future__ import annotations

from typing import Any


class Deque:
    """``collections.deque``; its items are a list of the program's."""

    def __init__(self, items: Any, maxlen: Any):
        self.items = items
        self.maxlen = maxlen

    def append(self, value: Any) -> None:
        """At the right end; a full one loses what is at the left."""
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            if self.maxlen == 0:
                return
            del self.items[0]
        self.items.append(value)

    def appendleft(self, value: Any) -> None:
        """At the left end; a full one loses what is at the right."""
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            if self.maxlen == 0:
                return
            self.items.pop()
        self.items.insert(0, value)

    def extend(self, values: Any) -> None:
        """One by one."""
        for value in list(values):
            self.append(value)

    def extendleft(self, values: Any) -> None:
        """One by one."""
        for value in list(values):
            self.appendleft(value)

    def pop(self) -> Any:
        """From the right end."""
        return self.items.pop()

    def popleft(self) -> Any:
        """From the left end."""
        return self.items.pop(0)

    def insert(self, index: int, value: Any) -> None:
        """Before the element at an index."""
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            raise IndexError("deque already at its maximum size")
        self.items.insert(index, value)

    def rotate(self, n: int = 1) -> None:
        """Move n elements from the right end to the left one."""
        if self.items:
            k = -n % len(self.items)
            self.items[:] = self.items[k:] + self.items[:k]

    def reverse(self) -> None:
        """In place."""
        self.items.reverse()

    def clear(self) -> None:
        """Remove all."""
        self.items.clear()

    def count(self, value: Any) -> int:
        """How often a value is there."""
        return self.items.count(value)

    def index(self, value: Any, *bounds: int) -> int:
        """The first place of a value."""
        return self.items.index(value, *bounds)

    def remove(self, value: Any) -> None:
        """Remove the first of a value."""
        self.items.remove(value)

    def copy(self) -> Any:
        """Another with the same elements."""
        return Deque(list(self.items), self.maxlen)

    __copy__ = copy

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Any:
        return iter(self.items)

    def __reversed__(self) -> Any:
        return reversed(self.items)

    def __contains__(self, value: Any) -> bool:
        return value in self.items

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise TypeError("sequence index must be integer, not 'slice'")
        return self.items[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self.items[index] = value

    def __delitem__(self, index: int) -> None:
        del self.items[index]

    def __iadd__(self, values: Any) -> Any:
        self.extend(values)
        return self

    def __add__(self, other: Any) -> Any:
        made = self.copy()
        made.extend(other)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deque) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]
