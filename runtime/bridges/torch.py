"""``wrap(f)``: a plain NumPy function as an operation of PyTorch, with all its derivatives.

Called as usual, the operation is a ``torch.autograd.Function``, which all of ``torch.func`` takes;
under ``torch.compile`` it is a ``torch.library.custom_op``, which breaks no graph. Arguments share
memory with NumPy's arrays; a result has memory of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.call.arguments import labels_of
from calque.runtime.options import checked
from calque.transpiler.errors import DtypeError, FrameworkMissing, MixedDevices
from calque.transpiler.ir import pytrees

try:
    import torch
except ModuleNotFoundError as error:
    raise FrameworkMissing(
        "calque.bridges.torch needs PyTorch, which is not installed.",
        hint='pip install "calque[torch]"',
    ) from error

from torch.utils import _pytree as torch_trees

from calque.runtime.bridges import torch_compiled
from calque.runtime.bridges.leaf_functions import (
    ArgumentTree,
    FixedArgument,
    name_of,
    of_leaves,
)
from calque.runtime.bridges.torch_arrays import why_no_array
from calque.runtime.bridges.torch_function import applied
from calque.runtime.bridges.torch_operations import TensorOperation

__all__ = ["TensorFunction", "wrap"]

NUMBERS = {float: "float", int: "int", bool: "bool", complex: "complex"}


def wrap(f: Callable[..., Any], jit: bool = True) -> TensorFunction:
    """``f``, a function of arrays of NumPy, as a function of tensors that PyTorch differentiates.

    Arguments are tensors, numbers, and trees of them (tuples, lists, dicts, dataclasses); other
    values (texts, None) are constants. Results are tensors in the tree that ``f`` returns, also
    where it returns numbers. ``f`` is translated for the dtypes and ranks of a call, and compiled
    by Numba; with ``jit=False``, and without Numba, it runs as NumPy source.

    >>> import numpy, torch
    >>> norm = wrap(lambda x: numpy.sqrt(numpy.sum(x * x)))
    >>> x = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    >>> norm(x).backward()
    >>> x.grad
    tensor([0.6000, 0.8000], dtype=torch.float64)
    """
    checked("wrap", f=f)
    return TensorFunction(f, jit)


class TensorFunction:
    """A function of tensors that computes by a plain NumPy function."""

    def __init__(self, function: Callable[..., Any], jit: bool):
        self.function, self.jit = function, jit
        self.name = name_of(function)
        self._operations: dict[Any, TensorOperation] = {}
        self._of_leaves: dict[Any, TensorOperation] = {}  # of arguments in a row, by their kinds
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._in_graph(args, kwargs)
        operation, leaves = self._operation(args, kwargs)
        try:
            tensors, tree = applied(operation, leaves)
        except (DtypeError, MixedDevices) as error:
            raise self._naming(error, args, kwargs) from None
        return tensors[0] if tree is None else pytrees.unflatten(tree, tensors)

    def custom_op(self, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...]]:
        """The custom op that serves these arguments under ``torch.compile``, and its arguments.

        They are what ``torch.library.opcheck`` takes.
        """
        operation, leaves = self._operation(args, kwargs)
        count = len(operation.run(leaves))
        return torch_compiled.custom_op_of(operation, count), tuple(leaves)

    def _operation(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation for arguments of this structure, and the leaves that it takes."""
        kinds = tuple([kind_of(x) for x in args])
        if not kwargs and all(kinds):
            found = self._of_leaves.get(kinds)
            if found is None:
                structure = pytrees.flatten((args, kwargs))[1]
                found = self.operation_of(structure, kinds, args)
                found = self._of_leaves.setdefault(kinds, found)
            return found, args
        leaves, structure = pytrees.flatten((args, kwargs))
        leaves = [_as_tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves]
        kinds = tuple(map(kind_of, leaves))
        operation = self.operation_of(structure, kinds, leaves)
        return operation, [x for x, kind in zip(leaves, kinds, strict=True) if kind]

    def operation_of(
        self, structure: Any, kinds: tuple[str, ...], leaves: Sequence[Any]
    ) -> TensorOperation:
        """The operation for a tree of arguments; those of its leaves of no kind are constants."""
        pairs = zip(leaves, kinds, strict=True)
        fixed = [None if kind else FixedArgument.of(x, self.name) for x, kind in pairs]
        arguments = ArgumentTree(structure, tuple(fixed))
        found = self._operations.get((arguments, kinds))
        if found is None:
            some = tuple(kind for kind in kinds if kind)
            copied = [kind == "Tensor" for kind in some]
            function = of_leaves(self.function, arguments, copied, self.name)
            found = TensorOperation(function, some, self.jit)
            found = self._operations.setdefault((arguments, kinds), found)
        return found

    def _in_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call as TorchDynamo reads it: one custom op, of the leaves in PyTorch's order."""
        leaves, structure = torch_trees.tree_flatten((args, kwargs))
        places = iter(range(len(leaves)))
        tree = torch_trees.tree_unflatten([next(places) for _ in leaves], structure)
        described = tuple([_described(x, k) for k, x in enumerate(leaves)])
        record = torch_compiled.RECORDS[torch_compiled.record_of(self, tree, described)]
        found = torch_compiled.together(record.op(*[leaves[k] for k in record.order]))
        return torch_trees.tree_map(lambda k: found[k], record.tree)

    def _naming(
        self, error: DtypeError | MixedDevices, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> DtypeError | MixedDevices:
        """An error about a tensor that NumPy has no array for, which says which argument it is."""
        leaves = pytrees.flatten((args, kwargs))[0]
        for leaf, label in zip(leaves, labels_of(self.function, args, kwargs), strict=True):
            found = why_no_array(leaf) if isinstance(leaf, torch.Tensor) else None
            if found is not None:
                return type(error)(f"{self.name}: {label} {found[0]}", hint=found[1])
        return error

    def __repr__(self) -> str:
        return f"<{self.name}, of tensors>"

    def __deepcopy__(self, memo: Any) -> TensorFunction:
        return self

    def __reduce__(self) -> Any:
        return wrap, (self.function, self.jit)


def kind_of(leaf: Any) -> str:
    """The word for a leaf in an operation: "Tensor", or a number's class; "" for a constant."""
    return "Tensor" if isinstance(leaf, torch.Tensor) else NUMBERS.get(type(leaf), "")


def _as_tensor(array: Any) -> Any:
    return torch.from_numpy(np.array(array))


def _described(leaf: Any, number: int) -> Any:
    """The types that a graph holds for: a tensor's dtype, rank and sizes of 1, a number's class."""
    if isinstance(leaf, torch.Tensor):
        return (leaf.dtype, tuple([1 if size == 1 else 0 for size in leaf.shape]), number)
    if isinstance(leaf, (bool, int, float)):
        return type(leaf)
    return leaf
