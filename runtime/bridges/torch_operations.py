"""A function of arrays as an operation of PyTorch, which makes its derivatives when asked for them.

A derivative of an operation, and an operation on a batch, are operations again: so all orders and
all nestings are. Operations know leaves only, arrays and numbers in a row.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from calque.runtime.api import jit, vmap
from calque.runtime.bridges.leaf_functions import (
    Places,
    pullback_of,
    pushforward_of,
    with_gradient_of,
    with_own_arrays,
)
from calque.runtime.bridges.torch_arrays import array_of, tensor_of
from calque.runtime.bridges.torch_results import Type, result_types
from calque.runtime.transformed import Transformed
from calque.transpiler.ir import pytrees


class TensorOperation:
    """A function of arrays and numbers, by ``kinds``: "Tensor", "float", "int", "bool".

    ``function`` is plain NumPy, which calque reads; its result is a tree of arrays and numbers.
    ``compiled``: Numba compiles it.
    """

    def __init__(
        self, function: Callable[..., Any], kinds: tuple[str, ...], name: str, compiled: bool
    ):
        self.function, self.kinds, self.name = function, kinds, name
        self.compiled = compiled
        self._made: dict[Any, Any] = {}
        arrays = frozenset(k for k, kind in enumerate(kinds) if kind == "Tensor")
        own = with_own_arrays(function, arrays)
        own.__name__ = name
        numba = compiled and importlib.util.find_spec("numba") is not None
        self.call: Callable[..., Any] = jit(own) if numba else Transformed("identity", own)

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
            function = with_gradient_of(self.function, len(self.kinds), wanted)
            return TensorOperation(function, self.kinds, f"{self.name}_grad", self.compiled)

        made: TensorOperation = self.once(("with gradient", wanted), make)
        return made

    def pullback(self, wanted: Places, given: Places) -> TensorOperation:
        """Cotangents of the leaves ``wanted``, by those of the results ``given``, at the end."""

        def make() -> TensorOperation:
            function = pullback_of(self.function, len(self.kinds), wanted, given)
            return OperationPullback(self, function, len(given), wanted)

        made: TensorOperation = self.once(("pullback", wanted, given), make)
        return made

    def pushforward(self, wanted: Places, given: Places) -> TensorOperation:
        """Tangents of the results ``given``, by those of the leaves ``wanted``, at the end."""

        def make() -> TensorOperation:
            function = pushforward_of(self.function, len(self.kinds), wanted, given)
            return OperationPushforward(self, function, len(wanted), given)

        made: TensorOperation = self.once(("pushforward", wanted, given), make)
        return made

    def batched(self, mapped: tuple[bool, ...]) -> TensorOperation:
        """The operation on examples along axis 0 of the leaves that are ``mapped``."""
        made: TensorOperation = self.once(
            ("batched", mapped), lambda: BatchedOperation(self, mapped)
        )
        return made


class OperationPullback(TensorOperation):
    """The vector-Jacobian product of an operation."""

    def __init__(self, of: TensorOperation, function: Any, cotangents: int, wanted: Places):
        kinds = (*of.kinds, *["Tensor"] * cotangents)
        super().__init__(function, kinds, f"{of.name}_vjp", of.compiled)
        self.wanted = wanted

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """Those of the leaves."""
        return [types[k] for k in self.wanted]


class OperationPushforward(TensorOperation):
    """The Jacobian-vector product of an operation."""

    def __init__(self, of: TensorOperation, function: Any, tangents: int, given: Places):
        kinds = (*of.kinds, *["Tensor"] * tangents)
        super().__init__(function, kinds, f"{of.name}_jvp", of.compiled)
        self.of, self.given = of, given

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """Those of the results."""
        found = self.of.results(types[: len(self.of.kinds)])
        return [found[k] for k in self.given]


class BatchedOperation(TensorOperation):
    """An operation on each example of a batch."""

    def __init__(self, of: TensorOperation, mapped: tuple[bool, ...]):
        axes = tuple(0 if each else None for each in mapped)
        function = vmap(of.function, in_axes=axes)
        super().__init__(function, of.kinds, f"{of.name}_vmap", of.compiled)
        self.of, self.mapped = of, mapped

    def results(self, types: tuple[Type, ...]) -> list[Type]:
        """Those of one example, with the size of the batch in front."""
        size = types[self.mapped.index(True)][1][0]
        pairs = zip(types, self.mapped, strict=True)
        one = tuple((dtype, dims[1:] if m else dims) for (dtype, dims), m in pairs)
        return [(dtype, (size, *dims)) for dtype, dims in self.of.results(one)]
