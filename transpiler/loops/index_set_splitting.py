"""Split an inner loop where its counter equals the outer one; hoist the rest as a row.

A Jacobian by columns goes over the elements of an identity matrix::

    for i in range(n):
        for j in range(n):
            H[i, j] = (1.0 if i == j else 0.0) * (1.0 - y[j] * y[j])

Off the band of equal counters, all iterations of ``i`` compute the same row, so it is computed once
(index-set splitting: Banerjee, Loop Transformations for Restructuring Compilers, 1993). Factors of
zero are still computed, because they may be infinite::

    for j in range(n):
        row[j] = 0.0 * (1.0 - y[j] * y[j])
    for i in range(n):
        for j in range(i):
            H[i, j] = row[j]
        for j in range(i, i + 1):
            H[i, j] = (1.0 if i == j else 0.0) * (1.0 - y[j] * y[j])
        for j in range(i + 1, n):
            H[i, j] = row[j]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var, While
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import emit_fold, renewed
from calque.transpiler.loops.accesses import element_index, same_index
from calque.transpiler.loops.bounds import is_inside_without_iterations
from calque.transpiler.loops.fusion_groups import weight
from calque.transpiler.loops.schedule.parts import ends_loop, part
from calque.transpiler.loops.virtual_arrays import load, stored
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.elementwise import add, where
from calque.transpiler.primitives.extrema import maximum, minimum
from calque.transpiler.primitives.indexing import getitem
from calque.transpiler.primitives.logic import equal

_WIDEST = 8  # elements of a band
_LEAST = 4  # cost, in additions, that a row must save for each element


def split_index_set(
    function: Function,
    builder: Builder,
    compiles: Callable[[Statement], bool],
    divides: Callable[[Statement], bool],
) -> None:
    """Split inner loops that compare their counter with the outer one, in place.

    ``divides``: whether a statement may raise ZeroDivisionError; it is not hoisted into a row.
    """

    def visit(block: Block, compiled: bool) -> None:
        for s in list(block.statements):
            inner = compiled or (isinstance(s, (For, While)) and compiles(s))
            if inner and isinstance(s, For):
                DiagonalBand(s, builder, divides).split(block)
            for body in core.blocks_of(s):
                visit(body, inner)

    with builder.active():
        visit(function.body, False)


@dataclass(eq=False)
class DiagonalBand:
    """A loop whose inner loops compare their counters with its own."""

    loop: For
    builder: Builder
    divides: Callable[[Statement], bool]
    inside: set[Var] = field(default_factory=set)  # variables that the loop defines
    before: list[Statement] = field(default_factory=list)  # the statements that compute the rows
    saved: int = 0  # cost saved for each element, in additions
    bounds: dict[tuple[Atom, ...], Atom] = field(default_factory=dict)  # of bands
    limits: list[Statement] = field(default_factory=list)  # the statements that compute the bounds

    def split(self, around: Block) -> None:
        """Rewrite the loop's body, and compute the rows before the loop, if that saves enough."""
        body = self.loop.body
        self.inside = {self.loop.index, *self.loop.phis, *core.defined_vars(body)}
        made: list[Statement] = []
        refused = Refused("it holds no loop")
        for s in body.statements:
            if isinstance(s, For):
                met = self._met(s)
                if not isinstance(met, Refused):
                    made += self._parts(s, met)
                    said = "too little of {0} is the same in all its iterations"
                    refused = Refused(said, (s.origin,))
                    continue
                refused = met
            made.append(s)
        if self.saved < _LEAST:
            missed(self.builder, "split_index_set", self.loop, refused)
            return
        applied(self.builder, "split_index_set", self.loop)
        body.statements[:] = self.limits + made
        at = around.statements.index(self.loop)
        around.statements[at:at] = self.before

    def _met(self, inner: For) -> dict[Var, int] | Refused:
        """Map each comparison of both counters to its offset: ``inner = outer + offset``."""
        values, resolve, here = self.builder.dim_values, self.builder.dims.resolve, (inner.origin,)
        if inner.step != 1 or not isinstance(inner.start, int) or inner.start < 0:
            return Refused("{0} does not count by one from a known number", here)
        if inner.stop in self.inside:
            return Refused("the range of {0} depends on the outer counter", here)
        if self.loop.index not in values or inner.index not in values:
            return Refused("the range of {0} is not known", here)
        if not all(isinstance(s, Apply) for s in inner.body.statements):
            return Refused("{0} holds a loop or a branch", here)
        mine, its = resolve(values[self.loop.index]), resolve(values[inner.index])
        found: dict[Var, int] = {}
        for s in inner.body.statements:
            if not isinstance(s, Apply) or s.primitive is not equal:
                continue
            if not all(isinstance(a, Var) and a in values for a in s.args):
                continue
            left, right = (resolve(values[a]) for a in s.args)
            added = right - its if left == mine else left - its if right == mine else None
            if isinstance(added, int):
                found[s.out] = added
        if not found:
            return Refused("{0} does not compare its counter with the outer one", here)
        if max(found.values()) - min(found.values()) >= _WIDEST:
            return Refused(f"{{0}} compares counters in a band of {_WIDEST} elements or more", here)
        return found

    def _parts(self, inner: For, met: dict[Var, int]) -> list[For]:
        """The inner loop as three: before the band, along it, and after it."""
        rows: dict[Var, Var] = {}
        away = self._again(inner.body, dict.fromkeys(met, False), set(met))
        self.inside |= core.defined_vars(away)
        for value in self._worth(away, inner.index):
            rows[value] = self._row(value, away, inner)
        low, high = self._band(met, inner)
        made: list[For] = []
        ends: Sequence[Atom] = inner.inits
        for start, stop in ((inner.start, low), (low, high), (high, inner.stop)):
            band = start is low
            if not band and self._adds_nothing(away, inner):
                continue
            source, known = (inner.body, {}) if band else (away, rows)
            made.append(self._part(inner, (start, stop), ends, source, known))
            ends = made[-1].outs
        ends_loop(inner, made[-1], self.builder)
        return made

    def _band(self, met: dict[Var, int], inner: For) -> tuple[Atom, Atom]:
        """The range of the inner counter in which some comparison may hold: start and stop."""
        return (
            self._within(-max(met.values()), inner, "band"),
            self._within(1 - min(met.values()), inner, "band_end"),
        )

    def _within(self, offset: int, inner: For, name: str) -> Atom:
        """The outer counter plus ``offset``, clamped to the bounds of the inner loop."""
        key = offset, inner.start, inner.stop
        if key not in self.bounds:
            with self.builder.block() as made, self.builder.at(inner.origin):
                index = wrap(self.loop.index) + offset if offset else wrap(self.loop.index)
                least = apply(minimum, index, wrap(inner.stop))
                found = apply(maximum, least, wrap(inner.start))
                found.atom.name = name
            self.limits += made.statements
            self.bounds[key] = found.atom
        return self.bounds[key]

    def _adds_nothing(self, away: Block, inner: For) -> bool:
        """True if, off the band, the loop only adds 0 to an array of zeros, none of them -0.0."""
        stores = [s for s in away.statements if isinstance(s, Apply) and s.out.type.ndim]
        if len(stores) != 1 or len(inner.phis) != 1 or away.results != [stores[0].outs[0]]:
            return False
        (store,) = stores
        added = self.builder.definitions.get(store.args[1])
        if not isinstance(added, Apply) or added.primitive is not add:
            return False
        read, zero = (self.builder.definitions.get(a) if isinstance(a, Var) else a
                      for a in added.args)
        if not isinstance(read, Apply) or isinstance(zero, Apply) or zero is None or zero != 0:
            return False
        same = read.primitive is getitem and read.args[0] is inner.phis[0]
        if not same:
            return False
        if not same_index(element_index(read, self.builder), element_index(store, self.builder)):
            return False
        if inner.inits[0] not in self.loop.phis or not self.loop.parallel:
            return False
        start = self.loop.inits[self.loop.phis.index(inner.inits[0])]
        filled = self.builder.definitions.get(start) if isinstance(start, Var) else None
        return isinstance(filled, Apply) and filled.primitive.filled_with == 0

    def _part(
        self,
        inner: For,
        bounds: tuple[Atom, Atom],
        inits: Sequence[Atom],
        source: Block,
        rows: dict[Var, Var],
    ) -> For:
        """The loop over a part of its range; values that have a row are read from it."""
        (counter,) = renewed(self.builder, [inner.index])

        def write(mapping: dict[Var, Atom]) -> Block:
            with self.builder.block() as read, self.builder.at(inner.origin):
                for value, row in rows.items():
                    found = load(Array(row), [Array(counter)])
                    found.atom.name = value.name
                    mapping[value] = found.atom
            body = self._again(source, mapping, set(rows))
            body.statements[:0] = read.statements
            _drop_unread(body)
            return body

        made = part(inner, counter, bounds, inits, write, self.builder)
        made.parallel, made.vector = inner.parallel, inner.vector
        return made

    def _again(self, body: Block, mapping: dict[Var, Atom], known: set[Var]) -> Block:
        """A copy of a body with constants folded, without the statements that compute ``known``."""
        made: list[Statement] = []
        values = self.builder.dim_values
        for s in body.statements:
            assert isinstance(s, Apply)
            if not known.isdisjoint(s.outs):
                continue
            args = [mapping.get(a, a) if isinstance(a, Var) else a for a in s.args]
            folded = _folded(s, args)
            if folded is not None:
                mapping[s.out] = folded
                continue
            outs = tuple(o.again() for o in s.outs)
            new = Apply(outs, s.primitive, tuple(args), s.params, s.origin, s.proven)
            mapping.update(zip(s.outs, outs, strict=True))
            values.update((o, values[b]) for b, o in zip(s.outs, outs) if b in values)
            self.builder.definitions.update(dict.fromkeys(outs, new))
            made.append(new)
        return Block(made, [mapping.get(a, a) if isinstance(a, Var) else a for a in body.results])

    # rows

    def _worth(self, away: Block, counter: Var) -> list[Var]:
        """The values that are equal in all iterations of the outer loop and cost enough to keep."""
        steady: dict[Var, Apply] = {}
        for s in [*self.loop.body.statements, *away.statements]:
            if isinstance(s, Apply) and _is_pure(s) and self._does_not_raise(s):
                known = (a in steady or a is counter or a not in self.inside for a in _vars(s.args))
                mine = (a in steady or a is counter for a in _vars(s.args))
                if all(known) and (any(mine) or s in self.loop.body.statements):
                    steady[s.out] = s
        own = {s.outs[0] for s in away.statements if s.outs[0] in steady}
        read = {a for s in away.statements if s.outs[0] not in steady for a in core.operands(s)}
        found = [v for v in own if v in read or v in away.results]
        self.steady = steady
        kept = []
        for value in sorted(found, key=lambda v: away.statements.index(steady[v])):
            saved = sum(weight(s) for s in self._chain(value))
            if saved > 1:
                kept.append(value)
                self.saved += saved
        return kept

    def _does_not_raise(self, s: Apply) -> bool:
        """True if ``s`` raises nothing even when hoisted out of a zero-trip loop."""
        if self.divides(s):
            return False
        if s.primitive is not getitem:
            return True
        return is_inside_without_iterations(s, self.loop, self.builder)

    def _chain(self, value: Var) -> list[Apply]:
        """The hoistable statements that compute a value, in order."""
        needed: set[Var] = {value}
        found: list[Apply] = []
        for out, s in reversed(self.steady.items()):
            if out in needed:
                found.append(s)
                needed.update(_vars(s.args))
        return found[::-1]

    def _row(self, value: Var, away: Block, inner: For) -> Var:
        """An array of ``value`` at each inner iteration, filled before the outer loop."""
        builder = self.builder
        with builder.block() as made, builder.at(inner.origin):
            size = wrap(inner.stop)
            if not builder.dims.nonnegative(builder.dims.resolve(builder.dim_of(size))):
                size = apply(maximum, size, 0)  # a zero-trip loop must not ask for -1 elements
            start = apply(empty, size, dtype=value.type.dtype)
            row = start.atom
            row.name = f"{value.name}_row" if value.name else "row"
            last = builder.dim_of(wrap(inner.stop)) - 1
            counter = loop_index(0, last, inner.index.name)
            chain = Block([*self._chain(value)], [value])
            found = self._again(chain, {inner.index: counter.atom}, set())

            def step(phi: Var) -> list[Array]:
                builder.blocks[-1].statements += found.statements
                return [stored(Array(phi), wrap(found.results[0]), [counter])]

            span = inner.start, inner.stop, 1
            loop = emit_fold(
                *(builder, counter.atom, span, [row], step), scheduled=True, parallel=True
            )
            loop.vector = True
        self.before += made.statements
        return loop.outs[0]


def _folded(s: Apply, args: Sequence[Atom]) -> Atom | None:
    """The result of an operation whose operands are constants; None for other operands."""
    kind = s.out.type.dtype.type
    if s.primitive is where and not isinstance(args[0], Var):
        chosen = args[1] if args[0] else args[2]
        if isinstance(chosen, Var):
            return chosen if chosen.type.dtype == s.out.type.dtype else None
        return kind(chosen)
    if s.primitive.kind != "elementwise" or any(isinstance(a, Var) for a in args):
        return None
    found = apply(s.primitive, *args, **s.params)
    return found if s.out.type.weak else kind(found)


def _is_pure(s: Apply) -> bool:
    """True if an operation returns one scalar and has no side effect, so that it may be moved."""
    if len(s.outs) != 1 or s.out.type.ndim or s.primitive.fresh:
        return False
    if s.primitive is getitem:
        return s.proven and not any(a.type.ndim for a in _vars(s.args[1:]))
    return s.primitive.kind == "elementwise" or s.primitive is where


def _drop_unread(body: Block) -> None:
    """Remove the statements whose results are not read."""
    needed = set(_vars(body.results))
    kept: list[Statement] = []
    for s in reversed(body.statements):
        if not needed.isdisjoint(s.outs):
            kept.append(s)
            needed.update(_vars(list(core.operands(s))))
    body.statements[:] = kept[::-1]


def _vars(atoms: Sequence[Atom]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var)]
