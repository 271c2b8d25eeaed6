"""The part of a derivative rule that both forms of an operation have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from calque.runtime.bridges.leaf_functions import Places
from calque.runtime.bridges.torch_operations import TensorOperation


def keep(
    ctx: Any, operation: TensorOperation, leaves: Sequence[Any], results: Sequence[Any]
) -> None:
    """Keep what a derivative needs: the leaves, and which results have one (``given``)."""
    ctx.operation = operation
    ctx.numbers = [None if isinstance(x, torch.Tensor) else x for x in leaves]
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.count = len(results)
    ctx.given = tuple([k for k, x in enumerate(results) if is_differentiable(x)])
    if len(ctx.given) < ctx.count:
        ctx.mark_non_differentiable(*[x for k, x in enumerate(results) if k not in ctx.given])


def is_differentiable(tensor: Any) -> bool:
    """True for numbers that have derivatives: floats and complex ones."""
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def kept(ctx: Any) -> list[Any]:
    """The leaves that were kept."""
    tensors = iter(ctx.saved_tensors)
    pairs = zip(ctx.operation.kinds, ctx.numbers, strict=True)
    return [next(tensors) if kind == "Tensor" else number for kind, number in pairs]


def wanted_of(needed: Sequence[bool]) -> Places:
    """The places that are needed."""
    return tuple([k for k, each in enumerate(needed) if each])


def pulled_back(
    ctx: Any, needed: Sequence[bool], cotangents: Sequence[Any]
) -> tuple[TensorOperation, list[Any], Places]:
    """The operation that gives the cotangents of leaves, its leaves, and of which they are.

    PyTorch's cotangents of complex numbers are the conjugates of calque's, which are JAX's.
    """
    wanted = wanted_of(needed)
    operation = ctx.operation.pullback(wanted, ctx.given)
    return operation, [*kept(ctx), *[conjugate(cotangents[k]) for k in ctx.given]], wanted


def pushed_forward(ctx: Any, tangents: Sequence[Any]) -> tuple[TensorOperation, list[Any]]:
    """The operation that gives the tangents of results, and its leaves."""
    wanted = tuple([k for k, tangent in enumerate(tangents) if tangent is not None])
    operation = ctx.operation.pushforward(wanted, ctx.given)
    return operation, [*kept(ctx), *[tangents[k] for k in wanted]]


def conjugate(tensor: Any) -> Any:
    """The conjugate of a tensor; a real tensor itself."""
    return tensor.conj().resolve_conj() if tensor.dtype.is_complex else tensor


def spread(values: Sequence[Any], places: Places, count: int) -> list[Any]:
    """``count`` places, with values at these and None at the others."""
    made: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        made[place] = value
    return made


def batch_of(
    operation: TensorOperation, dims: Sequence[int | None], leaves: Sequence[Any]
) -> tuple[list[Any], TensorOperation]:
    """The leaves, with examples along axis 0, and the operation on them."""
    pairs = zip(leaves, dims, strict=True)
    moved = [x if dim is None else x.movedim(dim, 0) for x, dim in pairs]
    return moved, operation.batched(tuple([dim is not None for dim in dims]))
