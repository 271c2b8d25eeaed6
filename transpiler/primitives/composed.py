"""Decompositions of primitives into simpler operations, before these become loops over scalars.

A rule gives the same values as the primitive, to rounding; None where it does not apply. Operations
that BLAS or LAPACK does better stay whole: only small products of matrices within loops become
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.ir.core import Slot
from calque.transpiler.primitives import (
    creation,
    diagonals,
    indexing,
    joining,
    ranges,
    reductions,
    shapes,
)
from calque.transpiler.primitives.axes import expand_dims, squeeze
from calque.transpiler.primitives.base import Primitive, apply, definition
from calque.transpiler.primitives.diagonals import trace
from calque.transpiler.primitives.elementwise import to_int
from calque.transpiler.primitives.norms import norm
from calque.transpiler.primitives.rearranging import pad
from calque.transpiler.primitives.record import rule_of
from calque.transpiler.primitives.reductions import count_reduced
from calque.transpiler.primitives.scans import diff
from calque.transpiler.primitives.special import SPECIAL
from calque.transpiler.primitives.statistics import std, var

Rule = Callable[[Sequence[Any], dict[str, Any], bool], Any]
composed = rule_of("lowering")


def _reduced(
    reduction: Primitive, x: Any, params: dict[str, Any], keep: bool | None = None
) -> Any:
    keepdims = params["keepdims"] if keep is None else keep
    return apply(reduction, x, axis=params["axis"], keepdims=keepdims)


_SPREAD = (indexing.getitem, expand_dims, shapes.reshape, shapes.broadcast_to)


def _extremum_again(extremum: Primitive) -> Rule:
    """Recompute an extremum along with a recomputed array, whose last bits may differ."""

    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        x, y = args
        made = definition(y)
        while made is not None and made.primitive in _SPREAD:
            made = definition(wrap(made.args[0]))
        sizes, first = type_of(y).dims, x.ndim - type_of(y).ndim
        gone = [a for a in range(x.ndim) if a < first or (sizes[a - first] == 1 and x.dims[a] != 1)]
        own = made is not None and made.primitive is extremum and made.args[0] is x.atom
        if not own and gone:
            y = apply(extremum, x, axis=tuple(gone), keepdims=True)
        return np.equal(x, y)

    return rule


composed(reductions.is_largest)(_extremum_again(reductions.max_))
composed(reductions.is_smallest)(_extremum_again(reductions.min_))


@composed(reductions.mean)
def _mean(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    if params.get("dtype") is not None or type_of(x).dtype.kind != "f":
        return None
    return _reduced(reductions.sum_, x, params) / count_reduced(x, params["axis"])


@composed(var)
def _variance(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    if type_of(x).dtype.kind != "f":
        return None
    count = count_reduced(x, params["axis"])
    mean = _reduced(reductions.sum_, x, params, True) / count
    away = x - mean
    ddof = params.get("ddof", 0)
    return _reduced(reductions.sum_, away * away, params) / (count - ddof if ddof else count)


@composed(std)
def _deviation(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    variance = _variance(args, params, looping)
    return None if variance is None else np.sqrt(variance)


@composed(reductions.count_nonzero)
def _count(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    ones = FUNCTIONS["cast"](args[0] != 0, np.dtype("i8"))
    return _reduced(reductions.sum_, ones, params)


@composed(trace)
def _trace(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    diagonal = apply(diagonals.diagonal, args[0], **params)
    return apply(reductions.sum_, diagonal, axis=(diagonal.ndim - 1,), keepdims=False)


@composed(SPECIAL["softmax"])
def _softmax(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    whole = {"axis": params["axis"], "keepdims": True}
    powers = np.exp(x - _reduced(reductions.max_, x, whole))
    return powers / _reduced(reductions.sum_, powers, whole)


@composed(SPECIAL["logsumexp"])
def _logsumexp(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """The logarithm of a sum of exponentials; the largest element is subtracted if finite."""
    (x,) = args
    if type_of(x).dtype.kind != "f":
        return None
    whole = {"axis": params["axis"], "keepdims": True}
    largest = _reduced(reductions.max_, x, whole)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    total = np.log(_reduced(reductions.sum_, np.exp(x - largest), params))
    if params["keepdims"]:
        return total + largest
    axes = params["axis"]
    gone = range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    return total + largest[tuple(0 if k in gone else slice(None) for k in range(x.ndim))]


@composed(SPECIAL["log_softmax"])
def _log_softmax(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    whole = {"axis": params["axis"], "keepdims": True}
    away = x - _reduced(reductions.max_, x, whole)
    return away - np.log(_reduced(reductions.sum_, np.exp(away), whole))


@composed(norm)
def _norm(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    (x,) = args
    order, axis = params.get("ord"), params["axis"]
    axes = tuple(range(x.ndim)) if axis is None else axis
    axes = tuple(axes) if isinstance(axes, tuple) else (axes,)
    how = {"axis": axes, "keepdims": bool(params["keepdims"])}
    if type_of(x).dtype.kind != "f":
        return None
    if order is None or (order == 2 and len(axes) == 1) or order == "fro":
        return np.sqrt(_reduced(reductions.sum_, x * x, how))
    if len(axes) == 1 and order == 1:
        return _reduced(reductions.sum_, np.abs(x), how)
    if len(axes) == 1 and order == np.inf:
        return _reduced(reductions.max_, np.abs(x), how)
    return None


@composed(diff)
def _diff(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if params["n"] != 1:
        return None
    before = (slice(None),) * params["axis"]
    x = args[0]
    return x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]


@composed(pad)
def _pad(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """Padding by a constant: the array within a filled one, or in loops between two."""
    x, value = args
    if params["mode"] != "constant":
        return None
    if not looping:
        sizes = [n + before + after for n, (before, after) in zip(x.shape, params["widths"])]
        whole = apply(creation.full, value, *sizes, dtype=x.dtype)
        whole[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, params["widths"]))] = x
        return Array(whole.atom)
    for axis, widths in enumerate(params["widths"]):
        parts = [x]
        for width, place in zip(widths, (0, 2), strict=True):
            sizes = [*x.shape[:axis], width, *x.shape[axis + 1 :]]
            filled = apply(creation.full, value, *sizes, dtype=x.dtype) if width else None
            parts.insert(place, filled)
        parts = [part for part in parts if part is not None]
        x = apply(joining.concatenate, *parts, axis=axis) if len(parts) > 1 else x
    return x if x is not args[0] else None


def is_computed(x: Any) -> bool:
    """True if an array is the result of an elementwise operation, or a copy."""
    made = definition(x) if type_of(x).ndim else None
    return made is not None and (
        made.primitive.kind == "elementwise" or made.primitive is indexing.copy
    )


def is_small_factorization(args: Sequence[Any]) -> bool:
    """True if inline loops beat LAPACK for this matrix, or stack of matrices: they are small."""
    types = [type_of(a) for a in args]
    if not types[0].ndim:
        return True
    stacks = [t.dims[0] for t in types if t.ndim == 3]
    if any(t.ndim > 3 or t.dtype.kind not in "fiubc" for t in types):
        return False
    one_vector = bool(stacks) and types[-1].ndim == 1
    if one_vector or (len(stacks) > 1 and not current().dims.same(*stacks)):
        return False
    return current().dims.are_small((types[0].dims[-1],) * 3)


@composed(shapes.reshape)
def _reshape(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """A reshape within loops; simpler for numbers, and where axes of size 1 come or go."""
    x = args[0]
    if not looping:
        return None
    before, after = type_of(x).dims, shapes.reshape.infer(*args, **params).dims
    if not before:
        return apply(creation.full, x, *after, dtype=type_of(x).dtype)
    same = current().dims.same
    kept, wanted = ([d for d in dims if d != 1] for dims in (before, after))
    if len(kept) != len(wanted) or not all(map(same, kept, wanted)) or len(before) == len(after):
        return apply(shapes.reshape_in_loops, *args)
    squeezed = x[tuple(0 if d == 1 else slice(None) for d in before)]
    return squeezed[tuple(None if d == 1 else slice(None) for d in after)]


@composed(shapes.flatten, shapes.flat)
def _flattened(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    return _reshape((args[0], -1), params, looping)


@composed(ranges.meshgrid)
def _meshgrid(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """Each grid is its axis, repeated along all others."""
    types = ranges.meshgrid.infer(*args, **params)
    sizes = {ranges.grid_axis(k, params["indexing"]): a.size for k, a in enumerate(args)}
    shape = [sizes[axis] for axis in range(len(args))]
    found = []
    for k, (x, t) in enumerate(zip(args, types, strict=True)):
        if type_of(x).ndim != 1:
            return None
        own = ranges.grid_axis(k, params["indexing"])
        wide = x[tuple(slice(None) if axis == own else None for axis in range(t.ndim))]
        found.append(apply(indexing.copy, apply(shapes.broadcast_to, wide, *shape)))
    return tuple(found)


@composed(squeeze)
def _number_of(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """The only element of an array, within loops."""
    (x,) = args
    alone = looping and len(params["axis"]) == x.ndim
    return x[(0,) * x.ndim] if alone else None


# masks


@composed(indexing.update)
def _masked_store(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """``x[mask] = f(y[mask])``: f of every element, kept where the mask holds."""
    x, value, *dynamic = args
    mask = _mask(x, dynamic, params)
    whole = None if mask is None else _uncompressed(value, mask, {})
    return None if whole is None else np.where(mask, FUNCTIONS["cast"](whole, x.dtype), x)


def _mask(x: Any, dynamic: Sequence[Any], params: dict[str, Any]) -> Any:
    """The mask over all of an array that an index is; None if it is another."""
    if params["index"] != (Slot(0),) or len(dynamic) != 1:
        return None
    (mask,) = dynamic
    t = type_of(mask)
    same = t.dtype.kind == "b" and t.ndim and t.ndim == type_of(x).ndim
    return mask if same else None


def _uncompressed(value: Any, mask: Any, known: dict[Any, Any]) -> Any:
    """The value computed from all of ``x``, given one computed elementwise from ``x[mask]``."""
    if not type_of(value).ndim:
        return value
    if value.atom not in known:
        known[value.atom] = _whole(value, mask, known)
    return known[value.atom]


def _whole(value: Array, mask: Any, known: dict[Any, Any]) -> Any:
    made = definition(value)
    if made is None:
        return None
    args = [wrap(a) for a in made.args]
    if made.primitive is indexing.getitem:
        own = _mask(args[0], args[1:], made.params)
        return args[0] if own is not None and _same(own, mask, 8) else None
    if made.primitive.kind != "elementwise" or made.outs[0].type.dtype.kind not in "fcb":
        return None
    whole = [_uncompressed(a, mask, known) for a in args]
    return None if any(w is None for w in whole) else apply(made.primitive, *whole, **made.params)


def _same(left: Any, right: Any, depth: int) -> bool:
    """True if two values are computed by the same operations from the same values."""
    if not isinstance(left, Array) or not isinstance(right, Array):
        return type(left) is type(right) and bool(left == right)
    if left.atom is right.atom:
        return True
    first, second = definition(left), definition(right)
    if first is None or second is None or not depth:
        return False
    return (
        first.primitive is second.primitive
        and first.params == second.params
        and len(first.args) == len(second.args)
        and all(_same(wrap(a), wrap(b), depth - 1) for a, b in zip(first.args, second.args))
    )


@composed(shapes.size, shapes.size_of_axis)
def _masked_size(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """The size of ``x[mask]``: the number of true elements of the mask."""
    made = definition(args[0]) if type_of(args[0]).ndim == 1 else None
    if made is None or made.primitive is not indexing.getitem:
        return None
    x, *dynamic = [wrap(a) for a in made.args]
    mask = _mask(x, dynamic, made.params)
    if mask is None:
        return None
    ones = FUNCTIONS["cast"](mask, np.dtype("i8"))
    return apply(to_int, apply(reductions.sum_, ones, axis=None, keepdims=False))


@composed(reductions.sum_)
def _masked_sum(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    """``np.sum(f(x[mask]))``."""
    (value,) = args
    mask = _mask_behind(value)
    if mask is None or params.get("dtype") is not None or params["keepdims"]:
        return None
    whole = _uncompressed(value, mask, {})
    if whole is None or type_of(whole).dtype.kind not in "fc":
        return None
    kept = np.where(mask, whole, type_of(whole).dtype.type(0))
    return apply(reductions.sum_, kept, axis=None, keepdims=False)


def _mask_behind(value: Any) -> Any:
    """The mask by which the elements of a value were chosen."""
    pending, seen = [value], set()
    unmasked = current().unmasked
    while pending:
        now = pending.pop()
        made = definition(now) if type_of(now).ndim == 1 else None
        if made is None or now.atom in seen or now.atom in unmasked:
            continue
        seen.add(now.atom)
        args = [wrap(a) for a in made.args]
        if made.primitive is indexing.getitem:
            mask = _mask(args[0], args[1:], made.params)
            if mask is not None:
                return mask
        elif made.primitive.kind == "elementwise":
            pending += [a for a in args if isinstance(a, Array)]
    unmasked |= seen
    return None


# parts put together, within loops or where a part is computed: it is written in its place at once


@composed(joining.concatenate)
def _concatenate(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if not looping and not any(map(is_computed, args)):
        return None
    axis = params["axis"]
    out = _empty_like_result(joining.concatenate, args, params)
    if out is None:
        return None
    start: Any = 0
    for part in args:
        stop = start + part.shape[axis]
        where = (slice(None),) * axis
        out[(*where, slice(start, stop))] = part
        start = stop
    return Array(out.atom)


def _side_by_side(axis: int, of_vectors: Primitive) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        ranks = {type_of(a).ndim for a in args}
        if ranks == {0, 1} and of_vectors is joining.concatenate:
            args = [a if type_of(a).ndim else _alone(a) for a in args]
            ranks = {1}
        if ranks == {1}:
            own = {"axis": axis if of_vectors is joining.stack else 0}
            return of_vectors.lowering(args, own, looping)  # type: ignore[misc]
        return _concatenate(args, {"axis": axis}, looping) if min(ranks) > 1 else None

    return rule


def _alone(number: Any) -> Array:
    """A number as the vector of one element that NumPy takes it for."""
    return apply(creation.full, number, 1, dtype=type_of(number).dtype)


composed(joining.hstack)(_side_by_side(1, joining.concatenate))
composed(joining.vstack)(_side_by_side(0, joining.stack))
composed(joining.column_stack)(_side_by_side(1, joining.stack))


@composed(joining.stack)
def _stack(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if not looping and not any(map(is_computed, args)):
        return None
    out = _empty_like_result(joining.stack, args, params)
    if out is None:
        return None
    for k, part in enumerate(args):
        out[(*(slice(None),) * params["axis"], k)] = part
    return Array(out.atom)


@composed(creation.stack_rows)
def _array(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    if not looping:
        return None
    out = _empty_like_result(creation.stack_rows, args, params)
    for place, part in zip(np.ndindex(*params["shape"]), args, strict=True):
        out[place] = part
    return Array(out.atom)


def _empty_like_result(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    t = primitive.infer(*args, **params)
    builder = current()
    sizes = []
    for axis, dim in enumerate(t.dims):
        dim = builder.dims.resolve(dim)
        sizes.append(dim if isinstance(dim, int) else _size(primitive, args, params, axis))
    return apply(creation.empty, *sizes, dtype=t.dtype)


def _size(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], axis: int) -> Any:
    """A size of the result, from the parts'."""
    if primitive is creation.stack_rows:
        return args[0].shape[axis - len(params["shape"])]
    if primitive is joining.stack:
        return args[0].shape[axis - (axis > params["axis"])]
    if axis != params["axis"]:
        return args[0].shape[axis]
    total: Any = 0
    for part in args:
        total = total + part.shape[axis]
    return total
