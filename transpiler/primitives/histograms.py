"""Counting into bins: histograms, ``np.bincount``, ``np.unique``."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import apply, implements, opaque, operand, raise_where
from calque.transpiler.primitives.record import Scatter

Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]
_INT = np.dtype(np.intp)
_NOT_FINITE = "autodetected range is not finite"


def _infer_bincount(x: Any, *weights: Any, minlength: int) -> ArrayType:
    dtype = np.dtype(np.float64) if weights else _INT
    return ArrayType(dtype, (current().dims.fresh(),))


def _bincount_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None if len(args) == 1 else apply(bincount, args[0], tangents[1], **params),)


def _bincount_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None, None if len(args) == 1 else cotangents[0][args[0]])[: len(args)]


bincount = opaque(
    "np.bincount",
    np.bincount,
    _infer_bincount,
    lambda args, p: (
        f"np.bincount({{0}}{', weights={1}' if len(args) > 1 else ''}"
        + (f", minlength={p['minlength']})" if p["minlength"] else ")")
    ),
    _bincount_jvp,
    _bincount_vjp,
    linear_in=(1,),
    fresh=True,
    samples=lambda rng: [
        ((rng.integers(0, 4, 6), rng.normal(size=6)), {"minlength": 0}),
        ((rng.integers(0, 4, 6), rng.normal(size=6)), {"minlength": 9}),
        ((rng.integers(0, 4, 6),), {"minlength": 0}),
    ],
)


@implements(np.bincount)
def np_bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """``np.bincount``, linear in its weights."""
    given = [] if weights is None else [FUNCTIONS[np.asarray](operand(weights))]
    least = known_int(minlength, "The least number of bins")
    return apply(bincount, FUNCTIONS[np.asarray](operand(x)), *given, minlength=least)


# histograms: the counts are linear in the weights, and the edges follow the extremes


def _histogram_samples(rng: np.random.Generator) -> Samples:
    return [
        ((rng.normal(size=9),), {"bins": 4, "range": None}),
        ((rng.normal(size=(2, 3)),), {"bins": 4, "range": (-1.0, 1.0)}),
        ((rng.normal(size=9), rng.normal(size=9)), {"bins": 4, "range": None}),
        ((rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {"bins": 2, "range": (-1.0, 1.0)}),
    ]


def _infer_histogram(x: Any, *weights: Any, bins: int, range: Any) -> tuple[ArrayType, ArrayType]:
    dtype = type_of(x).dtype if type_of(x).is_float else np.dtype(np.float64)
    counted = type_of(weights[0]).dtype if weights else _INT
    return ArrayType(counted, (bins,)), ArrayType(dtype, (bins + 1,))


def _at_extreme(x: Any, extreme: Any, x_dot: Any) -> Any:
    """The tangent of the least or greatest element, shared among equal ones."""
    found = x == extreme
    return np.sum(np.where(found, x_dot, 0.0)) / np.count_nonzero(found)


def _histogram_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x_dot, *weights_dot = tangents
    counts_dot, edges_dot = None, None
    if weights_dot and weights_dot[0] is not None:
        counts_dot = apply(histogram, args[0], weights_dot[0], **params)[0]
    if x_dot is not None and params["range"] is None:
        x, part = args[0], np.linspace(0.0, 1.0, params["bins"] + 1, dtype=type_of(outs[1]).dtype)
        low = _at_extreme(x, np.min(x), x_dot)
        edges_dot = low + (_at_extreme(x, np.max(x), x_dot) - low) * part
    return counts_dot, edges_dot


def _histogram_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    counts_bar, edges_bar = cotangents
    x, x_bar = args[0], None
    if edges_bar is not None and params["range"] is None:
        part = np.linspace(0.0, 1.0, params["bins"] + 1, dtype=type_of(outs[1]).dtype)
        lowest, highest = x == np.min(x), x == np.max(x)
        low_bar = np.sum(edges_bar * (1.0 - part)) / np.count_nonzero(lowest)
        high_bar = np.sum(edges_bar * part) / np.count_nonzero(highest)
        x_bar = np.where(lowest, low_bar, 0.0) + np.where(highest, high_bar, 0.0)
    if len(args) == 1:
        return (x_bar,)
    return x_bar, None if counts_bar is None else _of_bins(counts_bar, x, outs[1])


def _of_bins(counts_bar: Any, x: Any, edges: Any) -> Any:
    """The cotangent of each element's bin; zero for an element that is in no bin."""
    bins = _bins_of(x, edges)
    inside = np.logical_and(x >= edges[0], x <= edges[-1])
    return np.where(inside, counts_bar[np.maximum(bins, 0)], 0.0)


def _bins_of(x: Any, edges: Any) -> Any:
    """Each element's bin, of which the last one has both its edges; anything if it is in none."""
    return np.minimum(np.searchsorted(edges, x, side="right") - 1, edges.shape[0] - 2)


def _histogram(x: Any, *weights: Any, bins: int, range: Any) -> tuple[Any, Any]:
    return np.histogram(x, bins, range, weights=weights[0] if weights else None)


histogram = opaque(
    "np.histogram",
    _histogram,
    _infer_histogram,
    lambda args, p: (
        f"np.histogram({{0}}, bins={p['bins']}"
        + (f", range={p['range']}" if p["range"] else "")
        + (", weights={1})" if len(args) > 1 else ")")
    ),
    _histogram_jvp,
    _histogram_vjp,
    samples=_histogram_samples,
)


def _counted(x: Any, edges: Any, weights: Any = None) -> Any:
    return np.histogram(x, edges, weights=weights)[0]


def _infer_counted(x: Any, edges: Any, *weights: Any) -> ArrayType:
    dtype = type_of(weights[0]).dtype if weights else _INT
    (size,) = type_of(edges).dims
    return ArrayType(dtype, (size - 1,))


def _counted_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    given = len(args) > 2 and tangents[2] is not None
    return (apply(counted, *args[:2], tangents[2]) if given else None,)


def _counted_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None, None, *(_of_bins(cotangents[0], *args[:2]) for _ in args[2:]))


def _counted_samples(rng: np.random.Generator) -> Samples:
    edges = np.array([-1.0, -0.25, 0.0, 0.6])
    return [
        ((rng.normal(size=9), edges), {}),
        ((rng.normal(size=9), edges, rng.normal(size=9)), {}),
        ((rng.normal(size=(2, 3)), edges, rng.normal(size=(2, 3))), {}),
    ]


# the counts alone, between edges that are given
counted = opaque(
    "np.histogram of edges",
    _counted,
    _infer_counted,
    lambda args, p: "np.histogram({0}, {1}" + (", weights={2})" if len(args) > 2 else ")") + "[0]",
    _counted_jvp,
    _counted_vjp,
    fresh=True,
    samples=_counted_samples,
)


def _number_of_bins(function: str, bins: Any) -> int | None:
    """The number of bins that is asked for; None where their edges are given."""
    if isinstance(bins, str):
        raise UnsupportedFunction(
            f"np.{function} with bins={bins!r}: their number would depend on the data.",
            current().origin,
            "give the number of bins, or their edges",
        )
    if isinstance(bins, (list, tuple, np.ndarray)) or (isinstance(bins, Array) and bins.ndim):
        return None
    return known_int(bins, "The number of bins")


def _even_edges(x: Any, bins: int, limits: Any) -> Any:
    """The edges of so many bins, from the least to the greatest element if not said."""
    if limits is not None:
        low, high = limits
        return FUNCTIONS[np.linspace](low, high, bins + 1)
    if _is_empty(x):
        return FUNCTIONS[np.linspace](0.0, 1.0, bins + 1)
    low, high = np.min(x), np.max(x)
    if x.dtype.kind in "fc":
        raise_where(~(np.isfinite(low) & np.isfinite(high)), ValueError(_NOT_FINITE))
    one = low == high
    return np.linspace(np.where(one, low - 0.5, low), np.where(one, high + 0.5, high), bins + 1)


def _is_empty(x: Any) -> bool:
    """True if an array has no element; where its size is an argument's, the program holds for one.

    What only the run tells is taken to have some: NumPy refuses the extremes of none.
    """
    dims = current().dims
    sizes = [dims.resolve(d) for d in x.dims]
    return any(s == 0 or not dims.assume_nonnegative(s - 1) for s in sizes if _is_told(s))


def _is_told(size: Any) -> bool:
    return isinstance(size, int) or not current().dims.beyond_arguments(size)


@implements(np.histogram_bin_edges)
def np_histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """``np.histogram_bin_edges``."""
    number = _number_of_bins("histogram_bin_edges", bins)
    if number is None:
        return FUNCTIONS[np.asarray](operand(bins))
    return _even_edges(FUNCTIONS[np.asarray](operand(a)), number, range)


@implements(np.histogram)
def np_histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """``np.histogram``: the counts are linear in the weights, the edges follow the extremes."""
    x = FUNCTIONS[np.asarray](operand(a))
    given = [] if weights is None else [FUNCTIONS[np.asarray](operand(weights))]
    for w in given:
        _same_shape("histogram", x, w)
    number = _number_of_bins("histogram", bins)
    if number is not None and all(isinstance(v, (int, float)) for v in range or ()):
        limits = None if range is None else tuple(map(float, range))
        counts, edges = apply(histogram, x, *given, bins=number, range=limits)
    else:
        edges = np_histogram_bin_edges(x, bins, range)
        counts = apply(counted, x, edges, *given)
    if density:
        counts = counts / np.diff(edges) / np.sum(counts)
    return counts, edges


def _same_shape(function: str, x: Any, weights: Any) -> None:
    have, want = type_of(weights).dims, type_of(x).dims
    if len(have) != len(want):
        raise UnsupportedFunction(
            f"np.{function}: the weights have another shape than what is counted.",
            current().origin,
        )
    for one, other in zip(have, want, strict=True):
        current().unify(one, other)


@implements(np.histogram2d)
def np_histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """``np.histogram2d``, as a sum into the cells of a table."""
    points = [FUNCTIONS[np.asarray](operand(v)) for v in (x, y)]
    paired = isinstance(bins, (list, tuple)) and len(bins) == 2
    limits = (None, None) if range is None else range
    edges = [
        np_histogram_bin_edges(p, b, r)
        for p, b, r in zip(points, bins if paired else (bins, bins), limits, strict=True)
    ]
    _same_shape("histogram2d", *points)
    amounts: Any = FUNCTIONS[np.ones](points[0].shape)
    if weights is not None:
        amounts = FUNCTIONS[np.asarray](operand(weights))
        _same_shape("histogram2d", points[0], amounts)
    sizes = [e.shape[0] - 1 for e in edges]
    inside: Any = None
    for p, e in zip(points, edges, strict=True):
        within = np.logical_and(p >= e[0], p <= e[-1])
        inside = within if inside is None else np.logical_and(inside, within)
    rows, columns = (
        np.where(inside, _bins_of(p, e), 0) for p, e in zip(points, edges, strict=True)
    )
    table = FUNCTIONS[np.zeros](tuple(sizes))
    np.add.at(table, (rows, columns), np.where(inside, amounts, 0.0))
    if density:
        widths = [np.diff(e) for e in edges]
        table = table / widths[0][:, None] / widths[1] / np.sum(table)
    return table, edges[0], edges[1]


# what is there, once each


def _infer_unique(x: Any, index: bool, inverse: bool, counts: bool) -> Any:
    size = current().dims.fresh()
    values = ArrayType(type_of(x).dtype, (size,))
    more = [ArrayType(_INT, (size,))] if index else []
    more += [ArrayType(_INT, type_of(x).dims)] if inverse else []
    more += [ArrayType(_INT, (size,))] if counts else []
    return (values, *more) if more else values


def _unique(x: Any, index: bool, inverse: bool, counts: bool) -> Any:
    options: Any = {"return_index": index, "return_inverse": inverse, "return_counts": counts}
    return np.unique(x, **options)


def _unique_text(args: Any, params: dict[str, Any]) -> str:
    options = "".join(f", return_{name}=True" for name, given in params.items() if given)
    return f"np.unique({{0}}{options})"


def _firsts(x: Any, outs: Any, params: dict[str, Any]) -> Any:
    """The index of each value's first occurrence: of equal elements, that one is taken."""
    if params["index"]:
        return outs[1]
    return apply(unique, x, index=True, inverse=False, counts=False)[1]


def _unique_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (tangents[0][_firsts(args[0], outs, params)], *(None for _ in outs[1:]))


def _unique_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    if cotangents[0] is None:
        return (None,)
    first = _firsts(args[0], outs, params)
    return (Scatter(lambda x_bar: np.add.at(x_bar, first, cotangents[0])),)


def _unique_samples(rng: np.random.Generator) -> Samples:
    flags = [(False, False, False), (True, False, False), (False, True, True), (True, True, True)]
    rows = [dict(zip(("index", "inverse", "counts"), f, strict=True)) for f in flags]
    more: Samples = [((rng.integers(0, 4, s),), rows[0]) for s in (6, 0)]
    return [((rng.normal(size=5),), row) for row in rows] + more


unique = opaque(
    "np.unique",
    _unique,
    _infer_unique,
    _unique_text,
    _unique_jvp,
    _unique_vjp,
    fresh=True,
    samples=_unique_samples,
)


@implements(np.unique)
def np_unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """``np.unique``; a derivative goes to the first of equal elements."""
    x = FUNCTIONS[np.asarray](operand(ar))
    if (axis is not None and x.ndim != 1) or not equal_nan or not sorted:
        raise UnsupportedFunction(
            "np.unique with axis=, equal_nan=False or sorted=False.", current().origin
        )
    flat = x if x.ndim == 1 else np.ravel(x)
    flags = {"index": return_index, "inverse": return_inverse, "counts": return_counts}
    result = apply(unique, flat, **{k: bool(v) for k, v in flags.items()})
    if return_inverse and x.ndim != 1:
        at = 1 + bool(return_index)
        result = (*result[:at], np.reshape(result[at], x.shape), *result[at + 1 :])
    return result
