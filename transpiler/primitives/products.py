"""Products of matrices and tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, METHODS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType, promote
from calque.transpiler.primitives import guards
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import (
    apply,
    bilinear,
    definition,
    finish,
    implements,
    operand,
    strong,
)
from calque.transpiler.primitives.matrix_signatures import typed
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.shapes import normalize_axis, normalize_tuple, product_dim

_PRODUCT = "(m?,n),(n,k?)->(m?,k?)"


def _swap(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


@bilinear(
    "np.matmul",
    np.matmul,
    typed(_PRODUCT, lambda a, b: promote([a, b])[0]),
    "{0} @ {1}",
    fresh=True,
    samples=cases(
        case((3,), (3,)),
        case((2, 3), (3,)),
        case((3,), (3, 2)),
        case((2, 3), (3, 4)),
        case((5, 2, 3), (3, 4)),
        case((5, 1, 2, 3), (4, 3, 2)),
        case((3,), (2, 3, 4)),
        case((2, 4, 3), (3,)),
        case((2, 0), (0, 3)),
        case((2, 3, 0), (0, 3)),
        case((2, 0, 3), (3,)),
        case((5, 2, 2, 3), (3, 4)),
        case(single(2, 3), single(3, 1)),
    ),
    guard=guards.of_matmul,
    signature=_PRODUCT,
    infix="dot",
)
def matmul(y_bar: Any, a: Array, b: Array) -> tuple[Any, Any]:
    """The two transposes; axes added by broadcasting are summed by the pass."""
    match a.ndim, b.ndim:
        case 1, 1:
            return y_bar * b, y_bar * a
        case 2, 1:
            return np.outer(y_bar, b), a.T @ y_bar
        case 1, 2:
            return b @ y_bar, np.outer(a, y_bar)
        case 1, _:
            return np.matmul(b, y_bar[..., None])[..., 0], a[:, None] * y_bar[..., None, :]
        case _, 1:
            return y_bar[..., None] * b, _all_rows(a).T @ np.ravel(y_bar)
        case _, 2:  # one product instead of a stack of them, to be summed
            rows, rows_bar = _all_rows(a), _all_rows(y_bar)
            return _of_left(y_bar, a, b, np.matmul), _of_right(rows_bar, rows, b, np.matmul)
    return y_bar @ _swap(b), _swap(a) @ y_bar


def _all_rows(a: Array) -> Any:
    """All rows of a stack of matrices, as one matrix."""
    return a if a.ndim == 2 else np.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))


# The cotangent of a transpose is a transpose again: what it transposes is made as its own product,
# so that the memory of the result lies as that of the matrix does.


def _of_left(y_bar: Any, a: Array, b: Any, product: Callable[..., Any]) -> Any:
    return product(b, y_bar.T).T if _is_transpose(a) else product(y_bar, b.T)


def _of_right(y_bar: Any, a: Any, b: Array, product: Callable[..., Any]) -> Any:
    return product(y_bar.T, a).T if _is_transpose(b) else product(a.T, y_bar)


def _is_transpose(matrix: Array) -> bool:
    made = definition(matrix)
    return made is not None and made.primitive is transpose and matrix.ndim == 2


@implements(np.matmul, np.linalg.matmul, op="matmul")
def np_matmul(a: Any, b: Any, out: Any = None, *, dtype: Any = None, **rest: Any) -> Any:
    """``a @ b``."""
    a, b = operand(a), operand(b)
    if not type_of(a).ndim or not type_of(b).ndim:
        message = "matmul: an operand has no dimensions; write * instead of @"
        raise ShapeError(message, current().origin)
    result = apply(matmul, a, b)
    return finish(result if dtype is None else FUNCTIONS["cast"](result, dtype), out)


def _infer_dot(a: Any, b: Any) -> ArrayType:
    current().unify(a.dims[-1], b.dims[-2] if b.ndim > 1 else b.dims[-1])
    columns = b.dims[:-2] + b.dims[-1:] if b.ndim > 1 else ()
    return ArrayType(promote([a.type, b.type])[0], a.dims[:-1] + columns)


@bilinear(
    "np.dot",
    np.dot,
    _infer_dot,
    "np.dot({0}, {1})",
    fresh=True,
    samples=cases(
        case((3,), (3,)),
        case((2, 3), (3,)),
        case((3,), (3, 2)),
        case((2, 3), (3, 4)),
        case((5, 2, 3), (3, 4)),
        case((5, 2, 3), (3,)),
        case((2, 3), (4, 3, 2)),
        case((3,), (4, 3, 2)),
        case((2, 0), (0, 3)),
        case(single(2, 3), single(3)),
    ),
)
def dot(y_bar: Any, a: Array, b: Array) -> tuple[Any, Any]:
    """The two transposes."""
    match a.ndim, b.ndim:
        case 1, 1:
            return y_bar * b, y_bar * a
        case 2, 1:
            return np.outer(y_bar, b), np.dot(a.T, y_bar)
        case 1, 2:
            return np.dot(b, y_bar), np.outer(a, y_bar)
        case 2, 2:
            return _of_left(y_bar, a, b, np.dot), _of_right(y_bar, a, b, np.dot)
    rows, columns = a.ndim - 1, [k for k in range(b.ndim) if k != max(b.ndim - 2, 0)]
    outer = list(range(rows, rows + len(columns)))
    a_bar = np.tensordot(y_bar, b, (outer, columns))
    b_bar = np.tensordot(a, y_bar, (list(range(rows)), list(range(rows))))
    return a_bar, b_bar if b.ndim == 1 else np.moveaxis(b_bar, 0, -2)


@implements(np.dot, method="dot")
def np_dot(a: Any, b: Any, out: Any = None) -> Any:
    """``np.dot``; a product with a number is ``*``."""
    a, b = operand(a), operand(b)
    if not type_of(a).ndim or not type_of(b).ndim:
        return finish(np.multiply(strong(a), strong(b)), out)
    return finish(apply(dot, a, b), out)


def _infer_inner(a: Any, b: Any) -> ArrayType:
    current().unify(a.dims[-1], b.dims[-1])
    return ArrayType(promote([a.type, b.type])[0], a.dims[:-1] + b.dims[:-1])


@bilinear(
    "np.inner",
    np.inner,
    _infer_inner,
    "np.inner({0}, {1})",
    cupy="np.tensordot({0}, {1}, (-1, -1))",  # its inner takes no empty arrays
    fresh=True,
    samples=cases(
        case((3,), (3,)),
        case((2, 3), (4, 3)),
        case((2, 5, 3), (3,)),
        case((0,), (2, 0)),
        case(single(3), single(3)),
    ),
)
def inner(y_bar: Any, a: Array, b: Array) -> tuple[Any, Any]:
    """The two transposes."""
    if a.ndim == b.ndim == 1:
        return y_bar * b, y_bar * a
    rows, columns = a.ndim - 1, b.ndim - 1
    a_bar = np.tensordot(y_bar, b, columns)
    first = list(range(rows))
    return a_bar, np.tensordot(y_bar, a, (first, first))


@implements(np.inner)
def np_inner(a: Any, b: Any) -> Any:
    """``np.inner``."""
    a, b = operand(a), operand(b)
    if not type_of(a).ndim or not type_of(b).ndim:
        return np.multiply(strong(a), strong(b))
    return apply(inner, a, b)


def _infer_outer(a: Any, b: Any) -> ArrayType:
    dtype, _ = promote([type_of(a), type_of(b)])
    return ArrayType(dtype, (product_dim(type_of(a).dims), product_dim(type_of(b).dims)))


@bilinear(
    "np.outer",
    np.outer,
    _infer_outer,
    "np.outer({0}, {1})",
    fresh=True,
    samples=cases(
        case((3,), (2,)),
        case((2, 2), (3,)),
        case((), (2,)),
        case((0,), (2,)),
        case(single(2), single(3)),
    ),
)
def outer(y_bar: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The two transposes, back in the operands' shapes."""
    a_bar = y_bar @ np.ravel(b) if isinstance(a, Array) else None
    b_bar = np.ravel(a) @ y_bar if isinstance(b, Array) else None
    if type_of(a).ndim != 1 and a_bar is not None:
        a_bar = np.reshape(a_bar, a.shape)
    if type_of(b).ndim != 1 and b_bar is not None:
        b_bar = np.reshape(b_bar, b.shape)
    return a_bar, b_bar


@implements(np.outer, np.linalg.outer)
def np_outer(a: Any, b: Any, out: Any = None) -> Any:
    """``np.outer``."""
    return finish(apply(outer, operand(a), operand(b)), out)


FUNCTIONS[(np.multiply, "outer")] = lambda a, b: np.multiply(
    FUNCTIONS[np.reshape](a, (*a.shape, *(1,) * type_of(operand(b)).ndim)), b
)


def _conjugate(x: Any) -> Any:
    return np.conj(x) if x.dtype.kind == "c" else x


def _infer_vdot(a: Any, b: Any) -> ArrayType:
    current().unify(product_dim(a.dims), product_dim(b.dims))
    return ArrayType(promote([a.type, b.type])[0])


@bilinear(
    "np.vdot",
    np.vdot,
    _infer_vdot,
    "np.vdot({0}, {1})",
    samples=cases(
        case((3,), (3,)), case((2, 3), (2, 3)), case((0,), (0,)), case(single(2), single(2))
    ),
)
def vdot(y_bar: Any, a: Array, b: Array) -> tuple[Any, Any]:
    """The first operand is conjugated."""
    a_bar, b_bar = _conjugate(y_bar * b), y_bar * _conjugate(a)
    if a.ndim == b.ndim == 1:
        return a_bar, b_bar
    return np.reshape(a_bar, a.shape), np.reshape(b_bar, b.shape)


@implements(np.vdot)
def np_vdot(a: Any, b: Any) -> Any:
    """``np.vdot``."""
    return apply(vdot, FUNCTIONS[np.asarray](a), FUNCTIONS[np.asarray](b))


# tensordot

Pairs = tuple[tuple[int, ...], tuple[int, ...]]


def _rest(x: Array, axes: tuple[int, ...]) -> list[int]:
    return [k for k in range(x.ndim) if k not in axes]


def _infer_tensordot(a: Any, b: Any, axes: Pairs) -> ArrayType:
    left, right = axes
    for i, j in zip(left, right, strict=True):
        current().unify(a.dims[i], b.dims[j])
    dims = [a.dims[k] for k in _rest(a, left)] + [b.dims[k] for k in _rest(b, right)]
    return ArrayType(promote([a.type, b.type])[0], tuple(dims))


def _tensordot_text(args: Any, params: dict[str, Any]) -> str:
    (left, right), count = params["axes"], len(params["axes"][0])
    rank = type_of(args[0]).ndim
    plain = left == tuple(range(rank - count, rank)) and right == tuple(range(count))
    axes = str(count) if plain else f"({list(left)}, {list(right)})"
    return f"np.tensordot({{0}}, {{1}}, {axes})"


@bilinear(
    "np.tensordot",
    lambda a, b, axes: np.tensordot(a, b, axes),
    _infer_tensordot,
    _tensordot_text,
    fresh=True,
    samples=cases(
        case((2, 3), (3, 4), axes=((1,), (0,))),
        case((2, 3, 4), (4, 3, 5), axes=((1, 2), (1, 0))),
        case((2, 3), (4,), axes=((), ())),
        case((2, 3, 4), (5, 2), axes=((0,), (1,))),
        case((2, 3), (3, 2), axes=((0, 1), (1, 0))),
        case(single(2, 0), single(0, 3), axes=((1,), (0,))),
    ),
)
def tensordot(y_bar: Any, a: Array, b: Array, axes: Pairs) -> tuple[Any, Any]:
    """Contract the cotangent with the other operand, and put the axes back in order."""
    left, right = axes
    rows, columns = _rest(a, left), _rest(b, right)
    kept = len(rows)
    a_bar = np.tensordot(y_bar, b, (list(range(kept, kept + len(columns))), columns))
    b_bar = np.tensordot(a, y_bar, (rows, list(range(kept))))
    by_right = [i for _, i in sorted(zip(right, left))]
    by_left = [j for _, j in sorted(zip(left, right))]
    return (
        np.transpose(a_bar, np.argsort(rows + by_right).tolist()),
        np.transpose(b_bar, np.argsort(by_left + columns).tolist()),
    )


@implements(np.tensordot, np.linalg.tensordot)
def np_tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """``np.tensordot``."""
    a, b = FUNCTIONS[np.asarray](a), FUNCTIONS[np.asarray](b)
    if isinstance(axes, (tuple, list)):
        left, right = normalize_tuple(axes[0], a.ndim), normalize_tuple(axes[1], b.ndim)
    else:
        count = known_int(axes, "The number of axes")
        left, right = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(left) != len(right) or min(left, default=0) < 0 or max(right, default=-1) >= b.ndim:
        raise ShapeError("shape-mismatch for sum", current().origin)
    return apply(tensordot, a, b, axes=(left, right))


# kron and cross


def _infer_kron(a: Any, b: Any) -> ArrayType:
    rank = max(a.ndim, b.ndim)
    left = (1,) * (rank - a.ndim) + a.dims
    right = (1,) * (rank - b.ndim) + b.dims
    dims = tuple(product_dim(pair) for pair in zip(left, right))
    return ArrayType(promote([a.type, b.type])[0], dims)


@bilinear(
    "np.kron",
    np.kron,
    _infer_kron,
    "np.kron({0}, {1})",
    fresh=True,
    samples=cases(
        case((2,), (3,)),
        case((2, 3), (3, 2)),
        case((2,), (2, 3)),
        case((2, 2, 1), (3,)),
        case(single(2), single(0)),
    ),
)
def kron(y_bar: Any, a: Array, b: Array) -> tuple[Any, Any]:
    """Blocks on axes of their own, contracted with the other operand."""
    rank = max(a.ndim, b.ndim)
    rows = (1,) * (rank - a.ndim) + a.shape
    columns = (1,) * (rank - b.ndim) + b.shape
    blocks = np.reshape(y_bar, tuple(s for pair in zip(rows, columns) for s in pair))
    even, odd = list(range(0, 2 * rank, 2)), list(range(1, 2 * rank, 2))
    a_bar = np.tensordot(blocks, np.reshape(b, columns), (odd, list(range(rank))))
    b_bar = np.tensordot(blocks, np.reshape(a, rows), (even, list(range(rank))))
    return np.reshape(a_bar, a.shape), np.reshape(b_bar, b.shape)


@implements(np.kron)
def np_kron(a: Any, b: Any) -> Any:
    """``np.kron``."""
    a, b = FUNCTIONS[np.asarray](a), FUNCTIONS[np.asarray](b)
    return a * b if not a.ndim or not b.ndim else apply(kron, a, b)


def _infer_cross(a: Any, b: Any) -> ArrayType:
    dims = current().broadcast([a.dims[:-1], b.dims[:-1]])
    pair = a.dims[-1], b.dims[-1]
    if not set(pair) <= {2, 3}:
        current().unify(pair[0], 3)
        current().unify(pair[1], 3)
    dtype = promote([a.type, b.type])[0]
    return ArrayType(dtype, dims if pair == (2, 2) else (*dims, 3))


@bilinear(
    "np.cross",
    lambda a, b: np.cross(a, b),
    _infer_cross,
    "np.cross({0}, {1})",
    fresh=True,
    samples=cases(
        case((3,), (3,)),
        case((4, 3), (3,)),
        case((2, 1, 3), (4, 3)),
        case((0, 3), (3,)),
        case(single(2, 3), single(2, 3)),
    ),
)
def cross(y_bar: Any, a: Array, b: Array) -> tuple[Any, Any]:
    """The triple product, turned around."""
    return np.cross(b, y_bar), np.cross(y_bar, a)


@implements(np.cross, np.linalg.cross)
def np_cross(
    a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None
) -> Any:
    """``np.cross`` of vectors of size 3, or 2."""
    a, b = FUNCTIONS[np.asarray](a), FUNCTIONS[np.asarray](b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a = np.moveaxis(a, normalize_axis(axisa, a.ndim), -1)
    b = np.moveaxis(b, normalize_axis(axisb, b.ndim), -1)
    if 2 in (a.dims[-1], b.dims[-1]):
        return _cross_of_pairs(a, b, axisc)
    return np.moveaxis(apply(cross, a, b), -1, axisc)


def _cross_of_pairs(a: Array, b: Array, axisc: Any) -> Any:
    """NumPy's formulas where a third component is missing."""
    a0, a1, b0, b1 = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    last = a0 * b1 - a1 * b0
    if a.dims[-1] == b.dims[-1]:
        return last
    if a.dims[-1] == 2:
        parts = a1 * b[..., 2], -(a0 * b[..., 2]), last
    else:
        parts = -(a[..., 2] * b1), a[..., 2] * b0, last
    return np.moveaxis(np.stack(parts, axis=-1), -1, axisc)


METHODS["__matmul__"] = np_matmul


# products of vectors, stacked


def _stacked(name: str, subscripts: str) -> None:
    if hasattr(np, name):
        function = getattr(np, name)
        FUNCTIONS[function] = lambda a, b, out=None: finish(_stacked_product(a, b, subscripts), out)


def _stacked_product(a: Any, b: Any, kind: str) -> Any:
    a, b = FUNCTIONS[np.asarray](a), FUNCTIONS[np.asarray](b)
    match kind:
        case "matvec":
            return np.matmul(a, b[..., None])[..., 0]
        case "vecmat":
            return np.matmul(_conjugate(a)[..., None, :], b)[..., 0, :]
    return np.matmul(_conjugate(a)[..., None, :], b[..., None])[..., 0, 0]


for _name in ("vecdot", "matvec", "vecmat"):
    _stacked(_name, _name)


@implements(np.linalg.vecdot)
def linalg_vecdot(a: Any, b: Any, /, *, axis: Any = -1) -> Any:
    """``np.linalg.vecdot``."""
    return _stacked_product(np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1), "vecdot")
