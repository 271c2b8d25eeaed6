"""``scipy.sparse``: matrices made outside, and such whose entries a program computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_scipy_spatial import check

import calque
from calque.transpiler.errors import UnsupportedFunction

sparse = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")

RNG = np.random.default_rng(4)
DENSE = np.where(RNG.uniform(size=(5, 5)) < 0.5, RNG.normal(size=(5, 5)), 0.0) + 4.0 * np.eye(5)
DENSE[2, 1] = DENSE[1, 3] = 0.0
A = sparse.csr_array(DENSE)
SYMMETRIC = sparse.csr_array(DENSE + DENSE.T + 4.0 * np.eye(5))
KNOWN = {
    form: getattr(sparse, form)(DENSE)
    for form in "csr_array csc_array coo_array dia_array bsr_array csr_matrix csc_matrix".split()
}
COMPLEX = DENSE + 0.5j * DENSE.T
U = RNG.normal(size=5)
M = RNG.normal(size=(5, 3))
PLACES = A.tocoo().coords
ROWS, COLUMNS = (p.astype(np.int64) for p in PLACES)


@pytest.mark.parametrize("form", KNOWN)
def test_known_matrices(form: str) -> None:
    B = KNOWN[form]
    check(lambda x: B @ x, U)
    check(lambda x: x @ B + B.T @ x + B.dot(x), U)
    check(lambda m: B @ m, M, second=False, reverse=False)


USES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "multiply": (lambda x: A.multiply(x).sum(axis=1), (U,)),
    "star": (lambda x: (A * x).toarray(), (U,)),
    "scaled": (lambda x: (x[0] * A + A * x[1] - A / x[2] + x[3] * A.T) @ x, (U,)),
    "dense sum": (lambda m: A + m @ m.T, (M,)),
    "sums": (lambda x: (x[0] * A).sum(axis=0) + (x[0] * A).sum() + (x[1] * A).diagonal(), (U,)),
    "spsolve": (lambda b: linalg.spsolve(A, b), (U,)),
    "spsolve of columns": (lambda b: linalg.spsolve(A, b), (M,)),
    "builtin sum": (lambda x: sum([x[0] * A, A * x[1]]) @ x, (U,)),
    "known entries": (lambda x: A.data * A.nnz * x[0] + (x[1] * A).T.data, (U,)),
    "other dtype": (
        lambda x: sparse.csr_array(np.outer(x, x), dtype=np.complex128).conj().toarray().real,
        (U,),
    ),
    "splu of the adjoint": (
        lambda b: linalg.splu(sparse.csc_array(COMPLEX)).solve(b + 0j, "H").real,
        (U,),
    ),
    "splu": (lambda b: linalg.splu(A.tocsc()).solve(b), (U,)),
    "cg": (lambda b: linalg.cg(SYMMETRIC, b, rtol=1e-13)[0], (U,)),
    "gmres": (lambda b: linalg.gmres(A, b, rtol=1e-13)[0], (U,)),
    "csr": (lambda d, x: sparse.csr_array((d, A.indices, A.indptr), shape=(5, 5)) @ x, (A.data, U)),
    "csc": (
        lambda d, x: x @ sparse.csc_matrix((d, A.indices, A.indptr), shape=(5, 5)),
        (A.data, U),
    ),
    "coo": (
        lambda d, x: sparse.coo_array((d, (ROWS, COLUMNS)), shape=(5, 5)).tocsr().T @ x,
        (A.data, U),
    ),
    "equal places": (
        lambda d: sparse.coo_array((d, ([0, 0, 1], [1, 1, 0])), shape=(2, 2)).toarray(),
        (U[:3],),
    ),
    "diags": (
        lambda d, x: sparse.diags_array([d, x[1:]], offsets=[0, 1], shape=(5, 5)) @ x,
        (U + 5.0, U),
    ),
    "old diags": (lambda d: sparse.diags([d, d[1:]], [1, -2]).diagonal(1), (U,)),
    "dia": (
        lambda d: sparse.dia_array((np.outer(U[:2], d), [0, -1]), shape=(5, 5)).toarray(),
        (U,),
    ),
    "solve by data": (
        lambda d, b: linalg.spsolve(sparse.csc_array((d, (ROWS, COLUMNS)), shape=(5, 5)), b),
        (A.data, U),
    ),
    "solve columns by data": (
        lambda d, b: linalg.spsolve(sparse.csc_array((d, (ROWS, COLUMNS)), shape=(5, 5)), b),
        (A.data, M),
    ),
}


@pytest.mark.parametrize("name", USES)
def test_sparse_matrices(name: str) -> None:
    f, args = USES[name]
    check(f, *args, reverse=False)


def test_entries_of_a_known_matrix_may_change() -> None:
    B = A.copy()
    f = calque.jit(lambda x: B @ x)
    np.testing.assert_allclose(f(U), B @ U)
    B.data[:] *= 2.0
    np.testing.assert_allclose(f(U), B @ U)


@pytest.mark.filterwarnings("error::calque.runtime.call.fallback.JitFallback")
def test_products_compile() -> None:
    def energy(d: np.ndarray, x: np.ndarray) -> Any:
        total = 0.0
        for _ in range(3):
            x = A @ x / 7.0 + sparse.csr_array((d, A.indices, A.indptr), shape=(5, 5)) @ x
            total += x @ x
        return total

    np.testing.assert_allclose(calque.jit(energy)(A.data, U), energy(A.data, U))
    expected = calque.grad(energy)(A.data, U)
    np.testing.assert_allclose(calque.jit(calque.grad(energy))(A.data, U), expected)


def _unsolved(b: np.ndarray) -> Any:
    return linalg.cg(SYMMETRIC, b, maxiter=1, rtol=1e-15)[0]


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: A @ x[:3], ValueError, "mismatch"),
        (lambda x: linalg.spsolve(A, x[:3]), ValueError, "mismatch"),
        (lambda x: (x[0] * A) @ A, NotImplementedError, "pattern"),
        (lambda x: (x[0] * A)[1], NotImplementedError, "toarray"),
        (lambda x: (x[0] * A + A).data, NotImplementedError, "not known here"),
        (lambda x: sparse.csr_array(np.outer(x, x)).nnz * x, NotImplementedError, "not known here"),
        (
            lambda x: sparse.csr_array((x, (x.astype(int), x.astype(int))), (5, 5)).data,
            NotImplementedError,
            "not known here",
        ),
        (lambda x: (x[0] * A.tocoo()).tocsr().data, NotImplementedError, "not known here"),
        (lambda x: x if x[0] * A else -x, ValueError, "truth value"),
        (lambda x: (x[0] * A).sum(axis=2), ValueError, "axis"),
        (lambda x: (x[0] * A + 1.0) @ x, NotImplementedError, "nonzero scalar"),
        (lambda x: sparse.csr_array(np.outer(x, x), shape=(5, 4)) @ x, ValueError, "inconsistent"),
        (lambda x: sparse.csr_array(x) @ x, NotImplementedError, "one axis"),
        (lambda x: linalg.splu(A.tocsc()).solve(x, "X"), ValueError, "N, T, or H"),
        (lambda x: linalg.cg(SYMMETRIC, x, M=DENSE)[0], NotImplementedError, "not M"),
        (lambda x: np.sin(A * x), TypeError, "not support ufuncs"),
        (_unsolved, RuntimeError, "not converged"),
        (lambda x: linalg.eigsh(x[0] * A)[0], UnsupportedFunction, "eigsh"),
    ],
)
def test_what_is_refused(f: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        calque.grad(lambda x: np.sum(f(x) ** 2))(U)
