"""Linear systems whose matrix is triangular.

``np.linalg.solve`` factors its matrix at every call, whatever is known of it. The routines called
here are those of the BLAS that NumPy is linked to; where there are none by the expected names,
``np.linalg`` does the work.
"""

import ctypes
import functools

import numpy as np

_BY_ROWS, _LEFT, _ANY_DIAGONAL = 101, 141, 131  # what BLAS calls its options
_PLAIN, _TRANSPOSED, _UPPER, _LOWER = 111, 112, 121, 122
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_LEAST = 20  # rows of a matrix below which np.linalg.solve is no slower


class _Routines:
    """The routines of BLAS for numbers of one type."""

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
        self.trsv.restype = self.trsm.restype = None

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
    """True if the routines solve small systems right."""
    low, x = np.array([[2, 0], [3, 4]], kind), np.array([1, 2], kind)
    side, sides = low @ x, np.stack([low @ x, low @ -x], axis=1)
    routines.solve_triangular(low, side, True)
    routines.solve_triangular(low, sides, True)
    return bool((side == x).all() and (sides == np.stack([x, -x], axis=1)).all())


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


def _stacked(a, stack):
    """Matrices, broadcast along some axes of a stack, as one stack."""
    return np.broadcast_to(a, stack + a.shape[-2:]).reshape((-1, *a.shape[-2:]))


def _check_regular(triangles):
    if not triangles.diagonal(0, -2, -1).all():
        raise np.linalg.LinAlgError("Singular matrix")


def _fit(a, b):
    """True if the matrix and the right sides of a system have shapes that fit."""
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
        routines.solve_triangular(_stacked(a, stack), x.reshape((-1, *sides)), lower)
    return x
