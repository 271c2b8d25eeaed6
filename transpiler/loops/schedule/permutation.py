"""Permute: make the inner loops of a loop outer ones, each with the outer loop within it.

Legal where no iteration of the outer loop touches an element that another one writes; accesses in
one iteration of an inner loop, and of one inner loop and a later one, keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.loops.accesses import reads_stored
from calque.transpiler.loops.code_motion import once
from calque.transpiler.loops.dependence import ANYWHERE, dependence_distance
from calque.transpiler.loops.nest import LoopNest, NestAccess
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import getitem

Divides = Callable[[Statement], bool]


class Permutation:
    """An outer loop that is to become the inner one of each loop in it.

    ``divides``: whether a statement may raise ZeroDivisionError, which a zero-trip loop must not.
    """

    def __init__(self, nest: LoopNest, divides: Divides):
        self.nest, self.loop, self.builder, self.divides = nest, nest.loop, nest.builder, divides
        self.array_of = nest.array_of
        self.steady: list[Statement] = []  # invariant scalars

    def unfit(self) -> Refused | None:
        """The reason if the nest is no loop around loops over elements."""
        return self._irregular() or self._unknown()

    def _irregular(self) -> Refused | None:
        """The reason if the body holds more than inner loops over elements, and scalars."""
        loop = self.loop
        if loop.step not in (1, -1):
            return Refused("it does not count by one", (loop.origin,))
        if not loop.phis or self.nest.numbers:
            return Refused("it carries a scalar, or no array", (loop.origin,))
        if len(self.nest.loops) == 1:
            return Refused("it holds no loop")
        own = {loop.index}  # variables that differ between iterations
        for s in loop.body.statements:
            match s:
                case For():
                    if not {s.start, s.stop, s.step}.isdisjoint(own):
                        return Refused("the range of {0} depends on the outer counter", (s.origin,))
                    if any(isinstance(t, For) for t in s.body.statements):
                        return Refused("{0} holds a loop", (s.origin,))
                case Apply():
                    if any(a.type.ndim for a in (*s.args, *s.outs) if isinstance(a, Var)):
                        if not self._reads(s):
                            return Refused("{0} uses an array between the loops", (s.origin,))
                        own.update(s.outs)
                    elif own.isdisjoint(s.args):
                        self.steady.append(s)
                    elif self.divides(s):  # in a zero-trip inner loop it would not raise
                        return Refused("{0} may divide by zero", (s.origin,))
                    else:
                        own.update(s.outs)
        return None

    def _reads(self, s: Apply) -> bool:
        """True if ``s`` reads an element of an array that the loop does not change: it may move.

        The index must be proven: in a zero-trip inner loop it would go unchecked.
        """
        arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
        if s.primitive is not getitem or arrays != [s.args[0]] or s.out.type.ndim:
            return False
        return s.proven and arrays[0] not in self.array_of

    def _unknown(self) -> Refused | None:
        """The reason if some access is not followed: an index, or an array of another kind."""
        for inner in self.nest.loops[1:]:
            for s in (t for t in inner.body.statements if t in self.nest.others):
                if not isinstance(s, Apply) or s.primitive is not getitem or s.out.type.ndim:
                    return Refused("{0} uses an array that the loops do not carry", (s.origin,))
                if [a for a in s.args if isinstance(a, Var) and a.type.ndim] != [s.args[0]]:
                    return Refused("{0} reads several elements", (s.origin,))
        if (access := self.nest.unsteady()) is not None:
            said = "{0} has an index that is computed in the loops"
            return Refused(said, (access.statement.origin,))
        return None

    def dependent(self) -> Refused | None:
        """The reason if an outer iteration touches an element that another writes, except in sums.

        Accesses in the same iteration of an inner loop may depend on each other, since their order
        stays. So may accesses of an inner loop and those of a later inner loop.
        """
        for a in self.nest.accesses:
            for b in self.nest.accesses:
                if not (a.adds and b.adds) and self._conflict(a, b):
                    name = self.loop.phis[a.array].name or "an array"
                    said = f"{{0}} and {{1}} touch one element of {name} in different iterations"
                    return Refused(said, (a.statement.origin, b.statement.origin))
        return None

    def _conflict(self, a: NestAccess, b: NestAccess) -> bool:
        """True if interchange would change the order of two accesses to one element."""
        counter = self.builder.dim_values[self.loop.index]
        loop, inner = a.loops[-1], b.loops[-1]
        if loop is inner and self._in_step(a, b, inner):
            # interchanged, the inner iterations would be serial, unless they sum
            apart = dependence_distance(a, b, counter, self.builder)
            return apart not in (None, 0) and (apart != ANYWHERE or not self._is_sum(a, b, inner))
        place = tuple(self._in_another_iteration(d, inner) for d in b.place)
        apart = dependence_distance(a, replace(b, place=place), counter, self.builder)
        if apart in (None, 0):
            return False
        if loop is inner or not isinstance(apart, int):
            return True
        return (apart * self.loop.step > 0) != (self._order(loop) < self._order(inner))

    def _is_sum(self, a: NestAccess, b: NestAccess, inner: For) -> bool:
        """True if the stores only add to the element that they overwrite.

        Nothing else may read the element, since interchange changes the order of the additions.
        """
        summed = set()  # reads of the element that a store overwrites
        for access in (a, b):
            s = access.statement
            if access.writes and not access.adds:
                value = self.builder.definitions.get(s.args[1])
                if not isinstance(value, Apply) or value.primitive is not add:
                    return False
                read = [self.builder.definitions.get(v) for v in value.args]
                there = [r for r in read if reads_stored(r, s, self.builder)]
                once = (count_uses(inner.body, v.out) <= 1 for v in (value, *there[:1]))
                if not there or not all(once):
                    return False
                summed.add(there[0])
        reads = [x.statement for x in (a, b) if not x.writes]
        return all(r in summed for r in reads)

    def _order(self, inner: For) -> int:
        return self.loop.body.statements.index(inner)

    def _in_step(self, a: NestAccess, b: NestAccess, inner: For) -> bool:
        """True if two accesses can touch the same element only in the same inner iteration."""
        own, outer = (dim_symbols(self.builder.dim_values[f.index]) for f in (inner, self.loop))
        return a.array == b.array and any(
            d is not None and d == e and dim_symbols(d) & own and not dim_symbols(d) & outer
            for d, e in zip(a.place, b.place, strict=True)
        )

    def _in_another_iteration(self, dim: DimLike | None, inner: For) -> DimLike | None:
        """An index in another iteration of the inner loop: the counter gets a new symbol."""
        if dim is None:
            return None
        dims = self.builder.dims
        (own,) = dim_symbols(self.builder.dim_values[inner.index])
        elsewhere = f"{own}_elsewhere"
        if own in dims.ranges:
            dims.ranges.setdefault(elsewhere, dims.ranges[own])
            dims.ends.setdefault(elsewhere, dims.ends.get(own, dims.ranges[own]))
        return substitute_dim(dim, {own: symbol(elsewhere)})

    def written(self) -> Iterator[Statement]:
        """The permuted loops."""
        loop, builder = self.loop, self.builder
        now: list[Atom] = list(loop.inits)
        versions = list(loop.phis)  # of the arrays, in the old body
        numbers: list[Statement] = []
        inner = [s for s in loop.body.statements if isinstance(s, For)]
        last = {self.array_of[out]: s for s in inner for out in s.outs}
        for s in loop.body.statements:
            if s in self.steady:
                yield from self._before(s)
                continue
            if not isinstance(s, For):
                numbers.append(s)
                continue
            carried = [self.array_of[phi] for phi in s.phis]
            (counter,) = renewed(builder, [s.index])
            around = renewed(builder, s.phis)
            here: dict[Var, Atom] = dict(zip(versions, now, strict=True))
            with builder.block() as body:
                within = self._columns(s, numbers, counter, around, here)
                builder.emit(within)
                body.results = list(within.outs)
            outs = tuple(
                loop.outs[k] if last[k] is s else Var(phi.type, phi.name, phi.origin)
                for k, phi in zip(carried, s.phis, strict=True)
            )
            inits = tuple(now[k] for k in carried)
            yield derived(s, outs=outs, index=counter, phis=around, inits=inits, body=body)
            for k, out, old in zip(carried, outs, s.outs, strict=True):
                now[k], versions[k] = out, old

    def _before(self, s: Statement) -> list[Statement]:
        """The statements that compute an invariant scalar once, raising only if the loop runs."""
        if not isinstance(s, Apply) or not self.divides(s):
            return [s]
        with self.builder.block() as made:
            core.substitute(self.loop.body, {s.out: once(s, self.loop, self.builder)})
        return made.statements

    def _columns(
        self,
        s: For,
        numbers: list[Statement],
        counter: Var,
        around: tuple[Var, ...],
        here: dict[Var, Atom],
    ) -> For:
        """The outer loop as the new inner one: the loop in each iteration of ``s``."""
        loop = self.loop
        mapping: dict[Var, Atom] = {**here, s.index: counter}
        (index,) = renewed(self.builder, [loop.index], mapping)
        phis = renewed(self.builder, s.phis, mapping)
        old = Block([*numbers, *s.body.statements], s.body.results)
        body = cloned(self.builder, old, mapping)
        outs = renewed(self.builder, s.phis)
        start, stop, step = self._bounds()
        span = {"start": start, "stop": stop, "step": step, "scheduled": loop.scheduled}
        return derived(s, outs=outs, index=index, phis=phis, inits=around, body=body, **span)

    def _bounds(self) -> tuple[Atom, Atom, int]:
        """The outer loop's bounds, counting up if possible, since its order no longer matters."""
        loop, builder = self.loop, self.builder
        assert isinstance(loop.step, int)
        if loop.step == -1 and isinstance(loop.stop, int):
            try:
                end = size_at_hand(builder.dim_of(wrap(loop.start)) + 1)
            except BranchMismatch:
                return loop.start, loop.stop, -1
            return loop.stop + 1, atom(end), 1
        return loop.start, loop.stop, loop.step

