"""``scipy.linalg``: ``eigh``, ``svd`` and ``qr``, with the rules of ``np.linalg``.

The generalized problem ``a v = w b v`` has rules of its own: M. B. Giles, "Collected matrix
derivative results for forward and reverse mode algorithmic differentiation" (2008), section 3.1,
for eigenvectors with ``v.T @ b @ v = 1``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.primitives import decompositions
from calque.transpiler.primitives.base import apply, opaque
from calque.transpiler.primitives.decompositions import (
    by_gaps,
    real_part,
    rows_to_columns,
    thin_dtypes,
)
from calque.transpiler.primitives.linalg import adjoint, by_conjugates, conjugated, real_dtype
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.one_triangle import as_read, onto_read, symmetrized
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_linalg import (
    check_hints,
    flag,
    matrix,
    options,
    positive,
    refused,
    scipys,
    several,
    spelled,
)
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks

# eigh


def _half(params: dict[str, Any]) -> str:
    """The triangle that CuPy is to read, where it is not the lower one."""
    return "" if params["lower"] else ', UPLO="U"'


def _uplo(params: dict[str, Any]) -> dict[str, str]:
    return {"uplo": "L" if params["lower"] else "U"}


_EIGH = {"lower": True, "driver": None, "check_finite": True}
_USUAL: dict[str, Any] = {"lower": True, "driver": None}
_EIGH_CASES = cases(
    case(positive(3, 3), **_EIGH),
    case(positive(3, 3), **{**_EIGH, "lower": False, "driver": "evd", "check_finite": False}),
    case(positive(2, 2, dtype="f4"), **_EIGH),
)

eigh = opaque(
    "linalg.eigh",
    several("eigh"),
    decompositions.eigh.signature,
    spelled("eigh", **_USUAL),
    cupy=lambda args, p: f"np.linalg.eigh({{0}}{_half(p)})",
    dtypes=lambda a: (real_dtype(a), linalg_dtype(a)),
    jvp=lambda dots, outs, args, p: decompositions.eigh.jvp(dots, outs, args, _uplo(p)),  # type: ignore[misc]
    vjp=lambda bars, outs, args, p: decompositions.eigh.vjp(bars, outs, args, _uplo(p)),  # type: ignore[misc]
    samples=_EIGH_CASES,
)


def _values_text(args: Any, params: dict[str, Any]) -> str:
    return f"linalg.eigh({{0}}, eigvals_only=True{options(params, **_USUAL)})"


def _values_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    v = apply(eigh, args[0], **params)[1]
    moved = as_read(tangents[0], args[0], **_uplo(params)) @ v
    return (real_part(np.sum(conjugated(v) * moved, axis=-2)),)


@by_conjugates
def _values_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    v = apply(eigh, args[0], **params)[1]
    a_bar = (v * cotangents[0][..., None, :]) @ adjoint(v)
    return (onto_read(a_bar, args[0], **_uplo(params)),)


eigenvalues = opaque(
    "linalg.eigh of values",
    lambda a, **params: scipys("eigh")(a, eigvals_only=True, **params),
    decompositions.eigvalsh.signature,
    _values_text,
    cupy=lambda args, p: f"np.linalg.eigvalsh({{0}}{_half(p)})",
    dtypes=real_dtype,
    jvp=_values_jvp,
    vjp=_values_vjp,
    samples=_EIGH_CASES,
)


def _pair_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot), (w, v) = tangents, outs
    inner = half = None
    if a_dot is not None:
        inner = adjoint(v) @ as_read(a_dot, args[0], **_uplo(params)) @ v
    if b_dot is not None:
        metric = adjoint(v) @ as_read(b_dot, args[1], **_uplo(params)) @ v
        half, scaled = 0.5 * real_part(_diagonal(metric)), metric * w[..., None, :]
        inner = -scaled if inner is None else inner - scaled
    v_dot = v @ by_gaps(inner, w)
    return real_part(_diagonal(inner)), v_dot if half is None else v_dot - v * half[..., None, :]


def _diagonal(x: Any) -> Any:
    return np.diagonal(x, axis1=-2, axis2=-1)


@by_conjugates
def _pair_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (w_bar, v_bar), (w, v) = cotangents, outs
    unit = FUNCTIONS[np.eye](v.shape[-1], dtype=v.dtype)
    inner = None if w_bar is None else w_bar[..., None, :] * unit
    along: Any = 0.0
    if v_bar is not None:
        turned = adjoint(v) @ v_bar
        inner = by_gaps(turned, w) if inner is None else inner + by_gaps(turned, w)
        along = 0.5 * real_part(turned) * unit
    back, read = adjoint(v), _uplo(params)
    a_bar, b_bar = v @ inner @ back, -(v @ (inner * w[..., None, :] + along) @ back)
    return (
        onto_read(symmetrized(a_bar), args[0], **read),
        onto_read(symmetrized(b_bar), args[1], **read),
    )


pair = opaque(
    "linalg.eigh of two",
    several("eigh"),
    "(n,n),(n,n)->(n),(n,n)",
    spelled("eigh", 2, **_USUAL),
    cupy=Lacking(
        "with c = np.linalg.inv(np.linalg.cholesky(b)): w, y = np.linalg.eigh(c @ a @ c.T), and"
        " the vectors are c.T @ y"
    ),
    dtypes=lambda *both: (real_dtype(*both), linalg_dtype(*both)),
    jvp=_pair_jvp,
    vjp=_pair_vjp,
    samples=cases(
        case(positive(3, 3), positive(3, 3), **_EIGH),
        case(positive(3, 3), positive(3, 3), **{**_EIGH, "lower": False}),
        case(positive(2, 2, dtype="f4"), positive(2, 2, dtype="f4"), **_EIGH),
    ),
)


@means("scipy.linalg", "eigh")
def _eigh(
    a: Any,
    b: Any = None,
    *,
    lower: Any = True,
    eigvals_only: Any = False,
    overwrite_a: Any = False,
    overwrite_b: Any = False,
    type: Any = 1,
    check_finite: Any = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    check_hints("eigh", {"overwrite_a": overwrite_a, "overwrite_b": overwrite_b})
    values, a = flag(eigvals_only, "eigvals_only"), matrix(a, "eigh")
    if subset_by_value is not None:
        raise refused("eigh", "subset_by_value", "the length of the result depends on the data")
    if subset_by_index is not None and not values:
        raise refused("eigh", "subset_by_index", "slice the results for all indices")
    if type != 1:
        raise refused("eigh", f"type={type!r}")
    how: dict[str, Any] = {"lower": flag(lower, "lower")}
    how["check_finite"] = flag(check_finite, "check_finite")
    how["driver"] = driver if subset_by_index is None else None
    if b is None:
        found = on_stacks(eigenvalues if values else eigh, a, **how)
    else:
        b = matrix(b, "eigh")
        found = on_stacks(pair, a, b, **how)
        found = found[0] if values else found
    if subset_by_index is not None:
        low, high = (known_int(k, "An index of subset_by_index") for k in subset_by_index)
        return found[..., low : high + 1]
    return found


@means("scipy.linalg", "eigvalsh")
def _eigvalsh(a: Any, b: Any = None, **given: Any) -> Any:
    return _eigh(a, b, eigvals_only=True, **given)


# svd

_SVD = {"check_finite": True, "lapack_driver": "gesdd"}
_SVD_CASES = cases(
    case((3, 3), **_SVD),
    case((4, 2), **{**_SVD, "lapack_driver": "gesvd"}),
    case((2, 4), **{**_SVD, "check_finite": False}),
    # no small element: what SciPy's LAPACK rounds otherwise than NumPy's is no large part of one
    case(np.array([[2.0, 1.0], [0.5, -3.0]], "f4"), **_SVD),
)

svd = opaque(
    "linalg.svd",
    lambda a, **params: scipys("svd")(a, full_matrices=False, **params),
    decompositions.svd.signature,
    lambda args, p: f"linalg.svd({{0}}, full_matrices=False{options(p, lapack_driver='gesdd')})",
    cupy="np.linalg.svd({0}, full_matrices=False)",
    dtypes=thin_dtypes,
    jvp=decompositions.svd.jvp,
    vjp=decompositions.svd.vjp,
    samples=_SVD_CASES,
)

singular_values = opaque(
    "linalg.svd of values",
    lambda a, **params: scipys("svd")(a, compute_uv=False, **params),
    decompositions.svdvals.signature,
    lambda args, p: f"linalg.svd({{0}}, compute_uv=False{options(p, lapack_driver='gesdd')})",
    cupy="np.linalg.svd({0}, compute_uv=False)",
    dtypes=real_dtype,
    jvp=lambda dots, outs, args, params: decompositions.svdvals.jvp(dots, outs, args, {}),  # type: ignore[misc]
    vjp=lambda bars, outs, args, params: decompositions.svdvals.vjp(bars, outs, args, {}),  # type: ignore[misc]
    samples=_SVD_CASES,
)

full_svd = opaque(
    "linalg.svd of all columns",
    scipys("svd"),
    decompositions.full_svd.signature,
    spelled("svd", lapack_driver="gesdd"),
    cupy="np.linalg.svd({0})",
    dtypes=thin_dtypes,
    jvp=decompositions.full_svd.jvp,
    vjp=decompositions.full_svd.vjp,
    samples=cases(case((3, 3), **_SVD), case(Drawn((2, 2), "f4"), **_SVD)),
)


@means("scipy.linalg", "svd")
def _svd(
    a: Any,
    full_matrices: Any = True,
    compute_uv: Any = True,
    overwrite_a: Any = False,
    check_finite: Any = True,
    lapack_driver: Any = "gesdd",
) -> Any:
    check_hints("svd", {"overwrite_a": overwrite_a})
    a = matrix(a, "svd")
    how = {"check_finite": flag(check_finite, "check_finite"), "lapack_driver": lapack_driver}
    if not flag(compute_uv, "compute_uv"):
        return on_stacks(singular_values, a, **how)
    square = current().dims.same(a.dims[-2], a.dims[-1])
    whole = flag(full_matrices, "full_matrices") and not square
    return on_stacks(full_svd if whole else svd, a, **how)


@means("scipy.linalg", "svdvals")
def _svdvals(a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    return _svd(a, compute_uv=False, overwrite_a=overwrite_a, check_finite=check_finite)


# qr


def _check_determined(a: Array) -> None:
    if rows_to_columns(a, "Which of two sizes is smaller") > 0:
        raise NotDifferentiable(
            "scipy.linalg.qr with mode='full' of a matrix with more rows than columns has no "
            "derivative: columns of q are not determined.",
            current().origin,
            "give mode='economic'",
        )


def _full_qr_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    _check_determined(args[0])
    return decompositions.qr.jvp(tangents, outs, args, params)  # type: ignore[misc]


def _full_qr_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    _check_determined(args[0])
    return decompositions.qr.vjp(cotangents, outs, args, params)  # type: ignore[misc]


qr = opaque(
    "linalg.qr",
    lambda a, check_finite: several("qr")(a, mode="economic", check_finite=check_finite),
    decompositions.qr.signature,
    lambda args, params: f'linalg.qr({{0}}, mode="economic"{options(params)})',
    cupy="np.linalg.qr({0})",
    jvp=decompositions.qr.jvp,
    vjp=decompositions.qr.vjp,
    samples=cases(
        case((3, 3), check_finite=True),
        case((4, 2), check_finite=False),
        case(Drawn((3, 2), "f4"), check_finite=True),
    ),
)

full_qr = opaque(
    "linalg.qr of all columns",
    several("qr"),
    "(m,n)->(m,m),(m,n)",
    spelled("qr"),
    cupy='np.linalg.qr({0}, mode="complete")',
    jvp=_full_qr_jvp,
    vjp=_full_qr_vjp,
    samples=cases(case((3, 3), check_finite=True), case((4, 2), check_finite=False)),
)


def _triangular_factor(a: Array, how: dict[str, Any]) -> Any:
    """The second factor as ``mode="r"`` gives it: with as many rows as the matrix has."""
    r = on_stacks(qr, a, **how)[1]
    more = rows_to_columns(a, "How many rows of r are zeros")
    if more <= 0:
        return r
    zeros = FUNCTIONS[np.zeros]((*a.shape[:-2], more, a.shape[-1]), r.dtype)
    return np.concatenate([r, zeros], axis=-2)


@means("scipy.linalg", "qr")
def _qr(
    a: Any,
    overwrite_a: Any = False,
    lwork: Any = None,
    mode: Any = "full",
    pivoting: Any = False,
    check_finite: Any = True,
) -> Any:
    check_hints("qr", {"overwrite_a": overwrite_a, "lwork": lwork})
    if mode not in ("full", "economic", "r"):
        raise refused("qr", f"mode={mode!r}", "give mode='economic'")
    if flag(pivoting, "pivoting"):
        raise refused("qr", "pivoting=True", "leave pivoting out")
    a = matrix(a, "qr")
    how = {"check_finite": flag(check_finite, "check_finite")}
    if mode == "r":
        return (_triangular_factor(a, how),)
    square = current().dims.same(a.dims[-2], a.dims[-1])
    return on_stacks(full_qr if mode == "full" and not square else qr, a, **how)
