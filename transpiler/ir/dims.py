"""Facts about dimensions while a program is built: equalities, ranges and assumptions.

A dimension is affine over symbols. A symbol is an argument's dimension (never 1: a size of 1 is the
int 1), a loop index, or the value of some integer of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.inequalities import CONSTANT, Affine, solvable
from calque.transpiler.ir.quotients import Quotients, is_symbol
from calque.transpiler.ir.spans import ANY, SIZE, Span, fits
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, substitute_dim, symbol

SMALL = 8192  # multiplications up to which loops beside others beat a call of BLAS
Sizes = tuple[DimLike, ...]
Bound = tuple[Sizes, int]  # the product of the sizes is compared with the number
# by symbol: of each loop whose trip count it determines, the trip counts around it, then its own
InnerSizes = Mapping[str, frozenset[Sizes]]


def is_small_product(bound: Bound, actual: dict[str, int]) -> bool:
    """True if the product of sizes is at most a bound, for these values of their symbols.

    >>> is_small_product(((symbol("n"), symbol("n") - 1, 2), SMALL), {"n": 50})
    True
    """
    sizes, most = bound
    values = [substitute_dim(d, dict(actual)) for d in sizes]
    return math.prod(v for v in values if isinstance(v, int)) <= most


def _affine(dim: DimLike) -> Affine:
    if isinstance(dim, int):
        return {CONSTANT: dim} if dim else {}
    return {CONSTANT: dim.const, **dict(dim.terms)}


OF_SIZES = ("min", "product", "tril_indices", "triu_indices")  # what ``unknown`` sizes may be


@dataclass(eq=False)
class Dims(Quotients):
    """Equalities between dimensions, ranges of symbols, and what had to be assumed of arguments.

    >>> dims = Dims({"n"})
    >>> i = symbol("i")
    >>> dims.ranges["i"] = (1, symbol("n") - 2)
    >>> dims.nonnegative(i - 1), dims.nonnegative(symbol("n") - i - 2)
    (True, True)
    """

    places: dict[str, int] = field(default_factory=dict)  # of arguments' symbols among them
    integers: dict[str, int | None] = field(default_factory=dict)  # arguments, with their values
    ranges: dict[str, tuple[DimLike, DimLike]] = field(default_factory=dict)
    ends: dict[str, Sizes] = field(default_factory=dict)  # of ranges, as loops compute with them
    assumptions: dict[DimLike, None] = field(default_factory=dict)  # each is >= 0
    natural: set[str] = field(default_factory=set)  # other symbols known not to be negative
    facts: list[DimLike] = field(default_factory=list)  # each is >= 0 where it is asked for
    largest: dict[str, list[DimLike]] = field(default_factory=dict)  # of which a symbol is the max
    smallest: dict[str, list[DimLike]] = field(default_factory=dict)  # or the min
    actual: dict[str, int] = field(default_factory=dict)  # of arguments, in the call at hand
    joined: set[str] = field(default_factory=set)  # of which a size is one of several
    growing: set[str] = field(default_factory=set)  # of arrays that loops carry: as long as now
    solvable: set[str] = field(default_factory=set)  # of these, what is asked of one is a condition
    unsolvable: set[str] = field(default_factory=set)
    choices: dict[Bound, bool] = field(default_factory=dict)  # made by actual sizes
    span: Callable[[str], Span] = lambda _: SIZE  # between what a symbol's value is
    _slices: dict[tuple, DimLike] = field(default_factory=dict)
    count: int = 0  # of internal symbols

    def fresh(self) -> Dim:
        """A new symbol about which nothing is known."""
        self.count += 1
        return symbol(f"_{self.count}")

    def resolve(self, dim: DimLike) -> DimLike:
        """``dim`` with every known equality substituted."""
        while isinstance(dim, Dim) and any(s in self.values for s, _ in dim.terms):
            dim = substitute_dim(dim, self.values)
        if self.exact and isinstance(dim, Dim) and not dim_symbols(dim).isdisjoint(self.exact):
            return self.in_few_parts(dim)
        return dim

    def same(self, left: DimLike, right: DimLike) -> bool:
        """True if two dimensions are known to be equal."""
        return self.resolve(left) == self.resolve(right)

    def unify(self, left: DimLike, right: DimLike) -> bool:
        """Assume that two dimensions are equal; False if that was known already.

        Raises ShapeError when they cannot be equal.
        """
        difference = self.resolve(left - right)
        if difference == 0:
            return False
        if isinstance(difference, int):
            raise ShapeError(f"sizes {left} and {right} do not fit together")
        if (found := self.rest_of(difference)) is not None:
            self.exact[found[0]] = found[1:]
            return True
        candidates = [(s, c) for s, c in difference.terms if abs(c) == 1]
        # an internal symbol is replaced before an argument's, a later argument's before an earlier
        place, last = self.places.get, len(self.places)
        candidates.sort(
            key=lambda t: (t[0] in self.arguments, t[0] in self.ranges, place(t[0], last), t[0])
        )
        internal = [t for t in candidates if t[0] not in self.arguments]
        if not candidates:
            return True
        name, coefficient = internal[0] if internal else candidates[-1]
        rest = difference - coefficient * symbol(name)
        self.values[name] = rest * -coefficient
        return True

    def join(self, left: DimLike, right: DimLike) -> DimLike:
        """A new size that is one or the other, decided at run time."""
        if self.same(left, right):
            return left
        made = self.fresh()
        self.joined |= dim_symbols(made)
        return made

    def is_joined(self, dim: DimLike) -> bool:
        """True if a dimension is a joined size: one of several, decided at run time."""
        return any(dim == symbol(s) for s in dim_symbols(dim) & self.joined)

    def changing(self, carried: Iterable[DimLike], first: Iterable[DimLike]) -> set[str]:
        """The joined symbols of sizes that a loop may change; those of initial sizes are fixed."""
        own = {s for d in carried for s in dim_symbols(d)} & self.joined
        return own.difference(*(dim_symbols(self.resolve(d)) for d in first))

    @contextmanager
    def solving(self, carried: Iterable[DimLike], first: Iterable[DimLike]) -> Iterator[None]:
        """Inside, joined sizes that a loop carries may be found from what its body asks for.

        The sizes at the end of each iteration must equal those found. Initial sizes are given.
        """
        before = self.solvable
        self.solvable = before | self.changing(carried, first) - self.unsolvable
        try:
            yield
        finally:
            self.solvable = before

    @contextmanager
    def given(self, facts: Iterable[DimLike]) -> Iterator[None]:
        """Inside, these are known to be nonnegative: facts that a branch's test implies, say.

        >>> dims, i = Dims(), symbol("i")
        >>> with dims.given([i - 1]):
        ...     dims.nonnegative(i - 1), dims.nonnegative(i - 2)
        (True, False)
        """
        before = self.facts
        self.facts = [*before, *facts]
        try:
            yield
        finally:
            self.facts = before

    def limits(self, dim: DimLike) -> Span:
        """The least and the largest value of a dimension, if integers never overflowed."""
        dim = self.resolve(dim)
        if not isinstance(dim, Dim):
            return dim, dim
        low = high = dim.const
        for name, coefficient in dim.terms:
            ends = sorted(coefficient * end for end in self.span(name))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def fits(self, dim: DimLike) -> bool:
        """True if a number computed as ``dim`` equals ``dim``: no sum in it overflows.

        >>> dims, k = Dims(), symbol("k")
        >>> dims.fits(2 * k), dims.fits(k * 2**20)
        (True, False)
        """
        dim = self.resolve(dim)
        return is_symbol(dim) or fits(self.limits(dim))

    def is_exact(self, dim: DimLike) -> bool:
        """Like ``fits``, with the facts that hold at this point.

        >>> dims, k = Dims(), symbol("k")
        >>> with dims.given([100 - k]):
        ...     dims.is_exact(k * 2**20), dims.is_exact(k * 2**60)
        (True, False)
        """
        dim = self.resolve(dim)
        if self.fits(dim):
            return True
        if not self._facts_on(dim_symbols(dim)):
            return False
        return all(self._follows(gap, True) for gap in (dim - ANY[0], ANY[1] - dim))

    def always_nonnegative(self, dim: DimLike) -> bool:
        """True if ``dim >= 0`` is known wherever its symbols are, not only where facts hold."""
        before, self.facts = self.facts, []
        try:
            return self.fits(dim) and self.nonnegative(dim)
        finally:
            self.facts = before

    def nonnegative(self, dim: DimLike) -> bool:
        """True if ``dim >= 0`` is known; asking assumes nothing."""
        exact = self.resolve(dim)
        dim = self._lower_bound(exact, 8)
        if self._surely_nonnegative(dim, 4) or self._is_assumed(dim):
            return True
        return (self._tells_more(exact) or self._tells_more(dim)) and self._follows(exact)

    def assume_nonnegative(self, *dims: DimLike) -> bool:
        """Assume each ``dim >= 0`` whose symbols are sizes of arguments; all of them, or none.

        True if all are known or assumed. Calls for which one does not hold get another program.

        >>> dims, n = Dims({"n"}), symbol("n")
        >>> dims.nonnegative(n - 3), dims.assume_nonnegative(n - 3), dims.nonnegative(n - 3)
        (False, True, True)
        """
        before = dict(self.assumptions)
        if not (taken := all(map(self._take_nonnegative, dims))):
            self.assumptions = before
        return taken

    def _take_nonnegative(self, dim: DimLike) -> bool:
        """Assume one ``dim >= 0``; False if that is not possible."""
        if self.nonnegative(dim):
            return True
        exact = self.resolve(dim)
        gaps = (self.resolve(exact - f) for f in self._facts_on(dim_symbols(exact)))
        if any(self._holds_now(gap) and self._assume(gap) for gap in gaps):
            return True
        least = self._lower_bound(exact, 8)
        by_dividends = self.without_floors(least)
        return self._assume(least) or (
            by_dividends != least and self._holds_now(by_dividends) and self._assume(by_dividends)
        )

    def _is_assumed(self, dim: DimLike) -> bool:
        """True if an assumption made before implies ``dim >= 0``."""
        if isinstance(dim, int):
            return False
        return any(self._is_sum_of_naturals(self.resolve(dim - a)) for a in self.assumptions)

    def _assume(self, dim: DimLike) -> bool:
        """Assume ``dim >= 0`` if it is not assumed yet; False if it cannot be assumed."""
        if self._is_assumed(dim):
            return True
        if isinstance(dim, int) or not dim_symbols(dim) <= self.arguments:
            return False
        if all(c < 0 for _, c in dim.terms) and dim.const <= 0:
            return False
        self.assumptions.setdefault(dim)
        return True

    def _tells_more(self, dim: DimLike) -> bool:
        """True if more than ranges is known of the symbols of ``dim``."""
        symbols = dim_symbols(dim)
        return not symbols.isdisjoint(self.floors) or bool(self._facts_on(symbols))

    def least_holds_now(self, dim: DimLike) -> bool:
        """True if the least value of ``dim`` in loops depends on arguments alone, and is >= 0 now.

        >>> dims, n, i = Dims({"n"}), symbol("n"), symbol("i")
        >>> dims.ranges["i"] = (-2, n - 1)
        >>> dims.least_holds_now(n + i), dims.least_holds_now(symbol("k"))
        (True, False)
        """
        least = self.without_floors(self._lower_bound(self.resolve(dim), 8))
        return dim_symbols(least) <= self.arguments and self._holds_now(least)

    def _holds_now(self, dim: DimLike) -> bool:
        """True if ``dim >= 0`` in the call at hand, or if its value there is not known."""
        value = substitute_dim(dim, dict(self.actual))
        return not isinstance(value, int) or value >= 0

    def _facts_on(self, symbols: Iterable[str]) -> list[DimLike]:
        """The facts that contain one of these symbols."""
        known = [self.resolve(f) for f in self.facts]
        return [f for f in known if not dim_symbols(f).isdisjoint(symbols)]

    def _follows(self, dim: DimLike, with_spans: bool = False) -> bool:
        """True if ``dim >= 0`` follows from the facts and all that is known of their symbols."""
        seen: set[str] = set()
        pending = set(dim_symbols(dim))
        system: list[DimLike] = [-1 * dim - 1]
        while pending:
            system += (known := self._known_of(pending))
            for name in pending if with_spans else ():
                low, high = self.span(name)
                system += [symbol(name) - low, high - symbol(name)]
            seen |= pending
            pending = {s for d in known for s in dim_symbols(d)} - seen
        return not solvable(map(_affine, system))

    def _known_of(self, symbols: set[str]) -> list[DimLike]:
        """Expressions in these symbols, all defined at this point, that are known nonnegative."""
        found = self._facts_on(symbols)
        found += [symbol(s) for s in symbols & (self.arguments | self.natural)]
        for name in symbols:
            low, high = self.range_of(name) or (symbol(name), symbol(name))
            found += [symbol(name) - low, high - symbol(name)]
            found += [symbol(name) - d for d in self.largest.get(name, ()) if self.fits(d)]
            found += [d - symbol(name) for d in self.smallest.get(name, ()) if self.fits(d)]
            dividend, divisor = self.floors.get(name, (symbol(name), 1))
            if self.fits(dividend):
                rest = dividend - divisor * symbol(name)
                found += [rest, divisor - 1 - rest]
        found = [d for d in map(self.resolve, found) if isinstance(d, Dim)]
        assumed = map(self.resolve, self.assumptions)
        return found + [d for d in assumed if not dim_symbols(d).isdisjoint(symbols)]

    def _surely_nonnegative(
        self, dim: DimLike, depth: int, counters: frozenset[str] = frozenset()
    ) -> bool:
        """True if ``dim >= 0`` is known, also where a symbol is a maximum or a minimum.

        ``counters`` belong to loops around the computation of ``dim``: these run at least once.
        """
        dim = self._lower_bound(dim, 8)
        if self._is_sum_of_naturals(dim):
            return True
        spans = filter(None, map(self.range_of, counters))
        if any(self._is_sum_of_naturals(self.resolve(dim - high + low)) for low, high in spans):
            return True
        for name, coefficient in dim.terms if isinstance(dim, Dim) and depth else ():
            for choices, enough in ((self.largest, any), (self.smallest, all)):
                if name in choices and all(map(self.fits, choices[name])):
                    enough = enough if coefficient > 0 else {any: all, all: any}[enough]
                    seen = {s for c in choices[name] for s in dim_symbols(self.resolve(c))}
                    within = counters | seen.intersection(self.ranges)
                    others = (dim + coefficient * (c - symbol(name)) for c in choices[name])
                    return enough(
                        self._surely_nonnegative(self.resolve(d), depth - 1, within) for d in others
                    )
        return False

    def _is_sum_of_naturals(self, dim: DimLike) -> bool:
        if isinstance(dim, int):
            return dim >= 0
        natural = self.arguments | self.natural
        return dim.const >= 0 and all(c > 0 and s in natural for s, c in dim.terms)

    def _lower_bound(self, dim: DimLike, depth: int) -> DimLike:
        """``dim`` with counters at their bounds, inner ones before those that their bounds use."""
        if not isinstance(dim, Dim) or depth == 0:
            return dim
        ranges = {name: self.range_of(name) for name, _ in dim.terms}
        bounds = {name: found for name, found in ranges.items() if found is not None}
        within = {s: dim_symbols(low) | dim_symbols(high) for s, (low, high) in bounds.items()}
        for name, coefficient in dim.terms:
            last = all(name not in seen for s, seen in within.items() if s != name)
            if name in bounds and (last or len(bounds) == 1):
                bound = bounds[name][0 if coefficient > 0 else 1]
                rest = dim - coefficient * symbol(name)
                return self._lower_bound(self.resolve(rest + coefficient * bound), depth - 1)
        return dim

    def range_of(self, name: str) -> tuple[DimLike, DimLike] | None:
        """The bounds of a counter; None if unknown, or if computing them may overflow."""
        found = self.ranges.get(name)
        if found is None or not all(map(self.fits, self.ends.get(name, found))):
            return None
        return found

    def upper_bound(self, dim: DimLike) -> DimLike:
        """``dim`` with counters of loops at the end of their range where it is largest.

        >>> dims, i, n = Dims({"n"}), symbol("i"), symbol("n")
        >>> dims.ranges["i"] = (0, n - 1)
        >>> dims.upper_bound(n - i) == n, dims.upper_bound(i + 1) == n
        (True, True)
        """
        return -1 * self._lower_bound(-1 * self.resolve(dim), 8)

    def assume_never_one(self, dim: DimLike) -> bool:
        """True if a size is not 1: an argument's symbol never is, other sizes by assumption.

        >>> dims, n = Dims({"n"}), symbol("n")
        >>> [dims.assume_never_one(d) for d in (n, 1, symbol("k"))]
        [True, False, False]
        """
        dim = self.resolve(dim)
        if isinstance(dim, int):
            return dim != 1
        own = dim_symbols(dim) & self.arguments
        return any(dim == symbol(s) for s in own) or self.assume_nonnegative(dim - 2)

    def is_broadcast(self, whole: DimLike, left: DimLike, right: DimLike) -> bool:
        """True if ``whole`` is the broadcast of the sizes ``left`` and ``right``."""
        pairs = (left, right), (right, left)
        return any(self.same(whole, self.unknown("broadcast", *pair)) for pair in pairs)

    def is_spread_over(self, size: DimLike, whole: DimLike) -> bool:
        """True if ``whole`` is a broadcast size, and ``size`` is that of one of its operands."""
        key = next((k for k, d in self._slices.items() if self.same(d, whole)), ("",))
        if key[0] != "broadcast" or any(self.same(whole, part) for part in key[1:]):
            return False  # it is of no such thing, or is compared with what it is made of
        return any(self.same(size, part) or self.is_spread_over(size, part) for part in key[1:])

    def are_small(self, sizes: Sizes, most: int | None = None) -> bool:
        """True if the product of sizes is known to be at most ``most``, or SMALL, in this call.

        The answer becomes part of the program: calls with another answer get their own.
        """
        most = SMALL if most is None else most
        bounds = tuple(map(self.upper_bound, sizes))
        if not all(dim_symbols(d) <= self.actual.keys() for d in bounds):
            return False
        outcome = is_small_product((bounds, most), self.actual)
        if any(map(dim_symbols, bounds)):
            self.choices[bounds, most] = outcome
        return outcome

    def unknown(self, *key: object) -> DimLike:
        """The symbol for a size identified only by ``key``: an operation and its operands."""
        key = self._resolved(key)
        if key not in self._slices:
            # sizes may have been found equal since one was asked for
            same = (d for k, d in self._slices.items() if self._resolved(k) == key)
            self._slices[key] = next(same, None) or self.fresh()
        return self._slices[key]

    def _resolved(self, key: tuple) -> tuple:
        return tuple(self.resolve(k) if isinstance(k, Dim) else k for k in key)

    def know_alike(self, renamed: Mapping[str, DimLike]) -> None:
        """Know of new symbols what is known of the old ones, in terms of the new ones.

        >>> dims, i = Dims({"n"}), symbol("i")
        >>> dims.ranges["i"] = (0, symbol("n") - 1)
        >>> dims.know_alike({"i": symbol("j")})
        >>> dims.nonnegative(symbol("n") - symbol("j") - 1)
        True
        """
        for name, dim in renamed.items():
            if not is_symbol(dim):
                continue
            (new,) = dim_symbols(dim)
            tables: list[dict[str, Any]] = [self.ranges, self.ends, self.largest, self.smallest]
            for table in tables:
                if name in table:
                    dims = [substitute_dim(d, dict(renamed)) for d in table[name]]
                    table[new] = dims if isinstance(table[name], list) else tuple(dims)
            for known in (self.quotients, self.floors):
                if name in known:
                    whole, divisor = known[name]
                    known[new] = substitute_dim(whole, dict(renamed)), divisor
            for names in (self.natural, self.joined, self.growing):
                names |= {new} if name in names else set()

    def made_by(self, name: str) -> tuple[Callable[..., Any], list[DimLike]] | None:
        """The function that computes the size by that symbol, and its sizes; None if not known."""
        if name in self.quotients:
            length, step = self.quotients[name]
            return lambda n: (n + (step - 1)) // step, [length]
        if name in self.floors:
            dividend, divisor = self.floors[name]
            return lambda n: n // divisor, [dividend]
        if name in self.smallest:
            return np.minimum, self.smallest[name]
        largest = self.largest.get(name, [])
        return (np.maximum, largest) if len(largest) == 2 else None  # of one it is a bound

    def made_of(self, name: str) -> list[DimLike] | None:
        """The sizes that determine the size of a symbol; None if it depends on other data."""
        key = self.key_of(name)
        if key[0] not in OF_SIZES:
            return None
        return [part for part in key[1:] if isinstance(part, (int, Dim))]

    def key_of(self, name: str) -> tuple:
        """The operation and the operands that identify the size of a symbol; (None,) if unknown."""
        return next((k for k, d in self._slices.items() if dim_symbols(d) == {name}), (None,))
