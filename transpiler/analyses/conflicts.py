"""In which rounds of a loop two accesses of elements touch the same place."""

from __future__ import annotations

from dataclasses import dataclass

from calque.transpiler.analyses.places import Place, differ
from calque.transpiler.builder import Builder
from calque.transpiler.types import Dim, DimLike, dim_symbols

ANYWHERE = "anywhere"  # any two rounds may meet

Meeting = int | str | None  # after how many counts the second meets the first; None for never


@dataclass(frozen=True)
class Access:
    """A read or a store of one element within a loop's body."""

    array: int
    place: Place
    position: int  # among the statements of the body
    writes: bool
    adds: bool  # a store that adds: two of them commute


def meeting(a: Access, b: Access, counter: DimLike, builder: Builder) -> Meeting:
    """By how much the counter differs where both touch one place and one of them writes.

    >>> from calque.transpiler.types import symbol
    >>> i = symbol("i")
    >>> left, right = Access(0, (i + 1,), 0, True, False), Access(0, (i - 1,), 1, False, False)
    >>> meeting(left, right, i, Builder())  # x[i + 1] of a round is x[i - 1] two counts later
    2
    """
    if a.array != b.array or not (a.writes or b.writes):
        return None
    found: Meeting = ANYWHERE
    (symbol,) = dim_symbols(counter)
    for left, right in zip(a.place, b.place, strict=True):
        if left is None or right is None:
            continue
        mine, other = _coefficient(left, symbol), _coefficient(right, symbol)
        if not mine or not other:
            if differ(left, right, builder):
                return None
            continue
        if mine != other:
            continue
        gap = builder.dims.resolve(left - right)
        if not isinstance(gap, int):
            continue
        if gap % mine or (found != ANYWHERE and found != gap // mine):
            return None
        found = gap // mine
    return found


def _coefficient(dim: DimLike, symbol: str) -> int:
    return dict(dim.terms).get(symbol, 0) if isinstance(dim, Dim) else 0
