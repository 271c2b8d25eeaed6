"""Distributions without parameters, and the error function; ``prng.standard`` has the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.random.distribution_parameters import float_dtype, normal_dtype
from calque.runtime.random.keys import Shape, checked_key, checked_shape, used, used_key
from calque.transpiler import prng


def exponential(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the exponential distribution with mean 1.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.exponential(random.key(0), (2,), np.float32)
    array([2.950128 , 3.8434246], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.exponential")
    return prng.exponential(*used(key, shape, "random.uniform"), dtype)


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
    if mode == "high":
        checked_key(key, "random.gumbel")
        shape = checked_shape(shape, "random.gumbel")
    return prng.gumbel(*used(key, shape, "random.uniform"), dtype, mode)


def laplace(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the Laplace distribution with mean 0 and scale 1.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.laplace(random.key(0), (2,), np.float32)
    array([-2.2569816, -3.1502788], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.laplace")
    return prng.laplace(*used(key, shape, "random.uniform"), dtype)


def logistic(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the standard logistic distribution.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.logistic(random.key(0), (2,), np.float32)
    array([2.896376 , 3.8217716], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.logistic")
    return prng.logistic(*used(key, shape, "random.uniform"), dtype)


def cauchy(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers of the standard Cauchy distribution.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.cauchy(random.key(0), (2,), np.float32)
    array([ 6.0274944, 14.837895 ], dtype=float32)
    """
    dtype = float_dtype(dtype, "random.cauchy")
    return prng.cauchy(*used(key, shape, "random.uniform"), dtype)


def rademacher(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """-1 and 1, equally often; integers, unless ``dtype`` says otherwise.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's.

    >>> from calque import random
    >>> random.rademacher(random.key(0), (4,))
    array([ 1,  1, -1, -1])
    """
    dtype = np.dtype(int if dtype is None else dtype)
    return prng.rademacher(*used(key, shape, "random.uniform"), dtype)


def maxwell(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """The speed of a molecule: the length of three normal numbers.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.maxwell(random.key(0), (2,), np.float32)
    array([2.6310966, 0.9910329], dtype=float32)
    """
    shape = checked_shape(shape, "random.maxwell")
    return prng.maxwell(used_key(key, "random.normal"), shape, normal_dtype(dtype))


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
    shape = checked_shape(shape, "random.orthogonal")
    keys, _ = used(key, (*shape, max(n, m), min(n, m)), "random.normal")
    return prng.orthogonal(keys, n, m, shape, normal_dtype(dtype))


def erf(x: Any) -> Any:
    """The error function.

    ``x`` is a number or an array of floats.

    >>> from calque import random
    >>> float(random.erf(0.5))
    0.5204998778130465
    """
    return prng.erf(x)


def erfinv(x: Any) -> Any:
    """The inverse of the error function, from -1 to 1.

    ``x`` is a number or an array of floats.

    >>> from calque import random
    >>> float(random.erfinv(0.5))
    0.47693627620446977
    """
    return prng.erfinv(x)
