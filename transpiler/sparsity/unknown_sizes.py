"""Arrays whose sizes depend on values: some of the elements of an array of a known size.

The elements of ``x[x > 0]`` are some of those of ``x``: which, and how many, is not known. Along
the axis that a mask chooses from, called *chosen*, a value has all the elements here, and the
number of the mask: what has the same number has its elements at the same places. Where places are
lost, as in ``x[x > 0][1:]``, an axis is *open*: all its elements have one set, and it has size 1.
Operations that treat all elements of an axis alike are followed as they are; the results of others
reach all that their operands reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from calque.transpiler.ir.core import Apply, Slot, Var
from calque.transpiler.primitives import (
    complexes,
    creation,
    einsum,
    elementwise,
    growing,
    indexing,
    products,
    selecting,
    shapes,
)
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, union
from calque.transpiler.sparsity.rules import Question, Shape, axes_of, of_all, reached

# elements of a result are made of those at the same place, as in elementwise operations
_IN_STEP = frozenset(
    (
        *(elementwise.astype, elementwise.to_float, elementwise.to_complex, elementwise.where),
        *(complexes.real, complexes.imag, complexes.conj, complexes.of_parts, indexing.copy),
    )
)
# all elements of an axis are treated alike, as in reductions
_ALIKE = frozenset(
    (
        *(indexing.getitem, indexing.update, indexing.update_add, indexing.add_at),
        *(products.matmul, products.dot, products.inner, products.vdot, products.outer),
        *(einsum.einsum, growing.room, growing.widened, creation.full, shapes.broadcast_to),
    )
)
_STORES = (indexing.update, indexing.update_add, indexing.add_at)
_TRIED = (2, 3)  # sizes of such axes, to see which axes of a result have them, too


def is_in_part(value: Any) -> bool:
    """True if a value is not known, and has an axis of unknown size."""
    return isinstance(value, ReachedInputs) and bool(value.open or value.chosen)


def opened(value: ReachedInputs) -> ReachedInputs:
    """The value with open axes for those that masks have chosen from."""
    axes = tuple(axis for axis, _ in value.chosen)
    if not axes:
        return value
    return replace(value.over(axes, keepdims=True), open=(*value.open, *axes))


# sizes


def sized(s: Apply, operands: Sequence[Any]) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """The shapes of an operation's results, 1 for axes of unknown size; and these axes.

    Sizes are those of the types, or what NumPy says for any values of the operands.
    """
    typed = tuple(tuple(d for d in v.type.dims if isinstance(d, int)) for v in s.outs)
    if all(len(sizes) == v.type.ndim for sizes, v in zip(typed, s.outs, strict=True)):
        return typed, ((),) * len(typed)
    if s.primitive in _STORES and isinstance(operands[0], ReachedInputs):
        base = opened(operands[0])
        return (base.shape,), (base.open,)
    fills = (lambda k: np.zeros, lambda k: np.ones, lambda k: _counted, _numbered)
    sizes = _TRIED if any(map(is_in_part, operands)) else _TRIED[:1]
    tried = {_shapes_with(fill, size, s, operands) for fill in fills for size in sizes}
    every, unknown = [], []
    for k, out in enumerate(s.outs):
        shape, axes = [], []
        for axis, dim in enumerate(out.type.dims):
            found = {dim} if isinstance(dim, int) else {t and t[k][axis] for t in tried}
            if len(found) != 1 or None in found:
                axes.append(axis)
            shape.append(1 if axis in axes else found.pop())
        every.append(tuple(shape))
        unknown.append(tuple(axes))
    return tuple(every), tuple(unknown)


def _shapes_with(fill: Any, size: int, s: Apply, operands: Sequence[Any]) -> Any:
    kinds = [a.type.dtype if isinstance(a, Var) else None for a in s.args]
    made = [
        fill(k)(_with_size(a, size)).astype(kind) if isinstance(a, ReachedInputs) else a
        for k, (a, kind) in enumerate(zip(operands, kinds, strict=True))
    ]
    try:
        found = s.primitive.function(*made, **s.params)
    except Exception:  # NumPy refuses these values: they say nothing of sizes
        return None
    return tuple(np.shape(f) for f in (found if isinstance(found, tuple) else (found,)))


def _with_size(value: ReachedInputs, size: int) -> Shape:
    axes = _axes_in_part(value)
    return tuple(size if axis in axes else n for axis, n in enumerate(value.shape))


def _axes_in_part(value: ReachedInputs) -> Shape:
    return (*value.open, *(axis for axis, _ in value.chosen))


def _counted(shape: Shape) -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def _numbered(k: int) -> Any:
    """The function that fills an array with the number of an operand: a slice is not empty so."""
    return lambda shape: np.full(shape, k)


def size_is_known(s: Apply, operand: Any) -> bool:
    """True if the size that an operation reads is that of axes of known size."""
    if not is_in_part(operand):
        return True
    axis = s.params.get("axis")
    chosen = range(operand.ndim) if axis is None else [axis % operand.ndim]
    return not any(k in _axes_in_part(operand) for k in chosen)


def either_in_part(a: ReachedInputs, b: ReachedInputs) -> ReachedInputs:
    """One of two values, with open axes where they differ in size or choose by two masks."""
    if a.chosen != b.chosen or a.shape != b.shape:
        a, b = opened(a), opened(b)
    pairs = enumerate(zip(a.shape, b.shape, strict=True))
    axes = tuple(k for k, (m, n) in pairs if m != n or k in (*a.open, *b.open))
    parts = [v.over(axes, keepdims=True) if axes else v for v in (a, b)]
    return replace(union(parts, parts[0].shape), open=axes, chosen=a.chosen)


# operations


def needs_parts(q: Question, unknown: Sequence[Shape]) -> bool:
    """True if an operation has axes of unknown size, or stores where a mask holds."""
    if any(unknown) or any(map(is_in_part, q.operands)):
        return True
    return q.apply.primitive in _STORES and _mask_of_index(q, 2) is not None


def reached_in_part(q: Question, unknown: Sequence[Shape]) -> tuple[ReachedInputs, ...]:
    """For each result of an operation, what its elements reach; these axes have no known size."""
    primitive = q.apply.primitive
    if primitive in (selecting.flatnonzero, selecting.nonzero):
        found = _places(q)
    elif primitive is indexing.getitem:
        found = _selected(q) or _seen(q)
    elif primitive in _STORES:
        found = _stored(q) or _stored_into_view(q)
    elif "keepdims" in q.params:
        found = _reduced(q)
    elif _is_in_step(q):
        return tuple(map(_in_step, [q] * len(q.shapes), q.shapes, unknown))
    else:
        found = None
    if found is not None:
        return (found,)
    q = replace(q, operands=[opened(a) if isinstance(a, ReachedInputs) else a for a in q.operands])
    if primitive in _ALIKE or "keepdims" in q.params or not q.unknown_floats():
        if primitive is shapes.broadcast_to:
            q = replace(q, operands=[_joined(q.reach(0), q.shapes[0], ()), *q.operands[1:]])
        try:
            results = reached(q)
        except (ValueError, IndexError):  # sizes that are not equal here, and are at run time
            results = of_all(q)
    else:
        results = of_all(q)
    return tuple(replace(f, open=axes) for f, axes in zip(results, unknown, strict=True))


def _is_in_step(q: Question) -> bool:
    primitive = q.apply.primitive
    if primitive.kind == "creation":  # zeros like an array
        return q.reach(0).ndim == len(q.shapes[0]) > 0 and is_in_part(q.operands[0])
    return primitive.kind == "elementwise" or primitive.aliases or primitive in _IN_STEP


def _in_step(q: Question, shape: Shape, unknown: Shape) -> ReachedInputs:
    """An elementwise operation: what one mask has chosen stays where it is."""
    operands = [q.reach(k) for k in range(len(q.operands))]
    chosen, sizes = list[tuple[int, int]](), list(shape)
    for axis in unknown:
        found = {_number(a, axis - len(shape)) for a in operands} - {None}
        mask = found.pop() if len(found) == 1 else None
        if mask is not None and mask >= 0:
            chosen.append((axis, mask))
            sizes[axis] = next(n for a in operands if (n := _chosen_size(a, axis - len(shape))))
    parts = [_joined(a, tuple(sizes), chosen) for a in operands]
    is_open = tuple(axis for axis in unknown if axis not in dict(chosen))
    return replace(union(parts, tuple(sizes)), open=is_open, chosen=tuple(chosen))


def _number(value: ReachedInputs, axis: int) -> int | None:
    """The mask that chose along an axis, counted from the last; None if any does, and else -1."""
    axis += value.ndim
    if axis < 0:
        return None
    mask = dict(value.chosen).get(axis)
    if mask is None and (value.is_empty or (value.shape[axis] == 1 and axis not in value.open)):
        return None
    return -1 if mask is None else mask


def _chosen_size(value: ReachedInputs, axis: int) -> int:
    """The size of an axis, counted from the last, that a mask chose from; 0 of others."""
    axis += value.ndim
    return value.shape[axis] if axis in dict(value.chosen) else 0


def _joined(value: ReachedInputs, shape: Shape, chosen: Sequence[tuple[int, int]]) -> ReachedInputs:
    """The value's sets, to be broadcast to a shape: joined along axes that others choose from."""
    first = len(shape) - value.ndim
    kept = {axis - first for axis, mask in chosen if dict(value.chosen).get(axis - first) == mask}
    axes = [
        k
        for k, n in enumerate(value.shape)
        if k not in kept and (k in dict(value.chosen) or (n != 1 and n != shape[first + k]))
    ]
    return value.over(axes, keepdims=True) if axes else value


def _places(q: Question) -> ReachedInputs | None:
    """The places where a mask holds: all of its places are those of its own elements."""
    (mask,) = q.operands
    if mask.mask is None or mask.ndim != 1 or is_in_part(mask):
        return None
    return replace(none(mask.shape, q.inputs), chosen=((0, mask.mask),), mask=mask.mask)


def _mask_of_index(q: Question, first: int) -> tuple[int, int] | None:
    """The number of the mask that an operation indexes by alone, and how many axes it is for."""
    if q.params["index"] != (Slot(0),):
        return None
    index, base = q.operands[first], q.reach(0)
    if not isinstance(index, ReachedInputs) or index.mask is None or base.open or index.open:
        return None
    is_mask = q.apply.args[first].type.dtype.kind == "b"  # else its places are those of all
    if base.chosen != (index.chosen if is_mask else ()):
        return None
    return (index.mask, index.ndim) if index.shape == base.shape[: index.ndim] else None


def _selected(q: Question) -> ReachedInputs | None:
    """The elements that a mask chooses: all of them stand at their own places."""
    by = _mask_of_index(q, 1)
    if by is None:
        return None
    mask, rank = by
    base = q.reach(0)
    shape = (prod(base.shape[:rank]), *base.shape[rank:])
    return replace(base.reshaped(shape), chosen=((0, mask),))


def _seen(q: Question) -> ReachedInputs | None:
    """A view that has whole axes of unknown size: elements stay at their places."""
    return None if len(q.operands) > 1 else _view(q)


def _view(q: Question) -> ReachedInputs | None:
    base, index = q.reach(0), q.params["index"]
    if not base.chosen or any(isinstance(i, bool) for i in index):
        return None
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    given = sum(item is not None and item is not Ellipsis for item in index)
    rest, axes = [slice(None)] * (base.ndim - given), list[int | None]()
    at = index.index(Ellipsis)
    for item in (*index[:at], *rest, *index[at + 1 :]):
        if item is None:
            axes.append(None)
            continue
        axis = sum(a is not None for a in axes)
        if item != slice(None) and axis in _axes_in_part(base):
            return None
        axes.append(-1 - axis if isinstance(item, int) else axis)
    kept = [axis for axis in axes if axis is None or axis >= 0]
    found = base.moved(lambda plane: plane[index])
    return replace(
        found,
        open=tuple(kept.index(axis) for axis in base.open),
        chosen=tuple((kept.index(axis), mask) for axis, mask in base.chosen),
    )


def _stored(q: Question) -> ReachedInputs | None:
    """An array into which a value is stored where a mask holds."""
    by = _mask_of_index(q, 2)
    if by is None:
        return None
    mask, rank = by
    base, value = q.reach(0), q.reach(1)
    shape = (prod(base.shape[:rank]), *base.shape[rank:])
    own = value.ndim == len(shape) and value.chosen == ((0, mask),)
    if not own and (value.chosen or (value.ndim == len(shape) and value.shape[0] != 1)):
        return None
    found = union([base.reshaped(shape), value.broadcast(shape)], shape)
    return replace(found.reshaped(base.shape), chosen=base.chosen)


def _reduced(q: Question) -> ReachedInputs | None:
    """A reduction over other axes than those of unknown size."""
    x, keep = q.reach(0), q.params["keepdims"]
    over = axes_of(q.params["axis"], x.ndim)
    if len(q.operands) > 1 or len(q.shapes) > 1 or any(k in over for k in _axes_in_part(x)):
        return None
    kept = [k for k in range(x.ndim) if keep or k not in over]
    shape = tuple(1 if k in over else x.shape[k] for k in kept)
    bare = replace(x, open=(), chosen=())
    (found,) = reached(replace(q, operands=[bare], shapes=(shape,)))
    chosen = tuple((kept.index(k), mask) for k, mask in x.chosen)
    return replace(found, open=tuple(map(kept.index, x.open)), chosen=chosen)


def _stored_into_view(q: Question) -> ReachedInputs | None:
    """An array with a value stored into a view that has whole axes of unknown size."""
    view = _view(q) if len(q.operands) == 2 else None
    if view is None:
        return None
    base, value = q.reach(0), q.reach(1)
    first = view.ndim - value.ndim
    there = dict(view.chosen)
    if any(there.get(first + axis) != mask for axis, mask in value.chosen):
        return None
    beside = (k for k, n in enumerate(value.shape) if n != 1 and k not in dict(value.chosen))
    if any(first + k in there for k in beside):
        return None
    operands = [replace(v, open=(), chosen=()) for v in (base, value)]
    (found,) = reached(replace(q, operands=operands, shapes=(base.shape,)))
    return replace(found, open=base.open, chosen=base.chosen)
