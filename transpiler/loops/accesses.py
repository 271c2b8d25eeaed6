"""Indices of element reads and stores as affine expressions, and tests whether two are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, For, Slot, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, symbol
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.indexing import getitem

ElementIndex = tuple[DimLike | None, ...]


def moved(place: Any, by: int) -> Any:
    """The index ``place`` plus ``by``; a negative ``by`` is written as a subtraction."""
    return place + by if by >= 0 else place - -by


def element_index(s: Apply, builder: Builder) -> ElementIndex:
    """The index of an access along each axis; None along an axis where it is not affine."""
    first = s.primitive.first_index
    dynamic = s.args[first:]
    found: list[DimLike | None] = []
    items = full_template(s.params["index"], [wrap(d) for d in dynamic], s.args[0].type.ndim)
    for item in items:
        index: Any = dynamic[item.position] if isinstance(item, Slot) else item
        if item is None:
            continue
        if isinstance(index, Var) and index in builder.dim_values and not index.type.ndim:
            found.append(builder.dims.resolve(builder.dim_values[index]))
        else:
            found.append(index if isinstance(index, int) else None)
    return tuple(found)


def template_of(index: Sequence[Any]) -> tuple[tuple[Any, ...], list[Var]]:
    """Split an index into a template with slots and the variables that fill the slots."""
    dynamic: list[Var] = []
    items: list[Any] = []
    for item in map(atom, index):
        items.append(Slot(len(dynamic)) if isinstance(item, Var) else item)
        if isinstance(item, Var):
            dynamic.append(item)
    return tuple(items), dynamic


def steady_symbols(loop: For, builder: Builder) -> frozenset[str]:
    """The symbols of a loop's counter and of values that are the same in all iterations."""
    values = builder.dim_values
    free = [v for v in core.free_vars(loop.body) if v not in loop.phis]
    outside = [v for v in (*free, loop.index) if v in values]
    return frozenset(builder.dims.arguments).union(
        *(dim_symbols(builder.dims.resolve(values[v])) for v in outside)
    )


def is_column(s: Apply) -> bool:
    """True if ``s`` reads a vector of an array along an axis other than the last."""
    items = full_template(s.params["index"], [wrap(d) for d in s.args[1:]], s.args[0].type.ndim)
    last = items[-1]
    number = isinstance(last, int) or (
        isinstance(last, Slot) and not s.args[1 + last.position].type.ndim
    )
    return number and sum(isinstance(i, slice) for i in items) == 1


def is_element(s: Apply, builder: Builder) -> bool:
    """True if ``s`` accesses a single element at a known index that is proven in bounds."""
    if not is_access(s) or not s.proven or not isinstance(s.args[0], Var):
        return False
    if s.primitive is not getitem and isinstance(s.args[1], Var) and s.args[1].type.ndim:
        return False
    place = element_index(s, builder)
    return len(place) == s.args[0].type.ndim and None not in place


def same_index(left: ElementIndex, right: ElementIndex) -> bool:
    """True if two indices are known and equal; ``-1`` and ``n - 1`` do not count as equal."""
    return left == right and None not in left


def reads_stored(read: object, store: Apply, builder: Builder) -> TypeGuard[Apply]:
    """True if ``read`` reads the element that ``store`` overwrites, at a known index."""
    if not isinstance(read, Apply) or read.primitive is not getitem:
        return False
    there = read.args[0] is store.args[0]
    return there and same_index(element_index(read, builder), element_index(store, builder))


def apart(left: ElementIndex, right: ElementIndex, builder: Builder) -> bool:
    """True if two indices are known to differ along some axis, for all sizes."""
    return any(differ(a, b, builder) for a, b in zip(left, right, strict=True))


def differ(left: DimLike | None, right: DimLike | None, builder: Builder) -> bool:
    """True if two indices along one axis are known to differ."""
    if left is None or right is None:
        return False
    if _signs_may_differ(left, right, builder):
        return False  # i and -1 - i are one element in the middle
    gap = builder.dims.resolve(left - right)
    return positive(gap, builder) or positive(-gap, builder)


def _signs_may_differ(left: DimLike, right: DimLike, builder: Builder) -> bool:
    """True unless both indices count from the start, or both from the end."""
    from_start = all(positive(d + 1, builder) for d in (left, right))
    return not from_start and not all(positive(-d, builder) for d in (left, right))


def positive(dim: DimLike, builder: Builder) -> bool:
    """True if ``dim`` is known to be at least 1.

    Counters are replaced by the bound at which ``dim`` is least, inner counters first.
    """
    dims = builder.dims
    if dims.nonnegative(dim - 1):
        return True
    for counter in reversed(dims.ranges):
        dim = dims.resolve(dim)
        coefficient = dict(dim.terms).get(counter) if isinstance(dim, Dim) else None
        if coefficient is not None:
            bound = dims.ranges[counter][0 if coefficient > 0 else 1]
            dim = dim - coefficient * symbol(counter) + coefficient * bound
    return dims.nonnegative(dim - 1)
