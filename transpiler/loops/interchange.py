"""Loop interchange: the loop that goes along rows of memory becomes the inner one.

A column of an array is spread over memory. Where no iteration of the outer loop touches an element
that another writes, each of its inner loops may become the outer one (Allen and Kennedy, Optimizing
Compilers for Modern Architectures, 2001, sections 5.2 and 8.3)::

    for j in range(n):                        for i in range(m):
        for i in range(m):                        for j in range(n):
            R[k, j] += Q[i, k] * A[i, j]              R[k, j] += Q[i, k] * A[i, j]
        for i in range(m):              ->    for i in range(m):
            A[i, j] -= Q[i, k] * R[k, j]          for j in range(n):
                                                      A[i, j] -= Q[i, k] * R[k, j]

Outermost loops are left alone, since they may run on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var, While
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.loops.accesses import (
    ElementIndex,
    element_index,
    is_element,
    steady_symbols,
)
from calque.transpiler.loops.code_motion import once
from calque.transpiler.loops.dependence_test import ANYWHERE, Access, dependence_distance
from calque.transpiler.loops.scalar_expansion import Expansion
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import getitem, update_add

Divides = Callable[[Statement], bool]


def interchange(function: Function, builder: Builder, divides: Divides) -> None:
    """Interchange the loops of a function where that pays, in place.

    ``divides``: whether a statement may raise ZeroDivisionError, which a zero-trip loop must not.
    """
    with builder.active():
        _within(function.body, builder, divides, False)


def _within(block: Block, builder: Builder, divides: Divides, looping: bool) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _within(inner, builder, divides, looping or isinstance(s, (For, While)))
        turned = _turned(s, builder, divides) if looping and isinstance(s, For) else None
        core.label_rest(turned or (), s.phase)
        made += [s] if turned is None else turned
    block.statements[:] = made


def _turned(s: For, builder: Builder, divides: Divides) -> list[Statement] | None:
    """The interchanged loops that replace ``s``, maybe after splitting its sums off; else None."""
    turned = _Columns(s, builder, divides).turned()
    if turned is not None:
        return turned
    split = Expansion(s, builder).split()
    if split is None:
        return None
    before, summing, rest = split
    turned = _Columns(summing, builder, divides).turned()
    return None if turned is None else [*before, *turned, rest]


_ALONG, _ACROSS = 1, 4  # the cost of an element


@dataclass(eq=False)
class _Columns:
    """An outer loop with its inner loops, and their accesses to the arrays that it carries."""

    loop: For
    builder: Builder
    divides: Divides
    array_of: dict[Var, int] = field(default_factory=dict)  # a version -> its array's phi
    accesses: list[tuple[For, Access]] = field(default_factory=list)
    steady: list[Statement] = field(default_factory=list)  # invariant scalars
    gain: int = 0  # cost of the accesses now, less that after interchange

    def turned(self) -> list[Statement] | None:
        """The interchanged loops that replace this one; None if it stays."""
        if not self._simple() or self.gain <= 0 or not self._independent():
            return None
        return list(self._written())

    def _simple(self) -> bool:
        """True if the body holds only element loops and scalars; collects their accesses."""
        loop = self.loop
        if loop.step not in (1, -1) or loop.index not in self.builder.dim_values:
            return False
        if not loop.phis or any(not phi.type.ndim for phi in loop.phis):
            return False
        if not any(isinstance(s, For) for s in loop.body.statements):
            return False
        own = {loop.index}  # variables that differ between iterations
        now: list[Atom] = list(loop.phis)
        self.array_of = {phi: k for k, phi in enumerate(loop.phis)}
        for s in loop.body.statements:
            match s:
                case For():
                    if not self._inner(s, own, now):
                        return False
                case Apply():
                    if any(a.type.ndim for a in (*s.args, *s.outs) if isinstance(a, Var)):
                        if not self._reads(s):
                            return False
                        own.update(s.outs)
                    elif own.isdisjoint(s.args):
                        self.steady.append(s)
                    elif self.divides(s):
                        return False  # in a zero-trip inner loop it would not raise
                    else:
                        own.update(s.outs)
                case _:
                    return False
        return all(r is v for r, v in zip(loop.body.results, now, strict=True))

    def _inner(self, s: For, own: set[Var], now: list[Atom]) -> bool:
        """True if ``s`` loops over elements, with invariant bounds; collects its accesses."""
        if s.index not in self.builder.dim_values or not {s.start, s.stop, s.step}.isdisjoint(own):
            return False
        if not all(isinstance(t, Apply) for t in s.body.statements):
            return False
        for init, phi in zip(s.inits, s.phis, strict=True):
            k = self.array_of.get(init) if isinstance(init, Var) else None
            if k is None or now[k] is not init:
                return False
            self.array_of[phi] = k
            now[k] = phi
        for number, t in enumerate(s.body.statements):
            assert isinstance(t, Apply)
            if not self._touches(s, number, t, now):
                return False
        for phi, out, result in zip(s.phis, s.outs, s.body.results, strict=True):
            k = self.array_of[phi]
            if now[k] is not result:
                return False
            self.array_of[out] = k
            now[k] = out
        return True

    def _reads(self, s: Apply) -> bool:
        """True if ``s`` reads an element of an array that the loop does not change: it may move."""
        arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
        if s.primitive is not getitem or arrays != [s.args[0]] or s.out.type.ndim:
            return False
        if not s.proven:
            return False  # in a zero-trip inner loop its index would go unchecked
        self.gain -= self._cost(element_index(s, self.builder), self.loop)
        return arrays[0] not in self.array_of

    def _cost(self, place: ElementIndex, inner: For) -> int:
        """The cost of an access with ``inner`` innermost: 0 if invariant, low if contiguous."""
        own = dim_symbols(self.builder.dim_values[inner.index])
        moving = [axis for axis, d in enumerate(place) if d is None or dim_symbols(d) & own]
        return 0 if not moving else _ALONG if moving == [len(place) - 1] else _ACROSS

    def _touches(self, inner: For, number: int, s: Apply, now: list[Atom]) -> bool:
        """Record the access of a statement; return False if it is not one of a single element."""
        arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
        if not arrays:
            return all(not out.type.ndim for out in s.outs)
        if not is_access(s) or arrays != [s.args[0]]:
            return False
        place = element_index(s, self.builder)
        each = 2 if s.primitive is update_add else 1
        self.gain += each * (self._cost(place, inner) - self._cost(place, self.loop))
        k = self.array_of.get(arrays[0])
        if k is not None and not self._followed(inner, place):
            return False
        if k is None:
            return s.primitive is getitem and not s.outs[0].type.ndim
        if now[k] is not arrays[0] or not is_element(s, self.builder):
            return False
        stores = s.primitive is not getitem
        adds = s.primitive is update_add
        self.accesses.append((inner, Access(k, place, number, stores, adds)))
        if stores:
            now[k] = s.outs[0]
            self.array_of[s.outs[0]] = k
        return True

    def _followed(self, inner: For, place: ElementIndex) -> bool:
        """True if an index depends only on the two counters and on loop-invariant sizes."""
        known = steady_symbols(self.loop, self.builder)
        known |= dim_symbols(self.builder.dim_values[inner.index])
        return all(dim_symbols(d) <= known for d in place if d is not None)

    def _independent(self) -> bool:
        """True if no outer iteration touches an element that another writes, except in sums.

        Accesses in the same iteration of an inner loop may depend on each other, since their order
        stays. So may accesses of an inner loop and those of a later inner loop.
        """
        counter = self.builder.dim_values[self.loop.index]
        for loop, a in self.accesses:
            for inner, b in self.accesses:
                if a.adds and b.adds:
                    continue
                if loop is inner and self._in_step(a, b, inner):
                    # interchanged, the inner iterations would be serial, unless they sum
                    apart = dependence_distance(a, b, counter, self.builder)
                    if apart in (None, 0) or (apart == ANYWHERE and self._is_sum(a, b, inner)):
                        continue
                    return False
                place = tuple(self._in_another_iteration(d, inner) for d in b.place)
                other = Access(b.array, place, b.position, b.writes, b.adds)
                apart = dependence_distance(a, other, counter, self.builder)
                if apart in (None, 0):
                    continue
                if loop is inner or not isinstance(apart, int):
                    return False
                if (apart * self.loop.step > 0) != (self._order(loop) < self._order(inner)):
                    return False
        return True

    def _is_sum(self, a: Access, b: Access, inner: For) -> bool:
        """True if the stores only add to the element that they overwrite.

        Nothing else may read the element, since interchange changes the order of the additions.
        """
        summed = set()  # reads of the element that a store overwrites
        for access in (a, b):
            s = inner.body.statements[access.position]
            assert isinstance(s, Apply)
            if access.writes and not access.adds:
                value = self.builder.definitions.get(s.args[1])
                if not isinstance(value, Apply) or value.primitive is not add:
                    return False
                read = [self.builder.definitions.get(v) for v in value.args]
                there = [r for r in read if isinstance(r, Apply) and self._reads_there(r, s)]
                if not there or self._uses(value, inner) > 1 or self._uses(there[0], inner) > 1:
                    return False
                summed.add(there[0])
        reads = [inner.body.statements[x.position] for x in (a, b) if not x.writes]
        return all(r in summed for r in reads)

    def _uses(self, s: Apply, inner: For) -> int:
        """The number of reads of a statement's result in one iteration of a loop."""
        return count_uses(inner.body, s.out)

    def _reads_there(self, read: Apply, store: Apply) -> bool:
        if read.primitive is not getitem or read.args[0] is not store.args[0]:
            return False
        return element_index(read, self.builder) == element_index(store, self.builder)

    def _order(self, inner: For) -> int:
        return self.loop.body.statements.index(inner)

    def _in_step(self, a: Access, b: Access, inner: For) -> bool:
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

    # the new loops

    def _written(self) -> Iterator[Statement]:
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

