"""``scipy.linalg``: matrices made of vectors by their indices. Stacks as SciPy takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.primitives.scipy_matrices import toeplitz_of
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import check_stacks


def _vectors(x: Any, name: str) -> Array:
    """A vector, or a stack of them."""
    x = FUNCTIONS[np.atleast_1d](x)
    if x.ndim > 1:
        check_stacks(name)
    return x


def _one_vector(x: Any, name: str) -> Array:
    x = FUNCTIONS[np.atleast_1d](x)
    if x.ndim > 1:
        raise ShapeError(f"scipy.linalg.{name} takes vectors here.", current().origin)
    return x


def _count(x: Any) -> Any:
    return FUNCTIONS[np.arange](x.shape[-1])


@means("scipy.linalg", "circulant")
def _circulant(c: Any) -> Any:
    c = _vectors(c, "circulant")
    place = _count(c)
    return c[..., (place[:, None] - place) % c.shape[-1]]


@means("scipy.linalg", "hankel")
def _hankel(c: Any, r: Any = None) -> Any:
    column: Any = _one_vector(c, "hankel")
    row: Any = 0 * column if r is None else _one_vector(r, "hankel")
    values = np.concatenate([column, row[1:]])
    return values[_count(column)[:, None] + _count(row)]


@means("scipy.linalg", "leslie")
def _leslie(f: Any, s: Any) -> Any:
    f, s = _vectors(f, "leslie"), _vectors(s, "leslie")
    size = s.shape[-1]
    below = s[..., None] * FUNCTIONS[np.eye](size, size + 1, dtype=s.dtype)
    if f.ndim != s.ndim:
        raise ShapeError("scipy.linalg.leslie takes two vectors here.", current().origin)
    return np.concatenate([f[..., None, :], below], axis=-2)


@means("scipy.linalg", "fiedler")
def _fiedler(a: Any) -> Any:
    a = _vectors(a, "fiedler")
    return np.abs(a[..., :, None] - a[..., None, :])


@means("scipy.linalg", "convolution_matrix")
def _convolution_matrix(a: Any, n: Any, mode: Any = "full") -> Any:
    a, n = _one_vector(a, "convolution_matrix"), known_int(n, "The number of columns")
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    zeros = FUNCTIONS[np.zeros](n - 1, a.dtype)
    whole = toeplitz_of(np.concatenate([a, zeros]), np.concatenate([a[:1], zeros]))
    length = known_int(a.shape[0], "The length of the vector")
    cut = min(n, length) - 1
    first, last = {"full": (0, 0), "valid": (cut, cut), "same": (cut // 2, cut - cut // 2)}[mode]
    return whole[first : length + n - 1 - last]


@means("scipy.linalg", "khatri_rao")
def _khatri_rao(a: Any, b: Any) -> Any:
    a, b = FUNCTIONS[np.asarray](a), FUNCTIONS[np.asarray](b)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError("scipy.linalg.khatri_rao takes two matrices here.", current().origin)
    return (a[:, None, :] * b[None, :, :]).reshape((-1, a.shape[1]))
