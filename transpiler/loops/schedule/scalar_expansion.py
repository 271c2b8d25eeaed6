"""Scalar expansion: a sum of each iteration becomes a row of sums, to allow interchange.

A loop that sums in one inner loop and then uses the sums is split in two, with a row of sums
between them (Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001, sections 2.4
and 5.3: distribution, and scalar expansion)::

    for k in range(n):                        row = np.full(n, 0.0)
        total = 0.0                           for k in range(n):
        for i in range(m):                        for i in range(m):
            total += C[i] * A[i, k]    ->             row[k] += C[i] * A[i, k]
        B[k] += total * A[m, k]               for k in range(n):
                                                  B[k] += row[k] * A[m, k]

This is done only if ``interchange`` can then interchange the first of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.loops.accesses import (
    is_element,
    positive,
)
from calque.transpiler.loops.dependence import dependence_distance
from calque.transpiler.loops.nest import build_general
from calque.transpiler.loops.virtual_arrays import load, stored


@dataclass(eq=False)
class Expansion:
    """A loop with one inner loop, and the statements before and after it in the body."""

    loop: For
    builder: Builder
    before: list[Statement] = field(default_factory=list)  # the new statements before the loops
    rows: list[Var] = field(default_factory=list)

    def split(self) -> tuple[list[Statement], For, For] | Refused | None:
        """The statements that make the rows, the summing loop, and the rest, or the reason.

        None if no inner loop sums.
        """
        body = self.loop.body.statements
        inner = [s for s in body if isinstance(s, For)]
        sums = [k for s in inner for k, phi in enumerate(s.phis) if not phi.type.ndim]
        if len(inner) != 1 or not sums:
            return None
        at = body.index(inner[0])
        first, within, rest = body[:at], inner[0], body[at + 1 :]
        refused = self._unfit(first, within, rest) or self._late(rest)
        refused = refused or self._crossing(within) or self._make_rows(within, sums)
        if refused is not None:
            return refused
        summing = self._summing(first, within, sums)
        return self.before, summing, self._rest(first, within, rest, sums, summing)

    def _unfit(
        self, first: Sequence[Statement], within: For, rest: Sequence[Statement]
    ) -> Refused | None:
        """The reason unless the body computes scalars, then sums, then goes on."""
        loop, carried = self.loop, {*self.loop.phis}
        if loop.step not in (1, -1) or not rest:
            return Refused("it does not count by one, or only sums", (loop.origin,))
        if not {loop.index, within.index} <= self.builder.dim_values.keys():
            return Refused("the range of {0} is not known", (within.origin,))
        for s in (*within.body.statements, *first, *rest):
            if not isinstance(s, Apply):
                return Refused("{0} is a loop or a branch beside the sum", (s.origin,))
        numbers = {phi for phi in loop.phis if not phi.type.ndim}
        if not numbers.isdisjoint(core.free_vars(Block([*first, within], []))):
            return Refused("{0} uses a scalar of the iteration before", (within.origin,))
        for s in first:
            arrays = [a for a in core.operands(s) if isinstance(a, Var) and a.type.ndim]
            if any(o.type.ndim for o in s.outs) or not carried.isdisjoint(arrays):
                return Refused("{0} uses an array before the sum", (s.origin,))
        for init, phi in zip(within.inits, within.phis, strict=True):
            known = isinstance(init, Var) and init in carried
            if not (known if phi.type.ndim else isinstance(init, np.generic) and not phi.type.weak):
                return Refused("{0} begins with what an iteration computes", (within.origin,))
        return None

    def _late(self, rest: Sequence[Statement]) -> Refused | None:
        """The reason if a statement after the sum uses more than elements of arrays."""
        for s in rest:
            assert isinstance(s, Apply)
            arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
            if not arrays and not any(o.type.ndim for o in s.outs):
                continue
            if not arrays or not (is_access(s) and arrays == [s.args[0]]):
                return Refused("{0} uses a whole array after the sum", (s.origin,))
            if not is_element(s, self.builder):
                return Refused("{0} uses more than an element at a known index", (s.origin,))
        return None

    def _crossing(self, within: For) -> Refused | None:
        """The reason if an iteration's sums touch an element that another's rest accesses.

        Elements that both only add to do not count.
        """
        nest = build_general(self.loop, self.builder)
        if isinstance(nest, Refused):
            return nest
        followed = nest.counters([self.loop, within]) | nest.invariant()
        accesses = [a.known_by(followed) for a in nest.accesses]
        counter = self.builder.dim_values[self.loop.index]
        for a in (a for a in accesses if a.loops[-1] is within):
            for b in (b for b in accesses if b.loops[-1] is self.loop and not (a.adds and b.adds)):
                if dependence_distance(a, b, counter, self.builder) not in (None, 0):
                    said = "the sum of {0} and {1} touch one element in different iterations"
                    return Refused(said, (a.statement.origin, b.statement.origin))
        return None

    def _make_rows(self, within: For, sums: Sequence[int]) -> Refused | None:
        """Make rows of the sums' initial values, one element per iteration; or the reason."""
        loop, builder = self.loop, self.builder
        with builder.block() as made, builder.at(loop.origin):
            if loop.step == 1:
                low, size = wrap(loop.start), wrap(loop.stop)
            else:
                low, size = wrap(loop.stop) + 1, wrap(loop.start) + 1
            many = builder.dims.resolve(builder.dim_of(size))
            if not positive(builder.dim_of(low) + 1, builder) or not builder.dims.nonnegative(many):
                return Refused("its range may be below zero", (loop.origin,))
            for k in sums:
                row = FUNCTIONS[np.full]((size,), within.inits[k], within.phis[k].type.dtype).atom
                row.name = within.phis[k].name and f"{within.phis[k].name}_row"
                self.rows.append(row)
        self.before = made.statements
        return None

    def _summing(self, first: Sequence[Statement], within: For, sums: Sequence[int]) -> For:
        """The first loop, whose inner loop adds to the rows."""
        loop, builder = self.loop, self.builder
        (index,) = renewed(builder, [loop.index])
        carried = dict(zip(loop.phis, loop.inits, strict=True))
        started = [i for k, i in enumerate(within.inits) if k not in sums and isinstance(i, Var)]
        inits = [*[carried[i] for i in started], *self.rows]
        phis = renewed(builder, (*started, *self.rows))
        inner_phis = renewed(builder, phis)
        n = len(started)
        mapping: dict[Var, Atom] = {**carried, loop.index: index}
        kept = cloned(builder, Block(list(first), []), mapping)
        arrays = [p for k, p in enumerate(within.phis) if k not in sums]
        mapping.update(zip(arrays, inner_phis[:n], strict=True))
        (counter,) = renewed(builder, [within.index], mapping)
        with builder.block() as body, builder.at(within.origin):
            totals = [load(Array(phi), [Array(index)]) for phi in inner_phis[n:]]
            mapping.update({within.phis[k]: t.atom for k, t in zip(sums, totals, strict=True)})
            old = cloned(builder, within.body, mapping)
            body.statements += old.statements
            results = [r for k, r in enumerate(old.results) if k not in sums]
            for k, phi in zip(sums, inner_phis[n:], strict=True):
                results.append(stored(Array(phi), wrap(old.results[k]), [Array(index)]).atom)
            body.results = results
        outs = renewed(builder, phis)
        ends = within.start, within.stop
        start, stop = (mapping.get(a, a) if isinstance(a, Var) else a for a in ends)
        parts = {"phis": inner_phis, "inits": phis, "body": body}
        nest = derived(within, outs=outs, index=counter, start=start, stop=stop, **parts)
        builder.note(nest)
        around = Block([*kept.statements, nest], [*outs])
        parts = {"phis": phis, "inits": tuple(inits), "body": around, "scheduled": True}
        return derived(loop, outs=renewed(builder, phis), index=index, **parts)

    def _rest(
        self,
        first: Sequence[Statement],
        within: For,
        rest: Sequence[Statement],
        sums: Sequence[int],
        summing: For,
    ) -> For:
        """The second loop, which uses the sums."""
        loop, builder = self.loop, self.builder
        (index,) = renewed(builder, [loop.index])
        arrays = [k for k in range(len(within.phis)) if k not in sums]
        after: dict[Atom, Var] = {}  # a phi -> its value after the first loop
        for k, out in zip(arrays, summing.outs, strict=False):
            after[within.inits[k]] = out
        inits = tuple(after.get(p, i) for p, i in zip(loop.phis, loop.inits, strict=True))
        mapping: dict[Var, Atom] = {loop.index: index}
        phis = renewed(builder, loop.phis, mapping)
        for k in arrays:
            init = within.inits[k]
            assert isinstance(init, Var)
            mapping[within.outs[k]] = mapping[init]
        with builder.block() as body, builder.at(within.origin):
            for k, row in zip(sums, summing.outs[len(arrays) :], strict=True):
                total = load(Array(row), [Array(index)])
                total.atom.name = within.outs[k].name
                mapping[within.outs[k]] = total.atom
            old = cloned(builder, Block([*first, *rest], loop.body.results), mapping)
            body.statements += old.statements
            body.results = old.results
        made = derived(loop, index=index, phis=phis, inits=inits, body=body, scheduled=True)
        builder.note(made)
        return made
