"""Formulas of sizes: sums of products of powers of symbols, such as ``16*n*m + n**3/3``.

An exponent may be negative, for a size that is a part of another one: of ``steps`` iterations in
segments of ``every``, there are ``steps/every`` segments. Roundings are left out.

>>> n, m = variable("n"), variable("m")
>>> str((n + 1) * (n - 1) + 3 * m * n + m)
'3*m*n + n**2 + m - 1'
>>> str((n - 1).summed("n", m))
'm**2/2 - 3*m/2'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Powers = tuple[tuple[str, int], ...]  # of symbols, in the order of their names
Number = int | Fraction


@dataclass(frozen=True, eq=True)
class Formula:
    """A sum of terms, each a number times powers of symbols; no number is zero."""

    terms: tuple[tuple[Powers, Fraction], ...] = ()

    def __add__(self, other: Formula | Number) -> Formula:
        return _formula([*self.terms, *formula(other).terms])

    __radd__ = __add__

    def __neg__(self) -> Formula:
        return self * -1

    def __sub__(self, other: Formula | Number) -> Formula:
        return self + formula(other) * -1

    def __mul__(self, other: Formula | Number) -> Formula:
        right = formula(other).terms
        return _formula((_product(p, q), a * b) for p, a in self.terms for q, b in right)

    __rmul__ = __mul__

    def __truediv__(self, number: Number) -> Formula:
        return self * Fraction(1, number)

    def __pow__(self, exponent: int) -> Formula:
        return math.prod([self] * exponent, start=formula(1))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def divided_by(self, other: Formula) -> Formula | None:
        """The quotient; None for a divisor of several terms, or zero."""
        if len(other.terms) != 1:
            return None
        powers, number = other.terms[0]
        inverse = Formula(((tuple([(s, -e) for s, e in powers]), 1 / number),))
        return self * inverse

    def symbols(self) -> frozenset[str]:
        """The symbols that occur."""
        return frozenset(s for powers, _ in self.terms for s, _ in powers)

    def number(self) -> Fraction | None:
        """The value of a formula without symbols; None for others."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    def at(self, values: Mapping[str, Formula | Number]) -> Formula:
        """The formula with symbols replaced.

        >>> n = variable("n")
        >>> str((n * n + variable("k")).at({"n": 3}))
        'k + 9'
        """
        found = Formula()
        for powers, number in self.terms:
            term = formula(number)
            for symbol, exponent in powers:
                term *= _power(values.get(symbol, variable(symbol)), exponent, symbol)
            found += term
        return found

    def summed(self, symbol: str, count: Formula) -> Formula:
        """The sum for ``symbol`` from 0 to ``count - 1``."""
        found = Formula()
        for powers, number in self.terms:
            exponent = dict(powers).get(symbol, 0)
            rest = tuple((s, e) for s, e in powers if s != symbol)
            if exponent < 0:  # taken for the middle of its range
                rest = _product(rest, ((symbol, exponent),))
                middle = count.divided_by(formula(2)) or count
                found += Formula(((rest, number),)).at({symbol: middle}) * count
            else:
                found += Formula(((rest, number),)) * _sum_of_powers(exponent, count)
        return found

    def ordered(self) -> list[tuple[Powers, Fraction]]:
        """The terms, those of the highest degree first."""

        def rank(term: tuple[Powers, Fraction]) -> tuple[int, int, Powers]:
            return -sum(e for _, e in term[0]), -len(term[0]), term[0]

        return sorted(self.terms, key=rank)

    def __str__(self) -> str:
        return self.text({})

    def text(self, names: Mapping[str, str], most: int | None = None) -> str:
        """The formula as Python writes it, with names for symbols; at most so many terms.

        >>> (variable("a") + variable("b") + 1).text({"a": "n"}, most=2)
        'b + n + 1 more term'
        """
        renamed = self.at({s: variable(names[s]) for s in self.symbols() if s in names}).ordered()
        shown = renamed if most is None or len(renamed) <= most else renamed[:most]
        text = " + ".join(_term(powers, number) for powers, number in shown) or "0"
        left = len(renamed) - len(shown)
        more = f" + {left} more term{'s' * (left > 1)}" if left else ""
        return text.replace("+ -", "- ") + more


def formula(value: Formula | Number) -> Formula:
    """A number as a formula; a formula stays as it is."""
    if isinstance(value, Formula):
        return value
    return Formula((((), Fraction(value)),)) if value else Formula()


def variable(symbol: str) -> Formula:
    """The formula that is a symbol alone."""
    return Formula(((((symbol, 1),), Fraction(1)),))


def product(factors: Iterable[Formula]) -> Formula:
    """The product of formulas; 1 for none."""
    return math.prod(factors, start=formula(1))


def _formula(terms: Iterable[tuple[Powers, Fraction]]) -> Formula:
    found: dict[Powers, Fraction] = {}
    for powers, number in terms:
        found[powers] = found.get(powers, Fraction(0)) + number
    return Formula(tuple(sorted((p, n) for p, n in found.items() if n)))


def _product(left: Powers, right: Powers) -> Powers:
    found = dict(left)
    for symbol, exponent in right:
        found[symbol] = found.get(symbol, 0) + exponent
    return tuple(sorted((s, e) for s, e in found.items() if e))


def _power(value: Formula | Number, exponent: int, symbol: str) -> Formula:
    """A power of what stands for a symbol; a sum has no negative ones, and the symbol stays."""
    base = formula(value)
    if exponent >= 0:
        return base**exponent
    inverse = formula(1).divided_by(base)
    return (
        Formula(((((symbol, exponent),), Fraction(1)),)) if inverse is None else inverse**-exponent
    )


@cache
def _sum_coefficients(exponent: int) -> tuple[Fraction, ...]:
    """The coefficients, by powers of ``count``, of the sum of ``k**exponent`` below ``count``."""
    found = [Fraction(0)] * (exponent + 2)
    found[exponent + 1] = Fraction(1)
    for lower in range(exponent):
        for power, number in enumerate(_sum_coefficients(lower)):
            found[power] -= math.comb(exponent + 1, lower) * number
    return tuple(number / (exponent + 1) for number in found)


def _sum_of_powers(exponent: int, count: Formula) -> Formula:
    parts = enumerate(_sum_coefficients(exponent))
    return sum((number * count**power for power, number in parts), Formula())


def _term(powers: Powers, number: Fraction) -> str:
    above = [s if e == 1 else f"{s}**{e}" for s, e in powers if e > 0]
    below = [s if e == -1 else f"{s}**{-e}" for s, e in powers if e < 0]
    size = abs(number.numerator)
    text = "*".join([str(size)] * (size != 1 or not above) + above)
    text += "".join(
        f"/{part}" for part in [str(number.denominator)] * (number.denominator != 1) + below
    )
    return f"-{text}" if number < 0 else text
