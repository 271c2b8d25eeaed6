"""``np.linalg``: solving, inverses, determinants; matrices may be stacked, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType, promote
from calque.transpiler.primitives.base import apply, implements, opaque
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.sampling import Drawn, case, cases


def transposed(x: Any) -> Any:
    """The matrices transposed."""
    return np.swapaxes(x, -1, -2) if x.ndim > 2 else x.T


def conjugated(x: Any) -> Any:
    """The conjugate of what is complex; what is real stays as it is."""
    return np.conj(x) if x.dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """The matrices transposed and conjugated."""
    return conjugated(transposed(x))


def by_conjugates(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A reverse rule by a rule for gradients: JAX's cotangents are their conjugates."""

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        if not any(x.dtype.kind == "c" for x in (*outs, *args)):
            return rule(cotangents, outs, args, params)
        given = tuple(None if x is None else conjugated(x) for x in cotangents)
        found = rule(given, outs, args, params)
        return tuple(None if x is None else conjugated(x) for x in found)

    return vjp


def real_dtype(*types: Any) -> np.dtype:
    """The dtype of a norm or an eigenvalue of matrices of these types."""
    dtype = linalg_dtype(*types)
    return np.dtype(dtype.type(0).real.dtype)


def matrices(x: Any, name: str, square: bool = False) -> Array:
    """An operand of a linear algebra function; ``square`` if no signature says so of it."""
    x = FUNCTIONS[np.asarray](x)
    if x.ndim < 2:
        message = f"{name}: {x.ndim}-dimensional array given, at least two wanted"
        raise ShapeError(message, current().origin)
    if square:
        current().unify(x.dims[-2], x.dims[-1])
    return x


def _regular(*shape: int, dtype: str = "f8") -> Drawn:
    return Drawn(shape, dtype, lambda x: x + 3 * np.eye(shape[-1]))


def _first_only(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of one cotangent or tangent: ``rule(d, y, x)``."""
    return lambda ds, outs, args, params: (rule(ds[0], outs[0], args[0]),)


_SQUARE = cases(
    case(_regular(3, 3)),
    case(_regular(2, 3, 3)),
    case(_regular(1, 1)),
    case(_regular(2, 2, dtype="f4")),
)

inv = opaque(
    "np.linalg.inv",
    np.linalg.inv,
    "(n,n)->(n,n)",
    "np.linalg.inv({0})",
    in_loops="matrix_inverse({0})",
    rule="inv(A): A_bar = -inv.T @ inv_bar @ inv.T",
    jvp=_first_only(lambda d, y, a: -y @ d @ y),
    vjp=_first_only(lambda d, y, a: -transposed(y) @ d @ transposed(y)),
    fresh=True,
    samples=_SQUARE,
)
FUNCTIONS[np.linalg.inv] = lambda a: apply(inv, matrices(a, "inv"))

det = opaque(
    "np.linalg.det",
    np.linalg.det,
    "(n,n)->()",
    "np.linalg.det({0})",
    in_loops="determinant({0})",
    rule="det(A): A_bar = det_bar * det * inv(A).T",
    jvp=_first_only(lambda d, y, a: y * np.trace(np.linalg.solve(a, d), axis1=-2, axis2=-1)),
    vjp=_first_only(lambda d, y, a: _on_matrices(d * y) * transposed(np.linalg.inv(a))),
    samples=_SQUARE,
)
FUNCTIONS[np.linalg.det] = lambda a: apply(det, matrices(a, "det"))


def _on_matrices(x: Any) -> Any:
    """A number for each matrix, ready to multiply it."""
    return x[..., None, None] if np.ndim(x) else x


def _slogdet_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    change = np.trace(np.linalg.solve(args[0], tangents[0]), axis1=-2, axis2=-1)
    if args[0].dtype.kind != "c":
        return None, change
    return outs[0] * (1j * np.imag(change)), np.real(change)


def _slogdet_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    sign_bar, scale = cotangents
    if sign_bar is not None and args[0].dtype.kind == "c":
        turned = 1j * np.imag(sign_bar * outs[0])
        scale = turned if scale is None else scale + turned
    if scale is None:
        return (None,)
    return (_on_matrices(scale) * transposed(np.linalg.inv(args[0])),)


slogdet = opaque(
    "np.linalg.slogdet",
    np.linalg.slogdet,
    "(n,n)->(),()",
    "np.linalg.slogdet({0})",
    in_loops="sign_and_logdet({0})",
    dtypes=lambda a: (linalg_dtype(a), real_dtype(a)),
    rule="slogdet(A): A_bar = logdet_bar * inv(A).T",
    jvp=_slogdet_jvp,
    vjp=_slogdet_vjp,
    samples=_SQUARE,
)
SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


@implements(np.linalg.slogdet)
def np_slogdet(a: Any) -> Any:
    """``np.linalg.slogdet``: sign and logarithm, a namedtuple."""
    return SlogdetResult(*apply(slogdet, matrices(a, "slogdet")))


# solve


SYSTEM = "(n,n),(n,k?)->(n,k?)"  # the x with a @ x == b: a vector only where b has rank one


def solve_in_cupy(args: Any, params: Any = None) -> str:
    """CuPy has as many right-hand sides as matrices: one of a stack is spread over the other's."""
    a, b = (type_of(x).ndim for x in args)
    given = ["{0}", "{1}"]
    if b > 1 and a != b:
        few, many = (0, 1) if a < b else (1, 0)
        given[few] = f"np.broadcast_to({{{few}}}, {{{many}}}.shape[:-2] + {{{few}}}.shape[-2:])"
    return f"np.linalg.solve({', '.join(given)})"


def _solve_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot), (a, _), (x,) = tangents, args, outs
    right = b_dot
    if a_dot is not None:
        change = a_dot @ x if x.ndim > 1 and args[1].ndim > 1 else (a_dot @ x[..., None])[..., 0]
        right = -change if b_dot is None else b_dot - change
    if args[1].ndim == 1 and right.ndim > 1:
        return (np.linalg.solve(a, right[..., None])[..., 0],)
    return (np.linalg.solve(a, right),)


def _solve_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (a, b), (x,) = cotangents, args, outs
    if b.ndim == 1 and a.ndim > 2:
        b_bar = np.linalg.solve(transposed(a), x_bar[..., None])[..., 0]
        return -b_bar[..., :, None] * x[..., None, :], b_bar
    b_bar = np.linalg.solve(transposed(a), x_bar)
    if b.ndim == 1:
        return -np.outer(b_bar, x), b_bar
    return -b_bar @ transposed(x), b_bar


solve = opaque(
    "np.linalg.solve",
    np.linalg.solve,
    SYSTEM,
    "np.linalg.solve({0}, {1})",
    cupy=solve_in_cupy,
    in_loops="solve({0}, {1})",
    rule="solve(A, b): b_bar = solve(A.T, x_bar), A_bar = -outer(b_bar, x)",
    jvp=_solve_jvp,
    vjp=_solve_vjp,
    fresh=True,
    samples=cases(
        case(_regular(3, 3), (3,)),
        case(_regular(3, 3), (3, 2)),
        case(_regular(2, 3, 3), (3,)),
        case(_regular(2, 3, 3), (2, 3, 1)),
        case(_regular(3, 3), (2, 3, 2)),
        case(_regular(2, 2, dtype="f4"), Drawn((2,), "f4")),
    ),
)


@implements(np.linalg.solve)
def np_solve(a: Any, b: Any) -> Array:
    """``np.linalg.solve``: a vector only where ``b`` has rank one."""
    return apply(solve, matrices(a, "solve"), FUNCTIONS[np.asarray](b))


# pinv


def _pinv_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot,), (a,), (p,) = tangents, args, outs
    a_dot_h, p_h = adjoint(a_dot), adjoint(p)
    left = p @ p_h @ a_dot_h - p @ p_h @ a_dot_h @ a @ p
    right = a_dot_h @ p_h @ p - p @ a @ a_dot_h @ p_h @ p
    return (-p @ a_dot @ p + left + right,)


@by_conjugates
def _pinv_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (p_bar,), (a,), (p,) = cotangents, args, outs
    p_bar_h, p_h = adjoint(p_bar), adjoint(p)
    left = p_bar_h @ p @ p_h - a @ p @ p_bar_h @ p @ p_h
    right = p_h @ p @ p_bar_h - p_h @ p @ p_bar_h @ p @ a
    return (-p_h @ p_bar @ p_h + left + right,)


pinv = opaque(
    "np.linalg.pinv",
    lambda a, rcond, hermitian: np.linalg.pinv(a, rcond, hermitian=hermitian),
    "(m,n)->(n,m)",
    lambda args, p: "np.linalg.pinv({0}" + ("" if p["rcond"] is None else f", {p['rcond']}") + ")",
    jvp=_pinv_jvp,
    vjp=_pinv_vjp,
    fresh=True,
    samples=cases(
        case((3, 2), rcond=None, hermitian=False),
        case((2, 3), rcond=None, hermitian=False),
        case((2, 3, 2), rcond=None, hermitian=False),
        case(_regular(2, 2, dtype="f4"), rcond=None, hermitian=False),
    ),
)


@implements(np.linalg.pinv)
def np_pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """``np.linalg.pinv``; its derivative takes the rank to stay as it is."""
    if hermitian or isinstance(rcond, Array) or isinstance(rtol, Array):
        raise UnsupportedFunction(
            "np.linalg.pinv with hermitian= or a run-time rcond.", current().origin
        )
    chosen = rcond if rtol is None else rtol
    return apply(pinv, matrices(a, "pinv"), rcond=chosen, hermitian=False)


# products of matrices


@implements(np.linalg.matrix_power)
def np_matrix_power(a: Any, n: Any) -> Any:
    """``np.linalg.matrix_power``, by the products that NumPy takes."""
    a, n = matrices(a, "matrix_power", True), known_int(n, "The exponent of matrix_power")
    if n == 0:
        unit = FUNCTIONS[np.eye](a.shape[-1], dtype=a.dtype)
        return unit if a.ndim == 2 else np.broadcast_to(unit, a.shape).copy()
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n <= 3:
        return reduce(np.matmul, [a] * n)
    square = result = None
    while n > 0:
        square = a if square is None else square @ square
        n, bit = divmod(n, 2)
        if bit:
            result = square if result is None else result @ square
    return result


def _infer_multi_dot(*factors: Any) -> ArrayType:
    for left, right in pairwise(factors):
        current().unify(left.dims[-1], right.dims[0])
    dims = factors[0].dims[:-1] + factors[-1].dims[1:]
    return ArrayType(promote([f.type for f in factors])[0], dims)


def _chain(factors: list[Any]) -> Any:
    return factors[0] if len(factors) == 1 else np.linalg.multi_dot(factors)


def _multi_dot_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    terms = [
        apply(multi_dot, *args[:i], t, *args[i + 1 :])
        for i, t in enumerate(tangents)
        if t is not None
    ]
    return (reduce(np.add, terms),)


def _multi_dot_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    y_bar, last = cotangents[0], len(args) - 1
    row, column = args[0].ndim == 1, args[-1].ndim == 1
    found = []
    for i, x in enumerate(args):
        before = [f.T if f.ndim > 1 else f for f in reversed(args[:i])]
        after = [f.T if f.ndim > 1 else f for f in reversed(args[i + 1 :])]
        if x.ndim == 1:
            bar = _chain(before) @ y_bar if i == last and not row else y_bar
            bar = y_bar @ _chain(after) if i == 0 and not column else bar
            if row and column:
                bar = y_bar * _chain(before or after)
        else:
            bar = _middle(before, y_bar, after, row and i != 0, column and i != last)
        found.append(bar)
    return tuple(found)


def _middle(before: list[Any], y_bar: Any, after: list[Any], row: bool, column: bool) -> Any:
    """Transposed factors around the cotangent; vectors at the ends make outer products."""
    if row and column:
        return np.outer(_chain(before) * y_bar, _chain(after))
    if row:
        return np.outer(_chain(before), y_bar @ _chain(after) if after else y_bar)
    if column:
        return np.outer(_chain(before) @ y_bar if before else y_bar, _chain(after))
    return _chain([*before, y_bar, *after])


multi_dot = opaque(
    "np.linalg.multi_dot",
    lambda *factors: np.linalg.multi_dot(factors),
    _infer_multi_dot,
    lambda args, p: f"np.linalg.multi_dot([{', '.join(f'{{{i}}}' for i in range(len(args)))}])",
    jvp=_multi_dot_jvp,
    vjp=_multi_dot_vjp,
    cupy=lambda args, p: " @ ".join(f"{{{i}}}" for i in range(len(args))),
    fresh=True,
    samples=cases(
        case((2, 3), (3, 4)),
        case((2, 3), (3, 4), (4, 2)),
        case((3,), (3, 4), (4, 2)),
        case((2, 3), (3, 4), (4,)),
        case((3,), (3, 4), (4,)),
        case(Drawn((2, 2), "f4"), Drawn((2, 2), "f4")),
    ),
)


@implements(np.linalg.multi_dot)
def np_multi_dot(arrays: Any, *, out: Any = None) -> Array:
    """``np.linalg.multi_dot``."""
    return apply(multi_dot, *[FUNCTIONS[np.asarray](a) for a in arrays])
