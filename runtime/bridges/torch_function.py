"""Operations as a ``torch.autograd.Function``: for calls outside of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from calque.runtime.bridges import torch_compiled
from calque.runtime.bridges.leaf_functions import Places
from calque.runtime.bridges.torch_contexts import (
    batch_of,
    conjugate,
    keep,
    pulled_back,
    pushed_forward,
    spread,
    wanted_of,
)
from calque.runtime.bridges.torch_operations import TensorOperation
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import pytrees


class HostResult:
    """The place where a call puts its result of NumPy, of which the structure is asked."""

    value: Any = None


def applied(operation: TensorOperation, leaves: Sequence[Any]) -> tuple[Any, Any]:
    """The results of a call, and the structure of their tree (None: one tensor alone)."""
    outcome = HostResult()
    tensors = apply(operation, outcome, leaves)
    value = outcome.value
    return tensors, None if type(value) is np.ndarray else pytrees.flatten(value)[1]


def apply(operation: TensorOperation, outcome: HostResult | None, leaves: Sequence[Any]) -> Any:
    """The results of a call, recorded where derivatives may be asked for.

    Only what ``torch.func`` transforms is a ``Transformable``: to call it takes PyTorch some 20
    microseconds more.
    """
    if torch._C._are_functorch_transforms_active():
        return Transformable.apply(operation, outcome, *leaves)
    recorded = torch.is_grad_enabled() and torch._C._any_requires_grad(*leaves)
    if recorded or forward_ad._current_level >= 0:
        return Applied.apply(operation, outcome, *leaves)
    return _computed(operation, outcome, leaves)


def _computed(operation: TensorOperation, outcome: HostResult | None, leaves: Sequence[Any]) -> Any:
    if torch_compiled.is_traced(leaves):
        tensors, value = torch_compiled.traced(operation, leaves)
    else:
        tensors, value = operation.run_with_tree(leaves)
    if outcome is not None:
        outcome.value = value
    return tensors


def _with_gradients(
    operation: TensorOperation, outcome: HostResult | None, leaves: Sequence[Any], wanted: Places
) -> tuple[Any, ...] | None:
    """The result of a call and its gradients, if it is one real number; else None."""
    if outcome is None or not wanted or torch_compiled.is_traced(leaves):
        return None
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    key = tuple([(x.dtype, x.ndim, 1 in x.shape and x.shape) for x in tensors])
    tree = operation.once(("number", key), lambda: _tree_of_number(operation, leaves))
    if tree is _NONE:
        return None
    try:
        made = operation.with_gradient(wanted).run(leaves)
    except CalqueError:  # which is said when the derivative is asked for
        return None
    outcome.value = tree
    return made


def _tree_of_number(operation: TensorOperation, leaves: Sequence[Any]) -> Any:
    """The tree of a result that is one real number; ``_NONE`` for others."""
    try:
        tree = torch_compiled.tree_of_ranks(operation, leaves)
    except CalqueError:
        return _NONE
    found = pytrees.flatten(tree)[0]
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    real = not any(x.dtype.is_complex for x in tensors)
    one = len(found) == 1 and found[0].dims == () and found[0].dtype.kind == "f"
    return tree if one and real else _NONE


_NONE = object()


class Applied(torch.autograd.Function):
    """An operation, applied to leaves."""

    @staticmethod
    def forward(
        ctx: Any, operation: TensorOperation, outcome: HostResult | None, *leaves: Any
    ) -> Any:
        """The results, as tensors; of a number the gradients too, in the same program."""
        made = _with_gradients(operation, outcome, leaves, wanted_of(ctx.needs_input_grad[2:]))
        tensors = _computed(operation, outcome, leaves) if made is None else made[:1]
        keep(ctx, operation, leaves, tensors)
        ctx.gradients = None if made is None else made[1:]
        return tensors

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """The cotangents of the leaves."""
        if ctx.gradients is not None and not torch.is_grad_enabled():
            made = [cotangents[0] * x for x in ctx.gradients]
            wanted = wanted_of(ctx.needs_input_grad[2:])
            return None, None, *spread(made, wanted, len(ctx.numbers))
        operation, leaves, wanted = pulled_back(ctx, ctx.needs_input_grad[2:], cotangents)
        made = [conjugate(x) for x in apply(operation, None, leaves)]
        return None, None, *spread(made, wanted, len(ctx.numbers))

    @staticmethod
    def jvp(ctx: Any, _operation: Any, _outcome: Any, *tangents: Any) -> Any:
        """The tangents of the results."""
        operation, leaves = pushed_forward(ctx, tangents)
        return tuple(spread(apply(operation, None, leaves), ctx.given, ctx.count))


class Transformable(torch.autograd.Function):
    """The same in the form that ``torch.func`` transforms."""

    backward = Applied.backward
    jvp = Applied.jvp

    @staticmethod
    def forward(operation: TensorOperation, outcome: HostResult | None, *leaves: Any) -> Any:
        """The results, as tensors."""
        return _computed(operation, outcome, leaves)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep the leaves, for both modes."""
        keep(ctx, inputs[0], inputs[2:], output)
        ctx.gradients = None

    @staticmethod
    def vmap(
        _info: Any, in_dims: Any, operation: TensorOperation, outcome: Any, *leaves: Any
    ) -> Any:
        """All examples at once."""
        moved, batched = batch_of(operation, in_dims[2:], leaves)
        made = apply(batched, outcome, moved)
        return made, tuple([0] * len(made))
