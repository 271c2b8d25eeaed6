"""The text of a report on costs: a table of numbers, formulas, saved arrays, and lines."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from calque.runtime.call.symbol_letters import letters
from calque.transpiler.costs.counting import FUNCTIONS, MOVED, OPERATIONS, Cost
from calque.transpiler.costs.formulas import Formula
from calque.transpiler.costs.size_symbols import (
    ARGUMENT,
    ITERATIONS,
    NOMINAL,
    SizeSymbol,
    SizeSymbols,
)
from calque.transpiler.costs.user_lines import Line

_WIDTH = 100
_MOST_TERMS, _FEW_TERMS, _MOST_ARRAYS, _MOST_LINES = 8, 3, 3, 4
_LEAST_SHARE = 0.05  # of a line that is shown
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass
class Measured:
    """A program by its name, and its cost."""

    name: str
    cost: Cost


@dataclass(frozen=True)
class LineCost:
    """The cost of one line of the user's: its share of all operations, and the cost in words."""

    line: Line
    share: float
    text: str


def bytes_text(count: float) -> str:
    """A number of bytes for people.

    >>> bytes_text(800), bytes_text(1.6e9)
    ('800 B', '1.6 GB')
    """
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.3g} {_UNITS[unit]}"


def count_text(count: float) -> str:
    """A number of operations for people.

    >>> count_text(4800), count_text(3.21e9)
    ('4800', '3.2e9')
    """
    return (
        f"{count:.0f}" if count < 10_000 else f"{count:.1e}".replace("e+0", "e").replace("e+", "e")
    )


@dataclass
class CostReport:
    """The costs to report: of a program, and of the function that it differentiates, if any."""

    symbols: SizeSymbols
    derivative: Measured
    primal: Measured | None = None
    checkpointed: Measured | None = None
    compiled: bool = False

    def text(self) -> str:
        """The whole report."""
        parts = [
            self._title(),
            self._table(),
            self._formulas(),
            self._saved(),
            self._lines(),
            self._notes(),
        ]
        return "\n\n".join("\n".join(part) for part in parts if part)

    # symbols

    @cached_property
    def names(self) -> dict[str, str]:
        """A name for each symbol: the user's, or a letter."""
        advised = self._advised().symbols() - set(self._used())
        entries = [self.symbols.entries[s] for s in (*self._used(), *sorted(advised))]
        wanted: dict[str, str] = {}
        for e in entries:
            free = e.name is not None and e.name not in wanted.values()
            wanted[e.symbol] = e.name if e.name is not None and free else _internal(e.symbol)
        own = [e.name for e in self.symbols.entries.values() if e.name is not None]
        given = letters([*wanted.values(), *own])
        names = {symbol: given[name] for symbol, name in wanted.items()}
        for e in entries:
            if e.logarithm_of is not None:
                names[e.symbol] = f"log2({e.logarithm_of.text(names)})"
        return names

    def _used(self) -> list[str]:
        """The symbols of all formulas, arguments first."""
        formulas = [f for _, _, row in self._rows() for f in row]
        found = {s for f in formulas for s in f.symbols()}
        entries = self.symbols.entries
        inner = {s for name in found if name in entries for s in _of_logarithm(entries[name])}
        return [s for s in entries if s in found | inner]

    def _value(self, value: Formula, unit: str = "count") -> str:
        """The number of a formula, or what is left of it if a size is not known."""
        found = value.at(self.symbols.values())
        number = found.number()
        if number is None:
            rounded = Formula(tuple((p, _rounded(n)) for p, n in found.terms))
            return rounded.text(self.names, 2) + " B" * (unit == "bytes")
        return bytes_text(float(number)) if unit == "bytes" else count_text(float(number))

    def _programs(self) -> list[Measured]:
        """The programs side by side."""
        return [program for program in (self.primal, self.derivative) if program is not None]

    # parts

    def _title(self) -> list[str]:
        heads = f"Cost of {self.derivative.name}"
        heads += f", beside {self.primal.name}" if self.primal is not None else ""
        told = self._meanings(self._used())
        if not told:
            return [heads]
        return textwrap.wrap(f"{heads}, for {'; '.join(told)}", _WIDTH, subsequent_indent="  ")

    def _meanings(self, symbols: Iterable[str]) -> list[str]:
        """The meanings and values of symbols, of those whose name does not say it."""
        told = []
        for symbol in symbols:
            e, name = self.symbols.entries[symbol], self.names[symbol]
            if e.logarithm_of is not None:
                continue
            parts = [name] + [e.description] * (e.kind == ARGUMENT and e.description != name)
            whole = e.value is not None and e.value == int(e.value)
            if e.value is not None:
                parts.append(f"{int(e.value):,}" if whole else f"{float(e.value):.2g}")
            text = " = ".join(parts)
            if e.kind != ARGUMENT:
                text += f" ({e.description})" if e.kind != ITERATIONS else f": the {e.description}"
            told += [text] * (text != name)
        return told

    def _rows(self) -> list[tuple[str, str, list[Formula]]]:
        """The measures: name, unit, and the formulas of the programs."""
        programs = [program.cost for program in self._programs()]
        rows = [
            ("operations", "count", [cost.total(OPERATIONS) for cost in programs]),
            ("  of exp, sin, ...", "count", [cost.total(FUNCTIONS) for cost in programs]),
            ("bytes moved", "bytes", [cost.total(MOVED) for cost in programs]),
        ]
        saved = [cost.bytes_saved() for cost in programs]
        if self.primal is not None or any(saved):
            rows.append(("bytes saved", "bytes", saved))
        return [row for row in rows if any(row[2]) or not row[0].startswith(" ")]

    def _table(self) -> list[str]:
        """The numbers for the arguments; nothing if none of their sizes is known."""
        values, used = self.symbols.values(), self._used()
        unknown = any(self.symbols.kind(s) == ARGUMENT and s not in values for s in used)
        if unknown and not any(s in values for s in used):
            return []
        names = [program.name for program in self._programs()]
        table = [["", *names, *["ratio"] * (len(names) == 2)]]
        for label, unit, formulas in self._rows():
            cells = [self._value(f, unit) if f else "-" for f in formulas]
            ratio = [_ratio(self.symbols, formulas)] if len(names) == 2 else []
            table.append([label, *cells, *ratio])
        return _aligned(table, left=[0])

    def _formulas(self) -> list[str]:
        """The formulas that are not zero, wrapped."""
        rows = [row for row in self._rows() if not (row[0].startswith(" ") and self._table())]
        heads: list[list[str]] = []
        texts: list[str] = []
        for label, _, formulas in rows:
            for program, value in zip(self._programs(), formulas, strict=True):
                if value:
                    again = heads and label == heads[-1][0]
                    heads.append([label, "" if again else label, program.name])
                    texts.append(value.text(self.names, _MOST_TERMS))
        if not heads:
            return []
        told = _aligned([head[1:] for head in heads], left=range(2))
        width = max(map(len, told)) + 2
        lines = ["formulas"]
        for head, text in zip(told, texts, strict=True):
            whole, indent = f"{head:{width}}{text}", " " * width
            lines += textwrap.wrap(whole, _WIDTH, subsequent_indent=indent, break_long_words=False)
        return lines

    def _saved(self) -> list[str]:
        """The arrays that are saved, the largest first, and what checkpoint would save."""
        saved = sorted(self.derivative.cost.saved, key=lambda a: -self.symbols.nominal(a.size))
        if not saved:
            return []
        known = bool(self._table())
        table = []
        for array in saved[:_MOST_ARRAYS]:
            number = [self._value(array.size, "bytes")] if known else []
            size = array.size.text(self.names, _FEW_TERMS)
            table.append([array.name, size, *number, str(array.line), array.line.text])
        lines = ["saved for the reverse phase", *map(_cut, _aligned(table, left=range(5)))]
        if len(saved) > _MOST_ARRAYS:
            lines.append(f"  and {len(saved) - _MOST_ARRAYS} arrays more")
        if self.checkpointed is not None:
            lines += self._advice(self.checkpointed, known)
        return lines

    def _advised(self) -> Formula:
        """The bytes that the program with checkpoint saves."""
        return Formula() if self.checkpointed is None else self.checkpointed.cost.bytes_saved()

    def _advice(self, other: Measured, known: bool) -> list[str]:
        size, entries = self._advised(), self.symbols.entries
        number = f" = {self._value(size, 'bytes')}" if known else ""
        own = [entries[s] for s in sorted(size.symbols() - set(self._used()))]
        told = [f"{self.names[e.symbol]} = {e.value}" for e in own if e.value is not None]
        operations = [p.cost.total(OPERATIONS) for p in (self.derivative, other)]
        text = f'  calque.checkpoint({other.name}, every="sqrt") would save '
        text += (
            f"{size.text(self.names, _MOST_TERMS)}{number}{f' ({_joined(told)})' if told else ''}, "
        )
        text += f"with {_ratio(self.symbols, operations)} times the operations"
        return textwrap.wrap(text, _WIDTH, subsequent_indent="    ")

    def by_line(self) -> Iterator[LineCost]:
        """The cost of each line, in the order in which the program has them."""
        cost = self.derivative.cost
        operations, moved = cost.tally.lines(OPERATIONS), cost.tally.lines(MOVED)
        primal = {} if self.primal is None else self.primal.cost.tally.lines(OPERATIONS)
        saved, shares = _saved_by_line(cost), self._shares(operations)
        values = self.symbols.values()
        unknown = [s for s in self._used() if s not in values]
        for line in dict.fromkeys([*operations, *moved, *saved]):
            told = []
            if line in operations:
                told.append(f"{self._value(operations[line])} operations")
                if line in primal:
                    told[-1] += f" ({self._value(primal[line])} without the derivative)"
            if line in moved:
                told.append(f"{self._value(moved[line], 'bytes')} moved")
            if line in saved:
                told.append(f"{self._value(saved[line], 'bytes')} saved for the reverse phase")
            formulas = [f[line] for f in (operations, primal, moved, saved) if line in f]
            left = {s for f in formulas for s in f.symbols()}
            meanings = self._meanings(s for s in unknown if s in left)
            yield LineCost(line, shares.get(line, 0.0), "; ".join([", ".join(told), *meanings]))

    def _lines(self) -> list[str]:
        """The lines that cost most, with their shares."""
        cost = self.derivative.cost
        parts = [cost.tally.lines(OPERATIONS), cost.tally.lines(MOVED)]
        labels = ["operations", "moved"]
        if cost.saved:
            labels.append("saved")
            parts.append(_saved_by_line(cost))
        shares = [self._shares(part) for part in parts]
        lines = dict.fromkeys(line for share in shares for line in share)
        ranked = sorted(lines, key=lambda line: -sum(share.get(line, 0.0) for share in shares))
        shown = [n for n in ranked if max(s.get(n, 0.0) for s in shares) >= _LEAST_SHARE]
        table = [[*labels, "", ""]]
        for line in shown[:_MOST_LINES]:
            table.append([*(f"{s.get(line, 0.0):.0%}" for s in shares), str(line), line.text])
        if not shown:
            return []
        texts = _aligned(table, left=[len(labels), len(labels) + 1])
        return [f"lines that cost most in {self.derivative.name}", *map(_cut, texts)]

    def _shares(self, parts: dict[Line, Formula]) -> dict[Line, float]:
        numbers = {line: self.symbols.nominal(value) for line, value in parts.items()}
        whole = sum(numbers.values()) or 1.0
        return {line: number / whole for line, number in numbers.items()}

    def _notes(self) -> list[str]:
        """Sentences on what is left out and what is assumed."""
        programs = [program.cost for program in self._programs()]
        notes = []
        uncounted = dict.fromkeys(key for cost in programs for key in cost.uncounted)
        if uncounted:
            names = _joined(f"{name} ({line})" for name, line in uncounted)
            notes.append(f"Operations not counted: {names}.")
        branches = dict.fromkeys(line for cost in programs for line in cost.branches)
        if branches:
            lines = _joined(map(str, branches))
            notes.append(f"Of a branch the arm that costs more counts: {lines}.")
        masks = dict.fromkeys(line for cost in programs for line in cost.masks)
        if masks:
            notes.append(f"Of what a mask chooses all elements count: {_joined(map(str, masks))}.")
        if any(self.symbols.entries[s].value is None for s in self._used()):
            notes.append(f"Shares are for sizes of {NOMINAL} where they are not known.")
        if self.compiled:
            notes.append("jit fuses statements, so that its kernels move fewer bytes than this.")
        return [line for note in notes for line in textwrap.wrap(note, _WIDTH)]


def _internal(symbol: str) -> str:
    """A symbol in a form that letters are given to."""
    before = {"#": 10**6, "~": 2 * 10**6}.get(symbol[0])
    return symbol if before is None else f"_{before + int(symbol[1:])}"


def _saved_by_line(cost: Cost) -> dict[Line, Formula]:
    found: dict[Line, Formula] = {}
    for array in cost.saved:
        found[array.line] = found.get(array.line, Formula()) + array.size
    return found


def _of_logarithm(entry: SizeSymbol) -> frozenset[str]:
    return frozenset() if entry.logarithm_of is None else entry.logarithm_of.symbols()


def _rounded(number: Fraction) -> Fraction:
    """A coefficient with three digits; a fraction of so few digits stays as it is.

    >>> str(_rounded(Fraction(8, 3))), str(_rounded(Fraction(17000, 3)))
    ('8/3', '5670')
    """
    if number.denominator in range(2, 10) and abs(number.numerator) < 1000:
        return number
    return Fraction(f"{float(number):.3g}")


def _ratio(symbols: SizeSymbols, formulas: Sequence[Formula]) -> str:
    """The second of two costs divided by the first; where sizes are not known, for large ones."""
    first, second = (symbols.nominal(f) for f in formulas)
    return f"{second / first:.1f}" if first and second else ""


def _joined(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")


def _aligned(table: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """The rows of a table, indented; the columns ``left`` go to the left, and others right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]

    def cell(text: str, k: int) -> str:
        return text.ljust(widths[k]) if k in left else text.rjust(widths[k])

    rows = ("  ".join(cell(text, k) for k, text in enumerate(row)) for row in table)
    return [f"  {row}".rstrip() for row in rows]


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
