"""Memory that one call frees is kept for the next, without a page fault for each page.

A gradient makes the same large arrays in each call. The C library returns free memory at the end of
its heap to the system from a few MB on, which then clears each page anew when it is touched: half
of the time of a gradient that saves 20 MB. With the first kernel it is told to keep more.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable

KEPT = 256 << 20  # bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_LARGEST = 32 << 20  # an array from which it has pages of its own, as it would be by itself at most
_SAID = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@functools.cache
def keep_memory() -> bool:
    """Have up to ``KEPT`` bytes that are free stay with the process; whether that can be said.

    It is left alone where the environment says something of it, or ``CALQUE_KEEP_MEMORY=0``.
    """
    if os.environ.get("CALQUE_KEEP_MEMORY") == "0" or any(name in os.environ for name in _SAID):
        return False
    said = _of_c("mallopt")
    if said is None:
        return False
    return bool(said(_MMAP_THRESHOLD, _LARGEST) and said(_TRIM_THRESHOLD, KEPT))


def give_back() -> None:
    """Give the system what is free."""
    trim = _of_c("malloc_trim")
    if trim is not None and keep_memory.cache_info().currsize and keep_memory():
        trim(0)


def _of_c(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where there is none, as on macOS and Windows."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return found
