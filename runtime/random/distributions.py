"""Distributions with parameters, said in those without: calque reads this file as it reads yours.

So their derivatives by the parameters, and their batched and compiled forms, are those of the
NumPy functions here. Each is drawn as in ``jax.random``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.runtime.api import stop_gradient
from calque.runtime.random.distribution_parameters import (
    broadcast_shape,
    float_dtype,
    inexact,
    parameter,
)
from calque.runtime.random.draws import gamma, loggamma, normal, uniform
from calque.runtime.random.elementary import erf, erfinv, exponential, maxwell, rademacher
from calque.runtime.random.keys import Shape, split


def beta(key: Any, a: Any, b: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Numbers of the beta distribution, from two of the gamma distribution.

    ``a`` and ``b`` are its shape parameters, both positive. ``key`` is used up by the draw;
    ``shape`` is the result's, by default that of ``a`` and ``b`` together; ``dtype`` is one of
    floats, float64 by default.

    >>> from calque import random
    >>> random.beta(random.key(0), 2.0, 5.0, (2,))
    array([0.24133463, 0.46730043])
    """
    dtype = float_dtype(dtype, "random.beta")
    shape = broadcast_shape("beta", shape, a, b)
    key_a, key_b = split(key)
    log_a, log_b = loggamma(key_a, a, shape, dtype), loggamma(key_b, b, shape, dtype)
    largest = stop_gradient(np.maximum(log_a, log_b))
    part_a, part_b = np.exp(log_a - largest), np.exp(log_b - largest)
    return part_a / (part_a + part_b)


def dirichlet(key: Any, alpha: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Parts of a whole, of the Dirichlet distribution; the last axis of ``alpha`` are the parts.

    ``key`` is used up by the draw; ``shape`` is the result's without the axis of parts, by default
    that of ``alpha``; ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.dirichlet(random.key(0), np.array([1.0, 2.0, 3.0]))
    array([0.07065346, 0.16705569, 0.76229085])
    """
    dtype = float_dtype(dtype, "random.dirichlet")
    if np.ndim(alpha) < 1:
        raise ValueError("the alpha of random.dirichlet has an axis at least")
    *outer, parts = np.shape(alpha)
    shape = tuple(outer) if shape is None else tuple(shape)
    logs = loggamma(key, alpha, (*shape, parts), dtype)
    weights = np.exp(logs - stop_gradient(np.max(logs, axis=-1, keepdims=True)))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def chisquare(key: Any, df: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Sums of ``df`` squares of normal numbers.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``df``; ``dtype``
    is one of floats, float64 by default.

    >>> from calque import random
    >>> random.chisquare(random.key(0), 4.0, (2,))
    array([2.70406159, 2.2487189 ])
    """
    dtype = float_dtype(dtype, "random.chisquare")
    shape = broadcast_shape("chisquare", shape, df)
    return np.exp(loggamma(key, parameter(df, dtype) / 2, shape, dtype)) * 2


def f(key: Any, dfnum: Any, dfden: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Ratios of two chi-square numbers, each by its degrees of freedom.

    ``dfnum`` are those above, ``dfden`` those below. ``key`` is used up by the draw; ``shape`` is
    the result's, by default that of ``dfnum`` and ``dfden`` together; ``dtype`` is one of floats,
    float64 by default.

    >>> from calque import random
    >>> random.f(random.key(0), 4.0, 6.0, (2,))
    array([1.47160001, 0.41216472])
    """
    dtype = float_dtype(dtype, "random.f")
    shape = broadcast_shape("f", shape, dfnum, dfden)
    dfnum, dfden = parameter(dfnum, dtype), parameter(dfden, dtype)
    key_below, key_above = split(key)
    above = chisquare(key_above, dfnum, shape, dtype) / dfnum
    below = chisquare(key_below, dfden, shape, dtype) / dfden
    return above / below


def t(key: Any, df: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Numbers of Student's t distribution.

    ``df`` are its degrees of freedom. ``key`` is used up by the draw; ``shape`` is the result's, by
    default that of ``df``; ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.t(random.key(0), 5.0, (2,))
    array([ 1.46806694, -0.55869328])
    """
    dtype = float_dtype(dtype, "random.t")
    shape = broadcast_shape("t", shape, df)
    key_normal, key_gamma = split(key)
    half = parameter(df, dtype) / 2
    return normal(key_normal, shape, dtype) * np.sqrt(half / gamma(key_gamma, half, shape, dtype))


def lognormal(key: Any, sigma: Any = 1.0, shape: Shape | None = None, dtype: Any = None) -> Any:
    """The exponential function of normal numbers with deviation ``sigma``.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``sigma``;
    ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.lognormal(random.key(0), 0.5, (2,))
    array([0.90219818, 0.67544544])
    """
    dtype = np.dtype(float if dtype is None else dtype)
    shape = broadcast_shape("lognormal", shape, sigma)
    return np.exp(normal(key, shape, dtype) * parameter(sigma, dtype))


def pareto(key: Any, b: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Numbers of the Pareto distribution with exponent ``b``, from 1 on.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``b``; ``dtype``
    is one of floats, float64 by default.

    >>> from calque import random
    >>> random.pareto(random.key(0), 2.0, (2,))
    array([1.31132133, 1.12959775])
    """
    dtype = float_dtype(dtype, "random.pareto")
    shape = broadcast_shape("pareto", shape, b)
    return np.exp(exponential(key, shape, dtype) / parameter(b, dtype))


def rayleigh(key: Any, scale: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """The length of two normal numbers with deviation ``scale``.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of ``scale``;
    ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.rayleigh(random.key(0), 2.0, (2,))
    array([2.63997102, 3.49983995])
    """
    dtype = float_dtype(dtype, "random.rayleigh")
    shape = broadcast_shape("rayleigh", shape, scale)
    u = uniform(key, shape, dtype)
    return parameter(scale, dtype) * np.sqrt(np.log(u) * -2)


def wald(key: Any, mean: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Numbers of the inverse Gaussian distribution with this mean (Michael and others, 1976).

    ``mean`` is positive. ``key`` is used up by the draw; ``shape`` is the result's, by default that
    of ``mean``; ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.wald(random.key(0), 2.0, (2,))
    array([0.22327945, 3.90085525])
    """
    dtype = float_dtype(dtype, "random.wald")
    shape = broadcast_shape("wald", shape, mean)
    key_normal, key_uniform = split(key)
    mean = parameter(mean, dtype)
    y = normal(key_normal, shape, dtype) ** 2
    u = uniform(key_uniform, shape, dtype)
    root = np.sqrt(4 * mean * y + mean**2 * y**2)
    x = mean + mean**2 * y / 2 - mean / 2 * root
    return np.where(u <= mean / (mean + x), x, mean**2 / x)


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Shape | None = None, dtype: Any = None
) -> Any:
    """Numbers from ``left`` to ``right``, most often near ``mode``.

    ``key`` is used up by the draw; ``shape`` is the result's, by default that of the parameters
    together; ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.triangular(random.key(0), 0.0, 1.0, 4.0, (2,))
    array([1.35831216, 0.9301515 ])
    """
    dtype = float_dtype(dtype, "random.triangular")
    shape = broadcast_shape("triangular", shape, left, mode, right)
    left, mode, right = (parameter(v, dtype) for v in (left, mode, right))
    u = uniform(key, shape, dtype)
    rising = left + np.sqrt(u * (right - left) * (mode - left))
    falling = right - np.sqrt((1 - u) * (right - left) * (right - mode))
    return np.where(u < (mode - left) / (right - left), rising, falling)


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Shape = (), dtype: Any = None
) -> Any:
    """Numbers of the Weibull distribution.

    ``scale`` is what they are times, ``concentration`` the exponent. ``key`` is used up by the
    draw; ``shape`` is the result's, by default one number's; ``dtype`` is one of floats, float64 by
    default.

    >>> from calque import random
    >>> random.weibull_min(random.key(0), 2.0, 1.5, (2,))
    array([1.32963939, 0.78035921])
    """
    dtype = float_dtype(dtype, "random.weibull_min")
    u = uniform(key, shape, dtype)
    return np.power(-np.log1p(-u), 1.0 / concentration) * scale


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Shape = (), dtype: Any = None
) -> Any:
    """Maxwell numbers of either sign, times ``scale``, from ``loc`` on.

    ``key`` is used up by the draw; ``shape`` stands before that of ``loc`` and ``scale`` together,
    and is by default that once more, as in JAX; ``dtype`` is one of floats, float64 by default.

    >>> from calque import random
    >>> random.double_sided_maxwell(random.key(0), 1.0, 2.0, (2,))
    array([ 4.96922408, -3.9564148 ])
    """
    dtype = float_dtype(dtype, "random.double_sided_maxwell")
    own = np.broadcast_shapes(np.shape(loc), np.shape(scale))
    whole = (*(tuple(shape) or own), *own)
    key_speed, key_sign = split(key)
    speed, sign = maxwell(key_speed, whole, dtype), rademacher(key_sign, whole, dtype)
    return sign * speed * scale + loc


def generalized_normal(key: Any, p: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Numbers with a density of ``exp(-abs(x) ** p)``, up to a factor.

    ``key`` is used up by the draw; ``shape`` is the result's, by default one number's; ``dtype`` is
    one of floats, float64 by default.

    >>> from calque import random
    >>> random.generalized_normal(random.key(0), 4.0, (2,))
    array([ 0.70833083, -0.98146637])
    """
    dtype = float_dtype(dtype, "random.generalized_normal")
    key_size, key_sign = split(key)
    size = gamma(key_size, 1 / p, shape, dtype)
    return rademacher(key_sign, shape, dtype) * size ** (1 / p)


def ball(key: Any, d: int, p: Any = 2, shape: Shape = (), dtype: Any = None) -> Any:
    """Points of the unit ball of the ``p`` norm in ``d`` dimensions (Barthe and others, 2005).

    ``key`` is used up by the draw; ``shape`` stands before the axis of ``d`` coordinates; ``dtype``
    is one of floats, float64 by default.

    >>> from calque import random
    >>> random.ball(random.key(0), 3)
    array([-0.86703795, -0.45310376,  0.084509  ])
    """
    dtype = float_dtype(dtype, "random.ball")
    key_point, key_radius = split(key)
    point = generalized_normal(key_point, p, (*shape, d), dtype)
    rest = exponential(key_radius, shape, dtype)
    length = (np.sum(np.abs(point) ** p, axis=-1) + rest) ** (1 / p)
    return point / length[..., None]


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Shape | None = None, dtype: Any = None
) -> Any:
    """Standard normal numbers between two bounds.

    They lie between ``lower`` and ``upper``. ``key`` is used up by the draw; ``shape`` is the
    result's, by default that of ``lower`` and ``upper`` together; ``dtype`` is one of floats,
    float64 by default.

    >>> from calque import random
    >>> random.truncated_normal(random.key(0), 1.0, 2.0, (2,))
    array([1.27144726, 1.12989805])
    """
    dtype = float_dtype(dtype, "random.truncated_normal")
    shape = broadcast_shape("truncated_normal", shape, lower, upper)
    root = dtype.type(math.sqrt(2.0))
    lower, upper = np.asarray(lower, dtype), np.asarray(upper, dtype)
    u = uniform(key, shape, dtype, erf(lower / root), erf(upper / root))
    least = np.nextafter(stop_gradient(lower), dtype.type(np.inf))
    most = np.nextafter(stop_gradient(upper), dtype.type(-np.inf))
    return np.clip(root * erfinv(u), least, most)


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Any:
    """Normal vectors with this mean and covariance, which ``method`` factors.

    ``mean`` holds vectors along its last axis, ``cov`` matrices along its last two; ``method`` is
    "cholesky", "eigh" or "svd". ``key`` is used up by the draw; ``shape`` is the result's without
    the axis of coordinates, by default that of the parameters; ``dtype`` is one of floats, by
    default that of the parameters.

    >>> from calque import random
    >>> random.multivariate_normal(random.key(0), np.zeros(2), np.eye(2))
    array([-0.20584214, -0.78476578])
    """
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"the method is 'svd', 'eigh' or 'cholesky', not {method!r}")
    if np.ndim(mean) < 1 or np.ndim(cov) < 2:
        raise ValueError("random.multivariate_normal takes a vector mean and a matrix cov")
    kind = inexact(mean, cov)
    dtype = float_dtype(kind if dtype is None else dtype, "random.multivariate_normal")
    mean, cov = np.asarray(mean, kind), np.asarray(cov, kind)
    if shape is None:
        shape = np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    if method == "svd":
        u, s, _ = np.linalg.svd(cov)
        factor = u * np.sqrt(s[..., None, :])
    elif method == "eigh":
        w, v = np.linalg.eigh(cov)
        factor = v * np.sqrt(w[..., None, :])
    else:
        factor = np.linalg.cholesky(cov)
    z = normal(key, (*shape, mean.shape[-1]), dtype)
    return mean + (factor @ z[..., None])[..., 0]
