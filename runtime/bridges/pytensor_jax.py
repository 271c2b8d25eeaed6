"""NumPyOp in PyTensor's JAX backend: a callback, with the Op's own derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from pytensor.graph.basic import Apply, Constant
from pytensor.link.jax.dispatch import jax_funcify

from calque.runtime.bridges.pytensor import NumPyOp, is_float


def teach() -> None:
    """Called when the backend is used: what this module registers is there then."""


@jax_funcify.register(NumPyOp)
def jax_funcify_numpy_op(op: NumPyOp, node: Apply, **kwargs: Any) -> Callable[..., Any]:
    """The Op as a function of JAX's arrays; JAX may differentiate it in reverse mode."""
    run = _differentiable(op, node)
    single = len(node.outputs) == 1
    return lambda *arrays: run(*arrays)[0] if single else run(*arrays)


def _differentiable(op: NumPyOp, node: Apply) -> Any:
    """The callback, whose derivative for JAX is that of PyTensor's graph."""

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return _callback(op, node, arrays)

    def forward(*arrays: Any) -> Any:
        return run(*arrays), arrays

    @functools.cache
    def derivative() -> tuple[Any, list[int]]:
        outs = node.outputs
        variable = [not isinstance(x, Constant) for x in node.inputs]
        used = [i for i, x in enumerate(node.inputs) if is_float(x) and variable[i]]
        made = op.pullback(node.inputs, outs, [y.type() for y in outs])
        return _differentiable(made[used[0]].owner.op, made[used[0]].owner), used

    def backward(arrays: Any, bars: Any) -> Any:
        pull, used = derivative()
        kept = [bar for bar, y in zip(bars, node.outputs) if is_float(y)]
        found: list[Any] = [None] * len(arrays)
        for place, bar in zip(used, pull(*arrays, *kept)):
            found[place] = bar
        return tuple(found)

    run.defvjp(forward, backward)
    return run


def _callback(op: NumPyOp, node: Apply, arrays: Any) -> Any:
    shapes = op.shapes(node, tuple(np.shape(x) for x in arrays))
    for shape, out in zip(shapes, node.outputs):
        if None in shape:
            raise TypeError(
                f"{op}: JAX must know the size of every result, and the data decide that of {out}, "
                f"{list(shape)}. Use PyTensor's Numba backend"
            )
    dtypes = [jax.dtypes.canonicalize_dtype(y.type.numpy_dtype) for y in node.outputs]
    wanted = [jax.ShapeDtypeStruct(s, t) for s, t in zip(shapes, dtypes)]
    types = [x.type.numpy_dtype for x in node.inputs]

    def compute(*given: Any) -> tuple[Any, ...]:
        made = op.compute([np.asarray(x, dtype) for x, dtype in zip(given, types)])
        return tuple(y.astype(dtype, copy=False) for y, dtype in zip(made, dtypes))

    return jax.pure_callback(compute, tuple(wanted), *arrays, vmap_method="sequential")
