"""Arrays that grow: ``room`` gives an array a place at ``count``, doubling it where it is full.

With ``several`` it gives all the places below ``count``, which may be many more than there are;
with ``full`` it need not ask: another array that has as many places is full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import current, type_of
from calque.transpiler.ir.types import INT, ArrayType, dim_symbols
from calque.transpiler.primitives.base import Primitive, apply, register


def _grown(x: Any, count: Any, axis: int = 0, several: bool = False, full: bool = False) -> Any:
    needed = count if several else count + 1
    while x.shape[axis] < needed:
        x = np.concatenate([x, np.empty_like(x)], axis=axis)
    return x


def _infer(
    x: Any, count: Any, axis: int = 0, several: bool = False, full: bool = False
) -> ArrayType:
    t, dims = type_of(x), current().dims
    size = dims.fresh()
    dims.growing |= dim_symbols(dims.resolve(t.dims[axis])) - dims.arguments
    if several:
        dims.largest[size.terms[0][0]] = [current().dim_of(count)]
    return t.with_dims((*t.dims[:axis], size, *t.dims[axis + 1 :]))


def _jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None if tangents[0] is None else apply(room, tangents[0], args[1], **params),)


def _text(args: Any, params: dict[str, Any]) -> str:
    axis, several = params.get("axis", 0), params.get("several", False)
    along = f", axis={axis}" if axis else ""
    grown = f"np.concatenate(({{0}}, np.empty_like({{0}})){along})"
    if params.get("full"):
        return f"{{0}} = {grown}"
    full = f"while {{0}}.shape[{axis}] < {{1}}" if several else f"if {{1}} == {{0}}.shape[{axis}]"
    return f"{full}:\n    {{0}} = {grown}"


def _vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return cotangents[0], None


room = register(
    Primitive(
        "room",
        _grown,
        _infer,
        _text,
        kind="store",
        jvp=_jvp,
        vjp=_vjp,
        linear_in=(0,),
        samples=lambda rng: [((rng.normal(size=4), 2), {})],
        first_index=2,
    )
)


def _widened(x: Any, like: Any, axis: int) -> Any:
    while x.shape[axis] < like.shape[axis]:
        x = np.concatenate([x, np.empty_like(x)], axis=axis)
    return x


def _widened_type(x: Any, like: Any, axis: int) -> ArrayType:
    t, size = type_of(x), type_of(like).dims[axis]
    return t.with_dims((*t.dims[:axis], size, *t.dims[axis + 1 :]))


def _widened_text(args: Any, params: dict[str, Any]) -> str:
    size = f"shape[{params['axis']}]"
    grown = f"np.concatenate(({{0}}, np.empty_like({{0}})), axis={params['axis']})"
    return f"while {{0}}.{size} < {{1}}.{size}:\n    {{0}} = {grown}"


def _widened_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None if tangents[0] is None else apply(widened, tangents[0], args[1], **params),)


# an array with as many places as one that some of its rows were copied to, and that has grown since
widened = register(
    Primitive(
        "widened",
        _widened,
        _widened_type,
        _widened_text,
        kind="store",
        jvp=_widened_jvp,
        vjp=lambda cotangents, outs, args, params: (cotangents[0], None),
        linear_in=(0,),
        samples=lambda rng: [((rng.normal(size=(2, 4)), rng.normal(size=(3, 4))), {"axis": 1})],
        first_index=2,
    )
)


def _furthest_text(args: Any, params: dict[str, Any]) -> str:
    name = "max" if params["up"] else "min"
    along = f"axis={params['axis']}, " if params["axis"] is not None else ""
    return f"np.{name}({{0}}, {along}initial={{1}})"


def _furthest_on_gpu(args: Any, params: dict[str, Any]) -> str:
    name = "max" if params["up"] else "min"
    if params["axis"] is None:
        return f"np.{name}(np.append({{0}}, {{1}}))"
    return f"np.{name}imum(np.{name}({{0}}, axis={params['axis']}), {{1}})"


def _furthest(x: Any, start: Any, up: bool, axis: int | None = None) -> Any:
    return (np.max if up else np.min)(x, axis=axis, initial=start)


def _furthest_type(x: Any, start: Any, up: bool, axis: int | None = None) -> ArrayType:
    return INT if axis is None else type_of(x).with_dims(type_of(x).dims[:axis])


# the greatest, or the least, of integers: how far a loop goes that starts at ``start``
furthest = register(
    Primitive(
        "furthest",
        _furthest,
        _furthest_type,
        _furthest_text,
        kind="reduction",
        cupy=_furthest_on_gpu,
        nondifferentiable=True,
        samples=lambda rng: [
            ((rng.integers(-3, 4, 4), 1), {"up": up, "axis": None}) for up in (True, False)
        ],
    )
)
