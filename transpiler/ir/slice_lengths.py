"""The lengths of slices whose bounds are known as dimensions."""

from __future__ import annotations

from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import DimLike, dim_symbols, make_dim


def slice_length(
    dims: Dims, size: DimLike, start: DimLike | None, stop: DimLike | None, step: int
) -> DimLike:
    """The length of ``x[start:stop:step]`` along an axis of ``size``; a symbol if unknown."""
    size = dims.resolve(size)
    if step < 0:
        if start is None and stop is None:
            return _steps(dims, size, -step)
        first = size - 1 if start is None else _position(dims, size, start)
        last = -1 if stop is None else _position(dims, size, stop)
        if first is not None and last is not None:
            if dims.assume_nonnegative(size - 1 - first, first - last, last + 1):
                return _steps(dims, first - last, -step)
        return dims.unknown(size, start, stop, step)
    first = 0 if start is None else _position(dims, size, start)
    last = size if stop is None else _position(dims, size, stop)
    if isinstance(size, int) and isinstance(first, int) and isinstance(last, int):
        return len(range(*slice(start, stop, step).indices(size)))
    if first is not None and last is not None:
        if dims.assume_nonnegative(first, size - last, last - first):
            return _steps(dims, last - first, step)
        count = _steps_without_rest(last - first, step)
        if count is not None and dims.assume_nonnegative(first, count, size - 1 - (last - step)):
            return count
        if dims.nonnegative(first) and dims.nonnegative(size - last):
            return _steps(dims, _positive_part(dims, last - first), step)
    return dims.unknown(size, start, stop, step)


def _positive_part(dims: Dims, length: DimLike) -> DimLike:
    """``max(length, 0)``: of a slice that may be outside."""
    made = dims.unknown("positive", length)
    for name in dim_symbols(made):
        dims.largest.setdefault(name, [0, length])
    return made


def _position(dims: Dims, size: DimLike, bound: DimLike) -> DimLike | None:
    """A slice bound as a position from the left, None where its sign is unknown."""
    bound = dims.resolve(bound)
    if isinstance(bound, int):
        return bound if bound >= 0 else size + bound
    if not dims.is_exact(bound):
        return None
    if dims.nonnegative(bound) or _is_positive_argument(dims, bound):
        return bound
    return None


def _is_positive_argument(dims: Dims, bound: DimLike) -> bool:
    """``n - 1`` and ``i + n - 1``, where n is an argument's size: assumed not to be negative.

    Where counters of loops take part, only if that is so in the call at hand.
    """
    if not dim_symbols(bound) <= dims.arguments and not dims.least_holds_now(bound):
        return False
    return dims.assume_nonnegative(bound)


def _steps_without_rest(length: DimLike, step: int) -> DimLike | None:
    """The number of steps in a length that is a multiple of them; None if it may have a rest."""
    if isinstance(length, int) or step == 1 or any(c % step for _, c in length.terms):
        return None
    if length.const % step:
        return None
    return make_dim(length.const // step, {s: c // step for s, c in length.terms})


def _steps(dims: Dims, length: DimLike, step: int) -> DimLike:
    if step == 1:
        return length
    if isinstance(length, int):
        return -(-length // step)
    if all(c % step == 0 for _, c in length.terms):
        return make_dim(-(-length.const // step), {s: c // step for s, c in length.terms})
    quotient = dims.unknown(length, None, None, step)
    dims.quotients[next(iter(dim_symbols(quotient)))] = (length, step)
    return quotient
