"""Write a scatter as loops over its target elements, each of which gathers its terms.

On CPUs, elements that all terms add to have loops of their own, and those near a border are
written separately. On GPUs, each thread has an element, and tests which terms add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.algebra.like_terms import total_of
from calque.transpiler.errors import Origin
from calque.transpiler.ir.builder import Builder, atom, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Var
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.loops.accesses import moved, template_of
from calque.transpiler.loops.scatters import PlaceSum, Term, origin_of
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.indexing import getitem
from calque.transpiler.primitives.logic import logical_and

MOST_PLACES = 8  # elements unrolled at each end of the last axis


class PlaceLoops:
    """Write one sum of terms as loops over the elements that it adds to."""

    def __init__(
        self, found: PlaceSum, builder: Builder, arrays: dict[int, list[Atom]] | None = None
    ):
        self.terms = [term for _, term in found.terms]
        self.builder, self.arrays = builder, arrays or {}
        self.first = self.terms[0]
        self.depth = len(self.first.places)
        # start and end along each axis, relative to the first term's
        self.spans = {id(t): self._spans(t) for t in self.terms}
        last = self._along(self.depth - 1, self.terms)
        self.between = max(a for a, _ in last), min(b for _, b in last)
        self.edges: set[int] = set()
        self.lows: list[Any] = []
        self.highs: list[Any] = []

    def _spans(self, term: Term) -> list[tuple[int, int]]:
        found = []
        for ends, others in zip(term.places, self.first.places, strict=True):
            low, high = (
                self.builder.dims.resolve(end - other)
                for end, other in zip(ends, others, strict=True)
            )
            assert isinstance(low, int) and isinstance(high, int)
            found.append((low, high))
        return found

    def can_be_loops(self, least: int) -> bool:
        """True if both ends of the last axis are disjoint, maybe by a condition on argument sizes.

        The unrolled ends stand in loops over the other axes: there must be ``least`` axes in all.
        """
        ends = self._along(self.depth - 1, self.terms)
        if len(set(ends)) == 1:
            return True
        few = all(max(end) - min(end) <= MOST_PLACES for end in zip(*ends, strict=True))
        (low, high), (last, first) = self.first.places[-1], self.between
        between = (high + first) - (low + last)
        return few and self.depth >= least and self.builder.dims.assume_nonnegative(between)

    def _along(self, axis: int, terms: Sequence[Term]) -> list[tuple[int, int]]:
        return [self.spans[id(t)][axis] for t in terms]

    def write(self, version: Atom) -> Var:
        """Write the loops into the open block; return the array's version after them."""
        with self.builder.at(self.first.store.origin):
            for loop, shift in zip(self.first.loops, self.first.shifts, strict=True):
                start, stop = (self._again(a) for a in (loop.start, loop.stop))
                ends = (start, stop) if loop.step == 1 else (stop + 1, start + 1)
                self.lows.append(moved(ends[0], shift))
                self.highs.append(moved(ends[1], shift))
            version = self._axis(version, [])
            return self._edges(version)

    def _again(self, bound: Atom) -> Any:
        """A loop-invariant scalar, computed again if the nest computes it."""
        made = self.first.made_by.get(bound) if isinstance(bound, Var) else None
        if made is None:
            return wrap(bound)
        return apply(made.primitive, *map(self._again, made.args), **made.params)

    def _axis(self, version: Atom, at: list[Any]) -> Var:
        axis = len(at)
        if axis == self.depth - 1:
            return self._row(version, at)
        spans = self._along(axis, self.terms)
        ends = min(a for a, _ in spans), max(b for _, b in spans)
        return self._loop(version, axis, ends, lambda phi, index: self._axis(phi, [*at, index]))

    def _loop(self, version: Atom, axis: int, ends: tuple[int, int], inner: Any) -> Var:
        """A loop over the indices of an axis; ``ends`` are relative to those of the first term."""
        old = self.first.loops[axis]
        low, high = moved(self.lows[axis], ends[0]), moved(self.highs[axis], ends[1])
        dims = (self.builder.dim_of(low), self.builder.dim_of(high) - 1)
        index = loop_index(*dims, old.index.name)
        t, name = self.first.store.out.type, self.first.store.out.name

        def step(phi: Var) -> list[Atom]:
            self.builder.remember_size(index)
            return [inner(phi, index)]

        made = emit_fold(
            *(self.builder, index.atom, (low, high, 1), [version], step),
            phis=[Var(t, name, self.builder.origin)],
            origin=old.origin,
            scheduled=old.scheduled,
            parallel=axis == 0 and all(t.loops[0].parallel for t in self.terms),
        )
        return made.outs[0]

    # rows

    def _row(self, version: Atom, at: list[Any]) -> Var:
        """Write the additions along the last axis at the outer indices ``at``."""
        groups: dict[tuple[tuple[int, int], ...], list[Term]] = {}
        for t in self.terms:
            groups.setdefault(tuple(self.spans[id(t)][:-1]), []).append(t)
        if len(groups) == 1:
            return self._last(version, at, self.terms)
        return self._if(
            self._inside(at, self.terms),
            lambda: self._last(version, at, self.terms),
            lambda: self._apart(version, at, list(groups.values())),
        )

    def _apart(self, version: Atom, at: list[Any], groups: list[list[Term]]) -> Atom:
        """Write one addition for each group of terms, where the row has some."""
        for terms in groups:
            test = self._inside(at, terms)
            if test is None:
                version = self._last(version, at, terms)
                continue
            version = self._if(
                test,
                lambda terms=terms, version=version: self._last(version, at, terms),
                lambda version=version: version,
            )
        return version

    def _inside(self, at: list[Any], terms: Sequence[Term]) -> Any:
        """The condition that all of these terms add to the row ``at``; None if it always holds."""
        tests = []
        for axis, place in enumerate(at):
            every, spans = self._along(axis, self.terms), self._along(axis, terms)
            low, high = max(a for a, _ in spans), min(b for _, b in spans)
            if low > min(a for a, _ in every):
                tests.append(place >= moved(self.lows[axis], low))
            if high < max(b for _, b in every):
                tests.append(place < moved(self.highs[axis], high))
        found = tests.pop(0) if tests else None
        for test in tests:
            found = apply(logical_and, found, test)
        return found

    def _if(self, test: Any, then: Any, orelse: Any) -> Var:
        t, name = self.first.store.out.type, self.first.store.out.name
        out = Var(t, name, self.builder.origin)
        with self.builder.block() as first:
            first.results = [then()]
        with self.builder.block() as second:
            second.results = [orelse()]
        self.builder.emit(If((out,), atom(test), first, second, self.builder.origin))
        return out

    # the last axis

    def _last(self, version: Atom, at: list[Any], terms: Sequence[Term]) -> Var:
        """A loop over the elements along the last axis that all terms add to."""
        return self._loop(
            *(version, self.depth - 1, self.between),
            lambda phi, index: self._store(phi, [*at, index], terms),
        )

    def _edges(self, version: Atom) -> Var:
        """Write the additions to elements at both ends of the last axis."""
        boxes: dict[tuple[tuple[int, int], ...], list[Term]] = {}
        for t in self.terms:
            spans = zip(self.spans[id(t)][:-1], self._moves(t), strict=True)
            box = tuple((low - by, high - by) for (low, high), by in spans)
            boxes.setdefault(box, []).append(t)
        for box, terms in boxes.items():
            if set(self._along(self.depth - 1, terms)) != {self.between}:
                version = self._iterations(version, box, terms, [])
        return version

    def _moves(self, term: Term) -> list[int]:
        """The shift of a term along each axis but the last, relative to the first term's."""
        shifts = zip(term.shifts[:-1], self.first.shifts, strict=False)
        return [mine - its for mine, its in shifts]

    def _iterations(
        self, version: Atom, box: tuple[tuple[int, int], ...], terms: list[Term], at: list[Any]
    ) -> Var:
        """Loops over the outer axes, with unrolled stores at the ends of the last one."""
        axis = len(at)
        if axis < len(box):
            out = self._loop(
                *(version, axis, box[axis]),
                lambda phi, index: self._iterations(phi, box, terms, [*at, index]),
            )
            made = self.builder.definitions[out]
            assert isinstance(made, For)
            made.parallel = False  # iterations may store to the same element
            self.edges.add(id(made))
            return out
        low, high = self.between
        done: dict[Any, Atom] = {}
        rows: dict[tuple[int, ...], list[Term]] = {}
        for t in terms:
            rows.setdefault(tuple(self._moves(t)), []).append(t)
        for moves, some in rows.items():
            row = [moved(place, by) for place, by in zip(at, moves, strict=True)]
            spans = self._along(axis, some)
            for k in range(min(a for a, _ in spans), low):
                here = [t for t, (first, _) in zip(some, spans, strict=True) if first <= k]
                version = self._store(version, [*row, moved(self.lows[axis], k)], here, done)
            for k in range(high, max(b for _, b in spans)):
                here = [t for t, (_, end) in zip(some, spans, strict=True) if k < end]
                version = self._store(version, [*row, moved(self.highs[axis], k)], here, done)
        return version

    def _store(
        self,
        version: Atom,
        at: list[Any],
        terms: Sequence[Term],
        done: dict[Any, Atom] | None = None,
    ) -> Var:
        """Add the terms to one element; ``done`` holds the values that are computed already."""
        value = self._value(at, terms, {} if done is None else done)
        return self._stored(version, at, value, origin_of(terms))

    def _value(self, at: list[Any], terms: Sequence[Term], done: dict[Any, Atom]) -> Atom:
        """The sum of the terms for one element."""
        made = [self._made(t, at, done) for t in terms]
        added = [(t.store.args[1], found) for t, found in zip(terms, made, strict=True)]
        values = [found.get(a, a) if isinstance(a, Var) else a for a, found in added]
        with self.builder.at(origin_of(terms)):
            return atom(total_of(values))

    def _stored(
        self, version: Atom, at: list[Any], value: Atom, origin: Origin | None = None
    ) -> Var:
        """Emit the addition of a scalar to one element."""
        store, places = self.first.store, iter(at)
        origin = origin or origin_of(self.terms)
        fixed = self._fixed()
        index = [fixed[k] if k in fixed else next(places) for k in range(store.out.type.ndim)]
        template, dynamic = template_of(index)
        out = Var(store.out.type, store.out.name, origin)
        args = (version, value, *dynamic)
        params = {"index": template}
        self.builder.emit(Apply((out,), store.primitive, args, params, origin, True))
        return out

    def _fixed(self) -> dict[int, Any]:
        """The index along each axis that no loop goes over."""
        store = self.first.store
        items = full_template(store.params["index"], store.args[2:], store.out.type.ndim)
        found = {}
        for axis, _ in self.first.fixed:
            item = items[axis]
            slot = isinstance(item, Slot)
            found[axis] = self._again(store.args[2 + item.position]) if slot else item
        return found

    def _made(self, term: Term, at: list[Any], done: dict[Any, Atom]) -> dict[Var, Atom]:
        """Compute the needs of a term for the element ``at``; map the old variables to the new."""
        mapping: dict[Var, Atom] = {
            loop.index: atom(moved(place, -shift))
            for loop, shift, place in zip(term.loops, term.shifts, at, strict=True)
        }
        for version, k in term.versions.items():
            mapping[version] = self.arrays[id(term)][k]
        for s in term.needs:
            args = [mapping.get(a, a) if isinstance(a, Var) else a for a in s.args]
            key = s.primitive.name, *((type(a), a) for a in args), repr(s.params)
            if key not in done:
                done[key] = self._read(s, args) if s.primitive is getitem else atom(
                    apply(s.primitive, *map(wrap, args), **s.params)
                )
            made = done[key]
            mapping[s.out] = int(made) if isinstance(made, np.integer) else made
        return mapping

    def _read(self, s: Apply, args: list[Atom]) -> Var:
        array, *dynamic = args
        items = full_template(s.params["index"], dynamic, array.type.ndim)
        index = [dynamic[k.position] if isinstance(k, Slot) else k for k in items]
        template, places = template_of(index)
        out = Var(s.out.type, s.out.name, s.origin)
        params = {"index": template}
        self.builder.emit(
            Apply((out,), s.primitive, (array, *places), params, s.origin, s.proven)
        )
        return out


class CellLoops(PlaceLoops):
    """The same for GPUs: loops over all elements, each of which tests which terms it has."""

    def can_be_loops(self, least: int) -> bool:
        """Always true: each element is stored once, whatever the sizes."""
        return True

    def _edges(self, version: Atom) -> Var:
        assert isinstance(version, Var)
        return version

    def _axis(self, version: Atom, at: list[Any]) -> Var:
        axis = len(at)
        if axis == self.depth:
            return self._cell(version, at)
        spans = self._along(axis, self.terms)
        ends = min(a for a, _ in spans), max(b for _, b in spans)
        return self._loop(version, axis, ends, lambda phi, index: self._axis(phi, [*at, index]))

    def _cell(self, version: Atom, at: list[Any]) -> Var:
        """Write the addition to one element, of all groups of terms that reach it."""
        groups: dict[tuple[tuple[int, int], ...], list[Term]] = {}
        for t in self.terms:
            groups.setdefault(tuple(self.spans[id(t)]), []).append(t)
        total: Any = None
        done: dict[Any, Atom] = {}
        for terms in groups.values():
            test = self._inside(at, terms)
            if test is None:
                more = wrap(self._value(at, terms, done))
                total = more if total is None else total + more
            else:
                total = self._added(total, test, at, terms)
        return self._stored(version, at, atom(total))

    def _added(self, total: Any, test: Any, at: list[Any], terms: list[Term]) -> Any:
        """The sum ``total``, plus the terms if ``test`` holds."""
        dtype = self.first.store.out.type.dtype
        before = dtype.type(0) if total is None else total
        out = Var(ArrayType(dtype), f"{self.first.store.out.name or 'total'}_more")
        with self.builder.block() as then:
            more = wrap(self._value(at, terms, {}))
            then.results = [atom(more if total is None else before + more)]
        made = If((out,), atom(test), then, Block([], [atom(before)]), origin_of(terms))
        self.builder.emit(made)
        return wrap(out)
