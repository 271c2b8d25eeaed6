"""``scipy.linalg``: systems, inverses, determinants, norms.

SciPy checks that what it is given is finite, and raises ValueError where it is not; the functions
here are SciPy's own, so that generated code does as much, unless ``check_finite=False`` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import linalg, norms, scipy_in_cupy
from calque.transpiler.primitives.base import apply, implements, opaque
from calque.transpiler.primitives.linalg import adjoint, by_conjugates, conjugated, transposed
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.one_triangle import as_read, onto_read, symmetrized
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_modules import Lazy, means
from calque.transpiler.primitives.scipy_stacks import check_stacks, on_stacks


class _Several(Lazy):
    """A function of several results; of stacks some versions of SciPy give a list of them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return tuple(super().__call__(*args, **kwargs))


# the options that SciPy has as hints: they change no value
HINTS = frozenset("overwrite_a overwrite_b overwrite_ab overwrite_a_band lwork".split())


def scipys(name: str) -> Lazy:
    """A function of ``scipy.linalg``."""
    return Lazy("scipy.linalg", name)


def several(name: str) -> Lazy:
    """A function of ``scipy.linalg`` that gives a tuple."""
    return _Several("scipy.linalg", name)


def refused(name: str, option: str, hint: str | None = None) -> UnsupportedFunction:
    """The error of an option that has no rule."""
    message = f"scipy.linalg.{name} with {option} has no rule."
    return UnsupportedFunction(message, current().origin, hint)


def check_hints(name: str, given: dict[str, Any]) -> None:
    """Hints say how SciPy may use memory; a copy is always made here."""
    for option, value in given.items():
        if option not in HINTS:
            message = f"scipy.linalg.{name}() got an unexpected keyword argument '{option}'"
            raise TypeError(message)
        if isinstance(value, Array):
            raise current().needs_known(value, f"The option {option}")


def flag(value: Any, name: str) -> bool:
    """An option that is true or false, and known."""
    if isinstance(value, Array):
        raise current().needs_known(value, f"The option {name}")
    return bool(value)


def matrix(a: Any, name: str) -> Array:
    """The matrix that a function of ``scipy.linalg`` is given, with a dtype that LAPACK has."""
    a = FUNCTIONS[np.asarray](a)
    if a.ndim > 2:
        check_stacks(name)
    if a.ndim < 2:
        message = f"scipy.linalg.{name}: {a.ndim}-dimensional array given, a matrix wanted"
        raise ShapeError(message, current().origin)
    return for_lapack(a, name)


def sides(b: Any, name: str) -> Array:
    """The right sides of a system: a vector, or the columns of a matrix."""
    b = FUNCTIONS[np.asarray](b)
    if not b.ndim:
        message = f"scipy.linalg.{name}: a number as the right side, a vector or a matrix wanted"
        raise ShapeError(message, current().origin)
    if b.ndim > 2:
        check_stacks(name)
    return for_lapack(b, name)


def for_lapack(x: Array, name: str) -> Array:
    """SciPy computes with float16 as with float32."""
    if x.dtype.kind not in "biufc" or x.dtype.itemsize > (16 if x.dtype.kind == "c" else 8):
        raise DtypeError(f"scipy.linalg.{name} of {x.dtype} has no rule.", current().origin)
    return FUNCTIONS["cast"](x, np.dtype("f4")) if x.dtype == np.float16 else x


def options(given: dict[str, Any], **usual: Any) -> str:
    """The keyword arguments that are not what SciPy takes for granted, as text."""
    usual.setdefault("check_finite", True)
    changed = {k: v for k, v in given.items() if k in usual and v != usual[k]}
    return "".join(f", {k}={v!r}" for k, v in changed.items())


def spelled(name: str, count: int = 1, after: str = "", **usual: Any) -> Callable[..., str]:
    """``linalg.name({0}, lower=True)``: what differs from SciPy's usual options is written."""
    operands = ", ".join(f"{{{i}}}" for i in range(count))
    return lambda args, params: f"linalg.{name}({operands}{options(params, **usual)}){after}"


finite = opaque(
    "np.asarray_chkfinite",
    np.asarray_chkfinite,
    lambda x: x.type,
    "np.asarray_chkfinite({0})",
    jvp=lambda dots, outs, args, params: (dots[0],),
    vjp=lambda bars, outs, args, params: (bars[0],),
    in_loops="checked_finite({0})",
    samples=cases(case((3, 3)), case((3,))),
    aliases=True,
)
implements(np.asarray_chkfinite)(
    lambda a, dtype=None, order=None: apply(finite, FUNCTIONS[np.asarray](a, dtype))
)


def checked(x: Array, check_finite: Any) -> Any:
    """The same array, with the check that SciPy makes of it unless it is told not to."""
    return apply(finite, x) if flag(check_finite, "check_finite") else x


def outer(x: Any, y: Any) -> Any:
    """``x @ y.T``, of vectors too."""
    return np.outer(x, y) if x.ndim == 1 else x @ transposed(y)


def regular(*shape: int, dtype: str = "f8") -> Drawn:
    """A matrix with an inverse."""
    return Drawn(shape, dtype, lambda x: x + 3 * np.eye(shape[-1]))


# solve

_ASSUMED: dict[Any, str | None] = {
    None: None,
    **dict.fromkeys(["gen", "general"], "gen"),
    **dict.fromkeys(["sym", "symmetric"], "sym"),
    **dict.fromkeys(["her", "hermitian"], "her"),
    **dict.fromkeys(["pos", "positive definite"], "pos"),
}
_ONE_TRIANGLE = ("sym", "her", "pos")


def _read(x: Any, a: Array, params: dict[str, Any], rule: Callable[..., Any]) -> Any:
    """The part of ``x`` that belongs to the entries read: all of them, or one triangle."""
    if params["assume_a"] not in _ONE_TRIANGLE:
        return x
    x = symmetrized(x) if rule is onto_read else x
    return rule(x, a, "L" if params["lower"] else "U")


def _solve_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot), (a, _), (x,) = tangents, args, outs
    right = b_dot
    if a_dot is not None:
        change = _read(a_dot, a, params, as_read) @ x
        right = -change if b_dot is None else b_dot - change
    return (apply(solve, a, right, **params),)


@by_conjugates
def _solve_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (a, _), (x,) = cotangents, args, outs
    same = params["assume_a"] in _ONE_TRIANGLE
    b_bar = apply(solve, a if same else adjoint(a), x_bar, **params)
    return _read(-outer(b_bar, conjugated(x)), a, params, onto_read), b_bar


def positive(*shape: int, dtype: str = "f8") -> Drawn:
    """A symmetric matrix with positive eigenvalues that are apart."""

    def shift(x: np.ndarray) -> np.ndarray:
        return (x + x.T) / 2 + np.diag(4.0 + 2 * np.arange(shape[-1]))

    return Drawn(shape, dtype, shift)


_GENERAL = {"assume_a": None, "lower": False, "check_finite": True}


def _solved(a: Any, b: Any, assume_a: Any, **params: Any) -> Any:
    """Call ``scipy.linalg.solve``; the default for ``assume_a`` differs between its versions."""
    given = {} if assume_a is None else {"assume_a": assume_a}
    return scipys("solve")(a, b, **given, **params)


solve = opaque(
    "linalg.solve",
    _solved,
    linalg.SYSTEM,
    spelled("solve", 2, assume_a=None, lower=False),
    cupy=lambda args, params: scipy_in_cupy.solve(
        params, _ONE_TRIANGLE, ".T.conj()" if args[0].type.dtype.kind == "c" else ".T"
    ),
    jvp=_solve_jvp,
    vjp=_solve_vjp,
    samples=cases(
        case(regular(3, 3), (3,), **_GENERAL),
        case(regular(3, 3), (3, 2), **{**_GENERAL, "assume_a": "gen", "check_finite": False}),
        case(regular(2, 2, dtype="f4"), Drawn((2,), "f4"), **_GENERAL),
        case(positive(3, 3), (3,), **{**_GENERAL, "assume_a": "pos"}),
        case(positive(3, 3), (3, 2), **{**_GENERAL, "assume_a": "sym", "lower": True}),
    ),
)


@means("scipy.linalg", "solve")
def _solve(
    a: Any,
    b: Any,
    lower: Any = False,
    overwrite_a: Any = False,
    overwrite_b: Any = False,
    check_finite: Any = True,
    assume_a: Any = None,
    transposed: Any = False,
) -> Any:
    check_hints("solve", {"overwrite_a": overwrite_a, "overwrite_b": overwrite_b})
    a, b, low = matrix(a, "solve"), sides(b, "solve"), flag(lower, "lower")
    check, turned = flag(check_finite, "check_finite"), flag(transposed, "transposed")
    if assume_a in ("upper triangular", "lower triangular"):
        how = {"lower": assume_a.startswith("lower"), "trans": int(turned), "check_finite": check}
        return on_stacks(solve_triangular, a, b, unit_diagonal=False, **how)
    if assume_a not in _ASSUMED:
        raise refused("solve", f"assume_a={assume_a!r}", "leave assume_a out")
    assumed = _ASSUMED[assume_a]
    if a.dtype.kind == "c" and turned:
        raise refused("solve", "a complex matrix and transposed=")
    if a.dtype.kind == "c" and assumed == "sym":
        a, assumed = triangle(a, low) + linalg.transposed(triangle(a, low, 1)), None
    if turned:
        a, low = linalg.transposed(linalg.matrices(a, "solve", True)), not low
    low = low and assumed in _ONE_TRIANGLE
    return on_stacks(solve, a, b, assume_a=assumed, lower=low, check_finite=check)


# systems with a triangular matrix


def triangle(x: Any, lower: bool, k: int = 0) -> Any:
    """The triangle that is read, ``k`` diagonals short."""
    return FUNCTIONS[np.tril](x, -k) if lower else FUNCTIONS[np.triu](x, k)


def _substituted(a: Any, b: Any, params: dict[str, Any], turned: bool = False) -> Any:
    return apply(solve_triangular, a, b, **{**params, "trans": params["trans"] ^ turned})


def _triangular_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot), (a, _), (x,) = tangents, args, outs
    right = b_dot
    if a_dot is not None:
        change = triangle(a_dot, params["lower"], params["unit_diagonal"])
        change = (transposed(change) if params["trans"] else change) @ x
        right = -change if b_dot is None else b_dot - change
    return (_substituted(a, right, params),)


def _triangular_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (a, _), (x,) = cotangents, args, outs
    b_bar = _substituted(a, x_bar, params, True)
    a_bar = outer(x, b_bar) if params["trans"] else outer(b_bar, x)
    return -triangle(a_bar, params["lower"], params["unit_diagonal"]), b_bar


def _triangular_samples() -> Any:
    ways = [(t, w, u) for t in (0, 1) for w in (False, True) for u in (False, True)]
    return cases(
        *(
            case(
                regular(3, 3),
                (3,) if trans else (3, 2),
                trans=trans,
                lower=lower,
                unit_diagonal=unit,
                check_finite=lower,
            )
            for trans, lower, unit in ways
        ),
        case(
            *(regular(2, 2, dtype="f4"), Drawn((2,), "f4")),
            trans=0,
            lower=True,
            unit_diagonal=False,
            check_finite=True,
        ),
    )


solve_triangular = opaque(
    "linalg.solve_triangular",
    scipys("solve_triangular"),
    linalg.SYSTEM,
    spelled("solve_triangular", 2, trans=0, lower=False, unit_diagonal=False),
    jvp=_triangular_jvp,
    vjp=_triangular_vjp,
    samples=_triangular_samples(),
)


def transposition(trans: Any, a: Array) -> tuple[int, bool]:
    """The option ``trans``: whether a matrix is transposed, and whether it is conjugated too."""
    if isinstance(trans, Array):
        raise current().needs_known(trans, "The option trans")
    number = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if number not in (0, 1, 2):
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    return min(number, 1), number == 2 and a.dtype.kind == "c"


@means("scipy.linalg", "solve_triangular")
def _solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: Any = False,
    unit_diagonal: Any = False,
    overwrite_b: Any = False,
    check_finite: Any = True,
) -> Any:
    check_hints("solve_triangular", {"overwrite_b": overwrite_b})
    a, b = matrix(a, "solve_triangular"), sides(b, "solve_triangular")
    turned, conjugate = transposition(trans, a)
    return on_stacks(
        solve_triangular,
        np.conj(a) if conjugate else a,
        b,
        trans=turned,
        lower=flag(lower, "lower"),
        unit_diagonal=flag(unit_diagonal, "unit_diagonal"),
        check_finite=flag(check_finite, "check_finite"),
    )


# inverses, determinants, norms


_SQUARE = cases(
    case(regular(3, 3), check_finite=True),
    case(regular(1, 1), check_finite=False),
    case(regular(2, 2, dtype="f4"), check_finite=True),
)


def _inverse_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    y_t = transposed(outs[0])
    return (-y_t @ cotangents[0] @ y_t,)


inv = opaque(
    "linalg.inv",
    scipys("inv"),
    linalg.inv.signature,
    spelled("inv"),
    cupy="np.linalg.inv({0})",
    samples=_SQUARE,
    jvp=lambda dots, outs, args, params: (-outs[0] @ dots[0] @ outs[0],),
    vjp=_inverse_vjp,
)


@means("scipy.linalg", "inv")
def _inv(
    a: Any,
    overwrite_a: Any = False,
    check_finite: Any = True,
    *,
    assume_a: Any = None,
    lower: Any = False,
) -> Any:
    check_hints("inv", {"overwrite_a": overwrite_a})
    if assume_a not in (None, "gen", "general"):
        raise refused("inv", f"assume_a={assume_a!r}", "leave assume_a out")
    return on_stacks(inv, matrix(a, "inv"), check_finite=flag(check_finite, "check_finite"))


det = opaque(
    "linalg.det",
    scipys("det"),
    linalg.det.signature,
    spelled("det"),
    dtypes=lambda a: np.result_type(linalg_dtype(a), np.float64),
    samples=_SQUARE,
    cupy=lambda args, p: scipy_in_cupy.in_dtype("np.linalg.det({0})", args[0], np.dtype("f8")),
    jvp=lambda dots, outs, args, params: (
        outs[0] * np.trace(apply(solve, args[0], dots[0], **_GENERAL)),
    ),
    vjp=lambda bars, outs, args, params: (
        bars[0] * outs[0] * transposed(apply(inv, args[0], **params)),
    ),
)


@means("scipy.linalg", "det")
def _det(a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    check_hints("det", {"overwrite_a": overwrite_a})
    return on_stacks(det, matrix(a, "det"), check_finite=flag(check_finite, "check_finite"))


def _by_blas(x: Array, ord: Any, axis: Any, keepdims: bool) -> bool:
    """True if SciPy computes a norm by BLAS or LAPACK, and so returns a Python number."""
    if axis is not None or keepdims:
        return False
    return (x.ndim == 1 and ord in (None, 2)) or (x.ndim == 2 and ord in (1, np.inf))


def _infer_norm(x: Any, ord: Any, axis: Any, keepdims: bool, check_finite: bool) -> ArrayType:
    found = norms.norm.infer(x, ord, axis, keepdims)
    whole = axis is None or len(axis) == x.ndim == 2
    if x.dtype.kind == "f" and _by_blas(x, ord, None if whole else axis, keepdims):
        return ArrayType(np.dtype("f8"))
    return found


def _norm_text(args: Any, params: dict[str, Any]) -> str:
    text = norms.norm_text(args, params).removeprefix("np.")
    return text[:-1] + options(params) + ")"


def _norm_of(x: Any, ord: Any, axis: Any, keepdims: bool, check_finite: bool) -> Any:
    one = axis[0] if axis is not None and len(axis) == 1 else axis
    return scipys("norm")(x, ord, one, keepdims, check_finite)


_NORM = {"ord": None, "axis": None, "keepdims": False, "check_finite": True}
norm = opaque(
    "linalg.norm",
    _norm_of,
    _infer_norm,
    _norm_text,
    cupy=lambda args, params: scipy_in_cupy.in_dtype(
        norms.norm_text(args, params), args[0], _infer_norm(args[0].type, **params).dtype
    ),
    jvp=norms.norm.jvp,
    vjp=norms.norm.vjp,
    samples=cases(
        case((4,), **_NORM),
        case((4,), **{**_NORM, "ord": 3, "check_finite": False}),
        case((3, 4), **_NORM),
        case((3, 4), **{**_NORM, "axis": (0,), "keepdims": True}),
        case((3, 4), **{**_NORM, "ord": 1, "axis": (0, 1)}),
        case(Drawn((3,), "f4"), **_NORM),
        case(Drawn((2, 3), "f4"), **_NORM),
    ),
)


@means("scipy.linalg", "norm")
def _norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: Any = False, check_finite: Any = True
) -> Any:
    check, keeps = flag(check_finite, "check_finite"), flag(keepdims, "keepdims")
    a = FUNCTIONS[np.asarray](a)
    if check and (a.dtype.kind == "c" or ord == 0):  # said in other functions
        a = apply(finite, a)
    return norms.norm_by(norm, a, ord, axis, keeps, {"check_finite": check})


pinv = opaque(
    "linalg.pinv",
    scipys("pinv"),
    linalg.pinv.signature,
    spelled("pinv", atol=None, rtol=None),
    cupy=lambda args, params: scipy_in_cupy.pinv(params, linalg_dtype(args[0].type)),
    jvp=linalg.pinv.jvp,
    vjp=linalg.pinv.vjp,
    samples=cases(
        case((3, 2), atol=None, rtol=None, check_finite=True),
        case((2, 3), atol=1e-9, rtol=1e-9, check_finite=False),
        case(regular(2, 2, dtype="f4"), atol=None, rtol=None, check_finite=True),
    ),
)


@means("scipy.linalg", "pinv")
def _pinv(
    a: Any,
    *,
    atol: Any = None,
    rtol: Any = None,
    return_rank: Any = False,
    check_finite: Any = True,
) -> Any:
    if flag(return_rank, "return_rank") or isinstance(atol, Array) or isinstance(rtol, Array):
        raise refused("pinv", "return_rank=True, or a run-time tolerance,")
    check = flag(check_finite, "check_finite")
    a = matrix(a, "pinv")
    return on_stacks(pinv, a, atol=atol, rtol=rtol, check_finite=check)
