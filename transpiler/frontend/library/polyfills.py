"""Python twins of what Python and NumPy keep in C: interpreted where a program uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class Deque:
    """``collections.deque``; its items are a list of the program's."""

    def __init__(self, items: Any, maxlen: Any):
        self.items = items
        self.maxlen = maxlen

    def append(self, value: Any) -> None:
        """Append at the right end; a full deque drops the leftmost element."""
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            if self.maxlen == 0:
                return
            del self.items[0]
        self.items.append(value)

    def appendleft(self, value: Any) -> None:
        """Append at the left end; a full deque drops the rightmost element."""
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
        """The number of times that a value occurs."""
        return self.items.count(value)

    def index(self, value: Any, *bounds: int) -> int:
        """The first place of a value."""
        return self.items.index(value, *bounds)

    def remove(self, value: Any) -> None:
        """Remove the first of a value."""
        self.items.remove(value)

    def copy(self) -> Any:
        """A new deque with the same elements."""
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


class Vectorized:
    """``np.vectorize``: the function of each element, in a loop."""

    def __init__(self, function: Any, kinds: Any):
        self.function = function
        self.kinds = kinds  # the dtypes of the results, where they are said

    def __call__(self, *args: Any) -> Any:
        arrays = np.broadcast_arrays(*args)
        shape, count = arrays[0].shape, arrays[0].size
        flat = [np.ravel(array) for array in arrays]
        kinds = self.kinds
        if kinds is None:
            kinds = kinds_of_first(self.function, [array[0] for array in flat])
        if isinstance(kinds, tuple):
            outs = [np.empty(count, kind) for kind in kinds]
            for k in range(count):
                found = self.function(*[array[k].item() for array in flat])
                for out, value in zip(outs, found):
                    out[k] = value
            return tuple([out.reshape(shape) for out in outs])
        only = np.empty(count, kinds)
        for k in range(count):
            only[k] = self.function(*[array[k].item() for array in flat])
        return only.reshape(shape)


def kinds_of_first(function: Any, args: Any) -> Any:
    """The dtypes of a function's results for the first elements (the interpreter has a rule)."""
    raise NotImplementedError


def accumulated_at(function: Any, array: Any, indices: Any, values: Any) -> None:
    """``ufunc.at``: one element after the other, so an index that repeats counts each time."""
    if not np.can_cast(np.result_type(array, values), array.dtype, "same_kind"):
        raise TypeError(f"cannot cast the result to {array.dtype}")
    if isinstance(indices, tuple):
        places = [np.ravel(p) for p in np.broadcast_arrays(*indices)]
    else:
        places = [np.ravel(indices)]
    whole = array[indices]
    given = np.broadcast_to(values, whole.shape)
    given = given.reshape((places[0].size,) + array.shape[len(places) :])
    for k in range(places[0].size):
        where = tuple([p[k] for p in places])
        array[where] = function(array[where], given[k])


def reduced_between(function: Any, array: Any, indices: Any, axis: int = 0) -> Any:
    """``ufunc.reduceat``."""
    rows, ends = np.moveaxis(np.asarray(array), axis, 0), list(indices)
    parts = []
    for k in range(len(ends)):
        stop = ends[k + 1] if k + 1 < len(ends) else rows.shape[0]
        if k + 1 < len(ends) and stop <= ends[k]:
            parts.append(rows[ends[k]])
        else:
            parts.append(function.reduce(rows[ends[k] : stop]))
    return np.moveaxis(np.stack(parts), 0, axis)


def joined_lists(left: Any, right: Any) -> Any:
    """``left + right`` of lists, one of which has run-time length."""
    made = []
    made.extend(left)
    made.extend(right)
    return made


# of a list that the run orders: CPython's own steps, so that equal elements lie as they do there


def heappush(heap: Any, item: Any) -> None:
    """``heapq.heappush``."""
    heap.append(item)
    to_the_root(heap, 0, len(heap) - 1)


def heappop(heap: Any) -> Any:
    """``heapq.heappop``."""
    last = heap.pop()
    if len(heap) == 0:
        return last
    first = heap[0]
    heap[0] = last
    to_a_leaf(heap, 0)
    return first


def heapreplace(heap: Any, item: Any) -> Any:
    """``heapq.heapreplace``."""
    first = heap[0]
    heap[0] = item
    to_a_leaf(heap, 0)
    return first


def heappushpop(heap: Any, item: Any) -> Any:
    """``heapq.heappushpop``."""
    if len(heap) > 0 and heap[0] < item:
        return heapreplace(heap, item)
    return item


def heapify(heap: Any) -> None:
    """``heapq.heapify``."""
    for place in range(len(heap) // 2 - 1, -1, -1):
        to_a_leaf(heap, place)


def to_the_root(heap: Any, start: Any, place: Any) -> None:
    """Move the element at a place up, as far as those above are larger."""
    item = heap[place]
    while place > start and item < heap[(place - 1) >> 1]:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place] = item


def to_a_leaf(heap: Any, place: Any) -> None:
    """Move the element at a place down to a leaf, the smaller ones below up, and it up again."""
    start, item, child = place, heap[place], 2 * place + 1
    while child < len(heap):
        if child + 1 < len(heap) and not heap[child] < heap[child + 1]:
            child = child + 1
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    to_the_root(heap, start, place)


def inserted(values: Any, index: Any, value: Any) -> None:
    """``values.insert(index, value)``."""
    values.append(value)
    place = len(values) - 1
    index = max(index + place, 0) if index < 0 else index
    while place > index:
        values[place] = values[place - 1]
        place = place - 1
    values[place] = value


def place_of(values: Any, value: Any, start: Any = 0, stop: Any = None) -> Any:
    """``values.index(value)``."""
    place = max(start + len(values), 0) if start < 0 else start
    end = len(values) if stop is None else min(stop, len(values))
    if stop is not None and stop < 0:
        end = stop + len(values)
    while place < end and values[place] != value:
        place = place + 1
    if place >= end:
        raise ValueError("list.index(x): x not in list")
    return place


def place_in(values: Any, value: Any) -> Any:
    """``values.index(value)`` of a list of known length."""
    for place, other in enumerate(values):
        if other == value:
            return place
    raise ValueError("list.index(x): x not in list")


def largest(best: Any, others: Any, key: Any) -> Any:
    """``max(values, key=key)``, the first of them being ``best``."""
    weight = best if key is None else key(best)
    for value in others:
        now = value if key is None else key(value)
        if now > weight:
            best, weight = value, now
    return best


def smallest(best: Any, others: Any, key: Any) -> Any:
    """``min(values, key=key)``, the first of them being ``best``."""
    weight = best if key is None else key(best)
    for value in others:
        now = value if key is None else key(value)
        if now < weight:
            best, weight = value, now
    return best


def first_difference(left: Any, right: Any) -> Any:
    """The first position at which two lists differ, or one ends."""
    place = 0
    while place < min(len(left), len(right)) and left[place] == right[place]:
        place = place + 1
    return place


def same_lists(left: Any, right: Any) -> Any:
    """``left == right``."""
    return len(left) == len(right) and first_difference(left, right) == len(left)


def ordered_lists(function: Any, left: Any, right: Any) -> Any:
    """``left < right`` and the like: the first elements that differ decide."""
    place = first_difference(left, right)
    if place == min(len(left), len(right)):
        return function(len(left), len(right))
    return function(left[place], right[place])


def contained(values: Any, item: Any) -> Any:
    """``item in values``, of an iterator: it goes no further than that."""
    for value in values:
        if value is item or value == item:
            return True
    return False


def holds_for_one(values: Any) -> Any:
    """``any``."""
    for value in values:
        if value:
            return True
    return False


def holds_for_all(values: Any) -> Any:
    """``all``."""
    for value in values:
        if not value:
            return False
    return True


def removed(values: Any, value: Any) -> None:
    """``values.remove(value)``."""
    values.pop(place_of(values, value))


def counted(values: Any, value: Any) -> Any:
    """``values.count(value)``."""
    found = 0
    for other in values:
        if other == value:
            found = found + 1
    return found


# of a generator: one ``for`` each, so that generated code quotes the user's


def enumerated(values: Any, count: Any = 0) -> Iterator[Any]:
    """``enumerate``."""
    for value in values:
        yield count, value
        count = count + 1


def mapped(function: Any, values: Any) -> Iterator[Any]:
    """``map`` of one iterable."""
    for value in values:
        yield function(value)


def filtered(function: Any, values: Any) -> Iterator[Any]:
    """``filter``."""
    for value in values:
        if value if function is None else function(value):
            yield value


def dropped(function: Any, values: Any) -> Iterator[Any]:
    """``itertools.filterfalse``."""
    for value in values:
        if not (value if function is None else function(value)):
            yield value


def zipped(values: Any, others: Any, at: int, room: Any, place: Any = 0) -> Iterator[Any]:
    """``zip``, the generator being number ``at``; ``room`` is the length of the others."""
    for value in values:
        if room is not None and place >= room:
            return
        beside = elements_at(others, place)
        yield (*beside[:at], value, *beside[at:])
        place = place + 1


def elements_at(others: Any, place: Any) -> Any:
    """The elements of several iterables at a position (the interpreter has its own rule)."""
    raise NotImplementedError


def sliced(values: Any, start: Any, stop: Any, step: Any, place: Any = 0) -> Iterator[Any]:
    """``itertools.islice``, where ``stop`` is more than 0."""
    for value in values:
        if place >= start and (place - start) % step == 0:
            yield value
        place = place + 1
        if stop is not None and place >= stop:
            return


def while_true(function: Any, values: Any) -> Iterator[Any]:
    """``itertools.takewhile``."""
    for value in values:
        if not function(value):
            return
        yield value


def chained(*parts: Any) -> Iterator[Any]:
    """``itertools.chain``."""
    for part in parts:
        yield from part
