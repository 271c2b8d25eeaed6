"""``scipy.sparse``: matrices with a known pattern, whose entries a program may compute.

Each is kept as entries with their rows and columns, of which equal places add. So sums and products
are gathers and scatters, and derivatives by the entries have the pattern.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.scipy_twins.sparse_systems import iterated, solved
from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_objects

SPACE = "scipy.sparse"
FORMATS = "csr", "csc", "coo", "dia", "bsr"


class SparseMatrix:
    """A sparse matrix, or array, that a program computes with."""

    __array_ufunc__ = None  # operators with an array on the left are this class's

    def __init__(
        self, entries: Any, rows: Any, columns: Any, shape: Any, name: str, stored: bool = False
    ):
        self.entries, self.rows, self.columns = entries, rows, columns
        self.shape, self.name, self.ndim = shape, name, 2
        self.dtype = entries.dtype
        self.stored = stored  # SciPy stores the same entries in the same order

    def _like(self, entries: Any) -> Any:
        return SparseMatrix(entries, self.rows, self.columns, self.shape, self.name, self.stored)

    @property
    def data(self) -> Any:
        """The entries, where SciPy has the same ones."""
        if not self.stored:
            raise NotImplementedError(
                "The entries that SciPy stores are not known here: equal places may be summed, and "
                "the order is another. Read them before the matrix is made, or A.toarray()."
            )
        return self.entries

    @property
    def nnz(self) -> Any:
        """The number of entries."""
        return self.data.shape[0]

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array with more than one element is ambiguous.")

    # products

    def __matmul__(self, other: Any) -> Any:
        if is_sparse_twin(other):
            raise NotImplementedError("A product of two sparse matrices: its pattern is not known.")
        other = np.asarray(other)
        if other.ndim == 0:
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        if other.shape[0] != self.shape[1]:
            raise ValueError(f"matmul: dimension mismatch {self.shape} and {other.shape}")
        entries = self.entries if other.ndim == 1 else self.entries[:, None]
        terms = entries * other[self.columns]
        found = np.zeros((self.shape[0], *other.shape[1:]), terms.dtype)
        np.add.at(found, self.rows, terms)
        return found

    def __rmatmul__(self, other: Any) -> Any:
        other = np.asarray(other)
        return (self.T @ other.T).T if other.ndim > 1 else self.T @ other

    def dot(self, other: Any) -> Any:
        """The product with a vector or a matrix; with a number, the scaled matrix."""
        return self * other if np.ndim(other) == 0 else self @ other

    def __mul__(self, other: Any) -> Any:
        if np.ndim(other) == 0:
            return self._like(self.entries * other)
        return self @ other if self.name.endswith("_matrix") else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if np.ndim(other) == 0:
            return self._like(self.entries * other)
        return other @ self if self.name.endswith("_matrix") else self.multiply(other)

    def __truediv__(self, other: Any) -> Any:
        return self.multiply(1.0 / np.asarray(other))

    def multiply(self, other: Any) -> Any:
        """The product, entry by entry, with a number or a dense matrix."""
        if np.ndim(other) == 0:
            return self._like(self.entries * other)
        dense = np.broadcast_to(np.asarray(other), self.shape)
        return self._like(self.entries * dense[self.rows, self.columns])

    # sums

    def __neg__(self) -> Any:
        return self._like(-self.entries)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int) and other == 0:  # where ``sum`` begins
            return self
        if not is_sparse_twin(other) and np.ndim(other) == 2:
            return self.toarray() + other
        other = as_sparse(other)
        if other.shape[0] != self.shape[0] or other.shape[1] != self.shape[1]:
            raise ValueError("inconsistent shapes")
        return SparseMatrix(
            np.concatenate([self.entries, other.entries]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.columns, other.columns]),
            self.shape,
            self.name,
        )

    def __radd__(self, other: Any) -> Any:
        return other + self.toarray() if np.ndim(other) == 2 else self + other

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def sum(self, axis: Any = None, dtype: Any = None) -> Any:
        """The sum of all entries, of each column (axis 0) or of each row."""
        if dtype is not None:
            return self.astype(dtype).sum(axis)
        if axis is None:
            return np.sum(self.entries)
        if self.name.endswith("_matrix"):
            raise NotImplementedError("Its result is a np.matrix: take a sparse array instead.")
        if axis not in (-2, -1, 0, 1):
            raise ValueError(f"axis {axis} is out of bounds: a sparse matrix has two axes")
        along = axis % 2
        found = np.zeros(self.shape[1 - along], self.dtype)
        np.add.at(found, self.rows if along else self.columns, self.entries)
        return found

    def mean(self, axis: Any = None) -> Any:
        """The mean, zeros included."""
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[axis]
        return self.sum(axis) / count

    def diagonal(self, k: int = 0) -> Any:
        """The entries of a diagonal."""
        size = min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0))
        on = self.columns - self.rows == k
        found = np.zeros(size, self.dtype)
        places = self.rows if k >= 0 else self.columns
        np.add.at(found, np.where(on, places, 0), np.where(on, self.entries, 0.0))
        return found

    def trace(self, offset: int = 0) -> Any:
        """The sum of a diagonal."""
        return np.sum(self.diagonal(offset))

    # forms

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    def transpose(self) -> Any:
        """The transpose."""
        rows, columns = self.shape
        shape = columns, rows
        return SparseMatrix(self.entries, self.columns, self.rows, shape, self.name, self.stored)

    def toarray(self) -> Any:
        """The dense matrix."""
        found = np.zeros(self.shape, self.dtype)
        np.add.at(found, (self.rows, self.columns), self.entries)
        return found

    def conj(self) -> Any:
        """The matrix of complex conjugates."""
        return self._like(np.conj(self.entries))

    def copy(self) -> Any:
        """The matrix itself: none is changed."""
        return self

    def astype(self, dtype: Any) -> Any:
        """The matrix with entries of another dtype."""
        return self._like(self.entries.astype(dtype))

    def __iter__(self) -> Any:
        raise NotImplementedError("NumPy's functions take the dense matrix: A.toarray().")

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Index the dense matrix: A.toarray()[index].")


def _in_format(form: str) -> Any:
    def convert(self: Any, copy: bool = False) -> Any:
        stored = self.stored and self.name.startswith(form)
        return SparseMatrix(self.entries, self.rows, self.columns, self.shape, self.name, stored)

    return convert


for _format in FORMATS:
    setattr(SparseMatrix, f"to{_format}", _in_format(_format))


def is_sparse_twin(value: Any) -> bool:
    """True for a sparse matrix, one of SciPy's or one that the program computes."""
    return hasattr(value, "tocsr")


def as_sparse(value: Any) -> Any:
    """A sparse matrix of SciPy's as one to compute with."""
    if not is_sparse_twin(value):
        raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
    return value if hasattr(value, "rows") else known_matrix(value)


@twin_of_objects(SPACE, *(f"{f}_{kind}" for f in FORMATS for kind in ("array", "matrix")))
def known_matrix(A: Any) -> Any:
    """A sparse matrix that was made outside."""
    name = type(A).__name__
    if A.format == "coo":
        return SparseMatrix(A.data, A.row, A.col, A.shape, name, True)
    stored = A.format in ("csr", "csc")
    if not stored:
        A = A.tocsr()
    return _compressed(A.data, A.indices, A.indptr, A.shape, name, A.format, stored)


def _compressed(
    data: Any, indices: Any, indptr: Any, shape: Any, name: str, form: str, stored: bool
) -> Any:
    outer = np.searchsorted(indptr, np.arange(indices.shape[0]), side="right") - 1
    rows, columns = (outer, indices) if form == "csr" else (indices, outer)
    return SparseMatrix(data, rows, columns, shape, name, stored)


def _made(form: str, name: str) -> Any:
    def make(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
        if is_sparse_twin(arg1):
            found = as_sparse(arg1)
            stored = found.stored and found.name.startswith(form)
            places = found.rows, found.columns
            entries = found.entries if dtype is None else found.entries.astype(dtype)
            return SparseMatrix(entries, *places, found.shape, name, stored)
        if not isinstance(arg1, tuple):
            dense = np.asarray(arg1, dtype)
            if dense.ndim != 2:
                raise NotImplementedError("A sparse array of one axis: take the dense array.")
            if shape is not None and tuple(shape) != tuple(dense.shape):
                raise ValueError(f"inconsistent shapes: {shape} and {dense.shape}")
            rows, columns = np.indices(dense.shape)
            return SparseMatrix(dense.ravel(), rows.ravel(), columns.ravel(), dense.shape, name)
        if shape is None:
            raise NotImplementedError("Give the shape: it is not known from run-time indices.")
        data = np.asarray(arg1[0], dtype)
        if form == "dia":
            return _diagonals(data, np.atleast_1d(arg1[1]), shape, name)
        if len(arg1) == 2:
            rows, columns = arg1[1]
            places = np.asarray(rows), np.asarray(columns)
            return SparseMatrix(data, *places, shape, name, form == "coo")
        return _compressed(data, np.asarray(arg1[1]), np.asarray(arg1[2]), shape, name, form, True)

    return make


for _format in FORMATS[:4]:
    for _kind in ("array", "matrix"):
        twin(SPACE, f"{_format}_{_kind}")(_made(_format, f"{_format}_{_kind}"))


def _diagonals(data: Any, offsets: Any, shape: Any, name: str) -> Any:
    """The matrix of which ``data[k, j]`` is at column j of the diagonal of ``offsets[k]``."""
    parts = []
    for k, offset in enumerate(offsets):
        first, last = max(0, offset), min(shape[1], shape[0] + offset, data.shape[1])
        columns = np.arange(first, last)
        parts.append((data[k, first:last], columns - offset, columns))
    return _joined(parts, shape, name)


def _joined(parts: Any, shape: Any, name: str) -> Any:
    data, rows, columns = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return SparseMatrix(data, rows, columns, shape, name)


def _of_diagonals(diagonals: Any, offsets: Any, shape: Any, name: str) -> Any:
    if np.ndim(offsets) == 0:
        offsets = [offsets]
        if isinstance(diagonals, (list, tuple)) and len(diagonals) == 1:
            diagonals = diagonals[0]
        diagonals = [np.atleast_1d(np.asarray(diagonals))]
    else:
        diagonals = [np.atleast_1d(np.asarray(d)) for d in diagonals]
    if len(diagonals) != len(offsets):
        raise ValueError("Different number of diagonals and offsets.")
    if shape is None:
        size = diagonals[0].shape[0] + abs(int(offsets[0]))
        shape = (size, size)
    parts: list[Any] = []
    for diagonal, offset in zip(diagonals, offsets, strict=True):
        rows, columns = max(0, -int(offset)), max(0, int(offset))
        count = min(shape[0] - rows, shape[1] - columns)
        if diagonal.shape[0] not in (1, count):
            raise ValueError(
                f"Diagonal length (index {len(parts)}: {diagonal.shape[0]} at offset {offset}) "
                f"does not agree with array size ({shape[0]}, {shape[1]})."
            )
        along = np.arange(count)
        parts.append((np.broadcast_to(diagonal, (count,)), along + rows, along + columns))
    return _joined(parts, shape, name)


@twin(SPACE, "diags_array")
def diags_array(
    diagonals: Any, /, *, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None
) -> Any:
    """The sparse array of diagonals."""
    found = _of_diagonals(diagonals, offsets, shape, "dia_array")
    return found if dtype is None else found.astype(dtype)


@twin(SPACE, "diags")
def diags(
    diagonals: Any, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None
) -> Any:
    """The sparse matrix of diagonals."""
    found = _of_diagonals(diagonals, offsets, shape, "dia_matrix")
    return found if dtype is None else found.astype(dtype)


# systems


def _right_side(A: Any, b: Any) -> Any:
    if is_sparse_twin(b):
        raise NotImplementedError("A sparse right side: take b.toarray().")
    b = np.asarray(b)
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square (has shape {A.shape})")
    if A.shape[0] != b.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({A.shape} - {b.shape[0]})")
    return b


@twin("scipy.sparse.linalg", "spsolve")
def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """The solution of a sparse system."""
    A = as_sparse(A)
    b = _right_side(A, b)
    if b.ndim == 2 and b.shape[1] == 1:
        b = b[:, 0]
    return solved(A.entries, A.rows, A.columns, b)


class SparseFactors:
    """A sparse matrix of which systems are solved."""

    def __init__(self, A: Any):
        self.A, self.shape = as_sparse(A), A.shape

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """The solution of a system with the matrix, or its transpose."""
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        A = self.A if trans == "N" else self.A.T if trans == "T" else self.A.T.conj()
        return solved(A.entries, A.rows, A.columns, _right_side(A, rhs))

    def __call__(self, b: Any) -> Any:
        return self.solve(b)


@twin("scipy.sparse.linalg", "splu", "factorized", always=True)
def splu(A: Any, **options: Any) -> Any:
    """The factors of a sparse matrix."""
    return SparseFactors(A)


def _iteration(method: str) -> Any:
    def iterate(
        A: Any,
        b: Any,
        x0: Any = None,
        *,
        rtol: Any = 1e-5,
        atol: Any = 0.0,
        maxiter: Any = None,
        **others: Any,
    ) -> Any:
        if others:
            raise NotImplementedError(
                f"{method}: calque takes rtol, atol and maxiter, not {', '.join(others)}."
            )
        if x0 is not None:
            raise NotImplementedError("An iteration that starts at x0: leave x0 out.")
        A = as_sparse(A)
        b = _right_side(A, b)
        options = {"method": method, "rtol": rtol, "atol": atol, "maxiter": maxiter}
        return iterated(A.entries, A.rows, A.columns, b, **options), 0

    return iterate


for _method in "cg bicg bicgstab cgs gmres".split():
    twin("scipy.sparse.linalg", _method)(_iteration(_method))
