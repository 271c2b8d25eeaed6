"""Systems of sparse matrices: SciPy solves them, and the systems of their derivatives."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from calque.runtime.primitive import opaque


def _result(data: Any, rows: Any, columns: Any, b: Any, **options: Any) -> Any:
    return np.zeros(b.shape, np.result_type(data.dtype, b.dtype, np.float64))


def _jvp(tangents: Any, x: Any, data: Any, rows: Any, columns: Any, b: Any) -> Any:
    d_data, _, _, d_b = tangents
    right = None if d_b is None else d_b
    if d_data is not None:
        change = np.zeros_like(x)
        np.add.at(change, rows, -_by_entry(d_data, x) * x[columns])
        right = change if right is None else right + change
    return solved(data, rows, columns, right)


def _vjp(x_bar: Any, x: Any, data: Any, rows: Any, columns: Any, b: Any) -> Any:
    b_bar = solved(data, columns, rows, x_bar)
    products = -b_bar[rows] * x[columns]
    return products if x.ndim == 1 else np.sum(products, axis=1), None, None, b_bar


def _by_entry(data: Any, x: Any) -> Any:
    return data if x.ndim == 1 else data[:, None]


@opaque(result=_result, jvp=_jvp, vjp=_vjp)
def solved(data: Any, rows: Any, columns: Any, b: Any) -> Any:
    """The solution of a system whose matrix has entries at rows and columns; equal places add."""
    sparse = importlib.import_module("scipy.sparse")
    solve = importlib.import_module("scipy.sparse.linalg").spsolve
    shape = b.shape[0], b.shape[0]
    found: np.ndarray = solve(sparse.csc_matrix((data, (rows, columns)), shape), b)
    return found


@opaque(
    result=_result,
    jvp=lambda tangents, x, *args, **options: _jvp(tangents, x, *args),
    vjp=lambda x_bar, x, *args, **options: _vjp(x_bar, x, *args),
    static=("method", "rtol", "atol", "maxiter"),
)
def iterated(
    data: Any, rows: Any, columns: Any, b: Any, *, method: str, rtol: Any, atol: Any, maxiter: Any
) -> Any:
    """The solution that an iteration of SciPy finds; raises RuntimeError where it finds none."""
    sparse = importlib.import_module("scipy.sparse")
    iterate = getattr(importlib.import_module("scipy.sparse.linalg"), method)
    matrix = sparse.csr_matrix((data, (rows, columns)), (b.shape[0], b.shape[0]))
    found, info = iterate(matrix, b, rtol=rtol, atol=atol, maxiter=maxiter)
    if info:
        raise RuntimeError(f"{method} has not converged.")
    return found
