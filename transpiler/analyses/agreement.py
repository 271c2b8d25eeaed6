"""Whether the sizes of an operation's operands surely agree.

Those of arguments are compared at each call. What is known only when the program runs, as the
length of ``x[:k]``, may be another size, or 1, which NumPy spreads: loops over elements would read
past the end where NumPy raises. Such operations are left to NumPy.
"""

from __future__ import annotations

from calque.transpiler.builder import Builder, wrap
from calque.transpiler.core import Apply, Var
from calque.transpiler.errors import CalqueError
from calque.transpiler.types import dim_symbols


def agree(s: Apply, builder: Builder) -> bool:
    """Whether all sizes that an operation takes to be equal are known to be.

    What it takes to be equal is told by what it asks for when its result's type is inferred.
    """
    dims = builder.dims
    arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
    sizes = [d for a in arrays for d in a.type.dims]
    if all(dim_symbols(dims.resolve(d)) <= dims.arguments for d in sizes):
        if s.primitive.kind == "elementwise":
            return True
    before = builder.doubts
    try:
        s.primitive.infer(*map(wrap, s.args), **s.params)
    except CalqueError:
        return False
    return builder.doubts == before
