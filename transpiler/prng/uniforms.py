"""Uniform numbers and integers, and orders: exactly what JAX draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.prng.bits import bits_of, split

_MANTISSA = {2: 10, 4: 23, 8: 52}  # bits, by the size of a float in bytes


def unit(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers from 0 to 1, 1 left out: the first bits of each word are the mantissa."""
    return unit_of(bits_of(keys, shape, 8 * dtype.itemsize), dtype)


def unit_of(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """These bits as numbers from 0 to 1, in their memory."""
    width, mantissa = 8 * dtype.itemsize, _MANTISSA[dtype.itemsize]
    words >>= words.dtype.type(width - mantissa)
    words |= np.ones((), dtype).view(words.dtype)
    found = words.view(dtype)
    found -= dtype.type(1)
    return found


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once: what the instruction does that JAX's compiler chooses."""
    dtype = np.result_type(a, b, c)
    with np.errstate(invalid="ignore", over="ignore"):
        if dtype.itemsize == 2:  # there is no such instruction
            return a * b + c
        if dtype.itemsize == 4:
            return (np.multiply(a, b, dtype="f8") + c).astype(dtype)
        product, error = a * b, _product_error(a, b)
        total = product + c
        part = total - product
        lost = (product - (total - part)) + (c - part)
        return np.where(np.isfinite(total), total + (lost + error), total)


def _product_error(a: Any, b: Any) -> Any:
    """The rounding error of a product (Dekker 1971)."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return ((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = 134217729.0 * x
    high = scaled - (scaled - x)
    return high, x - high


def between(u: Any, minval: Any, maxval: Any) -> Any:
    """Stretch numbers from 0 to 1 to an interval, as ``uniform`` does."""
    return np.maximum(minval, multiply_add(u, maxval - minval, minval))


def uniform(
    keys: np.ndarray,
    shape: tuple[int, ...],
    dtype: np.dtype,
    minval: Any = 0.0,
    maxval: Any = 1.0,
) -> Any:
    """Draw numbers from ``minval`` to ``maxval``, which is left out."""
    found = unit(keys, shape, dtype)
    if _is_number(minval, 0.0) and _is_number(maxval, 1.0):
        return found if found.ndim else found[()]
    low, high = np.asarray(minval, dtype), np.asarray(maxval, dtype)
    return between(found, low, high)


def _is_number(value: Any, wanted: float) -> bool:
    """True if a bound is this number, as a number of Python."""
    return type(value) in (int, float) and value == wanted


def randint(
    keys: np.ndarray, shape: tuple[int, ...], minval: Any, maxval: Any, dtype: np.dtype
) -> Any:
    """Draw integers from ``minval`` to ``maxval``, which is left out."""
    low, high = (np.asarray(v) for v in (minval, maxval))
    low, high = (v if v.dtype.kind in "iu" else v.astype(np.int64) for v in (low, high))
    kind = dtype if dtype.itemsize >= 4 else np.dtype(np.int32)
    if kind is not dtype:
        info = np.iinfo(dtype)
        low = np.clip(low.astype(np.int32), info.min, info.max)
        high = np.clip(high.astype(np.int32), info.min, int(info.max) + 1)
    found = _offsets(keys, shape, low, high, kind)
    return found.astype(dtype)[()]


def _offsets(
    keys: np.ndarray, shape: tuple[int, ...], low: np.ndarray, high: np.ndarray, dtype: np.dtype
) -> np.ndarray:
    """Integers of 32 or 64 bits between bounds: a word twice as wide, by the remainder."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    above = high > _clipped(np.asarray(np.iinfo(dtype).max, dtype), high.dtype)
    low, high = _clipped(low, dtype), _clipped(high, dtype)
    one = unsigned.type(1)
    with np.errstate(over="ignore"):
        span = np.where(high <= low, one, (high - low).astype(unsigned))
        span = np.where(above & (high > low), span + one, span)
        width = 8 * dtype.itemsize
        halves = split(keys, (2,))
        first = bits_of(halves[..., 0, :], shape, width)
        second = bits_of(halves[..., 1, :], shape, width)
        if not span.all():
            return low + np.where(span == 0, second, 0).astype(dtype)
        factor = unsigned.type(1 << width // 2) % span
        factor = factor * factor % span
        offset = (first % span * factor + second % span) % span
        return low + offset.astype(dtype)


def _clipped(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Integers of another dtype, the nearest that it has."""
    have, want = np.iinfo(value.dtype), np.iinfo(dtype)
    low, high = max(have.min, want.min), min(have.max, want.max)
    return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(dtype)


def order(keys: np.ndarray, shape: tuple[int, ...], axis: int = 0) -> np.ndarray:
    """Draw an order along an axis of arrays of this shape: positions before it is put."""
    batch = keys.ndim - 1
    place = batch + axis % len(shape)
    along = [1] * len(shape)
    along[axis] = shape[axis]
    found = np.arange(shape[axis]).reshape(along)
    found = np.array(np.broadcast_to(found, (*keys.shape[:-1], *shape)))
    most = float(np.log(np.iinfo(np.uint32).max))
    for _ in range(math.ceil(3 * np.log(max(1, math.prod(shape))) / most)):
        halves = split(keys, (2,))
        keys = halves[..., 0, :]
        words = bits_of(halves[..., 1, :], shape, 32)
        found = np.take_along_axis(found, np.argsort(words, axis=place, kind="stable"), place)
    return found
