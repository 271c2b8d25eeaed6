"""Functions of small matrices that kernels call: NumPy's, as loops over their elements.

A call of LAPACK takes longer than the work itself where there are few rows, and its binding for
Numba needs SciPy. The method is LAPACK's: rows are swapped such that each pivot is the largest.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable


@register_jitable
def _one(a):
    """1 in the dtype of results, as of ``np.linalg``: integers count as float64."""
    one = a.dtype.type(1)
    return one / one


@register_jitable
def _with_room(a, width, one):
    """A copy of a square matrix in the type of ``one``, with so many empty columns behind it."""
    size = a.shape[0]
    rows = np.empty((size, size + width), type(one))
    for i in range(size):
        for j in range(size):
            rows[i, j] = a[i, j]
    return rows


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
def _behind(rows, width):
    """A copy of the last columns."""
    size = rows.shape[0]
    found = np.empty((size, width), rows.dtype)
    for i in range(size):
        for j in range(width):
            found[i, j] = rows[i, size + j]
    return found


@register_jitable
def checked_finite(x):
    """The number itself; ValueError, as of SciPy, if it is not finite."""
    if not np.isfinite(x):
        raise ValueError("array must not contain infs or NaNs")
    return x


@register_jitable
def checked_finite_array(a):
    """The array itself; ValueError, as of SciPy, where it has a number that is not finite."""
    for x in a.flat:
        checked_finite(x)
    return a


@register_jitable
def _solve_columns(a, b):
    size, width = b.shape
    rows = _with_room(a, width, _one(a) * _one(b))
    for i in range(size):
        for j in range(width):
            rows[i, size + j] = b[i, j]
    _solved(rows)
    return _behind(rows, width)


@register_jitable
def _solve_each(a, b):
    count = a.shape[0] if a.ndim == 3 else b.shape[0]
    found = np.empty((count, b.shape[-2], b.shape[-1]), type(_one(a) * _one(b)))
    for k in range(count):
        found[k] = _solve_columns(a[k] if a.ndim == 3 else a, b[k] if b.ndim == 3 else b)
    return found


@register_jitable
def solve(a, b):
    """The ``x`` with ``a @ x == b``, for a vector or a matrix; LinAlgError if ``a`` is singular."""
    if a.ndim == 3 or b.ndim == 3:
        return _solve_each(a, b)
    if b.ndim == 2:
        return _solve_columns(a, b)
    size = b.size
    rows = _with_room(a, 1, _one(a) * _one(b))
    for i in range(size):
        rows[i, size] = b[i]
    _solved(rows)
    found = np.empty(size, rows.dtype)
    for i in range(size):
        found[i] = rows[i, size]
    return found


@register_jitable
def matrix_inverse(a):
    """The inverse of a matrix, or of each in a stack; LinAlgError if one is singular."""
    if a.ndim == 3:
        found = np.empty(a.shape, type(_one(a)))
        for k in range(a.shape[0]):
            found[k] = matrix_inverse(a[k])
        return found
    size = a.shape[0]
    rows = _with_room(a, size, _one(a))
    for i in range(size):
        for j in range(size):
            rows[i, size + j] = 1.0 if i == j else 0.0
    _solved(rows)
    return _behind(rows, size)


@register_jitable
def complex_determinant(a):
    """The determinant of a matrix, or of each in a stack, as a product."""
    if a.ndim == 3:
        numbers = np.empty(a.shape[0], type(_one(a)))
        for k in range(a.shape[0]):
            numbers[k] = complex_determinant(a[k])
        return numbers
    rows = _with_room(a, 0, _one(a))
    product = rows.dtype.type(_triangular(rows))
    if product != 0.0:
        for k in range(a.shape[0]):
            product *= rows[k, k]
    return product


@register_jitable
def determinant(a):
    """The determinant of a real matrix, or of each in a stack; a part of it may be out of range."""
    if a.ndim == 3:
        numbers = np.empty(a.shape[0], type(_one(a)))
        for k in range(a.shape[0]):
            numbers[k] = determinant(a[k])
        return numbers
    rows = _with_room(a, 0, _one(a))
    sign = rows.dtype.type(_triangular(rows))
    product, logarithm = sign, rows.dtype.type(0.0)
    if sign == 0.0:
        return product
    for k in range(a.shape[0]):
        product *= rows[k, k]
    if product == 0.0 or np.isinf(product):
        for k in range(a.shape[0]):
            sign = -sign if rows[k, k] < 0.0 else sign
            logarithm += np.log(abs(rows[k, k]))
        product = sign * np.exp(logarithm)
    return product


@register_jitable
def sign_and_logdet(a):
    """The sign of a real matrix's determinant, and the logarithm of its absolute value."""
    if a.ndim == 3:
        signs, logarithms = np.empty(a.shape[0], type(_one(a))), np.empty(a.shape[0], type(_one(a)))
        for k in range(a.shape[0]):
            signs[k], logarithms[k] = sign_and_logdet(a[k])
        return signs, logarithms
    rows = _with_room(a, 0, _one(a))
    sign, logarithm = rows.dtype.type(_triangular(rows)), rows.dtype.type(0.0)
    if sign == 0.0:
        return sign, rows.dtype.type(-np.inf)
    for k in range(a.shape[0]):
        sign = -sign if rows[k, k] < 0.0 else sign
        logarithm += np.log(abs(rows[k, k]))
    return sign, logarithm


@register_jitable
def _factor_row(low, i):
    """Make row i of a Cholesky factor up to its diagonal, by the rows above it."""
    for j in range(i + 1, low.shape[0]):
        low[i, j] = 0.0
    for j in range(i):
        total = low[i, j]
        for k in range(j):
            total -= low[i, k] * np.conj(low[j, k])
        low[i, j] = total / low[j, j].real


@register_jitable
def cholesky_factor(a):
    """The lower triangle L with ``L @ L.T == a``, all real; LinAlgError if there is none."""
    if a.ndim == 3:
        found = np.empty(a.shape, type(_one(a)))
        for k in range(a.shape[0]):
            found[k] = cholesky_factor(a[k])
        return found
    low = _with_room(a, 0, _one(a))
    for i in range(a.shape[0]):
        _factor_row(low, i)
        total = low[i, i]
        for k in range(i):
            total -= low[i, k] * low[i, k]
        if total <= 0.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        low[i, i] = np.sqrt(total)
    return low


@register_jitable
def complex_cholesky_factor(a):
    """The lower triangle L with ``L @ L.T.conj() == a``; LinAlgError if there is none."""
    if a.ndim == 3:
        found = np.empty(a.shape, type(_one(a)))
        for k in range(a.shape[0]):
            found[k] = complex_cholesky_factor(a[k])
        return found
    low = _with_room(a, 0, _one(a))
    for i in range(a.shape[0]):
        _factor_row(low, i)
        square = low[i, i].real
        for k in range(i):
            square -= low[i, k].real ** 2 + low[i, k].imag ** 2
        if square <= 0.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        low[i, i] = np.sqrt(square)
    return low


@register_jitable
def complex_sign_and_logdet(a):
    """The phase of a determinant, and the logarithm of its absolute value."""
    if a.ndim == 3:
        signs = np.empty(a.shape[0], type(_one(a)))
        logarithms = np.empty(a.shape[0], type(_one(a).real))
        for k in range(a.shape[0]):
            signs[k], logarithms[k] = complex_sign_and_logdet(a[k])
        return signs, logarithms
    rows = _with_room(a, 0, _one(a))
    sign = rows.dtype.type(_triangular(rows))
    logarithm = np.log(abs(sign))
    if sign != 0.0:
        for k in range(a.shape[0]):
            length = abs(rows[k, k])
            sign *= rows[k, k] / length
            logarithm += np.log(length)
    return sign, logarithm


# what the compiler of this process's kernels makes parts of these
PARTS = {
    _with_room,
    _triangular,
    _solved,
    _behind,
    _solve_columns,
    _solve_each,
    solve,
    matrix_inverse,
    complex_determinant,
    determinant,
    sign_and_logdet,
    _factor_row,
    cholesky_factor,
    complex_cholesky_factor,
    complex_sign_and_logdet,
}
# their arguments are made by the others, row by row
IN_ROWS = {_triangular, _solved, _behind, _factor_row}
