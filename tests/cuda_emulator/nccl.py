"""A ``cupy.cuda.nccl`` on the host's memory: calls that complete when all ranks have made them.

A call waits until each rank of its communicator is at the same place of its own order of calls, or
is known not to come: then it raises. Ranks that call different operations, or the same with another
count, dtype or operation, are an error on all. What is called between ``groupStart`` and
``groupEnd`` of a thread is done at the end, together. Buffers must lie on the rank's own device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy

from cuda_emulator import validity
from cuda_emulator.ownership import device_with

available = True
patience = 20.0  # seconds after which a rank that others wait for is given up
current: Callable[[], int]  # the thread's device: set by the stand-in
calls: list[tuple[str, int, int]] = []  # what was called, on which rank, of how many elements

NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64 = range(5)
NCCL_UINT64, NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64 = range(5, 9)
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = range(4)
_DTYPES = ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
_OPERATIONS = (numpy.add, numpy.multiply, numpy.fmax, numpy.fmin)  # which drop NaN


class NcclError(RuntimeError):
    """The error that an unsuccessful call of NCCL raises."""


class _Group(threading.local):
    """The calls of a thread that wait for the end of its group."""

    def __init__(self) -> None:
        self.depth = 0
        self.pending: list[_Call] = []


class _Call:
    """One call of one rank."""

    def __init__(self, rank: NcclCommunicator, name: str, agreed: tuple[Any, ...], buffers: Any):
        self.rank, self.name, self.agreed, self.buffers = rank, name, agreed, buffers
        self.done = False


class _Clique:
    """The ranks that talk to each other, and their calls that are not complete."""

    def __init__(self, devices: list[int]):
        self.devices = devices
        self.changed = threading.Condition()
        self.queues: list[list[_Call]] = [[] for _ in devices]  # collectives, in order
        self.sends: dict[tuple[int, int], list[_Call]] = {}
        self.error: str | None = None

    def enqueue(self, call: _Call) -> None:
        if call.name in ("send", "recv"):
            mine, peer = call.rank.rank, call.agreed[-1]
            pair = (mine, peer) if call.name == "send" else (peer, mine)
            self.sends.setdefault(pair, []).append(call)
        else:
            self.queues[call.rank.rank].append(call)

    def progress(self) -> None:
        """Do what is complete; a mismatch is an error for all."""
        while all(self.queues):
            first = [queue.pop(0) for queue in self.queues]
            told = {(c.name, *c.agreed) for c in first}
            if len(told) > 1:
                self.error = f"NCCL_ERROR_INVALID_USAGE: ranks call {sorted(map(str, told))}"
                return
            _COLLECTIVES[first[0].name](first)
            for call in first:
                call.done = True
        for waiting in self.sends.values():
            while {"send", "recv"} <= {c.name for c in waiting}:
                send = next(c for c in waiting if c.name == "send")
                recv = next(c for c in waiting if c.name == "recv")
                if send.agreed[:2] != recv.agreed[:2]:
                    self.error = f"NCCL_ERROR_INVALID_USAGE: {send.agreed} is sent, and {recv.agreed} received"
                    return
                recv.buffers[0][:] = send.buffers[0]
                send.done = recv.done = True
                waiting.remove(send)
                waiting.remove(recv)


def _reduced(call: _Call, arrays: list[Any]) -> Any:
    found = arrays[0].copy()
    for other in arrays[1:]:
        found = _OPERATIONS[call.agreed[2]](found, other)
    return found


def _all_reduce(made: list[_Call]) -> None:
    found = _reduced(made[0], [c.buffers[0] for c in made])
    for call in made:
        call.buffers[1][:] = found


def _all_gather(made: list[_Call]) -> None:
    found = numpy.concatenate([c.buffers[0] for c in made])
    for call in made:
        call.buffers[1][:] = found


def _reduce_scatter(made: list[_Call]) -> None:
    found = _reduced(made[0], [c.buffers[0] for c in made])
    for call, part in zip(made, numpy.split(found, len(made)), strict=True):
        call.buffers[1][:] = part


def _broadcast(made: list[_Call]) -> None:
    found = made[made[0].agreed[-1]].buffers[0].copy()
    for call in made:
        call.buffers[1][:] = found


_COLLECTIVES = {
    "allReduce": _all_reduce,
    "allGather": _all_gather,
    "reduceScatter": _reduce_scatter,
    "broadcast": _broadcast,
}
_group = _Group()


def groupStart() -> None:
    """Begin a group: calls of this thread are done when the group ends."""
    _group.depth += 1


def groupEnd() -> None:
    """Do what the group has, and wait for it."""
    if not _group.depth:
        raise NcclError("NCCL_ERROR_INVALID_USAGE: no group was started")
    _group.depth -= 1
    if not _group.depth:
        pending, _group.pending = _group.pending, []
        _do(pending)


def _do(pending: list[_Call]) -> None:
    cliques = {id(c.rank.clique): c.rank.clique for c in pending}
    for call in pending:
        with call.rank.clique.changed:
            call.rank.clique.enqueue(call)
    for clique in cliques.values():
        with clique.changed:
            clique.progress()
            clique.changed.notify_all()
    for clique in cliques.values():
        own = [c for c in pending if c.rank.clique is clique]
        with clique.changed:
            there = clique.changed.wait_for(lambda own=own, clique=clique: clique.error or all(c.done for c in own), patience)
            if not there:
                clique.error = "a deadlock: a rank waits for others that do not come"
                clique.changed.notify_all()
            if clique.error and not all(c.done for c in own):
                raise NcclError(clique.error)


class NcclCommunicator:
    """One rank, on one device."""

    clique: _Clique
    rank: int

    def __init__(self, *_: Any):
        raise NotImplementedError("one process has all ranks: initAll")

    @staticmethod
    def initAll(devices: Any) -> list[NcclCommunicator]:
        """One communicator for each device."""
        numbers = list(range(devices)) if isinstance(devices, int) else devices
        if not isinstance(numbers, list) or len(set(numbers)) < len(numbers):
            raise NcclError("NCCL_ERROR_INVALID_USAGE: a list of distinct devices")
        clique, made = _Clique(numbers), []
        for rank in range(len(numbers)):
            one = NcclCommunicator.__new__(NcclCommunicator)
            one.clique, one.rank = clique, rank
            made.append(one)
        return made

    def abort(self) -> None:
        """End what is under way, on all ranks."""
        with self.clique.changed:
            self.clique.error = self.clique.error or "aborted"
            self.clique.changed.notify_all()

    def rank_id(self) -> int:
        """The number of the rank."""
        return self.rank

    def size(self) -> int:
        """Return the number of ranks."""
        return len(self.clique.devices)

    def _call(self, name: str, agreed: tuple[Any, ...], buffers: list[tuple[int, int]], stream: int) -> None:
        device = self.clique.devices[self.rank]
        if self.clique.error:
            raise NcclError(self.clique.error)
        if current() != device or stream != 0:
            raise NcclError(f"rank {self.rank} is of device {device}, and the current one is {current()}")
        dtype = numpy.dtype(_DTYPES[agreed[1]])
        made = []
        for number, (address, count) in enumerate(buffers):
            size = count * dtype.itemsize
            if count and device_with(address, size) != device:
                raise NcclError(f"NCCL_ERROR_INVALID_ARGUMENT: {name}: {size} bytes do not lie on device {device}")
            if number == len(buffers) - 1 and name != "send":  # what it will have received
                validity.store_at(address, size)
            memory = (ctypes.c_byte * size).from_address(address) if count else b""
            made.append(numpy.frombuffer(memory, dtype))
        calls.append((name, self.rank, buffers[0][1]))
        call = _Call(self, name, agreed, made)
        if _group.depth:
            _group.pending.append(call)
        else:
            _do([call])

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        """Elementwise over all ranks."""
        self._call("allReduce", (count, datatype, op), [(sendbuf, count), (recvbuf, count)], stream)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        """One behind the other."""
        self._call("allGather", (count, datatype), [(sendbuf, count), (recvbuf, count * self.size())], stream)

    def reduceScatter(self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int) -> None:
        """To each its part of what all have."""
        buffers = [(sendbuf, recvcount * self.size()), (recvbuf, recvcount)]
        self._call("reduceScatter", (recvcount, datatype, op), buffers, stream)

    def broadcast(self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int) -> None:
        """From one to all."""
        self._call("broadcast", (count, datatype, root), [(sendbuff, count), (recvbuff, count)], stream)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """To one other rank."""
        self._call("send", (count, datatype, peer), [(sendbuf, count)], stream)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """From one other rank."""
        self._call("recv", (count, datatype, peer), [(recvbuf, count)], stream)
