"""The one background thread: first the work that calls wait for, then that for faster code."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from calque.runtime.call.dispatch import making
from calque.transpiler.forking import run_in_children

FIRST, LATER = 0, 1  # what calls wait for, and what makes later calls quicker


class BackgroundWork:
    """Work that is done in the background for calls of some types, and once only."""

    asked = 0  # calls that asked for it

    def __init__(self, work: Callable[[], None] | None = None):
        self.work = work or _nothing
        self.process = os.getpid()
        self.done = threading.Event()
        if work is None:
            self.done.set()  # nothing waits for it

    def is_lost(self) -> bool:
        """True if it was of a process of which this one is a fork."""
        return self.process != os.getpid()


class Waiting(dict[Any, BackgroundWork]):
    """The table of what waits for a compiler, by what it is compiled for."""

    def __missing__(self, key: Any) -> BackgroundWork:
        return self.setdefault(key, BackgroundWork())

    def begin(self, key: Any, work: Callable[[], None], when: int = FIRST) -> None:
        """Have work done for a key, after what was entered before it and is as urgent."""
        task = BackgroundWork(work)
        task.asked = self[key].asked
        self[key] = task
        enter(task, when)

    def is_running(self, key: Any) -> bool:
        """True if work for a key was begun, and is not done."""
        task = self.get(key)
        return task is not None and not task.is_lost() and not task.done.is_set()

    def wait(self) -> None:
        """Return when all work that was begun is done."""
        for task in list(self.values()):
            if not task.is_lost():
                task.done.wait()


_tasks: queue.PriorityQueue[tuple[int, int, BackgroundWork]] = queue.PriorityQueue()
_count = itertools.count()
_worker: threading.Thread | None = None


def enter(task: BackgroundWork, when: int = FIRST) -> None:
    """Have a task done, after those that were entered before it and are as urgent."""
    global _worker
    with making:
        if _worker is None:
            _worker = threading.Thread(target=_run_tasks, name="calque kernels", daemon=True)
            _worker.start()
    _tasks.put((when, next(_count), task))


def is_worker() -> bool:
    """Return True in the thread that works in the background."""
    return threading.current_thread() is _worker


def is_idle() -> bool:
    """Return True if no task waits to be done."""
    return _tasks.empty()


def _run_tasks() -> None:
    while True:
        _, _, task = _tasks.get()
        try:
            task.work()
        finally:
            task.work = _nothing  # what it was given is freed
            task.done.set()


def _nothing() -> None:
    pass


def _forget() -> None:
    """A forked child has no such thread."""
    global _tasks, _worker
    _tasks, _worker = queue.PriorityQueue(), None


run_in_children(_forget)
