"""Which roots can share a loop: each reads of the others what the same round wrote, or nothing."""

from __future__ import annotations

from collections.abc import Container, Sequence

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.loops.accesses import apart, differ, positive
from calque.transpiler.loops.fusion_groups import Root

Place = Sequence[DimLike]


def in_step(
    first: Root,
    second: Root,
    depth: int,
    alone: Container[Var],
    beside: Sequence[Root],
    builder: Builder,
) -> bool:
    """Whether ``second`` reads of ``first`` only what the same round of a loop wrote.

    ``depth`` is the loop's, ``alone`` the arrays that are read once, ``beside`` all that the loop
    has already: of an array that is stored into again and again, all versions are one.
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
            or (again and _same_round(second, depth, read, first))
            or elsewhere(read, second, builder)
        ):
            return False
    if again:
        return all(
            _same_round(first, depth, read, second) or elsewhere(read, first, builder)
            for var, read in second.loads
            if var in earlier
        )
    if not first.symbols[depth]:
        return depth not in first.reduced or all(v is not first.out for v, _ in second.loads)
    for var, read in second.loads:
        if var is first.out:
            if first.scattered or not _same_round(first, depth, read, second):
                return False
        elif var in former:
            if not (_same_round(first, depth, read, second) or elsewhere(read, first, builder)):
                return False
    return True


def stores_before(store: Root, roots: Sequence[Root]) -> list[Root]:
    """Of some roots the stores into the array that a store goes on with."""
    makers = {r.out: r for r in roots if r.kind == "store"}
    found: list[Root] = []
    while store.kind == "store" and store.statement.args[0] in makers:
        store = makers[store.statement.args[0]]
        found.append(store)
    return found


def versions_before(store: Root, roots: Sequence[Root]) -> set[Var]:
    """What the array that a store goes on with is and was, as far back as some roots know it."""
    if store.kind != "store":
        return set()
    return {r.statement.args[0] for r in (store, *stores_before(store, roots))}


def _next_in_row(first: Root, second: Root, depth: int) -> bool:
    """Whether a store can follow the one before it within each round of a loop.

    In the innermost one both may, of the same space, if ``told_apart`` says so.
    """
    inner = min(len(first.space), len(second.space)) - 1
    if depth > inner or not first.symbols[depth]:
        return False
    if depth == inner and len(first.space) != len(second.space):
        return False
    return _same_round(first, depth, second.written, second)


def told_apart(first: Root, second: Root, builder: Builder) -> bool:
    """Whether it is known if the elements that two stores of a round write are one or two."""
    if first.scattered or second.scattered:
        return False
    own = _own(first, second)
    return first.written == own or apart(first.written, own, builder)


def one_place(first: Root, second: Root) -> bool:
    """Whether two stores of a round write the same element."""
    return first.written == _own(first, second)


def _own(first: Root, second: Root) -> tuple[DimLike, ...]:
    """Where ``second`` writes, by the counters of ``first``."""
    names = _renamed(second, first)
    return tuple(substitute_dim(d, names) for d in second.written)


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
