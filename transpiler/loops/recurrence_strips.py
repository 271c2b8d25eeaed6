"""Vectorize independent recurrences across rows, in strips of rows.

Before, each row is a sequential recurrence::

    for i in range(n):
        p[i, 0] = 0.0
        for j in range(1, m):
            p[i, j] = 0.25 / (1.5 - 0.25 * p[i, j - 1])

After::

    for strip in range((n + 63) // 64):
        first = strip * 64
        last = min(first + 64, n)
        for i in range(first, last):
            p[i, 0] = 0.0
        for j in range(1, m):
            for i in range(first, last):
                p[i, j] = 0.25 / (1.5 - 0.25 * p[i, j - 1])

Only for arrays that fit into the cache: for larger ones, going along rows is faster. A strip is so
short that its columns stay in the first-level cache from one iteration of ``j`` to the next. Rows
may add to the same elements. This is outer-loop vectorization by strip-mining: Allen and Kennedy,
Optimizing Compilers for Modern Architectures, 2001, section 5.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var, While
from calque.transpiler.ir.dead_code import prune
from calque.transpiler.ir.effects import is_access, is_indexed_store
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned, derived, emit_loop, renewed
from calque.transpiler.loops.carried_dependences import of_numbers
from calque.transpiler.loops.nest import build_general, last_versions
from calque.transpiler.loops.parallelize import of_arrays, upward
from calque.transpiler.loops.schedule.parts import strip_mine
from calque.transpiler.primitives.indexing import getitem

STRIP = 64  # rows
IN_CACHE = 1 << 17  # elements of a nest, up to which strips are faster for any stride
_FEWEST = 8  # rows for which vectors pay
Refuses = Callable[[Statement], bool]


def strip_recurrences(
    function: Function, builder: Builder, compiles: Refuses, refuses: Refuses, divides: Refuses
) -> None:
    """Strip-mine and interchange such loops of kernels, in place.

    ``refuses``: whether a statement may raise; ``divides``: whether it may raise ZeroDivisionError.
    """

    def visit(block: Block, compiled: bool) -> None:
        for s in list(block.statements):
            inner = compiled or (isinstance(s, (For, While)) and compiles(s))
            if inner and isinstance(s, For):
                nest = _Recurrences(s, builder)
                refused = nest.refused() or _may_raise(s, refuses, divides)
                if refused is None:
                    applied(builder, "strip_recurrences", s)
                    at = block.statements.index(s)
                    block.statements[at : at + 1] = made = nest.turned()
                    label_rest(made, s.phase)
                    continue
                missed(builder, "strip_recurrences", s, refused)
            for body in core.blocks_of(s):
                visit(body, inner)

    with builder.active():
        visit(function.body, False)


def _may_raise(loop: For, refuses: Refuses, divides: Refuses) -> Refused | None:
    found = next((s for s in core.walk(loop.body) if refuses(s) or divides(s)), None)
    return Refused("{0} may raise an error", (found.origin,)) if found else None


@dataclass(eq=False)
class _Recurrences:
    """A loop over rows, and the loops along the rows in its body."""

    loop: For
    builder: Builder
    numbers: list[Apply] = field(default_factory=list)  # scalars that an iteration computes
    steady: list[Apply] = field(default_factory=list)  # scalars that are loop-invariant

    def refused(self) -> Refused | None:
        """The reason if rows are dependent, or no loop along a row is a recurrence."""
        loop = self.loop
        inner = [s for s in loop.body.statements if isinstance(s, For)]
        refused = self._unfit(inner)
        refused = refused or next(filter(None, map(self._no_piece, loop.body.statements)), None)
        if refused is not None:
            return refused
        if not any(map(self._dependent, inner)):  # these vectorize as they are, or distributed
            return Refused("no loop in it is a recurrence along its row")
        refused = self._dependent(loop)
        return refused or next(filter(None, map(self._leaves_cache, inner)), None)

    def _unfit(self, inner: list[For]) -> Refused | None:
        """The reason if the loop itself is not a loop over rows."""
        loop = self.loop
        if not inner:
            return Refused("it holds no loop")
        if loop.step not in (1, -1) or loop.index not in self.builder.dim_values:
            return Refused("it does not count by one")
        if not loop.phis or any(not phi.type.ndim for phi in loop.phis):
            return Refused("it carries a scalar, or no array")
        if self._is_short():
            return Refused(f"it has fewer than {_FEWEST} rows, for which vectors do not pay")
        return None

    def _leaves_cache(self, inner: For) -> Refused | None:
        """The reason if the nest has so many iterations that going across rows leaves the cache."""
        dim_of, dims = self.builder.dim_of, self.builder.dims
        sizes = [
            s.step * (dim_of(wrap(s.stop)) - dim_of(wrap(s.start))) for s in (self.loop, inner)
        ]
        if dims.are_small(tuple(map(dims.resolve, sizes)), IN_CACHE):
            return None
        return Refused("the rows of {0} may be too large for the cache", (inner.origin,))

    def _is_short(self) -> bool:
        """True if the call at hand has too few rows for vectors to pay."""
        dims = self.builder.dims
        start, stop = (self.builder.dim_of(wrap(end)) for end in (self.loop.start, self.loop.stop))
        rows = dims.of_arguments(dims.resolve(self.loop.step * (stop - start)), dims.actual)
        return isinstance(rows, int) and rows < _FEWEST

    def _no_piece(self, s: Statement) -> Refused | None:
        """The reason if ``s`` is no store, scalar or loop over elements; collects scalars."""
        own = {self.loop.index, *(n.out for n in self.numbers)}
        if isinstance(s, For):
            return self._no_element_loop(s, own)
        refused = _no_element(s)
        if refused is not None or is_indexed_store(s):
            return refused
        assert isinstance(s, Apply)
        if own.isdisjoint(a for a in s.args if isinstance(a, Var)) and s.primitive is not getitem:
            self.steady.append(s)
            return None
        self.numbers.append(s)
        inside = core.defined_vars(self.loop.body) | {*self.loop.phis}
        if any(a.type.ndim and a in inside for a in s.args if isinstance(a, Var)):
            return Refused("{0} reads an array that the loop changes", (s.origin,))
        return None

    def _no_element_loop(self, s: For, own: set[Var]) -> Refused | None:
        """The reason if ``s`` is no loop over elements that is alike in all rows."""
        if s.index not in self.builder.dim_values or s.step not in (1, -1):
            return Refused("{0} does not count by one", (s.origin,))
        if not own.isdisjoint(a for a in core.operands(s) if isinstance(a, Var)):
            return Refused("the range of {0} depends on the outer counter", (s.origin,))
        if not s.phis or any(not phi.type.ndim for phi in s.phis):
            return Refused("{0} carries a scalar, or no array", (s.origin,))
        return next(filter(None, map(_no_element, s.body.statements)), None)

    def _dependent(self, loop: For) -> Refused | None:
        """The reason if an iteration depends on another, other than by additions to one element."""
        nest = build_general(loop, self.builder)
        added = set() if isinstance(nest, Refused) else nest.only_added_to()
        phis = {loop.phis[k] for k in added}
        verdict = of_numbers(loop) or of_arrays(loop, self.builder, phis)
        return None if verdict.parallel else Refused(verdict.words, verdict.statements)

    # the new loops

    def turned(self) -> list[Statement]:
        """The loop over strips, after the statements that compute its bounds."""
        loop, builder = self.loop, self.builder
        alone = of_arrays(loop, builder).parallel
        before = upward(loop, builder)
        with builder.block() as made, builder.at(loop.origin):
            for s in self.steady:
                builder.emit(s)
            strips = strip_mine(loop.start, loop.stop, STRIP, "strip", builder)
            with builder.block() as body:
                body.statements += strips.bounds
                phis = tuple(phi.again() for phi in loop.phis)
                now: dict[Var, Atom] = dict(zip(loop.phis, phis, strict=True))
                for piece in self._pieces():
                    self._write(piece, strips.ends, now)
                body.results = [now.get(r, r) for r in loop.body.results]
            emit_loop(
                *(builder, strips.counter, (0, strips.count, 1), phis, loop.inits, body, loop.outs),
                scheduled=loop.scheduled,
                parallel=alone and strips.count != 1,
            )
        return [*before, *made.statements]

    def _pieces(self) -> list[list[Statement]]:
        """The body in pieces: each loop along rows, and each group of stores between loops."""
        found: list[list[Statement]] = []
        for s in self.loop.body.statements:
            if s in self.numbers or s in self.steady:
                continue
            if isinstance(s, For) or not found or isinstance(found[-1][-1], For):
                found.append([])
            found[-1].append(s)
        return found

    def _write(
        self, piece: list[Statement], bounds: tuple[Atom, Atom], now: dict[Var, Atom]
    ) -> None:
        """Emit a piece for one strip; ``now`` maps old versions of arrays to new ones."""
        s, builder = piece[0], self.builder
        if not isinstance(s, For):
            self._emit_rows(piece, [*last_versions(piece).items()], bounds, now)
            return
        (index,), phis = renewed(builder, [s.index]), renewed(builder, s.phis)
        inits = tuple(now.get(i, i) for i in s.inits)
        inside = {**now, s.index: index, **dict(zip(s.phis, phis, strict=True))}
        chains = list(zip(s.phis, s.body.results, strict=True))
        with builder.block() as body:
            self._emit_rows(s.body.statements, chains, bounds, inside)
            body.results = [inside[r] for r in s.body.results]
        outs = renewed(builder, s.outs)
        builder.emit(derived(s, outs=outs, index=index, phis=phis, inits=inits, body=body))
        now.update(zip(s.outs, outs, strict=True))

    def _emit_rows(
        self,
        statements: list[Statement],
        chains: list[tuple[Var, Atom]],
        bounds: tuple[Atom, Atom],
        now: dict[Var, Atom],
    ) -> None:
        """Emit a loop over the rows of a strip with these statements in it."""
        builder, loop = self.builder, self.loop
        mapping = dict(now)
        (index,) = renewed(builder, [loop.index], mapping)
        phis = renewed(builder, [first for first, _ in chains], mapping)
        old = Block([*self.numbers, *statements], [r for _, r in chains])
        body = cloned(builder, old, mapping)
        prune(body, {r for r in body.results if isinstance(r, Var)})
        outs = renewed(builder, [first for first, _ in chains])
        inits = [now.get(first, first) for first, _ in chains]
        emit_loop(
            *(builder, index, (*bounds, 1), phis, inits, body, outs),
            origin=statements[0].origin,
            scheduled=loop.scheduled,
        )
        now.update((last, out) for (_, last), out in zip(chains, outs, strict=True))


def _no_element(s: Statement) -> Refused | None:
    """The reason if ``s`` has array operands, or accesses more than one element in bounds."""
    if not isinstance(s, Apply) or len(s.outs) != 1:
        return Refused("{0} is a branch or a loop of its own", (s.origin,))
    numbers = (s.out, *s.args)
    if is_access(s):
        if not s.proven:
            return Refused("{0} has an index that is not proven to be in bounds", (s.origin,))
        numbers = s.args[1:] if is_indexed_store(s) else (*s.args[1:], s.out)
    if any(a.type.ndim for a in numbers if isinstance(a, Var)):
        return Refused("{0} uses more than one element", (s.origin,))
    return None
