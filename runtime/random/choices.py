"""Choices among given things, and counts made of them: calque reads this file as it reads yours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.runtime.random.distribution_parameters import broadcast_shape, inexact
from calque.runtime.random.draws import binomial, permutation, randint, uniform
from calque.runtime.random.elementary import gumbel
from calque.runtime.random.keys import Shape, split


def choice(
    key: Any,
    a: Any,
    shape: Shape = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Elements of an array (slices along ``axis``), or numbers below an integer ``a``.

    ``p`` gives the probability of each; without ``replace``, none is taken twice.

    ``key`` is used up by the draw; ``shape`` is that of the draws, by default one. ``mode`` is as
    for ``gumbel``, which draws where ``p`` is given and ``replace`` is not. Raises ValueError where
    more are asked for than there are.

    >>> from calque import random
    >>> random.choice(random.key(0), 10, (3,))
    array([5, 1, 5])
    """
    if np.ndim(a) and not -np.ndim(a) <= axis < np.ndim(a):
        raise ValueError(f"random.choice: axis {axis} is out of bounds for {np.ndim(a)} axes")
    count = a if np.ndim(a) == 0 else np.shape(a)[axis]
    if p is not None and (np.ndim(p) != 1 or (np.ndim(a) > 0 and np.shape(p)[0] != count)):
        raise ValueError("random.choice: p must be a vector, with a probability of each element")
    draws = math.prod(shape)
    if count <= 0 and draws > 0:
        raise ValueError("random.choice takes nothing from nothing")
    if not replace and draws > count:
        raise ValueError(f"random.choice takes {draws} of {count} without replacement")
    if p is None and not replace:
        order = permutation(key, count)
        places = np.reshape(order[:draws], shape)
    elif p is None:
        places = randint(key, shape, 0, count)
    else:
        places = _weighted(key, np.asarray(p), shape, draws, replace, mode)
    return places if np.ndim(a) == 0 else np.take(np.asarray(a), places, axis)


def _weighted(key: Any, p: Any, shape: Shape, draws: Any, replace: bool, mode: str | None) -> Any:
    """Places with these probabilities."""
    kind = inexact(p)
    if replace:
        steps = np.cumsum(np.asarray(p, kind))
        u = steps[-1] * (1 - uniform(key, shape, kind))
        return np.searchsorted(steps, u)
    scores = gumbel(key, np.shape(p), kind, mode=mode) + np.log(p)
    return np.reshape(np.argsort(-scores, kind="stable")[:draws], shape)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Places along an axis, with probabilities in the ratio of ``exp(logits)``.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``logits`` without
    ``axis``; without ``replace`` no place is taken twice along its first axes. ``mode`` is as for
    ``gumbel``.

    >>> from calque import random
    >>> random.categorical(random.key(0), np.log([0.2, 0.3, 0.5]), shape=(4,))
    array([2, 2, 0, 1])
    """
    logits = np.asarray(logits)
    kind = inexact(logits)
    if not -np.ndim(logits) <= axis < np.ndim(logits):
        raise ValueError(
            f"random.categorical: axis {axis} is out of bounds for {np.ndim(logits)} axes"
        )
    axis = axis % np.ndim(logits)
    batch = (*np.shape(logits)[:axis], *np.shape(logits)[axis + 1 :])
    whole = batch if shape is None else tuple(shape)
    outer = whole[: len(whole) - len(batch)]
    if not replace:
        return _none_twice(key, logits, axis, outer, mode)
    inner = whole[len(whole) - len(batch) :]
    count = np.shape(logits)[axis]
    noise = gumbel(key, (*outer, *inner[:axis], count, *inner[axis:]), kind, mode=mode)
    return np.argmax(noise + logits, axis=len(outer) + axis)


def _none_twice(key: Any, logits: Any, axis: int, outer: Shape, mode: str | None) -> Any:
    """Places of the largest of disturbed logits: as many as ``outer`` has elements."""
    draws, count = math.prod(outer), np.shape(logits)[axis]
    if draws > count:
        raise ValueError(f"random.categorical takes {draws} of {count} without replacement")
    kind = inexact(logits)
    scores = logits + gumbel(key, np.shape(logits), kind, mode=mode)
    best = np.argsort(-np.moveaxis(scores, axis, -1), axis=-1, kind="stable")[..., :draws]
    best = np.moveaxis(best, -1, 0)
    return np.reshape(best, (*outer, *best.shape[1:])).astype(np.int32)  # as JAX has it


def geometric(key: Any, p: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """The number of trials until the first that succeeds, each with probability ``p``.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``p``; ``dtype``
    is one of integers, int64 by default.

    >>> from calque import random
    >>> random.geometric(random.key(0), 0.3, (4,))
    array([3, 5, 1, 2])
    """
    dtype = np.dtype(int if dtype is None else dtype)
    if dtype.kind not in "iu":
        raise ValueError(f"random.geometric gives integers, not {dtype}")
    shape = broadcast_shape("geometric", shape, p)
    u = uniform(key, shape, inexact(p))
    trials = np.floor(np.log(np.where(u == 0, 1, u)) / np.log1p(-p)) + 1
    return np.asarray(trials).astype(dtype)


def multinomial(key: Any, n: Any, p: Any, *, shape: Shape | None = None, dtype: Any = None) -> Any:
    """The counts of several outcomes in ``n`` trials; the last axis of ``p`` are these.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``p``; ``dtype``
    is float64 by default.

    >>> from calque import random
    >>> random.multinomial(random.key(0), 10, np.array([0.2, 0.3, 0.5]))
    array([1., 4., 5.])
    """
    kind = inexact(n, p)
    whole = tuple(np.shape(p)) if shape is None else tuple(shape)
    p = np.broadcast_to(np.asarray(p, kind), whole)
    left = np.array(np.broadcast_to(np.asarray(n, kind), whole[:-1]))
    rest = np.flip(np.cumsum(np.flip(p, -1), axis=-1), -1)
    ratios = np.clip(p / np.where(rest == 0, 1, rest), 0, 1)
    keys = split(key, whole[-1])
    counts = np.empty(whole, float if dtype is None else dtype)
    for i in range(whole[-1]):
        drawn = binomial(keys[i], left, ratios[..., i], dtype=kind)
        counts[..., i] = drawn
        left = left - drawn
    return counts
