"""Indices that kernels found to be out of bounds: raised without an extra wait.

A kernel never reads or stores out of bounds. It reads NaN instead, skips the store, and notes the
fault in one cell of pinned host memory, which a GPU can write to. Each launcher with such indices
looks into the cell first, which waits for nothing, and raises for a call that has finished; code
that waits anyway looks after waiting (``raise_if_outside``).
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

_PLACES: list[str] = []  # the user's statements, by what kernels call them, from 1 on
_CELLS: list[Any] = []
_FAR = 2**39  # indices that are further away are told as this


def _cell() -> Any:
    """The number that kernels store into: where, and which index; 0 while all is well."""
    import cupy as cp

    if not _CELLS:
        cell = np.frombuffer(cp.cuda.alloc_pinned_memory(8), np.int64, 1)
        cell[0] = 0
        _CELLS.append(cell)
    return _CELLS[0]  # the same for threads that come at once


@functools.cache
def outside(*places: str) -> tuple[int, int]:
    """The arguments of a kernel's checks in these statements: the cell, the first one's number.

    The others have the numbers after it.
    """
    first = len(_PLACES) + 1
    _PLACES.extend(places)
    return _cell().ctypes.data, first


def raise_if_outside() -> None:
    """Raise IndexError for a kernel that has found an index outside of its array."""
    word = int(_CELLS[0][0]) if _CELLS else 0
    if word:
        _CELLS[0][0] = 0
        place, index = divmod(word, 2 * _FAR)
        raise IndexError(f"{_PLACES[place - 1]}: index {index - _FAR} is out of bounds")


def checked_index(index: Any, size: int, place: str) -> Any:
    """An index that the host uses, counted from the start, or an array of them.

    CuPy looks at none that is on the GPU; here the host does, which waits for it.

    >>> checked_index(-1, 5, "f.py, line 3: x[k]")
    4
    >>> checked_index(5, 5, "f.py, line 3: x[k]")
    Traceback (most recent call last):
        ...
    IndexError: f.py, line 3: x[k]: index 5 is out of bounds for size 5
    """
    if getattr(index, "ndim", 0):
        wrong = index[(index < -size) | (index >= size)]
        if wrong.size:
            checked_index(wrong[0], size, place)
        return index
    number = operator.index(index.item() if hasattr(index, "item") else index)
    if not -size <= number < size:
        raise IndexError(f"{place}: index {number} is out of bounds for size {size}")
    return number + size if number < 0 else number
