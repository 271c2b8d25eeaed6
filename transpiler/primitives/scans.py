"""Running sums, products and extrema; differences and integrals of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, METHODS, Array, current, type_of
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import guards
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    finish,
    implements,
    linear,
    opaque,
    operand,
    run_time_choice,
)
from calque.transpiler.primitives.shapes import normalize_axis

Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """The index that takes ``part`` of one axis."""
    return (slice(None),) * axis + (part,)


def axis_text(name: str, *options: str) -> Callable[..., str]:
    """``name({0})``, with ``axis=`` where the array has several, and the options that are not 1."""

    def spell(args: Any, params: dict[str, Any]) -> str:
        parts = [f"{{{i}}}" for i in range(len(args))]
        parts += [f"{o}={params[o]!r}" for o in options if params[o] not in (1, None)]
        if type_of(args[0]).ndim > 1:
            parts.append(f"axis={params['axis']}")
        return f"{name}({', '.join(parts)})"

    return spell


def axis_samples(rng: np.random.Generator, **options: Any) -> Samples:
    """Sampled arrays with an axis; no two values are equal."""

    def values(*shape: int) -> np.ndarray:
        return (rng.permutation(int(np.prod(shape))) * 0.3 - 0.8).reshape(shape)

    rows = [
        (values(5), 0),
        (values(3, 4), 0),
        (values(3, 4), 1),
        (values(2, 3, 4), 1),
        (values(1), 0),
        (values(2, 0), 1),
        (values(4).astype("f4"), 0),
    ]
    return [((x,), {"axis": axis, **options}) for x, axis in rows]


def infer_scan(function: Callable[..., Any]) -> Callable[..., ArrayType]:
    """The operand's dimensions, with the dtype NumPy gives."""

    def infer(x: Any, axis: int) -> ArrayType:
        return type_of(x).with_dtype(function(np.ones(1, type_of(x).dtype), axis=0).dtype)

    return infer


def _from_the_end(function: Callable[..., Any], x: Any, axis: int) -> Any:
    return np.flip(function(np.flip(x, axis), axis=axis), axis)


@linear(
    "np.cumsum",
    np.cumsum,
    infer_scan(np.cumsum),
    axis_text("np.cumsum"),
    fresh=True,
    samples=axis_samples,
    guard=guards.of_running_sum,
    keeps_sign=True,
)
def cumsum(y_bar: Any, x: Any, axis: int) -> Any:
    """The sum from the other end."""
    return _from_the_end(np.cumsum, y_bar, axis)


def _without_each(x: Any, axis: int) -> Any:
    """Running products in which each element in turn, along a last axis, is left out."""
    n = x.shape[axis]
    place = tuple(slice(None) if a == axis else None for a in range(x.ndim)) + (slice(None),)
    own = FUNCTIONS[np.eye](n)[place] == 1.0
    others = np.cumprod(FUNCTIONS[np.where](own, 1.0, x[..., None]), axis=axis)
    return others * FUNCTIONS[np.tri](n, dtype=x.dtype)[place]


def _cumprod_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    """The adjoint by quotients; where there is a zero, by products of the others (all orders)."""
    (y_bar,), (y,), (x,), axis = cotangents, outs, args, params["axis"]
    return (
        run_time_choice(
            np.all(x != 0),
            lambda: _from_the_end(np.cumsum, y_bar * y, axis) / x,
            lambda: np.moveaxis(np.sum(y_bar[..., None] * _without_each(x, axis), axis), -1, axis)
            if x.ndim > 1
            else np.sum(y_bar[..., None] * _without_each(x, axis), axis),
            type_of(x),
        ),
    )


def _cumprod_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_dot,), (y,), (x,), axis = tangents, outs, args, params["axis"]

    def summed() -> Any:
        moved = np.expand_dims(np.moveaxis(x_dot, axis, -1) if x.ndim > 1 else x_dot, axis)
        return np.sum(_without_each(x, axis) * moved, -1)

    quotients = lambda: y * np.cumsum(x_dot / x, axis=axis)
    return (run_time_choice(np.all(x != 0), quotients, summed, type_of(x)),)


cumprod = opaque(
    "np.cumprod",
    np.cumprod,
    infer_scan(np.cumprod),
    axis_text("np.cumprod"),
    _cumprod_jvp,
    _cumprod_vjp,
    fresh=True,
    samples=lambda rng: [*axis_samples(rng), ((np.array([2.0, 0.0, 3.0, 4.0]),), {"axis": 0})],
)


def _winners(y: Any, x: Any, axis: int) -> Any:
    """The index at which the running extremum was last attained, for each element."""
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return np.maximum.accumulate(np.where(x == y, places, 0), axis=axis)


def _running_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    axis = params["axis"]
    return (np.take_along_axis(tangents[0], _winners(outs[0], args[0], axis), axis),)


def _running_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x, axis = args[0], params["axis"]
    x_bar = np.zeros_like(x)
    np.add.at(x_bar, along_index(x, _winners(outs[0], x, axis), axis), cotangents[0])
    return (x_bar,)


def along_index(x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """The fancy index that ``np.take_along_axis`` uses."""
    rest = [FUNCTIONS[np.arange](size) for size in x.shape]
    return tuple(
        indices if a == axis else rest[a].reshape((-1,) + (1,) * (x.ndim - 1 - a))
        for a in range(x.ndim)
    )


def _running(function: Any) -> Primitive:
    name = f"np.{function.__name__}.accumulate"
    return opaque(
        name,
        function.accumulate,
        infer_scan(function.accumulate),
        axis_text(name),
        _running_jvp,
        _running_vjp,
        cupy=lambda args, params: axis_text(name)(args, params).replace(
            f"{name}(", f"accumulated(np.{function.__name__}, "
        ),
        fresh=True,
        samples=axis_samples,
    )


cummax, cummin = _running(np.maximum), _running(np.minimum)


def scan_handler(primitive: Primitive, first: Any) -> Callable[..., Any]:
    """Return the implementation of ``np.cumsum(x, axis, dtype, out)``; ``first``: default axis."""

    def call(x: Any, axis: Any = first, dtype: Any = None, out: Any = None) -> Any:
        x = FUNCTIONS[np.asarray](operand(x))
        if dtype is not None:
            x = FUNCTIONS["cast"](x, dtype)
        if axis is None or not x.ndim:
            x, axis = np.ravel(x), 0
        found = apply(primitive, x, axis=normalize_axis(axis, x.ndim))
        if dtype is not None:  # NumPy's own choice for a small integer is a larger one
            found = FUNCTIONS["cast"](found, dtype)
        return finish(found, out)

    return call


for _name, _record, _ufunc in (
    ("cumsum", cumsum, np.add),
    ("cumprod", cumprod, np.multiply),
    ("", cummax, np.maximum),
    ("", cummin, np.minimum),
):
    FUNCTIONS[(_ufunc, "accumulate")] = scan_handler(_record, 0)
    if _name:
        FUNCTIONS[getattr(np, _name)] = METHODS[_name] = scan_handler(_record, None)


def _cumulative(primitive: Primitive, start: float) -> Callable[..., Any]:
    def call(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        x = FUNCTIONS[np.asarray](operand(x))
        axis = normalize_axis(0 if axis is None and x.ndim == 1 else axis, x.ndim)
        result = scan_handler(primitive, None)(x, axis, dtype)
        if include_initial:
            rest = np.moveaxis(result, axis, 0)
            initial = np.full_like(x.sum(axis), start)[None]
            result = np.moveaxis(np.concatenate([initial, rest]), 0, axis)
        return finish(result, out)

    return call


for _name, _record, _start in (("cumulative_sum", cumsum, 0.0), ("cumulative_prod", cumprod, 1.0)):
    if hasattr(np, _name):
        FUNCTIONS[getattr(np, _name)] = _cumulative(_record, _start)


# differences


def _infer_diff(x: Any, axis: int, n: int) -> ArrayType:
    t = type_of(x)
    size = current().dims.resolve(t.dims[axis])
    shorter = max(0, size - n) if isinstance(size, int) else size - n
    if not current().dims.assume_nonnegative(shorter):
        shorter = current().dims.fresh()
    return t.with_dims([shorter if a == axis else d for a, d in enumerate(t.dims)])


@linear(
    "np.diff",
    lambda x, axis, n: np.diff(x, n, axis),
    _infer_diff,
    axis_text("np.diff", "n"),
    fresh=True,
    samples=lambda rng: [*axis_samples(rng, n=1)[:4], *axis_samples(rng, n=2)[:4]],
)
def diff(y_bar: Any, x: Any, axis: int, n: int) -> Any:
    """Differences of the padded cotangent, with the sign turned."""
    width: Any = 1 if x.ndim == 1 else [(int(a == axis),) * 2 for a in range(x.ndim)]
    for _ in range(n):
        y_bar = -np.diff(np.pad(y_bar, width), axis=axis)
    return y_bar


@implements(np.diff)
def np_diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """``np.diff``; what is prepended or appended is concatenated first."""
    x = FUNCTIONS[np.asarray](operand(a))
    axis = normalize_axis(axis, x.ndim)
    if prepend is not None or append is not None:
        parts = [_end(prepend, x, axis), x, _end(append, x, axis)]
        x = np.concatenate([p for p in parts if p is not None], axis=axis)
    if x.dtype.kind == "b":
        low, high = x[along(axis, slice(None, -1))], x[along(axis, slice(1, None))]
        return low != high
    return x if n == 0 else apply(diff, x, axis=axis, n=int(n))


def _end(value: Any, x: Any, axis: int) -> Any:
    if value is None:
        return None
    value = FUNCTIONS[np.asarray](operand(value))
    if value.ndim:
        return value
    return np.broadcast_to(value, tuple(1 if a == axis else s for a, s in enumerate(x.shape)))


@implements(np.ediff1d)
def np_ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """``np.ediff1d``."""
    x = FUNCTIONS[np.asarray](operand(ary))
    ends = [None if p is None else _as_samples(operand(p), x.dtype) for p in (to_begin, to_end)]
    found = [p for p in (ends[0], np_diff(np.ravel(x)), ends[1]) if p is not None]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _as_samples(end: Any, dtype: np.dtype) -> Any:
    """The samples that ``np.ediff1d`` puts before or after the differences, in their dtype."""
    if not np.can_cast(type_of(end).dtype, dtype, "same_kind"):
        message = f"The ends of np.ediff1d are {type_of(end).dtype}, its differences {dtype}."
        raise DtypeError(message, current().origin)
    return np.ravel(FUNCTIONS["cast"](end, dtype))


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """``np.trapezoid``, as NumPy computes it."""
    y = FUNCTIONS[np.asarray](operand(y))
    axis = normalize_axis(axis, y.ndim)
    width = dx
    if x is not None:
        x = FUNCTIONS[np.asarray](operand(x))
        width = np_diff(x, axis=axis if x.ndim > 1 else -1)
        if x.ndim == 1:
            width = width.reshape(tuple(-1 if a == axis else 1 for a in range(y.ndim)))
    low, high = y[along(axis, slice(None, -1))], y[along(axis, slice(1, None))]
    return np.sum(width * (high + low) / 2.0, axis=axis)


for _name in ("trapezoid", "trapz"):
    if _name in np.__dict__:
        FUNCTIONS[getattr(np, _name)] = _trapezoid


@implements(np.gradient)
def np_gradient(f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """``np.gradient``: one array, or one an axis."""
    f = FUNCTIONS[np.asarray](operand(f))
    chosen = range(f.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [normalize_axis(a, f.ndim) for a in chosen]
    steps = spacing or (1.0,)
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    found = [_gradient(f, h, a, edge_order) for h, a in zip(steps, axes, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _gradient(f: Any, spacing: Any, axis: int, edge_order: int) -> Any:
    def part(start: int | None, stop: int | None) -> Any:
        return f[along(axis, slice(start, stop))]

    h = operand(spacing)
    if type_of(h).ndim:
        if edge_order != 1:
            raise UnsupportedFunction(
                "np.gradient over coordinates with edge_order=2.", current().origin
            )
        gaps = np.diff(h).reshape(tuple(-1 if a == axis else 1 for a in range(f.ndim)))
        before, after = gaps[along(axis, slice(None, -1))], gaps[along(axis, slice(1, None))]
        a = -after / (before * (before + after))
        b = (after - before) / (before * after)
        c = before / (after * (before + after))
        inner = a * part(None, -2) + b * part(1, -1) + c * part(2, None)
        first, last = gaps[along(axis, slice(0, 1))], gaps[along(axis, slice(-1, None))]
    else:
        inner = (part(2, None) - part(None, -2)) / (2.0 * h)
        first = last = h
    if edge_order == 1:
        low = (part(1, 2) - part(0, 1)) / first
        high = (part(-1, None) - part(-2, -1)) / last
    else:
        low = (-1.5 / h) * part(0, 1) + (2.0 / h) * part(1, 2) + (-0.5 / h) * part(2, 3)
        high = (0.5 / h) * part(-3, -2) + (-2.0 / h) * part(-2, -1) + (1.5 / h) * part(-1, None)
    found = np.concatenate([low, inner, high], axis=axis)
    return FUNCTIONS["cast"](found, f.dtype) if f.dtype.kind in "fc" else found


def looped(
    out: Array,
    index: Array,
    start: int,
    stop: Any,
    iteration_of: Callable[[Array], Array],
    independent: bool = False,
) -> Array:
    """A loop that carries one array; ``independent`` iterations may run in parallel."""
    builder = current()
    made = emit_fold(
        *(builder, index.atom, (start, stop, 1), [out]),
        lambda so_far: [iteration_of(Array(so_far))],
        phis=[Var(out.type, out.atom.name, builder.origin)],
        scheduled=independent,
        parallel=independent,
    )
    return Array(made.outs[0])
