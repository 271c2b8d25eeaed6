"""Shapes and dtypes of cotangents: undo broadcasting, for every derivative rule.

A cotangent may have fewer dimensions than its primal: a constant that is broadcast stays a scalar
until something needs the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import ArrayType, DimLike
from calque.transpiler.primitives.base import as_array, run_time_choice


def same_dims(left: Sequence[DimLike], right: Sequence[DimLike]) -> bool:
    """True if two shapes are known to be equal."""
    same = current().dims.same
    return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))


def sum_to(
    cotangent: Any,
    spread: Sequence[DimLike],
    wanted: Sequence[DimLike],
    like: Any,
    operand: Any,
    spreads: bool = True,
) -> Any:
    """The cotangent of an operand of shape ``wanted`` that was broadcast to the shape ``spread``.

    ``cotangent`` has the shape ``spread``, or one that broadcasts to it; the result has the shape
    ``wanted``, or one that broadcasts to it. ``like`` has the shape ``spread`` and ``operand`` the
    shape ``wanted``, for sizes. Unless the operation ``spreads`` all operands, sizes that
    differ are equal but where one is known to be spread over the other.
    """
    found = _sum_of_ones(cotangent, spread, wanted, like)
    dims, lead = current().dims, len(spread) - len(wanted)
    for axis, size in enumerate(wanted):
        whole = spread[axis + lead]
        if may_be_spread(size, whole) and (spreads or dims.is_spread_over(size, whole)):
            found = _sum_if_one(found, axis - len(wanted), (size, whole), like, operand)
    return found


def may_be_spread(size: DimLike, whole: DimLike) -> bool:
    """True if only at run time it is known whether an axis of ``size`` broadcasts to ``whole``."""
    dims = current().dims
    if dims.same(size, whole) or dims.is_spread_over(whole, size):
        return False
    return dims.resolve(size) != 1 and not dims.assume_never_one(size)


def _sum_if_one(
    cotangent: Any, axis: int, sizes: tuple[DimLike, DimLike], like: Any, operand: Any
) -> Any:
    """The sum along an axis, counted from the last, if the operand has one element there.

    ``sizes`` are the operand's and that of what it was broadcast to.
    """
    builder, (size, whole) = current(), sizes
    dims, have = builder.dims, type_of(cotangent)
    here = have.ndim + axis

    def own() -> Any:
        return builder.size_of(size, operand, operand.ndim + axis)

    def all_of_it() -> Any:
        return builder.size_of(whole, like, like.ndim + axis)

    if here < 0 or dims.resolve(have.dims[here]) == 1:
        alone = as_array(cotangent)
        return run_time_choice(own() == 1, lambda: alone * all_of_it(), lambda: alone, have)

    def along(value: Any, count: Any) -> Any:
        sizes = [*value.shape[:here], count, *value.shape[here + 1 :]]
        return FUNCTIONS[np.broadcast_to](value, tuple(sizes))

    part = have.dims[here]
    if not dims.same(part, whole) and not dims.is_broadcast(whole, part, size):
        cotangent, part = along(cotangent, all_of_it()), whole

    def summed() -> Any:
        return FUNCTIONS[np.sum](cotangent, here, keepdims=True)

    exact = dims.same(part, whole)
    made = size if exact else dims.fresh()
    found = have.with_dims((*have.dims[:here], made, *have.dims[here + 1 :]))
    total = run_time_choice(own() == 1, summed, lambda: cotangent, found)
    return total if exact else along(total, own())


def _sum_of_ones(
    cotangent: Any, spread: Sequence[DimLike], wanted: Sequence[DimLike], like: Any
) -> Any:
    """The sum along the axes of ``wanted`` that are missing or are known to have one element."""
    dims = current().dims
    have = type_of(cotangent).dims
    lead = len(spread) - len(wanted)
    summed: list[int] = []
    dropped = 0
    factor: Any = None
    for axis, size in enumerate(spread):
        target = wanted[axis - lead] if axis >= lead else None
        if target is not None and (dims.same(target, size) or dims.resolve(target) != 1):
            continue
        place = axis - (len(spread) - len(have))
        if place >= 0 and dims.resolve(have[place]) != 1:
            summed.append(place)
        elif dims.resolve(size) != 1:
            count = current().size_of(size, like, axis)
            factor = count if factor is None else factor * count
        if target is None and place >= 0:
            dropped += 1
    if summed:
        if len(have) == len(summed):
            cotangent = FUNCTIONS[np.sum](cotangent)
            have = ()
        elif dropped == len(summed) and all(p < dropped for p in summed):
            cotangent = FUNCTIONS[np.sum](
                cotangent, tuple(summed) if len(summed) > 1 else summed[0]
            )
            dropped = 0
        else:
            cotangent = FUNCTIONS[np.sum](cotangent, tuple(summed), keepdims=True)
    rank = type_of(cotangent).ndim
    if rank > len(wanted):
        cotangent = cotangent.reshape(cotangent.shape[rank - len(wanted) :])
    return cotangent if factor is None else cotangent * factor


def match_dtype(cotangent: Any, wanted: ArrayType) -> Any:
    """The cotangent in its operand's dtype; the real part where that is real."""
    have = type_of(cotangent)
    if have.dtype.kind in "biu" and isinstance(cotangent, Array):
        scalar = wanted.weak and not have.ndim
        return FUNCTIONS[float](cotangent) if scalar else FUNCTIONS["cast"](cotangent, wanted.dtype)
    if have.dtype == wanted.dtype or (
        have.weak and not wanted.dtype.kind == "c" and have.dtype.kind != "c"
    ):
        return cotangent
    if have.dtype.kind == "c" and wanted.dtype.kind != "c":
        cotangent = FUNCTIONS[np.real](cotangent)
        have = type_of(cotangent)
    if have.dtype == wanted.dtype or not isinstance(cotangent, Array):
        return cotangent
    return FUNCTIONS["cast"](cotangent, wanted.dtype)


def materialize(cotangent: Any, wanted: ArrayType, like: Any) -> Array:
    """The cotangent as an array of the wanted shape; ``like`` is an array of that shape."""
    have = type_of(cotangent)
    if isinstance(cotangent, Array) and same_dims(have.dims, wanted.dims):
        return cotangent
    resolve = current().dims.resolve
    pairs = zip(have.dims, wanted.dims, strict=False)
    if (
        have.ndim == wanted.ndim
        and have.ndim
        and all(resolve(h) != 1 or resolve(w) == 1 for h, w in pairs)
    ):
        pairs = zip(have.dims, wanted.dims, strict=True)
        some = any(_is_spread_over(resolve(h), resolve(w)) for h, w in pairs)
        if not some:
            return cotangent  # a size that is not known to be equal
    if not wanted.dims:
        return cotangent
    if have.ndim == 0:
        if not isinstance(cotangent, Array) and cotangent == 0:
            return FUNCTIONS[np.zeros_like](like, dtype=wanted.dtype)
        return FUNCTIONS[np.full_like](like, cotangent, dtype=wanted.dtype)
    return FUNCTIONS[np.broadcast_to](cotangent, like.shape)


def _is_spread_over(size: DimLike, whole: DimLike) -> bool:
    """True if an operation may have broadcast an axis of ``size`` to ``whole``."""
    builder = current()
    return frozenset((size, whole)) in builder.spread or builder.dims.is_spread_over(size, whole)


def or_zero(value: Any) -> Any:
    """A missing adjoint as the number zero."""
    return 0.0 if value is None else value


def carried_number(value: Any, t: ArrayType) -> Any:
    """An adjoint that an arm or an iteration returns: a constant gets the dtype of the result.

    >>> [carried_number(2, ArrayType(np.dtype(char), ())) for char in "fd"]
    [np.float32(2.0), 2.0]
    """
    if isinstance(value, (Array, Var)) or t.dtype.kind not in "fc":
        return value
    typed = t.dtype.type(value)  # the product of integer constants is an int
    return typed.item() if t.weak or t.dtype.char in "dD" else typed


def is_zero(value: Any) -> bool:
    """True if an adjoint is the number zero."""
    return not isinstance(value, Array) and value == 0


def same_adjoint(value: Any, old: Any) -> bool:
    """True if an adjoint was not changed."""
    if isinstance(value, Array) and isinstance(old, Array):
        return value.atom is old.atom
    return value is old or (
        not isinstance(value, Array) and not isinstance(old, Array) and value == old
    )
