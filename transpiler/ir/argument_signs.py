"""Signs of integers that depend on arguments, assumed to be those of the call at hand."""

from __future__ import annotations

from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol

_MOST_STEPS = 4  # quotients of quotients


def takes_sign(dims: Dims, dim: DimLike) -> int | None:
    """Assume the sign that ``dim`` has in the call at hand, and return it.

    The sign is -1 below zero, else 1; None where arguments do not determine it. Calls with the
    other sign get a program of their own. Where no value is known, 1 is assumed.

    >>> dims, k = Dims(integers={"k": 3, "m": None}), symbol("k")
    >>> takes_sign(dims, k - 3), takes_sign(dims, k - 4), dims.nonnegative(k - 3)
    (1, -1, True)
    """
    before = dict(dims.assumptions)
    found = _taken(dims, dims.resolve(dim), _MOST_STEPS)
    if found is None:
        dims.assumptions = before
    return found


def _taken(dims: Dims, dim: DimLike, steps: int) -> int | None:
    if dims.nonnegative(dim):
        return 1
    if isinstance(dim, int) or not steps:
        return None
    if dim_symbols(dim) <= dims.arguments | dims.integers.keys():
        known = {name: value for name, value in dims.integers.items() if value is not None}
        value = substitute_dim(dim, {**dims.actual, **known})
        negative = isinstance(value, int) and value < 0
        dims.assumptions.setdefault(-1 * dim - 1 if negative else dim)
        return -1 if negative else 1
    if dim.const < 0 or any(factor < 0 for _, factor in dim.terms):
        return None
    parts = [dims.floors[s][0] if s in dims.floors else symbol(s) for s, _ in dim.terms]
    told = parts != [dim] and all(_taken(dims, dims.resolve(p), steps - 1) == 1 for p in parts)
    return 1 if told else None
