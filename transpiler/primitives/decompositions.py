"""Factorizations: cholesky, qr, eigh, svd. Their results are NumPy's namedtuples.

The rules of ``cholesky`` and ``eigh`` are those for symmetric matrices, as JAX's. NumPy reads one
triangle: of a matrix that is not known to be symmetric, its entries get the whole gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.primitives.base import apply, implements, opaque
from calque.transpiler.primitives.linalg import (
    adjoint,
    by_conjugates,
    conjugated,
    matrices,
    real_dtype,
    transposed,
)
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.one_triangle import as_read, onto_read, symmetrized
from calque.transpiler.primitives.sampling import Drawn, case, cases

EighResult = type(np.linalg.eigh(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))
SVDResult = type(np.linalg.svd(np.eye(1)))


def _symmetric(*shape: int, dtype: str = "f8") -> Drawn:
    def shift(x: np.ndarray) -> np.ndarray:
        return (x + np.swapaxes(x, -1, -2)) / 2 + np.diag(4.0 + 2 * np.arange(shape[-1]))

    return Drawn(shape, dtype, shift)


def _halved_diagonal(x: Any) -> Any:
    """The lower triangle, its diagonal halved."""
    return np.tril(x) - 0.5 * x * _unit(x)


def _unit(x: Any) -> Array:
    return FUNCTIONS[np.eye](x.shape[-1], dtype=x.dtype)


# cholesky


def _cholesky_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (low,) = tangents, outs
    left = np.linalg.solve(low, as_read(a_dot, args[0]))
    inner = np.linalg.solve(low, adjoint(left))
    return (low @ _halved_diagonal(inner),)


@by_conjugates
def _cholesky_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (low_bar,), (low,) = cotangents, outs
    inner = _halved_diagonal(adjoint(low) @ np.tril(low_bar))
    left = np.linalg.solve(adjoint(low), inner)
    a_bar = np.linalg.solve(adjoint(low), adjoint(left))
    return (onto_read(symmetrized(a_bar), args[0]),)


cholesky = opaque(
    "np.linalg.cholesky",
    np.linalg.cholesky,
    "(n,n)->(n,n)",
    "np.linalg.cholesky({0})",
    in_loops="cholesky_factor({0})",
    rule="cholesky(A): A_bar = solve(L.T, P) @ inv(L), P: tril(L.T @ L_bar), half its diagonal",
    jvp=_cholesky_jvp,
    vjp=_cholesky_vjp,
    fresh=True,
    samples=cases(
        case(_symmetric(3, 3)),
        case(_symmetric(2, 2, 2)),
        case(_symmetric(1, 1)),
        case(_symmetric(2, 2, dtype="f4")),
    ),
)


@implements(np.linalg.cholesky)
def np_cholesky(a: Any, /, *, upper: bool = False) -> Array:
    """``np.linalg.cholesky``."""
    a = matrices(a, "cholesky", upper)
    return adjoint(apply(cholesky, adjoint(a))) if upper else apply(cholesky, a)


# qr


def rows_to_columns(a: Array, what: str) -> int:
    """The number of rows minus that of columns; sizes that leave it open are asked for."""
    difference = current().dims.resolve(a.dims[-2] - a.dims[-1])
    if not isinstance(difference, int):
        raise current().needs_dims(a.dims[-2:], what)
    return difference


def _check_tall(a: Array) -> None:
    if rows_to_columns(a, "Which of two sizes is smaller") < 0:
        raise NotDifferentiable(
            "np.linalg.qr has a derivative only where there are at least as many rows as columns.",
            current().origin,
        )


def _qr_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (q, r) = tangents, outs
    _check_tall(args[0])
    scaled = transposed(np.linalg.solve(transposed(r), transposed(a_dot)))
    inner = adjoint(q) @ scaled
    low = np.tril(inner, -1)
    turn = low - adjoint(low)
    if inner.dtype.kind == "c":  # the diagonal of r stays real
        turn = turn + 1j * np.imag(inner) * _unit(inner)
    return q @ (turn - inner) + scaled, (inner - turn) @ r


@by_conjugates
def _qr_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (q_bar, r_bar), (q, r) = cotangents, outs
    _check_tall(args[0])
    total: Any = None if r_bar is None else r @ adjoint(r_bar)
    if q_bar is not None:
        back = adjoint(q_bar) @ q
        total = -back if total is None else total - back
    low = FUNCTIONS[np.tril](total, -1)
    diagonal = np.real(total) if total.dtype.kind == "c" else total
    right = q @ (low + adjoint(low) + _unit(total) * diagonal)
    if q_bar is not None:
        right = right + q_bar
    return (adjoint(np.linalg.solve(r, adjoint(right))),)


qr = opaque(
    "np.linalg.qr",
    np.linalg.qr,
    "(m,n)->(m,min(m,n)),(min(m,n),n)",
    "np.linalg.qr({0})",
    jvp=_qr_jvp,
    vjp=_qr_vjp,
    samples=cases(case((3, 3)), case((4, 2)), case((2, 3, 2)), case(Drawn((3, 2), "f4"))),
)


@implements(np.linalg.qr)
def np_qr(a: Any, mode: str = "reduced") -> Any:
    """``np.linalg.qr``: reduced, or the triangular factor alone."""
    if mode not in ("reduced", "r"):
        raise UnsupportedFunction(f"np.linalg.qr with mode={mode!r} has no rule.", current().origin)
    q, r = apply(qr, matrices(a, "qr"))
    return r if mode == "r" else QRResult(q, r)


# eigh


def real_part(x: Any) -> Any:
    return np.real(x) if x.dtype.kind == "c" else x


def by_gaps(x: Any, w: Array) -> Any:
    """``x / (w[j] - w[i])``; zero on the diagonal, and where x is between two equal values."""
    x, gaps = x - x * _unit(w), w[..., None, :] - w[..., :, None]
    return x / np.where((x == 0) & (gaps == 0), 1.0, gaps)


def _eigh_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (w, v) = tangents, outs
    inner = adjoint(v) @ as_read(a_dot, args[0], params["uplo"]) @ v
    return real_part(np.diagonal(inner, axis1=-2, axis2=-1)), v @ by_gaps(inner, w)


@by_conjugates
def _eigh_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (w_bar, v_bar), (w, v) = cotangents, outs
    if v_bar is None:
        a_bar = (v * w_bar[..., None, :]) @ adjoint(v)
        return (onto_read(a_bar, args[0], params["uplo"]),)
    inner = by_gaps(adjoint(v) @ v_bar, w)
    if w_bar is not None:
        inner = inner + w_bar[..., None, :] * _unit(w)
    a_bar = symmetrized(v @ inner @ adjoint(v))
    return (onto_read(a_bar, args[0], params["uplo"]),)


eigh = opaque(
    "np.linalg.eigh",
    lambda a, uplo: np.linalg.eigh(a, uplo),
    "(n,n)->(n),(n,n)",
    lambda args, p: "np.linalg.eigh({0}" + ("" if p["uplo"] == "L" else ', "U"') + ")",
    dtypes=lambda a: (real_dtype(a), linalg_dtype(a)),
    jvp=_eigh_jvp,
    vjp=_eigh_vjp,
    samples=cases(
        case(_symmetric(3, 3), uplo="L"),
        case(_symmetric(2, 2, 2), uplo="U"),
        case(_symmetric(1, 1), uplo="L"),
        case(_symmetric(2, 2, dtype="f4"), uplo="L"),
    ),
)


@implements(np.linalg.eigh)
def np_eigh(a: Any, UPLO: str = "L") -> Any:
    """``np.linalg.eigh``: eigenvalues and eigenvectors, a namedtuple."""
    return EighResult(*apply(eigh, matrices(a, "eigh"), uplo=UPLO.upper()))


def _eigvalsh_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    v = np_eigh(args[0], params["uplo"]).eigenvectors
    change = np.sum(conjugated(v) * (as_read(tangents[0], args[0], params["uplo"]) @ v), axis=-2)
    return (real_part(change),)


@by_conjugates
def _eigvalsh_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    v = np_eigh(args[0], params["uplo"]).eigenvectors
    a_bar = (v * cotangents[0][..., None, :]) @ adjoint(v)
    return (onto_read(a_bar, args[0], params["uplo"]),)


eigvalsh = opaque(
    "np.linalg.eigvalsh",
    lambda a, uplo: np.linalg.eigvalsh(a, uplo),
    "(n,n)->(n)",
    lambda args, p: "np.linalg.eigvalsh({0}" + ("" if p["uplo"] == "L" else ', "U"') + ")",
    dtypes=real_dtype,
    jvp=_eigvalsh_jvp,
    vjp=_eigvalsh_vjp,
    samples=cases(case(_symmetric(3, 3), uplo="L"), case(_symmetric(2, 2, 2), uplo="U")),
)


@implements(np.linalg.eigvalsh)
def np_eigvalsh(a: Any, UPLO: str = "L") -> Array:
    """``np.linalg.eigvalsh``."""
    return apply(eigvalsh, matrices(a, "eigvalsh"), uplo=UPLO.upper())


# svd


def _ratio(x: Any, s: Any) -> Any:
    """``x / s``; zero where both are: what nothing depends on belongs to a singular value of 0."""
    return x / np.where((x == 0) & (s == 0), 1.0, s)


def _svd_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (u, s, vt) = tangents, outs
    row = s[..., None, :]
    v, uh = adjoint(vt), adjoint(u)
    inner = uh @ a_dot @ v
    left = by_gaps(inner * row + adjoint(inner * row), s * s)
    right = by_gaps(row * adjoint(inner) + adjoint(row * adjoint(inner)), s * s)
    if inner.dtype.kind == "c":  # the phase of a pair of vectors is left to u
        left = left + 1j * np.imag(inner) * _unit(inner) / row
    u_dot = u @ left + (a_dot @ v - u @ inner) / row
    v_dot = v @ right + (adjoint(a_dot) @ u - v @ adjoint(inner)) / row
    return u_dot, real_part(np.diagonal(inner, axis1=-2, axis2=-1)), adjoint(v_dot)


@by_conjugates
def _svd_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (u_bar, s_bar, vt_bar), (u, s, vt) = cotangents, outs
    row, column = s[..., None, :], s[..., :, None]
    inner = None if s_bar is None else s_bar[..., None, :] * _unit(s)
    outside = None
    if u_bar is not None:
        given = adjoint(u) @ u_bar
        turned = by_gaps(given, s * s)
        inner = _plus(inner, (turned + adjoint(turned)) * row)
        if given.dtype.kind == "c":
            inner = inner + _ratio(1j * np.imag(given) * _unit(given), row)
        rest = _ratio(u_bar - u @ (adjoint(u) @ u_bar), row)
        outside = rest @ vt
    if vt_bar is not None:
        turned = by_gaps(vt @ adjoint(vt_bar), s * s)
        inner = _plus(inner, column * (turned + adjoint(turned)))
        rest = _ratio(vt_bar - (vt_bar @ adjoint(vt)) @ vt, column)
        outside = _plus(outside, u @ rest)
    return (_plus(u @ inner @ vt, outside),)


def _plus(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def thin_dtypes(a: Any) -> tuple[np.dtype, ...]:
    """The dtypes of singular vectors, values and vectors."""
    return linalg_dtype(a), real_dtype(a), linalg_dtype(a)


svd = opaque(
    "np.linalg.svd",
    lambda a: np.linalg.svd(a, full_matrices=False),
    "(m,n)->(m,min(m,n)),(min(m,n)),(min(m,n),n)",
    "np.linalg.svd({0}, full_matrices=False)",
    dtypes=thin_dtypes,
    jvp=_svd_jvp,
    vjp=_svd_vjp,
    samples=cases(
        case((3, 3)), case((4, 2)), case((2, 4)), case((2, 3, 2)), case(Drawn((2, 2), "f4"))
    ),
)


def _svdvals_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    u, _, vt = apply(svd, args[0])
    return (real_part(np.sum(conjugated(u) * (tangents[0] @ adjoint(vt)), axis=-2)),)


def _svdvals_gradient(s_bar: Any, a: Any) -> tuple[Any, ...]:
    u, _, vt = apply(svd, a)
    return ((u * s_bar[..., None, :]) @ vt,)


@by_conjugates
def _svdvals_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return _svdvals_gradient(cotangents[0], args[0])


svdvals = opaque(
    "np.linalg.svdvals",
    np.linalg.svdvals,
    "(m,n)->(min(m,n))",
    "np.linalg.svd({0}, compute_uv=False)",
    dtypes=real_dtype,
    jvp=_svdvals_jvp,
    vjp=_svdvals_vjp,
    samples=cases(case((3, 2)), case((2, 3)), case((2, 2, 2))),
)


def _check_square(a: Array) -> None:
    """The factors of a square matrix are those of the thin one."""
    if rows_to_columns(a, "Whether a matrix is square"):
        raise NotDifferentiable(
            "np.linalg.svd with full_matrices=True has no derivative.",
            current().origin,
            "give full_matrices=False",
        )


def _full_svd_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    _check_square(args[0])
    return _svd_jvp(tangents, outs, args, params)


def _full_svd_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    u_bar, s_bar, vt_bar = cotangents
    if u_bar is None and vt_bar is None:
        return _svdvals_vjp((s_bar,), outs, args, params)
    _check_square(args[0])
    return _svd_vjp(cotangents, outs, args, params)


# what is in the columns besides those of the thin one is not determined
full_svd = opaque(
    "np.linalg.svd of all columns",
    np.linalg.svd,
    "(m,n)->(m,m),(min(m,n)),(n,n)",
    "np.linalg.svd({0})",
    dtypes=thin_dtypes,
    jvp=_full_svd_jvp,
    vjp=_full_svd_vjp,
    samples=cases(case((3, 3)), case((2, 2, 2)), case(Drawn((2, 2), "f4"))),
)


@implements(np.linalg.svd)
def np_svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """``np.linalg.svd``; of square matrices the thin one is all there is."""
    a = matrices(a, "svd")
    if hermitian:
        raise UnsupportedFunction(
            "np.linalg.svd with hermitian=True has no rule.", current().origin
        )
    if not compute_uv:
        return apply(svdvals, a)
    square = current().dims.same(a.dims[-2], a.dims[-1])
    return SVDResult(*apply(full_svd if full_matrices and not square else svd, a))


FUNCTIONS[np.linalg.svdvals] = lambda a, /: np_svd(a, compute_uv=False)


# lstsq


def _columns(x: Any) -> Any:
    return x[:, None] if x.ndim == 1 else x


def _is_tall(a: Array) -> bool:
    """True if a matrix has more rows than columns, so that there are residuals."""
    return rows_to_columns(a, "Whether np.linalg.lstsq has residuals") > 0


def _lstsq_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot), (a, b), x = tangents, args, outs[0]
    p, misfit, right, s_dot = np.linalg.pinv(a), b - a @ x, b_dot, None
    if a_dot is not None:
        right = -(a_dot @ x) if b_dot is None else b_dot - a_dot @ x
        (s_dot,) = _svdvals_jvp((a_dot,), outs, (a,), {})
    x_dot, residuals_dot = p @ right, None
    if a_dot is not None:
        back = adjoint(a_dot) @ (adjoint(p) @ x)
        x_dot = x_dot + p @ (adjoint(p) @ (adjoint(a_dot) @ misfit)) + back - p @ (a @ back)
    if _is_tall(a):
        products = conjugated(_columns(misfit)) * _columns(right)
        residuals_dot = 2.0 * real_part(np.sum(products, axis=0))
    return x_dot, residuals_dot, None, s_dot


@by_conjugates
def _lstsq_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar, residuals_bar, _, s_bar), (a, b), x = cotangents, args, outs[0]
    a_bar = b_bar = None
    misfit = _columns(b - a @ x)
    if x_bar is not None:
        p = np.linalg.pinv(a)
        b_bar = adjoint(p) @ x_bar
        other = _columns(x_bar - adjoint(a) @ b_bar)
        a_bar = misfit @ adjoint(_columns(p @ b_bar)) + _columns(adjoint(p) @ x) @ adjoint(other)
        a_bar = a_bar - _columns(b_bar) @ adjoint(_columns(x))
    if residuals_bar is not None and _is_tall(a):
        change = 2.0 * misfit * residuals_bar
        a_bar = _plus(a_bar, -change @ adjoint(_columns(x)))
        b_bar = _plus(b_bar, change[:, 0] if b.ndim == 1 else change)
    if s_bar is not None:
        a_bar = _plus(a_bar, _svdvals_gradient(s_bar, a)[0])
    return a_bar, b_bar


lstsq = opaque(
    "np.linalg.lstsq",
    lambda a, b, rcond: np.linalg.lstsq(a, b, rcond),
    "(m,n),(m,k?)->(n,k?),(r),(),(min(m,n))",
    lambda args, p: f"np.linalg.lstsq({{0}}, {{1}}, rcond={p['rcond']})",
    dtypes=lambda *ts: (linalg_dtype(*ts), real_dtype(*ts), np.dtype("i4"), real_dtype(*ts)),
    jvp=_lstsq_jvp,
    vjp=_lstsq_vjp,
    samples=cases(
        case((4, 2), (4,), rcond=None),
        case((4, 2), (4, 3), rcond=None),
        case((2, 3), (2,), rcond=None),
    ),
)


@implements(np.linalg.lstsq)
def np_lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Array, ...]:
    """``np.linalg.lstsq``; the derivative takes the rank to stay as it is."""
    a = matrices(a, "lstsq")
    return apply(lstsq, a, FUNCTIONS[np.asarray](b), rcond=rcond)
