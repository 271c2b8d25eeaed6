"""Reductions: sums, products, extrema, truth, and the like along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, METHODS, Array, current, type_of
from calque.transpiler.ir.types import ArrayType, elementwise_dtype
from calque.transpiler.primitives import guards
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    elementwise,
    finish,
    implements,
    linear,
    opaque,
    operand,
    register,
    run_time_choice,
)
from calque.transpiler.primitives.elementwise import dtype_name
from calque.transpiler.primitives.shapes import joined_axes, normalize_axis

Axes = tuple[int, ...] | None
Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]


def normalize_axes(axis: Any, ndim: int) -> Axes:
    """None for all axes, else a sorted tuple."""
    if axis is None:
        return None
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(normalize_axis(a, ndim) for a in axes))


def infer_reduction(function: Callable[..., Any]) -> Callable[..., ArrayType]:
    """The reduced axes go, or become 1; the dtype is asked of NumPy."""

    def infer(x: Any, axis: Axes, keepdims: bool, dtype: Any = None, **params: Any) -> ArrayType:
        t = type_of(x)
        found = dtype or np.asarray(function(np.ones((1,), t.dtype))).dtype
        return ArrayType(np.dtype(found), reduced_dims(t.dims, axis, keepdims))

    return infer


def reduced_dims(dims: Any, axis: Axes, keepdims: bool) -> tuple[Any, ...]:
    """The dimensions without the reduced ones, or with 1 in their place."""
    axes = range(len(dims)) if axis is None else axis
    if keepdims:
        return tuple(1 if a in axes else d for a, d in enumerate(dims))
    return tuple(d for a, d in enumerate(dims) if a not in axes)


def reduction_text(name: str) -> Callable[..., str]:
    """``np.sum({0}, axis=0, keepdims=True)``; several operands where there are several."""

    def spell(args: Any, params: dict[str, Any]) -> str:
        axis = params["axis"]
        parts = [f"{{{i}}}" for i in range(len(args))]
        if axis is not None:
            parts.append(f"axis={axis[0] if len(axis) == 1 else axis}")
        if params.get("dtype") is not None:
            parts.append(f"dtype=np.{dtype_name(params['dtype'])}")
        if params.get("ddof"):
            parts.append(f"ddof={params['ddof']}")
        if params.get("method", "linear") != "linear":
            parts.append(f"method={params['method']!r}")
        if params["keepdims"]:
            parts.append("keepdims=True")
        return f"{name}({', '.join(parts)})"

    return spell


def reduction_samples(
    rng: np.random.Generator, empty: bool = True, distinct: bool = False, **options: Any
) -> Samples:
    """Sampled operands and axes; ``distinct`` values are well apart."""

    def values(*shape: int) -> np.ndarray:
        if distinct:
            count = int(np.prod(shape))
            return (rng.permutation(count) * 0.3 - 0.8).reshape(shape)
        return np.asarray(rng.uniform(-2.0, 2.0, shape))

    rows: list[tuple[np.ndarray, Axes, bool]] = [
        (values(3, 4), None, False),
        (values(3, 4), (0,), False),
        (values(3, 4), (1,), True),
        (values(2, 3, 4), (0, 2), False),
        (values(2, 3, 4), (0, 1, 2), True),
        (values(), None, False),
        (values(1), (0,), False),
        (values(3, 1), (1,), False),
        (values(5).astype("f4"), None, False),
    ]
    if empty:
        rows += [(values(0, 3), (0,), False), (values(0), None, False)]
    return [((x,), {"axis": axis, "keepdims": keep, **options}) for x, axis, keep in rows]


def expand(y: Any, x: Any, axis: Axes, keepdims: bool) -> Any:
    """A reduction's result with its reduced axes back, as size 1, to broadcast against ``x``."""
    if keepdims or axis is None or not isinstance(y, Array) or not y.ndim:
        return y
    kept = [a for a in range(x.ndim) if a not in axis]
    first = kept[-y.ndim] if y.ndim < len(kept) else 0  # a cotangent may lack axes it spreads over
    return y[tuple(None if a in axis else slice(None) for a in range(first, x.ndim))]


def _masked(x: Any, where: Any, neutral: Any) -> Any:
    return x if where is True else np.where(where, x, neutral)


def _combine(result: Any, initial: Any, with_initial: Callable[..., Any]) -> Any:
    return result if initial is None else with_initial(result, initial)


def _from_initial(
    primitive: Primitive, combine: Callable[..., Any], x: Any, initial: Any, params: dict[str, Any]
) -> Any:
    """An extremum of ``x`` and ``initial``, which is all there is where ``x`` has no elements."""
    reduce = lambda: combine(apply(primitive, x, **params), initial)
    count = count_reduced(x, params["axis"])
    if current().dims.nonnegative(current().dim_of(count) - 1):
        return reduce()
    t = primitive.infer(x, **params)
    dtype = elementwise_dtype(combine, [t, type_of(initial)])
    axes = range(x.ndim) if params["axis"] is None else params["axis"]
    sizes = [1 if a in axes else size for a, size in enumerate(x.shape)]
    shape = [s for a, s in enumerate(sizes) if params["keepdims"] or a not in axes]
    whole = lambda: FUNCTIONS[np.full](tuple(shape), initial, dtype)
    alone = whole if shape else lambda: FUNCTIONS["cast"](initial, dtype)  # a number
    return run_time_choice(count > 0, reduce, alone, t.with_dtype(dtype))


def reduction_handler(
    primitive: Primitive,
    neutral: Any,
    with_initial: Callable[..., Any],
    dtypes: bool = False,
    first: Any = None,
) -> Callable[..., Any]:
    """Return the implementation of ``np.sum(x, axis, dtype, out, keepdims, initial, where)``.

    ``neutral`` replaces the elements that ``where`` leaves out, ``first`` is the default axis.
    """

    def call(
        x: Any,
        axis: Any = first,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        x = FUNCTIONS[np.asarray](operand(x))
        if neutral is None and where is not True and initial is None:
            raise UnsupportedFunction(
                f"{primitive.name} with where= needs initial=.", current().origin
            )
        x = _masked(x, where, initial if neutral is None else neutral)
        params: dict[str, Any] = {"axis": normalize_axes(axis, x.ndim), "keepdims": bool(keepdims)}
        if dtype is not None and neutral is None:
            x = FUNCTIONS["cast"](x, dtype)
        elif dtype is not None:
            params["dtype"] = np.dtype(dtype)
        if neutral is None and initial is not None:
            found = _from_initial(primitive, with_initial, x, operand(initial), params)
        else:
            found = _combine(apply(primitive, x, **params), initial, with_initial)
        return finish(found, out)

    if dtypes:
        return call
    return lambda x, axis=first, out=None, keepdims=False, initial=None, where=True: call(
        x, axis, None, out, keepdims, initial, where
    )


@linear(
    "np.sum",
    np.sum,
    infer_reduction(np.sum),
    reduction_text("np.sum"),
    fresh=True,
    samples=reduction_samples,
    guard=guards.of_reduction,
    keeps_sign=True,
)
def sum_(y_bar: Any, x: Any, axis: Axes, keepdims: bool, dtype: Any = None) -> Any:
    """Every element gets the cotangent; the pass spreads it where an array is needed."""
    return expand(y_bar, x, axis, keepdims)


FUNCTIONS[np.sum] = METHODS["sum"] = reduction_handler(sum_, 0, np.add, True)
FUNCTIONS[(np.add, "reduce")] = reduction_handler(sum_, 0, np.add, True, 0)


def count_reduced(x: Any, axis: Axes) -> Any:
    """The number of elements that are reduced to one result."""
    if axis is None or len(axis) == x.ndim:
        return x.size
    count: Any = 1
    for a in axis:
        size = x.shape[a]
        count = size if isinstance(count, int) and count == 1 else count * size
    return count


@linear(
    "np.mean",
    np.mean,
    infer_reduction(np.mean),
    reduction_text("np.mean"),
    fresh=True,
    samples=lambda rng: reduction_samples(rng, empty=False),
    guard=guards.of_reduction,
    keeps_sign=True,
)
def mean(y_bar: Any, x: Any, axis: Axes, keepdims: bool, dtype: Any = None) -> Any:
    """Every element gets its share."""
    return expand(y_bar / count_reduced(x, axis), x, axis, keepdims)


@implements(np.mean, method="mean")
def np_mean(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """``np.mean``."""
    x = FUNCTIONS[np.asarray](operand(x))
    if where is not True:
        total = np.sum(x, axis=axis, dtype=dtype, where=where, keepdims=keepdims)
        return finish(shared(total, count_where(x, axis, keepdims, where)), out)
    params = {} if dtype is None else {"dtype": np.dtype(dtype)}
    axes = normalize_axes(axis, x.ndim)
    return finish(apply(mean, x, axis=axes, keepdims=bool(keepdims), **params), out)


def shared(total: Any, count: Any) -> Any:
    """A total divided by a count, in its own precision."""
    share = total / count
    return FUNCTIONS["cast"](share, total.dtype) if total.dtype.kind in "fc" else share


def count_where(x: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    """The number of elements of ``x`` that a mask keeps in each result."""
    return np.sum(np.broadcast_to(where, x.shape), axis=axis, keepdims=keepdims)


# extrema


def _attains_largest(x: Any, y: Any) -> Any:
    return x == y


def _attains_smallest(x: Any, y: Any) -> Any:
    return x == y


# where the extremum is: to kernels, which round in other ways, these say what ``y`` must be
ATTAINS = {
    function: elementwise(
        attains,
        None,
        "{0} == {1}",
        spelling="{0} == {1}",
        arity=2,
        name=f"is {name}",
        suffix="equal_{1}",
    )
    for function, attains, name in (
        (np.max, _attains_largest, "largest"),
        (np.min, _attains_smallest, "smallest"),
    )
}
is_largest, is_smallest = ATTAINS.values()


def _chosen(primitive: Any, y: Any, x: Any, params: dict[str, Any]) -> tuple[Any, Any]:
    """The mask of an extremum's positions, and their count in a dtype that keeps the array's."""
    axis, keepdims = params.get("axis"), params.get("keepdims", False)
    chosen = apply(primitive, x, expand(y, x, axis, keepdims))
    dtype = None if x.dtype == np.float64 else x.dtype
    return chosen, np.sum(chosen, axis=axis, dtype=dtype, keepdims=keepdims)


def extremum_rules(attains: Primitive) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the rules of an extremum along axes, forth and back, by which elements attain it."""

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        chosen, count = _chosen(attains, outs[0], args[0], params)
        x_dot = tangents[0]
        kept = guards.kept_where(lambda: chosen, (chosen.atom,), chosen * x_dot, x_dot, x_dot)
        axis, keepdims = params.get("axis"), params.get("keepdims", False)
        return (np.sum(kept, axis=axis, keepdims=keepdims) / count,)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        """The places of the extremum share the cotangent evenly, as in JAX."""
        chosen, count = _chosen(attains, outs[0], args[0], params)
        axis, keepdims = params.get("axis"), params.get("keepdims", False)
        share = expand(cotangents[0] / count, args[0], axis, keepdims)
        product, key = chosen * share, (chosen.atom,)
        return (guards.kept_where(lambda: chosen, key, product, cotangents[0], share),)

    return jvp, vjp


def _extremum(name: str, function: Any, pairwise: Any) -> Primitive:
    jvp, vjp = extremum_rules(ATTAINS[function])
    primitive = opaque(
        f"np.{name}",
        function,
        infer_reduction(function),
        reduction_text(f"np.{name}"),
        jvp,
        vjp,
        rule=f"{name}: the elements that attain it share the adjoint evenly",
        fresh=True,
        samples=lambda rng: reduction_samples(rng, empty=False),
    )
    METHODS[name] = FUNCTIONS[function] = reduction_handler(primitive, None, pairwise)
    FUNCTIONS[getattr(np, f"a{name}")] = FUNCTIONS[function]
    FUNCTIONS[(pairwise, "reduce")] = reduction_handler(primitive, None, pairwise, True, 0)
    return primitive


max_ = _extremum("max", np.max, np.maximum)
min_ = _extremum("min", np.min, np.minimum)
max_.smooth = min_.smooth = True


@implements(np.ptp)
def np_ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """``np.ptp``, as NumPy computes it."""
    high, low = (f(a, axis=axis, keepdims=keepdims) for f in (np.max, np.min))
    return finish(high - low, out)


def _arg_extremum(name: str) -> Primitive:
    function = getattr(np, name)

    def infer(x: Any, axis: Axes, keepdims: bool) -> ArrayType:
        return ArrayType(np.dtype(np.intp), reduced_dims(type_of(x).dims, axis, keepdims))

    def concrete(x: Any, axis: Axes, keepdims: bool) -> Any:
        return function(x, axis=None if axis is None else axis[0], keepdims=keepdims)

    def samples(rng: np.random.Generator) -> Samples:
        found = reduction_samples(rng, empty=False)
        return [s for s in found if s[1]["axis"] is None or len(s[1]["axis"]) == 1]

    primitive = register(
        Primitive(
            f"np.{name}",
            concrete,
            infer,
            reduction_text(f"np.{name}"),
            nondifferentiable=True,
            arithmetic="place",
            fresh=True,
            samples=samples,
        )
    )

    @implements(function, method=name)
    def call(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        x = FUNCTIONS[np.asarray](operand(a))
        axes = normalize_axes(axis, x.ndim)
        return finish(apply(primitive, x, axis=axes, keepdims=bool(keepdims)), out)

    return primitive


argmax, argmin = _arg_extremum("argmax"), _arg_extremum("argmin")


def _truth(name: str, neutral: bool, pairwise: Any) -> Primitive:
    function = getattr(np, name)
    primitive = register(
        Primitive(
            f"np.{name}",
            function,
            infer_reduction(function),
            reduction_text(f"np.{name}"),
            # CuPy's takes arrays alone: of a truth that the host has, one is made
            cupy=lambda args, params: reduction_text(f"np.{name}")(args, params).replace(
                "{0}", "{0}" if type_of(args[0]).ndim else "np.asarray({0})"
            ),
            nondifferentiable=True,
            fresh=True,
            samples=lambda rng: [((a[0] > 0,), p) for a, p in reduction_samples(rng)],
        )
    )

    def call(
        a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        x = _masked(FUNCTIONS[np.asarray](operand(a)), where, neutral)
        axes = normalize_axes(axis, x.ndim)
        return finish(apply(primitive, x, axis=axes, keepdims=bool(keepdims)), out)

    FUNCTIONS[function] = METHODS[name] = call
    FUNCTIONS[(pairwise, "reduce")] = lambda a, axis=0, dtype=None, out=None, **rest: call(
        a, axis, out, **rest
    )
    return primitive


any_ = _truth("any", False, np.logical_or)
all_ = _truth("all", True, np.logical_and)

count_nonzero = register(
    Primitive(
        "np.count_nonzero",
        np.count_nonzero,
        infer_reduction(np.count_nonzero),
        reduction_text("np.count_nonzero"),
        nondifferentiable=True,
        samples=reduction_samples,
        arithmetic="place",
    )
)


@implements(np.count_nonzero)
def np_count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """``np.count_nonzero``."""
    x = FUNCTIONS[np.asarray](operand(a))
    return apply(count_nonzero, x, axis=normalize_axes(axis, x.ndim), keepdims=bool(keepdims))


# products


def products_of_others(x: Any, axis: Axes) -> Any:
    """For each element the product of all others along the axes: right where there are zeros."""
    if x.ndim == 0:
        return np.ones_like(x)
    axes = tuple(range(x.ndim)) if axis is None else axis
    kept = [a for a in range(x.ndim) if a not in axes]
    order = (*kept, *axes)
    moved = np.transpose(x, order)
    flat = moved if len(axes) == 1 else joined_axes(moved, len(kept))
    result = _before(flat) * np.flip(_before(np.flip(flat, -1)), -1)
    result = result if len(axes) == 1 else np.reshape(result, moved.shape)
    return np.transpose(result, np.argsort(order).tolist())


def _before(x: Any) -> Any:
    """The product of the elements before each, along the last axis."""
    shifted = np.concatenate([np.ones_like(x[..., :1]), x[..., :-1]], axis=-1)
    return np.cumprod(shifted, axis=-1)


def _prod_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    others = products_of_others(args[0], params["axis"])
    return (np.sum(others * tangents[0], axis=params["axis"], keepdims=params["keepdims"]),)


def _prod_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    y_bar = expand(cotangents[0], args[0], params["axis"], params["keepdims"])
    return (y_bar * products_of_others(args[0], params["axis"]),)


prod = opaque(
    "np.prod",
    np.prod,
    infer_reduction(np.prod),
    reduction_text("np.prod"),
    _prod_jvp,
    _prod_vjp,
    fresh=True,
    samples=reduction_samples,
)
FUNCTIONS[np.prod] = METHODS["prod"] = reduction_handler(prod, 1, np.multiply, True)
FUNCTIONS[(np.multiply, "reduce")] = reduction_handler(prod, 1, np.multiply, True, 0)
