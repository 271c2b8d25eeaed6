"""Draws that calque knows by rules of its own; ``transpiler/prng`` has the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.random.distribution_parameters import (
    broadcast_shape,
    float_dtype,
    normal_dtype,
)
from calque.runtime.random.keys import Shape, used, used_key
from calque.transpiler import prng


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
    keys, shape = used(key, shape, "random.uniform")
    return prng.uniform(keys, shape, float_dtype(dtype, "random.uniform"), minval, maxval)


def between(u: Any, minval: Any, maxval: Any) -> Any:
    """Numbers from 0 to 1 stretched to the interval, as ``uniform`` does it.

    ``u`` are the numbers; ``minval`` and ``maxval`` are the ends of the interval.

    >>> from calque import random
    >>> float(random.between(0.25, 10.0, 14.0))
    11.0
    """
    return prng.between(u, minval, maxval)


def randint(key: Any, shape: Shape, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers from ``minval`` to ``maxval``, which is left out.

    ``key`` is used up by the draw; ``shape`` is the result's; ``dtype`` is one of integers, int64
    by default.

    >>> from calque import random
    >>> random.randint(random.key(0), (3,), 0, 10)
    array([5, 1, 5])
    """
    keys, shape = used(key, shape, "random.randint")
    dtype = np.dtype(int if dtype is None else dtype)
    if dtype.kind not in "iu":
        raise TypeError(f"random.randint gives integers, not {dtype}")
    return prng.randint(keys, shape, minval, maxval, dtype)


def order(key: Any, shape: Shape, axis: int = 0) -> np.ndarray:
    """The order in which ``permutation`` puts what lies along an axis of an array of this shape.

    ``key`` is used up by the draw; ``shape`` is that of the array, ``axis`` the one along which
    things are put.

    >>> from calque import random
    >>> random.order(random.key(0), (4,))
    array([0, 1, 3, 2])
    """
    return prng.order(*used(key, shape, "random.order"), axis)


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


def normal(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the standard normal distribution; complex ones have variance 1 in all.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats or complex numbers, float64 by default.

    >>> from calque import random
    >>> float(random.normal(random.key(0)))
    -0.2058421394796434
    """
    return prng.normal(*used(key, shape, "random.normal"), normal_dtype(dtype))


def gamma(key: Any, a: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Numbers of the gamma distribution with shape parameter ``a`` and scale 1.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), each element with
    a key of its own, as in JAX. Differentiable by ``a``: see ``gamma_slope``.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``a``; ``dtype``
    is one of floats, float64 by default.

    >>> from calque import random
    >>> random.gamma(random.key(0), 3.0, (2,))
    array([2.26291139, 1.96213947])
    """
    keys, dtype = used_key(key, "random.gamma"), float_dtype(dtype, "random.gamma")
    return prng.gamma(keys, a, _own_shape("gamma", keys, shape, a), dtype)


def loggamma(key: Any, a: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """The logarithm of gamma numbers: also of those too small for a float.

    ``a`` is the shape parameter. ``key`` is used up by the draw; ``shape`` is the result's, by
    default that of ``a``; ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.loggamma(random.key(0), 0.001, (2,))
    array([-1113.02584633, -2280.53575798])
    """
    keys, dtype = used_key(key, "random.loggamma"), float_dtype(dtype, "random.loggamma")
    return prng.loggamma(keys, a, _own_shape("loggamma", keys, shape, a), dtype)


def gamma_slope(a: Any, x: Any) -> Any:
    """The derivative of a gamma number ``x`` by its shape: implicit reparametrization.

    Figurnov, Mohamed and Mnih (2018): minus the derivative of the distribution function by ``a``,
    over the density. The function is summed as a series (DLMF 8.11.4) or a continued fraction
    (8.9.2), and its derivative with it.

    >>> from calque import random
    >>> round(float(random.gamma_slope(3.0, 2.5)), 12)
    0.96336182884
    """
    return prng.gamma_slope(a, x)


def log_gamma_slope(a: Any, y: Any) -> Any:
    """The derivative of the logarithm ``y`` of a gamma number by its shape parameter.

    ``a`` is that parameter.

    >>> from calque import random
    >>> round(float(random.log_gamma_slope(3.0, np.log(2.5))), 12)
    0.385344731536
    """
    return prng.log_gamma_slope(a, y)


def poisson(key: Any, lam: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Poisson numbers: counts of an event that happens ``lam`` times in the mean.

    Knuth's method below 10, else Hörmann's PTRS, "The transformed rejection method for generating
    Poisson random variables" (1993), in float32 as JAX has it.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``lam``; ``dtype``
    is one of integers, int64 by default.

    >>> from calque import random
    >>> random.poisson(random.key(0), 3.0, (4,))
    array([0, 0, 4, 4])
    """
    keys = used_key(key, "random.poisson")
    shape = _own_shape("poisson", keys, shape, lam)
    return prng.poisson(keys, lam, shape, np.dtype(int if dtype is None else dtype))


def binomial(key: Any, n: Any, p: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """The number of ``n`` trials that succeed, each with probability ``p``; floats by default.

    By the lengths of runs where ``n p`` is at most 10, else Hörmann's BTRS, "The generation of
    binomial random variates" (1993).

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``n`` and ``p``
    together; ``dtype`` is float64 by default.

    >>> from calque import random
    >>> random.binomial(random.key(0), 10, 0.3, (4,))
    array([4., 1., 3., 4.])
    """
    dtype = float_dtype(dtype, "random.binomial")
    keys = used_key(key, "random.binomial")
    return prng.binomial(keys, n, p, _own_shape("binomial", keys, shape, n, p), dtype)


def _own_shape(
    name: str, keys: np.ndarray, shape: Shape | None, *parameters: Any
) -> tuple[int, ...]:
    """The shape of what each key draws; one key's parameters must broadcast to it."""
    if shape is None or keys.ndim == 1:
        return broadcast_shape(name, shape, *parameters)
    return tuple(shape)
