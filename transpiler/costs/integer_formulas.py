"""Sizes and integers of a program as formulas of its arguments' sizes.

An integer is followed to what it is computed of: ``segments = (steps + every - 1) // every`` is
``steps/every``. A maximum is taken without its constant (loops are taken to run), and of a minimum
the operand that depends on no counter of a loop. What is not known before the program runs becomes
a symbol of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from calque.transpiler.autodiff.tape.trip_counts import own_counter
from calque.transpiler.costs.formulas import Formula, Number, formula, product, variable
from calque.transpiler.costs.size_symbols import COMPUTED, ITERATIONS, RUN_TIME, SizeSymbols
from calque.transpiler.costs.user_lines import Line, line_of
from calque.transpiler.errors import Origin
from calque.transpiler.ir.builder import Builder, type_of
from calque.transpiler.ir.core import Apply, Atom, For, If, Slot, Var, While
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.phases import FROM_STATE
from calque.transpiler.ir.quotients import is_symbol
from calque.transpiler.ir.types import ArrayType, Dim, DimLike, dim_symbols, integer_name
from calque.transpiler.memory.printed_program import PrintedProgram, is_basic
from calque.transpiler.primitives.indexing import getitem


class IntegerFormulas:
    """The formulas of one program's sizes and integers."""

    def __init__(self, program: PrintedProgram, builder: Builder, symbols: SizeSymbols):
        self.program, self.builder, self.symbols = program, builder, symbols
        self.bound: dict[Var, Formula] = {}  # counters of the loops around, and of those left
        self.counters: list[str] = []  # the symbols of the loops around
        self.counts: list[Formula] = []  # their trip counts
        self._lines: list[Line] = []  # where they stand
        self._indices: dict[str, Formula] = {}  # the same counters, by the symbols of dimensions
        self._behind: dict[str, Var] = {}
        for var, dim in program.dim_values.items():
            dim = builder.dims.resolve(dim)
            made = program.definition.get(var) if isinstance(var, Var) else None
            if is_symbol(dim) and isinstance(made, Apply) and made.primitive.kind != "size":
                self._behind.setdefault(next(iter(dim_symbols(dim))), var)
        self.masks: dict[Line, None] = {}  # the lines of masks, of which all elements count
        self._nameless: dict[Line, dict[Var | str, int]] = {}  # by line, in order
        self._pending: set[object] = set()  # of which a formula is being made
        for var, leaf in builder.leaf_of_param.items():
            if integer_name(leaf) in symbols.entries and not var.type.ndim:
                self.bound[var] = variable(integer_name(leaf))

    # types

    def elements(self, t: ArrayType) -> Formula:
        """The number of elements of an array of this type."""
        return product(map(self.dim, t.dims))

    def bytes(self, t: ArrayType) -> Formula:
        """The memory of an array of this type."""
        return self.elements(t) * t.dtype.itemsize

    def dim(self, dim: DimLike) -> Formula:
        """A dimension."""
        dim = self.builder.dims.resolve(dim)
        if not isinstance(dim, Dim):
            return formula(dim)
        return sum((c * self._symbol(s) for s, c in dim.terms), formula(dim.const))

    def _symbol(self, name: str) -> Formula:
        name = self.symbols.aliases.get(name, name)
        if name in self.symbols.entries:
            return variable(name)
        if name in self._indices:
            return self._indices[name]
        if name in self._pending:
            return self._unknown(name)
        self._pending.add(name)
        try:
            return self._inner(name)
        finally:
            self._pending.discard(name)

    def _inner(self, name: str) -> Formula:
        """A size that is none of the arguments'."""
        dims = self.builder.dims
        if name in self._behind:
            return self.of(self._behind[name])
        for table in (dims.quotients, dims.floors):
            if name in table:
                length, divisor = table[name]
                return self.dim(length) / divisor
        if name in dims.largest:
            return self._most([self.dim(d) for d in dims.largest[name]])
        if name in dims.smallest:
            return self._choice([self.dim(d) for d in dims.smallest[name]])
        made = dims.key_of(name)
        parts = [self.dim(part) for part in made[1:] if isinstance(part, (int, Dim))]
        match made[0]:
            case "min":
                return self._choice(parts)
            case "broadcast":
                return self._most(parts)
            case "product":
                return product(parts)
            case "positive":
                return parts[0]
            case "tril_indices" | "triu_indices":
                return parts[0] * (parts[0] + 1) / 2
        return self._by_maker(name) or self._of_comparison(name) or self._unknown(name)

    def _by_maker(self, name: str) -> Formula | None:
        """The size that the first statement to make an array of it tells of."""
        for var, s in self.program.definition.items():
            axes = [k for k, d in enumerate(var.type.dims) if name in dim_symbols(d)]
            if axes and is_symbol(var.type.dims[axes[0]]):
                if isinstance(s, If):
                    return self._of_branch(s, var, axes[0])
                if isinstance(s, Apply):
                    return self._of_slice(s, name) or self._of_mask(s)
                return None
        return None

    def _of_branch(self, s: If, out: Var, axis: int) -> Formula:
        """The larger of the sizes that an array has in two arms."""
        results = [arm.results[s.outs.index(out)] for arm in (s.then, s.orelse)]
        return self._most([self.dim(type_of(r).dims[axis]) for r in results])

    def _of_mask(self, s: Apply) -> Formula | None:
        """All elements of a mask, for those that it chooses."""
        masks = [t for t in map(type_of, s.args) if t.ndim and t.dtype.kind == "b"]
        if not masks or not (s.primitive.chooses or s.primitive is getitem):
            return None
        self.masks[line_of(s.origin, None)] = None
        return self.elements(masks[0])

    def _of_slice(self, s: Apply, name: str) -> Formula | None:
        """The length of a slice whose ends are computed, taken to be inside its axis."""
        if s.primitive is not getitem or not is_basic(s):
            return None
        for item, whole, own in sliced_axes(s):
            if is_symbol(own) and name in dim_symbols(own):
                return self._length(item, whole, s.args[1:])
        return None

    def _length(self, item: slice, whole: DimLike, dynamic: Sequence[Atom]) -> Formula | None:
        ends = [dynamic[e.position] if isinstance(e, Slot) else e for e in (item.start, item.stop)]
        if item.step not in (None, 1):
            return None
        start = formula(0) if ends[0] is None else self.of(ends[0])
        stop = self.dim(whole) if ends[1] is None else self.of(ends[1])
        negative = [isinstance(e, int) and e < 0 for e in ends]
        start, stop = (f + self.dim(whole) if n else f for f, n in zip((start, stop), negative))
        length = stop - start
        known = all(self.symbols.kind(name) != RUN_TIME for name in length.symbols())
        return length if known else None

    def _of_comparison(self, name: str) -> Formula | None:
        """The size that another one must equal where the program runs."""
        for pair in self.builder.doubted:
            for own, other in (pair, pair[::-1]):
                own = self.builder.dims.resolve(own)
                if is_symbol(own) and name in dim_symbols(own):
                    return self.dim(other)
        return None

    def _unknown(self, name: str) -> Formula:
        """The symbol of a size that only a run knows, by the line that makes it."""
        origin = next(
            (
                v.origin
                for v in self.program.vars
                if any(name in dim_symbols(d) for d in v.type.dims)
            ),
            None,
        )
        what = f"a size known at run time at {line_of(origin, None)}"
        return variable(self.symbols.found(RUN_TIME, origin, what, order=self._order(origin, name)))

    def _order(self, origin: Origin | None, number: Var | str) -> int:
        """The place of a number among those without names of one line."""
        known = self._nameless.setdefault(line_of(origin, None), {})
        return known.setdefault(number, len(known))

    # integers

    def of(self, atom: Atom) -> Formula:
        """An integer of the program."""
        return self._choice(self.candidates(atom))

    def candidates(self, atom: Atom) -> list[Formula]:
        """The formulas of which an integer is the smallest."""
        if not isinstance(atom, Var):
            return [formula(int(atom))]
        if atom in self.bound:
            return [self.bound[atom]]
        if atom not in self._pending:
            self._pending.add(atom)
            try:
                found = self._computed(atom)
            finally:
                self._pending.discard(atom)
            if found is not None and not (atom.name and self._has_nameless(found)):
                return found
        return [self._run_time(atom)]

    def _has_nameless(self, found: Sequence[Formula]) -> bool:
        """True if a symbol of formulas has no name: a number computed of it may have one."""
        entries = [self.symbols.entries.get(name) for f in found for name in f.symbols()]
        return any(e and e.name is None and e.kind in (COMPUTED, RUN_TIME) for e in entries)

    def _computed(self, var: Var) -> list[Formula] | None:
        made = self.program.definition.get(var)
        dim = self.program.dim_values.get(var)
        if isinstance(made, Apply) and len(made.outs) == 1:
            found = self._of_operation(made)
            if found is not None:
                return found
        if dim is not None and self._is_known(dim):
            return [self.dim(dim)]
        return None

    def _is_known(self, dim: DimLike) -> bool:
        names = dim_symbols(self.builder.dims.resolve(dim))
        return all(s in self.symbols.entries or s in self._indices for s in names)

    def _of_operation(self, s: Apply) -> list[Formula] | None:
        """The candidates of an operation on integers; None for one that is not followed."""
        args = s.args
        if s.primitive.kind == "size":
            axis, dims = s.params.get("axis"), args[0].type.dims
            return [self.dim(dims[axis]) if isinstance(axis, int) else self.elements(args[0].type)]
        if s.out.type.ndim or any(type_of(a).dtype.kind not in "iub" for a in args):
            return None
        if s.primitive.kind == "linear":  # a cast
            return self.candidates(args[0])
        match s.primitive.arithmetic:
            case "add":
                return [a + self.of(args[1]) for a in self.candidates(args[0])]
            case "subtract":
                return [a - self.of(args[1]) for a in self.candidates(args[0])]
            case "negative":
                return [-self.of(args[0])]
            case "multiply":
                return [self.of(args[0]) * self.of(args[1])]
            case "same":
                return self.candidates(args[0])
            case "floor_divide":
                found = _quotient(self.of(args[0]), self.of(args[1]))
                return None if found is None else [found]
            case "max":
                return self._maximum(args)
            case "min":
                return [f for a in args for f in self.candidates(a)]
        return None

    def _maximum(self, args: Sequence[Atom]) -> list[Formula]:
        variables = [a for a in args if isinstance(a, Var)]
        if len(variables) == 1:
            return self.candidates(variables[0])
        return [self._most([self.of(a) for a in args])]

    def _most(self, found: Sequence[Formula]) -> Formula:
        """The largest; one that is no number is taken to be larger than a number."""
        return max(found, key=lambda f: (f.number() is None, self.symbols.nominal(f)))

    def _choice(self, found: Sequence[Formula]) -> Formula:
        """The smallest of candidates; those without counters of the loops around come first."""
        fixed = [f for f in found if f.symbols().isdisjoint(self.counters)] or found
        return min(fixed, key=self.symbols.nominal)

    def _run_time(self, var: Var) -> Formula:
        """The symbol of a number, with its value if that is computed of known ones."""
        computed = self._is_computed(var)
        kind, what = (COMPUTED, "computed") if computed else (RUN_TIME, "known at run time")
        known, typical = (
            self._value(var, values) if computed else None
            for values in (self.symbols.values(), self.symbols.nominal_values())
        )
        what = f"{what} at {line_of(var.origin, None)}"
        order = self._order(var.origin, var) if not computed else var
        order = 0 if var.name else order
        return variable(self.symbols.found(kind, var.origin, what, var.name, known, typical, order))

    def _is_computed(self, atom: Atom) -> bool:
        """True if a number depends on the arguments' sizes and integers alone."""
        if not isinstance(atom, Var):
            return True
        made = self.program.definition.get(atom)
        if atom in self.bound or is_size(made):
            return all(self.symbols.kind(s) != RUN_TIME for s in self.of(atom).symbols())
        if not isinstance(made, Apply) or len(made.outs) != 1 or made.out.type.ndim:
            return False
        return all(map(self._is_computed, made.args))

    def _value(self, atom: Atom, values: Mapping[str, Number]) -> Any:
        """The value of a computed number for values of symbols; None if one of them lacks."""
        if not isinstance(atom, Var):
            return atom
        made = self.program.definition.get(atom)
        if not isinstance(made, Apply) or atom in self.bound or is_size(made):
            found = self.of(atom).at(values).number()
            return None if found is None else int(found)
        args = [self._value(a, values) for a in made.args]
        if any(a is None for a in args):
            return None
        try:
            return made.primitive.function(*args, **made.params)
        except (ArithmeticError, TypeError, ValueError):
            return None

    # loops

    def iterations(self, s: For | While) -> Formula:
        """The trip count of a loop; a symbol of its own where only a run knows it."""
        if isinstance(s, For) and isinstance(s.step, int):
            first, last = (s.stop, s.start) if s.step < 0 else (s.start, s.stop)
            known = self._choice([end - self.of(first) for end in self.candidates(last)])
            known /= abs(s.step)
            kinds = {self.symbols.kind(name) for name in known.symbols()}
            value = known.at(self.symbols.values()).number()
            if value is not None and value < 0:
                return formula(0)
            if RUN_TIME not in kinds:
                return known
        if s.origin is not None and s.origin.note == FROM_STATE:
            return self._repeated(s)
        loop = "while loop" if isinstance(s, While) else "loop"
        average = ", on average" if self.counters else ""
        what = f"iterations of the {loop} at {line_of(s.origin, None)}{average}"
        # what is written for another loop, such as a loop that gives up saved states, runs seldom
        typical = 1 if line_of(s.origin, None) in self._lines else None
        return variable(self.symbols.found(ITERATIONS, s.origin, what, typical=typical))

    def _repeated(self, s: For | While) -> Formula:
        """The iterations run again for each one of a loop of which only some states are saved."""
        positions = [v for v in s.phis if v.type.ndim == 1 and v.type.dtype.kind == "i"]
        known = [
            f.at(self.symbols.values()).number()
            for f in (self.counts[-1], self.dim(positions[-1].type.dims[0]))
        ]
        value = None if None in known else repetitions(*(int(n or 0) for n in known))
        what = f"iterations run again for each one at {line_of(s.origin, None)}, about"
        return variable(self.symbols.found(ITERATIONS, s.origin, what, None, value, 1))

    @contextmanager
    def within(self, s: For | While, symbol: str, count: Formula) -> Iterator[None]:
        """Inside, the loop's counter is that of the iteration ``symbol``; behind it, the last."""
        own = own_counter(s) if isinstance(s, While) else (s.index, s.index)
        start = self.of(s.start) if isinstance(s, For) else formula(0)
        step = s.step if isinstance(s, For) and isinstance(s.step, int) else 1
        if own is not None:
            self._bind(own[0], start + step * variable(symbol))
        self.counters.append(symbol)
        self.counts.append(count)
        self._lines.append(line_of(s.origin, None))
        try:
            yield
        finally:
            self.counters.pop()
            self.counts.pop()
            self._lines.pop()
        if own is not None:
            self._bind(own[1], count if isinstance(s, While) else start + step * (count - 1))

    def _bind(self, var: Var, value: Formula) -> None:
        self.bound[var] = value
        dim = self.program.dim_values.get(var)
        if dim is not None and is_symbol(dim):
            self._indices[next(iter(dim_symbols(dim)))] = value


def _quotient(dividend: Formula, divisor: Formula) -> Formula | None:
    """A quotient without rounding: ``(n + k - 1) // k``, rounded up, is ``n/k``."""
    before = dividend - divisor + 1
    exact = before if len(before.terms) < len(dividend.terms) else dividend
    return exact.divided_by(divisor)


def repetitions(iterations: int, places: int) -> Fraction:
    """The mean number of times that an iteration is run again, with as few repetitions as possible.

    By Griewank and Walther, "Algorithm 799: revolve" (2000).

    >>> repetitions(100, 100), round(float(repetitions(1_000_000, 1414)), 2)
    (Fraction(0, 1), 1.0)
    """
    if places >= iterations or places < 1:
        return Fraction(0)
    sweeps, reached = 1, places + 1
    while reached < iterations:
        sweeps += 1
        reached = math.comb(places + sweeps, sweeps)
    total = sweeps * iterations - math.comb(places + sweeps, sweeps - 1)
    return Fraction(max(total - iterations, 0), iterations)


def sliced_axes(s: Apply) -> Iterator[tuple[slice, DimLike, DimLike]]:
    """The slices of an index without arrays, each with the sizes of its axis before and after."""
    items = list(s.params["index"])
    used = sum(item is not None and item is not Ellipsis for item in items)
    rest = [slice(None)] * (s.args[0].type.ndim - used)
    where = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
    items[where : where + 1] = rest
    before, after = iter(s.args[0].type.dims), iter(s.out.type.dims)
    for item in items:
        whole = None if item is None else next(before)
        own = next(after) if item is None or isinstance(item, slice) else None
        if isinstance(item, slice) and whole is not None and own is not None:
            yield item, whole, own
