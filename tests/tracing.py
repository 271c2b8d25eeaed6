"""Core from a plain Python function, by running it on Arrays; and forward mode over straight lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler import primitives  # noqa: F401  (fills the tables)
from calque.transpiler.errors import SpecializationNeeded
from calque.transpiler.ir import builder as build
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Block, Function, If, Slot, Var, map_tree
from calque.transpiler.ir.types import ArrayType, symbol, type_of_constant
from calque.transpiler.ir.verify import verify
from calque.transpiler.primitives.scipy_modules import register_scipy


def trace(f: Callable[..., Any], *arrays: Any, concrete: bool = False) -> Function:
    """Run ``f`` on Arrays with the types of ``arrays``; sizes are symbols unless ``concrete``."""
    return trace_and_builder(f, *arrays, concrete=concrete)[0]


def trace_and_builder(
    f: Callable[..., Any], *arrays: Any, concrete: bool = False
) -> tuple[Function, Builder]:
    """The same, and what knows of its sizes."""
    register_scipy()
    symbols: list[str] = []

    def var(position: int, value: Any) -> Var:
        t = type_of_constant(value)
        dims: list[Any] = []
        for axis, size in enumerate(t.dims):
            if concrete or size in (0, 1):
                dims.append(size)
            else:
                symbols.append(f"n{position}{axis}")
                dims.append(symbol(symbols[-1]))
        return Var(ArrayType(t.dtype, tuple(dims), t.weak), f"a{position}")

    params = [var(i, a) for i, a in enumerate(arrays)]
    builder = Builder(symbols)
    results: list[Any] = []

    def slot(leaf: Any) -> Slot:
        results.append(build.atom(leaf))
        return Slot(len(results) - 1)

    with builder.active(), builder.block() as body:
        tree = map_tree(slot, f(*map(Array, params)))
        body.results = results
    function = Function(getattr(f, "__name__", "f"), params, body, tree)
    function.dim_values, function.equal_dims = builder.dim_values, builder.equal_dims
    verify(function)
    return function, builder


def trace_any(f: Callable[..., Any], *arrays: Any) -> Function:
    """``trace`` with symbolic sizes, or with known ones where they are asked for."""
    return trace_any_and_builder(f, *arrays)[0]


def trace_any_and_builder(f: Callable[..., Any], *arrays: Any) -> tuple[Function, Builder]:
    """The same, and what knows of its sizes."""
    try:
        return trace_and_builder(f, *arrays)
    except SpecializationNeeded:
        return trace_and_builder(f, *arrays, concrete=True)


def push_forward(function: Function, args: list[Any], tangents: list[Any]) -> list[Any]:
    """Within an open builder: run a program without loops again; its results' tangents."""
    values: dict[Var, Any] = dict(zip(function.params, args, strict=True))
    dots: dict[Var, Any] = dict(zip(function.params, tangents, strict=True))
    _push(function.body, values, dots)
    return [dots.get(r) if isinstance(r, Var) else None for r in function.body.results]


def _push(block: Block, values: dict[Var, Any], dots: dict[Var, Any]) -> None:
    for s in block.statements:
        if isinstance(s, If):
            _push_branch(s, values, dots)
            continue
        assert isinstance(s, Apply), "only programs without loops"
        inputs = [values[a] if isinstance(a, Var) else a for a in s.args]
        given = [dots.get(a) if isinstance(a, Var) else None for a in s.args]
        found = build.current().apply(s.primitive, inputs, s.params)
        outs = found if len(s.outs) > 1 else (found,)
        values.update(zip(s.outs, outs, strict=True))
        if s.primitive.nondifferentiable or all(g is None for g in given):
            continue
        outs_dot = s.primitive.jvp(given, outs, inputs, s.params)
        for var, out, dot in zip(s.outs, outs, outs_dot, strict=True):
            if dot is not None and var.type.is_float:
                dots[var] = full(dot, out)


def _push_branch(s: If, values: dict[Var, Any], dots: dict[Var, Any]) -> None:
    """Both arms again, each with the tangents of its results."""
    arms = []
    for arm in (s.then, s.orelse):
        with build.current().block() as block:
            inner, inner_dots = dict(values), dict(dots)
            _push(arm, inner, inner_dots)
            found = [inner[r] for r in arm.results]
            pushed = [inner_dots.get(r) for r in arm.results]
            pushed = [full(0.0 if d is None else d, v) for d, v in zip(pushed, found, strict=True)]
            block.results = [x.atom for x in [*found, *pushed]]
        arms.append(block)
    made = [Array(Var(o.type)) for o in [*s.outs, *s.outs]]
    outs = tuple(m.atom for m in made)
    build.current().emit(If(outs, values[s.test].atom, arms[0], arms[1]))
    for position, out in enumerate(s.outs):
        values[out], dots[out] = made[position], made[len(s.outs) + position]


def full(value: Any, like: Array) -> Any:
    """``value`` spread over the shape of ``like``, with its dtype: what passes do around rules."""
    if like.dtype.kind != "c" and getattr(value, "dtype", np.dtype(float)).kind == "c":
        value = np.real(value)
    if not isinstance(value, Array):
        return build.FUNCTIONS[np.full](like.shape, value, like.dtype)
    if value.ndim != like.ndim or value.dims != like.dims:
        value = np.broadcast_to(value, like.shape)
    return value if value.dtype == like.dtype else value.astype(like.dtype)
