"""Answers of NumPy to what SciPy's functions ask about modules of arrays and their dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin
from calque.transpiler.primitives.scipy_stats import is_truth


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


@twin("scipy._lib.array_api_extra", "apply_where")
def apply_where(
    cond: Any,
    args: Any,
    f1: Callable[..., Any],
    f2: Any = None,
    /,
    *,
    fill_value: Any = None,
    kwargs: Any = None,
    xp: Any = None,
) -> Any:
    """``f1(*args)`` where a condition holds, elsewhere ``f2(*args)`` or a number."""
    given = args if isinstance(args, (tuple, list)) else (args,)
    named = {} if kwargs is None else kwargs
    if f2 is None:
        return chosen_by(cond, lambda: f1(*given, **named), lambda: fill_value)
    return chosen_by(cond, lambda: f1(*given, **named), lambda: f2(*given, **named))


@twin("scipy._lib._util", "_lazywhere")
def lazy_where(
    cond: Any, arrays: Any, f: Callable[..., Any], fillvalue: Any = None, f2: Any = None
) -> Any:
    """The same, as versions before 1.16 spell it."""
    return apply_where(cond, arrays, f, f2, fill_value=fillvalue)


def chosen_by(cond: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """The choice of one known truth; else both are computed."""
    if is_truth(cond):
        return then() if cond else otherwise()
    return np.where(cond, then(), otherwise())


@twin("scipy._lib._util", "_lazyselect")
def lazy_select(condlist: Any, choicelist: Any, arrays: Any, default: Any = 0) -> Any:
    """The choice of the first condition that holds, of each element."""
    found = default
    for cond, choice in list(zip(condlist, choicelist, strict=True))[::-1]:
        if is_truth(cond):
            found = choice(*arrays) if cond else found
        else:
            found = np.where(cond, choice(*arrays), found)
    return found


@twin("scipy._lib._array_api", "is_array_api_obj")
@twin("scipy._lib.array_api_compat", "is_array_api_obj")
def is_array_api_obj(x: Any) -> bool:
    """True for an array."""
    return hasattr(x, "shape")


@twin("scipy._lib._array_api", "xp_device")
@twin("scipy._lib.array_api_compat", "device")
def device_of(x: Any) -> None:
    """No device: NumPy's arrays are where they are."""
    return None


class Place:
    """A place in an array: ``Place(x, place).set(values)`` is the array with other values there."""

    def __init__(self, x: Any, idx: Any = None):
        self.x, self.idx = x, idx

    def __getitem__(self, idx: Any) -> Place:
        return Place(self.x, idx)

    def set(self, y: Any, copy: Any = None, xp: Any = None) -> Any:
        """The array with values in the place."""
        found = np.copy(self.x)
        found[self.idx] = y
        return found


@twin("scipy._lib.array_api_extra", "at")
def at(x: Any, idx: Any = None) -> Place:
    """A place in an array."""
    return Place(x, idx)
