"""Answers of NumPy to what SciPy's functions ask about modules of arrays and their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin


@twin("scipy._lib._array_api", "array_namespace")
def array_namespace(*arrays: Any) -> Any:
    """NumPy, which computes all that a program has."""
    return np


@twin("scipy._lib._array_api", "xp_result_type")
def xp_result_type(*args: Any, force_floating: bool = False, xp: Any = None) -> Any:
    """The dtype of a result of arrays and numbers; ``force_floating``: of 64 bits for integers."""
    dtype = np.result_type(*[a for a in args if a is not None])
    if force_floating and dtype.kind in "biu":
        return np.dtype(np.float64)
    return dtype


@twin("scipy._lib._array_api", "xp_promote")
def xp_promote(
    *args: Any, broadcast: bool = False, force_floating: bool = False, xp: Any = None
) -> Any:
    """The arguments as arrays of one dtype, and with ``broadcast`` of one shape."""
    dtype = xp_result_type(*args, force_floating=force_floating)
    found = [None if a is None else np.asarray(a).astype(dtype) for a in args]
    if broadcast:
        shape = np.broadcast_shapes(*[a.shape for a in found if a is not None])
        found = [None if a is None else np.broadcast_to(a, shape) for a in found]
    return found[0] if len(found) == 1 else tuple(found)
