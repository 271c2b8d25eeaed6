"""The device for arrays of the host within ``with calque.default_device(...)``, by thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calque.runtime.meshes import Device

contexts: dict[int, None] = {}  # open in any thread: when there are none, a call looks here alone
_numbers = itertools.count()
_local = threading.local()


def chosen() -> Device | None:
    """The device of the innermost context of this thread; None where there is none."""
    found: list[Device | None] = getattr(_local, "devices", [])
    return found[-1] if found else None


def chosen_gpu() -> int | None:
    """The number of the GPU that is chosen, if one is."""
    found = chosen()
    return found.id if found is not None and found.platform == "gpu" else None


@contextmanager
def choosing(device: Device | None) -> Iterator[None]:
    """Within it, the given device is the chosen one."""
    number = next(_numbers)
    contexts[number] = None
    devices = _local.__dict__.setdefault("devices", [])
    devices.append(device)
    try:
        yield
    finally:
        devices.pop()
        del contexts[number]
