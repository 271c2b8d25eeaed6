"""Variance, averages, quantiles, and the reductions that skip NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.types import ArrayType, elementwise_dtype
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    finish,
    implements,
    opaque,
    operand,
    raise_where,
)
from calque.transpiler.primitives.reductions import (
    Axes,
    Samples,
    count_reduced,
    count_where,
    expand,
    infer_reduction,
    normalize_axes,
    reduced_dims,
    reduction_samples,
    reduction_text,
    shared,
)
from calque.transpiler.primitives.shapes import joined_axes


def _spread(x: Any, params: dict[str, Any]) -> tuple[Any, Any]:
    """The deviations from the mean, conjugated where complex, and the divisor of the variance."""
    axis, ddof = params["axis"], params["ddof"]
    count = count_reduced(x, axis)
    deviations = np.conj(x - np.mean(x, axis=axis, keepdims=True))
    return deviations, count - ddof if ddof else count


def _var_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    deviations, divisor = _spread(args[0], params)
    options = {"axis": params["axis"], "keepdims": params["keepdims"]}
    return (2.0 * np.real(np.sum(deviations * tangents[0], **options)) / divisor,)


def _var_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    deviations, divisor = _spread(args[0], params)
    y_bar = expand(cotangents[0] * 2.0 / divisor, args[0], params["axis"], params["keepdims"])
    return (y_bar * deviations,)


def _std_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    deviations, divisor = _spread(args[0], params)
    options = {"axis": params["axis"], "keepdims": params["keepdims"]}
    return (np.real(np.sum(deviations * tangents[0], **options)) / (divisor * outs[0]),)


def _std_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    deviations, divisor = _spread(args[0], params)
    y_bar = cotangents[0] / (divisor * outs[0])
    return (expand(y_bar, args[0], params["axis"], params["keepdims"]) * deviations,)


def _spread_samples(rng: np.random.Generator) -> Samples:
    rows = reduction_samples(rng, empty=False, ddof=0)
    return [*rows, *[(args, {**p, "ddof": 1}) for args, p in rows[:3]]]


def _smooth_spread_samples(rng: np.random.Generator) -> Samples:
    return [(args, p) for args, p in _spread_samples(rng) if args[0].size > 3]


def _declare_spread(name: str, jvp: Any, vjp: Any, samples: Any) -> Primitive:
    function = getattr(np, name)
    primitive = opaque(
        f"np.{name}",
        function,
        infer_reduction(function),
        reduction_text(f"np.{name}"),
        jvp,
        vjp,
        fresh=True,
        nonnegative=True,
        samples=samples,
    )

    @implements(function, method=name)
    def call(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: Any = None,
    ) -> Any:
        x = FUNCTIONS[np.asarray](operand(a))
        if dtype is not None:
            x = FUNCTIONS["cast"](x, dtype)
        ddof = ddof if correction is None else correction
        if where is not True or mean is not None or isinstance(ddof, Array):
            variance = _var_where(x, axis, ddof, keepdims, where, mean)
            return finish(variance if name == "var" else np.sqrt(variance), out)
        params = {"axis": normalize_axes(axis, x.ndim), "keepdims": bool(keepdims), "ddof": ddof}
        # of one element both are zero, and only `var` is smooth there
        axes = range(x.ndim) if params["axis"] is None else params["axis"]
        single = all(x.type.dims[a] == 1 for a in axes)
        return finish(apply(var if single else primitive, x, **params), out)

    return primitive


def _var_where(x: Any, axis: Any, ddof: Any, keepdims: bool, where: Any, mean: Any) -> Any:
    where = np.broadcast_to(where, x.shape) if where is not True else np.ones_like(x, dtype=bool)
    if mean is None:
        total = np.sum(x, axis=axis, keepdims=True, where=where)
        mean = shared(total, count_where(x, axis, True, where))
    squares = np.sum(np.abs(x - mean) ** 2, axis=axis, keepdims=keepdims, where=where)
    return shared(squares, count_where(x, axis, keepdims, where) - ddof)


var = _declare_spread("var", _var_jvp, _var_vjp, _spread_samples)
std = _declare_spread("std", _std_jvp, _std_vjp, _smooth_spread_samples)
var.smooth = True


@implements(np.average)
def np_average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """``np.average``, as NumPy computes it."""
    x = FUNCTIONS[np.asarray](operand(a))
    if weights is None:
        mean = np.mean(x, axis=axis, keepdims=keepdims)
        count = count_reduced(x, normalize_axes(axis, x.ndim))
        return (mean, np.full_like(mean, count)) if returned else mean
    w = FUNCTIONS[np.asarray](operand(weights))
    axes = normalize_axes(axis, x.ndim)
    if w.ndim != x.ndim and axes is not None:
        w = np.reshape(w, tuple(s if i in axes else 1 for i, s in enumerate(x.shape)))
    whole = x.dtype.kind in "iub"
    dtype = np.result_type(x.dtype, w.dtype, *([np.float64] if whole else []))
    scale = np.sum(w, axis=axes, dtype=dtype, keepdims=keepdims)
    mean = np.sum(x * w, axis=axes, keepdims=keepdims) / scale
    return (mean, np.broadcast_to(scale, mean.shape)) if returned else mean


# quantiles: sums with weights that depend on ranks only


def _rank(x: Any, axis: Axes) -> tuple[Any, Any]:
    """Each element's position in the sorted order of its slice, and the length of a slice."""
    axes = tuple(range(x.ndim)) if axis is None else axis
    if len(axes) == 1:
        ascending = np.argsort(x, axis=axes[0], kind="stable")
        return np.argsort(ascending, axis=axes[0]), x.shape[axes[0]]
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    order = (*kept, *axes)
    moved = np.transpose(x, order)
    flat = joined_axes(moved, len(kept))
    rank, count = _rank(flat, (flat.ndim - 1,))
    back = [order.index(a) for a in range(x.ndim)]
    return np.transpose(np.reshape(rank, moved.shape), back), count


QUANTILE_METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


def quantile_position(q: Any, count: Any, method: str) -> tuple[Any, Any]:
    """The rank below a quantile, and how far it is towards the next."""
    exact = q * (count - 1)
    below = np.floor(exact)
    part = exact - below
    match method:
        case "lower":
            return below, 0.0
        case "higher":
            return np.ceil(exact), 0.0
        case "nearest":
            return np.round(exact), 0.0
        case "midpoint":
            return below, 0.5 * (part > 0)
    return below, part


def _weights(x: Any, q: Any, params: dict[str, Any]) -> Any:
    rank, count = _rank(x, params["axis"])
    below, part = quantile_position(q, count, params["method"])
    if not isinstance(part, Array) and part == 0:
        return rank == below
    return np.where(rank == below, 1.0 - part, np.where(rank == below + 1, part, 0.0))


def _fraction(params: dict[str, Any], rest: tuple[Any, ...]) -> Any:
    if not rest:
        return 0.5
    if type_of(rest[0]).ndim:
        raise NotDifferentiable("Several quantiles at once.", current().origin)
    return rest[0] / 100.0 if params["percent"] else rest[0]


def _quantile_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x, *rest = args
    q = _fraction(params, tuple(rest))
    total = None
    if tangents[0] is not None:
        part = _weights(x, q, params) * tangents[0]
        total = np.sum(part, axis=params["axis"], keepdims=params["keepdims"])
    if len(tangents) > 1 and tangents[1] is not None:
        slope = np.sum(_by_fraction(x, q, params), axis=params["axis"], keepdims=params["keepdims"])
        total = slope * tangents[1] if total is None else total + slope * tangents[1]
    return (total,)


def _by_fraction(x: Any, q: Any, params: dict[str, Any]) -> Any:
    """Each element's contribution to a quantile's slope by ``q``: zero but for the two around."""
    rank, count = _rank(x, params["axis"])
    exact = q * (count - 1)
    above = np.where(rank == np.ceil(exact), 1.0, 0.0)
    between = above - np.where(rank == np.floor(exact), 1.0, 0.0)
    steps = (count - 1) / (100.0 if params["percent"] else 1.0)
    return between * x * (steps if params["method"] == "linear" else 0.0)


def _quantile_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x, *rest = args
    weights = _weights(x, _fraction(params, tuple(rest)), params)
    y_bar = expand(cotangents[0], x, params["axis"], params["keepdims"])
    if not rest or not isinstance(rest[0], Array):
        return (y_bar * weights, *(None for _ in rest))
    return y_bar * weights, np.sum(y_bar * _by_fraction(x, _fraction(params, tuple(rest)), params))


def _infer_quantile(x: Any, *rest: Any, axis: Axes, keepdims: bool, **params: Any) -> ArrayType:
    t = type_of(x)
    if not rest:
        dtype = np.median(np.ones(1, t.dtype)).dtype
        return ArrayType(dtype, reduced_dims(t.dims, axis, keepdims))
    dtype = elementwise_dtype(_quantile_of_one, [t, type_of(rest[0])])
    return ArrayType(dtype, type_of(rest[0]).dims + reduced_dims(t.dims, axis, keepdims))


def _quantile_of_one(x: Any, q: Any) -> Any:
    return np.quantile(x, q)


def _declare_quantile(name: str, percent: bool, count: int) -> Primitive:
    function: Callable[..., Any] = getattr(np, name)

    def concrete(*args: Any, percent: bool, method: str, **params: Any) -> Any:
        options = {} if count == 1 else {"method": method}
        return function(*args, **options, **params)

    def samples(rng: np.random.Generator) -> Samples:
        rows = reduction_samples(rng, empty=False, distinct=True, method="linear", percent=percent)
        q = 30.0 if percent else 0.3
        rows = [((*args, *(q,) * (count - 1)), p) for args, p in rows]
        if count > 1:
            rows += [
                (args, {**p, "method": m})
                for m in ("lower", "higher", "nearest", "midpoint")
                for args, p in rows[:2]
            ]
        return rows

    return opaque(
        f"np.{name}",
        concrete,
        _infer_quantile,
        reduction_text(f"np.{name}"),
        _quantile_jvp,
        _quantile_vjp,
        fresh=True,
        samples=samples,
    )


median = _declare_quantile("median", False, 1)
quantile = _declare_quantile("quantile", False, 2)
percentile = _declare_quantile("percentile", True, 2)


@implements(np.median)
def np_median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """``np.median``."""
    x = FUNCTIONS[np.asarray](operand(a))
    axes = normalize_axes(axis, x.ndim)
    params = {"axis": axes, "keepdims": bool(keepdims), "method": "linear", "percent": False}
    return finish(apply(median, x, **params), out)


def _quantile_handler(primitive: Primitive, percent: bool) -> Callable[..., Any]:
    def call(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Any = None,
    ) -> Any:
        if weights is not None or method not in QUANTILE_METHODS:
            raise UnsupportedFunction(
                f"{primitive.name} with weights= or method={method!r}.", current().origin
            )
        x = FUNCTIONS[np.asarray](operand(a))
        axes = normalize_axes(axis, x.ndim)
        params = {"axis": axes, "keepdims": bool(keepdims), "method": method, "percent": percent}
        if isinstance(q, (list, tuple, np.ndarray)) and np.ndim(q):
            x = FUNCTIONS["cast"](x, np.result_type(x.dtype, np.float64))  # of an array of them
            rows = [apply(primitive, x, operand(v), **params) for v in q]
            return finish(np.stack(rows), out)
        return finish(apply(primitive, x, operand(q), **params), out)

    return call


FUNCTIONS[np.quantile] = _quantile_handler(quantile, False)
FUNCTIONS[np.percentile] = _quantile_handler(percentile, True)


# reductions that skip NaN, as NumPy defines them


def _replace_nan(a: Any, value: float) -> tuple[Any, Any]:
    x = FUNCTIONS[np.asarray](operand(a))
    missing = np.isnan(x)
    return np.where(missing, value, x), missing


def _nan_handler(function: Callable[..., Any], value: float) -> Callable[..., Any]:
    def call(a: Any, *args: Any, **options: Any) -> Any:
        return function(_replace_nan(a, value)[0], *args, **options)

    return call


for _name, _neutral in (("sum", 0.0), ("prod", 1.0), ("cumsum", 0.0), ("cumprod", 1.0)):
    FUNCTIONS[getattr(np, "nan" + _name)] = _nan_handler(getattr(np, _name), _neutral)


def _nan_place(function: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, **options: Any) -> Any:
        x, missing = _replace_nan(a, neutral)
        if x.dtype.kind in "fc":
            nothing = np.any(np.all(missing, axis=axis))
            raise_where(nothing, ValueError("All-NaN slice encountered"))
        return function(x, axis=axis, **options)

    return call


for _name, _neutral in (("argmax", -np.inf), ("argmin", np.inf)):
    FUNCTIONS[getattr(np, "nan" + _name)] = _nan_place(getattr(np, _name), _neutral)


def _nan_extremum(function: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, **rest: Any) -> Any:
        x, missing = _replace_nan(a, neutral)
        result = function(x, axis=axis, keepdims=keepdims, **rest)
        nothing = np.all(missing, axis=axis, keepdims=keepdims)
        return finish(np.where(nothing, np.nan, result), out)

    return call


FUNCTIONS[np.nanmax] = _nan_extremum(np.max, -np.inf)
FUNCTIONS[np.nanmin] = _nan_extremum(np.min, np.inf)


@implements(np.nanmean)
def np_nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Any:
    """``np.nanmean``."""
    x, missing = _replace_nan(a, 0.0)
    count = np.sum(~missing, axis=axis, dtype=_count_dtype(x), keepdims=keepdims)
    return finish(np.sum(x, axis=axis, dtype=dtype, keepdims=keepdims) / count, out)


def _count_dtype(x: Any) -> Any:
    return None if x.dtype == np.float64 else x.dtype


@implements(np.nanvar)
def np_nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
) -> Any:
    """``np.nanvar``."""
    x, missing = _replace_nan(a, 0.0)
    count = np.sum(~missing, axis=axis, dtype=_count_dtype(x), keepdims=True)
    mean = np.sum(x, axis=axis, keepdims=True) / count
    deviations = np.where(missing, 0.0, x - mean)
    squares = np.sum(deviations * deviations, axis=axis, keepdims=keepdims)
    divisor = np.sum(~missing, axis=axis, dtype=_count_dtype(x), keepdims=keepdims) - ddof
    return finish(squares / divisor, out)


@implements(np.nanstd)
def np_nanstd(*args: Any, out: Any = None, **options: Any) -> Any:
    """``np.nanstd``."""
    return finish(np.sqrt(np_nanvar(*args, **options)), out)


# covariance


@implements(np.cov)
def np_cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, **rest: Any
) -> Any:
    """``np.cov`` without weights: a product of deviations."""
    if any(v is not None for v in rest.values()):
        raise UnsupportedFunction("np.cov with weights.", current().origin)
    x = _variables(m, rowvar)
    if y is not None:
        x = np.concatenate([x, _variables(y, rowvar)], axis=0)
    x = FUNCTIONS["cast"](x, np.result_type(x.dtype, np.float64))
    deviations = x - np.mean(x, axis=1, keepdims=True)
    count = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    return np.squeeze((deviations @ np.conj(deviations.T)) * (1.0 / count))


def _variables(m: Any, rowvar: bool) -> Any:
    """One variable a row."""
    x = FUNCTIONS[np.asarray](operand(m))
    if x.ndim < 2:
        return x[None] if x.ndim else x[None, None]
    return x if rowvar or x.dims[0] == 1 else x.T


@implements(np.corrcoef)
def np_corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """``np.corrcoef``: the covariance over the standard deviations."""
    covariance = np_cov(x, y, rowvar)
    if not covariance.ndim:
        return covariance / covariance
    deviations = np.sqrt(np.diagonal(covariance))
    return np.clip(covariance / deviations[:, None] / deviations[None, :], -1.0, 1.0)
