"""The owners of addresses: all live arrays of the stand-in, with their devices."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_arrays: dict[int, weakref.ref[Any]] = {}  # by their ids


def note(array: Any) -> None:
    """An array is there, for as long as somebody holds it."""
    key = id(array)
    _arrays[key] = weakref.ref(array, lambda _: _arrays.pop(key, None))


def device_with(address: int, size: int) -> int | None:
    """The device in whose memory so many bytes lie; None for other addresses."""
    for reference in list(_arrays.values()):
        found = reference()
        if found is None or not found._memory.flags.c_contiguous:
            continue
        start = found._memory.ctypes.data
        if start <= address and address + size <= start + found._memory.nbytes:
            return int(found.device_id)
    return None


class OfThread(threading.local):
    """The devices that ``with`` made current, in a thread; at first it is the first of all."""

    def __init__(self) -> None:
        self.current = [0]
