"""Products of matrices and vectors, written as sums of products within loops, where they are small.

Before, within a loop::

    y = np.cross(w, x)

After::

    y = np.empty(3)
    y[0] = w[1] * x[2] - w[2] * x[1]
    y[1] = w[2] * x[0] - w[0] * x[2]
    y[2] = w[0] * x[1] - w[1] * x[0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array, current, type_of
from calque.transpiler.ir.types import DimLike
from calque.transpiler.primitives import joining, products, reductions
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.base import apply, definition
from calque.transpiler.primitives.composed import composed, is_computed

_TINY = 4


def are_floating(args: Sequence[Any]) -> bool:
    """True if products of elements are floats or complex, some operands perhaps integers."""
    dtypes = [type_of(x).dtype for x in args]
    return all(d.kind in "fciub" for d in dtypes) and np.result_type(*dtypes).kind in "fc"


@composed(products.vdot)
def _conjugate_product(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    a, b = map(type_of, args)
    if a.ndim > 1 or b.ndim > 1:
        return None  # it goes through the elements, which is not a product of matrices
    return _product((np.conj(args[0]), args[1]), params, looping)


@composed(products.inner)
def _inner_product(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    a, b = args
    return _product((a, b.T) if type_of(b).ndim == 2 else (a, b), params, looping)


@composed(products.matmul)
def _stacked_product(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """A product of matrices, or of stacks of small ones, which NumPy multiplies one by one."""
    a, b = args
    ranks = type_of(a).ndim, type_of(b).ndim
    if max(ranks) < 3:
        return _product(args, params, looping)
    if ranks[0] < 2 or not are_floating(args):
        return None
    if looping:
        small = current().dims.are_small((*a.dims[-2:], b.dims[-1]))
    else:
        small = _is_tiny(a.dims[-1]) and _is_tiny(b.dims[-1] if ranks[1] > 1 else 1)
    if not small:
        return None
    vector = ranks[1] == 1
    product = a * b if vector else a[..., None] * b[..., None, :, :]
    axis = product.ndim - (1 if vector else 2)
    return apply(reductions.sum_, product, axis=(axis,), keepdims=False)


@composed(products.dot)
def _product(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    a, b = args
    ranks = type_of(a).ndim, type_of(b).ndim
    if not are_floating(args):
        return None
    if not looping and not (_is_vector(b) and ranks[0] == 2 and is_computed(a)):
        return None  # BLAS does it, but for a matrix that need not be in memory
    if ranks == (1, 1):
        return apply(reductions.sum_, a * b, axis=(0,), keepdims=False)
    return _matrix_product(a, b, ranks)


def _is_tiny(size: DimLike) -> bool:
    """True if a size is known, and so small that written-out terms beat a call of BLAS."""
    known = current().dims.resolve(size)
    return isinstance(known, int) and known <= _TINY


def _matrix_product(a: Array, b: Array, ranks: tuple[int, int]) -> Any:
    if ranks == (2, 1):
        return apply(reductions.sum_, a * b, axis=(1,), keepdims=False)
    if ranks == (1, 2):
        return apply(reductions.sum_, a[:, None] * b, axis=(0,), keepdims=False)
    if ranks != (2, 2) or not (_is_thin(a, b) or current().dims.are_small((*a.dims, b.dims[1]))):
        return None
    made = definition(b)
    if made is not None and made.primitive is transpose and b.dims[1] != 1:
        return apply(reductions.sum_, a[:, None, :] * b.T[None], axis=(2,), keepdims=False)
    return apply(reductions.sum_, a[:, :, None] * b[None], axis=(1,), keepdims=False)


def _is_vector(x: Array) -> bool:
    """A vector, or a matrix that is a column."""
    return x.type.ndim == 1 or (x.type.ndim == 2 and x.dims[1] == 1)


def _is_thin(a: Array, b: Array) -> bool:
    """A product of a matrix and a vector, or of two vectors, in the form of matrices."""
    return 1 in (a.dims[0], a.dims[1], b.dims[1])


@composed(products.cross)
def _cross_product(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """Component by component, of stacks too: NumPy takes longer for three than a kernel for all."""
    a, b = args
    if not are_floating(args) or not (looping or is_computed(a) or is_computed(b)):
        return None
    x, y = ([v[(slice(None),) * (v.ndim - 1) + (k,)] for k in range(3)] for v in (a, b))
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return apply(joining.stack, *parts, axis=type_of(parts[0]).ndim)
