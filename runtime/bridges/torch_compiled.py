"""Operations as custom ops of ``torch.library``: each is one node of a graph of ``torch.compile``.

A custom op has its own kernel for derivatives, an ``InGraph``: that of ``register_autograd`` raises
under ``torch.func``.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._functorch import is_legacy_batchedtensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from calque.runtime.bridges.torch_arrays import DTYPES, TORCH_DTYPES
from calque.runtime.bridges.torch_contexts import (
    batch_of,
    conjugate,
    keep,
    pulled_back,
    pushed_forward,
    spread,
)
from calque.runtime.bridges.torch_operations import TensorOperation
from calque.runtime.bridges.torch_results import result_tree
from calque.transpiler.errors import DtypeError, UnsupportedOption
from calque.transpiler.ir import pytrees

_numbers = itertools.count()
_process = secrets.token_hex(4)  # what Inductor keeps on disk must not be found by another program
_library = torch.library.Library("calque", "FRAGMENT")


@dataclass
class GraphRecord:
    """The custom op of a call in a graph.

    ``order`` says where PyTorch's order of leaves has those of the op; ``tree`` holds, in the
    structure of the result, the places of its leaves.
    """

    op: Any
    order: tuple[int, ...]
    tree: Any


RECORDS: dict[str, GraphRecord] = {}


@torch.compiler.assume_constant_result
def record_of(wrapped: Any, tree: Any, described: tuple[Any, ...]) -> str:
    """The name of the record for arguments like these: TorchDynamo takes texts for constants.

    ``tree`` is that of ``(args, kwargs)``, with the number of each leaf in PyTorch's order in its
    place; ``described`` has the dtype, rank and sizes of 1 of each tensor, the class of a number,
    and constants.
    """
    places, structure = pytrees.flatten(tree)
    leaves = [described[k] for k in places]
    kinds = tuple([_kind(x, wrapped) for x in leaves])
    operation = wrapped.operation_of(structure, kinds, leaves)
    types = tuple([_type(x) for x, kind in zip(leaves, kinds, strict=True) if kind])
    found, results = pytrees.flatten(result_tree(operation, types))
    op = custom_op_of(operation, len(found))
    order = tuple([k for k, kind in zip(places, kinds, strict=True) if kind])
    name = f"{op} {types} {places}"
    RECORDS[name] = GraphRecord(op, order, pytrees.unflatten(results, list(range(len(found)))))
    return name


def _kind(described: Any, wrapped: Any) -> str:
    if isinstance(described, tuple):
        return "Tensor"
    if isinstance(described, type):
        return described.__name__
    if described is None or isinstance(described, str):
        return ""
    raise UnsupportedOption(
        f"{wrapped.name}: an argument is {type(described).__name__}, which torch.compile cannot "
        "put into a graph.",
        hint="pass tensors, real numbers, texts, and tuples, lists and dicts of them",
    )


def _type(described: Any) -> Any:
    """The type of a leaf, whose sizes are names."""
    if isinstance(described, tuple):
        return _with_names(*described)
    return (float, ()) if described is float else described


def _with_names(dtype: Any, sizes: Sequence[int], number: int) -> Any:
    """The type of a tensor whose sizes are names, but for those of 1."""
    dims = [1 if size == 1 else f"size_{number}_{k}" for k, size in enumerate(sizes)]
    return _numpys(dtype), tuple(dims)


def _numpys(dtype: Any) -> Any:
    if dtype not in DTYPES:
        raise DtypeError(
            f"An argument is a tensor of {dtype}, which NumPy does not have.",
            hint="pass x.float(), and convert the result",
        )
    return DTYPES[dtype]


def is_traced(leaves: Sequence[Any]) -> bool:
    """True if a graph is made of this call, or some tensor has no values, or many."""
    return torch._C._len_torch_dispatch_stack() > 0 or any(map(_is_special, leaves))


def _is_special(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (
        type(leaf).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
        or leaf.is_meta
        or is_legacy_batchedtensor(leaf)
    )


def traced(operation: TensorOperation, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
    """The results of the custom op, as tensors; and their tree."""
    tree = tree_of_ranks(operation, leaves)
    count = len(pytrees.flatten(tree)[0])
    return together(custom_op_of(operation, count)(*leaves)), tree


def tree_of_ranks(operation: TensorOperation, leaves: Sequence[Any]) -> Any:
    """The tree of the result, with a ``Spec`` for each leaf, for leaves of these ranks."""
    types = [
        _with_names(x.dtype, x.shape, number) if isinstance(x, torch.Tensor) else _type_of_leaf(x)
        for number, x in enumerate(leaves)
    ]
    return result_tree(operation, tuple(types))


def custom_op_of(operation: TensorOperation, count: int) -> Any:
    """The custom op of an operation that has ``count`` results."""
    return operation.once(("custom op", count), lambda: _custom_op(operation, count))


def _custom_op(operation: TensorOperation, count: int) -> Any:
    if not count:
        raise UnsupportedOption(
            f"{operation.name}: there is no result: torch.compile needs a tensor.",
            hint="return an array",
        )
    given = ", ".join(f"{kind} leaf_{k}" for k, kind in enumerate(operation.kinds))
    results = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    name = re.sub(r"\W", "_", operation.name).strip("_") or "function"
    name = f"{name}_{_process}_{next(_numbers)}"
    _library.define(f"{name}({given}) -> {results}", tags=(torch.Tag.pt2_compliant_tag,))
    op = getattr(torch.ops.calque, name).default
    _library.impl(name, lambda *leaves: alone(operation.run(leaves)), "CompositeExplicitAutograd")
    _library.impl(name, _differentiable(op, operation), "Autograd", with_keyset=True)
    qualified = f"calque::{name}"
    torch.library.register_fake(qualified, lambda *leaves: alone(_fakes(operation, leaves)))
    torch.library.register_vmap(qualified, _batch(operation, count))
    return op


def alone(results: Any) -> Any:
    """The results as a custom op gives them: one of them without a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def together(results: Any) -> tuple[Any, ...]:
    """The results of a custom op as a tuple."""
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def _fakes(operation: TensorOperation, leaves: tuple[Any, ...]) -> list[Any]:
    """Tensors without values, as the results are."""
    devices = [x.device for x in leaves if isinstance(x, torch.Tensor)]
    device = devices[0] if devices else "cpu"
    types = operation.results(tuple([_type_of_leaf(x) for x in leaves]))
    return [torch.empty(dims, dtype=TORCH_DTYPES[t], device=device) for t, dims in types]


def _type_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return _numpys(leaf.dtype), tuple(leaf.shape)
    if isinstance(leaf, (float, torch.SymFloat)):
        return float, ()
    return (complex, ()) if isinstance(leaf, complex) else leaf


def _differentiable(op: Any, operation: TensorOperation) -> Callable[..., Any]:
    """The function of an op that the dispatcher calls where derivatives may be asked for."""

    def differentiable(keyset: Any, *leaves: Any) -> Any:
        with enable_single_level_autograd_function():
            return alone(InGraph.apply(op, keyset, operation, *leaves))

    return differentiable


class InGraph(_SingleLevelFunction):
    """A custom op with its derivatives, at one level of ``torch.func``'s transformations."""

    @staticmethod
    def forward(ctx: Any, op: Any, keyset: Any, operation: TensorOperation, *leaves: Any) -> Any:
        """The results, by what stands below derivatives in the dispatcher."""
        with torch._C._AutoDispatchBelowAutograd():
            results = together(op.redispatch(keyset & torch._C._after_autograd_keyset, *leaves))
        keep(ctx, operation, leaves, results)
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """The cotangents of the leaves, by a custom op."""
        operation, leaves, wanted = pulled_back(ctx, ctx.needs_input_grad[3:], cotangents)
        made = together(custom_op_of(operation, len(wanted))(*leaves))
        return None, None, None, *spread([conjugate(x) for x in made], wanted, len(ctx.numbers))

    @staticmethod
    def jvp(ctx: Any, _op: Any, _keyset: Any, _operation: Any, *tangents: Any) -> Any:
        """The tangents of the results, by a custom op."""
        operation, leaves = pushed_forward(ctx, tangents)
        made = together(custom_op_of(operation, len(ctx.given))(*leaves))
        return tuple(spread(made, ctx.given, ctx.count))


def _batch(operation: TensorOperation, count: int) -> Callable[..., Any]:
    def batch(_info: Any, in_dims: Any, *leaves: Any) -> Any:
        moved, batched = batch_of(operation, in_dims, leaves)
        return custom_op_of(batched, count)(*moved), alone([0] * count)

    return batch
