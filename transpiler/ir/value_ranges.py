"""Value ranges of a program's integers, which prove that 64-bit arithmetic does not overflow.

Kernels add and multiply modulo 2**64. A sum equals its affine form only where that is known to fit,
so every proof asks here first. Sizes, counters of loops over them, Python's arguments and numbers
that a loop changes by small steps have bounds; a number that a loop doubles has none, nor has an
element of 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, If, Statement, Var, While
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.spans import ANY, SIZE, Span, fits, hull
from calque.transpiler.ir.types import Dim

ARGUMENT = (1 - (1 << 31), (1 << 31) - 1)  # dispatch takes larger ones for part of the program
_MOST_ITERATIONS = 1 << 43  # more iterations, each with work to do, would take hours
_LARGE = 1 << 61
_MOST_FORMS = 16
_MOST_VISITS = 4000
_CHOSEN = ("max", "min", "where")
_CLAMPED = (*_CHOSEN, "remainder", "clip")
_SIGNED = ("negative", "abs", "same", "floor_divide", "right_shift")  # no larger than the first

Loop = For | While
Form = tuple[dict[Var, Fraction], int]  # |value| is at most this sum of |numbers|, and so much


class Magnitudes:
    """Bounds of the integers of one program; ``loops`` maps phis and indices to their loops."""

    def __init__(
        self,
        dims: Dims,
        definitions: Mapping[Var, Statement],
        dim_values: Mapping[Var, Any],
        arguments: Mapping[Var, int],
    ):
        self.dims, self.definitions, self.dim_values = dims, definitions, dim_values
        self.arguments = arguments
        self.loops: dict[Var, Loop] = {}
        self.owners: dict[str, Var] = {}  # by symbol, what it is the value of
        self.relied: set[Var] = set()  # arguments that were taken to be within ``ARGUMENT``
        self._found: dict[Var, Span] = {}
        self._unknown: set[Var] = set()  # as long as no other loop is known
        self._pending: set[Any] = set()
        self._visits = 0
        self._reaches: dict[Var, set[Var]] = {}  # while one question is being answered
        dims.span = self.of_symbol

    def note(self, loop: Loop) -> None:
        """Record a completed loop, so that bounds of its phis and its index can be computed."""
        for v in (*loop.phis, loop.index) if isinstance(loop, For) else loop.phis:
            if self.loops.get(v) is not loop:
                self.loops[v] = loop
                self._unknown.clear()

    def take(self, value: Var, span: Span) -> None:
        """Take an integer to be in an interval that the caller has proven."""
        self._found[value] = span
        self._unknown.clear()

    def of_symbol(self, name: str) -> Span:
        """The bounds of the integer that a symbol stands for."""
        if name in self._pending:
            return ANY
        self._pending.add(name)
        try:
            if name in self.dims.ranges:
                ends = self.dims.range_of(name)
                low, high = map(self.dims.limits, ends) if ends is not None else (ANY, ANY)
                return low[0], high[1]
            return self.of(self.owners[name]) if name in self.owners else SIZE
        finally:
            self._pending.discard(name)

    def of(self, value: Atom) -> Span:
        """The bounds of an integer; ``ANY`` for other values."""
        if not isinstance(value, Var):
            return (int(value), int(value)) if isinstance(value, (int, np.integer)) else ANY
        if not _is_wide(value):
            return _of_type(value)
        if value in self._found:
            return self._found[value]
        if value in self._pending or value in self._unknown:
            return ANY
        if not self._pending:
            self._visits = 0
            self._reaches.clear()
        self._visits += 1
        if self._visits > _MOST_VISITS:
            return ANY
        self._pending.add(value)
        try:
            found = self._looked_up(value)
        finally:
            self._pending.discard(value)
        if fits(found) and found != ANY:
            self._found[value] = found
            return found
        if not self._pending:
            self._unknown.add(value)
        return ANY

    def fits(self, s: Apply) -> bool:
        """True if 64 bits hold the sum, product or opposite that a statement computes."""
        name = s.primitive.arithmetic
        if name in ("negative", "abs"):
            return self.of(s.args[0])[0] > ANY[0]
        known = name in ("add", "subtract", "multiply")
        return known and fits(_combined(name, *map(self.of, s.args)))

    def _made(self, value: Var) -> Statement | None:
        """The statement that defines a value; None if a pass has dropped that result."""
        made = self.definitions.get(value)
        return made if made is not None and value in made.outs else None

    def _looked_up(self, value: Var) -> Span:
        if value in self.arguments:
            self.relied |= {value} if value.type.weak else set()
            return ARGUMENT if value.type.weak else ANY
        dim = self.dim_values.get(value)
        own = isinstance(dim, Dim) and any(self.owners.get(s) is value for s in dim.symbols())
        if dim is not None and not own:
            return self.dims.limits(dim)
        if value in self.loops:
            return self._in_loop(value, self.loops[value])
        made = self._made(value)
        match made:
            case If():
                k = made.outs.index(value)
                return hull(self.of(b.results[k]) for b in (made.then, made.orelse))
            case For() | While():
                return self._in_loop(made.phis[made.outs.index(value)], made)
            case Apply():
                return self._computed(made)
        return ANY

    def _computed(self, s: Apply) -> Span:
        name = s.primitive.arithmetic
        if s.primitive.kind == "size" or name == "place":
            return SIZE
        if name == "index":
            return (0, SIZE[1])
        axes = self._axes(s.outs[0])
        if axes and len(set(axes)) == len(axes) and len({array for array, _ in axes}) == 1:
            return SIZE  # of an array's elements
        if name in ("add", "subtract", "multiply", "remainder"):
            low, high = _combined(name, *map(self.of, s.args))
            return (max(low, 0) if name == "multiply" and s.args[0] is s.args[1] else low, high)
        if name in _CHOSEN:
            spans = [self.of(a) for a in s.args[name == "where" :]]
            return _chosen(name, spans)
        if name in _SIGNED and s.args:
            low, high = self.of(s.args[0])
            most = max(abs(low), abs(high))
            return (0 if name == "abs" else -most, most)
        return ANY

    def _axes(self, value: Atom) -> list[tuple[Atom, Any]]:
        """The arrays and axes whose sizes a number is the product of; empty for other numbers."""
        made = self.definitions.get(value) if isinstance(value, Var) else None
        if not isinstance(made, Apply):
            return []
        if made.primitive.kind == "size" and "axis" in made.params:
            array = made.args[0]
            assert isinstance(array, Var)
            return [(array, made.params["axis"] % array.type.ndim)]
        product = made.primitive.arithmetic == "multiply"
        factors = list(map(self._axes, made.args)) if product else []
        return [axis for axes in factors for axis in axes] if all(factors) else []

    # what loops carry

    def _in_loop(self, value: Var, loop: Loop) -> Span:
        if isinstance(loop, For) and value not in loop.phis:  # the counter, maybe named anew since
            return hull(map(self.of, (loop.start, loop.stop)))
        around = self._reached(value)
        group = {v for v in around if v is value or value in self._reached(v)}
        if value not in around:  # of what came before, and never of itself
            return hull(map(self.of, self._sources(value)))
        return self._grown(group)

    def _sources(self, phi: Var) -> tuple[Atom, Atom]:
        loop = self.loops.get(phi)
        if loop is None or phi not in loop.phis:
            return phi, phi
        k = loop.phis.index(phi)
        return loop.inits[k], loop.body.results[k]

    def _reached(self, phi: Var) -> set[Var]:
        """The loop-carried numbers on which a phi's initial and next values depend."""
        if phi in self._reaches:
            return self._reaches[phi]
        found: set[Var] = set()
        seen: set[Var] = set()
        pending: list[Atom] = list(self._sources(phi))
        wide = _is_wide(phi)  # its bounds depend on integers alone: others have their types'
        while pending and len(seen) < _MOST_VISITS:
            value = pending.pop()
            if not isinstance(value, Var) or value in seen or (wide and not _is_wide(value)):
                continue
            seen.add(value)
            carried = self._carried(value)
            if carried is not None:
                found.add(carried)
                pending += self._sources(carried)
            else:
                pending += self._operands(value)
        self._reaches[phi] = found
        return found

    def _carried(self, value: Var) -> Var | None:
        """The phi that a value is, within its loop or as the loop's result; else None."""
        if value in self.loops:
            return value if value in self.loops[value].phis else None
        made = self._made(value)
        if isinstance(made, (For, While)):
            phi = made.phis[made.outs.index(value)]
            return phi if phi in self.loops else None
        return None

    def _operands(self, value: Var) -> list[Atom]:
        made = self._made(value)
        if isinstance(made, If):
            k = made.outs.index(value)
            return [made.then.results[k], made.orelse.results[k]]
        return list(made.args) if isinstance(made, Apply) else []

    def _grown(self, group: set[Var]) -> Span:
        """The bounds of numbers that iterations compute from each other by bounded steps."""
        start = step = 0
        for phi in group:
            for source in self._sources(phi):
                forms = self._forms(source, group)
                if forms is None:
                    return ANY
                for factors, more in forms:
                    if sum(factors.values()) > 1:
                        return ANY
                    start = start if factors else max(start, more)
                    step = max(step, more) if factors else step
        most = start + step * self._trip_counts({id(self.loops[v]): self.loops[v] for v in group})
        return (-most, most) if most < _LARGE else ANY

    def _trip_counts(self, loops: Mapping[int, Loop]) -> int:
        """A bound on the total trip count of loops; compiled loops that only count take no time."""
        found = 1
        for loop in loops.values():
            if self._works(loop):
                continue
            if not isinstance(loop, For):
                return _LARGE
            ends = hull(map(self.of, (loop.start, loop.stop)))
            found *= max(ends[1] - ends[0], 1)
        return found * _MOST_ITERATIONS if any(map(self._works, loops.values())) else found

    def _works(self, loop: Loop) -> bool:
        """True if iterations take time: varying elements are accessed, or a float is carried on."""
        floats = (v for v in loop.phis if v.type.dtype.kind in "fc" and not v.type.ndim)
        if any(v in self._reached(v) for v in floats):
            return True
        inside = {v for b in core.blocks_of(loop) for v in core.defined_vars(b)} | {*loop.phis}
        if isinstance(loop, For):
            inside.add(loop.index)
        return any(
            isinstance(s, Apply)
            and s.primitive.kind in ("indexing", "store")
            and any(a in inside for a in s.args[1:] if isinstance(a, Var) and not a.type.ndim)
            for s in _statements(loop)
        )

    def _forms(self, value: Atom, group: set[Var]) -> list[Form] | None:
        """Sums of a group's numbers, one of which bounds a value's magnitude; None if unknown."""
        if not isinstance(value, Var) or value.type.dtype != np.int64:
            return self._constant(value)
        carried = self._carried(value)
        if carried in group:
            return [({carried: Fraction(1)}, 0)]
        made = self.definitions.get(value)
        if isinstance(made, If):
            return self._either(self._operands(value), group)
        if isinstance(made, Apply):
            name, args = made.primitive.arithmetic, made.args
            if name in _CLAMPED and (own := self._constant(value)) is not None:
                return own
            if name in _CHOSEN:
                return self._either(args[name == "where" :], group)
            if name in ("add", "subtract"):
                return self._both(args, group)
            if name in _SIGNED or (name == "multiply" and any(type(a) is int for a in args)):
                return self._multiple(made, group)
        return self._constant(value)

    def _constant(self, value: Atom) -> list[Form] | None:
        low, high = self.of(value)
        most = max(abs(low), abs(high))
        return [({}, most)] if most < _LARGE else None

    def _either(self, values: Any, group: set[Var]) -> list[Form] | None:
        found: list[Form] = []
        for value in values:
            forms = self._forms(value, group)
            if forms is None or len(found) + len(forms) > _MOST_FORMS:
                return None
            found += forms
        return found

    def _both(self, values: Any, group: set[Var]) -> list[Form] | None:
        left, right = (self._forms(v, group) for v in values)
        if left is None or right is None or len(left) * len(right) > _MOST_FORMS:
            return None
        found: list[Form] = []
        for factors, more in left:
            for others, rest in right:
                total = dict(factors)
                for v, factor in others.items():
                    total[v] = total.get(v, Fraction(0)) + factor
                if not _holds(total, more + rest):
                    return None
                found.append((total, more + rest))
        return found

    def _multiple(self, s: Apply, group: set[Var]) -> list[Form] | None:
        """The forms of a product with a number, a quotient by one, or a negation."""
        value, factor, rest = s.args[0], Fraction(1), 0
        if s.primitive.arithmetic == "multiply":
            factor, value = s.args if type(s.args[0]) is int else s.args[::-1]
            factor = abs(Fraction(factor))
        elif s.primitive.arithmetic == "floor_divide" and type(s.args[1]) is int and s.args[1]:
            factor, rest = Fraction(1, abs(s.args[1])), 1
        forms = self._forms(value, group)
        if forms is None:
            return None
        found = [({v: c * factor for v, c in f.items()}, int(m * factor) + rest) for f, m in forms]
        return found if all(_holds(*form) for form in found) else None


def _holds(factors: Mapping[Var, Fraction], more: int) -> bool:
    """True if 64 bits hold a form: at most two bounded numbers and a rest below ``_LARGE``."""
    return sum(factors.values()) <= 2 and more < _LARGE


def _combined(name: str, left: Span, right: Span) -> Span:
    if name == "add":
        return left[0] + right[0], left[1] + right[1]
    if name == "subtract":
        return left[0] - right[1], left[1] - right[0]
    if name == "multiply":
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    most = max(abs(right[0]), abs(right[1]))  # a remainder has the sign of the divisor
    return (-most if right[0] < 0 else 0, most)


def _chosen(name: str, spans: list[Span]) -> Span:
    lows, highs = zip(*spans, strict=True)
    if name == "max":
        return max(lows), max(highs)
    if name == "min":
        return min(lows), min(highs)
    return min(lows), max(highs)


def _statements(loop: Loop) -> Iterator[Statement]:
    for block in core.blocks_of(loop):
        yield from core.walk(block)


def _is_wide(value: Var) -> bool:
    """True for an integer of 64 bits, which may have closer bounds than its type."""
    kind = value.type.dtype
    return kind.kind == "i" and kind.itemsize == 8 and not value.type.ndim


def _of_type(value: Var) -> Span:
    """The bounds of a value's type: 0 and 1 for a truth value, ``ANY`` unless it is an integer."""
    kind = value.type.dtype
    if kind.kind == "b":
        return (0, 1)
    if kind.kind not in "iu" or value.type.ndim:
        return ANY
    return (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
