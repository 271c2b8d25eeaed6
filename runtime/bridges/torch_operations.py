"""A function of arrays as an operation of PyTorch, which makes its derivatives when asked for them.

A derivative of an operation, and an operation on a batch, are operations again: so all orders and
all nestings are. Operations know leaves only, arrays and numbers in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from calque.runtime.bridges.leaf_functions import (
    Places,
    batched,
    cotangent,
    tangent,
    transformed,
    with_gradient,
)
from calque.runtime.bridges.torch_arrays import array_of, tensor_of
from calque.runtime.bridges.torch_results import Type, result_types
from calque.transpiler.ir import pytrees


class TensorOperation:
    """A function of arrays and numbers, by ``kinds``: "Tensor", "float", "int", "bool".

    ``function`` is plain NumPy, which calque reads, and leaves its arguments as they are; its
    result is a tree of arrays and numbers. ``compiled``: Numba compiles it.
    """

    def __init__(self, function: Callable[..., Any], kinds: tuple[str, ...], compiled: bool):
        self.function, self.kinds, self.compiled = function, kinds, compiled
        self.name: str = function.__name__
        self._made: dict[Any, Any] = {}
        self.call = transformed(function, compiled)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value that is kept under a key, made when it is first asked for."""
        found = self._made.get(key)
        if found is None:  # of two threads that make it, one is heard
            found = self._made.setdefault(key, make())
        return found

    def run(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The results for these leaves: tensors of memory of their own."""
        return self.run_with_tree(leaves)[0]

    def run_with_tree(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """The results, and the function's own result, of NumPy, for its structure."""
        given = [array_of(x, self) if isinstance(x, torch.Tensor) else x for x in leaves]
        result = self.call(*given)
        if type(result) is np.ndarray:
            return (tensor_of(result, given, self),), result
        found = list(result) if type(result) is tuple else [result]
        if not all(isinstance(x, (np.ndarray, np.generic)) for x in found):
            found = pytrees.flatten(result)[0]
        tensors = [tensor_of(x, [*given, *found[:k]], self) for k, x in enumerate(found)]
        return tuple(tensors), result

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """The types of the results for leaves of these types."""
        return result_types(self, types)

    def with_gradient(self, wanted: Places) -> TensorOperation:
        """The only result, a number, and its gradients by the leaves ``wanted``."""

        def make() -> TensorOperation:
            function = with_gradient(self.function, len(self.kinds), wanted, 0)
            return TensorOperation(function, self.kinds, self.compiled)

        made: TensorOperation = self.once(("with gradient", wanted), make)
        return made

    def pullback(self, wanted: Places, given: Places) -> TensorOperation:
        """Cotangents of the leaves ``wanted``, by those of the results ``given``, at the end."""
        made: TensorOperation = self.once(
            ("pullback", wanted, given), lambda: OperationPullback(self, wanted, given)
        )
        return made

    def pushforward(self, wanted: Places, given: Places) -> TensorOperation:
        """Tangents of the results ``given``, by those of the leaves ``wanted``, at the end."""
        made: TensorOperation = self.once(
            ("pushforward", wanted, given), lambda: OperationPushforward(self, wanted, given)
        )
        return made

    def batched(self, mapped: tuple[bool, ...]) -> TensorOperation:
        """The operation on examples along axis 0 of the leaves that are ``mapped``."""
        made: TensorOperation = self.once(
            ("batched", mapped), lambda: BatchedOperation(self, mapped)
        )
        return made


class OperationPullback(TensorOperation):
    """The vector-Jacobian product of an operation."""

    def __init__(self, of: TensorOperation, wanted: Places, given: Places):
        function = cotangent(of.function, len(of.kinds), wanted, given)
        super().__init__(function, (*of.kinds, *["Tensor"] * len(given)), of.compiled)
        self.wanted = wanted

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """Those of the leaves."""
        return [types[k] for k in self.wanted]


class OperationPushforward(TensorOperation):
    """The Jacobian-vector product of an operation."""

    def __init__(self, of: TensorOperation, wanted: Places, given: Places):
        function = tangent(of.function, len(of.kinds), wanted, given)
        super().__init__(function, (*of.kinds, *["Tensor"] * len(wanted)), of.compiled)
        self.of, self.given = of, given

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """Those of the results."""
        found = self.of.results(types[: len(self.of.kinds)])
        return [found[k] for k in self.given]


class BatchedOperation(TensorOperation):
    """An operation on each example of a batch."""

    def __init__(self, of: TensorOperation, mapped: tuple[bool, ...]):
        axes = tuple(0 if each else None for each in mapped)
        super().__init__(batched(of.function, len(axes), axes), of.kinds, of.compiled)
        self.of, self.mapped = of, mapped

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """Those of one example, with the size of the batch in front."""
        size = types[self.mapped.index(True)][1][0]
        pairs = zip(types, self.mapped, strict=True)
        one = tuple((dtype, dims[1:] if m else dims) for (dtype, dims), m in pairs)
        return [(dtype, (size, *dims)) for dtype, dims in self.of.results(one)]
