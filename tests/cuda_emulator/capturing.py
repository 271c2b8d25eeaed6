"""Streams, graphs and pools of memory of the stand-in: what is captured is recorded, and replayed.

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

captures: list[int] = []  # how many operations each graph has
graph_launches: list[int] = []  # the same, of each launch
_numbers = itertools.count(1)
_memory: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by its address
_INVALID = "cudaErrorStreamCaptureInvalidated: it was capturing, and an error has ended the capture"


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.streams: list[Stream] = [NULL]
        self.pools: list[MemoryPool | None] = [None]


class Graph:
    """Recorded operations, and the memory that they touch."""

    def __init__(self, recorded: list[tuple[Callable[[], Any], list[weakref.ref[Any]]]]):
        self.recorded = recorded

    def launch(self, stream: Stream | None = None) -> None:
        """Do it all again."""
        if (stream or current()).is_capturing():
            raise RuntimeError("a graph launched within a capture is not emulated")
        for operation, memory in self.recorded:
            if any(m() is None for m in memory):
                raise RuntimeError("a graph uses memory that was given back")
            operation()
        graph_launches.append(len(self.recorded))


class Stream:
    """A stream: all is done when a call returns, unless it captures."""

    def __init__(self, non_blocking: bool = False, null: bool = False):
        self.ptr = 0 if null else next(_numbers) * 16
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
        return self

    def wait_event(self, event: Any) -> None:
        """What comes after it waits for the event."""

    def synchronize(self) -> None:
        """Wait for all."""
        refuse("synchronous API calls")

    def is_capturing(self) -> bool:
        """Whether operations are recorded, rather than done."""
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
        """What was recorded."""
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
        """How much it has."""
        return sum(int(m.nbytes) for m in self.memory)

    def malloc(self, size: int) -> Any:
        """What ``using_allocator`` is given; the stand-in asks ``keep``."""
        raise NotImplementedError


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
    """What the host does at once cannot be recorded."""
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


def did(operation: Callable[[], Any], memory: Sequence[numpy.ndarray]) -> None:
    """Do something, or record it with the memory that it touches."""
    stream = current()
    recorded = stream.recorded if stream.is_capturing() else None
    if recorded is None:
        operation()
    else:
        recorded.append((operation, [weakref.ref(_owner(m)) for m in memory]))


def made(compute: Callable[[], Any], given: Sequence[Any]) -> Any:
    """What is computed of arrays; where that is recorded, memory with NaN in it until then."""
    result = compute()
    arrays = [v for v in given if isinstance(v, numpy.ndarray)]
    fresh = isinstance(result, (numpy.ndarray, numpy.generic)) and not any(
        numpy.may_share_memory(result, a) for a in arrays
    )
    if not fresh or not current().is_capturing():
        if fresh:
            keep(numpy.asarray(result))
        return result
    held = numpy.array(result)
    keep(held)
    held.reshape(-1).view(numpy.uint8)[:] = 255
    target = weakref.ref(_owner(held))
    address = held.__array_interface__

    def again() -> None:
        cells = numpy.asarray(_At(address, target()))
        cells[...] = compute()

    did(again, [held, *arrays])
    return held


class _At:
    """Memory at an address, as an array again."""

    def __init__(self, address: dict[str, Any], owner: Any):
        self.__array_interface__, self.owner = address, owner


def _owner(memory: numpy.ndarray) -> numpy.ndarray:
    while isinstance(memory.base, numpy.ndarray):
        memory = memory.base
    return memory
