"""Functions of small matrices that kernels call: NumPy's, as loops for Numba and as Python's.

A call of LAPACK takes longer than the work itself where there are few rows, and its binding for
Numba needs SciPy. The method is LAPACK's: rows are swapped such that each pivot is the largest.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload, register_jitable
from numba.np.numpy_support import as_dtype


def _kind(*arrays):
    """The dtype of results, as of ``np.linalg``: integers count as float64."""
    dtypes = [as_dtype(a.dtype) for a in arrays]
    return np.result_type(*[d if d.kind in "fc" else np.float64 for d in dtypes]).type


@register_jitable
def _triangular(rows):
    """Make the square in front upper triangular: 1, -1 if swaps were odd, 0 if it is singular."""
    size, width = rows.shape
    sign = 1
    for k in range(size):
        pivot, largest = k, abs(rows[k, k].real) + abs(rows[k, k].imag)
        for i in range(k + 1, size):
            length = abs(rows[i, k].real) + abs(rows[i, k].imag)
            if length > largest:
                pivot, largest = i, length
        if largest == 0.0:
            return 0
        if pivot != k:
            sign = -sign
            for j in range(k, width):
                rows[k, j], rows[pivot, j] = rows[pivot, j], rows[k, j]
        for i in range(k + 1, size):
            factor = rows[i, k] / rows[k, k]
            for j in range(k + 1, width):
                rows[i, j] -= factor * rows[k, j]
    return sign


@register_jitable
def _solved(rows):
    """Put in the columns behind a square what the square times it gives them."""
    size, width = rows.shape
    if _triangular(rows) == 0:
        raise np.linalg.LinAlgError("Singular matrix")
    for k in range(size - 1, -1, -1):
        for i in range(k + 1, size):
            factor = rows[k, i]
            for j in range(size, width):
                rows[k, j] -= factor * rows[i, j]
        for j in range(size, width):
            rows[k, j] /= rows[k, k]


@register_jitable
def _one(x, k):
    """One of a stack of matrices."""
    return x[k]


@register_jitable
def _same(x, k):
    """The same array for each matrix of a stack."""
    return x


def _of_each(function, kind):
    """The same function of a stack of matrices; its results are matrices."""

    def of_stack(a):
        found = np.empty(a.shape, kind)
        for k in range(a.shape[0]):
            found[k] = function(a[k])
        return found

    return of_stack


def checked_finite(a):
    """The array itself; ValueError, as of SciPy, where it has a number that is not finite."""
    return np.asarray_chkfinite(a)


@overload(checked_finite)
def _checked_finite(a):
    def number(a):
        if not np.isfinite(a):
            raise ValueError("array must not contain infs or NaNs")
        return a

    def array(a):
        for x in a.flat:
            number(x)
        return a

    number = register_jitable(number)
    return array if hasattr(a, "ndim") else number


def solve(a, b):
    """The ``x`` with ``a @ x == b``, for a vector or a matrix; LinAlgError if ``a`` is singular."""
    return np.linalg.solve(a, b)


@overload(solve)
def _solve(a, b):
    kind = _kind(a, b)

    def of_vector(a, b):
        size = b.size
        rows = np.empty((size, size + 1), kind)
        for i in range(size):
            for j in range(size):
                rows[i, j] = a[i, j]
            rows[i, size] = b[i]
        _solved(rows)
        found = np.empty(size, kind)
        for i in range(size):
            found[i] = rows[i, size]
        return found

    def of_matrix(a, b):
        size, width = b.shape
        rows = np.empty((size, size + width), kind)
        for i in range(size):
            for j in range(size):
                rows[i, j] = a[i, j]
            for j in range(width):
                rows[i, size + j] = b[i, j]
        _solved(rows)
        found = np.empty((size, width), kind)
        for i in range(size):
            for j in range(width):
                found[i, j] = rows[i, size + j]
        return found

    left, right = _one if a.ndim == 3 else _same, _one if b.ndim == 3 else _same

    def of_stack(a, b):
        count = a.shape[0] if a.ndim == 3 else b.shape[0]
        found = np.empty((count, b.shape[-2], b.shape[-1]), kind)
        for k in range(count):
            found[k] = solve(left(a, k), right(b, k))
        return found

    if a.ndim == 3 or b.ndim == 3:
        return of_stack
    return of_vector if b.ndim == 1 else of_matrix


def matrix_inverse(a):
    """The inverse of a matrix; LinAlgError if it is singular."""
    return np.linalg.inv(a)


@overload(matrix_inverse)
def _matrix_inverse(a):
    kind = _kind(a)

    def inverse(a):
        size = a.shape[0]
        rows = np.empty((size, 2 * size), kind)
        for i in range(size):
            for j in range(size):
                rows[i, j] = a[i, j]
                rows[i, size + j] = 1.0 if i == j else 0.0
        _solved(rows)
        found = np.empty((size, size), kind)
        for i in range(size):
            for j in range(size):
                found[i, j] = rows[i, size + j]
        return found

    return inverse if a.ndim == 2 else _of_each(matrix_inverse, kind)


def determinant(a):
    """The determinant of a matrix."""
    return np.linalg.det(a)


@overload(determinant)
def _determinant(a):
    kind = _kind(a)

    def of_complex(a):
        rows = np.empty((a.shape[0], a.shape[0]), kind)
        for i in range(a.shape[0]):
            for j in range(a.shape[0]):
                rows[i, j] = a[i, j]
        product = kind(_triangular(rows))
        if product != 0.0:
            for k in range(a.shape[0]):
                product *= rows[k, k]
        return product

    def of_real(a):
        rows = np.empty((a.shape[0], a.shape[0]), kind)
        for i in range(a.shape[0]):
            for j in range(a.shape[0]):
                rows[i, j] = a[i, j]
        sign = kind(_triangular(rows))
        product = sign
        if sign == 0.0:
            return product
        for k in range(a.shape[0]):
            product *= rows[k, k]
        if product == 0.0 or np.isinf(product):  # a part of it may be out of range
            logarithm = kind(0.0)
            for k in range(a.shape[0]):
                sign = -sign if rows[k, k] < 0.0 else sign
                logarithm += np.log(abs(rows[k, k]))
            product = sign * np.exp(logarithm)
        return product

    def of_stack(a):
        numbers = np.empty(a.shape[0], kind)
        for k in range(a.shape[0]):
            numbers[k] = determinant(a[k])
        return numbers

    if a.ndim == 3:
        return of_stack
    return of_complex if np.issubdtype(kind, np.complexfloating) else of_real


def sign_and_logdet(a):
    """The sign of a real matrix's determinant, and the logarithm of its absolute value."""
    return np.linalg.slogdet(a)


@overload(sign_and_logdet)
def _sign_and_logdet(a):
    kind = _kind(a)

    def found(a):
        rows = np.empty((a.shape[0], a.shape[0]), kind)
        for i in range(a.shape[0]):
            for j in range(a.shape[0]):
                rows[i, j] = a[i, j]
        sign, logarithm = kind(_triangular(rows)), kind(0.0)
        if sign == 0.0:
            return sign, kind(-np.inf)
        for k in range(a.shape[0]):
            sign = -sign if rows[k, k] < 0.0 else sign
            logarithm += np.log(abs(rows[k, k]))
        return sign, logarithm

    def of_stack(a):
        signs, logarithms = np.empty(a.shape[0], kind), np.empty(a.shape[0], kind)
        for k in range(a.shape[0]):
            signs[k], logarithms[k] = sign_and_logdet(a[k])
        return signs, logarithms

    return found if a.ndim == 2 else of_stack


def cholesky_factor(a):
    """The lower triangle L with ``L @ L.T == a``, all real; LinAlgError if there is none."""
    return np.linalg.cholesky(a)


@overload(cholesky_factor)
def _cholesky_factor(a):
    kind = _kind(a)

    def factor(a):
        size = a.shape[0]
        low = np.empty((size, size), kind)
        for i in range(size):
            for j in range(i + 1, size):
                low[i, j] = 0.0
            for j in range(i):
                total = kind(a[i, j])
                for k in range(j):
                    total -= low[i, k] * low[j, k]
                low[i, j] = total / low[j, j]
            total = kind(a[i, i])
            for k in range(i):
                total -= low[i, k] * low[i, k]
            if total <= 0.0:
                raise np.linalg.LinAlgError("Matrix is not positive definite")
            low[i, i] = np.sqrt(total)
        return low

    return factor if a.ndim == 2 else _of_each(cholesky_factor, kind)


# what the compiler of this process's kernels makes parts of these, and how it is written for
# arguments of some types
IMPLEMENTATIONS = {
    solve: _solve,
    matrix_inverse: _matrix_inverse,
    determinant: _determinant,
    sign_and_logdet: _sign_and_logdet,
    cholesky_factor: _cholesky_factor,
    _solved: lambda rows: _solved,
    _triangular: lambda rows: _triangular,
}
IN_ROWS = {_solved, _triangular}  # their arguments are made by the others, row by row in memory
