"""Locks that a forked child can take: no other thread holds one at the moment of the fork.

A child has one thread. A lock that another thread held stays taken in it for good, and data that
this thread was changing stay half changed. So a fork waits until the work under these locks is
done; Numba's compiler, LLVM, and the imports for both hold them, too.
"""

from __future__ import annotations

# whose own lock a fork is to take after these: what runs under these may want it
import logging  # noqa: F401
import os
import sys
from collections.abc import Callable
from typing import Any

# from the outermost lock to the innermost: a thread that holds one takes only those behind it
ORDER = (
    *("GPUs", "graphs", "versions", "programs", "modules", "Numba's", "LLVM's", "pytrees"),
    *("debugging", "cache"),
)
_locks: dict[str, Any] = {}
_held: list[Any] = []
_in_child: list[Callable[[], None]] = []


def free_in_children(name: str, lock: Any) -> Any:
    """A lock of this name in ``ORDER``, which a fork waits for."""
    if name not in ORDER:
        raise ValueError(f"{name} is none of {', '.join(ORDER)}")
    _locks[name] = lock
    return lock


def run_in_children(action: Callable[[], None]) -> None:
    """Run an action in each forked child, before anything else."""
    _in_child.append(action)


def _of_libraries() -> dict[str, Any]:
    """The locks of Numba's compiler and of LLVM, where they are loaded."""
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    return {
        "Numba's": getattr(
            sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None
        ),
        "LLVM's": getattr(getattr(llvm, "_lock", None), "_lock", None),
    }


def _take() -> None:
    for name in ORDER:
        lock = _locks.get(name) or _of_libraries().get(name)
        if lock is not None:
            lock.acquire()
            _held.append(lock)


def _release() -> None:
    while _held:
        _held.pop().release()


def _release_in_child() -> None:
    _release()
    for action in _in_child:
        action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take, after_in_parent=_release, after_in_child=_release_in_child
    )
