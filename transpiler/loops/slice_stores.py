"""Rewrite stores to slices that are not proven in bounds as whole stores to a view.

NumPy clips such a slice at the end of the array::

    x[a:b] += v    ->    part = x[a:b]; part[...] += v; x[a:b] = part
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir.builder import Array, Builder, wrap
from calque.transpiler.ir.core import Apply
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import to_int
from calque.transpiler.primitives.indexing import add_at, getitem, update
from calque.transpiler.primitives.templates import is_basic


def through_view(s: Apply, builder: Builder) -> list[Apply] | None:
    """The statements that replace a store; None if its index names single elements."""
    base, value, *dynamic = map(wrap, s.args)
    index = s.params["index"]
    if s.primitive is add_at or not is_basic(index, dynamic):
        return None
    with builder.block() as made, builder.at(s.origin):
        dynamic = [_number(d, builder) for d in dynamic]
        view = apply(getitem, base, *dynamic, index=index)
        stored = apply(s.primitive, view, value, index=(Ellipsis,))
        apply(update, base, stored, *dynamic, index=index)
    statements = [t for t in made.statements if isinstance(t, Apply)]
    statements[-1].outs = s.outs
    builder.definitions[s.out] = statements[-1]
    return statements


def _number(index: Any, builder: Builder) -> Any:
    """An index; an argument as an integer, since a 0-d array as index would give no view."""
    given = isinstance(index, Array) and index.atom in builder.leaf_of_param
    return apply(to_int, index) if given and not index.type.weak else index
