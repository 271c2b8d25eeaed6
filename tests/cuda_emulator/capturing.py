"""The stand-in's streams, graphs and memory pools: captured operations are recorded and replayed.

A graph has addresses, as CUDA's has. Memory that was given back since, and is in no pool that lives,
is another's by then: launching a graph which has its address is an error here, and no worse. While
a stream captures, nothing runs: what it makes holds NaN, and what waits or moves from or to the
host is refused. What is refused ends the capture: all that follows fails, and ``end_capture``, too,
which leaves the stream as it was before.

>>> stream = Stream(non_blocking=True)
>>> found = []
>>> with stream:
...     stream.begin_capture()
...     did(lambda: found.append(1), [])
...     graph = stream.end_capture()
>>> list(found), graph.launch(), graph.launch(), found
([], None, None, [1, 1])
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from cuda_emulator import order

captures: list[int] = []  # how many operations each graph has
graph_launches: list[int] = []  # the same, of each launch
new_memory: Callable[[numpy.ndarray], None]  # notes that nothing is stored there: set by ``validity``
_numbers = itertools.count(1)
_memory: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by its address
_INVALID = "cudaErrorStreamCaptureInvalidated: it was capturing, and an error has ended the capture"


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.streams: list[Stream] = [NULL]
        self.pools: list[MemoryPool | None] = [None]


class Graph:
    """Recorded operations, and the memory that they touch."""

    def __init__(self, recorded: list[_Recorded]):
        self.recorded = recorded

    def launch(self, stream: Stream | None = None) -> None:
        """Do it all again."""
        stream = stream or current()
        if stream.is_capturing():
            raise RuntimeError("a graph launched within a capture is not emulated")
        order.begin(stream, _streams)
        for operation, stored, read in self.recorded:
            if any(m() is None for m in (*stored, *read)):
                raise RuntimeError("a graph uses memory that was given back")
            _touch(stream, [m() for m in stored], [m() for m in read])
            operation()
        graph_launches.append(len(self.recorded))


class Event:
    """A place in a stream, and those of others that it had waited for."""

    def __init__(self, seen: order.Seen):
        self.seen = seen


class Stream:
    """A stream: all is done when a call returns, unless it captures; ``order`` says what may be."""

    def __init__(self, non_blocking: bool = False, null: bool = False):
        self.number = next(_numbers)
        self.null, self.non_blocking, self.seen = null, non_blocking, order.Seen()
        self.ptr = 0 if null else self.number * 16
        _streams.add(self)
        self.recorded: list[Any] | None = None
        self.invalid = False

    def __enter__(self) -> Stream:
        _local.streams.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _local.streams.pop()

    def record(self) -> Any:
        """An event: where in the stream it stands."""
        refuse("an event that is waited for outside of the capture")
        return Event(order.Seen(self.seen))

    def wait_event(self, event: Any) -> None:
        """Make all later work of this stream wait for the event."""
        order.merge(self.seen, event.seen)

    def synchronize(self) -> None:
        """Wait for all."""
        refuse("synchronous API calls")
        order.waited(self.seen)

    def is_capturing(self) -> bool:
        """True if operations are recorded, rather than done."""
        if self.invalid:
            raise RuntimeError(_INVALID)
        return self.recorded is not None

    def begin_capture(self, mode: int | None = None) -> None:
        """Record from now on."""
        if not self.ptr:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self.recorded is not None:
            raise RuntimeError("cudaErrorIllegalState: it captures already")
        self.recorded = []

    def end_capture(self) -> Graph:
        """End the capture and return its graph."""
        if self.recorded is None:
            raise RuntimeError("cudaErrorIllegalState: it does not capture")
        made, self.recorded = Graph(self.recorded), None
        if self.invalid:
            self.invalid = False
            raise RuntimeError(_INVALID)
        captures.append(len(made.recorded))
        return made


class MemoryPool:
    """Memory that is nobody else's as long as the pool lives."""

    def __init__(self) -> None:
        self.memory: list[Any] = []

    def total_bytes(self) -> int:
        """Return the size of the pool."""
        return sum(int(m.nbytes) for m in self.memory)

    def malloc(self, size: int) -> Any:
        """The allocator that ``using_allocator`` takes; the stand-in calls ``keep`` instead."""
        raise NotImplementedError


_streams: weakref.WeakSet[Stream] = weakref.WeakSet()
NULL = Stream(null=True)
_local = _OfThread()


def current() -> Stream:
    """The thread's stream."""
    return _local.streams[-1]


@contextmanager
def using_allocator(malloc: Any = None) -> Iterator[None]:
    """New memory of this thread is a pool's."""
    _local.pools.append(None if malloc is None else malloc.__self__)
    try:
        yield
    finally:
        _local.pools.pop()


def keep(memory: numpy.ndarray) -> None:
    """Let the pool in use have memory that was made."""
    pool = _local.pools[-1]
    if pool is not None:
        pool.memory.append(_owner(memory))
    elif current().is_capturing():
        raise _ended("memory outside of a pool while the stream captures")
    owner = _owner(memory)
    _memory[owner.ctypes.data] = owner


def memory_at(address: int) -> numpy.ndarray:
    """The memory that begins there, or that has it within."""
    for start, owner in list(_memory.items()):
        if start <= address < start + max(owner.nbytes, 1):
            return owner
    raise RuntimeError("cudaErrorIllegalAddress: no memory lies there")


def refuse(what: str) -> None:
    """Raise an error if the current stream captures: ``what`` cannot be recorded."""
    if current().is_capturing():
        raise _ended(f"the current stream is capturing, so {what} are disallowed")


def refuse_library(name: str) -> None:
    """CuPy calls most of CUDA's libraries not at all while a stream captures."""
    if current().is_capturing():
        raise NotImplementedError(
            f"calling {name} API during stream capture is currently unsupported"
        )


def _ended(message: str) -> RuntimeError:
    current().invalid = True
    return RuntimeError(message)


def did(
    operation: Callable[[], Any],
    stored: Sequence[numpy.ndarray],
    read: Sequence[Any] = (),
) -> None:
    """Do something, or record it with the memory that it stores into, and that it reads."""
    stream = current()
    read = [m for m in read if isinstance(m, numpy.ndarray)]
    recorded = stream.recorded if stream.is_capturing() else None
    if recorded is None:
        order.begin(stream, _streams)
        _touch(stream, [_owner(m) for m in stored], [_owner(m) for m in read])
        operation()
    else:
        kept = [[weakref.ref(_owner(m)) for m in memory] for memory in (stored, read)]
        recorded.append((operation, *kept))


def _touch(stream: Stream, stored: Sequence[Any], read: Sequence[Any]) -> None:
    for memory in read:
        order.touch(stream, memory, False)
    for memory in stored:
        order.touch(stream, memory, True)


def taken(memory: numpy.ndarray) -> None:
    """The host reads memory, and waits for the current stream."""
    refuse("D2H transfers")
    did(lambda: None, [], [memory])
    order.waited(current().seen)


def sent() -> None:
    """All that the host has sent is there when the call returns, for all streams."""
    order.waited(current().seen)


def all_done() -> None:
    """The host waits for all streams."""
    refuse("synchronous API calls")
    for stream in list(_streams):
        order.waited(stream.seen)


def made(
    compute: Callable[[], Any], given: Sequence[Any], note: Callable[[Any], None] = lambda _: None
) -> Any:
    """The result of a computation; where that is recorded, memory with NaN in it until then.

    ``note`` is called with what was computed, when it is.
    """
    result = compute()
    arrays = [v for v in given if isinstance(v, numpy.ndarray)]
    fresh = isinstance(result, (numpy.ndarray, numpy.generic)) and not any(
        numpy.may_share_memory(result, a) for a in arrays
    )
    if not fresh or not current().is_capturing():
        note(result)
        if fresh:
            found = numpy.asarray(result)
            keep(found)
            did(lambda: None, [found], arrays)
        return result
    held = numpy.array(result)
    keep(held)
    held.reshape(-1).view(numpy.uint8)[:] = 255
    new_memory(held)
    target = Reference(held)

    def again() -> None:
        cells = target()
        cells[...] = compute()
        note(cells)

    did(again, [held], arrays)
    return held


_Recorded = tuple[Callable[[], Any], list[weakref.ref[Any]], list[weakref.ref[Any]]]


class Reference:
    """An array again, for as long as somebody else holds its memory."""

    def __init__(self, memory: numpy.ndarray):
        owner = _owner(memory)
        self.owner, self.dtype = weakref.ref(owner), memory.dtype
        self.shape, self.strides = memory.shape, memory.strides
        self.start = memory.__array_interface__["data"][0] - owner.__array_interface__["data"][0]

    def __call__(self) -> numpy.ndarray:
        owner = self.owner()
        assert owner is not None
        if not owner.size:
            return owner.reshape(self.shape)
        return numpy.ndarray(self.shape, self.dtype, owner.ravel("K"), self.start, self.strides)


def _owner(memory: numpy.ndarray) -> numpy.ndarray:
    while isinstance(memory.base, numpy.ndarray):
        memory = memory.base
    return memory
