"""``scipy.linalg`` in NumPy: bands, bases of spaces, functions of matrices, companions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import read_source, twin
from calque.transpiler.frontend.library.twin_questions import known_count, read_by_python
from calque.transpiler.primitives.scipy_stacks import check_stacks

read_source("scipy.linalg", "orthogonal_procrustes")

def _finite(x: Any, check: bool = True) -> Any:
    """An array of numbers that are finite, of floats."""
    x = np.asarray(x)
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    if check and not np.all(np.isfinite(x)):
        raise ValueError("array must not contain infs or NaNs")
    return x


def _matrix(a: Any, name: str, check: bool = True) -> Any:
    a = _finite(a, check)
    if a.ndim != 2:
        raise ValueError(f"scipy.linalg.{name} takes a matrix here: map over stacks by calque.vmap")
    return a


# bands: row d of those below the diagonal holds the elements d below it, in their columns


def _turned(ab: Any) -> Any:
    """The bands below the diagonal of the adjoint matrix, of those above, and back."""
    width, n = ab.shape[0] - 1, ab.shape[1]
    row = np.arange(width + 1)[:, None]
    place = np.arange(n) + row
    kept = np.conj(ab[width - row, np.clip(place, 0, n - 1)])
    return np.where(place < n, kept, 0.0)


def _turned_back(low: Any) -> Any:
    width, n = low.shape[0] - 1, low.shape[1]
    row = width - np.arange(width + 1)[:, None]
    place = np.arange(n) - row
    kept = np.conj(low[row, np.clip(place, 0, n - 1)])
    return np.where(place >= 0, kept, 0.0)


def _factor(low: Any) -> Any:
    """The bands of Cholesky's factor, column by column (Golub and Van Loan, section 4.3.5)."""
    width, n = low.shape[0] - 1, low.shape[1]
    found = np.concatenate([low, np.zeros((width + 1, width), low.dtype)], axis=1)
    place = np.arange(width + 1)[:, None] + np.arange(1, width + 1)
    for j in range(n):
        square = np.real(found[0, j])
        if not square > 0.0:
            raise np.linalg.LinAlgError(f"{j + 1}-th leading minor not positive definite")
        column = found[:, j] / np.sqrt(square)
        padded = np.concatenate([column, np.zeros(width, low.dtype)])
        rest = found[:, j + 1 : j + width + 1] - padded[place] * np.conj(column[1:])
        found[:, j] = column
        found[:, j + 1 : j + width + 1] = rest
    return found[:, :n]


@twin("scipy.linalg", "cholesky_banded")
def cholesky_banded(
    ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True
) -> Any:
    """The bands of the factor of a positive definite matrix of bands."""
    ab = _matrix(ab, "cholesky_banded", check_finite)
    width, n = known_count(ab.shape[0], "The number of bands") - 1, ab.shape[1]
    low = ab if lower else _turned(ab)
    if ab.dtype.kind == "c":
        low = np.concatenate([np.real(low[:1]) + 0j, low[1:]])
    found = _factor(low)
    row = np.arange(width + 1)[:, None]
    inside = row + np.arange(n) < n if lower else width - row <= np.arange(n)
    return np.where(inside, found if lower else _turned_back(found), ab)


@twin("scipy.linalg", "cho_solve_banded")
def cho_solve_banded(
    cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The solution of a system, by the bands of the matrix's factor."""
    from scipy import linalg

    cb, lower = cb_and_lower
    cb, b = _matrix(cb, "cho_solve_banded", check_finite), _finite(b, check_finite)
    width = known_count(cb.shape[0], "The number of bands") - 1
    if cb.shape[1] != b.shape[0]:
        raise ValueError("shapes of cb and b are not compatible.")
    low, high = (cb, _turned_back(cb)) if lower else (_turned(cb), cb)
    half = linalg.solve_banded((width, 0), low, b, check_finite=False)
    return linalg.solve_banded((0, width), high, half, check_finite=False)


# spaces


def _rank(sizes: Any, rows: Any, columns: Any, rcond: Any) -> Any:
    """The number of singular values that are no rounding errors."""
    if rcond is None:
        rcond = np.finfo(sizes.dtype).eps * np.maximum(rows, columns)
    return np.sum(sizes > np.max(sizes) * rcond)


@twin("scipy.linalg", "orth")
def orth(A: Any, rcond: Any = None) -> Any:
    """Orthonormal columns that span what a matrix's columns span."""
    from scipy import linalg

    a = _matrix(A, "orth")
    u, sizes, _ = linalg.svd(a, full_matrices=False)
    return u[:, : _rank(sizes, a.shape[0], a.shape[1], rcond)]


@twin("scipy.linalg", "null_space")
def null_space(
    A: Any,
    rcond: Any = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Orthonormal columns that span what a matrix makes zero."""
    from scipy import linalg

    a = _matrix(A, "null_space", check_finite)
    _, sizes, vh = linalg.svd(a, check_finite=False, lapack_driver=lapack_driver)
    return np.conj(vh[_rank(sizes, a.shape[0], a.shape[1], rcond) :, :].T)


def _same(one: Any, other: Any, atol: Any, rtol: Any) -> Any:
    if one.ndim != 2 or one.shape[0] != one.shape[1]:
        raise ValueError("Input array must be square.")
    if atol or rtol:
        return np.allclose(one, other, atol=atol or 0.0, rtol=rtol or 0.0)
    return np.all(one == other)


@twin("scipy.linalg", "issymmetric")
def issymmetric(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """True for a matrix that equals its transpose."""
    a = np.asarray(a)
    return _same(a, a.T, atol, rtol)


@twin("scipy.linalg", "ishermitian")
def ishermitian(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """True for a matrix that equals its adjoint."""
    a = np.asarray(a)
    return _same(a, np.conj(a.T), atol, rtol)


# functions of matrices


@twin("scipy.linalg", "funm")
def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a matrix: by its eigenvalues, which must be apart.

    SciPy takes those of Schur's form. Where they coincide neither way is accurate: refused.
    """
    if not disp:
        raise NotImplementedError("scipy.linalg.funm with disp=False has no rule: leave it out")
    a = _finite(A)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError("expected square array_like input")
    w, v = np.linalg.eig(a)
    gaps = np.abs(w[..., :, None] - w[..., None, :]) + np.max(np.abs(w)) * np.eye(a.shape[-1])
    if np.any(gaps <= 1e-8 * np.max(np.abs(w))):
        raise np.linalg.LinAlgError(
            "scipy.linalg.funm: eigenvalues coincide; write the function with expm, logm, sqrtm"
        )
    found = (v * func(w)[..., None, :]) @ np.linalg.inv(v)
    if a.dtype.kind == "c":
        return found.astype(a.dtype)
    if np.any(np.abs(np.imag(found)) > 1e6 * np.finfo(a.dtype).eps):
        raise TypeError("scipy.linalg.funm: the result is complex; give A.astype(complex)")
    return np.real(found).astype(a.dtype)


# special matrices


@read_by_python
def _stacks_of_companions() -> None:
    check_stacks("companion")


@twin("scipy.linalg", "companion")
def companion(a: Any) -> Any:
    """The matrix whose eigenvalues are the roots of a polynomial."""
    a = np.atleast_1d(a)
    if a.ndim > 1:
        _stacks_of_companions()
    if a.shape[-1] < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    if np.any(a[..., 0] == 0):
        raise ValueError("The first coefficient in `a` must not be zero.")
    size, row = a.shape[-1] - 1, -a[..., 1:] / (1.0 * a[..., :1])
    below = np.eye(size - 1, size, dtype=row.dtype)
    if a.ndim > 1:
        below = np.broadcast_to(below, (*a.shape[:-1], size - 1, size))
    return np.concatenate([row[..., None, :], below], axis=-2)
