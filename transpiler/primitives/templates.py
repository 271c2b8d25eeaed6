"""Indices as templates: NumPy's rules of indexing, and the dimensions of the results.

An index is a static template, such as ``(Slot(0), slice(1, -1), None)``, whose slots stand for the
dynamic arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, IndexOutOfRange
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, current, known_int, type_of
from calque.transpiler.ir.core import Slot, Var
from calque.transpiler.ir.slice_lengths import slice_length
from calque.transpiler.ir.types import DimLike
from calque.transpiler.primitives.axes import expand_dims
from calque.transpiler.primitives.base import apply, definition, operand
from calque.transpiler.primitives.creation import arange, constant

Template = tuple[Any, ...]


def indexed(x: Any, index: Any) -> tuple[Any, Template, list[Array]]:
    """The array that an index is into, with an axis for each scalar boolean; and the template.

    A scalar boolean is a mask of an axis that the array does not have: of one element.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    flags = [k for k, item in enumerate(items) if _is_scalar_boolean(item)]
    for k in flags:
        before, behind = items[:k], items[k + 1 :]
        ellipsis = any(item is Ellipsis for item in before)
        used = sum(map(_axes_of, behind if ellipsis else before))
        rank: int = type_of(x).ndim
        x = FUNCTIONS[np.expand_dims](x, max(rank - used, 0) if ellipsis else min(used, rank))
        items[k] = _mask_of_one(items[k])
    return (x, *normalize(x, tuple(items) if flags else index))


def _mask_of_one(flag: Any) -> Any:
    if isinstance(flag, Array):
        return apply(expand_dims, flag, axis=(0,))
    return np.array([bool(flag)])


def _axes_of(item: Any) -> int:
    """The number of axes that an item of an index stands for."""
    if item is None or item is Ellipsis or _is_scalar_boolean(item):
        return 0
    if not isinstance(item, (Array, np.ndarray, list)):
        return 1
    t = type_of(operand(item))
    return t.ndim if t.dtype.kind == "b" else 1


def normalize(x: Array, index: Any) -> tuple[Template, list[Array]]:
    """An index as the user gave it, as a template and its dynamic arguments."""
    items = list(index) if isinstance(index, tuple) else [index]
    template: list[Any] = []
    dynamic: list[Array] = []

    def slot(value: Array) -> Slot:
        dynamic.append(value)
        return Slot(len(dynamic) - 1)

    def bound(value: Any) -> Any:
        if isinstance(value, Array):
            dim = current().dim_of(value)
            return dim if isinstance(dim, int) else slot(value)
        return None if value is None else int(value)

    for item in items:
        if isinstance(item, slice):
            step = None if item.step is None else known_int(item.step, "The step of a slice")
            template.append(slice(bound(item.start), bound(item.stop), None if step == 1 else step))
        elif item is None or item is Ellipsis:
            template.append(item)
        elif isinstance(item, (int, np.integer)):
            template.append(int(item))
        else:
            value = operand(_no_empty_list(item))
            if not isinstance(value, Array):
                hint = "write int(...)" if isinstance(value, (float, np.floating)) else None
                raise DtypeError(f"{value!r} is not an index.", current().origin, hint)
            if value.dtype.kind not in "iub":
                raise DtypeError(
                    f"An index of dtype {value.dtype} is not an integer.", current().origin
                )
            dim = current().dim_of(value) if not value.ndim and value.dtype.kind in "iu" else None
            template.append(dim if isinstance(dim, int) else slot(value))
    if sum(t is Ellipsis for t in template) > 1:
        raise IndexOutOfRange(
            "an index can only have a single ellipsis ('...')", current().origin
        )
    if len(template) > 1 and template[-1] is Ellipsis and _leaves_axes(x, template, dynamic):
        template.pop()
    return tuple(template), dynamic


def _leaves_axes(x: Any, template: Sequence[Any], dynamic: Sequence[Any]) -> bool:
    """True if an index gives an array without its ``...``; else ``...`` makes one of a number."""
    used = sum(_consumed(t, dynamic) for t in template)
    return used < type_of(x).ndim or not all(
        isinstance(t, int) or t is Ellipsis or _is_number(t, dynamic) for t in template
    )


def _is_number(item: Any, dynamic: Sequence[Any]) -> bool:
    """True if an item of an index is an integer that is known only at run time."""
    return isinstance(item, Slot) and not type_of(dynamic[item.position]).ndim


def _is_scalar_boolean(item: Any) -> bool:
    if isinstance(item, (Array, np.ndarray)):
        return item.dtype.kind == "b" and not item.ndim
    return isinstance(item, (bool, np.bool_))


def _no_empty_list(item: Any) -> Any:
    return np.zeros(0, int) if isinstance(item, list) and not item else item


def is_basic(template: Template, dynamic: Sequence[Any]) -> bool:
    """True if an index is made of integers, slices, None and ``...`` only."""
    return all(not isinstance(t, Slot) or type_of(dynamic[t.position]).ndim == 0 for t in template)


def is_unique(template: Template, dynamic: Sequence[Any]) -> bool:
    """True if an advanced index is known to name no element twice.

    Of several arrays, one that names each place once is enough where all are of its size.
    """
    slots = [dynamic[t.position] for t in template if isinstance(t, Slot)]
    arrays = [s for s in slots if type_of(s).ndim]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        return True
    return any(_all_different(a) and all(_is_as_long(b, a) for b in arrays) for a in arrays)


def _is_as_long(one: Array, other: Array) -> bool:
    integers = one.dtype.kind != "b" and one.ndim == other.ndim == 1
    return integers and current().dims.same(one.dims[0], other.dims[0])


def _all_different(array: Array) -> bool:
    made = definition(array)
    if made is None:
        return False
    if made.primitive.distinct:
        return array.ndim == 1  # each row of a matrix names all places again
    if made.primitive is arange:  # -1 and the last place are one
        start, _, step = made.args
        upward = not isinstance(step, Var) and step > 0
        return upward and current().dims.nonnegative(current().dim_of(start))
    if made.primitive is constant:
        values = np.array(made.params["value"])
        return len(np.unique(values)) == values.size and bool((values >= 0).all())
    return False


def _consumed(item: Any, dynamic: Sequence[Any]) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Slot):
        t = type_of(dynamic[item.position])
        return t.ndim if t.dtype.kind == "b" else 1
    return 1


def indexed_dims(
    dims: Sequence[DimLike], template: Template, dynamic: Sequence[Any]
) -> list[DimLike]:
    """The dimensions of ``x[index]``."""
    used = sum(_consumed(t, dynamic) for t in template)
    if used > len(dims):
        raise IndexOutOfRange(
            f"too many indices: the array has {len(dims)} dimensions, {used} were indexed"
        )
    items = list(template)
    if Ellipsis not in [t for t in items if t is Ellipsis]:
        items.append(Ellipsis)
    where = next(i for i, t in enumerate(items) if t is Ellipsis)
    # an ellipsis separates index arrays even where it stands for no axis
    items[where : where + 1] = [Ellipsis] + [slice(None)] * (len(dims) - used)
    advanced = not is_basic(template, dynamic)
    result: list[DimLike] = []
    gathered: list[Sequence[DimLike]] = []
    positions: list[int] = []
    axis = 0
    for place, item in enumerate(items):
        if item is Ellipsis:
            continue
        if item is None:
            result.append(1)
        elif isinstance(item, slice):
            result.append(_slice_dim(dims[axis], item, dynamic))
            axis += 1
        elif isinstance(item, Slot) and type_of(dynamic[item.position]).dtype.kind == "b":
            mask = type_of(dynamic[item.position])
            for offset, dim in enumerate(mask.dims):
                current().unify(dim, dims[axis + offset])
            gathered.append((count_dim(dynamic[item.position]),))
            positions.append(place)
            axis += mask.ndim
            if len(positions) == 1:
                start = len(result)
        else:
            if isinstance(item, int):
                _check_known_index(item, dims[axis])
            if advanced:
                shape = type_of(dynamic[item.position]).dims if isinstance(item, Slot) else ()
                gathered.append(shape)
                positions.append(place)
                if len(positions) == 1:
                    start = len(result)
            axis += 1
    if positions:
        adjacent = positions == list(range(positions[0], positions[0] + len(positions)))
        at = start if adjacent else 0
        result[at:at] = current().broadcast(gathered)
    return result


def count_dim(mask: Any) -> DimLike:
    """The number of true elements of a mask, as a dimension."""
    made = definition(mask)
    if made is not None and "value" in made.params:
        return int(np.count_nonzero(made.params["value"]))
    if made is not None and made.primitive is expand_dims and not type_of(mask).dims[1:]:
        return current().dims.unknown("mask", ("flag", current().value_key(made.args[0])))
    return current().dims.unknown("mask", current().value_key(atom(mask)))


def _check_known_index(index: int, dim: DimLike) -> None:
    if isinstance(dim, int) and not -dim <= index < dim:
        raise IndexOutOfRange(f"index {index} is out of bounds for axis with size {dim}")


def _slice_dim(dim: DimLike, item: slice, dynamic: Sequence[Any]) -> DimLike:
    if item.start is None and item.stop is None and item.step in (None, 1):
        return dim

    def bound(value: Any) -> Any:
        return current().dim_of(dynamic[value.position]) if isinstance(value, Slot) else value

    ends = bound(item.start), bound(item.stop)
    return slice_length(current().dims, dim, *ends, item.step or 1)


def concrete_index(template: Template, dynamic: Sequence[Any]) -> tuple[Any, ...]:
    """The index with its slots filled."""

    def fill(item: Any) -> Any:
        if isinstance(item, Slot):
            return dynamic[item.position]
        if isinstance(item, slice):
            return slice(fill(item.start), fill(item.stop), item.step)
        return item

    return tuple(fill(t) for t in template)


def index_text(template: Template, first: int) -> str:
    """The index as text; dynamic argument k is written ``{first + k}``."""

    def part(item: Any) -> str:
        if isinstance(item, Slot):
            return f"{{{first + item.position}}}"
        if isinstance(item, slice):
            start = "" if item.start is None else part(item.start)
            stop = "" if item.stop is None else part(item.stop)
            return f"{start}:{stop}" + (f":{item.step}" if item.step is not None else "")
        return "..." if item is Ellipsis else repr(item)

    return ", ".join(map(part, template)) or "()"


def shifted(item: Any, by: int) -> Any:
    """An item of a template whose slots stand ``by`` arguments later."""
    if isinstance(item, Slot):
        return Slot(item.position + by)
    if isinstance(item, slice):
        return slice(shifted(item.start, by), shifted(item.stop, by), item.step)
    return item
