"""``scipy.linalg``: systems with a banded, Toeplitz or circulant matrix.

A derivative is one more system of the same kind, and a product by the same structure: no matrix is
made. ``x`` with ``a @ x == b`` changes by the solution for ``b_dot - a_dot @ x``; the way back is a
system with the adjoint matrix, whose bands or first row and column are those of ``a`` moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.primitives.base import apply, opaque
from calque.transpiler.primitives.linalg import by_conjugates, conjugated
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_linalg import (
    check_hints,
    checked,
    flag,
    for_lapack,
    options,
    refused,
    scipys,
    sides,
)
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import check_stacks, on_stacks

NOT_ON_GPU = Lacking("solve with the whole matrix: np.linalg.solve")

# bands: row r, column j holds the element in row j + r - upper of the matrix


def _arange(*args: Any) -> Any:
    return FUNCTIONS[np.arange](*args)


def _places(ab: Any, shift: Any) -> tuple[Any, Any, Any]:
    """Rows of the bands, and for each the columns moved by ``shift``, and where they are inside."""
    rows, size = ab.shape[-2], ab.shape[-1]
    row = _arange(rows)[:, None]
    place = _arange(size) + shift(row)
    inside = (place >= 0) & (place < size)
    return row, FUNCTIONS[np.clip](place, 0, size - 1), inside


def _entries(x: Any, place: Any) -> Any:
    """The rows of a vector or of matrices at places."""
    return x[place] if x.ndim == 1 else x[..., place, :]


def banded_product(ab: Any, x: Any, upper: Any) -> Any:
    """The matrix of bands times ``x``."""
    row, place, inside = _places(ab, lambda r: upper - r)
    kept = np.where(inside, ab[..., row, place], 0.0)
    if x.ndim == 1:
        return np.sum(kept * x[place], axis=-2)
    return np.sum(kept[..., None] * _entries(x, place), axis=-3)


def onto_bands(ab: Any, y: Any, x: Any, upper: Any) -> Any:
    """The bands of ``y @ x.T.conj()``."""
    _, place, inside = _places(ab, lambda r: r - upper)
    if x.ndim == 1:
        return np.where(inside, y[place], 0.0) * conjugated(x)
    products = _entries(y, place) * conjugated(x)[..., None, :, :]
    return np.where(inside, np.sum(products, axis=-1), 0.0)


def adjoint_bands(ab: Any, lower: Any, upper: Any) -> Any:
    """The bands of the adjoint matrix, which has ``lower`` of them above the diagonal."""
    row, place, inside = _places(ab, lambda r: r - lower)
    return np.where(inside, conjugated(ab)[..., lower + upper - row, place], 0.0)


def _banded_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (ab_dot, b_dot), (ab, _), (x,) = tangents, args, outs
    right = b_dot
    if ab_dot is not None:
        change = banded_product(ab_dot, x, params["upper"])
        right = -change if b_dot is None else b_dot - change
    return (apply(solve_banded, ab, right, **params),)


@by_conjugates
def _banded_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (ab, _), (x,) = cotangents, args, outs
    lower, upper = params["lower"], params["upper"]
    turned = adjoint_bands(ab, lower, upper)
    b_bar = apply(solve_banded, turned, x_bar, **{**params, "lower": upper, "upper": lower})
    return -onto_bands(ab, b_bar, x, upper), b_bar


def _dominant_row(row: int, *shape: int, dtype: str = "f8") -> Drawn:
    """Bands with a large diagonal."""
    return Drawn(shape, dtype, lambda x: x + 9.0 * (np.arange(shape[0])[:, None] == row))


solve_banded = opaque(
    "linalg.solve_banded",
    lambda ab, b, lower, upper, **p: scipys("solve_banded")((lower, upper), ab, b, **p),
    "(r,n),(n,k?)->(n,k?)",
    lambda args, p: f"linalg.solve_banded(({p['lower']}, {p['upper']}), {{0}}, {{1}}{options(p)})",
    cupy=NOT_ON_GPU,
    jvp=_banded_jvp,
    vjp=_banded_vjp,
    samples=cases(
        case(_dominant_row(1, 4, 5), (5,), lower=2, upper=1, check_finite=True),
        case(_dominant_row(1, 2, 4), (4, 2), lower=0, upper=1, check_finite=False),
        case(
            *(_dominant_row(1, 3, 3, dtype="f4"), Drawn((3,), "f4")),
            lower=1,
            upper=1,
            check_finite=True,
        ),
    ),
)


def given_bands(ab: Any, name: str) -> Array:
    ab = FUNCTIONS[np.asarray](ab)
    if ab.ndim < 2:
        message = f"scipy.linalg.{name}: bands are the rows of a matrix"
        raise ShapeError(message, current().origin)
    if ab.ndim > 2:
        check_stacks(name)
    return for_lapack(ab, name)


@means("scipy.linalg", "solve_banded")
def _solve_banded(
    l_and_u: Any,
    ab: Any,
    b: Any,
    overwrite_ab: Any = False,
    overwrite_b: Any = False,
    check_finite: Any = True,
) -> Any:
    check_hints("solve_banded", {"overwrite_ab": overwrite_ab, "overwrite_b": overwrite_b})
    lower, upper = (known_int(k, "A number of diagonals") for k in l_and_u)
    ab, b = given_bands(ab, "solve_banded"), sides(b, "solve_banded")
    rows = current().dims.resolve(ab.dims[-2])
    if isinstance(rows, int) and rows != lower + upper + 1:
        raise ValueError(
            "invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({lower + upper + 1}) does not equal ab.shape[0] ({rows})"
        )
    how = {"lower": lower, "upper": upper, "check_finite": flag(check_finite, "check_finite")}
    return on_stacks(solve_banded, ab, b, **how)


# Hermitian matrices that are positive definite: the diagonal, and bands on one side of it


def lower_half(ab: Any, lower: bool) -> Any:
    """Bands below the diagonal, of those on either side; and back."""
    return ab if lower else adjoint_bands(ab, 0, ab.shape[-2] - 1)


def both_halves(low: Any) -> Any:
    """All bands, of the diagonal, whose real part is read, and those below it."""
    if low.dtype.kind == "c":
        low = np.concatenate([np.real(low[..., :1, :]) + 0j, low[..., 1:, :]], axis=-2)
    above = adjoint_bands(low, low.shape[-2] - 1, 0)
    return np.concatenate([above[..., :-1, :], low], axis=-2)


def one_half(bands: Any, width: Any) -> Any:
    """The cotangent of the diagonal and the bands below it, by that of all bands."""
    above = bands[..., : width + 1, :]
    turned = adjoint_bands(above, 0, width)
    diagonal = np.real(bands[..., width : width + 1, :])
    below = bands[..., width + 1 :, :] + turned[..., 1:, :]
    return np.concatenate([diagonal, below], axis=-2)


def _hermitian_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (ab_dot, b_dot), (ab, _), (x,) = tangents, args, outs
    right = b_dot
    if ab_dot is not None:
        bands = both_halves(lower_half(ab_dot, params["lower"]))
        change = banded_product(bands, x, ab.shape[-2] - 1)
        right = -change if b_dot is None else b_dot - change
    return (apply(solveh_banded, ab, right, **params),)


@by_conjugates
def _hermitian_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (ab, _), (x,) = cotangents, args, outs
    b_bar, width = apply(solveh_banded, ab, x_bar, **params), ab.shape[-2] - 1
    bands = onto_bands(both_halves(ab), b_bar, x, width)
    low_bar = -one_half(bands, width)
    return low_bar if params["lower"] else adjoint_bands(low_bar, width, 0), b_bar


solveh_banded = opaque(
    "linalg.solveh_banded",
    scipys("solveh_banded"),
    "(r,n),(n,k?)->(n,k?)",
    lambda args, p: f"linalg.solveh_banded({{0}}, {{1}}{options(p, lower=False)})",
    cupy=NOT_ON_GPU,
    jvp=_hermitian_jvp,
    vjp=_hermitian_vjp,
    samples=cases(
        case(_dominant_row(2, 3, 3), (3,), lower=False, check_finite=True),
        case(_dominant_row(0, 2, 2), (2, 2), lower=True, check_finite=False),
        case(
            *(_dominant_row(1, 2, 2, dtype="f4"), Drawn((2,), "f4")),
            lower=False,
            check_finite=True,
        ),
    ),
)


@means("scipy.linalg", "solveh_banded")
def _solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: Any = False,
    overwrite_b: Any = False,
    lower: Any = False,
    check_finite: Any = True,
) -> Any:
    check_hints("solveh_banded", {"overwrite_ab": overwrite_ab, "overwrite_b": overwrite_b})
    ab, b = given_bands(ab, "solveh_banded"), sides(b, "solveh_banded")
    how = {"lower": flag(lower, "lower"), "check_finite": flag(check_finite, "check_finite")}
    return on_stacks(solveh_banded, ab, b, **how)


# Toeplitz matrices: products by the Fourier transform of a circulant matrix around them


def _fft(x: Any, size: Any) -> Any:
    return np.fft.fft(x, n=size, axis=0 if x.ndim == 1 else -2)


def _back(x: Any, real: bool) -> Any:
    found = np.fft.ifft(x, axis=0 if x.ndim == 1 else -2)
    return np.real(found) if real else found


def _spread(values: Any, x: Any) -> Any:
    """A vector as a column for each matrix, where ``x`` is made of matrices."""
    return values if x.ndim == 1 else values[..., None]


def _is_real(*arrays: Any) -> bool:
    return all(x.dtype.kind != "c" for x in arrays)


def _toeplitz_product(c: Any, r: Any, x: Any) -> Any:
    """The Toeplitz matrix of a first column and a first row, times ``x``."""
    values = np.concatenate([c, r[..., :0:-1]], axis=-1)
    size = values.shape[-1]
    moved = np.fft.fft(values, axis=-1)
    product = _back(_spread(moved, x) * _fft(x, size), _is_real(c, r, x))
    return product[: c.shape[-1]] if x.ndim == 1 else product[..., : c.shape[-1], :]


def _onto_toeplitz(y: Any, x: Any) -> tuple[Any, Any]:
    """The sums along the diagonals of ``y @ x.T.conj()``: below the main one, and above."""
    size = x.shape[0] if x.ndim == 1 else x.shape[-2]
    whole = 2 * size - 1
    lags = _back(_fft(y, whole) * np.conj(_fft(x, whole)), _is_real(y, x))
    lags = lags if x.ndim == 1 else np.sum(lags, axis=-1)
    above = lags[..., size:][..., ::-1]
    return lags[..., :size], np.concatenate([0.0 * lags[..., :1], above], axis=-1)


def _toeplitz_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (c_dot, r_dot, b_dot), (c, r, _), (x,) = tangents, args, outs
    right = b_dot
    if c_dot is not None or r_dot is not None:
        c_dot = 0.0 * c if c_dot is None else c_dot
        change = _toeplitz_product(c_dot, 0.0 * r if r_dot is None else r_dot, x)
        right = -change if b_dot is None else b_dot - change
    return (apply(solve_toeplitz, c, r, right, **params),)


@by_conjugates
def _toeplitz_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (c, r, _), (x,) = cotangents, args, outs
    first = np.concatenate([c[..., :1], r[..., 1:]], axis=-1)
    b_bar = apply(solve_toeplitz, conjugated(first), conjugated(c), x_bar, **params)
    c_bar, r_bar = _onto_toeplitz(b_bar, x)
    return -c_bar, -r_bar, b_bar


def _dominant(*shape: int, dtype: str = "f8") -> Drawn:
    """A first column whose first element is large."""
    return Drawn(shape, dtype, lambda x: x + 5.0 * (np.arange(shape[-1]) == 0))


solve_toeplitz = opaque(
    "linalg.solve_toeplitz",
    lambda c, r, b, **p: scipys("solve_toeplitz")((c, r), b, **p),
    "(n),(n),(n,k?)->(n,k?)",
    lambda args, p: f"linalg.solve_toeplitz(({{0}}, {{1}}), {{2}}{options(p)})",
    dtypes=lambda *types: np.result_type(np.float64, *(t.dtype for t in types)),
    cupy=NOT_ON_GPU,
    jvp=_toeplitz_jvp,
    vjp=_toeplitz_vjp,
    samples=cases(
        case(_dominant(4), (4,), (4,), check_finite=True),
        case(_dominant(3), (3,), (3, 2), check_finite=False),
        case(_dominant(2, dtype="f4"), Drawn((2,), "f4"), Drawn((2,), "f4"), check_finite=True),
    ),
)


def _column_and_row(given: Any, name: str) -> tuple[Array, Array]:
    pair = isinstance(given, tuple)
    column = FUNCTIONS[np.atleast_1d](given[0] if pair else given)
    row = FUNCTIONS[np.atleast_1d](given[1]) if pair else conjugated(column)
    if max(column.ndim, row.ndim) > 1:
        check_stacks(name, 17)
    return for_lapack(column, name), for_lapack(row, name)


@means("scipy.linalg", "solve_toeplitz")
def _solve_toeplitz(c_or_cr: Any, b: Any, check_finite: Any = True) -> Any:
    c, r = _column_and_row(c_or_cr, "solve_toeplitz")
    b, check = sides(b, "solve_toeplitz"), flag(check_finite, "check_finite")
    return on_stacks(solve_toeplitz, c, r, b, check_finite=check)


@means("scipy.linalg", "matmul_toeplitz")
def _matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: Any = False, workers: Any = None) -> Any:
    c, r = _column_and_row(c_or_cr, "matmul_toeplitz")
    x = sides(x, "matmul_toeplitz")
    current().unify(r.dims[-1], x.dims[-1 if x.ndim == 1 else -2])
    c, r, x = (checked(v, check_finite) for v in (c, r, x))
    double = np.result_type(np.float64, c.dtype, r.dtype, x.dtype)
    cast = FUNCTIONS["cast"]
    return _toeplitz_product(cast(c, double), cast(r, double), x)


# circulant matrices


def _circulant_product(c: Any, x: Any) -> Any:
    size = c.shape[0]
    return _back(_spread(_fft(c, size), x) * _fft(x, size), _is_real(c, x))


def _circulant_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (c_dot, b_dot), (c, _), (x,) = tangents, args, outs
    right = b_dot
    if c_dot is not None:
        change = _circulant_product(c_dot, x)
        right = -change if b_dot is None else b_dot - change
    return (apply(solve_circulant, c, right),)


@by_conjugates
def _circulant_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (c, _), (x,) = cotangents, args, outs
    turned = np.concatenate([c[:1], c[:0:-1]])
    b_bar, size = apply(solve_circulant, conjugated(turned), x_bar), c.shape[0]
    lags = _back(_fft(b_bar, size) * np.conj(_fft(x, size)), _is_real(b_bar, x))
    return -(lags if x.ndim == 1 else np.sum(lags, axis=-1)), b_bar


solve_circulant = opaque(
    "linalg.solve_circulant",
    scipys("solve_circulant"),
    "(n),(n,k?)->(n,k?)",
    "linalg.solve_circulant({0}, {1})",
    dtypes=lambda *types: np.result_type(np.float64, *(t.dtype for t in types)),
    cupy=NOT_ON_GPU,
    jvp=_circulant_jvp,
    vjp=_circulant_vjp,
    samples=cases(case(_dominant(4), (4,)), case(_dominant(3), (3, 2))),
)


@means("scipy.linalg", "solve_circulant")
def _solve_circulant(
    c: Any,
    b: Any,
    singular: Any = "raise",
    tol: Any = None,
    caxis: Any = -1,
    baxis: Any = 0,
    outaxis: Any = 0,
) -> Any:
    if singular != "raise" or tol is not None:
        raise refused("solve_circulant", "singular= or tol=")
    c, b = FUNCTIONS[np.atleast_1d](c), sides(b, "solve_circulant")
    if c.ndim > 1 or b.ndim > 2 or (caxis, baxis, outaxis) not in ((-1, 0, 0), (0, 0, 0)):
        raise refused("solve_circulant", "several matrices, or other axes", "use calque.vmap")
    return apply(solve_circulant, for_lapack(c, "solve_circulant"), b)
