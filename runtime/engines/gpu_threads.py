"""Devices that are GPUs of this process: for each a thread launches, and NCCL carries messages.

A collective is put into the device's stream as a launch is, and no thread of the host waits for it.
Operations that NCCL lacks are made of those that it has: extrema of floats, in which it drops NaN,
and sums of dtypes that it does not add are taken of gathered arrays. Numbers that the host knows go
from thread to thread. Where CuPy was built without NCCL, arrays go by the host.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from calque.runtime.engines.communicator import Communicator
from calque.runtime.engines.threads import ThreadCommunicator, connections, run_connected

_ADDED = {
    "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64",
    "uint64": "UINT64", "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64",
    "complex64": "FLOAT32", "complex128": "FLOAT64",
}  # fmt: skip
_WORDS = {"add": "NCCL_SUM", "maximum": "NCCL_MAX", "minimum": "NCCL_MIN"}
_threads: dict[int, ThreadPoolExecutor] = {}  # kept, as CuPy keeps handles of libraries by thread
_connected: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[Any, ...]]] = {}


def nccl() -> Any:
    """CuPy's NCCL; None where it was built without."""
    try:
        from cupy.cuda import nccl as found
    except ImportError:
        return None
    return found if getattr(found, "available", False) else None


def is_there(x: Any) -> bool:
    """True if a value is an array on a GPU."""
    import cupy as cp

    return isinstance(x, cp.ndarray)


def _there(x: Any) -> Any:
    import cupy as cp

    return cp.asarray(x)


def reduced_rows(operation: Any, rows: Any) -> Any:
    """``operation`` over the rows of an array of CuPy, in order."""
    found = rows[0]
    for other in rows[1:]:
        found = operation(found, other)
    return found


class GpuCommunicator(Communicator):
    """The collectives for arrays of CuPy, made of a few operations of an engine."""

    def all_gather(self, x: Any, axis: int = 0) -> Any:
        """All devices' arrays along a new axis."""
        import cupy as cp

        if not is_there(x):
            return cp.asarray(super().all_gather(x, axis))
        return cp.ascontiguousarray(cp.moveaxis(self.allgather(x), 0, axis))

    def psum_scatter(self, x: Any, axis: int = 0) -> Any:
        """This device's part, along one axis, of the sum over all devices, in order."""
        import cupy as cp

        return reduced_rows(np.add, self.alltoall(cp.moveaxis(x, axis, 0)))

    def all_to_all(self, x: Any, split: int, concat: int) -> Any:
        """Part k of ``split`` goes to device k; what arrives stands along a new axis ``concat``."""
        import cupy as cp

        parts = self.alltoall(cp.moveaxis(x, split, 0))
        return cp.ascontiguousarray(cp.moveaxis(parts, 0, concat))

    def ppermute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """The array sent along the pairs (source, destination); zeros where none arrives."""
        import cupy as cp

        if not is_there(x):
            return super().ppermute(x, pairs)
        to = next((there for here, there in pairs if here == self.rank), None)
        source = next((here for here, there in pairs if there == self.rank), None)
        received = self.sendrecv(cp.ascontiguousarray(x).reshape(x.shape), to, source)
        return cp.zeros(x.shape, x.dtype) if received is None else received


class StagedCommunicator(ThreadCommunicator):
    """One GPU's place in a team whose arrays go by the host."""

    gpu: int  # its number

    def allreduce(self, x: Any, operation: Any) -> Any:
        """Reduce on the host, in the order of the devices."""
        if not is_there(x):
            return super().allreduce(x, operation)
        return _there(super().allreduce(x.get(), operation))

    def all_gather(self, x: Any, axis: int = 0) -> Any:
        """All devices' arrays along a new axis."""
        return _there(super().all_gather(x.get() if is_there(x) else x, axis))

    def psum_scatter(self, x: Any, axis: int = 0) -> Any:
        """This device's part, along one axis, of the sum over all devices."""
        return _there(super().psum_scatter(x.get(), axis))

    def all_to_all(self, x: Any, split: int, concat: int) -> Any:
        """Part k of ``split`` goes to device k; what arrives stands along a new axis ``concat``."""
        return _there(super().all_to_all(x.get(), split, concat))

    def ppermute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """The array sent along the pairs (source, destination); zeros where none arrives."""
        if not is_there(x):
            return super().ppermute(x, pairs)
        return _there(super().ppermute(x.get(), pairs))


class NcclCommunicator(GpuCommunicator, StagedCommunicator):
    """One GPU's place in a team that NCCL connects."""

    nccl: Any  # CuPy's module
    connection: Any  # its communicator

    def abort(self, error: BaseException) -> None:
        """Break the barrier, and end what waits on the GPU for devices that do not come."""
        super().abort(error)
        self.connection.abort()

    def _do(self, *calls: tuple[Any, ...]) -> None:
        """Put calls of NCCL, ``(function, *arguments)``, into the stream, as one."""
        import cupy as cp

        stream = cp.cuda.get_current_stream().ptr
        try:
            if len(calls) > 1:
                self.nccl.groupStart()
            for function, *given in calls:
                function(*given, stream)
            if len(calls) > 1:
                self.nccl.groupEnd()
        except self.nccl.NcclError:
            if self.team.meeting.broken:  # another device raised
                raise threading.BrokenBarrierError from None
            raise

    def _word(self, dtype: np.dtype, operation: Any) -> tuple[int, int, int] | None:
        """NCCL's numbers of a dtype, how many of these make an element, and of what to do."""
        kind = _ADDED.get(dtype.name)
        if kind is None or (dtype.kind in "fc" and operation is not np.add):
            return None
        parts = 2 if dtype.kind == "c" else 1
        word = getattr(self.nccl, _WORDS[operation.__name__])
        return getattr(self.nccl, f"NCCL_{kind}"), parts, word

    def allreduce(self, x: Any, operation: Any) -> Any:
        """Reduce by NCCL if it has the operation for this dtype; else reduce gathered arrays."""
        import cupy as cp

        if not is_there(x):
            return super().allreduce(x, operation)
        word = self._word(x.dtype, operation)
        if word is None:
            return reduced_rows(operation, self.allgather(x))
        kind, parts, how = word
        sent, found = cp.ascontiguousarray(x), cp.empty(x.shape, x.dtype)
        if x.size:
            give, take = sent.data.ptr, found.data.ptr
            self._do((self.connection.allReduce, give, take, parts * x.size, kind, how))
        return found

    def allgather(self, x: Any) -> Any:
        """All devices' arrays, one behind the other, as bytes."""
        import cupy as cp

        if not is_there(x):
            return super().allgather(x)
        sent, found = cp.ascontiguousarray(x), cp.empty((self.size, *x.shape), x.dtype)
        if x.size:
            given = sent.data.ptr, found.data.ptr, x.nbytes, self.nccl.NCCL_UINT8
            self._do((self.connection.allGather, *given))
        return found

    def alltoall(self, x: Any) -> Any:
        """Row k goes to device k, as bytes."""
        import cupy as cp

        if not is_there(x):
            return super().alltoall(x)
        sent = cp.ascontiguousarray(x)
        found = cp.empty(sent.shape, sent.dtype)
        calls: list[tuple[Any, ...]] = []
        for peer in range(self.size if x.size else 0):
            there, here = sent[peer], found[peer]
            size, kind = there.nbytes, self.nccl.NCCL_UINT8
            calls.append((self.connection.send, there.data.ptr, size, kind, peer))
            calls.append((self.connection.recv, here.data.ptr, size, kind, peer))
        self._do(*calls)
        return found

    def sendrecv(self, x: Any, to: int | None, source: int | None) -> Any:
        """Send to one device and receive from another, as bytes; None where nothing is received."""
        import cupy as cp

        if not is_there(x):
            return super().sendrecv(x, to, source)
        found = None if source is None else cp.empty(x.shape, x.dtype)
        calls: list[tuple[Any, ...]] = []
        if to is not None and x.size:
            calls.append((self.connection.send, x.data.ptr, x.nbytes, self.nccl.NCCL_UINT8, to))
        if found is not None and x.size:
            kind = self.nccl.NCCL_UINT8
            calls.append((self.connection.recv, found.data.ptr, x.nbytes, kind, source))
        self._do(*calls)
        return found

    def psum_scatter(self, x: Any, axis: int = 0) -> Any:
        """This device's part, along one axis, of the sum over all devices."""
        import cupy as cp

        word = self._word(x.dtype, np.add)
        if word is None:
            return super().psum_scatter(x, axis)
        kind, parts, how = word
        moved = cp.ascontiguousarray(cp.moveaxis(x, axis, 0))
        found = cp.empty(moved.shape[1:], x.dtype)
        if x.size:
            give, take = moved.data.ptr, found.data.ptr
            self._do((self.connection.reduceScatter, give, take, parts * found.size, kind, how))
        return found


def on_gpu(number: int, value: Any) -> Any:
    """The arrays in tuples, lists and dicts, on the GPU of this number."""
    import cupy as cp

    if isinstance(value, (tuple, list)):
        return type(value)([on_gpu(number, v) for v in value])
    if isinstance(value, dict):
        return {key: on_gpu(number, v) for key, v in value.items()}
    if not isinstance(value, (np.ndarray, cp.ndarray)):
        return value
    if isinstance(value, cp.ndarray) and value.data.device_id != number:
        cp.cuda.Device(value.data.device_id).synchronize()  # the other waits for no stream
    with cp.cuda.Device(number):
        return cp.asarray(value)


def run_on_gpus(
    program: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    named: dict[str, Any],
    shape: Sequence[int],
    numbers: Sequence[int] | None = None,
) -> list[Any]:
    """The results of ``program(*communicators, *arguments[k], **named)`` on each GPU k.

    The GPUs, by default the first, stand in a mesh of this shape, the last axis running fastest;
    each has a communicator for each axis.
    """
    import cupy as cp

    gpus = tuple(range(len(arguments)) if numbers is None else numbers)

    def launched(first: StagedCommunicator, *given: Any, **more: Any) -> Any:
        with cp.cuda.Device(first.gpu):
            return program(first, *given, **more)

    def start(work: Callable[[int], None], device: int) -> Callable[[], Any]:
        gpu = gpus[device]
        if gpu not in _threads:
            _threads[gpu] = ThreadPoolExecutor(1, f"cuda:{gpu}")
        return _threads[gpu].submit(contextvars.copy_context().run, work, device).result

    try:
        connected = _communicators(gpus, tuple(shape))
        return run_connected(launched, arguments, named, connected, start)
    except BaseException:
        _connected.pop((gpus, tuple(shape)), None)  # what was ended is of no more use
        raise


def _communicators(gpus: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """For each GPU of a mesh, its communicator along each axis."""
    library = nccl()
    found: list[tuple[Any, ...]] = connections(
        shape, StagedCommunicator if library is None else NcclCommunicator
    )
    for gpu, mine in zip(gpus, found, strict=True):
        for communicator in mine:
            communicator.gpu, communicator.nccl = gpu, library
    if library is not None:
        if (gpus, shape) not in _connected:
            _connected[gpus, shape] = _connections(library, gpus, shape)
        for mine, lines in zip(found, _connected[gpus, shape], strict=True):
            for communicator, line in zip(mine, lines, strict=True):
                communicator.connection = line
    return found


def _connections(
    library: Any, gpus: tuple[int, ...], shape: tuple[int, ...]
) -> list[tuple[Any, ...]]:
    """For each GPU of a mesh, NCCL's communicator along each axis."""
    places = list(itertools.product(*map(range, shape)))
    number = dict(zip(places, gpus, strict=True))
    found: dict[tuple[int, ...], list[Any]] = {place: [] for place in places}
    for axis in range(len(shape)):
        for first in (place for place in places if not place[axis]):
            line = [(*first[:axis], k, *first[axis + 1 :]) for k in range(shape[axis])]
            made = library.NcclCommunicator.initAll([number[place] for place in line])
            for place, one in zip(line, made, strict=True):
                found[place].append(one)
    return [tuple(found[place]) for place in places]
