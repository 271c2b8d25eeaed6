"""Permute outward: the loops over elements in a loop of the user's become one loop around it.

Legal where the element loops have one range, nothing in the loop may raise, and the rows of the
new loop are independent. ``rows`` writes a loop over single rows, ``strips`` one over strips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.effects import is_access, is_indexed_store, is_size
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.loops.parallelize import judged
from calque.transpiler.loops.schedule.parts import strip_mine
from calque.transpiler.loops.schedule.private_arrays import privatize
from calque.transpiler.primitives.indexing import getitem

Refuses = Callable[[Statement], bool]
# writes a loop over elements
ElementLoopWriter = Callable[[For, Var, dict[Var, Atom]], list[Statement]]


@dataclass(eq=False)
class ElementLoops:
    """The loops over elements in the body of a loop of the user's.

    ``refuses``: whether a statement may raise. ``divides``: whether it may raise ZeroDivisionError,
    which iterations raise even if there are no elements.
    """

    loop: For
    builder: Builder
    refuses: Refuses
    divides: Refuses
    element_loops: list[For] = field(default_factory=list)
    bounds: tuple[Atom, Atom] = (0, 0)  # of the loops over elements
    counters: dict[str, DimLike] = field(default_factory=dict)  # the dimensions of theirs in copies

    def irregular(self) -> Refused | None:
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

    def forces_copy(self) -> Refused | None:
        """The reason if an iteration reads elements of an array as they were before a store."""
        return _old_version(self.loop.body, set())

    def divides_between(self) -> Refused | None:
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

    def nested(self) -> bool:
        """True if the loops over elements contain loops."""
        return any(isinstance(s, For) for f in self.element_loops for s in core.walk(f.body))

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

    def rows(self) -> For | Refused:
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

    def strips(self, size: int) -> For | Refused:
        """The loop over strips of elements with the user's loop inside, or the reason why not."""
        for s in core.walk(self.loop.body):
            if isinstance(s, Apply) and any(o.type.ndim for o in s.outs):
                if not is_access(s) or s.primitive is getitem:
                    return Refused("{0} makes an array in each iteration", (s.origin,))
        strips = strip_mine(*self.bounds, size, "part", self.builder)
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
