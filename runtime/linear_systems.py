"""Linear systems whose matrix is triangular, or is that of other systems too.

``np.linalg.solve`` factors its matrix at every call, whatever is known of it. The routines called
here are those of the BLAS and LAPACK that NumPy is linked to; where there are none by the expected
names, ``np.linalg`` does the work.
"""

import ctypes
import functools

import numpy as np

_BY_ROWS, _LEFT, _ANY_DIAGONAL = 101, 141, 131  # what BLAS calls its options
_PLAIN, _TRANSPOSED, _UPPER, _LOWER = 111, 112, 121, 122
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_LEAST = 20  # rows of a matrix below which np.linalg.solve is no slower


class _Routines:
    """What BLAS and LAPACK have for numbers of one type."""

    def __init__(self, library, prefix, kind):
        letter, address, size = _LETTERS[kind], ctypes.c_void_p, ctypes.c_int64
        option = ctypes.c_int
        self.one = np.ones(1, kind)
        factor = address if kind in "FD" else np.ctypeslib.as_ctypes_type(np.dtype(kind))
        self.factor = self.one.ctypes.data if kind in "FD" else 1.0
        matrix = [address, size]
        self.trsv = library[f"{prefix}cblas_{letter}trsv64_"]
        self.trsv.argtypes = [*[option] * 4, size, *matrix, *matrix]
        self.trsm = library[f"{prefix}cblas_{letter}trsm64_"]
        self.trsm.argtypes = [*[option] * 5, size, size, factor, *matrix, *matrix]
        self.getrf = library[f"{prefix}{letter}getrf_64_"]
        self.getrf.argtypes = [address] * 6
        self.getrs = library[f"{prefix}{letter}getrs_64_"]
        self.getrs.argtypes = [address] * 9
        for routine in (self.trsv, self.trsm, self.getrf, self.getrs):
            routine.restype = None

    def solve_triangular(self, a, x, lower):
        """Put in the place of each ``b`` the ``x`` with ``a @ x == b``; both may be stacks."""
        a, apart, turned = _by_rows(a)
        matrix, place = _address(a), _address(x)
        rows, stacked = a.shape[-1], a.ndim == 3
        width = None if x.ndim == 1 + stacked else x.shape[-1]
        triangle = _LOWER if lower != turned else _UPPER
        how = triangle, _TRANSPOSED if turned else _PLAIN, _ANY_DIAGONAL, rows
        for _ in range(len(a) if stacked else 1):
            if width is None:
                self.trsv(_BY_ROWS, *how, matrix, apart, place, 1)
            else:
                right = self.factor, matrix, apart, place, width
                self.trsm(_BY_ROWS, _LEFT, *how, width, *right)
            if stacked:
                matrix, place = matrix + a.strides[0], place + x.strides[0]

    def factor_columns(self, lu, pivots):
        """Put its triangles in the place of each matrix, and fill in its pivots."""
        rows = lu.shape[-1]
        numbers = (ctypes.c_int64 * 2)(rows, 0)
        size = ctypes.addressof(numbers)
        matrix, swaps = _address(lu), _address(pivots)
        for _ in range(lu.size // rows**2):
            self.getrf(size, size, matrix, size, swaps, size + 8)
            matrix, swaps = matrix + rows * rows * lu.itemsize, swaps + rows * 8

    def solve_columns(self, lu, pivots, columns, transposed):
        """Put solutions in the place of right sides, the rows of ``columns``; all may be stacks."""
        rows, stacked = lu.shape[-1], lu.ndim == 3
        width = columns[0].size // rows if stacked else columns.size // rows
        numbers = (ctypes.c_int64 * 3)(rows, width, 0)
        size = ctypes.addressof(numbers)
        option = ctypes.c_char(b"T" if transposed else b"N")
        first = ctypes.addressof(option)
        matrix, swaps, place = _address(lu), _address(pivots), _address(columns)
        for _ in range(len(lu) if stacked else 1):
            self.getrs(first, size, size + 8, matrix, size, swaps, place, size, size + 16)
            if stacked:
                matrix, swaps = matrix + lu.strides[0], swaps + pivots.strides[0]
                place += columns.strides[0]


@functools.cache
def _routines(kind):
    """The routines for numbers of a type, by its letter; None where there are none that work."""
    if kind not in _LETTERS:
        return None
    try:
        from numpy.linalg import lapack_lite  # its symbols, and those of what it is linked to

        library = ctypes.CDLL(lapack_lite.__file__)
    except (ImportError, OSError):
        return None
    for prefix in ("scipy_", ""):
        try:
            found = _Routines(library, prefix, kind)
        except AttributeError:
            continue
        return found if _works(found, kind) else None
    return None


def _works(routines, kind):
    """Whether routines do what is wanted of them."""
    low, x = np.array([[2, 0], [3, 4]], kind), np.array([1, 2], kind)
    full = np.array([[0, 2], [4, 1]], kind)
    given = np.array([low @ x, full @ x, full.T @ x])
    sides = np.stack([low @ x, low @ -x], axis=1)
    lu, pivots = full.T.copy(), np.zeros(2, np.int64)
    routines.solve_triangular(low, given[0], True)
    routines.solve_triangular(low, sides, True)
    routines.factor_columns(lu, pivots)
    routines.solve_columns(lu, pivots, given[1], False)
    routines.solve_columns(lu, pivots, given[2], True)
    solved = (given == x).all() and (sides == np.stack([x, -x], axis=1)).all()
    return bool(solved and (pivots == 2).all())


def _address(x):
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(x))
    except (TypeError, ValueError):
        return x.ctypes.data  # slower, and of what is read-only or has gaps too


def _by_rows(a):
    """Matrices with their elements side by side, how far rows are apart, and if transposed."""
    size, (down, across), row = a.itemsize, a.strides[-2:], a.itemsize * a.shape[-1]
    if a.flags.aligned:
        if across == size and down >= row and down % size == 0:
            return a, down // size, False
        if down == size and across >= row and across % size == 0:
            return a.swapaxes(-1, -2), across // size, True
    return np.array(a, order="C"), a.shape[-1], False


def _stacked(x, stack, axes):
    """As one stack what may be spread over some of its axes; ``axes`` are those of each item."""
    return np.broadcast_to(x, stack + x.shape[-axes:]).reshape((-1, *x.shape[-axes:]))


def _is_factored(pivots):
    return pivots.size and pivots.item(0) > 0


def _check_regular(triangles):
    if not triangles.diagonal(0, -2, -1).all():
        raise np.linalg.LinAlgError("Singular matrix")


def _fit(a, b):
    """Whether a system has a matrix and right sides of the shapes that it must have."""
    size = a.shape[-1]
    return a.shape[-2] == size == b.shape[-1 if b.ndim == 1 else -2]


def solve_triangular(a, b, *, lower):
    """The ``x`` with ``a @ x == b``, as ``np.linalg.solve`` gives it, of triangular matrices.

    What is in the other triangle is not read: it is zero.
    """
    kind = np.result_type(a, b)
    routines = _routines(kind.char)
    if routines is None or a.shape[-1] < _LEAST or not _fit(a, b):
        return np.linalg.solve(a, b)
    _check_regular(a)
    a = a if a.dtype == kind else a.astype(kind)
    if a.ndim == 2 and b.ndim <= 2:
        x = np.array(b, kind, order="C")
        if x.size:
            routines.solve_triangular(a, x, lower)
        return x
    sides = b.shape[-2:]
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, stack + sides), kind, order="C")
    if x.size:
        routines.solve_triangular(_stacked(a, stack, 2), x.reshape((-1, *sides)), lower)
    return x


def lu_factor(a):
    """A matrix as the product of two triangles, for all systems of which it is the matrix.

    Both triangles in one array, by columns as LAPACK has them, and which row was swapped with each,
    counted from one. If all these are zero the matrix is as it was given.
    """
    kind = a.dtype.char if a.dtype.kind in "fc" else "d"
    routines = _routines(kind)
    pivots = np.zeros(a.shape[:-1], np.int64)
    if routines is None or a.shape[-1] < _LEAST or a.shape[-2] != a.shape[-1]:
        return np.array(a, kind, order="C"), pivots
    lu = np.array(a.swapaxes(-1, -2), kind, order="C")
    if lu.size:
        routines.factor_columns(lu, pivots)
    return lu, pivots


def lu_solve(lu, pivots, b, *, transposed=False):
    """The ``x`` with ``a @ x == b``, or ``a.T @ x == b``, of what ``lu_factor`` made of ``a``."""
    if not _is_factored(pivots) or not _fit(lu, b):
        return np.linalg.solve(lu.swapaxes(-1, -2) if transposed else lu, b)
    _check_regular(lu)
    routines = _routines(lu.dtype.char)
    lu, pivots = np.ascontiguousarray(lu), np.ascontiguousarray(pivots)
    columns = b if b.ndim == 1 else b.swapaxes(-1, -2)
    if lu.ndim == 2 and b.ndim <= 2:
        columns = np.array(columns, lu.dtype, order="C")
        if columns.size:
            routines.solve_columns(lu, pivots, columns, transposed)
    else:
        sides = columns.shape[-2:]
        stack = np.broadcast_shapes(lu.shape[:-2], columns.shape[:-2])
        columns = np.array(np.broadcast_to(columns, stack + sides), lu.dtype, order="C")
        if columns.size:
            lu, pivots = _stacked(lu, stack, 2), _stacked(pivots, stack, 1)
            routines.solve_columns(lu, pivots, columns.reshape((-1, *sides)), transposed)
    return columns if b.ndim == 1 else np.ascontiguousarray(columns.swapaxes(-1, -2))


def lu_inverse(lu, pivots):
    """The inverse of what ``lu_factor`` made these of."""
    if not _is_factored(pivots):
        return np.linalg.inv(lu)
    return lu_solve(lu, pivots, np.eye(lu.shape[-1], dtype=lu.dtype))


def lu_slogdet(lu, pivots):
    """The sign of the determinant and the logarithm of its absolute value, of real matrices."""
    if not _is_factored(pivots):
        return tuple(np.linalg.slogdet(lu))
    diagonal = lu.diagonal(0, -2, -1)
    swaps = np.sum(pivots != np.arange(1, lu.shape[-1] + 1), axis=-1)
    lengths = np.abs(diagonal)
    with np.errstate(all="ignore"):
        signs = np.where(lengths == 0.0, 0.0, diagonal / lengths)
        logarithm = np.sum(np.log(lengths), axis=-1)
    sign = np.prod(signs, axis=-1, dtype=lu.dtype) * (1 - 2 * (swaps % 2)).astype(lu.dtype)
    return sign, logarithm


def lu_det(lu, pivots):
    """The determinant of what ``lu_factor`` made these of."""
    if not _is_factored(pivots):
        return np.linalg.det(lu)
    sign, logarithm = lu_slogdet(lu, pivots)
    with np.errstate(all="ignore"):
        return sign * np.exp(logarithm)
