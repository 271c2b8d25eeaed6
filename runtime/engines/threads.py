"""Devices that are threads of this process: the engine that is always there.

NumPy's loops and products, and kernels, let go of the interpreter's lock. A collective is a meeting
at a barrier; a sum is taken in the order of the devices, so that it is the same in each run.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.engines.communicator import Communicator

SMALL = 1 << 14  # elements up to which every device adds all, instead of a share


class Team:
    """The devices along one axis that talk to each other, and where they meet."""

    def __init__(self, size: int):
        self.size = size
        self.meeting = threading.Barrier(size)
        self.given: list[Any] = [None] * size
        self.result: Any = None


class ThreadCommunicator(Communicator):
    """One thread's place in a team."""

    def __init__(self, team: Team, rank: int):
        self.team, self.rank, self.size = team, rank, team.size

    def barrier(self) -> None:
        """Wait until every device is here."""
        self.team.meeting.wait()

    def abort(self, error: BaseException) -> None:
        """Break the barrier: threads that wait, or come later, raise ``BrokenBarrierError``."""
        self.team.meeting.abort()

    def _exchange(self, x: Any, read: Callable[[list[Any]], Any]) -> Any:
        """The result of ``read`` on all devices' values, unchanged until all devices have read."""
        self.team.given[self.rank] = x
        self.barrier()
        found = read(self.team.given)
        self.barrier()
        return found

    def allreduce(self, x: Any, operation: Any) -> Any:
        """Every device adds all, or, of large arrays, its share of the elements."""
        if np.size(x) <= SMALL or self.size == 1:
            return self._exchange(x, lambda given: _reduced(operation, given))
        team, shape = self.team, np.shape(x)
        team.given[self.rank] = np.ravel(x)
        if self.rank == 0:
            team.result = np.empty(np.size(x), np.result_type(x))
        self.barrier()
        length = np.size(x)
        share = slice(self.rank * length // self.size, (self.rank + 1) * length // self.size)
        operation(team.given[0][share], team.given[1][share], out=team.result[share])
        for other in team.given[2:]:
            operation(team.result[share], other[share], out=team.result[share])
        self.barrier()
        found = team.result.reshape(shape).copy()
        self.barrier()
        return found

    def allgather(self, x: np.ndarray) -> np.ndarray:
        """All devices' arrays, one behind the other."""
        return self._exchange(x, np.stack)

    def alltoall(self, x: np.ndarray) -> np.ndarray:
        """This device's rows of all devices' arrays."""
        rank = self.rank
        return self._exchange(x, lambda given: np.stack([other[rank] for other in given]))

    def sendrecv(self, x: np.ndarray, to: int | None, source: int | None) -> np.ndarray | None:
        """A copy of another device's array."""
        return self._exchange(x, lambda given: None if source is None else np.array(given[source]))


def _reduced(operation: Any, given: list[Any]) -> Any:
    found = given[0]
    for other in given[1:]:
        found = operation(found, other)
    return found if len(given) > 1 else np.array(found)[()]


def run(
    program: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    named: dict[str, Any],
    shape: Sequence[int],
) -> list[Any]:
    """The results of ``program(*communicators, *arguments[k], **named)`` for each device k.

    The devices stand in a mesh of this shape, the last axis running fastest; each has a
    communicator for each axis.
    """
    return run_connected(program, arguments, named, connections(shape, ThreadCommunicator))


def _in_new_thread(work: Callable[[int], None], device: int) -> Callable[[], Any]:
    within = contextvars.copy_context().run  # np.errstate is the caller's
    name = f"device {device}"
    thread = threading.Thread(target=within, args=(work, device), name=name, daemon=True)
    thread.start()
    return thread.join


def run_connected(
    program: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    named: dict[str, Any],
    connected: Sequence[tuple[Communicator, ...]],
    start: Callable[[Callable[[int], None], int], Callable[[], Any]] = _in_new_thread,
) -> list[Any]:
    """The results of devices with these communicators, each in a thread of its own.

    ``start(work, k)`` lets the thread of device k work, and gives what waits for it. An exception
    on one ends the call on all, and is raised with a note which device it was.
    """
    size = len(arguments)
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def work(device: int) -> None:
        try:
            results[device] = program(*connected[device], *arguments[device], **named)
        except threading.BrokenBarrierError:
            pass  # another device raised
        except BaseException as error:
            error.add_note(f"on device {device} of {size}")
            errors[device] = error
            end_all(error)

    def end_all(error: BaseException) -> None:
        for mine in connected:
            for communicator in mine:
                communicator.abort(error)

    waits = [start(work, k) for k in range(1, size)]
    work(0)
    try:
        for wait in waits:
            wait()
    except BaseException as interrupt:  # nobody waits for the others
        end_all(interrupt)
        raise
    for found in errors:
        if found is not None:
            raise found
    return results


def connections(
    shape: Sequence[int], made: Callable[[Team, int], Communicator]
) -> list[tuple[Communicator, ...]]:
    """For each device of a mesh, its communicator along each axis."""
    teams: dict[tuple[int, ...], Team] = {}
    found = []
    for place in itertools.product(*map(range, shape)):
        mine = []
        for axis, size in enumerate(shape):
            key = (axis, *place[:axis], *place[axis + 1 :])
            team = teams.setdefault(key, Team(size))
            mine.append(made(team, place[axis]))
        found.append(tuple(mine))
    return found
