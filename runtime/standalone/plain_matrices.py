"""NumPy's functions of small matrices, as loops; ``kind`` is the type of the results."""

import numpy as np

from calque.runtime.kernels.matrix_functions import _solved, _triangular
from calque.runtime.standalone.plain_integers import helper


@helper
def checked_finite(x):
    """The number itself; ValueError, as of SciPy, if it is not finite."""
    if not np.isfinite(x):
        raise ValueError("array must not contain infs or NaNs")
    return x


@helper
def checked_finite_array(a):
    """The array itself; ValueError, as of SciPy, where it has a number that is not finite."""
    for x in a.flat:
        checked_finite(x)
    return a


@helper
def rows_of(a, width, kind):
    """A copy of a square matrix with room for more columns behind it."""
    rows = np.zeros((a.shape[0], a.shape[0] + width), kind)
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            rows[i, j] = a[i, j]
    return rows


@helper
def solve(a, b, kind):
    """The vector ``x`` with ``a @ x == b``; LinAlgError if ``a`` is singular."""
    size = b.size
    rows = rows_of(a, 1, kind)
    for i in range(size):
        rows[i, size] = b[i]
    _solved(rows)
    return rows[:, size].copy()


@helper
def solve_columns(a, b, kind):
    """The matrix ``x`` with ``a @ x == b``; LinAlgError if ``a`` is singular."""
    size, width = b.shape
    rows = rows_of(a, width, kind)
    for i in range(size):
        for j in range(width):
            rows[i, size + j] = b[i, j]
    _solved(rows)
    return rows[:, size:].copy()


@helper
def solve_each(a, b, kind):
    """Solutions for stacks of matrices; a stack of one serves all systems of the other."""
    count = max(a.shape[0], b.shape[0])
    if a.shape[0] == 0 or b.shape[0] == 0:
        count = 0
    found = np.empty((count, b.shape[1], b.shape[2]), kind)
    for k in range(count):
        left, right = a[k if a.shape[0] > 1 else 0], b[k if b.shape[0] > 1 else 0]
        found[k] = solve_columns(left, right, kind)
    return found


@helper
def matrix_inverse(a, kind):
    """The inverse of a matrix; LinAlgError if it is singular."""
    size = a.shape[0]
    rows = rows_of(a, size, kind)
    for i in range(size):
        rows[i, size + i] = 1.0
    _solved(rows)
    return rows[:, size:].copy()


@helper
def matrix_inverse_each(a, kind):
    """The inverses of a stack of matrices."""
    found = np.empty(a.shape, kind)
    for k in range(a.shape[0]):
        found[k] = matrix_inverse(a[k], kind)
    return found


@helper
def determinant(a, kind):
    """The determinant of a real matrix; a part of the product may be out of range."""
    product = complex_determinant(a, kind)
    if product == 0.0 or np.isinf(product):
        sign, logarithm = sign_and_logdet(a, kind)
        return kind(sign * np.exp(logarithm))
    return product


@helper
def complex_determinant(a, kind):
    """The determinant of a matrix as a product."""
    rows = rows_of(a, 0, kind)
    product = kind(_triangular(rows))
    if product != 0.0:
        for k in range(a.shape[0]):
            product *= rows[k, k]
    return product


@helper
def determinant_each(a, kind):
    """The determinants of a stack of real matrices."""
    numbers = np.empty(a.shape[0], kind)
    for k in range(a.shape[0]):
        numbers[k] = determinant(a[k], kind)
    return numbers


@helper
def complex_determinant_each(a, kind):
    """The determinants of a stack of matrices."""
    numbers = np.empty(a.shape[0], kind)
    for k in range(a.shape[0]):
        numbers[k] = complex_determinant(a[k], kind)
    return numbers


@helper
def sign_and_logdet(a, kind):
    """The sign of a real matrix's determinant, and the logarithm of its absolute value."""
    rows = rows_of(a, 0, kind)
    sign, logarithm = kind(_triangular(rows)), kind(0.0)
    if sign == 0.0:
        return sign, kind(-np.inf)
    for k in range(a.shape[0]):
        sign = -sign if rows[k, k] < 0.0 else sign
        logarithm += np.log(abs(rows[k, k]))
    return sign, logarithm


@helper
def sign_and_logdet_each(a, kind):
    """Signs and logarithms of the determinants of a stack of matrices."""
    signs, logarithms = np.empty(a.shape[0], kind), np.empty(a.shape[0], kind)
    for k in range(a.shape[0]):
        signs[k], logarithms[k] = sign_and_logdet(a[k], kind)
    return signs, logarithms


@helper
def cholesky_factor(a, kind):
    """The lower triangle L with ``L @ L.T == a``, all real; LinAlgError if there is none."""
    size = a.shape[0]
    low = np.zeros((size, size), kind)
    for i in range(size):
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


@helper
def cholesky_factor_each(a, kind):
    """The Cholesky factors of a stack of matrices."""
    found = np.empty(a.shape, kind)
    for k in range(a.shape[0]):
        found[k] = cholesky_factor(a[k], kind)
    return found
