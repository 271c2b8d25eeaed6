"""``np.einsum`` and ``np.tensordot`` as simpler operations, before they become loops over scalars.

A sum over products of two large arrays is a product of matrices, which BLAS does five to nine
times faster than ``np.einsum``; one of small arrays within a loop is loops of its own.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import current, type_of
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.composed import composed
from calque.transpiler.primitives.composed_products import are_floating
from calque.transpiler.primitives.einsum import einsum
from calque.transpiler.primitives.products import matmul, tensordot
from calque.transpiler.primitives.reductions import sum_


def _matrix_product(args: Sequence[Any], terms: Sequence[str], output: str) -> Any:
    """``einsum("kij,nkj->nki", a, b)`` as ``matmul(a, b.transpose(1, 2, 0)).transpose(2, 0, 1)``.

    Of two operands with at most one axis each of its own, one they sum over, and any number that
    both share with the result; None if it is another, or the matrices are small.
    """
    (a, b), (first, other) = args, terms
    summed = [d for d in first if d in other and d not in output]
    rows = [d for d in first if d not in other]
    columns = [d for d in other if d not in first]
    if len(summed) != 1 or len(rows) > 1 or len(columns) > 1 or not rows + columns:
        return None
    if not set(rows + columns) <= set(output):
        return None
    sizes = dict(zip(first, a.dims, strict=True))
    others = dict(zip(other, b.dims, strict=True))
    if not all(current().dims.same(sizes[d], others[d]) for d in sizes.keys() & others.keys()):
        return None  # one of them is spread
    sizes |= others
    if current().dims.are_small(tuple(sizes[d] for d in (*rows, *summed, *columns))):
        return None
    stacked = [d for d in output if d in first and d in other]
    left = _turned(a, first, [*stacked, *rows, *summed])
    right = _turned(b, other, [*stacked, *summed, *columns])
    if stacked and not rows:
        left = left[..., None, :]
    if stacked and not columns:
        right = right[..., None]
    product = apply(matmul, left, right)
    if stacked and not rows:
        product = product[..., 0, :]
    if stacked and not columns:
        product = product[..., 0]
    return _turned(product, [*stacked, *rows, *columns], output)


def _turned(x: Any, labels: Sequence[str], wanted: Sequence[str]) -> Any:
    """An array with its axes in another order."""
    order = tuple(labels.index(d) for d in wanted)
    return x if order == tuple(range(len(order))) else np.transpose(x, order)


@composed(einsum)
def _einsum(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """Products of matrices; within loops, sums of products of small arrays."""
    inputs, _, output = params["subscripts"].replace(" ", "").partition("->")
    terms = inputs.split(",")
    letters = "".join(dict.fromkeys(output + inputs.replace(",", "")))
    plain = "->" in params["subscripts"] and letters.isalpha()
    if not plain or any(len(set(t)) < len(t) for t in (*terms, output)):
        return None
    if not are_floating(args):
        return None
    if len(args) == 2 and "optimize" not in params:
        product = _matrix_product(args, terms, output)
        if product is not None:
            return product
    whole = any(len(t) == len(letters) for t in (*terms, output))  # a product for each element
    if not looping and not (whole and len(args) == 2):
        return None
    dims = {d: n for t, x in zip(terms, args, strict=True) for d, n in zip(t, type_of(x).dims)}
    if looping and len(letters) > 1 and not current().dims.are_small(tuple(dims.values())):
        return None
    spread = [_spread(x, t, letters) for x, t in zip(args, terms, strict=True)]
    product = math.prod(spread[1:], start=spread[0])
    summed = tuple(range(len(output), len(letters)))
    if not summed:
        return product if len(args) > 1 else None
    return apply(sum_, product, axis=summed, keepdims=False)


def _spread(x: Any, term: str, letters: str) -> Any:
    """An array with an axis for each letter, in order; of size 1 where it has none."""
    order = tuple(sorted(range(len(term)), key=lambda k: letters.index(term[k])))
    turned = x if order == tuple(range(len(term))) else np.transpose(x, order)
    return turned[tuple(slice(None) if d in term else None for d in letters)]


@composed(tensordot)
def _tensordot(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    a, b = args
    left, right = params["axes"]
    first = string.ascii_lowercase[: type_of(a).ndim]
    other = list(string.ascii_uppercase[: type_of(b).ndim])
    for i, j in zip(left, right, strict=True):
        other[j] = first[i]
    output = "".join(d for d in (*first, *other) if (d in first) != (d in other))
    return _einsum(args, {"subscripts": f"{first},{''.join(other)}->{output}"}, looping)
