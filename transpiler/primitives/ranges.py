"""Evenly spaced numbers and grids: linspace, logspace, geomspace, indices, meshgrid, ix_."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.types import ArrayType, sample
from calque.transpiler.primitives.base import Primitive, apply, implements, operand, register
from calque.transpiler.primitives.creation import (
    arange,
    arange_length,
    arange_text,
    dtype_text,
    shape_text,
    shape_tuple,
)
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.shapes import normalize_axis, product_dim


def _steps(y: Any) -> Any:
    """0, 1, 2, ... in the dtype of ``y``, as many."""
    return FUNCTIONS[np.arange](y.shape[0], dtype=y.dtype)


def _arange_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y,), (start_dot, _, step_dot) = outs, tangents
    along = np.zeros_like(y) if step_dot is None else _steps(y) * step_dot
    return (along if start_dot is None else along + start_dot,)


def _arange_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y_bar,), (y,), (start, _, step) = cotangents, outs, args
    return (
        np.sum(y_bar) if isinstance(start, Array) and start.dtype.kind == "f" else None,
        None,
        np.sum(y_bar * _steps(y)) if isinstance(step, Array) and step.dtype.kind == "f" else None,
    )


spaced = register(
    Primitive(
        "np.arange of floats",
        lambda start, stop, step, dtype: np.arange(start, stop, step, dtype=dtype),
        lambda start, stop, step, dtype: ArrayType(dtype, (arange_length(start, stop, step),)),
        arange_text,
        jvp=_arange_jvp,
        vjp=_arange_vjp,
        fresh=True,
        samples=cases(
            case(np.asarray(0.3), 7.5, 0.7, dtype=np.dtype("f8")),
            case(np.asarray(0.3), 7.5, np.asarray(0.7), dtype=np.dtype("f8")),
            case(np.asarray(7.0), -1.2, np.asarray(-0.9), dtype=np.dtype("f8")),
            case(np.asarray(0.25, "f4"), 5.5, 1, dtype=np.dtype("f4")),
        ),
    )
)


@implements(np.arange)
def np_arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **rest: Any) -> Array:
    """``np.arange``; of run-time floats, its numbers move with the first one and the step."""
    if stop is None:
        start, stop = 0, start
    chosen = np.dtype(dtype or np.result_type(*[type_of(v).dtype for v in (start, stop, step)]))
    moves = any(isinstance(v, Array) and v.dtype.kind == "f" for v in (start, step))
    primitive = spaced if moves and chosen.kind == "f" else arange
    return apply(primitive, start, stop, step, dtype=chosen)


def _infer_spaced(start: Any, stop: Any, num: Any, endpoint: bool, dtype: Any) -> ArrayType:
    ends = type_of(start), type_of(stop)
    if dtype is None:
        first, last = (sample(t, (1,) * t.ndim) for t in ends)
        dtype = np.linspace(first, last, 2).dtype
    return ArrayType(
        np.dtype(dtype), (current().dim_of(num), *current().broadcast([t.dims for t in ends]))
    )


def _spaced_text(name: str) -> Any:
    def spell(args: Any, params: dict[str, Any]) -> str:
        text = f"{name}({{0}}, {{1}}, {{2}}" + ("" if params["endpoint"] else ", endpoint=False")
        return text + (")" if params["dtype"] is None else dtype_text(params["dtype"], "V") + ")")

    return spell


def _fractions(y: Any, num: Any, endpoint: bool) -> Any:
    """The relative position of each number from start to stop, along axis 0 of ``y``."""
    t = apply(linspace, 0.0, 1.0, num, endpoint=endpoint, dtype=y.dtype)
    return t if y.ndim == 1 else np.reshape(t, (num, *(1,) * (y.ndim - 1)))


def _linspace_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    start_dot, stop_dot = (0.0 if t is None else t for t in tangents[:2])
    return (apply(linspace, start_dot, stop_dot, args[2], **params),)


def _linspace_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y_bar,), (start, stop, num) = cotangents, args
    t = _fractions(outs[0], num, params["endpoint"])
    return (
        np.sum(y_bar * (1.0 - t), axis=0) if isinstance(start, Array) else None,
        np.sum(y_bar * t, axis=0) if isinstance(stop, Array) else None,
        None,
    )


linspace = register(
    Primitive(
        "np.linspace",
        lambda start, stop, num, endpoint, dtype: np.linspace(
            start, stop, num, endpoint, dtype=dtype
        ),
        _infer_spaced,
        _spaced_text("np.linspace"),
        kind="linear",
        linear_in=(0, 1),
        jvp=_linspace_jvp,
        vjp=_linspace_vjp,
        fresh=True,
        cheap=True,
        samples=cases(
            case((), (), 5, endpoint=True, dtype=None),
            case((), 1.0, 4, endpoint=False, dtype=None),
            case((2,), (2,), 3, endpoint=True, dtype=None),
            case((2,), (), 3, endpoint=True, dtype=None),
            case((), (), 0, endpoint=True, dtype=None),
            case((), (), 1, endpoint=True, dtype=None),
            case(single(2), single(2), 3, endpoint=True, dtype=None),
        ),
    )
)


def _geomspace_text(args: Any, params: dict[str, Any]) -> str:
    """CuPy's text of ``np.geomspace``: powers of the quotient of both ends."""
    options = "" if params["endpoint"] else ", endpoint=False"
    dtype = params["dtype"] or _geomspace_dtype(args[0], args[1])
    cast = "" if dtype == np.float64 else f".astype(np.{np.dtype(dtype).name})"
    return f"({{0}} * np.exp(np.linspace(0.0, np.log({{1}} / {{0}}), {{2}}{options}))){cast}"


def _geomspace_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y,), (start, stop, num) = outs, args
    t, total = _fractions(y, num, params["endpoint"]), None
    for tangent, end, share in ((tangents[0], start, 1.0 - t), (tangents[1], stop, t)):
        if tangent is not None:
            term = y * (share * (tangent / end))
            total = term if total is None else total + term
    return (total,)


def _geomspace_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y,), (start, stop, num) = outs, args
    t, weight = _fractions(y, num, params["endpoint"]), cotangents[0] * y
    return (
        np.sum(weight * (1.0 - t), axis=0) / start if isinstance(start, Array) else None,
        np.sum(weight * t, axis=0) / stop if isinstance(stop, Array) else None,
        None,
    )


geomspace = register(
    Primitive(
        "np.geomspace",
        lambda start, stop, num, endpoint, dtype: np.geomspace(start, stop, num, endpoint, dtype),
        lambda start, stop, num, endpoint, dtype: _infer_spaced(
            start, stop, num, endpoint, dtype or _geomspace_dtype(start, stop)
        ),
        _spaced_text("np.geomspace"),
        jvp=_geomspace_jvp,
        vjp=_geomspace_vjp,
        cupy=_geomspace_text,
        fresh=True,
        samples=lambda rng: [
            (
                (np.asarray(rng.uniform(1, 2)), np.asarray(rng.uniform(5, 9)), 4),
                {"endpoint": e, "dtype": None},
            )
            for e in (True, False)
        ],
    )
)


def _geomspace_dtype(start: Any, stop: Any) -> np.dtype:
    first, last = (sample(t, (1,) * t.ndim) for t in (type_of(start), type_of(stop)))
    dtype: np.dtype = np.geomspace(first, last, 2).dtype
    return dtype


@implements(np.linspace)
def np_linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
    **rest: Any,
) -> Any:
    """``np.linspace``; differentiable in its bounds."""
    start, stop = operand(start), operand(stop)
    chosen = None if dtype is None else np.dtype(dtype)
    y = apply(linspace, start, stop, num, endpoint=bool(endpoint), dtype=chosen)
    if axis != 0:
        y = np.moveaxis(y, 0, normalize_axis(axis, y.ndim))
    return (y, (stop - start) / (num - 1 if endpoint else num)) if retstep else y


@implements(np.logspace)
def np_logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: Any = 0,
) -> Any:
    """``np.logspace``: powers of ``base``, as NumPy computes them."""
    y = np.power(base, np_linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else FUNCTIONS["cast"](y, dtype)


@implements(np.geomspace)
def np_geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: Any = 0
) -> Any:
    """``np.geomspace``."""
    chosen = None if dtype is None else np.dtype(dtype)
    y = apply(geomspace, operand(start), operand(stop), num, endpoint=bool(endpoint), dtype=chosen)
    return y if axis == 0 else np.moveaxis(y, 0, normalize_axis(axis, y.ndim))


# grids

indices = register(
    Primitive(
        "np.indices",
        lambda *sizes, dtype: np.indices(sizes, dtype),
        lambda *sizes, dtype: ArrayType(dtype, (len(sizes), *map(current().dim_of, sizes))),
        lambda args, p: f"np.indices({shape_text(0, len(args))}{dtype_text(p['dtype'], int)})",
        kind="creation",
        nondifferentiable=True,
        fresh=True,
        samples=cases(case(2, 3, dtype=np.dtype(int)), case(2, 0, dtype=np.dtype("f8"))),
    )
)


@implements(np.indices)
def np_indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """``np.indices``."""
    sizes = shape_tuple(dimensions)
    if sparse:
        return np_ix_(*[FUNCTIONS[np.arange](s, dtype=dtype) for s in sizes])
    return apply(indices, *sizes, dtype=np.dtype(dtype))


@implements(np.fromfunction)
def np_fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """``np.fromfunction``: the function of the coordinates, called once."""
    grid = np_indices(shape, dtype)
    return function(*[grid[k] for k in range(len(shape_tuple(shape)))], **kwargs)


@implements(np.ix_)
def np_ix_(*sequences: Any) -> tuple[Array, ...]:
    """``np.ix_``: open grids of indices."""
    found = []
    for axis, items in enumerate(sequences):
        x = FUNCTIONS[np.asarray](items)
        if x.ndim != 1:
            raise ShapeError("Cross index must be 1 dimensional", current().origin)
        if x.dtype.kind == "b":
            (x,) = FUNCTIONS[np.nonzero](x)
        if 0 in x.dims and x.dtype.kind == "f":
            x = FUNCTIONS["cast"](x, np.intp)
        shape = [1] * len(sequences)
        shape[axis] = x.shape[0]
        found.append(x.reshape(tuple(shape)))
    return tuple(found)


def grid_axis(k: int, indexing: str) -> int:
    """The axis of a grid along which its k-th coordinate changes."""
    return 1 - k if indexing == "xy" and k < 2 else k


def _infer_meshgrid(*axes: Any, indexing: str) -> tuple[ArrayType, ...]:
    dims: list[Any] = [1] * len(axes)
    for k, x in enumerate(axes):
        dims[grid_axis(k, indexing) if len(axes) > 1 else k] = product_dim(x.dims)
    return tuple(ArrayType(x.dtype, tuple(dims)) for x in axes)


def _meshgrid_text(args: Any, params: dict[str, Any]) -> str:
    inner = ", ".join(f"{{{i}}}" for i in range(len(args)))
    return f"np.meshgrid({inner}" + (")" if params["indexing"] == "xy" else ', indexing="ij")')


def _meshgrid_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> Any:
    dots = [np.zeros_like(a) if t is None else t for t, a in zip(tangents, args, strict=True)]
    return apply(meshgrid, *dots, **params)


def _meshgrid_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for k, (bar, x) in enumerate(zip(cotangents, args, strict=True)):
        own = grid_axis(k, params["indexing"])
        others = tuple(a for a in range(len(args)) if a != own)
        found.append(None if bar is None else np.reshape(np.sum(bar, axis=others), x.shape))
    return tuple(found)


meshgrid = register(
    Primitive(
        "np.meshgrid",
        lambda *axes, indexing: np.meshgrid(*axes, indexing=indexing),
        _infer_meshgrid,
        _meshgrid_text,
        kind="linear",
        jvp=_meshgrid_jvp,
        vjp=_meshgrid_vjp,
        fresh=True,
        samples=cases(
            case((2,), (3,), indexing="xy"),
            case((2,), (3,), indexing="ij"),
            case((2,), (3,), (4,), indexing="xy"),
            case((), (3,), indexing="xy"),
            case(single(2), single(0), indexing="ij"),
        ),
    )
)


@implements(np.meshgrid)
def np_meshgrid(*axes: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """``np.meshgrid``: full grids, or open ones with ``sparse=True``."""
    if indexing not in ("xy", "ij"):
        raise ShapeError("Valid values for `indexing` are 'xy' and 'ij'.", current().origin)
    if not copy:
        raise UnsupportedFunction("np.meshgrid with copy=False makes views.", current().origin)
    values = [FUNCTIONS[np.asarray](a) for a in axes]
    if len(values) < 2 or sparse:
        return tuple(_open_grid(v, k, len(values), indexing) for k, v in enumerate(values))
    return tuple(apply(meshgrid, *values, indexing=indexing))


def _open_grid(x: Array, k: int, count: int, indexing: str) -> Array:
    shape: list[Any] = [1] * count
    shape[grid_axis(k, indexing) if count > 1 else k] = x.size
    return x.reshape(tuple(shape)).copy()
