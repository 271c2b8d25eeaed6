"""Numbers that are stored into arrays of another dtype: those that fit, and NumPy's casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array, type_of
from calque.transpiler.primitives.elementwise import to_int
from calque.transpiler.primitives.record import apply


def fits(value: Any, dtype: np.dtype) -> bool:
    """True if a known number fits a dtype: adding it to elements keeps the dtype, raises nothing.

    >>> fits(127, np.dtype("i1")), fits(128, np.dtype("i1")), fits(np.int64(1), np.dtype("i1"))
    (True, False, False)
    """
    if dtype.kind not in "iu" or np.can_cast(type_of(value).dtype, dtype):
        return True
    return type_of(value).weak and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def taken(x: Any, dtype: np.dtype, alone: bool = True) -> Any:
    """A number as NumPy takes it into an array of integers: by ``int``, which refuses some.

    Not ``alone`` is what a mask or an array of indices says where to store: there NumPy casts its
    own numbers, as it casts them to unsigned integers.
    """
    if not isinstance(x, Array) or x.ndim or x.is_buffer or np.can_cast(x.dtype, dtype):
        return x
    refuses = dtype.kind in "iu" and (x.type.weak or (alone and dtype.kind == "i"))
    return apply(to_int, x) if refuses and not (x.type.weak and x.dtype.kind == "i") else x
