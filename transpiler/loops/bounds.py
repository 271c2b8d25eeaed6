"""Prove that reads and stores are within the bounds of their array, for all argument sizes.

Indices are affine in loop counters, whose ranges are known; the tests of branches and loops add
facts. The kernel checks the accesses that cannot be proven when it runs.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Slot, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.path_conditions import facts_of_iterations, statements_given
from calque.transpiler.primitives.element_forms import full_template


def mark_in_bounds(block: Block, builder: Builder) -> None:
    """Mark every access that is proven to be in bounds, in place."""
    with builder.active():
        for s in statements_given(block, builder):
            if is_access(s):
                s.proven = s.proven or is_inside(s, builder)


def is_inside(s: Apply, builder: Builder) -> bool:
    """True if an access is in bounds, if need be under an assumption on argument sizes.

    A call whose sizes do not meet the assumption gets a program of its own.
    """
    known = dict(builder.dims.assumptions)
    if _all_inside(s, builder, False) or _all_inside(s, builder, True):
        return True
    builder.dims.assumptions = known
    return False


def is_inside_everywhere(s: Apply, builder: Builder) -> bool:
    """True if an access is in bounds without any new assumption."""
    return _all_inside(s, builder, False)


def is_inside_without_iterations(s: Apply, loop: For, builder: Builder) -> bool:
    """True if an access that is proven in bounds in a loop is so for zero iterations too."""
    return not facts_of_iterations(loop, builder) or _all_inside(s, builder, False)


def _all_inside(s: Apply, builder: Builder, assume: bool) -> bool:
    base = s.args[0]
    first = s.primitive.first_index
    dynamic = s.args[first:]
    if not isinstance(base, Var) or any(isinstance(d, Var) and d.type.ndim for d in dynamic):
        return False
    items = full_template(s.params["index"], [wrap(d) for d in dynamic], base.type.ndim)
    axis = 0
    for item in items:
        if item is None:
            continue
        if not isinstance(item, slice):
            index = dynamic[item.position] if isinstance(item, Slot) else item
            if not in_range(index, base.type.dims[axis], builder, assume):
                return False
        axis += 1
    return True


def in_range(index: Any, dim: Any, builder: Builder, assume: bool) -> bool:
    """True if one integer is known to be in range; ``assume`` may add assumptions on sizes."""
    if isinstance(index, Var) and (index.type.ndim or index.type.dtype.kind not in "iu"):
        return False
    if isinstance(index, Var):
        place = builder.dim_of(wrap(index))
        if not (builder.dims.is_exact(place) and builder.dims.is_exact(dim)):
            return False
        wanted = [place, dim - 1 - place]
    else:
        wanted = [dim - 1 - index] if index >= 0 else [dim + index]
    if assume:
        return builder.dims.assume_nonnegative(*wanted)
    return all(map(builder.dims.nonnegative, wanted))
