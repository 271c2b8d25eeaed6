"""Sparsity patterns: which entries of a matrix may be other than zero."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import FrameworkMissing
from calque.transpiler.sparsity.reached_inputs import ReachedInputs

_PICTURE = (24, 60)  # rows and columns of characters that a picture has at most


def scipys() -> ModuleType:
    """The module ``scipy.sparse``; raises FrameworkMissing where SciPy is not installed."""
    try:
        return importlib.import_module("scipy.sparse")
    except ModuleNotFoundError as error:
        message = "calque.sparse gives matrices of SciPy, which is not installed."
        raise FrameworkMissing(message, hint="pip install scipy") from error


class SparsityPattern:
    """The entries of a matrix that may be other than zero, sorted by rows and columns.

    ``shape`` is the matrix's; ``indptr`` and ``indices`` are those of compressed sparse rows.

    >>> pattern = SparsityPattern.of([[1, 0, 0], [1, 1, 0]])
    >>> pattern.nnz, pattern.rows.tolist(), pattern.cols.tolist()
    (3, [0, 1, 1], [0, 0, 1])
    """

    def __init__(self, shape: tuple[int, int], indptr: Any, indices: Any):
        self.shape = (int(shape[0]), int(shape[1]))
        self.indptr = np.asarray(indptr)
        self.indices = np.asarray(indices)

    @classmethod
    def of(cls, matrix: Any) -> SparsityPattern:
        """The pattern of a matrix: a pattern, a SciPy sparse matrix, or an array.

        Raises ValueError where ``matrix`` has not two dimensions.
        """
        if isinstance(matrix, SparsityPattern):
            return matrix
        matrix = matrix if hasattr(matrix, "tocoo") else np.asarray(matrix)
        if len(matrix.shape) != 2 or np.dtype(matrix.dtype).kind not in "biufc":
            raise ValueError(
                "a pattern is a matrix of booleans or numbers, and this an array of "
                f"{matrix.dtype} with {len(matrix.shape)} dimensions"
            )
        coo_array = scipys().coo_array
        found = coo_array(matrix)
        kept = np.asarray(found.data) != 0
        row, column = found.coords
        one = coo_array((kept[kept], (row[kept], column[kept])), shape=found.shape).tocsr()
        one.sum_duplicates()
        return cls(found.shape, one.indptr, one.indices)

    @classmethod
    def reached(cls, found: ReachedInputs) -> SparsityPattern:
        """The pattern with a row for each element of a value, and a column for each input."""
        return cls((found.size, found.inputs), *found.sparse())

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return len(self.indices)

    @property
    def rows(self) -> Any:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr))

    @property
    def cols(self) -> Any:
        """The column of each entry."""
        return self.indices

    @property
    def density(self) -> float:
        """The part of the matrix's entries that are in the pattern."""
        return self.nnz / max(1, self.shape[0] * self.shape[1])

    def transposed(self) -> SparsityPattern:
        """The pattern of the transposed matrix."""
        columns = self.to_scipy("csc")
        return SparsityPattern(self.shape[::-1], columns.indptr, columns.indices)

    def symmetric(self) -> SparsityPattern:
        """The pattern of a symmetric matrix with these entries: this one, if it is symmetric."""
        other = self.transposed()
        if self == other:
            return self
        both = (self.to_scipy() + other.to_scipy()).tocsr()
        both.sort_indices()
        return SparsityPattern(self.shape, both.indptr, both.indices)

    def to_scipy(self, format: str = "csr") -> Any:
        """The pattern as a boolean matrix of SciPy in this format."""
        ones = np.ones(self.nnz, dtype=bool)
        return (
            scipys().csr_array((ones, self.indices, self.indptr), shape=self.shape).asformat(format)
        )

    def spy(self, rows: int = _PICTURE[0], columns: int = _PICTURE[1]) -> str:
        """The pattern drawn with dots, in at most so many rows and columns of characters.

        >>> print(SparsityPattern.of(np.eye(8)).spy())
        ⠑⢄⠀⠀
        ⠀⠀⠑⢄
        """
        height = min(self.shape[0], 4 * rows) or 1
        width = min(self.shape[1], 2 * columns) or 1
        y = self.rows.astype(np.int64) * height // max(1, self.shape[0])
        x = self.cols.astype(np.int64) * width // max(1, self.shape[1])
        cells = np.zeros((-(-height // 4), -(-width // 2)), dtype=np.int64)
        bits = np.array([[0, 3], [1, 4], [2, 5], [6, 7]])
        np.bitwise_or.at(cells, (y // 4, x // 2), 1 << bits[y % 4, x % 2])
        return "\n".join("".join(chr(0x2800 + cell) for cell in line) for line in cells)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparsityPattern):
            return NotImplemented
        same = self.shape == other.shape and self.nnz == other.nnz
        return same and bool(
            np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<SparsityPattern of {self.shape[0]} x {self.shape[1]} with {self.nnz} entries>"

    def __str__(self) -> str:
        return f"{self!r}\n{self.spy()}"
