"""The memory that a call holds."""

from __future__ import annotations

import tracemalloc
from typing import Any


def peak(g: Any, *args: Any) -> float:
    """The most memory that a call holds at a time."""
    g(*args)
    tracemalloc.start()
    try:
        g(*args)
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
