"""Standard distributions: uniform and normal numbers through a function.

Each is drawn as in ``jax.random``; see there, and Devroye, "Non-uniform random variate generation"
(1986), for the methods.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.prng.normals import normal
from calque.transpiler.prng.uniforms import uniform


def exponential(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw numbers of the exponential distribution with mean 1."""
    return -np.log1p(-uniform(keys, shape, dtype))


def gumbel(
    keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, mode: str | None = None
) -> Any:
    """Draw numbers of the standard Gumbel distribution; mode "high" gives large ones more bits."""
    if mode != "high":
        u = uniform(keys, shape, dtype, np.finfo(dtype).tiny, 1.0)
        return -np.log(-np.log(u))
    pairs = uniform(keys, (2, *shape), dtype)
    info = np.finfo(dtype)
    high, low = np.moveaxis(pairs, keys.ndim - 1, 0)
    fine = high + dtype.type(2.0**-info.nmant) * low + info.tiny
    return -np.log(-np.log1p(-np.where(high >= 0.5, high, fine)))


def laplace(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw numbers of the Laplace distribution with mean 0 and scale 1."""
    u = uniform(keys, shape, dtype, -1.0 + np.finfo(dtype).epsneg, 1.0)
    return np.sign(u) * np.log1p(-np.abs(u))


def logistic(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw numbers of the standard logistic distribution."""
    u = uniform(keys, shape, dtype, np.finfo(dtype).tiny, 1.0)
    return np.log(u) - np.log1p(-u)


def cauchy(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw numbers of the standard Cauchy distribution."""
    u = uniform(keys, shape, dtype, np.finfo(dtype).eps, 1.0)
    return np.tan(dtype.type(math.pi) * (u - dtype.type(0.5)))


def rademacher(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw -1 and 1, equally often."""
    heads = np.asarray(uniform(keys, shape, np.dtype(float)) < 0.5).astype(dtype)
    return (2 * heads - 1).astype(dtype)[()]


def maxwell(keys: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Draw the lengths of vectors of three normal numbers."""
    found = normal(keys, (*shape, 3), dtype)
    return np.sqrt(np.sum(found * found, axis=-1))


def orthogonal(
    keys: np.ndarray, n: int, m: int, shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Draw matrices of ``n`` rows and ``m`` columns, uniform among those that are orthonormal."""
    sizes = (*shape, max(n, m), min(n, m))
    q, r = np.linalg.qr(normal(keys, sizes, dtype))
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    x = q * signs[..., None, :]
    return np.swapaxes(x, -1, -2) if n < m else x
