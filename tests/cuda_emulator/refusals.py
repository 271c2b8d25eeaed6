"""Operands that CuPy's functions refuse and NumPy's take, as seen in CuPy 14.2 without a device.

A number on the host is no array to most functions, be it one of NumPy's; functions by element take
any. An array on the device is an index, but no integer: ``range`` and shapes refuse it, too.

>>> refuse("array", ([numpy.float64(1.0), 2.0],), str)
>>> refuse("where", (True, 1.0, 2.0), str)
Traceback (most recent call last):
    ...
TypeError: where of CuPy takes arrays, not bool
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

# whose first operand is an array
_OF_ARRAYS = frozenset(
    "all any argmax argmin broadcast_to count_nonzero cumprod cumsum expand_dims median nanmax nanmin"
    " nansum outer ptp roll".split()
)
# .. or at least a number of NumPy's, which has methods, too
_OF_METHODS = frozenset(
    "argsort clip copy empty_like flip full_like max mean min ones_like prod ravel repeat reshape"
    " squeeze std sum take tensordot transpose unique var where zeros_like".split()
)


def refuse(name: str, args: Sequence[Any], array: type) -> None:
    """Raise CuPy's error for arguments that CuPy refuses; ``array`` is the device's array type."""
    first = args[0] if args else None
    own = isinstance(first, array)
    if (name in _OF_ARRAYS and not own) or (name in _OF_METHODS and not hasattr(first, "dtype")):
        raise TypeError(f"{name} of CuPy takes arrays, not {type(first).__name__}")
    if name in ("array", "asarray") and isinstance(first, (list, tuple)):
        _refuse_mixed(list(_leaves(first)), array)
    if name in ("stack", "concatenate", "column_stack"):
        _refuse_joined(name, first, array)
    if name == "inner" and own and 0 in numpy.shape(first)[-1:]:
        raise ZeroDivisionError("integer division or modulo by zero")
    if name == "linalg.solve":
        _refuse_stacks(*(x.shape for x in args[:2]))


def _leaves(value: Any) -> Iterator[Any]:
    if not isinstance(value, (list, tuple)):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _refuse_mixed(leaves: list[Any], array: type) -> None:
    there = [isinstance(x, array) for x in leaves]
    if any(there) and not all(there):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


def _refuse_joined(name: str, arrays: Any, array: type) -> None:
    for x in arrays:
        if not isinstance(x, array):
            raise TypeError(f"{name} of CuPy joins arrays, not {type(x).__name__}")
        if name == "column_stack" and x.ndim not in (1, 2):
            raise ValueError("Only 1 or 2 dimensional arrays can be column stacked")


def _refuse_stacks(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Matrices and right-hand sides are as many; a vector is that of all matrices."""
    if len(b) > 1 and a[:-1] != b[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
