"""Uniform numbers and integers, and orders: exactly what JAX draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.runtime.random.distribution_parameters import broadcast_shape, float_dtype
from calque.runtime.random.keys import Shape, checked_shape, parts_of, random_bits, used_key

_MANTISSA = {2: 10, 4: 23, 8: 52}  # bits, by the size of a float in bytes


def unit(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers from 0 to 1, 1 left out: the first bits of each word are the mantissa."""
    return unit_of(random_bits(keys, shape, 8 * dtype.itemsize), dtype)


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
    """Numbers from 0 to 1 stretched to the interval, as ``uniform`` does it.

    ``u`` are the numbers; ``minval`` and ``maxval`` are the ends of the interval.

    >>> from calque import random
    >>> float(random.between(0.25, 10.0, 14.0))
    11.0
    """
    return np.maximum(minval, multiply_add(u, maxval - minval, minval))


def uniform(
    key: Any, shape: Shape = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Numbers from ``minval`` to ``maxval``, which is left out.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.uniform(random.key(0), (2,), np.float32)
    array([0.947667 , 0.9785799], dtype=float32)
    """
    keys, shape = used_key(key, "random.uniform"), checked_shape(shape, "random.uniform")
    dtype = float_dtype(dtype, "random.uniform")
    found = unit(keys, shape, dtype)
    if is_number(minval, 0.0) and is_number(maxval, 1.0):
        return found if found.ndim else found[()]
    low, high = np.asarray(minval, dtype), np.asarray(maxval, dtype)
    return between(found, low, high)


def is_number(value: Any, wanted: float) -> bool:
    """True if a bound is this number, as a number of Python."""
    return type(value) in (int, float) and value == wanted


def randint(key: Any, shape: Shape, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers from ``minval`` to ``maxval``, which is left out.

    ``key`` is used up by the draw; ``shape`` is the result's; ``dtype`` is one of integers, int64
    by default.

    >>> from calque import random
    >>> random.randint(random.key(0), (3,), 0, 10)
    array([5, 1, 5])
    """
    keys, shape = used_key(key, "random.randint"), checked_shape(shape, "random.randint")
    dtype = np.dtype(int if dtype is None else dtype)
    if dtype.kind not in "iu":
        raise TypeError(f"random.randint gives integers, not {dtype}")
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
        halves = parts_of(keys, (2,))
        first = random_bits(halves[..., 0, :], shape, width)
        second = random_bits(halves[..., 1, :], shape, width)
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


def order(key: Any, shape: Shape, axis: int = 0) -> np.ndarray:
    """The order in which ``permutation`` puts what lies along an axis of an array of this shape.

    ``key`` is used up by the draw; ``shape`` is that of the array, ``axis`` the one along which
    things are put.

    >>> from calque import random
    >>> random.order(random.key(0), (4,))
    array([0, 1, 3, 2])
    """
    keys, shape = used_key(key, "random.order"), checked_shape(shape, "random.order")
    batch = keys.ndim - 1
    place = batch + axis % len(shape)
    along = [1] * len(shape)
    along[axis] = shape[axis]
    found = np.arange(shape[axis]).reshape(along)
    found = np.array(np.broadcast_to(found, (*keys.shape[:-1], *shape)))
    most = float(np.log(np.iinfo(np.uint32).max))
    for _ in range(math.ceil(3 * np.log(max(1, math.prod(shape))) / most)):
        halves = parts_of(keys, (2,))
        keys = halves[..., 0, :]
        words = random_bits(halves[..., 1, :], shape, 32)
        found = np.take_along_axis(found, np.argsort(words, axis=place, kind="stable"), place)
    return found


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The numbers below ``x``, or an array's slices along an axis, in random order.

    ``independent``: each row along the axis in an order of its own.

    ``key`` is used up by the draw; ``axis`` is the first by default.

    >>> from calque import random
    >>> random.permutation(random.key(0), 4)
    array([0, 1, 3, 2])
    """
    if not np.ndim(x):
        if np.asarray(x).dtype.kind not in "iu":
            raise TypeError("random.permutation takes an integer or an array with an axis")
        return order(key, (x,))
    if independent or np.ndim(x) == 1:
        return np.take_along_axis(np.asarray(x), order(key, np.shape(x), axis), axis)
    return np.take(x, order(key, (np.shape(x)[axis],)), axis)


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None, mode: str = "low") -> Any:
    """True with probability ``p``; ``mode="high"`` tells apart small ones that "low" cannot.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``p``.

    >>> from calque import random
    >>> random.bernoulli(random.key(0), 0.5, (3,))
    array([ True,  True, False])
    """
    if mode not in ("high", "low"):
        raise ValueError(f"the mode of random.bernoulli is 'high' or 'low', not {mode!r}")
    kind = np.asarray(p).dtype
    if kind.kind != "f":
        raise TypeError(f"the probability of random.bernoulli is a float, not {kind}")
    shape = broadcast_shape("bernoulli", shape, p)
    if mode == "low":
        return uniform(key, shape, kind) < p
    u = uniform(key, (2, *shape), kind)
    return u[1] * 2.0 ** -np.finfo(kind).nmant < p - u[0]
