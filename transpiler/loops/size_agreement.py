"""Find the pairs of sizes that an operation needs to be equal, and that may differ.

Sizes of arguments are compared at each call. A size known only at run time, as the length of
``x[:k]``, may differ, or be 1, which NumPy broadcasts: loops over elements would read past the end
where NumPy raises. Such operations are left to NumPy.
"""

from __future__ import annotations

from calque.transpiler.errors import CalqueError
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.types import DimLike, dim_symbols


def agree(s: Apply, builder: Builder) -> bool:
    """True if all sizes that an operation needs to be equal are known to be equal."""
    return doubts(s, builder) == []


def doubts(s: Apply, builder: Builder) -> list[tuple[DimLike, DimLike]] | None:
    """The pairs of sizes that an operation needs to be equal, and that may differ.

    Type inference of its result records these pairs. None if inference fails.
    """
    dims = builder.dims
    arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
    sizes = [d for a in arrays for d in a.type.dims]
    if all(dim_symbols(dims.resolve(d)) <= dims.arguments for d in sizes):
        if s.primitive.kind == "elementwise":
            return []
    before = len(builder.doubted)
    try:
        with builder.block():  # some ask for sizes
            s.primitive.infer(*map(wrap, s.args), **s.params)
    except CalqueError:
        return None
    return builder.doubted[before:]
