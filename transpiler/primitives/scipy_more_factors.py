"""``scipy.linalg``: ``lu`` and ``eigh_tridiagonal``, and what others of NumPy's records give."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.primitives.base import Primitive, apply, opaque
from calque.transpiler.primitives.decompositions import by_gaps, np_lstsq, rows_to_columns
from calque.transpiler.primitives.eigenvalues import np_eig, np_eigvals
from calque.transpiler.primitives.linalg import conjugated, real_dtype, transposed
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.one_triangle import mirrored
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.sampling import case, cases
from calque.transpiler.primitives.scipy_linalg import (
    check_hints,
    checked,
    flag,
    for_lapack,
    matrix,
    options,
    pinv,
    refused,
    several,
    sides,
)
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks

# lu: with all of the first factor's columns and of the second's rows, that of a square matrix


def _unit(x: Any, size: Any) -> Any:
    return FUNCTIONS[np.eye](size, dtype=x.dtype)


def _completed(x: Any, size: Any, rows: bool) -> Any:
    """A factor with the unit matrix's rows or columns where it has none."""
    unit, axis = _unit(x, size), -2 if rows else -1
    count = x.shape[axis]
    rest = unit[count:] if rows else unit[:, count:]
    rest = np.broadcast_to(rest, (*x.shape[:-2], *rest.shape)) if x.ndim > 2 else rest
    return np.concatenate([x, rest], axis=axis)


def _squares(low: Any, up: Any) -> tuple[Any, Any, Any]:
    """Square factors, and the number of columns and rows that the given ones have."""
    return (
        _completed(low, low.shape[-2], False),
        _completed(up, up.shape[-1], True),
        low.shape[-1],
    )


def _lu_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (p, low, up) = tangents, outs
    low, up, k = _squares(low, up)
    inner = np.linalg.solve(low, transposed(p) @ a_dot)
    inner = transposed(np.linalg.solve(transposed(up), transposed(inner)))
    low_dot = low @ FUNCTIONS[np.tril](inner, -1)[..., :k] if _is_tall(args[0]) else None
    if low_dot is None:
        low_dot = low @ FUNCTIONS[np.tril](inner[..., :k], -1)
        return None, low_dot, np.triu(inner) @ up
    return None, low_dot, np.triu(inner)[..., :k, :] @ up


def _is_tall(a: Array) -> bool:
    return rows_to_columns(a, "Which of two sizes is smaller") >= 0


def _lu_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (_, low_bar, up_bar), (p, low, up) = cotangents, outs
    low, up, _ = _squares(low, up)
    inner: Any = None
    if low_bar is not None:
        found = transposed(low) @ low_bar
        inner = FUNCTIONS[np.tril](found, -1)
        inner = inner if _is_tall(args[0]) else _wider(inner, args[0].shape[-1])
    if up_bar is not None:
        found = np.triu(up_bar @ transposed(up))
        found = _longer(found, args[0].shape[-2]) if _is_tall(args[0]) else found
        inner = found if inner is None else inner + found
    inner = np.linalg.solve(transposed(low), inner)
    inner = transposed(np.linalg.solve(up, transposed(inner)))
    return (p @ inner,)


def _wider(x: Any, columns: Any) -> Any:
    zeros = FUNCTIONS[np.zeros]((*x.shape[:-1], columns - x.shape[-1]), x.dtype)
    return np.concatenate([x, zeros], axis=-1)


def _longer(x: Any, rows: Any) -> Any:
    zeros = FUNCTIONS[np.zeros]((*x.shape[:-2], rows - x.shape[-2], x.shape[-1]), x.dtype)
    return np.concatenate([x, zeros], axis=-2)


lu = opaque(
    "linalg.lu",
    several("lu"),
    "(m,n)->(m,m),(m,min(m,n)),(min(m,n),n)",
    lambda args, p: f"linalg.lu({{0}}{options(p)})",
    dtypes=lambda a: (real_dtype(a), linalg_dtype(a), linalg_dtype(a)),
    jvp=_lu_jvp,
    vjp=_lu_vjp,
    samples=cases(
        case((3, 3), check_finite=True),
        case((4, 2), check_finite=False),
        case((2, 3), check_finite=True),
    ),
)


@means("scipy.linalg", "lu")
def _lu(
    a: Any,
    permute_l: Any = False,
    overwrite_a: Any = False,
    check_finite: Any = True,
    p_indices: Any = False,
) -> Any:
    check_hints("lu", {"overwrite_a": overwrite_a})
    a = matrix(a, "lu")
    p, low, up = on_stacks(lu, a, check_finite=flag(check_finite, "check_finite"))
    if flag(permute_l, "permute_l"):
        return p @ low, up
    if flag(p_indices, "p_indices"):
        return np.argmax(p, axis=-1).astype(np.int32), low, up
    return p, low, up


# symmetric matrices with three diagonals


def _tridiagonal(d: Any, e: Any) -> Any:
    return np.diag(d) + np.diag(e, 1) + np.diag(e, -1)


def _tridiagonal_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (d_dot, e_dot), (d, e), (w, v) = tangents, args, outs
    d_dot = 0.0 * d if d_dot is None else d_dot
    e_dot = 0.0 * e if e_dot is None else e_dot
    inner = transposed(v) @ _tridiagonal(d_dot, e_dot) @ v
    return np.diagonal(inner), v @ by_gaps(inner, w)


def _tridiagonal_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (w_bar, v_bar), (w, v) = cotangents, outs
    if v_bar is None:
        weighted = v * w_bar
        return np.sum(weighted * v, axis=1), 2.0 * np.sum(weighted[1:] * v[:-1], axis=1)
    inner = by_gaps(transposed(v) @ v_bar, w)
    inner = inner if w_bar is None else inner + np.diag(w_bar)
    whole = v @ inner @ transposed(v)
    return np.diagonal(whole), np.diagonal(whole, 1) + np.diagonal(whole, -1)


eigh_tridiagonal = opaque(
    "linalg.eigh_tridiagonal",
    several("eigh_tridiagonal"),
    "(n),(k)->(n),(n,n)",
    lambda args, p: f"linalg.eigh_tridiagonal({{0}}, {{1}}{options(p)})",
    cupy=Lacking("np.linalg.eigh of np.diag(d) + np.diag(e, -1)"),
    jvp=_tridiagonal_jvp,
    vjp=_tridiagonal_vjp,
    samples=cases(case(np.array([1.0, 3.0, 6.0]), (2,), check_finite=True)),
)


def _chosen(select_range: Any, d: Array) -> tuple[int, int]:
    """The first and the last index of the eigenvalues that are asked for."""
    if not isinstance(select_range, (list, tuple)) or len(select_range) != 2:
        raise ValueError("select_range must be a 2-element array-like in nondecreasing order")
    low, high = (known_int(k, "An index of select_range") for k in select_range)
    if low > high:
        raise ValueError("select_range must be a 2-element array-like in nondecreasing order")
    if low < 0 or high >= known_int(d.shape[0], "The number of eigenvalues"):
        raise ValueError("select_range out of bounds")
    return low, high


@means("scipy.linalg", "eigh_tridiagonal")
def _eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: Any = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: Any = True,
    tol: Any = 0.0,
    lapack_driver: Any = "auto",
) -> Any:
    d, e = (for_lapack(FUNCTIONS[np.asarray](x), "eigh_tridiagonal") for x in (d, e))
    if d.ndim != 1 or e.ndim != 1 or "c" in (d.dtype.kind, e.dtype.kind):
        raise refused("eigh_tridiagonal", "a stack, or complex numbers,", "use calque.vmap")
    if select not in ("a", "i", 0, 2):
        raise refused("eigh_tridiagonal", f"select={select!r}")
    w, v = apply(eigh_tridiagonal, d, e, check_finite=flag(check_finite, "check_finite"))
    if select in ("i", 2):
        low, high = _chosen(select_range, d)
        w, v = w[low : high + 1], v[:, low : high + 1]
    return w if flag(eigvals_only, "eigvals_only") else (w, v)


@means("scipy.linalg", "eigvalsh_tridiagonal")
def _eigvalsh_tridiagonal(d: Any, e: Any, *args: Any, **given: Any) -> Any:
    return _eigh_tridiagonal(d, e, True, *args, **given)


# eigenvalues, least squares and pseudo-inverses by NumPy's records


@means("scipy.linalg", "eig")
def _eig(
    a: Any,
    b: Any = None,
    left: Any = False,
    right: Any = True,
    overwrite_a: Any = False,
    overwrite_b: Any = False,
    check_finite: Any = True,
    homogeneous_eigvals: Any = False,
) -> Any:
    check_hints("eig", {"overwrite_a": overwrite_a, "overwrite_b": overwrite_b})
    if b is not None or flag(left, "left") or flag(homogeneous_eigvals, "homogeneous_eigvals"):
        raise refused("eig", "b=, left=True or homogeneous_eigvals=True")
    a = checked(matrix(a, "eig"), check_finite)
    return tuple(np_eig(a)) if flag(right, "right") else np_eigvals(a)


@means("scipy.linalg", "eigvals")
def _eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: Any = False,
    check_finite: Any = True,
    homogeneous_eigvals: Any = False,
) -> Any:
    return _eig(a, b, False, False, overwrite_a, False, check_finite, homogeneous_eigvals)


@means("scipy.linalg", "lstsq")
def _lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: Any = False,
    overwrite_b: Any = False,
    check_finite: Any = True,
    lapack_driver: Any = None,
) -> Any:
    """The residuals are given for every rank, as in ``jax.numpy``."""
    check_hints("lstsq", {"overwrite_a": overwrite_a, "overwrite_b": overwrite_b})
    a, b = (checked(x, check_finite) for x in (matrix(a, "lstsq"), sides(b, "lstsq")))
    if a.ndim > 2 or b.ndim > 2:
        raise refused("lstsq", "a stack of matrices", "use calque.vmap")
    if isinstance(cond, Array):
        raise current().needs_known(cond, "The option cond")
    if lapack_driver not in (None, "gelsd", "gelsy", "gelss"):
        raise ValueError(f'LAPACK driver "{lapack_driver}" is not found')
    cut = float(np.finfo(linalg_dtype(a.type, b.type)).eps) if cond is None else float(cond)
    x, _, rank, s = np_lstsq(a, b, cut)
    gaps = b - a @ x
    residuals = np.sum(np.real(conjugated(gaps) * gaps), axis=0)
    if rows_to_columns(a, "Whether scipy.linalg.lstsq has residuals") <= 0:
        residuals = FUNCTIONS[np.zeros](0, residuals.dtype)
    return x, residuals, rank, None if lapack_driver == "gelsy" else s


@means("scipy.linalg", "pinvh")
def _pinvh(
    a: Any,
    atol: Any = None,
    rtol: Any = None,
    lower: Any = True,
    return_rank: Any = False,
    check_finite: Any = True,
) -> Any:
    if flag(return_rank, "return_rank") or isinstance(atol, Array) or isinstance(rtol, Array):
        raise refused("pinvh", "return_rank=True, or a run-time tolerance,")
    a = checked(matrix(a, "pinvh"), check_finite)  # of both triangles
    whole = mirrored(a, "L" if flag(lower, "lower") else "U")
    return on_stacks(pinv, whole, atol=atol, rtol=rtol, check_finite=False)


# forms that are not determined by the matrix alone: values, and no derivative


def _undetermined(
    name: str, signature: str, text: str, function: Any, hint: str, **more: Any
) -> Primitive:
    def no_rule(*_: Any) -> Any:
        raise NotDifferentiable(
            f"scipy.linalg.{name} has no derivative here.", current().origin, hint
        )

    return opaque(
        f"linalg.{name}",
        function,
        signature,
        text,
        cupy=Lacking(hint),
        jvp=no_rule,
        vjp=no_rule,
        **{"samples": cases(case((3, 3))), **more},
    )


schur = _undetermined(
    *("schur", "(n,n)->(n,n),(n,n)", "linalg.schur({0})", several("schur")),
    "use eigh, eig, or functions of the matrix",
)
hessenberg = _undetermined(
    *("hessenberg", "(n,n)->(n,n),(n,n)", "linalg.hessenberg({0}, calc_q=True)"),
    lambda a: several("hessenberg")(a, calc_q=True),
    "use eig, or qr",
)


def _triangular(t: Any, z: Any) -> tuple[np.dtype, ...]:
    """Complex numbers, of double precision unless all are of single precision."""
    dtype = np.result_type(linalg_dtype(t), linalg_dtype(z), np.complex64)
    return dtype, dtype


rsf2csf = _undetermined(
    *("rsf2csf", "(n,n),(n,n)->(n,n),(n,n)", "linalg.rsf2csf({0}, {1})", several("rsf2csf")),
    "use eigh, eig, or functions of the matrix",
    dtypes=_triangular,
    samples=cases(case(np.triu(np.arange(9.0).reshape(3, 3)), np.eye(3))),
)


@means("scipy.linalg", "rsf2csf")
def _rsf2csf(T: Any, Z: Any, check_finite: Any = True) -> Any:
    t, z = (checked(matrix(x, "rsf2csf"), check_finite) for x in (T, Z))
    return on_stacks(rsf2csf, t, z)


@means("scipy.linalg", "schur")
def _schur(a: Any, output: Any = "real", *_: Any, **given: Any) -> Any:
    if given or _ or output not in ("real", "r"):
        raise refused("schur", "other options than a", "give the matrix alone")
    return on_stacks(schur, matrix(a, "schur"))


@means("scipy.linalg", "hessenberg")
def _hessenberg(
    a: Any, calc_q: Any = False, overwrite_a: Any = False, check_finite: Any = True
) -> Any:
    h, q = on_stacks(hessenberg, matrix(a, "hessenberg"))
    return (h, q) if flag(calc_q, "calc_q") else h
