"""Which roots can share a loop: each reads of the others what the same round wrote, or nothing."""

from __future__ import annotations

from collections.abc import Container, Sequence

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.loops.accesses import differ, positive
from calque.transpiler.loops.fusion_groups import Root

Place = Sequence[DimLike]


def in_step(
    first: Root, second: Root, depth: int, alone: Container[Var], builder: Builder
) -> bool:
    """Whether ``second`` reads of ``first`` only what the same round of a loop wrote.

    ``depth`` is the loop's, ``alone`` the arrays that are read once.
    """
    if first.out in second.scalars:
        return False
    base = second.statement.args[0] if second.kind == "store" else None
    if base is first.out:
        return first.out in alone and _next_in_row(first, second, depth)
    if not first.symbols[depth]:
        return depth not in first.reduced or all(v is not first.out for v, _ in second.loads)
    for var, read in second.loads:
        if var is first.out:
            if first.scattered or not _same_round(first, depth, read, second):
                return False
        elif first.kind == "store" and var is first.statement.args[0]:
            if not (_same_round(first, depth, read, second) or elsewhere(read, first, builder)):
                return False
    back = _renamed(first, second)
    return base is None or all(
        tuple(substitute_dim(d, back) for d in read) == second.written
        or elsewhere(read, second, builder)
        for var, read in first.loads
        if var is base
    )


def _next_in_row(first: Root, second: Root, depth: int) -> bool:
    """Whether a store can follow the one before it within each round of an outer loop."""
    inner = min(len(first.space), len(second.space)) - 1
    if depth >= inner or not first.symbols[depth]:
        return False
    return _same_round(first, depth, second.written, second)


def _same_round(first: Root, depth: int, place: Place, second: Root) -> bool:
    """Whether a place of ``second`` is one that only the same round of ``first`` writes."""
    mine, names = first.symbols[depth], _renamed(second, first)
    spots = [k for k, d in enumerate(first.written) if mine in dim_symbols(d)]
    return bool(spots) and all(
        first.written[k] == substitute_dim(place[k], names) for k in spots
    )


def _renamed(root: Root, other: Root) -> dict[str, DimLike]:
    """The counters of one root by those of another in the same loops."""
    return dict(zip(root.symbols, map(symbol, other.symbols), strict=False))


def same_element(first: Root, second: Root) -> bool:
    """Whether ``second`` reads of ``first`` only the element that the round writes."""
    names = _renamed(second, first)
    reads = [read for var, read in second.loads if var is first.out]
    places = [tuple(substitute_dim(d, names) for d in read) for read in reads]
    return all(place == tuple(first.written) for place in places)


def elsewhere(read: Place, root: Root, builder: Builder) -> bool:
    """Whether no round of a store writes what any round reads there: another row, say."""
    dims, values = builder.dims, builder.dim_values
    steady = set(dims.arguments).union(
        *(dim_symbols(dims.resolve(values[v])) for v in root.scalars if v in values)
    )
    return any(
        steady.issuperset({*dim_symbols(a), *dim_symbols(b)})
        and positive(a + 1, builder)
        and positive(b + 1, builder)
        and differ(a, b, builder)
        for a, b in zip(read, root.written, strict=True)
    )
