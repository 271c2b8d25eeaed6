"""Whether the sizes of an operation's operands surely agree.

Those of arguments are compared at each call. What is known only when the program runs, as the
length of ``x[:k]``, may be another size, or 1, which NumPy spreads: loops over elements would read
past the end where NumPy raises. Such operations are left to NumPy.
"""

from __future__ import annotations

from calque.transpiler.errors import CalqueError
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.types import DimLike, dim_symbols


def agree(s: Apply, builder: Builder) -> bool:
    """Whether all sizes that an operation takes to be equal are known to be."""
    return doubts(s, builder) == []


def doubts(s: Apply, builder: Builder) -> list[tuple[DimLike, DimLike]] | None:
    """The sizes that an operation takes to be equal, and that may not be; None if it has no type.

    What it takes to be equal is told by what it asks for when its result's type is inferred.
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
