"""Devices that are MPI ranks: ``mpiexec -n 4 python train.py``, by mpi4py (the extra "mpi").

A program's collectives are calls of mpi4py (``spmd.mpi_calls``), as in a saved script.
Each call begins with a roll call: a rank that is about to run another program, or the same on other
shapes, is named on all ranks, and so is one that has ended; no rank waits for it. A rank that
raises prints its traceback and ends all.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.runtime.engines.engine import Arguments, Engine, Program
from calque.runtime.engines.mpi_gpus import MpiGpuCommunicator, takes_gpu_buffers
from calque.transpiler.codegen.numpy.mpi_launcher import MpiLauncher
from calque.transpiler.errors import RanksDiffer
from calque.transpiler.spmd.mpi_calls import MPI_CALLS

_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS")
_DESCRIPTION = 512  # bytes of what a rank says of its call
_LEAVING = bytes(16)  # the roll call of a rank that ends


@functools.cache
def _is_running() -> bool:
    """True if ``mpiexec`` started this process as one of several, and mpi4py is there."""
    started = any(os.environ.get(name, "1").strip() not in ("", "1") for name in _SIZES)
    return started and importlib.util.find_spec("mpi4py") is not None


@functools.cache
def _world() -> Any:
    """The ranks' communicator; from its first use on, a rank that raises ends all."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD.Dup()
    before = sys.excepthook

    def end_all(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        world.Abort(1)

    sys.excepthook = end_all
    atexit.register(_leave, world)
    return world


def _leave(world: Any) -> None:
    """At the end of a rank, the others must be ending, too."""
    try:
        _gathered(world, _LEAVING)
    except Exception:
        traceback.print_exc()


def _bytes(x: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array: what is only moved has no dtype."""
    return x.reshape(-1).view(np.uint8)


@functools.cache
def _communicators(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """This rank's communicator of mpi4py along each axis of the mesh."""
    world = _world()
    places = list(itertools.product(*map(range, shape)))
    mine = places[world.Get_rank()]
    found = []
    for axis in range(len(shape)):
        others = (*mine[:axis], *mine[axis + 1 :])
        color = sum(p * 10_007**k for k, p in enumerate(others)) % (1 << 30)
        found.append(world.Split(color, mine[axis]))
    return tuple(found)


def _gathered(world: Any, own: bytes) -> list[bytes]:
    given = np.frombuffer(own, np.uint8)
    found = np.empty((world.Get_size(), len(own)), np.uint8)
    world.Allgather(given, found)
    return [row.tobytes() for row in found]


class MpiEngine(Engine):
    """Devices that are MPI ranks."""

    name, processes = "mpi", True
    launcher, library = MpiLauncher, MPI_CALLS

    def is_running(self) -> bool:
        """True if ``mpiexec`` started this process as one of several, and mpi4py is there."""
        return _is_running()

    def size(self) -> int:
        """The number of ranks."""
        return int(_world().Get_size())

    def rank(self) -> int:
        """The number of this rank."""
        return int(_world().Get_rank())

    def gathered(self, x: np.ndarray) -> np.ndarray:
        """Every rank's array, along a new leading axis."""
        world = _world()
        found = np.empty((world.Get_size(), *x.shape), x.dtype)
        world.Allgather(_bytes(x), _bytes(found))
        return found

    def more(self, count: int) -> str:
        """Advice to use mpiexec."""
        return f"start the program with mpiexec -n {count}"

    def run(
        self, program: Program, arguments: Arguments, named: dict[str, Any], shape: Sequence[int]
    ) -> list[Any]:
        """The result of ``program(*communicators, *arguments[0], **named)`` on this rank."""
        return [program(*_communicators(tuple(shape)), *arguments[0], **named)]

    def gpu_communicators(self, shape: Sequence[int]) -> tuple[MpiGpuCommunicator, ...]:
        """The communicators of a program of arrays on this rank's GPU, one along each axis."""
        direct = takes_gpu_buffers()
        return tuple(MpiGpuCommunicator(comm, direct) for comm in _communicators(tuple(shape)))

    def roll_call(self, text: str, description: str) -> None:
        """Ranks that are about to run different programs, or on other shapes, raise RanksDiffer."""
        world = _world()
        said = f"{hashlib.sha256(text.encode()).hexdigest()}\n{description}"
        own = hashlib.sha256(said.encode()).digest()[:16]
        found = _gathered(world, own)
        if all(digest == own for digest in found):
            return
        gone = [k for k, digest in enumerate(found) if digest == _LEAVING]
        if gone:
            raise RanksDiffer(
                f"Rank {gone[0]} has ended, and rank {world.Get_rank()} calls {description}.",
                hint="let every rank make the same calls",
            )
        descriptions = _gathered(world, description.encode()[:_DESCRIPTION].ljust(_DESCRIPTION))
        first = descriptions[0].decode(errors="replace").strip()
        other = next(k for k, digest in enumerate(found) if digest != found[0])
        theirs = descriptions[other].decode(errors="replace").strip()
        what = (
            f"{theirs}, and rank 0 {first}"
            if theirs != first
            else f"another program than rank 0: {theirs}"
        )
        raise RanksDiffer(
            f"Rank {other} is about to run {what}.",
            hint="let every rank call the same function on the same shapes and dtypes, with the "
            "same captured values",
        )
