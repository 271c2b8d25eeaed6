"""Move loops over elements out of a sequential loop, if the elements do not depend on each other.

Before, each iteration of ``k`` goes through all memory, and reads columns across it::

    for k in range(levels):
        for i in range(n):
            for j in range(m):
                v[i, j, k] = v[i, j, k - 1] * a[i, j]
        for i in range(n):
            ...

After, a row stays in the cache through all iterations of ``k``, and threads start once::

    for i in range(n):
        for k in range(levels):
            for j in range(m):
                v[i, j, k] = v[i, j, k - 1] * a[i, j]
            ...

Loops over single elements are strip-mined instead, so that they still run in vectors::

    for part in range((n + 1023) // 1024):
        first = 1024 * part
        last = min(first + 1024, n)
        for _ in range(steps):
            for i in range(first, last):
                x[i] = x[i] + dt * v[i]

See Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001, sections 6.2.4 (shifting
parallel loops outward) and 5.8 (strips of vectors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.effects import is_access, is_indexed_store, is_size
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.loops.accesses import element_index
from calque.transpiler.loops.code_motion import Done, done_before
from calque.transpiler.loops.parallelize import judged
from calque.transpiler.loops.schedule.parts import strip_mine
from calque.transpiler.loops.schedule.privatization import privatize
from calque.transpiler.primitives.indexing import getitem

PART = 1024  # elements of a strip, which goes through all iterations
Refuses = Callable[[Statement], bool]
# writes a loop over elements
ElementLoopWriter = Callable[[For, Var, dict[Var, Atom]], list[Statement]]


def interchange_outward(
    function: Function, builder: Builder, refuses: Refuses, divides: Refuses
) -> None:
    """Move the element loops of a function outward where that is legal and pays, in place.

    ``refuses``: whether a statement may raise. ``divides``: whether it may raise ZeroDivisionError,
    which iterations raise even if there are no elements.
    """
    with builder.active():
        _within(function.body, builder, (refuses, divides), [])


def _within(
    block: Block,
    builder: Builder,
    raising: tuple[Refuses, Refuses],
    known: list[Done],
) -> None:
    made: list[Statement] = []
    for place, s in enumerate(block.statements):
        interchanged = None
        if isinstance(s, For) and not s.scheduled:
            later = Block(block.statements[place + 1 :], block.results)
            nest = _Interchange(s, builder, *raising, core.free_vars(later), known)
            interchanged = nest.interchanged()
        if interchanged is None:
            for inner in core.blocks_of(s):
                _within(inner, builder, raising, list(known))
            interchanged = [s]
        else:
            label_rest(interchanged, s.phase)
        made += interchanged
    block.statements[:] = made


@dataclass(eq=False)
class _Interchange:
    """A loop of the user's, and the loops over elements in its body."""

    loop: For
    builder: Builder
    refuses: Refuses
    divides: Refuses
    later: dict[Var, None]  # variables read after the loop
    known: list[Done]  # divisions that loops before this one did
    element_loops: list[For] = field(default_factory=list)
    bounds: tuple[Atom, Atom] = (0, 0)  # of the loops over elements
    counters: dict[str, DimLike] = field(default_factory=dict)  # the dimensions of theirs in copies

    def interchanged(self) -> list[Statement] | None:
        """The statements that replace the loop; None if it stays."""
        loop, builder = self.loop, self.builder
        before: list[Statement] = []
        found: list[Statement] | Refused | None = self._unfit_results() or self._irregular()
        found = found or _old_version(loop.body, set())
        if found is None:
            before = done_before(loop, builder, self.divides, self.known)
            found = self._divides() or self._around_all()
        if isinstance(found, Refused):
            missed(builder, "interchange_outward", loop, found)
            return [*before, loop] if before else None
        applied(builder, "interchange_outward", loop)
        return [*before, *found]

    def _unfit_results(self) -> Refused | None:
        """The reason if the loop carries no array, or a number that is read after it."""
        outs, origin = self.loop.outs, self.loop.origin
        numbers = [out for out in outs if not out.type.ndim]
        if len(numbers) == len(outs):
            return Refused("it carries no array")
        read = next((out for out in numbers if out in self.later), None)
        if read is None:
            return None
        return Refused(f"{read.name or 'a number'} of {{0}} is read after it", (origin,))

    def _divides(self) -> Refused | None:
        """The reason if a statement between the element loops may divide by zero."""
        statements = self._outside_element_loops(self.loop.body)
        found = next(filter(self.divides, statements), None)
        return Refused("{0} may divide by zero", (found.origin,)) if found else None

    def _outside_element_loops(self, block: Block) -> Iterator[Statement]:
        """Yield the statements of a block at any depth, but not those inside the element loops."""
        for s in block.statements:
            yield s
            if s not in self.element_loops:
                for inner in core.blocks_of(s):
                    yield from self._outside_element_loops(inner)

    def _around_all(self) -> list[Statement] | Refused:
        """The loop over rows or strips with the user's loop inside, or the reason against it."""
        with self.builder.block() as made, self.builder.at(self.loop.origin):
            rows = self._rows()
            if isinstance(rows, For) and not self._across() and not self._nested():
                rows = self._parts()
            if isinstance(rows, Refused):
                return rows
            rows.parallel = rows.scheduled = True
            self.builder.emit(rows)
        if self._nested():
            user_loop = next(s for s in rows.body.statements if isinstance(s, For))
            inner = _Interchange(user_loop, self.builder, self.refuses, self.divides, {}, [])
            rows.body.statements[:] = inner.privatized()
        return made.statements

    def privatized(self) -> list[Statement]:
        """The statements that replace the loop within a row: itself, if it stays in vectors."""
        if self._irregular() or self._nested() or not self._across():
            return [self.loop]
        with self.builder.block() as made, self.builder.at(self.loop.origin):
            rows = self._rows()
            if isinstance(rows, Refused):
                return [self.loop]
            rows.scheduled = True
            self.builder.emit(rows)
        return made.statements

    def _nested(self) -> bool:
        """True if the loops over elements contain loops."""
        return any(isinstance(s, For) for f in self.element_loops for s in core.walk(f.body))

    def _across(self) -> bool:
        """True if the outer counter indexes last axes more often than the elements' counters."""
        values, resolve = self.builder.dim_values, self.builder.dims.resolve
        if self.loop.index not in values:
            return False
        along = 0
        moving_with_user = dim_symbols(resolve(values[self.loop.index]))
        for element_loop in self.element_loops:
            own = dim_symbols(resolve(values[element_loop.index]))
            for s in core.walk(element_loop.body):
                if is_access(s) and s.args[0].type.ndim > 1:
                    last = element_index(s, self.builder)[-1]
                    moving = frozenset() if last is None else dim_symbols(last)
                    along += bool(moving & moving_with_user) - bool(moving & own)
        return along > 0

    def _irregular(self) -> Refused | None:
        """The reason if the body's loops over elements do not fit together, or may raise."""
        refused = self._collect(self.loop.body)
        if refused is None and not self.element_loops:
            refused = Refused("it holds no loop over elements")
        return refused or self._unlike()

    def _collect(self, block: Block) -> Refused | None:
        """Collect the element loops of a block; the reason if it holds ``while`` or effects."""
        for s in block.statements:
            match s:
                case For() if s.scheduled:
                    self.element_loops.append(s)
                case For() | If():
                    refused = next(filter(None, map(self._collect, core.blocks_of(s))), None)
                    if refused is not None:
                        return refused
                case Apply():
                    pass
                case While():
                    return Refused("{0} is a while loop", (s.origin,))
                case _:
                    return Refused("{0} has an effect besides its results", (s.origin,))
        return None

    def _unlike(self) -> Refused | None:
        """The reason if element loops have different bounds or sums, or something may raise."""
        first = self.element_loops[0]
        for s in self.element_loops:
            if s.step != 1:
                return Refused("{0} does not count elements by one", (s.origin,))
            if any(not phi.type.ndim for phi in s.phis):
                return Refused("{0} sums over elements", (s.origin,))
            if not all(self._same(a, b) for a, b in ((s.start, first.start), (s.stop, first.stop))):
                said = "{0} and {1} go over different ranges of elements"
                return Refused(said, (first.origin, s.origin))
        for t in core.walk(self.loop.body):
            if self.refuses(t):
                return Refused("{0} may raise an error", (t.origin,))
            if is_access(t) and not t.proven:
                said = "{0} has an index that is not proven to be in bounds"
                return Refused(said, (t.origin,))
        return None

    def _find_bounds(self) -> bool:
        """Set ``bounds`` of the element loops; False if the outer loop changes them."""
        first = self.element_loops[0]
        try:
            start, stop = self._outside(first.start), self._outside(first.stop)
        except BranchMismatch:
            return False
        if start is None or stop is None:
            return False
        self.bounds = start, stop
        return True

    def _outside(self, bound: Atom) -> Atom | None:
        """A bound as it is known before the outer loop; None if it varies inside."""
        inside = {*core.bound_vars(self.loop)}
        inside.update(v for s in core.walk(self.loop.body) for v in (*s.outs, *core.bound_vars(s)))
        if bound not in inside:
            return bound
        dim = self.builder.dim_of(wrap(bound))
        return atom(size_at_hand(dim)) if self._steady(dim) else None

    def _steady(self, dim: DimLike) -> bool:
        """True if a size depends on the arguments' sizes alone, so that it is loop-invariant."""
        return dim_symbols(dim) <= frozenset(self.builder.dims.arguments)

    def _same(self, a: Atom, b: Atom) -> bool:
        if a is b or (isinstance(a, int) and a == b):
            return True
        resolve, dim_of = self.builder.dims.resolve, self.builder.dim_of
        return resolve(dim_of(wrap(a))) == resolve(dim_of(wrap(b)))

    # the new loops

    def _rows(self) -> For | Refused:
        """The loop over rows with the user's loop inside, or the reason if rows are dependent."""
        first = self.element_loops[0]
        if not self._find_bounds():
            return Refused("the range of elements of {0} changes in the loop", (first.origin,))
        (counter,) = renewed(self.builder, [first.index])
        for s in self.element_loops:
            (symbol,) = dim_symbols(self.builder.dim_values[s.index])
            self.counters[symbol] = self.builder.dim_values[counter]
        made = self._around(counter, self.bounds, self._row_of)
        (user_loop,) = (s for s in made.body.statements if isinstance(s, For))
        refused = privatize(user_loop.body, counter, self.builder)
        if refused is not None:
            return refused
        verdict = judged(made, self.builder)
        return made if verdict.parallel else Refused(verdict.words, verdict.statements)

    def _parts(self) -> For | Refused:
        """The loop over strips of elements with the user's loop inside, or the reason why not."""
        for s in core.walk(self.loop.body):
            if isinstance(s, Apply) and any(o.type.ndim for o in s.outs):
                if not is_access(s) or s.primitive is getitem:
                    return Refused("{0} makes an array in each iteration", (s.origin,))
        strips = strip_mine(*self.bounds, PART, "part", self.builder)
        self.counters = {}
        made = self._around(strips.counter, (0, strips.count), self._strip_of(strips.ends))
        made.body.statements[:0] = strips.bounds
        return made

    def _around(self, counter: Var, bounds: tuple[Atom, Atom], write: ElementLoopWriter) -> For:
        """A loop by ``counter`` with a copy of the user's loop as its body."""
        loop = self.loop
        arrays = [k for k, phi in enumerate(loop.phis) if phi.type.ndim]
        phis = tuple(_like(loop.phis[k]) for k in arrays)
        carried: dict[int, Atom] = dict(zip(arrays, phis, strict=True))
        mapping: dict[Var, Atom] = {}
        (index,) = renewed(self.builder, [loop.index], mapping)
        inner = renewed(self.builder, loop.phis, mapping, self.counters)
        inits = tuple(carried.get(k, a) for k, a in enumerate(loop.inits))

        def instead(s: Statement, mapping: Any) -> list[Statement] | None:
            if isinstance(s, For) and s in self.element_loops:
                return write(s, counter, mapping)
            return None

        body = cloned(self.builder, loop.body, mapping, self.counters, instead)
        outs = renewed(self.builder, loop.outs)
        user_loop = derived(loop, outs=outs, index=index, phis=inner, inits=inits, body=body)
        parts = {
            "outs": tuple(loop.outs[k] for k in arrays),
            "inits": tuple(loop.inits[k] for k in arrays),
            "body": Block([user_loop], [outs[k] for k in arrays]),
        }
        start, stop = bounds
        return derived(loop, index=counter, start=start, stop=stop, step=1, phis=phis, **parts)

    def _row_of(self, s: For, counter: Var, mapping: dict[Var, Atom]) -> list[Statement]:
        """The body of an element loop for the one element at ``counter``."""
        mapping[s.index] = counter
        mapping.update((p, _sub(i, mapping)) for p, i in zip(s.phis, s.inits, strict=True))
        made = self._copied(s.body.statements, mapping)
        results = zip(s.outs, s.body.results, strict=True)
        mapping.update([(out, _sub(r, mapping)) for out, r in results])
        return made

    def _strip_of(self, ends: tuple[Atom, Atom]) -> ElementLoopWriter:
        def strip(s: For, counter: Var, mapping: dict[Var, Atom]) -> list[Statement]:
            (made,) = self._copied([s], mapping)
            assert isinstance(made, For)
            made.start, made.stop, made.parallel = *ends, False
            return [made]

        return strip

    def _copied(self, statements: Sequence[Statement], mapping: dict[Var, Atom]) -> list[Statement]:
        """Copies of statements, together with the known values of their integers."""
        return cloned(self.builder, Block([*statements]), mapping, self.counters).statements


def _like(var: Var) -> Var:
    return Var(var.type, var.name, var.origin)


def _sub(a: Atom, mapping: dict[Var, Atom]) -> Atom:
    return mapping.get(a, a) if isinstance(a, Var) else a


def _old_version(block: Block, stored: set[Var]) -> Refused | None:
    """The reason if a version of an array is read after a store into it: that forces a copy.

    ``stored``: the versions that have been stored into so far.
    """
    for s in block.statements:
        if is_size(s):
            continue
        if not stored.isdisjoint(a for a in core.operands(s) if isinstance(a, Var)):
            return Refused("{0} reads old elements of an array", (s.origin,))
        refused = None
        match s:
            case Apply() if is_indexed_store(s):
                stored.add(s.args[0])
            case If():
                arms = [set(stored), set(stored)]
                refused = _old_version(s.then, arms[0]) or _old_version(s.orelse, arms[1])
                stored |= arms[0] | arms[1]
            case For() | While():
                found = (_old_version(b, stored) for b in core.blocks_of(s))
                refused = next(filter(None, found), None)
                stored |= {i for i in s.inits if isinstance(i, Var) and i.type.ndim}
        if refused is not None:
            return refused
    if stored.isdisjoint(a for a in block.results if isinstance(a, Var)):
        return None
    return Refused("an iteration ends with old elements of an array")
