"""Threefry-2x32 with 20 rounds: the hash from which keys and bits are made.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). Element ``i``
of what a key draws is the hash of ``i`` under the key, as in JAX (``jax_threefry_partitionable``):
it depends neither on the order of the calls nor on how many elements are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_LOW = 0xFFFFFFFF
_BLOCK = 8192  # counters at once: their words stay in the cache
_FEW = 4  # so few blocks are quicker with Python's integers


def hash_numbers(key: tuple[int, int], high: int, low: int) -> tuple[int, int]:
    """The two words of one counter, in Python's integers.

    >>> hash_numbers((0, 0), 0, 0)
    (1797259609, 2579123966)
    """
    words = (*key, key[0] ^ key[1] ^ PARITY)
    x, y = (high + words[0]) & _LOW, (low + words[1]) & _LOW
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            x = (x + y) & _LOW
            y = ((y << by | y >> 32 - by) & _LOW) ^ x
        x = (x + words[(group + 1) % 3]) & _LOW
        y = (y + words[(group + 2) % 3] + group + 1) & _LOW
    return x, y


def hash_in_place(key: tuple[Any, Any], x: np.ndarray, y: np.ndarray) -> None:
    """The words of all counters ``x`` (high) and ``y`` (low), in their memory.

    The words of the key are uint32 numbers, or arrays that broadcast against the counters.
    """
    words = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    left, steps = np.empty_like(y), np.arange(6, dtype=np.uint32)
    x += words[0]
    y += words[1]
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            x += y
            np.left_shift(y, np.uint32(by), out=left)
            np.right_shift(y, np.uint32(32 - by), out=y)
            y |= left
            y ^= x
        x += words[(group + 1) % 3]
        y += words[(group + 2) % 3]
        y += steps[group + 1]


def hashed(keys: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The words of the counters below ``size`` under each key: arrays of shape (keys, size)."""
    high, low = np.empty((2, len(keys), size), np.uint32)
    if high.size <= _FEW:
        for k, key in enumerate(keys.tolist()):
            for i in range(size):
                high[k, i], low[k, i] = hash_numbers(tuple(key), i >> 32, i & _LOW)
        return high, low
    for rows, start, stop in _blocks(len(keys), size):
        counters = np.arange(start, stop, dtype=np.uint64)
        x, y = high[rows, start:stop], low[rows, start:stop]
        x[...] = counters >> np.uint64(32)
        y[...] = counters & np.uint64(_LOW)
        chosen = keys[rows]
        hash_in_place((chosen[:, :1], chosen[:, 1:]), x, y)
    return high, low


def _blocks(keys: int, size: int) -> Iterator[tuple[slice, int, int]]:
    """Pieces of the counters of all keys: rows, and from where to where."""
    together = max(1, _BLOCK // max(size, 1))
    for first in range(0, keys, together):
        for start in range(0, size, _BLOCK):
            yield slice(first, first + together), start, min(start + _BLOCK, size)
