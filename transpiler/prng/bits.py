"""Keys and bits: the hash of counters under keys. A key is two uint32, several are (..., 2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.prng.threefry import hash_in_place, hash_numbers, hashed

_LOW = np.uint64(0xFFFFFFFF)


def key(seed: Any) -> np.ndarray:
    """Make the key of an integer; of an array of integers, a key of each."""
    seed = np.asarray(np.int64(seed) if isinstance(seed, int) else seed)
    found = np.empty((*seed.shape, 2), np.uint32)
    wide = seed.astype(np.uint64)
    found[..., 0] = wide >> np.uint64(32) if seed.dtype.itemsize == 8 else 0
    found[..., 1] = wide & _LOW
    return found


def split(keys: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Make so many new keys of each, as if drawn independently."""
    words = hashed(keys.reshape(-1, 2), math.prod(shape))
    return np.stack(words, axis=-1).reshape((*keys.shape[:-1], *shape, 2))


def fold_in(keys: np.ndarray, data: Any) -> np.ndarray:
    """Make the keys that belong to an integer, or to an array of them."""
    data = np.asarray(data, np.uint32) if isinstance(data, int) else np.asarray(data)
    data = data.astype(np.uint32)
    if keys.ndim == 1 and not data.ndim:
        one, other = keys.tolist()
        return np.array(hash_numbers((one, other), 0, int(data)), np.uint32)
    low = np.array(np.broadcast_to(data, np.broadcast_shapes(data.shape, keys.shape[:-1])))
    high = np.zeros_like(low)
    hash_in_place((keys[..., 0], keys[..., 1]), high, low)
    return np.stack((high, low), axis=-1)


def bits_of(keys: np.ndarray, shape: tuple[int, ...], width: int) -> np.ndarray:
    """Unsigned integers of so many bits, for each key an array of this shape."""
    high, low = hashed(keys.reshape(-1, 2), math.prod(shape))
    if width == 64:
        found = high.astype(np.uint64)
        found <<= np.uint64(32)
        found |= low
    else:
        high ^= low
        found = high.astype(f"u{width // 8}", copy=False)
    return found.reshape((*keys.shape[:-1], *shape))
