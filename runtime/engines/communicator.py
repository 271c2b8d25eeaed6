"""The collectives that a device's program calls, made of a few operations of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Communicator:
    """One device's connection to the others along one axis of the mesh, in this process.

    An engine gives ``allreduce``, ``allgather``, ``alltoall``, ``sendrecv``, ``barrier`` and
    ``abort``; what a program calls is made of these. Every device of the axis must make the same
    calls in the same order: that of the program's text.
    """

    rank: int  # of this device along the axis
    size: int  # how many devices there are

    # an engine's

    def allreduce(self, x: Any, operation: Any) -> Any:
        """``operation`` (a ufunc: add, maximum, minimum) over all devices' arrays, in order."""
        raise NotImplementedError

    def allgather(self, x: np.ndarray) -> np.ndarray:
        """All devices' arrays along a new leading axis."""
        raise NotImplementedError

    def alltoall(self, x: np.ndarray) -> np.ndarray:
        """Row k of the result is the row of device k that has this device's number."""
        raise NotImplementedError

    def sendrecv(self, x: np.ndarray, to: int | None, source: int | None) -> np.ndarray | None:
        """Send to one device and receive from another; None where nothing is received."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Wait until every device is here."""
        raise NotImplementedError

    def abort(self, error: BaseException) -> None:
        """Let all devices end, because this one raised."""
        raise NotImplementedError

    # a program's

    def psum(self, x: Any) -> Any:
        """The sum over all devices."""
        return self.allreduce(x, np.add)

    def pmean(self, x: Any) -> Any:
        """The mean over all devices."""
        return self.allreduce(x, np.add) / self.size

    def pmax(self, x: Any) -> Any:
        """The greatest value over all devices."""
        return self.allreduce(x, np.maximum)

    def pmin(self, x: Any) -> Any:
        """The least value over all devices."""
        return self.allreduce(x, np.minimum)

    def all_gather(self, x: Any, axis: int = 0) -> np.ndarray:
        """All devices' arrays along a new axis."""
        gathered = self.allgather(np.ascontiguousarray(x).reshape(np.shape(x)))
        return np.ascontiguousarray(np.moveaxis(gathered, 0, axis))

    def psum_scatter(self, x: Any, axis: int = 0) -> Any:
        """This device's part, along one axis, of the sum over all devices."""
        parts = self.alltoall(np.ascontiguousarray(np.moveaxis(x, axis, 0)))
        return np.add.reduce(parts, axis=0, dtype=parts.dtype)

    def all_to_all(self, x: Any, split: int, concat: int) -> np.ndarray:
        """Part k of ``split`` goes to device k; what arrives stands along a new axis ``concat``."""
        parts = self.alltoall(np.ascontiguousarray(np.moveaxis(x, split, 0)))
        return np.ascontiguousarray(np.moveaxis(parts, 0, concat))

    def ppermute(self, x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        """The array sent along the pairs (source, destination); zeros where none arrives."""
        to = next((there for here, there in pairs if here == self.rank), None)
        source = next((here for here, there in pairs if there == self.rank), None)
        sent = np.ascontiguousarray(x).reshape(np.shape(x))
        received = self.sendrecv(sent, to, source)
        received = np.zeros_like(sent) if received is None else received
        return received if received.ndim else received[()]
