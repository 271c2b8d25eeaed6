"""Derivatives of functions that read one triangle of a matrix.

Their rules are those for symmetric matrices, Hermitian ones where they are complex. Of a matrix
that is not known to be symmetric, the entries that are read get the whole gradient; of symmetric
arguments each of a pair gets half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.primitives import logic  # noqa: F401  (np.allclose)
from calque.transpiler.primitives.linalg import adjoint, transposed


def symmetrized(x: Any) -> Any:
    return 0.5 * (x + adjoint(x))


def _is_symmetric(a: Array) -> Any:
    """True if a matrix, or each of a stack, is symmetric: a known bool, or a run-time test."""
    level = 1 if a.dtype.kind == "c" else current().symmetries.get(a.atom, 0)
    if level != 1:
        return level == 2
    if a.ndim == 2:
        return FUNCTIONS[np.allclose](a, adjoint(a))
    return np.all(FUNCTIONS[np.isclose](a, adjoint(a)), axis=(-2, -1), keepdims=True)


def _choose(symmetric: Any, given: Any, read: Callable[[Any], Any]) -> Any:
    if symmetric is True:
        return given
    return read(given) if symmetric is False else np.where(symmetric, given, read(given))


def onto_read(a_bar: Any, a: Array, uplo: str = "L") -> Any:
    """A symmetric cotangent, for the triangle that was read."""

    def read(x: Any) -> Any:
        return np.tril(x) + FUNCTIONS[np.tril](x, -1)

    def read_upper(x: Any) -> Any:
        return np.triu(x) + FUNCTIONS[np.triu](x, 1)

    return _choose(_is_symmetric(a), a_bar, read if uplo == "L" else read_upper)


def mirrored(x: Any, uplo: str = "L") -> Any:
    """The symmetric matrix of which one triangle is read; of its diagonal the real part."""
    half, other = (np.tril, FUNCTIONS[np.tril](x, -1)) if uplo == "L" else _upper(x)
    if x.dtype.kind != "c":
        return half(x) + transposed(other)
    return other + adjoint(other) + np.real(x) * FUNCTIONS[np.eye](x.shape[-1], dtype=x.dtype)


def _upper(x: Any) -> Any:
    return np.triu, FUNCTIONS[np.triu](x, 1)


def as_read(a_dot: Any, a: Array, uplo: str = "L") -> Any:
    """A tangent made symmetric: of a symmetric matrix its mean, else the triangle that is read."""
    symmetric = _is_symmetric(a)
    read = mirrored(a_dot, uplo)
    if symmetric is False:
        return read
    mean = symmetrized(a_dot)
    return mean if symmetric is True else np.where(symmetric, mean, read)
