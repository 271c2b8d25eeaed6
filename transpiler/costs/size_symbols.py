"""The symbols of formulas: sizes of arguments, and numbers that a program computes or finds.

Programs that are compared, a function and its derivative, share one table: the iterations of a
``while`` of the user's are one symbol in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from calque.transpiler.costs.formulas import Formula, formula, variable
from calque.transpiler.errors import Origin

NOMINAL = 1000  # an unknown size, where sizes must be compared
ARGUMENT, COMPUTED, ITERATIONS, RUN_TIME = "argument", "computed", "iterations", "run time"


@dataclass
class SizeSymbol:
    """A symbol, its description for the reader, its value if known, and the name it should have.

    Symbols of sizes of arguments are those of the program's types, ``#2`` is an integer argument,
    and ``~3`` is a number that a program computes or finds.
    """

    symbol: str
    description: str
    value: int | Fraction | None = None
    name: str | None = None
    kind: str = ARGUMENT
    logarithm_of: Formula | None = None  # to the base 2
    typical: int = NOMINAL  # its value where it must be compared and is not known


@dataclass
class SizeSymbols:
    """All symbols of some formulas, those of arguments first."""

    entries: dict[str, SizeSymbol] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # sizes that are others: of tangents
    _found: dict[tuple[object, ...], str] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Iterable[SizeSymbol]) -> SizeSymbols:
        """The table with the sizes and integers of arguments."""
        return cls({entry.symbol: entry for entry in arguments})

    def found(
        self,
        kind: str,
        origin: Origin | None,
        description: str,
        name: str | None = None,
        value: Fraction | float | None = None,
        typical: float | None = None,
        order: object = 0,
    ) -> str:
        """The symbol of a number that a line of the program computes or finds at run time.

        ``order`` tells apart numbers of one line that have no names. Programs that find the same
        number, by all this, share its symbol.
        """
        place = (origin.file, origin.line) if origin is not None else ()
        key = (description, name, value, order, *place)
        if key not in self._found:
            symbol = f"~{len(self._found)}"
            self._found[key] = symbol
            known = value if value is None or isinstance(value, Fraction) else int(value)
            made = SizeSymbol(symbol, description, known, name, kind)
            made.typical = NOMINAL if typical is None else int(typical)
            self.entries[symbol] = made
        return self._found[key]

    def logarithm(self, size: Formula) -> Formula:
        """``log2`` of a size."""
        if (known := size.number()) is not None:
            return formula(Fraction(math.log2(max(float(known), 1.0))))
        key = ("log2", size)
        if key not in self._found:
            value = size.at(self.values()).number()
            known = Fraction(math.log2(value)) if value and value > 0 else None
            symbol = self._found[key] = f"~{len(self._found)}"
            self.entries[symbol] = SizeSymbol(symbol, "", known, None, COMPUTED, size)
            self.entries[symbol].typical = int(math.log2(max(self.nominal(size), 1.0)))
        return variable(self._found[key])

    def kind(self, symbol: str) -> str | None:
        """The kind of a symbol; None for a counter of a loop."""
        return self.entries[symbol].kind if symbol in self.entries else None

    def values(self) -> dict[str, int | Fraction]:
        """The known values, by symbol."""
        return {s: e.value for s, e in self.entries.items() if e.value is not None}

    def nominal_values(self) -> dict[str, int | Fraction]:
        """A value for each symbol: the known one, or a typical one."""
        return {s: e.typical if e.value is None else e.value for s, e in self.entries.items()}

    def nominal(self, value: Formula) -> float:
        """A value to compare by: what is not known is taken for a thousand."""
        known = dict.fromkeys(value.symbols(), NOMINAL) | self.nominal_values()
        number = value.at(known).number()
        return float(number) if number is not None else 0.0
