"""Dependence tests: in which iterations of a loop two accesses touch the same element."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.inequalities import CONSTANT, Affine, combined, solvable
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, symbol
from calque.transpiler.loops.accesses import ElementIndex, differ

ANYWHERE = "anywhere"  # any two iterations may touch one element

Distance = int | str | None  # a difference of the counter; None if no iterations touch one element


@dataclass(frozen=True)
class Access:
    """A read or a store of one element within a loop's body."""

    array: int
    place: ElementIndex
    position: int  # among the statements of the body
    writes: bool
    adds: bool  # a store that adds: two of them commute


def dependence_distance(a: Access, b: Access, counter: DimLike, builder: Builder) -> Distance:
    """The difference of the counter between ``a`` and ``b`` where both touch one element.

    The result is None if they never do, or if neither of them writes.

    >>> from calque.transpiler.ir.types import symbol
    >>> i = symbol("i")
    >>> left, right = Access(0, (i + 1,), 0, True, False), Access(0, (i - 1,), 1, False, False)
    >>> dependence_distance(left, right, i, Builder())  # x[i + 1] is x[i - 1] two counts later
    2
    """
    if a.array != b.array or not (a.writes or b.writes):
        return None
    found: Distance = ANYWHERE
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


Renaming = Callable[[str], Hashable]


def may_alias_across_iterations(
    one: ElementIndex, two: ElementIndex, counter: str, steady: frozenset[str], builder: Builder
) -> bool:
    """True if two iterations may touch one element, one at ``one`` and the other at ``two``.

    Indices are affine. Symbols that are not ``steady`` are other unknowns in the other iteration.
    There is a system of inequalities for each of the two orders of the iterations.
    """

    def here(name: str) -> Hashable:
        return name

    def there(name: str) -> Hashable:
        return name if name in steady else (name, "there")

    system: list[Affine] = []
    names = {counter}
    for mine, other in zip(one, two, strict=True):
        if mine is None or other is None or _from_the_end(mine) or _from_the_end(other):
            continue
        gap = combined(_renamed(mine, here), _renamed(other, there), -1)
        system += [gap, combined({}, gap, -1)]
        names |= dim_symbols(mine) | dim_symbols(other)
    for renaming in (here, there):
        system += _ranges(names, renaming, builder)
    ahead: Affine = {there(counter): 1, counter: -1}
    orders = (combined({CONSTANT: -1}, ahead, sign) for sign in (1, -1))
    return any(solvable([*system, order]) for order in orders)


def _from_the_end(index: DimLike) -> bool:
    return isinstance(index, int) and index < 0


def _renamed(dim: DimLike, renaming: Renaming) -> Affine:
    if isinstance(dim, int):
        return {CONSTANT: dim} if dim else {}
    found: Affine = {renaming(name): c for name, c in dim.terms}
    return combined(found, {CONSTANT: dim.const})


def _ranges(names: Iterable[str], renaming: Renaming, builder: Builder) -> list[Affine]:
    """Inequalities known for the named symbols, and for the symbols in their bounds."""
    dims = builder.dims
    found: list[Affine] = []
    seen: set[str] = set()
    pending = set(names)
    while pending:
        name = pending.pop()
        seen.add(name)
        own = _renamed(symbol(name), renaming)
        if name in dims.arguments or name in dims.natural:
            found.append(own)
        if name in dims.ranges:
            low, high = map(dims.resolve, dims.ranges[name])
            found.append(combined(own, _renamed(low, renaming), -1))
            found.append(combined(_renamed(high, renaming), own, -1))
            pending |= (dim_symbols(low) | dim_symbols(high)) - seen
        if name in dims.floors:
            dividend, divisor = dims.floors[name]
            rest = combined(_renamed(dims.resolve(dividend), renaming), own, -divisor)
            found += [rest, combined({CONSTANT: divisor - 1}, rest, -1)]
            pending |= dim_symbols(dividend) - seen
    return found
