"""``scipy.linalg``: Cholesky and LU factors, and the systems that are solved with them.

``cholesky`` is upper unless it is told otherwise, and reads one triangle: so do the derivatives, as
in ``one_triangle``. ``cho_factor`` leaves in the other triangle what was there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, current
from calque.transpiler.primitives import scipy_in_cupy
from calque.transpiler.primitives.base import apply, opaque
from calque.transpiler.primitives.linalg import (
    SYSTEM,
    adjoint,
    by_conjugates,
    conjugated,
    transposed,
)
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.one_triangle import as_read, onto_read, symmetrized
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_linalg import (
    check_hints,
    flag,
    matrix,
    options,
    outer,
    positive,
    regular,
    scipys,
    several,
    sides,
    solve_triangular,
    spelled,
    transposition,
    triangle,
)
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks


def _halved(x: Any, lower: bool) -> Any:
    """One triangle, its diagonal halved."""
    unit = FUNCTIONS[np.eye](x.shape[-1], dtype=x.dtype)
    return triangle(x, lower) - 0.5 * x * unit


def _substituted(c: Any, b: Any, lower: bool, turned: bool, unit: bool = False) -> Any:
    """``b`` over a triangle of ``c``, or over that transposed."""
    how = {"trans": int(turned), "lower": lower, "unit_diagonal": unit, "check_finite": True}
    return apply(solve_triangular, c, b, **how)


# cholesky


def _divided(c: Any, b: Any, lower: bool, turned: bool) -> Any:
    """``b`` over a triangle of ``c``, or over the adjoint of that."""
    return _substituted(conjugated(c) if turned else c, b, lower, turned)


def _factor_dot(a_dot: Any, a: Any, factor: Any, lower: bool) -> Any:
    """The tangent of a Cholesky factor."""
    left = _divided(factor, as_read(a_dot, a, "L" if lower else "U"), lower, not lower)
    inner = _halved(_divided(factor, adjoint(left), lower, not lower), lower)
    return factor @ inner if lower else inner @ factor


def _factored_bar(c_bar: Any, a: Any, factor: Any, lower: bool) -> Any:
    """The gradient by a matrix, from that by its Cholesky factor."""
    factor_bar = triangle(c_bar, lower)
    if lower:
        inner = _halved(adjoint(factor) @ factor_bar, True)
    else:
        inner = _halved(factor @ adjoint(factor_bar), True)
    left = _divided(factor, inner, lower, lower)
    a_bar = symmetrized(_divided(factor, adjoint(left), lower, lower))
    return onto_read(a_bar, a, "L" if lower else "U")


@by_conjugates
def _cholesky_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (_factored_bar(cotangents[0], args[0], outs[0], params["lower"]),)


_FACTOR_CASES = cases(
    case(positive(3, 3), lower=False, check_finite=True),
    case(positive(3, 3), lower=True, check_finite=False),
    case(positive(1, 1), lower=False, check_finite=True),
    case(positive(2, 2, dtype="f4"), lower=False, check_finite=True),
)

cholesky = opaque(
    "linalg.cholesky",
    scipys("cholesky"),
    "(n,n)->(n,n)",
    spelled("cholesky", lower=False),
    cupy=lambda args, p: scipy_in_cupy.cholesky(p["lower"]),
    jvp=lambda dots, outs, args, p: (_factor_dot(dots[0], args[0], outs[0], p["lower"]),),
    vjp=_cholesky_vjp,
    samples=_FACTOR_CASES,
)


def _decomposed(name: str, a: Any, lower: Any, overwrite_a: Any, check_finite: Any) -> Any:
    check_hints(name, {"overwrite_a": overwrite_a})
    a = matrix(a, name)
    return a, {"lower": flag(lower, "lower"), "check_finite": flag(check_finite, "check_finite")}


@means("scipy.linalg", "cholesky")
def _cholesky(
    a: Any, lower: Any = False, overwrite_a: Any = False, check_finite: Any = True
) -> Any:
    a, how = _decomposed("cholesky", a, lower, overwrite_a, check_finite)
    return on_stacks(cholesky, a, **how)


# cho_factor, cho_solve


def _beside(x: Any, lower: bool) -> Any:
    """The triangle that a factor does not fill."""
    return triangle(x, not lower, 1)


def _cho_factor_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (a,), (c,), lower = tangents, args, outs, params["lower"]
    return (_factor_dot(a_dot, a, triangle(c, lower), lower) + _beside(a_dot, lower),)


@by_conjugates
def _cho_factor_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (c_bar,), (a,), (c,), lower = cotangents, args, outs, params["lower"]
    return (_factored_bar(c_bar, a, triangle(c, lower), lower) + _beside(c_bar, lower),)


cho_factor = opaque(
    "linalg.cho_factor",
    lambda a, lower, check_finite: scipys("cho_factor")(a, lower, check_finite=check_finite)[0],
    "(n,n)->(n,n)",
    spelled("cho_factor", after="[0]", lower=False),
    cupy=lambda args, p: scipy_in_cupy.cho_factor(p["lower"]),
    jvp=_cho_factor_jvp,
    vjp=_cho_factor_vjp,
    samples=_FACTOR_CASES,
)


@means("scipy.linalg", "cho_factor")
def _cho_factor(
    a: Any, lower: Any = False, overwrite_a: Any = False, check_finite: Any = True
) -> Any:
    a, how = _decomposed("cho_factor", a, lower, overwrite_a, check_finite)
    return on_stacks(cho_factor, a, **how), how["lower"]


def _cho_solve_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (c_dot, b_dot), (c, _), (x,), lower = tangents, args, outs, params["lower"]
    right = b_dot
    if c_dot is not None:
        factor, factor_dot = triangle(c, lower), triangle(c_dot, lower)
        if lower:
            change = factor_dot @ (adjoint(factor) @ x) + factor @ (adjoint(factor_dot) @ x)
        else:
            change = adjoint(factor_dot) @ (factor @ x) + adjoint(factor) @ (factor_dot @ x)
        right = -change if b_dot is None else b_dot - change
    return (apply(cho_solve, c, right, **params),)


@by_conjugates
def _cho_solve_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (c, _), (x,), lower = cotangents, args, outs, params["lower"]
    b_bar = apply(cho_solve, c, x_bar, **params)
    product_bar, factor = outer(b_bar, conjugated(x)), triangle(c, lower)
    both = product_bar + adjoint(product_bar)
    return -triangle(both @ factor if lower else factor @ both, lower), b_bar


def _cho_solve_text(args: Any, params: dict[str, Any]) -> str:
    return f"linalg.cho_solve(({{0}}, {params['lower']}), {{1}}{options(params)})"


cho_solve = opaque(
    "linalg.cho_solve",
    lambda c, b, lower, check_finite: scipys("cho_solve")((c, lower), b, check_finite=check_finite),
    SYSTEM,
    _cho_solve_text,
    cupy=lambda args, p: scipy_in_cupy.cho_solve(p["lower"], args[0].type.dtype.kind == "c"),
    jvp=_cho_solve_jvp,
    vjp=_cho_solve_vjp,
    samples=cases(
        case(regular(3, 3), (3,), lower=False, check_finite=True),
        case(regular(3, 3), (3, 2), lower=False, check_finite=True),
        case(regular(3, 3), (3,), lower=True, check_finite=False),
        case(regular(3, 3), (3, 2), lower=True, check_finite=True),
        case(regular(2, 2, dtype="f4"), Drawn((2,), "f4"), lower=False, check_finite=True),
    ),
)


@means("scipy.linalg", "cho_solve")
def _cho_solve(c_and_lower: Any, b: Any, overwrite_b: Any = False, check_finite: Any = True) -> Any:
    check_hints("cho_solve", {"overwrite_b": overwrite_b})
    c, lower = c_and_lower
    c, b = matrix(c, "cho_solve"), sides(b, "cho_solve")
    how = {"lower": flag(lower, "lower"), "check_finite": flag(check_finite, "check_finite")}
    return on_stacks(cho_solve, c, b, **how)


# lu_factor, lu_solve


def _upper(lu: Any) -> Any:
    return FUNCTIONS[np.triu](lu)


def _unit_lower(lu: Any) -> Any:
    unit = FUNCTIONS[np.eye](lu.shape[-1], dtype=lu.dtype)
    return FUNCTIONS[np.tril](lu, -1) + unit


def _over_upper(lu: Any, x: Any) -> Any:
    """``x @ inv(U)``."""
    return transposed(_substituted(lu, transposed(x), False, True))


def _lu_factor_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    """``inv(L) @ P @ a_dot @ inv(U)`` is ``U @ inv(a) @ a_dot @ inv(U)``."""
    (a_dot,), (lu, piv) = tangents, outs
    upper = _upper(lu)
    moved = apply(lu_solve, lu, piv, a_dot, trans=0, check_finite=True)
    inner = _over_upper(lu, upper @ moved)
    low = _unit_lower(lu) @ FUNCTIONS[np.tril](inner, -1)
    return low + FUNCTIONS[np.triu](inner) @ upper, None


def _lu_factor_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (lu_bar, _), (lu, piv) = cotangents, outs
    if lu_bar is None:
        return (None,)
    upper = _upper(lu)
    inner = FUNCTIONS[np.tril](transposed(_unit_lower(lu)) @ FUNCTIONS[np.tril](lu_bar, -1), -1)
    inner = inner + FUNCTIONS[np.triu](FUNCTIONS[np.triu](lu_bar) @ transposed(upper))
    moved = transposed(upper) @ transposed(_substituted(lu, transposed(inner), False, False))
    return (apply(lu_solve, lu, piv, moved, trans=1, check_finite=True),)


lu_factor = opaque(
    "linalg.lu_factor",
    several("lu_factor"),
    "(n,n)->(n,n),(n)",
    spelled("lu_factor"),
    dtypes=lambda a: (linalg_dtype(a), np.dtype("i4")),
    jvp=_lu_factor_jvp,
    vjp=_lu_factor_vjp,
    samples=cases(
        case(regular(3, 3), check_finite=True),
        case(Drawn((4, 4)), check_finite=False),
        case(regular(2, 2, dtype="f4"), check_finite=True),
    ),
)


@means("scipy.linalg", "lu_factor")
def _lu_factor(a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    check_hints("lu_factor", {"overwrite_a": overwrite_a})
    a = matrix(a, "lu_factor")
    return on_stacks(lu_factor, a, check_finite=flag(check_finite, "check_finite"))


def _between(lu: Any, x: Any) -> tuple[Any, Any]:
    """``inv(U.T) @ x``, and ``inv(L.T)`` times that."""
    inner = _substituted(lu, x, False, True)
    return inner, _substituted(lu, inner, True, True, unit=True)


def _lu_solve_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (lu_dot, _, b_dot), (lu, piv, b), (x,) = tangents, args, outs
    moved = None if b_dot is None else apply(lu_solve, lu, piv, b_dot, **params)
    if lu_dot is None:
        return (moved,)
    low_dot, upper_dot = FUNCTIONS[np.tril](lu_dot, -1), _upper(lu_dot)
    if params["trans"]:
        inner, outside = _between(lu, b)
        right = transposed(upper_dot) @ inner
        right = right + transposed(_upper(lu)) @ (transposed(low_dot) @ outside)
        change = apply(lu_solve, lu, piv, right, **params)
    else:
        left = _substituted(lu, low_dot @ (_upper(lu) @ x), True, False, unit=True)
        change = _substituted(lu, left + upper_dot @ x, False, False)
    return (-change if moved is None else moved - change,)


def _lu_solve_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (lu, piv, b), (x,) = cotangents, args, outs
    other = {**params, "trans": 1 - params["trans"]}
    b_bar = apply(lu_solve, lu, piv, x_bar, **other)
    inner, outside = _between(lu, b if params["trans"] else x_bar)
    row = b_bar if params["trans"] else x
    low_bar = FUNCTIONS[np.tril](outer(outside, _upper(lu) @ row), -1)
    return -(low_bar + _upper(outer(inner, row))), None, b_bar


def _lu_solve_text(args: Any, params: dict[str, Any]) -> str:
    return f"linalg.lu_solve(({{0}}, {{1}}), {{2}}{options(params, trans=0)})"


def _pivots(count: int) -> np.ndarray:
    """Rows that were swapped, as LAPACK writes them."""
    return np.array([min(k + 1, count - 1) for k in range(count)], "i4")


lu_solve = opaque(
    "linalg.lu_solve",
    lambda lu, piv, b, **params: scipys("lu_solve")((lu, piv), b, **params),
    "(n,n),(p),(n,k?)->(n,k?)",
    _lu_solve_text,
    dtypes=lambda lu, piv, b: linalg_dtype(lu, b),
    jvp=_lu_solve_jvp,
    vjp=_lu_solve_vjp,
    samples=cases(
        case(regular(3, 3), _pivots(3), (3,), trans=0, check_finite=True),
        case(regular(3, 3), _pivots(3), (3, 2), trans=0, check_finite=False),
        case(regular(3, 3), _pivots(3), (3,), trans=1, check_finite=True),
        case(regular(3, 3), _pivots(3), (3, 2), trans=1, check_finite=True),
        case(
            *(regular(2, 2, dtype="f4"), _pivots(2), Drawn((2,), "f4")), trans=0, check_finite=True
        ),
    ),
)


@means("scipy.linalg", "lu_solve")
def _lu_solve(
    lu_and_piv: Any,
    b: Any,
    trans: Any = 0,
    overwrite_b: Any = False,
    check_finite: Any = True,
) -> Any:
    check_hints("lu_solve", {"overwrite_b": overwrite_b})
    lu, piv = lu_and_piv
    lu, b, piv = matrix(lu, "lu_solve"), sides(b, "lu_solve"), FUNCTIONS[np.asarray](piv)
    if piv.dtype.kind not in "iu":
        message = f"The pivots of scipy.linalg.lu_solve are integers, not {piv.dtype}."
        raise UnsupportedFunction(message, current().origin)
    turned, conjugate = transposition(trans, lu)
    how = {"trans": turned, "check_finite": flag(check_finite, "check_finite")}
    if conjugate:
        return np.conj(on_stacks(lu_solve, lu, piv, np.conj(b), **how))
    return on_stacks(lu_solve, lu, piv, b, **how)


for _record in (cholesky, cho_factor, cho_solve):
    _record.sums = True  # as those of summing.py: in an order of LAPACK's own
