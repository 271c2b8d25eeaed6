"""The engines by their names, and the choice of one."""

from __future__ import annotations

from calque.runtime.engines.engine import Engine, GpuEngine, ThreadEngine
from calque.runtime.engines.mpi import MpiEngine

THREADS, GPUS = ThreadEngine(), GpuEngine()
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (THREADS, MpiEngine(), GPUS)}


def running() -> Engine:
    """The engine whose devices this process is one of; else that of threads."""
    return next((engine for engine in ENGINES.values() if engine.is_running()), THREADS)


def chosen(name: str | None) -> Engine:
    """The engine of this name; by default the one that is running.

    >>> chosen("mpi").processes, chosen(None).processes
    (True, False)
    """
    return running() if name is None else ENGINES[name]
