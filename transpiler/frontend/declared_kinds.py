"""The kinds of declared functions: derivatives from the user's rules, and rules for batching."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.frontend.declared import (
    Declared,
    checked,
    declare,
    result_type,
    run_rule,
    several,
)
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, loop_index, type_of
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.types import ArrayType, promote
from calque.transpiler.primitives.base import scale
from calque.transpiler.primitives.batched import size_among
from calque.transpiler.primitives.record import Primitive
from calque.transpiler.primitives.shapes import normalize_tuple

# elementwise


def elementwise(
    function: Callable[..., Any],
    partials: Callable[..., Any] | None,
    dtype: Any,
    static: Sequence[str],
    place: str | None,
) -> Declared:
    """A function of each element."""

    def infer(*args: Any, **params: Any) -> ArrayType:
        types = [type_of(a) for a in args]
        dims = current().broadcast([t.dims for t in types])
        return ArrayType(_dtype_of(made, dtype, types, params), dims)

    made = declare(function, "elementwise", infer, static, place)

    def slopes(outs: Any, args: Any, params: dict[str, Any]) -> list[Any]:
        found = run_rule(partials, [*args, outs[0]], params)  # type: ignore[arg-type]
        return several(found, len(args), "partials", made)

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        pairs = zip(tangents, slopes(outs, args, params), strict=True)
        return (_total(scale(t, s) for t, s in pairs if t is not None and s is not None),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        found = slopes(outs, args, params)
        return tuple(None if s is None else scale(cotangents[0], s) for s in found)

    if partials is not None:
        made.jvp, made.vjp = jvp, vjp
    return made


def _total(terms: Any) -> Any:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _dtype_of(
    primitive: Declared, dtype: Any, types: Sequence[ArrayType], params: dict[str, Any]
) -> np.dtype:
    """The declared dtype; else that of the function's result for ones; else the arguments'."""
    if dtype is not None:
        return np.dtype(dtype)
    ones = [np.ones((1,) * t.ndim, t.dtype)[()] for t in types]
    given = [o.item() if t.weak else o for o, t in zip(ones, types, strict=True)]
    try:
        return np.asarray(primitive.function(*given, **params)).dtype
    except Exception:  # it may not be defined there
        found = promote(list(types))[0]
        return found if found.kind in "fc" else np.dtype(float)


# linear, bilinear, opaque


def linear(
    function: Callable[..., Any],
    transpose: Callable[..., Any] | None,
    result: Any,
    wrt: Sequence[int] | None,
    batch: Any,
    static: Sequence[str],
    place: str | None,
) -> Declared:
    """A function that is linear in some operands together."""
    made = declare(function, "linear", result_type(lambda: made, result), static, place)

    def positions(args: Sequence[Any]) -> list[int]:
        return list(range(len(args))) if wrt is None else [i % len(args) for i in wrt]

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        linear_in = positions(args)
        if any(t is not None and i not in linear_in for i, t in enumerate(tangents)):
            raise _not_linear(made)
        swapped = [
            a if i not in linear_in else _zeros(a) if tangents[i] is None else tangents[i]
            for i, a in enumerate(args)
        ]
        return (current().apply(made, swapped, params),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        linear_in = positions(args)
        found = run_rule(transpose, [cotangents[0], *args], params)  # type: ignore[arg-type]
        given = dict(zip(linear_in, several(found, len(linear_in), "transpose", made), strict=True))
        return tuple(
            checked(given[i], a, "transpose", made) if i in given else _not_linear(made)
            for i, a in enumerate(args)
        )

    made.linear_in = tuple(wrt or ())
    made.jvp = jvp
    made.vjp = None if transpose is None else vjp
    made.batch = batch_rule(made, batch)
    return made


def _not_linear(primitive: Declared) -> NotDifferentiable:
    return NotDifferentiable(
        f"{primitive.name} is declared linear in some of its arguments, and has no derivative by "
        "the others.",
        current().origin,
        "declare it with opaque, or use stop_gradient",
    )


def _zeros(value: Any) -> Any:
    return np.zeros_like(value) if isinstance(value, Array) and value.ndim else 0.0


def bilinear(
    function: Callable[..., Any],
    transpose: Callable[..., Any] | None,
    result: Any,
    batch: Any,
    static: Sequence[str],
    place: str | None,
) -> Declared:
    """A function of two operands that is linear in each."""
    made = declare(function, "opaque", result_type(lambda: made, result), static, place)

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        (a_dot, b_dot), (a, b) = tangents, args
        pairs = [(x, y) for x, y in ((a_dot, b), (a, b_dot)) if x is not None and y is not None]
        return (_total(current().apply(made, pair, params) for pair in pairs),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        found = run_rule(transpose, [cotangents[0], *args], params)  # type: ignore[arg-type]
        given = several(found, 2, "transpose", made)
        return tuple(checked(g, a, "transpose", made) for g, a in zip(given, args, strict=True))

    made.linear_in = (0, 1)
    made.jvp = jvp
    made.vjp = None if transpose is None else vjp
    made.batch = batch_rule(made, batch)
    return made


def opaque(
    function: Callable[..., Any],
    result: Any,
    jvp: Callable[..., Any] | None,
    vjp: Callable[..., Any] | None,
    batch: Any,
    static: Sequence[str],
    place: str | None,
) -> Declared:
    """A function all of whose rules are given by hand."""
    made = declare(function, "opaque", result_type(lambda: made, result), static, place)

    def push(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        found = run_rule(jvp, [_alone(tangents), _alone(outs), *args], params)  # type: ignore[arg-type]
        dots = several(found, len(outs), "jvp", made)
        return tuple(checked(d, o, "jvp", made) for d, o in zip(dots, outs, strict=True))

    def pull(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        found = run_rule(vjp, [_alone(cotangents), _alone(outs), *args], params)  # type: ignore[arg-type]
        bars = several(found, len(args), "vjp", made)
        return tuple(checked(b, a, "vjp", made) for b, a in zip(bars, args, strict=True))

    made.jvp = None if jvp is None else push
    made.vjp = None if vjp is None else pull
    made.batch = batch_rule(made, batch)
    return made


def _alone(values: Sequence[Any]) -> Any:
    """A single value as itself, several as a tuple."""
    return values[0] if len(values) == 1 else tuple(values)


# reductions


def reduction(
    function: Callable[..., Any],
    slope: Callable[..., Any] | None,
    dtype: Any,
    static: Sequence[str],
    place: str | None,
) -> Declared:
    """A function ``f(x, axis=None, keepdims=False)`` that reduces axes."""

    def infer(x: Any, **params: Any) -> ArrayType:
        t = type_of(x)
        axes, keep = _axes(t.ndim, params), params.get("keepdims", False)
        dims = [1 if a in axes else d for a, d in enumerate(t.dims) if keep or a not in axes]
        return ArrayType(_dtype_of(made, dtype, [t], params), tuple(dims))

    made = declare(function, "opaque", infer, ("axis", "keepdims", *static), place)

    def slopes(outs: Any, args: Any, params: dict[str, Any]) -> Any:
        rest = {k: v for k, v in params.items() if k != "keepdims"}
        found = run_rule(slope, [args[0], kept(outs[0], args[0], params)], rest)  # type: ignore[arg-type]
        return several(found, 1, "slope", made)[0]

    def kept(out: Any, x: Any, params: dict[str, Any]) -> Any:
        """A result, or its cotangent, with the reduced axes kept as axes of size 1."""
        axes = _axes(type_of(x).ndim, params)
        if params.get("keepdims") or not isinstance(out, Array) or not out.ndim:
            return out
        return np.expand_dims(out, axes)

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        by = slopes(outs, args, params)
        axes = _axes(type_of(args[0]).ndim, params)
        total = np.sum(scale(tangents[0], by), axis=axes, keepdims=params.get("keepdims", False))
        return (None if by is None else total,)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        by = slopes(outs, args, params)
        return (None if by is None else scale(kept(cotangents[0], args[0], params), by),)

    def batch(args: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Any:
        x = args[0]
        if "axis" not in params or params["axis"] is None:
            if made.parameters is not None and "axis" not in made.parameters.parameters:
                return sequential(made, args, batched, params)
            rank = x.ndim - 1
            if params.get("keepdims"):
                every = tuple(range(1, rank + 1))
                return current().apply(made, args, {**params, "axis": _one(every)})
            flat = x if rank == 1 else np.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
            return current().apply(made, [flat], {**params, "axis": 1})
        shifted = tuple(a + 1 for a in _axes(x.ndim - 1, params))
        return current().apply(made, args, {**params, "axis": _one(shifted)})

    if slope is not None:
        made.jvp, made.vjp = jvp, vjp
    made.batch = batch
    return made


def _axes(rank: int, params: dict[str, Any]) -> tuple[int, ...]:
    axis = params.get("axis")
    if axis is None:
        return tuple(range(rank))
    return normalize_tuple(axis, rank)


def _one(axes: tuple[int, ...]) -> int | tuple[int, ...]:
    return axes[0] if len(axes) == 1 else axes


# batching


def batch_rule(primitive: Declared, how: Any) -> Callable[..., Any]:
    """The batching rule: a loop over the examples, new axes in front, or the user's own rule."""
    if callable(how):
        return lambda args, batched, params: run_rule(how, [batched, *args], params)
    if how == "expand_dims":
        return lambda args, batched, params: current().apply(
            primitive, _in_front(args, batched), params
        )
    return lambda args, batched, params: sequential(primitive, args, batched, params)


def _in_front(args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Operands without a batch axis get one of size 1, unless they are numbers."""
    return [a if b or not type_of(a).ndim else a[None] for a, b in zip(args, batched, strict=True)]


def sequential(
    primitive: Primitive, args: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]
) -> Any:
    """A loop over the examples, one call each."""
    builder = current()
    size = size_among(args, batched)
    single = [Array(_example(a)) if b else a for a, b in zip(args, batched, strict=True)]
    types = primitive.infer(*single, **params)
    alone = isinstance(types, ArrayType)
    outs = [types] if alone else list(types)
    inits = [FUNCTIONS[np.empty]((size, *map(size_at_hand, t.dims)), t.dtype) for t in outs]
    phis = tuple(Var(i.type, None, builder.origin) for i in inits)
    index = loop_index(0, builder.dim_of(size) - 1, "lane")

    def step(*phis: Var) -> list[Array]:
        rows = [a[index] if b else a for a, b in zip(args, batched, strict=True)]
        found = builder.apply(primitive, rows, params)
        cells = [*map(Array, phis)]
        for cell, value in zip(cells, (found,) if alone else found, strict=True):
            cell[index] = value
        return cells

    last = emit_fold(builder, index.atom, (0, size, 1), inits, step, phis=phis).outs
    return Array(last[0]) if alone else tuple(map(Array, last))


def _example(value: Any) -> Var:
    t = type_of(value)
    return Var(t.with_dims(t.dims[1:]), None, current().origin)
