"""Arrays that grow: ``room`` gives an array a place at ``count``, doubling it where it is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.builder import current, type_of
from calque.transpiler.primitives.base import Primitive, apply, register
from calque.transpiler.types import ArrayType


def _grown(x: Any, count: Any) -> Any:
    return x if count < len(x) else np.concatenate([x, np.empty_like(x)])


def _infer(x: Any, count: Any) -> ArrayType:
    t = type_of(x)
    return t.with_dims((current().dims.fresh(), *t.dims[1:]))


def _jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (None if tangents[0] is None else apply(room, tangents[0], args[1]),)


def _vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return cotangents[0], None


room = register(
    Primitive(
        "room",
        _grown,
        _infer,
        "if {1} == {0}.shape[0]:\n    {0} = np.concatenate([{0}, np.empty_like({0})])",
        kind="store",
        jvp=_jvp,
        vjp=_vjp,
        linear_in=(0,),
        samples=lambda rng: [((rng.normal(size=4), 2), {})],
    )
)
