"""Signatures of linear algebra, ``"(n,n),(n,k?)->(n,k?)"``: types and batch rules follow from them.

The notation is that of NumPy's generalized ufuncs. Each pair of parentheses names the last sizes of
an operand or of a result; any sizes before them are a stack, and stacks broadcast. A vector lacks
the dimension with a question mark, and so do the results. ``min(m,n)`` is the smaller of two sizes;
a size that no operand has is known at run time only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import current, type_of
from calque.transpiler.ir.types import ArrayType, DimLike, promote

Names = tuple[str, ...]


def parsed(signature: str) -> tuple[tuple[Names, ...], tuple[Names, ...]]:
    """The names of the sizes of each operand, and of each result.

    >>> parsed("(m,n),(k?)->(min(m,n))")
    ((('m', 'n'), ('k?',)), (('min(m,n)',),))
    """
    operands, results = (
        tuple(tuple(re.findall(r"min\(\w,\w\)|\w\??", part)) for part in side.split("),("))
        for side in signature.split("->")
    )
    return operands, results


@functools.cache
def present(signature: str, ranks: tuple[int, ...]) -> list[list[Names]]:
    """The names of the sizes that operands of these ranks have, and those of their results."""
    sides = parsed(signature)
    vectors = [names for names, rank in zip(sides[0], ranks, strict=True) if rank < len(names)]
    lacked = {n for names in vectors for n in names if n.endswith("?")}
    return [[tuple(n for n in t if n not in lacked) for t in side] for side in sides]


def linalg_dtype(*types: Any) -> np.dtype:
    """float32 and complex64 stay; integers become float64."""
    dtype = promote(list(types))[0]
    return dtype if dtype.kind in "fc" else np.dtype("f8")


def typed(signature: str, dtypes: Callable[..., Any] = linalg_dtype) -> Callable[..., Any]:
    """Type inference by a signature; ``dtypes`` gives the dtype of all results, or of each."""

    def infer(*args: Any, **params: Any) -> Any:
        types = [type_of(a) for a in args]
        operands, results = present(signature, tuple(t.ndim for t in types))
        sizes: dict[str, DimLike] = {}
        stacks = []
        for names, t in zip(operands, types, strict=True):
            if t.ndim < len(names):
                message = f"{t.ndim}-dimensional array given, at least {len(names)} wanted"
                raise ShapeError(message, current().origin)
            stacks.append(t.dims[: t.ndim - len(names)])
            for name, dim in zip(names, t.dims[len(stacks[-1]) :], strict=True):
                if sizes.setdefault(name, dim) != dim:
                    current().unify(sizes[name], dim)
        stack = current().broadcast(stacks) if any(stacks) else ()

        def size(name: str) -> DimLike:
            if not name.startswith("min("):
                return sizes[name] if name in sizes else current().dims.fresh()
            rows, columns = sizes[name[4]], sizes[name[6]]
            more = current().dims.resolve(rows - columns)
            if isinstance(more, int):
                return columns if more >= 0 else rows
            return current().dims.unknown("min", rows, columns)

        kinds = dtypes(*types)
        kinds = kinds if isinstance(kinds, tuple) else (kinds,) * len(results)
        found = tuple(
            ArrayType(kind, (*stack, *map(size, names)))
            for names, kind in zip(results, kinds, strict=True)
        )
        return found[0] if len(found) == 1 else found

    return infer
