"""Sizes that are quotients of others: what arguments determine of them, and parts of a whole.

In ``n = u.shape[0] // 2; u[:n], u[n:]`` the two parts are equal where twice ``n`` is the whole.
That is asked where a call is dispatched; sizes then have one form, with as few parts as possible:
of a whole ``s`` and its half ``q``, ``s - q`` is ``q``, and ``q + q`` is ``s``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, substitute_dim, symbol


def is_symbol(dim: DimLike) -> bool:
    """True for a dimension that is one symbol alone."""
    return isinstance(dim, Dim) and not dim.const and [c for _, c in dim.terms] == [1]


@dataclass(eq=False)
class Quotients:
    """Symbols that are quotients of dimensions, rounded up or down."""

    arguments: set[str] = field(default_factory=set)
    quotients: dict[str, tuple[DimLike, int]] = field(default_factory=dict)  # ceil(length / step)
    floors: dict[str, tuple[DimLike, int]] = field(default_factory=dict)  # dividend // divisor
    exact: dict[str, tuple[str, int]] = field(default_factory=dict)  # quotients without a rest
    values: dict[str, DimLike] = field(default_factory=dict)

    if TYPE_CHECKING:

        def resolve(self, dim: DimLike) -> DimLike: ...

    def in_few_parts(self, dim: Dim) -> DimLike:
        """``dim`` in as few quotients without a rest as possible: two halves are the whole."""
        found: DimLike = dim
        for name in sorted(dim_symbols(dim) & self.exact.keys()):
            size, divisor = self.exact[name]
            if size in self.values:  # it has been found to equal another one since
                other = self.resolve(symbol(size))
                if not is_symbol(other):
                    continue
                (size,) = dim_symbols(other)
            factors = dict(found.terms) if isinstance(found, Dim) else {}
            parts = divisor * factors.get(size, 0) + factors.get(name, 0)
            change = parts // divisor - factors.get(size, 0)
            found = found + change * (symbol(size) - divisor * symbol(name))
        return found

    def rest_of(self, difference: DimLike) -> tuple[str, str, int] | None:
        """The quotient, the size and the divisor of which a difference is the rest; else None."""
        for name in dim_symbols(difference) & self.floors.keys():
            dividend, divisor = self.floors[name]
            size = self.resolve(dividend)
            rest = size - divisor * symbol(name)
            if is_symbol(size) and difference in (rest, -1 * rest):
                (own,) = dim_symbols(size)
                return name, own, divisor
        return None

    def is_tangled(self, left: DimLike, right: DimLike) -> bool:
        """True if two sizes are equal only where a size is what quotients of it tell."""
        difference = self.resolve(left - right)
        if isinstance(difference, int) or self.rest_of(difference) is not None:
            return False
        inner = dim_symbols(difference) - self.arguments
        return bool(inner & self.floors.keys()) and not any(
            abs(c) == 1 for s, c in difference.terms if s in inner
        )

    def without_floors(self, dim: DimLike) -> DimLike:
        """An expression in dividends that is nonnegative only where ``dim`` is.

        >>> n, half = symbol("n"), symbol("half")
        >>> quotients = Quotients(floors={"half": (n, 2)})
        >>> str(quotients.without_floors(half - 3)), str(quotients.without_floors(4 - half))
        ('n - 7', '-n + 8')
        """
        for name in sorted(dim_symbols(dim) & self.floors.keys()):
            dividend, divisor = self.floors[name]
            factor = dict(dim.terms)[name] if isinstance(dim, Dim) else 0
            least = dividend - (divisor - 1) if factor > 0 else dividend
            dim = divisor * (dim - factor * symbol(name)) + factor * least
        return dim

    def beyond_arguments(self, dim: DimLike) -> set[str]:
        """The symbols that arguments' sizes do not determine, affinely or by quotients."""
        found = set()
        for s in dim_symbols(dim) - self.arguments:
            dividend = self.dividend(s)
            if dividend is None or self.beyond_arguments(dividend):
                found.add(s)
        return found

    def dividend(self, name: str) -> DimLike | None:
        """Return what a symbol is a quotient of, rounded up or down; None if it is no quotient."""
        found = self.quotients.get(name) or self.floors.get(name)
        return None if found is None else found[0]

    def arguments_in(self, dim: DimLike) -> frozenset[str]:
        """The arguments' sizes that a dimension is made of."""
        inner = (d for d in map(self.dividend, dim_symbols(dim)) if d is not None)
        return frozenset(dim_symbols(dim) & self.arguments).union(*map(self.arguments_in, inner))

    def of_arguments(self, dim: DimLike, sizes: dict[str, int]) -> DimLike:
        """A dimension for these sizes of arguments."""
        values: dict[str, DimLike] = dict(sizes)
        for name in dim_symbols(dim):
            dividend = self.dividend(name)
            known = None if dividend is None else self.of_arguments(dividend, sizes)
            if isinstance(known, int) and name in self.quotients:
                values[name] = max(-(-known // self.quotients[name][1]), 0)
            elif isinstance(known, int):
                values[name] = known // self.floors[name][1]
        return substitute_dim(dim, values)
