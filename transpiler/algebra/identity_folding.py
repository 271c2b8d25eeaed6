"""Fold products with the identity matrix, whose rows are the unit vectors that a Jacobian pushes.

While the identity is only scaled, the result is a diagonal matrix, and products with it are
computed without it::

    np.eye(n) * np.cos(x)           ->    np.diag(np.cos(x))
    (np.eye(n) * np.cos(x)) @ a.T   ->    np.cos(x)[:, None] * a.T
    np.sum(np.eye(n) * x, axis=1)   ->    x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.primitives.base import definition
from calque.transpiler.primitives.products import dot, matmul
from calque.transpiler.primitives.reductions import mean, sum_

_ONE = object()  # the slope of the identity itself
_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
}


class Basis:
    """The identity matrix of one array of rank 1, and the diagonal matrices computed from it."""

    def __init__(self, identity: Array, size: Any):
        self.identity = identity.atom
        self.size = size
        self.found: dict[Any, Any] = {}  # slopes by value and block, each written once

    def diagonal(self, whole: Any) -> Any:
        """``np.diag`` of its slope if ``whole`` is a known diagonal matrix, else None."""
        slope = self.slope(whole)
        if slope is None:
            return None
        if slope is _ONE or not type_of(slope).ndim:
            identity = FUNCTIONS[np.eye](self.size, dtype=whole.dtype)
            return identity if slope is _ONE else identity * slope
        if not isinstance(slope, Array) or slope.ndim != 1 or not self._fits(slope):
            return None
        return np.diag(slope) if slope.dtype == whole.dtype else None

    def _fits(self, slope: Array) -> bool:
        return current().dims.same(slope.dims[0], current().dim_of(self.size))

    def slope(self, whole: Any) -> Any:
        """``v`` if ``whole`` is the identity times the vector or number ``v``, else None."""
        if not isinstance(whole, Array) or whole.ndim != 2:
            return None
        if whole.atom is self.identity:
            return _ONE
        made = definition(whole)
        if made is None:
            return None
        block = current().blocks[-1]
        key = whole.atom, id(block)  # the entry keeps the block alive, so that its id stays unique
        if key not in self.found:
            slope = self._slope_of(made.primitive.arithmetic, [wrap(a) for a in made.args])
            self.found[key] = block, slope
        return self.found[key][1]

    def _slope_of(self, operation: str, args: list[Any]) -> Any:
        if operation == "negative":
            inner = self.slope(args[0])
            return None if inner is None else -_number(inner)
        if operation in _COMBINE:
            slopes = [self.slope(a) for a in args]
            known = all(s is not None for s in slopes)
            return _COMBINE[operation](*map(_number, slopes)) if known else None
        if operation == "where" and type_of(args[0]).ndim < 2:
            slopes = [0.0 if _is_zero(a) else self.slope(a) for a in args[1:]]
            known = all(s is not None for s in slopes)
            return FUNCTIONS[np.where](args[0], *map(_number, slopes)) if known else None
        return self._scaled(operation, args)

    def _scaled(self, operation: str, args: list[Any]) -> Any:
        if operation not in ("multiply", "divide"):
            return None
        left, right = args
        if operation == "multiply" and type_of(left).ndim < 2:
            left, right = right, left
        inner = self.slope(left) if type_of(right).ndim < 2 else None
        if inner is None:
            return None
        if operation == "multiply":
            return right if inner is _ONE else inner * right
        return _number(inner) / right

    def fold(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The result of a product with, or a sum over, a diagonal matrix, without it; else None."""
        result = None
        if primitive in (matmul, dot):
            result = self._product(*args)
        elif primitive in (sum_, mean) and params["axis"] in ((0,), (1,)):
            result = None if params["keepdims"] else self._sum(args[0])
            if primitive is mean and result is not None:
                result = result / self.size
        if not isinstance(result, Array):
            return None
        expected = primitive.infer(*args, **params)
        same_rank = result.ndim == expected.ndim and result.dtype == expected.dtype
        same = current().dims.same
        return result if same_rank and all(map(same, result.dims, expected.dims)) else None

    def _product(self, a: Any, b: Any) -> Any:
        if max(type_of(a).ndim, type_of(b).ndim) > 2:
            return None
        left = self.slope(a)
        if left is not None and type_of(b).ndim:
            if left is _ONE:
                return b
            column = type_of(left).ndim and type_of(b).ndim == 2
            return left[:, None] * b if column else left * b
        right = self.slope(b) if type_of(a).ndim else None
        if right is None:
            return None
        return a if right is _ONE else a * right

    def _sum(self, whole: Any) -> Any:
        slope = self.slope(whole)
        if slope is None or type_of(_number(slope)).ndim:
            return slope
        return FUNCTIONS[np.full](self.size, _number(slope), whole.dtype)


def _number(slope: Any) -> Any:
    return 1.0 if slope is _ONE else slope


def _is_zero(value: Any) -> bool:
    return not isinstance(value, Array) and type_of(value).ndim == 0 and value == 0
