"""MPI ranks whose arrays lie on GPUs, which go from buffer to buffer there, or by the host.

An MPI that is CUDA-aware takes CuPy's arrays as they are: ``CALQUE_MPI_CUDA=1`` says so, or its
info ``mpi_memory_alloc_kinds``. Any other would read them as the host's memory, and crash: there
arrays go by the host, which is always right. MPI knows no streams, so each call waits until the
array has been computed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.engines.gpu_threads import GpuCommunicator, is_there, reduced_rows
from calque.transpiler.spmd.mpi_calls import ADDED


@functools.cache
def takes_gpu_buffers() -> bool:
    """True if MPI takes arrays on a GPU as they are."""
    said = os.environ.get("CALQUE_MPI_CUDA", "").strip()
    if said in ("0", "1"):
        return said == "1"
    if said:
        raise ValueError(f"CALQUE_MPI_CUDA must be 0 or 1, and is {said!r}")
    from mpi4py import MPI

    kinds = MPI.COMM_WORLD.Get_info().Get("mpi_memory_alloc_kinds") or ""
    return "cuda" in kinds.split(",")


class MpiGpuCommunicator(GpuCommunicator):
    """One rank's place along an axis, whose arrays lie on its GPU; ``comm`` is mpi4py's."""

    def __init__(self, comm: Any, direct: bool):
        self.comm, self.direct = comm, direct
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def _filled(self, x: Any, shape: Any, fill: Callable[[Any, Any], None]) -> Any:
        """An array of this shape, which ``fill(buffer of x, its own)`` stores into, as bytes."""
        import cupy as cp

        there = is_there(x)
        given: Any = cp.ascontiguousarray(x) if there else np.ascontiguousarray(x)
        if there and self.direct:
            room = cp.empty(shape, x.dtype)
            cp.cuda.get_current_stream().synchronize()
        else:
            given, room = given.get() if there else given, np.empty(shape, x.dtype)
        if x.size:
            fill(given.reshape(-1).view(np.uint8), room.reshape(-1).view(np.uint8))
        return cp.asarray(room) if there else room

    def allreduce(self, x: Any, operation: Any) -> Any:
        """MPI's sum, where it has one for this dtype; else of gathered arrays, in order."""
        if not is_there(x):
            return functools.reduce(operation, self.comm.allgather(x))
        if operation is not np.add or x.dtype.char not in ADDED:
            return reduced_rows(operation, self.allgather(x))
        kind = x.dtype

        def add(given: Any, room: Any) -> None:
            self.comm.Allreduce(given.view(kind), room.view(kind))

        return self._filled(x, x.shape, add)

    def allgather(self, x: Any) -> Any:
        """All ranks' arrays, one behind the other."""
        return self._filled(x, (self.size, *x.shape), self.comm.Allgather)

    def alltoall(self, x: Any) -> Any:
        """Row k goes to rank k."""
        return self._filled(x, x.shape, self.comm.Alltoall)

    def sendrecv(self, x: Any, to: int | None, source: int | None) -> Any:
        """Send to one rank and receive from another; None where nothing is received."""
        from mpi4py import MPI

        there, here = (MPI.PROC_NULL if k is None else k for k in (to, source))

        def exchange(given: Any, room: Any) -> None:
            self.comm.Sendrecv(given, there, recvbuf=room, source=here)

        found = self._filled(x, x.shape, exchange)
        return None if source is None else found
