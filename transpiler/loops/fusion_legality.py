"""Legality of fusion: roots share a loop if no iteration needs elements of another iteration."""

from __future__ import annotations

from collections.abc import Container, Sequence

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.ir.versions import Versions
from calque.transpiler.loops.accesses import apart, differ, positive
from calque.transpiler.loops.fusion_groups import Root

Indices = Sequence[DimLike]


def same_iteration_reads(
    first: Root,
    second: Root,
    depth: int,
    alone: Container[Var],
    beside: Sequence[Root],
    builder: Builder,
) -> bool:
    """True if ``first`` and ``second`` depend on each other only within iterations of a loop.

    ``depth`` is the depth of the loop, ``alone`` the arrays that are read once, and ``beside`` all
    roots already in the loop. All versions of an array that several stores update count as one.
    """
    if first.out in second.scalars:
        return False
    earlier, former = versions_before(second, beside), versions_before(first, beside)
    if first.out in earlier:
        goes_on = second.statement.args[0] is first.out
        if (goes_on and first.out not in alone) or not _next_in_row(first, second, depth):
            return False
    again = first.kind == "store" and first.out in earlier
    back = _renamed(first, second)
    for var, read in first.loads:
        if var in earlier and not (
            tuple(substitute_dim(d, back) for d in read) == second.written
            or (again and _same_iteration(second, depth, read, first))
            or disjoint(read, second, builder)
        ):
            return False
    if again:
        return all(
            _same_iteration(first, depth, read, second) or disjoint(read, first, builder)
            for var, read in second.loads
            if var in earlier
        )
    if not first.symbols[depth]:
        return depth not in first.reduced or all(v is not first.out for v, _ in second.loads)
    for var, read in second.loads:
        if var is first.out:
            if first.scattered or not _same_iteration(first, depth, read, second):
                return False
        elif var in former:
            if not (_same_iteration(first, depth, read, second) or disjoint(read, first, builder)):
                return False
    return True


def stores_before(store: Root, roots: Sequence[Root]) -> list[Root]:
    """The stores, among the given roots, that made the array which ``store`` updates."""
    makers = {r.out: r for r in (*roots, store) if r.kind == "store"}
    versions = Versions({v: r.statement for v, r in makers.items()})
    return [makers[s.out] for s in versions.stores(store.out)[1:]]


def versions_before(store: Root, roots: Sequence[Root]) -> set[Var]:
    """All earlier versions of the array that ``store`` updates, as far as ``roots`` tell."""
    if store.kind != "store":
        return set()
    return {r.statement.args[0] for r in (store, *stores_before(store, roots))}


def _next_in_row(first: Root, second: Root, depth: int) -> bool:
    """True if a store can follow the store before it within each iteration of a loop.

    In the innermost loop, both need equally many loops, and ``alias_is_known`` must hold too.
    """
    inner = min(len(first.space), len(second.space)) - 1
    if depth > inner or not first.symbols[depth]:
        return False
    if depth == inner and len(first.space) != len(second.space):
        return False
    return _same_iteration(first, depth, second.written, second)


def alias_is_known(first: Root, second: Root, builder: Builder) -> bool:
    """True if two stores of one iteration are known to write one element, or known to differ."""
    if first.scattered or second.scattered:
        return False
    own = _own(first, second)
    return first.written == own or apart(first.written, own, builder)


def writes_same_element(first: Root, second: Root) -> bool:
    """True if two stores of one iteration write the same element."""
    return first.written == _own(first, second)


def _own(first: Root, second: Root) -> tuple[DimLike, ...]:
    """The index that ``second`` writes, in the counters of ``first``."""
    names = _renamed(second, first)
    return tuple(substitute_dim(d, names) for d in second.written)


def _same_iteration(first: Root, depth: int, place: Indices, second: Root) -> bool:
    """True if only the same iteration of ``first`` writes index ``place`` of ``second``."""
    mine, names = first.symbols[depth], _renamed(second, first)
    spots = [k for k, d in enumerate(first.written) if mine in dim_symbols(d)]
    return bool(spots) and all(
        first.written[k] == substitute_dim(place[k], names) for k in spots
    )


def _renamed(root: Root, other: Root) -> dict[str, DimLike]:
    """Map the counters of ``root`` to those of ``other`` in the same loops."""
    return dict(zip(root.symbols, map(symbol, other.symbols), strict=False))


def same_element(first: Root, second: Root) -> bool:
    """True if ``second`` reads only the element of ``first`` that the same iteration writes."""
    names = _renamed(second, first)
    reads = [read for var, read in second.loads if var is first.out]
    places = [tuple(substitute_dim(d, names) for d in read) for read in reads]
    return all(place == tuple(first.written) for place in places)


def disjoint(read: Indices, root: Root, builder: Builder) -> bool:
    """True if no iteration of ``root`` writes an element that any iteration reads at ``read``."""
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
