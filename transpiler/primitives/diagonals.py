"""Diagonals and triangles: diag, diagonal, trace, tril, triu, eye, and their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.ir.core import Apply
from calque.transpiler.ir.types import ArrayType, DimLike
from calque.transpiler.primitives.base import Primitive, apply, finish, implements, linear, register
from calque.transpiler.primitives.creation import dtype_text
from calque.transpiler.primitives.guards import guard_of, note_selected
from calque.transpiler.primitives.record import Scatter
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.selections import Selection, both
from calque.transpiler.primitives.shapes import flattened, normalize_axis, read_only

# eye and tri


def _matrix(name: str, function: Callable[..., Any]) -> Primitive:
    return register(
        Primitive(
            name,
            function,
            lambda n, m, k, dtype: ArrayType(dtype, (current().dim_of(n), current().dim_of(m))),
            lambda args, p: _matrix_text(name, args, p),
            kind="creation",
            nondifferentiable=True,
            fresh=True,
            cheap=True,
            samples=cases(
                case(3, 3, k=0, dtype=np.dtype("f8")),
                case(2, 4, k=1, dtype=np.dtype("f4")),
                case(0, 2, k=-1, dtype=np.dtype(int)),
            ),
        )
    )


def _matrix_text(name: str, args: Any, params: dict[str, Any]) -> str:
    text = f"{name}({{0}}" + ("" if _is_square(args) else ", {1}")
    if params["k"]:
        text += f", k={params['k']}"
    return text + dtype_text(params["dtype"]) + ")"


def _is_square(args: Any) -> bool:
    n, m = args
    return n is m or (isinstance(n, int) and isinstance(m, int) and n == m)


eye = _matrix("np.eye", lambda n, m, k, dtype: np.eye(n, m, k, dtype))
tri = _matrix("np.tri", lambda n, m, k, dtype: np.tri(n, m, k, dtype))


def _matrix_maker(primitive: Primitive) -> Any:
    def make(
        N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *rest: Any, **options: Any
    ) -> Array:
        shift = known_int(k, "A diagonal's offset")
        result = apply(primitive, N, N if M is None else M, k=shift, dtype=np.dtype(dtype or float))
        result.is_buffer = True
        return result

    return make


FUNCTIONS[np.eye] = _matrix_maker(eye)
FUNCTIONS[np.tri] = _matrix_maker(tri)
FUNCTIONS[np.identity] = lambda n, dtype=None, **rest: FUNCTIONS[np.eye](n, dtype=dtype)


# diag and diagonal


def diagonal_dim(rows: DimLike, columns: DimLike, offset: int) -> DimLike:
    """The length of a diagonal of a matrix of these dimensions."""
    left, right = (rows, columns - offset) if offset >= 0 else (rows + offset, columns)
    if current().dims.same(left, right):
        return current().dims.resolve(left)
    if isinstance(left, int) and isinstance(right, int):
        return max(0, min(left, right))
    difference = current().dims.resolve(right - left)
    if isinstance(difference, int):
        return left if difference >= 0 else right
    raise current().needs_dims([left, right], "The length of a diagonal")


def _diagonal_index(y: Array, offset: int) -> tuple[Any, Any]:
    """Row and column numbers of a diagonal's elements, its length ``y``'s last axis."""
    steps = FUNCTIONS[np.arange](y.shape[-1])
    return (steps, steps + offset) if offset >= 0 else (steps - offset, steps)


def _infer_diag(x: Any, k: int) -> ArrayType:
    if x.ndim == 1:
        return ArrayType(x.dtype, (x.dims[0] + abs(k),) * 2)
    return ArrayType(x.dtype, (diagonal_dim(x.dims[0], x.dims[1], k),))


@linear(
    "np.diag",
    lambda x, k: np.diag(x, k),
    _infer_diag,
    lambda args, p: f"np.diag({{0}}{_offset_text(p['k'])})",
    view_back=read_only,
    copies=lambda x, k: x.ndim == 1,
    samples=cases(
        case((3,), k=0),
        case((3,), k=-1),
        case((3, 3), k=0),
        case((3, 3), k=1),
        case((2, 4), k=1),
        case((4, 2), k=-1),
        case(single(2), k=2),
        case((0,), k=0),
    ),
)
def diag(y_bar: Any, x: Array, k: int) -> Any:
    """A matrix of the diagonal, or the diagonal of a matrix."""
    if x.ndim == 1 or current().dims.same(*x.dims):
        return np.diag(y_bar, k)
    return Scatter(lambda x_bar: _add_diagonal(x_bar, y_bar, k))


def _offset_text(k: int) -> str:
    return f", {k}" if k else ""


def _add_diagonal(x_bar: Array, y_bar: Array, offset: int) -> None:
    """Add to the diagonal of the last two axes; no element is named twice."""
    FUNCTIONS[np.add.at](x_bar, (..., *_diagonal_index(y_bar, offset)), y_bar)


@implements(np.diag)
def np_diag(v: Any, k: Any = 0) -> Array:
    """``np.diag``."""
    v = FUNCTIONS[np.asarray](v)
    if v.ndim not in (1, 2):
        raise ShapeError("Input must be 1- or 2-d.", current().origin)
    return apply(diag, v, k=known_int(k, "A diagonal's offset"))


@implements(np.diagflat)
def np_diagflat(v: Any, k: Any = 0) -> Array:
    """``np.diagflat``."""
    return np_diag(flattened(v), k)


def _diagonal_text(args: Any, params: dict[str, Any]) -> str:
    first, second = params["axes"]
    text = _offset_text(params["offset"])
    if (first, second) != (0, 1):
        text = f", {params['offset']}, {first}, {second}"
    return f"np.diagonal({{0}}{text})"


def _infer_diagonal(x: Any, offset: int, axes: tuple[int, int]) -> ArrayType:
    rest = tuple(d for a, d in enumerate(x.dims) if a not in axes)
    return ArrayType(x.dtype, (*rest, diagonal_dim(x.dims[axes[0]], x.dims[axes[1]], offset)))


@linear(
    "np.diagonal",
    lambda x, offset, axes: np.diagonal(x, offset, *axes),
    _infer_diagonal,
    _diagonal_text,
    view_back=read_only,
    samples=cases(
        case((3, 3), offset=0, axes=(0, 1)),
        case((2, 4), offset=1, axes=(0, 1)),
        case((2, 3, 3), offset=-1, axes=(1, 2)),
        case((3, 2, 3), offset=0, axes=(2, 0)),
        case(single(2, 2), offset=0, axes=(0, 1)),
        case((0, 2), offset=0, axes=(0, 1)),
    ),
)
def diagonal(y_bar: Any, x: Array, offset: int, axes: tuple[int, int]) -> Any:
    """Each element goes back to its place."""
    moved = FUNCTIONS[np.moveaxis]
    return Scatter(lambda x_bar: _add_diagonal(moved(x_bar, axes, (-2, -1)), y_bar, offset))


@implements(np.diagonal, method="diagonal")
def np_diagonal(x: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Array:
    """``np.diagonal``: a read-only view."""
    x = FUNCTIONS[np.asarray](x)
    axes = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    return apply(diagonal, x, offset=known_int(offset, "A diagonal's offset"), axes=axes)


@implements(np.linalg.diagonal)
def linalg_diagonal(x: Any, /, *, offset: Any = 0) -> Array:
    """``np.linalg.diagonal``: of the last two axes."""
    return np_diagonal(x, offset, -2, -1)


@linear(
    "np.trace",
    lambda x, offset, axes: np.trace(x, offset, *axes),
    lambda x, offset, axes: _infer_trace(x, axes),
    lambda args, p: _diagonal_text(args, p).replace("np.diagonal", "np.trace"),
    samples=cases(
        case((3, 3), offset=0, axes=(0, 1)),
        case((2, 4), offset=1, axes=(0, 1)),
        case((2, 3, 3), offset=0, axes=(1, 2)),
        case((3, 2, 3), offset=-1, axes=(2, 0)),
        case(single(2, 2), offset=0, axes=(0, 1)),
        case((0, 0), offset=0, axes=(0, 1)),
    ),
)
def trace(y_bar: Any, x: Array, offset: int, axes: tuple[int, int]) -> Any:
    """Every element of the diagonal gets the cotangent."""
    first, second = axes
    unit = FUNCTIONS[np.eye](x.shape[first], x.shape[second], offset, dtype=x.dtype)
    if x.ndim == 2:
        return y_bar * (unit if first < second else unit.T)
    return np.moveaxis(y_bar[..., None, None] * unit, (-2, -1), axes)


def _infer_trace(x: Any, axes: tuple[int, int]) -> ArrayType:
    dtype = np.trace(np.ones((1, 1), x.dtype)).dtype
    return ArrayType(dtype, tuple(d for a, d in enumerate(x.dims) if a not in axes))


@implements(np.trace, method="trace")
def np_trace(
    x: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None
) -> Any:
    """``np.trace``."""
    x = FUNCTIONS[np.asarray](x)
    if dtype is not None:
        x = FUNCTIONS["cast"](x, dtype)
    axes = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    found = apply(trace, x, offset=known_int(offset, "A diagonal's offset"), axes=axes)
    return finish(found if dtype is None else FUNCTIONS["cast"](found, dtype), out)


FUNCTIONS[np.linalg.trace] = lambda x, *, offset=0, dtype=None: np_trace(x, offset, -2, -1, dtype)


# triangles


def _of_triangle(s: Apply, depth: int) -> Selection | None:
    """The triangle of an adjoint that the rule of a triangle kept."""
    before = guard_of(s.args[0], depth)
    if s.out not in current().selections.noted or s.args[0].type.ndim == 1:
        return before if before is None or before.number else None
    base = s.args[0]

    def write() -> Any:
        return s.primitive(FUNCTIONS[np.ones](Array(base).shape[-2:], dtype=bool), **s.params)

    key = (s.primitive.name, s.params["k"], base.type.dims[-2:])
    return both(Selection(write, key, False, frozenset([base])), before)


def _triangle(name: str, function: Callable[..., Any]) -> Primitive:
    def infer(x: Any, k: int) -> ArrayType:
        dims = x.dims * 2 if x.ndim == 1 else x.dims
        return ArrayType(x.dtype, dims)

    @linear(
        name,
        function,
        infer,
        lambda args, p: f"{name}({{0}}{_offset_text(p['k'])})",
        fresh=True,
        cheap=True,
        samples=cases(
            case((3, 3), k=0),
            case((2, 4), k=1),
            case((2, 3, 3), k=-1),
            case((3,), k=0),
            case((0, 2), k=0),
            case(single(2, 2), k=0),
        ),
        guard=_of_triangle,
    )
    def record(y_bar: Any, x: Array, k: int) -> Any:
        triangle = apply(record, y_bar, k=k)
        note_selected(triangle)
        return np.sum(triangle, axis=0) if x.ndim == 1 else triangle

    return record


tril = _triangle("np.tril", lambda x, k: np.tril(x, k))
triu = _triangle("np.triu", lambda x, k: np.triu(x, k))


@implements(np.tril)
def np_tril(m: Any, k: Any = 0) -> Array:
    """``np.tril``."""
    return apply(tril, FUNCTIONS[np.asarray](m), k=known_int(k, "A diagonal's offset"))


@implements(np.triu)
def np_triu(m: Any, k: Any = 0) -> Array:
    """``np.triu``."""
    return apply(triu, FUNCTIONS[np.asarray](m), k=known_int(k, "A diagonal's offset"))


def _infer_triangle_indices(name: str) -> Callable[..., Any]:
    def infer(n: Any, m: Any, k: int) -> tuple[ArrayType, ArrayType]:
        rows, columns = current().dim_of(n), current().dim_of(m)
        if isinstance(rows, int) and isinstance(columns, int):
            count: DimLike = getattr(np, name)(rows, k, columns)[0].size
        else:
            count = current().dims.unknown(name, k, rows, columns)
        return (ArrayType(np.dtype(np.intp), (count,)),) * 2

    return infer


def _triangle_indices(name: str) -> Primitive:
    function = getattr(np, name)

    def spell(args: Any, params: dict[str, Any]) -> str:
        square = _is_square(args)
        return f"np.{name}({{0}}" + (
            f"{', ' + str(params['k']) if params['k'] or not square else ''}"
            f"{'' if square else ', {1}'})"
        )

    return register(
        Primitive(
            f"np.{name}",
            lambda n, m, k: function(n, k, m),
            _infer_triangle_indices(name),
            spell,
            kind="creation",
            nondifferentiable=True,
            fresh=True,
            cheap=True,
            chooses=True,
            samples=cases(case(3, 3, k=0), case(2, 4, k=1), case(0, 0, k=0)),
        )
    )


tril_indices, triu_indices = _triangle_indices("tril_indices"), _triangle_indices("triu_indices")


def _triangle_indices_maker(primitive: Primitive) -> Any:
    def make(n: Any, k: Any = 0, m: Any = None) -> tuple[Array, Array]:
        return apply(primitive, n, n if m is None else m, k=known_int(k, "A diagonal's offset"))

    return make


FUNCTIONS[np.tril_indices] = _triangle_indices_maker(tril_indices)
FUNCTIONS[np.triu_indices] = _triangle_indices_maker(triu_indices)
FUNCTIONS[np.tril_indices_from] = lambda x, k=0: FUNCTIONS[np.tril_indices](
    x.shape[0], k, x.shape[1]
)
FUNCTIONS[np.triu_indices_from] = lambda x, k=0: FUNCTIONS[np.triu_indices](
    x.shape[0], k, x.shape[1]
)


@implements(np.diag_indices)
def np_diag_indices(n: Any, ndim: Any = 2) -> tuple[Array, ...]:
    """``np.diag_indices``."""
    return (FUNCTIONS[np.arange](n),) * known_int(ndim, "The number of dimensions")


@implements(np.diag_indices_from)
def np_diag_indices_from(x: Any) -> tuple[Array, ...]:
    """``np.diag_indices_from``."""
    return np_diag_indices(x.shape[0], x.ndim)


@implements(np.fill_diagonal)
def np_fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """``np.fill_diagonal``: a store into ``a``."""
    if a.ndim > 2:
        for dim in a.dims[1:]:
            current().unify(a.dims[0], dim)
    length = a.dims[0] if a.ndim > 2 else diagonal_dim(a.dims[0], a.dims[1], 0)
    axis = next(k for k, d in enumerate(a.dims) if current().dims.same(d, length))
    if wrap and not current().dims.same(*a.dims[:2]):
        raise ShapeError("np.fill_diagonal with wrap=True wants a square matrix", current().origin)
    steps = FUNCTIONS[np.arange](a.shape[axis])
    a[(steps,) * a.ndim] = val


# Vandermonde


def _vander_powers(x: Array, n: int, increasing: bool) -> tuple[Any, Any]:
    exponents = np.arange(n) if increasing else np.arange(n)[::-1]
    slopes = x[:, None] ** FUNCTIONS[np.asarray](np.maximum(exponents - 1, 0).astype(x.dtype))
    return exponents, FUNCTIONS[np.asarray](exponents.astype(x.dtype)) * slopes


def _vander_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (tangents[0][:, None] * _vander_powers(args[0], **params)[1],)


def _vander_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (np.sum(cotangents[0] * _vander_powers(args[0], **params)[1], axis=1),)


vander = register(
    Primitive(
        "np.vander",
        lambda x, n, increasing: np.vander(x, n, increasing),
        lambda x, n, increasing: ArrayType(np.promote_types(x.dtype, int), (x.dims[0], n)),
        lambda args, p: (
            f"np.vander({{0}}, {p['n']}{', increasing=True' if p['increasing'] else ''})"
        ),
        jvp=_vander_jvp,
        vjp=_vander_vjp,
        fresh=True,
        samples=cases(
            case((3,), n=4, increasing=False),
            case((3,), n=2, increasing=True),
            case((0,), n=1, increasing=False),
        ),
    )
)


@implements(np.vander)
def np_vander(x: Any, N: Any = None, increasing: bool = False) -> Array:
    """``np.vander``."""
    x = FUNCTIONS[np.asarray](x)
    count = known_int(x.shape[0] if N is None else N, "The number of columns")
    return apply(vander, x, n=count, increasing=bool(increasing))
