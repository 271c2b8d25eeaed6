"""Arrays that grow: ``room`` gives an array a place at ``count``, doubling it where it is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.builder import current, type_of
from calque.transpiler.primitives.base import Primitive, apply, register
from calque.transpiler.types import ArrayType


def _grown(x: Any, count: Any, axis: int = 0) -> Any:
    return x if count < x.shape[axis] else np.concatenate([x, np.empty_like(x)], axis=axis)


def _infer(x: Any, count: Any, axis: int = 0) -> ArrayType:
    t = type_of(x)
    return t.with_dims((*t.dims[:axis], current().dims.fresh(), *t.dims[axis + 1 :]))


def _jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None if tangents[0] is None else apply(room, tangents[0], args[1], **params),)


def _text(args: Any, params: dict[str, Any]) -> str:
    axis = params.get("axis", 0)
    along = f", axis={axis}" if axis else ""
    grown = f"np.concatenate(({{0}}, np.empty_like({{0}})){along})"
    return f"if {{1}} == {{0}}.shape[{axis}]:\n    {{0}} = {grown}"


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
    )
)
