"""``np.linalg.norm`` of vectors and matrices, condition numbers, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, apply, implements, opaque
from calque.transpiler.primitives.decompositions import svd
from calque.transpiler.primitives.elementwise import or_infinite
from calque.transpiler.primitives.linalg import matrices
from calque.transpiler.primitives.matrix_signatures import linalg_dtype
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.shapes import normalize_tuple

Axes = tuple[int, ...] | None


def _infer_norm(x: Any, ord: Any, axis: Axes, keepdims: bool) -> ArrayType:
    axes = range(x.ndim) if axis is None else axis
    dtype = np.linalg.norm(
        np.ones(1, x.dtype), ord if axis is None or len(axis) == 1 else None
    ).dtype
    if keepdims:
        return ArrayType(dtype, tuple(1 if a in axes else d for a, d in enumerate(x.dims)))
    return ArrayType(dtype, tuple(d for a, d in enumerate(x.dims) if a not in axes))


def norm_text(args: Any, params: dict[str, Any]) -> str:
    ord, axis = params["ord"], params["axis"]
    parts = ["{0}"]
    if ord is not None:
        sign = "-" if isinstance(ord, float) and ord < 0 else ""
        parts.append(f"{sign}np.inf" if ord in (np.inf, -np.inf) else repr(ord))
    if axis is not None:
        parts.append(f"axis={axis[0] if len(axis) == 1 else axis}")
    if params["keepdims"]:
        parts.append("keepdims=True")
    return f"np.linalg.norm({', '.join(parts)})"


def _spread(y: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A norm with its axes back, of size 1."""
    if keepdims or not isinstance(y, Array) or not y.ndim:
        return y
    return y[tuple(None if a in axes else slice(None) for a in range(x.ndim))]


def _gradient(y: Any, x: Array, ord: Any, axes: tuple[int, ...]) -> Any:
    """The derivative of the norm ``y`` (its axes kept) by every element."""
    if _is_root_of_squares(ord, axes):
        return x / or_infinite(y)
    if len(axes) == 1:
        return _vector_gradient(y, x, ord, axes)
    if ord in (1, -1, np.inf, -np.inf):
        row, column = axes
        summed, other = (row, column) if ord in (1, -1) else (column, row)
        sums = np.sum(np.abs(x), axis=summed, keepdims=True)
        # of these sums, not ``y``: kernels add in another order than NumPy
        best = (np.max if ord > 0 else np.min)(sums, axis=other, keepdims=True)
        return _share((sums == best).astype(x.dtype), axes) * _side(x)
    return _spectral_gradient(x, ord, axes)


def _share(chosen: Any, axes: tuple[int, ...]) -> Any:
    """1 where ``chosen``, shared out among ties."""
    return chosen / np.sum(chosen, axis=axes, keepdims=True)


def _side(x: Any) -> Any:
    """The derivative of ``abs``: 1 at zero, as JAX's."""
    return np.sign(x) + (x == 0)


def _vector_gradient(y: Any, x: Array, ord: Any, axes: tuple[int, ...]) -> Any:
    if ord == 1:
        return _side(x)
    if ord in (np.inf, -np.inf):
        return _share((np.abs(x) == y).astype(x.dtype), axes) * _side(x)
    return np.sign(x) * (np.abs(x) / or_infinite(y)) ** (ord - 1)


def _is_root_of_squares(ord: Any, axes: Axes) -> bool:
    return ord in (None, "fro", "f") or (ord == 2 and (axes is None or len(axes) == 1))


def _spectral_gradient(x: Array, ord: Any, axes: tuple[int, ...]) -> Any:
    """The gradient of the largest, the smallest, or the sum of the singular values."""
    u, _, vt = apply(svd, FUNCTIONS[np.moveaxis](x, axes, (-2, -1)))
    if ord == "nuc":
        slope = u @ vt
    else:
        k = 0 if ord == 2 else -1
        slope = u[..., :, k, None] * vt[..., k, None, :]
    return np.moveaxis(slope, (-2, -1), axes)


def _axes_of(x: Array, axis: Axes) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else axis


def _norm_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x,), axes = args, _axes_of(args[0], params["axis"])
    y = _spread(outs[0], x, axes, params["keepdims"])
    slope = _gradient(y, x, params["ord"], axes)
    return (np.sum(slope * tangents[0], axis=params["axis"], keepdims=params["keepdims"]),)


def _norm_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x,), axes = args, _axes_of(args[0], params["axis"])
    y, y_bar = (_spread(v, x, axes, params["keepdims"]) for v in (outs[0], cotangents[0]))
    if _is_root_of_squares(params["ord"], axes):
        return (y_bar / or_infinite(y) * x,)
    return (y_bar * _gradient(y, x, params["ord"], axes),)


def _norm_samples() -> Any:
    vectors = [None, 1, 2, np.inf, -np.inf, 3, 1.5, -1]
    tables = [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]
    calls = [case((4,), ord=o, axis=None, keepdims=False) for o in vectors]
    calls += [case((3, 4), ord=o, axis=(1,), keepdims=k) for o in vectors for k in (False, True)]
    calls += [case((3, 4), ord=o, axis=(0, 1), keepdims=False) for o in tables]
    calls += [case((2, 3, 4), ord=o, axis=(2, 0), keepdims=True) for o in tables]
    calls += [
        case((2, 3), ord=None, axis=None, keepdims=False),
        case((2, 2, 2), ord=None, axis=None, keepdims=True),
        case(Drawn((3,), "f4"), ord=None, axis=None, keepdims=False),
        case(Drawn((2, 3), "f4"), ord=3, axis=(1,), keepdims=False),
    ]
    return cases(*calls)


norm = opaque(
    "np.linalg.norm",
    lambda x, ord, axis, keepdims: np.linalg.norm(
        x, ord, axis[0] if axis is not None and len(axis) == 1 else axis, keepdims
    ),
    _infer_norm,
    norm_text,
    jvp=_norm_jvp,
    vjp=_norm_vjp,
    nonnegative=True,
    smooth=lambda params: _is_root_of_squares(params["ord"], params["axis"]),
    samples=_norm_samples(),
)


@implements(np.linalg.norm)
def np_norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """``np.linalg.norm``; where all elements are zero its slope is zero, as PyTorch's."""
    return norm_by(norm, x, ord, axis, keepdims, {})


def norm_by(
    primitive: Primitive, x: Any, ord: Any, axis: Any, keepdims: Any, more: dict[str, Any]
) -> Any:
    """A norm by NumPy's record, or by one that takes ``more`` parameters."""
    x = FUNCTIONS[np.asarray](x)
    if isinstance(ord, Array):
        ord = known_int(ord, "The order of a norm")
    if x.dtype.kind == "c":
        return _complex_norm(primitive, x, ord, axis, keepdims, more)
    axes = None if axis is None else normalize_tuple(axis, x.ndim)
    if axes is None and ord is not None:
        axes = None if x.ndim == 1 else tuple(range(x.ndim))
    count = x.ndim if axes is None else len(axes)
    if ord is not None and count not in (1, 2):
        raise ShapeError("Improper number of dimensions to norm.", current().origin)
    if ord == 0 and count == 1:
        counted = np.not_equal(x, 0).astype(linalg_dtype(x.type))
        return np.sum(counted, axis=None if axes is None else axes[0], keepdims=keepdims)
    return apply(primitive, x, ord=ord, axis=axes, keepdims=bool(keepdims), **more)


def _complex_norm(
    primitive: Primitive, x: Array, ord: Any, axis: Any, keepdims: bool, more: dict[str, Any]
) -> Any:
    """The norm of the absolute values, or of the singular values."""
    count = x.ndim if axis is None else np.size(axis)
    if ord is None or (ord == 2 and count == 1) or ord == "fro":
        squares = x.real * x.real + x.imag * x.imag
        total = np.sum(squares, axis=axis, keepdims=keepdims)
        return np.where(total == 0, 0.0, np.sqrt(total))  # selects: the slope at zero is zero
    if count != 2 or ord not in (2, -2, "nuc"):
        return norm_by(primitive, np.abs(x), ord, axis, keepdims, more)
    axes = normalize_tuple((0, 1) if axis is None else axis, x.ndim)
    stack: Any = x
    s = np.linalg.svd(np.moveaxis(stack, axes, (-2, -1)), compute_uv=False)
    found = np.sum(s, axis=-1) if ord == "nuc" else s[..., 0 if ord == 2 else -1]
    return np.expand_dims(found, axes) if keepdims else found


@implements(np.linalg.vector_norm)
def np_vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """``np.linalg.vector_norm``; without ``axis``, of all elements as one vector."""
    x = FUNCTIONS[np.asarray](x)
    if axis is not None and not isinstance(axis, (tuple, list)):
        return np_norm(x, ord, axis, keepdims)
    axes = tuple(range(x.ndim)) if axis is None else normalize_tuple(axis, x.ndim)
    rest = [a for a in range(x.ndim) if a not in axes]
    kept = tuple(x.shape[a] for a in rest)
    rows = np.reshape(np.transpose(x, (*axes, *rest)), (-1, *kept))
    result = np_norm(rows, ord, 0)
    return np.expand_dims(result, axes) if keepdims else result


@implements(np.linalg.matrix_norm)
def np_matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """``np.linalg.matrix_norm``: over the last two axes."""
    return np_norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.cond)
def np_cond(x: Any, p: Any = None) -> Any:
    """``np.linalg.cond``: by singular values, or by norms of the matrix and its inverse."""
    x = matrices(x, "cond")
    if p in (None, 2, -2):
        s = np.linalg.svd(x, compute_uv=False)
        return s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
    return np_norm(x, p, (-2, -1)) * np_norm(np.linalg.inv(x), p, (-2, -1))


matrix_rank = opaque(
    "np.linalg.matrix_rank",
    lambda a, tol: np.linalg.matrix_rank(a, tol),
    "(m,n)->()",
    lambda args, p: (
        "np.linalg.matrix_rank({0}" + ("" if p["tol"] is None else f", {p['tol']}") + ")"
    ),
    dtypes=lambda t: np.dtype(np.intp),
    nondifferentiable=True,
    samples=cases(case((3, 3), tol=None), case((2, 3, 2), tol=None)),
)


@implements(np.linalg.matrix_rank)
def np_matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """``np.linalg.matrix_rank``: a number without a derivative."""
    if isinstance(tol, Array) or rtol is not None or hermitian:
        raise UnsupportedFunction(
            "np.linalg.matrix_rank with these options has no rule.", current().origin
        )
    return apply(matrix_rank, matrices(A, "matrix_rank"), tol=tol)
