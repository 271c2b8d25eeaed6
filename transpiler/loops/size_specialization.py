"""Choose small argument sizes to specialize on: trip counts of inner loops that start often.

A loop of three iterations takes longer to start than to run: with its size written into the kernel,
LLVM unrolls it, in products of 3 x 3 matrices for instance. That is worth a program of its own if
these loops start often. (LLVM 20, Numba 0.68: rows of 3, 1.7 times as fast;
products of matrices in loops, 1.3 to 4 times up to 6 rows; from 8 on, sums of rows lose.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Block, For, Function, blocks_of
from calque.transpiler.ir.dims import InnerSizes, Sizes
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim

FEW = 6
OFTEN = 4096  # inner iterations in one call that make a program of its own pay


def inner_sizes(functions: Iterable[Function], builder: Builder) -> InnerSizes:
    """The argument sizes that bound inner loops, each with the trip counts of their nests."""
    found: dict[str, set[Sizes]] = {}
    with builder.active():
        for trip_counts in (t for f in functions for t in _nested(f.body, builder, ())):
            for s in dim_symbols(trip_counts[-1]):
                if len(trip_counts) > 1 and s in builder.dims.arguments:
                    found.setdefault(s, set()).add(trip_counts)
    return {s: frozenset(of_loops) for s, of_loops in found.items()}


def few_and_often(inner: InnerSizes, actual: Mapping[str, int]) -> dict[str, int]:
    """The sizes that are small in a call whose loops over them start often, with their values.

    >>> from calque.transpiler.ir.types import symbol
    >>> rows = {"m": frozenset([(symbol("n"), symbol("m"))])}
    >>> few_and_often(rows, {"n": 10_000, "m": 3}), few_and_often(rows, {"n": 10, "m": 3})
    ({'m': 3}, {})
    """
    return {
        s: actual[s]
        for s, loops in inner.items()
        if 1 < actual.get(s, 0) <= FEW and any(_total(r, actual) >= OFTEN for r in loops)
    }


def _nested(block: Block, builder: Builder, around: Sizes) -> Iterator[Sizes]:
    """Yield the trip count of every ``for``, after those of its surrounding loops."""
    for s in block.statements:
        own = (*around, _trip_count(s, builder)) if isinstance(s, For) else around
        if isinstance(s, For):
            yield own
        for inner in blocks_of(s):
            yield from _nested(inner, builder, own)


def _trip_count(loop: For, builder: Builder) -> DimLike:
    """An upper bound on a loop's trip count, in argument sizes if possible."""
    start, stop = (builder.dim_of(wrap(end)) for end in (loop.start, loop.stop))
    difference = start - stop if loop.step == -1 else stop - start
    return builder.dims.upper_bound(difference)


def _total(trip_counts: Sizes, actual: Mapping[str, int]) -> int:
    """The number of inner iterations in one call; unknown trip counts count as one."""
    total = 1
    for dim in trip_counts:
        known = substitute_dim(dim, dict(actual))
        total *= max(known, 0) if isinstance(known, int) else 1
    return total
