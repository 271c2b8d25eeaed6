"""Derivatives of functions that read one triangle of a matrix.

Their rules are those for symmetric matrices. Of a matrix that is not known to be symmetric, the
entries that are read get the whole gradient; of symmetric arguments each of a pair gets half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.primitives import logic  # noqa: F401  (np.allclose)
from calque.transpiler.primitives.linalg import transposed


def symmetrized(x: Any) -> Any:
    return 0.5 * (x + transposed(x))


def _is_symmetric(a: Array) -> Any:
    """True if a matrix, or each of a stack, is symmetric: a known bool, or a run-time test."""
    level = current().symmetries.get(a.atom, 0)
    if level != 1:
        return level == 2
    if a.ndim == 2:
        return FUNCTIONS[np.allclose](a, a.T)
    return np.all(FUNCTIONS[np.isclose](a, transposed(a)), axis=(-2, -1), keepdims=True)


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


def as_read(a_dot: Any, a: Array, uplo: str = "L") -> Any:
    """A tangent made symmetric: of a symmetric matrix its mean, else the triangle that is read."""
    symmetric = _is_symmetric(a)
    if uplo == "L":
        mirrored = np.tril(a_dot) + transposed(FUNCTIONS[np.tril](a_dot, -1))
    else:
        mirrored = np.triu(a_dot) + transposed(FUNCTIONS[np.triu](a_dot, 1))
    if symmetric is False:
        return mirrored
    mean = symmetrized(a_dot)
    return mean if symmetric is True else np.where(symmetric, mean, mirrored)
