"""Replace the index checks in an innermost loop's iterations by one test before the loop.

Before::

    for r in range(q + 1, d):
        y[r] += packed[checked_index(place, packed.shape[0])] * x
        place += 1

After: an index that changes by a constant is in bounds in all iterations if it is so in the first
and in the last. If the test fails, each iteration checks, and the error is raised where Python
raises it::

    last = place + d - q - 2
    if place >= 0 and place <= last and last < packed.shape[0]:
        for r in range(q + 1, d):
            y[r] += packed[place + r - (q + 1)] * x
        place += d - (q + 1)
    else:
        ...  # the loop as it was

This is loop versioning by range checks: Midkiff, Moreira and Snir, Optimizing array reference
checking in Java programs, IBM Systems Journal 37(3), 1998.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.dead_code import prune
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned_loop
from calque.transpiler.loops.backward_slice import early
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, multiply, negative, subtract
from calque.transpiler.primitives.extrema import maximum, minimum
from calque.transpiler.primitives.indexing import checked_index
from calque.transpiler.primitives.logic import greater_equal, less, less_equal, logical_and
from calque.transpiler.primitives.record import Primitive

_OF_INTEGERS: dict[Primitive, Callable[..., int]] = {
    add: operator.add,
    subtract: operator.sub,
    multiply: operator.mul,
    negative: operator.neg,
    maximum: max,
    minimum: min,
}
_MOST = 40  # the most statements of a body, which is written twice


def hoist_checks(
    function: Function,
    builder: Builder,
    compiles: Callable[[Statement], bool],
    raises: Callable[[Statement], bool],
) -> None:
    """Test before such loops of kernels, in place; ``raises``: true if a statement may raise."""

    def visit(block: Block, compiled: bool) -> None:
        for s in list(block.statements):
            inner = compiled or (isinstance(s, (For, While)) and compiles(s))
            for body in core.blocks_of(s):
                visit(body, inner)
            if inner and isinstance(s, For):
                made = _CheckedLoop(s, builder).versions(raises)
                if isinstance(made, Refused):
                    missed(builder, "hoist_checks", s, made)
                    continue
                applied(builder, "hoist_checks", s)
                label(made, s.phase)
                at = block.statements.index(s)
                block.statements[at : at + 1] = made

    with builder.active():
        visit(function.body, False)


@dataclass(eq=False)
class _CheckedLoop:
    """An innermost loop, and the indices that its iterations check."""

    loop: For
    builder: Builder
    made: dict[Var, Statement] = field(default_factory=dict)  # the definition of each variable

    def versions(self, raises: Callable[[Statement], bool]) -> list[Statement] | Refused:
        """The statements that replace the loop, or the reason why it stays."""
        loop = self.loop
        statements = list(core.walk(loop.body))
        checks = [s for s in statements if isinstance(s, Apply) and s.primitive is checked_index]
        refused = self._irregular(statements, checks, raises)
        if refused is not None:
            return refused
        self.made = dict.fromkeys((loop.index, *loop.phis), loop)
        self.made.update((out, s) for s in statements for out in s.outs)
        for s in checks:
            if self._slope(s.args[0]) is None:
                return Refused("{0} has an index that does not change by a constant", (s.origin,))
        try:
            with self.builder.block() as made, self.builder.at(loop.origin):
                answer = self._question(checks)
                if not isinstance(answer, Refused):
                    self._choice(answer, checks)
        except OverflowError:  # of Python integers
            return Refused("an index of its first or last iteration has more than 64 bits")
        return answer if isinstance(answer, Refused) else made.statements

    def _irregular(
        self,
        statements: list[Statement],
        checks: list[Apply],
        raises: Callable[[Statement], bool],
    ) -> Refused | None:
        """The reason if the loop checks no index, or does more than one test can cover."""
        if not checks:
            return Refused("it checks no index")
        if len(statements) > _MOST:
            return Refused(f"it has more than {_MOST} operations, which would be written twice")
        if self.loop.step not in (1, -1):
            return Refused("it does not count by one")
        for s in statements:
            if isinstance(s, (For, While)):
                return Refused("{0} is an inner loop", (s.origin,))
            if not isinstance(s, (Apply, If)):
                return Refused("{0} has an effect besides its results", (s.origin,))
        for s in statements:
            if s not in checks and raises(s):  # the iterations would stay sequential
                return Refused("{0} may raise an error besides its index check", (s.origin,))
        return None

    # the test before the loop

    def _slope(self, a: Atom) -> int | None:
        """The growth of an integer when the counter grows by one; None if it is not constant."""
        if not isinstance(a, Var) or a not in self.made:
            return 0
        if a.type.ndim or a.type.dtype != np.int64:
            return None
        if a is self.loop.index:
            return 1
        if a in self.loop.phis:
            growth = self._growth(a) if a.type.weak else None
            return None if growth is None else growth * self.loop.step
        s = self.made[a]
        if not isinstance(s, Apply) or s.primitive not in (add, subtract, negative, multiply):
            return None
        slopes = [self._slope(b) for b in s.args]
        if any(slope is None for slope in slopes):
            return None
        return _combined(s, slopes)  # type: ignore[arg-type]

    def _growth(self, phi: Var) -> int | None:
        """The constant that each iteration adds to a carried number; None if there is none."""
        s = self.made.get(self.loop.body.results[self.loop.phis.index(phi)])
        if not isinstance(s, Apply) or s.primitive not in (add, subtract):
            return None
        left, right = s.args
        if left is not phi and s.primitive is add:
            left, right = right, left
        if left is not phi or type(right) is not int:
            return None
        return right if s.primitive is add else -right

    def _at(self, a: Atom, counter: Atom) -> Atom:
        """The value of an integer of constant slope in the iteration of ``counter``."""
        if not isinstance(a, Var) or a not in self.made:
            return a
        if a is self.loop.index:
            return counter
        if a in self.loop.phis:
            return self._carried(a, counter)
        s = self.made[a]
        assert isinstance(s, Apply)
        return _computed(s.primitive, *(self._at(b, counter) for b in s.args))

    def _carried(self, phi: Var, counter: Atom) -> Atom:
        """The value of a carried number at the start of the iteration of ``counter``."""
        growth = self._growth(phi)
        assert growth is not None
        start = self.loop.inits[self.loop.phis.index(phi)]
        gap = (counter, self.loop.start) if self.loop.step == 1 else (self.loop.start, counter)
        return _computed(add, start, _computed(multiply, _computed(subtract, *gap), growth))

    def _question(self, checks: list[Apply]) -> Atom | Refused:
        """The test that all indices are in bounds in the first and the last iteration."""
        loop, tests = self.loop, dict[tuple[Primitive, Atom, Atom], Atom]()
        last = _computed(subtract, loop.stop, loop.step)
        for s in checks:
            index, size = s.args
            slope = self._slope(index)
            size = early(size, self.made, self.made)
            if slope is None or size is None:
                return Refused("{0} indexes an array whose size may change", (s.origin,))
            ends = (loop.start, last) if slope * loop.step >= 0 else (last, loop.start)
            if slope == 0:
                ends = (loop.start, loop.start)
            low, high = (self._at(index, end) for end in ends)
            for place, name in ((low, "first_place"), (high, "last_place")):
                if isinstance(place, Var) and place.name is None:
                    place.name = name
            wanted = [(greater_equal, low, 0), (less, high, size)]
            if slope and not self._holds(low, high, abs(slope), last):
                if abs(slope) > 1:
                    return Refused("{0} has an index that may overflow", (s.origin,))
                wanted.insert(1, (less_equal, low, high))  # otherwise the last one has overflowed
            for primitive, place, bound in wanted:
                if (primitive, place, bound) not in tests:
                    found = apply(primitive, wrap(place), wrap(bound))
                    tests[primitive, place, bound] = atom(found)
        asked = [t for t in tests.values() if isinstance(t, Var)]
        if not asked or any(not isinstance(t, Var) and not t for t in tests.values()):
            return Refused("its first or last index is known to be inside, or outside")
        answer = asked[0]
        for test in asked[1:]:
            answer = atom(apply(logical_and, wrap(answer), wrap(test)))
        return answer

    def _holds(self, low: Atom, high: Atom, slope: int, last: Atom) -> bool:
        """True if no index between the least and the largest can overflow."""
        dims = self.builder.dims
        places = (low, high, self.loop.start, last)
        least, largest, first, end = (self.builder.dim_of(wrap(a)) for a in places)
        iterations = (end - first) * self.loop.step
        same = dims.resolve(largest - least) == dims.resolve(iterations * slope)
        return same and all(map(dims.is_exact, (least, largest, first, end)))

    # the two versions of the loop

    def _choice(self, answer: Atom, checks: list[Apply]) -> None:
        """Emit a branch between the loop without checks and the loop with checks."""
        loop, builder = self.loop, self.builder
        outs = loop.outs
        mapping: dict[Var, Atom] = {}
        free = cloned_loop(builder, loop, mapping)
        asks = {mapping[s.out]: mapping.get(s.args[0], s.args[0]) for s in checks}
        for block in (free.body, *(b for s in core.walk(free.body) for b in core.blocks_of(s))):
            block.statements[:] = [s for s in block.statements if asks.keys().isdisjoint(s.outs)]
        core.substitute(free.body, asks)
        with builder.block() as then:
            results = self._without_counters(free, mapping)
        loop.outs = tuple(o.again() for o in outs)
        builder.definitions.update(dict.fromkeys(loop.outs, loop))
        orelse = Block([loop], [*loop.outs])
        builder.emit(If(outs, answer, Block(then.statements, results), orelse, loop.origin))

    def _without_counters(self, free: For, mapping: dict[Var, Atom]) -> list[Atom]:
        """Emit a copy of the loop that carries no other counters; return its results."""
        builder, own = self.builder, self.loop
        counters = [p for p in own.phis if not p.type.ndim and self._slope(p) is not None]
        grown = {mapping[p] for p in counters}
        ends: dict[Atom, Atom] = {}
        with builder.block() as first, builder.at(free.origin):
            for old in counters:
                now = self._carried(old, free.index)
                core.substitute(free.body, {mapping[old]: now})
        for s in core.walk(free.body):
            builder.definitions.update(dict.fromkeys(s.outs, s))
        with builder.block() as iterations:
            for s in (*first.statements, *free.body.statements):
                if isinstance(s, Apply):
                    builder.record(s)  # with known integers, of which a reverse pass reloads some
                else:
                    builder.emit(s)
        free.body.statements = iterations.statements
        kept = [k for k, phi in enumerate(free.phis) if phi not in grown]
        with builder.block() as after, builder.at(free.origin):
            stop = own.stop
            ahead = builder.dim_of(wrap(own.stop)) - builder.dim_of(wrap(own.start))
            if not builder.dims.nonnegative(own.step * ahead):
                further = maximum if own.step == 1 else minimum
                stop = _computed(further, stop, own.start)
            for old in counters:
                ends[mapping[old]] = self._carried(old, stop)
        whole = dict(zip(free.phis, free.outs, strict=True))
        found = [ends.get(phi, whole[phi]) for phi in free.phis]
        free.outs = tuple(free.outs[k] for k in kept)
        free.inits = tuple(free.inits[k] for k in kept)
        free.body.results = [free.body.results[k] for k in kept]
        free.phis = tuple(free.phis[k] for k in kept)
        prune(free.body, {r for r in free.body.results if isinstance(r, Var)})
        builder.emit(free)
        for s in after.statements:
            builder.emit(s)
        return found


def _computed(primitive: Primitive, *args: Atom) -> Atom:
    """The result of an operation on integers, folded for Python integers.

    OverflowError is raised if the folded result has more than 64 bits.
    """
    if all(type(a) is int for a in args):
        found = _OF_INTEGERS[primitive](*args)
        if not -(2**63) <= found < 2**63:
            raise OverflowError
        return found
    if primitive is add and 0 in args:
        return next(a for a in args if type(a) is not int or a)
    if primitive is multiply and 1 in args:
        return next(a for a in args if type(a) is not int or a != 1)
    return atom(apply(primitive, *map(wrap, args)))


def _combined(s: Apply, slopes: list[int]) -> int | None:
    """The slope of a sum or a product; None if it is not a known constant."""
    if s.primitive is add:
        return slopes[0] + slopes[1]
    if s.primitive is subtract:
        return slopes[0] - slopes[1]
    if s.primitive is negative:
        return -slopes[0]
    if not any(slopes):
        return 0
    for factor, slope in zip(s.args, slopes[::-1], strict=True):
        if type(factor) is int:
            return factor * slope
    return None
