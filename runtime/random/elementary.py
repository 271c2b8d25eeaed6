"""Distributions without parameters: uniform and normal numbers through a function.

Each is drawn as in ``jax.random``; see there, and Devroye, "Non-uniform random variate generation"
(1986), for the methods.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.runtime.random.distribution_parameters import float_dtype
from calque.runtime.random.keys import Shape, checked_key, checked_shape
from calque.runtime.random.normals import inverse_error_function, normal
from calque.runtime.random.uniforms import uniform

_error_function = np.vectorize(math.erf, otypes=[float])


def exponential(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the exponential distribution with mean 1.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.exponential(random.key(0), (2,), np.float32)
    array([2.950128 , 3.8434246], dtype=float32)
    """
    return -np.log1p(-uniform(key, shape, float_dtype(dtype, "random.exponential")))


def gumbel(key: Any, shape: Shape = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Numbers of the standard Gumbel distribution; ``mode="high"``: more bits for large ones.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.gumbel(random.key(0), (2,), np.float32)
    array([2.9233725, 3.8326178], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.gumbel")
    if mode not in (None, "low", "high"):
        raise ValueError(f"the mode of random.gumbel is 'low' or 'high', not {mode!r}")
    if mode != "high":
        u = uniform(key, shape, dtype, np.finfo(dtype).tiny, 1.0)
        return -np.log(-np.log(u))
    batch = checked_key(key, "random.gumbel").ndim - 1
    pairs = uniform(key, (2, *checked_shape(shape, "random.gumbel")), dtype)
    info = np.finfo(dtype)
    high, low = np.moveaxis(pairs, batch, 0)
    fine = high + dtype.type(2.0**-info.nmant) * low + info.tiny
    return -np.log(-np.log1p(-np.where(high >= 0.5, high, fine)))


def laplace(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the Laplace distribution with mean 0 and scale 1.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.laplace(random.key(0), (2,), np.float32)
    array([-2.2569816, -3.1502788], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.laplace")
    u = uniform(key, shape, dtype, -1.0 + np.finfo(dtype).epsneg, 1.0)
    return np.sign(u) * np.log1p(-np.abs(u))


def logistic(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the standard logistic distribution.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.logistic(random.key(0), (2,), np.float32)
    array([2.896376 , 3.8217716], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.logistic")
    u = uniform(key, shape, dtype, np.finfo(dtype).tiny, 1.0)
    return np.log(u) - np.log1p(-u)


def cauchy(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the standard Cauchy distribution.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.cauchy(random.key(0), (2,), np.float32)
    array([ 6.0274944, 14.837895 ], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.cauchy")
    u = uniform(key, shape, dtype, np.finfo(dtype).eps, 1.0)
    return np.tan(dtype.type(math.pi) * (u - dtype.type(0.5)))


def rademacher(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """-1 and 1, equally often; integers, unless ``dtype`` says otherwise.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's.

    >>> from calque import random
    >>> random.rademacher(random.key(0), (4,))
    array([ 1,  1, -1, -1])
    """
    dtype = np.dtype(int if dtype is None else dtype)
    heads = np.asarray(uniform(key, shape) < 0.5).astype(dtype)
    return (2 * heads - 1).astype(dtype)[()]


def maxwell(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """The speed of a molecule: the length of three normal numbers.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.maxwell(random.key(0), (2,), np.float32)
    array([2.6310966, 0.9910329], dtype=float32)
    """
    found = normal(key, (*checked_shape(shape, "random.maxwell"), 3), dtype)
    return np.sqrt(np.sum(found * found, axis=-1))


def orthogonal(
    key: Any, n: int, shape: Shape = (), dtype: Any = None, m: int | None = None
) -> np.ndarray:
    """Matrices of ``n`` rows and ``m`` columns, uniform among those with orthonormal rows (or
    columns, whichever are fewer).

    ``key`` is used up by the draw; ``shape`` stands before the axes of the matrices; without ``m``
    they are square. ``dtype`` is one of floats or complex numbers, float64 by default.

    >>> from calque import random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> np.allclose(q @ q.T, np.eye(3))
    True
    """
    m = n if m is None else m
    sizes = (*checked_shape(shape, "random.orthogonal"), max(n, m), min(n, m))
    q, r = np.linalg.qr(normal(key, sizes, dtype))
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    x = q * signs[..., None, :]
    return np.swapaxes(x, -1, -2) if n < m else x


def erf(x: Any) -> Any:
    """The error function.

    ``x`` is a number or an array of floats.

    >>> from calque import random
    >>> float(random.erf(0.5))
    0.5204998778130465
    """
    x = np.asarray(x)
    return _error_function(x).astype(np.result_type(x, np.float16))[()]


def erfinv(x: Any) -> Any:
    """The inverse of the error function, from -1 to 1.

    ``x`` is a number or an array of floats.

    >>> from calque import random
    >>> float(random.erfinv(0.5))
    0.47693627620446977
    """
    x = np.asarray(x)
    x = x.astype(np.result_type(x, np.float16))
    wide = np.atleast_1d(x.astype(np.float32) if x.dtype.itemsize == 2 else x)
    return inverse_error_function(wide).astype(x.dtype).reshape(x.shape)[()]
