"""Recognition of arrays on a GPU without importing CuPy: before its import there are none."""

from __future__ import annotations

import sys
from typing import Any


def is_device_array(value: Any) -> bool:
    """True if a value is an array of CuPy.

    >>> is_device_array([1.0])
    False
    """
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, getattr(cupy, "ndarray", ()))
