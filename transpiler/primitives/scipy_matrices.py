"""``scipy.linalg``: ``expm``, and matrices that are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array, current, type_of
from calque.transpiler.primitives.base import apply, opaque, zeros_like
from calque.transpiler.primitives.linalg import transposed
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.record import rule_of
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_linalg import matrix, scipys
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks

# expm. Its derivative in a direction is SciPy's expm_frechet: A. H. Al-Mohy and N. J. Higham,
# "Computing the Frechet derivative of the matrix exponential, with an application to condition
# number estimation", SIAM J. Matrix Anal. Appl. 30 (2009). The derivative of that is itself, of
# matrices of twice the size, as expm([[a, e], [0, a]]) has it in its upper right.

_SINGLE, _COMPLEX = Drawn((2, 2), "f4"), Drawn((2, 2), "c16")


def doubled(a: Any, e: Any) -> Any:
    """``[[a, e], [0, a]]``, of stacks too."""
    low = np.concatenate([zeros_like(a), a], axis=-1)
    return np.concatenate([np.concatenate([a, e], axis=-1), low], axis=-2)


def along(a: Any, e: Any) -> Any:
    """The derivative of ``expm`` at ``a`` in the direction ``e``; of stacks by larger matrices."""
    if a.ndim == 2:
        return apply(frechet, a, e)
    n = a.shape[-1]
    return apply(expm, doubled(a, e))[..., :n, n:]


def _frechet_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, e_dot), (a, e) = tangents, args
    if a_dot is None:
        return (apply(frechet, a, e_dot),)
    along = doubled(a_dot, zeros_like(a) if e_dot is None else e_dot)
    n = a.shape[-1]
    return (apply(frechet, doubled(a, e), along)[..., :n, n:],)


def _frechet_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y_bar,), (a, e), n = cotangents, args, args[0].shape[-1]
    none = zeros_like(a)
    above = np.concatenate([none, y_bar], axis=-1)
    whole = np.concatenate([above, np.concatenate([none, none], axis=-1)], axis=-2)
    back = apply(frechet, transposed(doubled(a, e)), whole)
    return back[..., :n, :n] + back[..., n:, n:], back[..., :n, n:]


frechet = opaque(
    "linalg.expm_frechet",
    lambda a, e: scipys("expm_frechet")(a, e, compute_expm=False),
    "(n,n),(n,n)->(n,n)",
    "linalg.expm_frechet({0}, {1}, compute_expm=False)",
    dtypes=lambda a, e: np.result_type(linalg_dtype(a, e), np.float64),
    cupy=(  # a block of the exponential of [[a, e], [0, a]]
        "linalg.expm(np.kron(np.eye(2), {0}) + np.kron(np.eye(2, k=1), {1}))[:len({0}), len({0}):]"
    ),
    jvp=_frechet_jvp,
    vjp=_frechet_vjp,
    samples=cases(case((3, 3), (3, 3)), case((1, 1), (1, 1)), case(_SINGLE, _SINGLE)),
)

_BLOCK = 1 << 10  # elements up to which one larger exponential beats SciPy's Python


@rule_of("lowering")(frechet)
def _in_block(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """The derivative at a small matrix: the upper right of ``expm([[a, e], [0, a]])``."""
    a, e = args
    if a.ndim != 2 or not current().dims.are_small(type_of(a).dims, _BLOCK):
        return None
    n, double = a.shape[0], frechet.infer(*args).dtype
    whole = FUNCTIONS[np.zeros]((2 * n, 2 * n), double)
    for part, rows, columns in (
        *((a, slice(None, n), slice(None, n)), (a, slice(n, None), slice(n, None))),
        (e, slice(None, n), slice(n, None)),
    ):
        whole[rows, columns] = part
    return np.copy(apply(expm, whole)[:n, n:])


expm = opaque(
    "linalg.expm",
    scipys("expm"),
    "(n,n)->(n,n)",
    "linalg.expm({0})",
    jvp=lambda dots, outs, args, params: (along(args[0], dots[0]),),
    vjp=lambda bars, outs, args, params: (along(transposed(args[0]), bars[0]),),
    samples=cases(case((3, 3)), case((1, 1)), case(_SINGLE)),
)


@means("scipy.linalg", "expm")
def _expm(A: Any) -> Any:
    return on_stacks(expm, matrix(A, "expm"))


@means("scipy.linalg", "expm_frechet")
def _expm_frechet(
    A: Any, E: Any, method: Any = None, compute_expm: Any = True, check_finite: Any = True
) -> Any:
    if method not in (None, "SPS") or not check_finite:
        message = "scipy.linalg.expm_frechet with method= or check_finite= has no rule."
        raise UnsupportedFunction(message, current().origin)
    a, e = matrix(A, "expm_frechet"), matrix(E, "expm_frechet")
    along = on_stacks(frechet, a, e)
    return (on_stacks(expm, a), along) if compute_expm else along


# block_diag, toeplitz


@means("scipy.linalg", "block_diag")
def _block_diag(*arrs: Any) -> Any:
    blocks = [np.atleast_2d(FUNCTIONS[np.asarray](a)) for a in arrs or ([],)]
    for block in blocks:
        if block.ndim > 2:
            message = f"A block of scipy.linalg.block_diag has {block.ndim} dimensions, not two."
            raise UnsupportedFunction(message, current().origin)
    rows = sum(b.shape[0] for b in blocks)
    columns = sum(b.shape[1] for b in blocks)
    whole = FUNCTIONS[np.zeros]((rows, columns), np.result_type(*(b.dtype for b in blocks)))
    row: Any = 0
    column: Any = 0
    for block in blocks:
        down, across = row + block.shape[0], column + block.shape[1]
        OPERATORS["setitem"](whole, (slice(row, down), slice(column, across)), block)
        row, column = down, across
    return whole


def _vector(x: Any) -> Array:
    x = np.atleast_1d(FUNCTIONS[np.asarray](x))
    if x.ndim != 1:
        message = "scipy.linalg.toeplitz takes vectors: versions of SciPy differ in what else."
        raise ShapeError(message, current().origin)
    return x


@means("scipy.linalg", "toeplitz")
def _toeplitz(c: Any, r: Any = None) -> Any:
    column = _vector(c)
    return toeplitz_of(column, np.conj(column) if r is None else _vector(r))


def toeplitz_of(column: Any, row: Any) -> Any:
    """The matrix with this first column and this first row."""
    values = np.concatenate([column[::-1], row[1:]])
    down = FUNCTIONS[np.arange](column.shape[0] - 1, -1, -1)
    return values[down[:, None] + FUNCTIONS[np.arange](row.shape[0])]
