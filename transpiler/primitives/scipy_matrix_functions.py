"""``scipy.linalg``: functions of matrices, and the polar decomposition.

Of an analytic function the derivative in a direction ``e`` is the upper right block of the function
of ``[[a, e], [0, a]]``: N. J. Higham, "Functions of Matrices" (2008), theorem 3.6. That of a square
root, of a sign and of polar factors solves Sylvester's equation. Real matrices have real results:
one whose result is complex raises an error, and is to be given as a complex matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.primitives.base import Primitive, apply, opaque
from calque.transpiler.primitives.linalg import adjoint, by_conjugates
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_equations import plus, solve_sylvester
from calque.transpiler.primitives.scipy_linalg import matrix, positive, scipys, several
from calque.transpiler.primitives.scipy_matrices import doubled, expm
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks

NOT_ON_GPU = Lacking("by eigenvalues: np.linalg.eigh, where the matrix is symmetric")


def _double(a: Any) -> np.dtype:
    """SciPy computes logarithms and powers of float32 in double precision."""
    return np.result_type(linalg_dtype(a), np.float64)


def _kept_real(found: Any, dtype: np.dtype) -> Any:
    if dtype.kind != "c":
        return np.real_if_close(found, tol=1e6).astype(dtype, casting="same_kind")
    return np.asarray(found).astype(dtype)


def _text_of(call: str, dtypes: Callable[..., np.dtype] = linalg_dtype) -> Any:
    """A call, and a cast that refuses to drop imaginary parts that are not rounding errors."""

    def text(args: Any, params: dict[str, Any]) -> str:
        dtype, found = dtypes(args[0].type), call.format(**params)
        if dtype.kind == "c":
            return f"{found}.astype(np.{dtype})"
        return f'np.real_if_close({found}, tol=1e6).astype(np.{dtype}, casting="same_kind")'

    return text


def _upper_right(primitive: Primitive, a: Any, e: Any, params: Any) -> Any:
    n = a.shape[-1]
    return apply(primitive, doubled(a, e), **params)[..., :n, n:]


def _analytic(name: str, call: str, function: Any, *ways: dict[str, Any]) -> Primitive:
    """Declare an analytic function of a matrix."""

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        return (_upper_right(record, args[0], tangents[0], params),)

    @by_conjugates
    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        return (_upper_right(record, adjoint(args[0]), cotangents[0], params),)

    record = opaque(
        name,
        lambda a, **params: _kept_real(function(a, **params), _double(type_of(a))),
        "(n,n)->(n,n)",
        _text_of(call, _double),
        dtypes=_double,
        cupy=NOT_ON_GPU,
        jvp=jvp,
        vjp=vjp,
        samples=cases(*(case(positive(3, 3), **way) for way in ways)),
    )
    return record


logm = _analytic("linalg.logm", "linalg.logm({{0}})", scipys("logm"), {})
fractional_matrix_power = _analytic(
    "linalg.fractional_matrix_power",
    "linalg.fractional_matrix_power({{0}}, {t!r})",
    scipys("fractional_matrix_power"),
    {"t": 0.3},
    {"t": -1.5},
)


def _in_double(a: Any) -> Any:
    return FUNCTIONS["cast"](a, _double(a.type))


@means("scipy.linalg", "logm")
def _logm(A: Any) -> Any:
    return on_stacks(logm, _in_double(matrix(A, "logm")))


@means("scipy.linalg", "fractional_matrix_power")
def _fractional_matrix_power(A: Any, t: Any) -> Any:
    if isinstance(t, Array):
        raise UnsupportedFunction(
            "scipy.linalg.fractional_matrix_power of a run-time power has no rule.",
            current().origin,
            "write linalg.expm(t * linalg.logm(A))",
        )
    return on_stacks(
        fractional_matrix_power, _in_double(matrix(A, "fractional_matrix_power")), t=float(t)
    )


# square roots and signs


def _sqrtm_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (apply(solve_sylvester, outs[0], outs[0], tangents[0]),)


@by_conjugates
def _sqrtm_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    back = adjoint(outs[0])
    return (apply(solve_sylvester, back, back, cotangents[0]),)


sqrtm = opaque(
    "linalg.sqrtm",
    lambda a: _kept_real(scipys("sqrtm")(a), linalg_dtype(type_of(a))),
    "(n,n)->(n,n)",
    _text_of("linalg.sqrtm({{0}})"),
    cupy=NOT_ON_GPU,
    jvp=_sqrtm_jvp,
    vjp=_sqrtm_vjp,
    samples=cases(case(positive(3, 3)), case(positive(2, 2, dtype="f4"))),
)


@means("scipy.linalg", "sqrtm")
def _sqrtm(A: Any) -> Any:
    return on_stacks(sqrtm, matrix(A, "sqrtm"))


def _signm_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (a,), (s,) = tangents, args, outs
    root = s @ a
    return (apply(solve_sylvester, root, root, a_dot - s @ a_dot @ s),)


@by_conjugates
def _signm_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (s_bar,), (a,), (s,) = cotangents, args, outs
    root, back = adjoint(s @ a), adjoint(s)
    found = apply(solve_sylvester, root, root, s_bar)
    return (found - back @ found @ back,)


def _of_both_signs(*shape: int) -> Drawn:
    return Drawn(shape, "f8", lambda x: x + np.diag(6.0 * (-1.0) ** np.arange(shape[-1])))


signm = opaque(
    "linalg.signm",
    lambda a: _kept_real(scipys("signm")(a), linalg_dtype(type_of(a))),
    "(n,n)->(n,n)",
    _text_of("linalg.signm({{0}})"),
    cupy=NOT_ON_GPU,
    jvp=_signm_jvp,
    vjp=_signm_vjp,
    samples=cases(case(_of_both_signs(3, 3))),
)


@means("scipy.linalg", "signm")
def _signm(A: Any) -> Any:
    return on_stacks(signm, matrix(A, "signm"))


# sines and cosines, as SciPy writes them


def _exp(a: Any) -> Any:
    return on_stacks(expm, a)


@means("scipy.linalg", "cosm")
def _cosm(A: Any) -> Any:
    a: Any = matrix(A, "cosm")
    if a.dtype.kind == "c":
        return 0.5 * (_exp(1j * a) + _exp(-1j * a))
    return np.real(_exp(1j * a))


@means("scipy.linalg", "sinm")
def _sinm(A: Any) -> Any:
    a: Any = matrix(A, "sinm")
    if a.dtype.kind == "c":
        return -0.5j * (_exp(1j * a) - _exp(-1j * a))
    return np.imag(_exp(1j * a))


@means("scipy.linalg", "tanm")
def _tanm(A: Any) -> Any:
    return np.linalg.solve(_cosm(A), _sinm(A))


@means("scipy.linalg", "coshm")
def _coshm(A: Any) -> Any:
    a: Any = matrix(A, "coshm")
    return 0.5 * (_exp(a) + _exp(-a))


@means("scipy.linalg", "sinhm")
def _sinhm(A: Any) -> Any:
    a: Any = matrix(A, "sinhm")
    return 0.5 * (_exp(a) - _exp(-a))


@means("scipy.linalg", "tanhm")
def _tanhm(A: Any) -> Any:
    return np.linalg.solve(_coshm(A), _sinhm(A))


# polar


def _over(x: Any, p: Any) -> Any:
    """``x @ inv(p)`` of a Hermitian ``p``."""
    return adjoint(np.linalg.solve(p, adjoint(x)))


def _polar_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (u, p) = tangents, outs
    inner = adjoint(u) @ a_dot
    turn = apply(solve_sylvester, p, p, inner - adjoint(inner))
    return u @ turn + _over(a_dot - u @ inner, p), inner - turn @ p


@by_conjugates
def _polar_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (u_bar, p_bar), (u, p) = cotangents, outs
    by_p = None if p_bar is None else -(p_bar @ p)
    turn_bar = plus(None if u_bar is None else adjoint(u) @ u_bar, by_p)
    found = apply(solve_sylvester, p, p, turn_bar)
    inner, outside = plus(found - adjoint(found), p_bar), None
    if u_bar is not None:
        outside = _over(u_bar, p)
        inner = inner - adjoint(u) @ outside
    return (plus(u @ inner, outside),)


polar = opaque(
    "linalg.polar",
    several("polar"),
    "(m,n)->(m,n),(n,n)",
    "linalg.polar({0})",
    cupy=Lacking("with w, s, vh = np.linalg.svd(a, False): w @ vh, and (vh.T.conj() * s) @ vh"),
    jvp=_polar_jvp,
    vjp=_polar_vjp,
    samples=cases(case((3, 3)), case((4, 2)), case(Drawn((3, 2), "f4"))),
)


@means("scipy.linalg", "polar")
def _polar(a: Any, side: Any = "right") -> Any:
    """The factor of length min(m, n) comes from the equation with that many unknowns."""
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    a = matrix(a, "polar")
    more = current().dims.resolve(a.dims[-2] - a.dims[-1])
    if not isinstance(more, int):
        raise current().needs_dims(a.dims[-2:], "Which of two sizes is smaller")
    if more >= 0:
        u, p = on_stacks(polar, a)
        return (u, p) if side == "right" else (u, a @ adjoint(u))
    back, p = on_stacks(polar, adjoint(a))
    u = adjoint(back)
    return (u, p) if side == "left" else (u, adjoint(u) @ a)
