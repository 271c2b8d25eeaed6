"""Stacks of matrices in ``scipy.linalg``, which SciPy takes since its version 1.16.

A stack is a batch: a call of one is the batch rule of the function's record.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import current
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.matrix_signatures import parsed


def scipy_stacks(since: tuple[int, int] = (1, 16)) -> bool:
    """True if the SciPy at hand takes stacks of matrices."""
    version = importlib.import_module("scipy").__version__.split(".")[:2]
    return tuple(map(int, version)) >= since


def check_stacks(name: str, minor: int = 16) -> None:
    """Refuse a stack with a SciPy that takes none."""
    if not scipy_stacks((1, minor)):
        raise UnsupportedFunction(
            f"scipy.linalg.{name} of a stack of matrices: SciPy takes it since its version "
            f"1.{minor}.",
            current().origin,
            "use calque.vmap",
        )


def on_stacks(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """A function of matrices, or of each in stacks of them, which broadcast."""
    ranks = [len(names) for names in parsed(primitive.signature)[0]]
    depths = [max(a.ndim - rank, 0) for a, rank in zip(args, ranks, strict=True)]
    if not any(depths):
        return apply(primitive, *args, **params)
    assert primitive.batch is not None
    stacked = [a for a, depth in zip(args, depths, strict=True) if depth]
    flags = tuple(bool(depth) for depth in depths)
    sizes = [a.dims[0] for a in stacked]
    if max(depths) == 1 and all(current().dims.same(sizes[0], size) for size in sizes):
        return primitive.batch(args, flags, params)
    stack = _common_stack(stacked, [d for d in depths if d])
    flat = [
        _flattened(a, stack, depth) if depth else a for a, depth in zip(args, depths, strict=True)
    ]
    found = primitive.batch(flat, flags, params)
    if isinstance(found, (tuple, list)):
        return tuple(np.reshape(x, (*stack, *x.shape[1:])) for x in found)
    return np.reshape(found, (*stack, *found.shape[1:]))


def _common_stack(arrays: Sequence[Any], depths: Sequence[int]) -> tuple[Any, ...]:
    """The sizes of a stack that arrays broadcast to."""
    corners = [a[(..., *(0,) * (a.ndim - depth))] for a, depth in zip(arrays, depths, strict=True)]
    return tuple(np.broadcast_arrays(*corners)[0].shape)


def _flattened(a: Any, stack: tuple[Any, ...], depth: int) -> Any:
    one = a.shape[depth:]
    return np.reshape(np.broadcast_to(a, (*stack, *one)), (-1, *one))
