"""Batching: one program for many examples, which stand along a leading axis.

Before::

    y = w @ x + b                     x differs from one example to the next

After::

    y = x @ w.T + b

Straight-line code is written for all examples at once, by each primitive's batch rule. Where a
test differs between examples, an arm that is total and cheap runs for all of them under
``np.where``, any other on its own lanes: ``lanes = np.flatnonzero(test)``, its inputs gathered, its
results stored. A loop whose trip count differs between examples keeps the set of those that still
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import Unstackable
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, wrap
from calque.transpiler.ir.core import (
    UNDEFINED,
    Apply,
    Atom,
    Block,
    Effect,
    For,
    Function,
    If,
    Var,
    While,
)
from calque.transpiler.ir.dead_code import prune_loop
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.rewrite import cloned, emit_loop, emit_while, while_loop
from calque.transpiler.ir.types import BOOL, INT
from calque.transpiler.ir.uses import reads
from calque.transpiler.primitives.axis_collectives import NamedAxis
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import furthest
from calque.transpiler.vectorize.divergence import mapped, own_pace, stored_roots
from calque.transpiler.vectorize.masking import Arms, lanes_of, stored_rows
from calque.transpiler.vectorize.stacking import atom_of


def batch(
    function: Function,
    builder: Builder,
    companions: dict[Var, Any],
    size: Any,
    steady: bool = False,
    axis: Any = None,
    within: bool = False,
) -> list[tuple[Any, bool]]:
    """Rewrite ``function.body``, in place, for all examples; the results, and which are batched.

    ``companions`` gives for each parameter that differs the array of all its values, batch axis
    first; ``size`` is the number of examples. ``steady``: the number of lanes is to stay the same
    in every iteration of a loop, because a reverse sweep is to come. ``axis``: the batch's own
    named axis, if it has a name. ``within``: another batch is to come, whose examples may differ
    in control flow here, so that no number of lanes may depend on the data.
    """
    _drop_unread(function.body)
    axes = set() if axis is None else {axis}
    outer = builder.lanes  # the body of a call: its collectives are over the caller's axis
    if outer is not None:
        axes |= {a for a in outer.found if isinstance(a, NamedAxis)}
    found = mapped(function.body, [*companions, *axes])
    lanes = Lanes(builder, size, companions, found)
    lanes.apart = outer is not None and outer.apart
    lanes.steady, lanes.looping = steady, within
    with builder.block() as block:
        lanes.statements(function.body.statements)
        results = [lanes.result(atom) for atom in function.body.results]
    function.body.statements = block.statements
    core.substitute(function.body, lanes.shared)
    return [(wrap(lanes.shared.get(atom_of(v), atom_of(v))), has) for v, has in results]


def _drop_unread(block: Block) -> None:
    """Drop names that only some iterations of a loop bind and nothing reads after the loop."""
    read = {a for a in block.results if isinstance(a, Var)}
    for s in reversed(block.statements):
        for inner in core.blocks_of(s):
            _drop_unread(inner)
        if isinstance(s, For | While):
            pairs = zip(s.outs, s.inits, strict=True)
            unread = {o for o, i in pairs if i is UNDEFINED and o not in read}
            if unread:
                prune_loop(s, {*s.outs} - unread)
        read.update(reads(s))


class Lanes(Arms):
    """Some of the examples, and the values they have: writes statements for all of them at once."""

    def statements(self, statements: Sequence[core.Statement]) -> None:
        """Emit each for all examples; what cannot be written for all, for one after the other."""
        waiting = list(statements)
        while waiting:
            s, rest = waiting[0], waiting[1:]
            mark = self.mark()
            block = self.builder.blocks[-1]
            count = len(block.statements)
            try:
                with self.builder.at(s.origin):
                    self.statement(s)
            except Unstackable as error:
                self.back_to(mark)
                before, write = self.one_by_one(waiting, error)
                self.statements(before)
                count = len(block.statements)
                rest = write()
            label(block.statements[count:], s.phase)
            waiting = rest

    def statement(self, s: core.Statement) -> None:
        """Emit one for all examples."""
        match s:
            case Apply():
                self.apply(s)
            case If():
                self.branch(s)
            case For() | While():
                self.own_paced(s) if own_pace(s, self.found) else self.loop(s)
            case Effect():
                self.effect(s)

    # loops

    def loop(self, s: For | While) -> None:
        """Write a loop whose trip count is the same for all examples."""
        pairs = list(zip(s.phis, s.inits, strict=True))
        used = core.free_vars(s.body)
        inits = [
            self.value(i)
            if p not in self.found
            else self.vacant(p)  # its examples may be given values one by one
            if i is UNDEFINED and p in used and not self._handed_on(p, s.body)
            else self.full(i, p.type)
            for p, i in pairs
        ]
        phis = tuple(self.fresh(p) if p in self.found else p for p in s.phis)
        inner = self.same(looping=True)
        inner.values.update((p, Array(n)) for p, n in zip(s.phis, phis) if n is not p)
        test = Block()
        if isinstance(s, While):
            with self.builder.block() as test:
                guard = inner.same()
                guard.statements(s.test.statements)
                test.results = [atom_of(guard.value(s.test.results[0]))]
        with self.builder.block() as body:
            inner.statements(s.body.statements)
            body.results = [
                atom_of(inner.full(a, p.type) if p in self.found else inner.value(a))
                for a, p in zip(s.body.results, s.phis, strict=True)
            ]
        outs = tuple(self.fresh(o) if p in self.found else o for o, p in zip(s.outs, s.phis))
        atoms = tuple(map(atom_of, inits))
        if isinstance(s, While):
            emit_while(self.builder, phis, atoms, test, body, outs, s.origin)
        else:
            start, stop, step = (self.value(a) for a in (s.start, s.stop, s.step))
            carried = phis, atoms, body, outs
            emit_loop(self.builder, s.index, (start, stop, step), *carried, origin=s.origin)
        for out, new in zip(s.outs, outs, strict=True):
            if new is not out:
                self.values[out] = Array(new)

    def _handed_on(self, value: Var, block: Block) -> bool:
        """True if only loops read a value, as an initial value, and only to pass it on likewise."""
        for s in block.statements:
            within = any(value in core.free_vars(b) for b in core.blocks_of(s))
            if not within and value not in core.operands(s):
                continue
            if within or not isinstance(s, For | While) or own_pace(s, self.found):
                return False
            phis = (p for p, i in zip(s.phis, s.inits, strict=True) if i is value)
            if not all(self._handed_on(p, b) for p in phis for b in core.blocks_of(s)):
                return False
        return True

    def own_paced(self, s: For | While) -> None:
        """Write a loop whose trip count differs between examples."""
        for phi, init, after in zip(s.phis, s.inits, s.body.results, strict=True):
            if phi not in self.found or not isinstance(init, Var):
                continue
            if phi.type.dims != init.type.dims and self.grown_axis(after) is None:
                raise Unstackable(
                    "vmap of a loop whose iterations make arrays of different sizes.", s.origin
                )
        if isinstance(s, While):
            self.while_alive(s)
        elif not self.is_batched(s.start) and type(s.step) is int and not self.nested:
            self.for_alive(s)
        else:
            self.while_alive(self.as_while(s))

    def as_while(self, s: For) -> While:
        """``for i in range(start, stop, step)`` as a ``while`` that counts."""
        builder = self.builder
        counter = Var(INT, s.index.name, s.index.origin)
        last = Var(INT, s.index.name, s.index.origin)
        self.found.update((counter, last))
        i, stop, step = Array(counter), wrap(s.stop), wrap(s.step)
        with builder.block() as test:
            if isinstance(s.step, Var):
                found = np.where(step > 0, i < stop, i > stop)
            else:
                found = i < stop if s.step > 0 else i > stop
            test.results = [atom_of(found)]
        with builder.block() as block:
            after = i + step
        # a copy: where this way proves impossible, each example runs the loop that was there
        mapping: dict[Var, Atom] = {s.index: counter}
        body = self._cloned(s.body, mapping)
        body = Block([*body.statements, *block.statements], [*body.results, atom_of(after)])
        self.found.update(mapped(test, self.found) | mapped(body, self.found))
        carried = (*s.phis, counter), (*s.inits, s.start), test, body, (*s.outs, last)
        return while_loop(*carried, s.origin)

    def for_alive(self, s: For) -> None:
        """Run the longest example's number of iterations, each for the examples that still run."""
        stop = self.value(s.stop)
        end = apply(furthest, stop, self.value(s.start), up=s.step > 0, axis=None)

        def iteration_of(carried: dict[Var, Any]) -> tuple[list[Any], Any]:
            index = Array(s.index)
            live = index < stop if s.step > 0 else index > stop
            return self.one_iteration(s.body, None, s.phis, carried, live)[0], None

        phis, inits = self.carried(s)
        with self.block() as body:
            after, _ = iteration_of({p: Array(n) for p, n in zip(s.phis, phis) if n is not p})
            body.results = list(map(atom_of, after))
        outs = tuple(self.fresh(o) if n is not p else o for o, p, n in zip(s.outs, s.phis, phis))
        span, carried = (self.value(s.start), end, s.step), (phis, inits, body, outs)
        emit_loop(self.builder, s.index, span, *carried, origin=s.origin)
        self._keep(s, outs)

    def while_alive(self, s: While) -> None:
        """Iterate as long as any example goes on, each time for the examples that do."""
        phis, inits = self.carried(s)
        mapping: dict[Var, Any] = {}
        first = self._cloned(s.test, mapping)
        start = self.same()
        start.values.update((p, Array(i)) for p, n, i in zip(s.phis, phis, inits) if n is not p)
        start.statements(first.statements)
        live = self.cast(start.full(first.results[0], BOOL), BOOL)
        flag = Var(self.batched_type(BOOL), "live", s.origin)
        with self.builder.block() as test:
            test.results = [atom_of(np.any(Array(flag)))]
        with self.block() as body:
            own = {p: Array(n) for p, n in zip(s.phis, phis) if n is not p}
            after, now = self.one_iteration(s.body, s.test, s.phis, own, Array(flag))
            body.results = [*map(atom_of, after), atom_of(now)]
        outs = tuple(self.fresh(o) if n is not p else o for o, p, n in zip(s.outs, s.phis, phis))
        done = Var(flag.type, "live", s.origin)
        carried = (*phis, flag), (*inits, live), test, body, (*outs, done)
        emit_while(self.builder, *carried, s.origin)
        self._keep(s, outs)

    def _keep(self, s: For | While, outs: Sequence[Var]) -> None:
        for out, new in zip(s.outs, outs, strict=True):
            if new is not out:
                self.values[out] = Array(new)

    def _cloned(self, block: Block, mapping: dict[Var, Atom]) -> Block:
        """A copy of a block; the copies of what has a batch axis have one."""
        made = cloned(self.builder, block, mapping)
        self.found.update(n for o, n in mapping.items() if o in self.found and isinstance(n, Var))
        return made

    def carried(self, s: For | While) -> tuple[tuple[Var, ...], tuple[Atom, ...]]:
        """The carried Vars of a loop with a batch axis, and what they begin with."""
        phis = tuple(self.fresh(p) if p in self.found else p for p in s.phis)
        inits = []
        for phi, init in zip(s.phis, s.inits, strict=True):
            if phi not in self.found:
                inits.append(atom_of(self.value(init)))
            elif init is UNDEFINED:
                inits.append(atom_of(self.vacant(phi)))
            else:
                inits.append(atom_of(self.full(init, phi.type)))
        return phis, tuple(inits)

    def one_iteration(
        self,
        body: Block,
        test: Block | None,
        phis: Sequence[Var],
        carried: dict[Var, Any],
        live: Any,
    ) -> tuple[list[Any], Any]:
        """The next values of carried Vars, for the living examples alone; and who lives on."""
        blocks = [body] if test is None else [body, test]
        if self.all_may_run(blocks):
            return self._masked_iteration(body, test, phis, carried, live)
        if self.steady:
            return self._steady_iteration(body, test, phis, carried, live)
        lanes = lanes_of(live)
        roots = stored_roots(body)
        pairs = zip(phis, body.results, strict=True)
        whole = {p for p, a in pairs if p in carried and isinstance(a, Var) and roots.get(a) is p}
        inner = self.on(lanes, blocks, live, carried, whole)
        inner.statements(body.statements)
        after: list[Any] = []
        for phi, atom in zip(phis, body.results, strict=True):
            if phi not in carried:
                after.append(inner.value(atom))
                continue
            if phi in whole:
                after.append(inner.rows[atom].base)
                continue
            value = inner.value(atom)
            if atom is not phi and isinstance(value, Array) and value.dtype != phi.type.dtype:
                value = FUNCTIONS["cast"](value, phi.type.dtype)
            if atom is phi:
                after.append(carried[phi])
            else:
                base = self.as_wide(carried[phi], value)
                after.append(stored_rows(base, lanes, value))
        if test is None:
            return after, None
        tested = core.free_vars(test)
        after_iteration = [(p, a) for p, a in zip(phis, body.results, strict=True) if p in tested]
        self._go_on(inner, after_iteration, carried)
        inner.statements(test.statements)
        return after, stored_rows(live, lanes, inner.value(test.results[0]))

    def _steady_iteration(
        self,
        body: Block,
        test: Block | None,
        phis: Sequence[Var],
        carried: dict[Var, Any],
        live: Any,
    ) -> tuple[list[Any], Any]:
        """The body for all examples, those that do not live standing in for one that does."""
        inner = self.standing_in(live, [body] if test is None else [body, test], carried)
        inner.statements(body.statements)
        after: list[Any] = []
        for phi, atom in zip(phis, body.results, strict=True):
            if phi not in carried or atom is phi:
                after.append(carried.get(phi, inner.value(atom)))
                continue
            after.append(inner.over(live, atom, carried[phi], phi))
        if test is None:
            return after, None
        self._go_on(inner, list(zip(phis, body.results)), carried)
        inner.statements(test.statements)
        return after, live & inner.value(test.results[0])

    def _masked_iteration(
        self,
        body: Block,
        test: Block | None,
        phis: Sequence[Var],
        carried: dict[Var, Any],
        live: Any,
    ) -> tuple[list[Any], Any]:
        """The body for all examples; those that do not live keep what they have."""
        inner = self.same()
        inner.values.update(carried)
        inner.statements(body.statements)
        after: list[Any] = []
        for phi, atom in zip(phis, body.results, strict=True):
            if phi not in carried or atom is phi:
                after.append(carried.get(phi, inner.value(atom)))
                continue
            after.append(self.cast(inner.either(live, atom, phi, phi), phi.type))
        if test is None:
            return after, None
        inner.values.update((p, a) for p, a in zip(phis, after, strict=True) if p in carried)
        inner.forget_elements(phis)
        inner.statements(test.statements)
        return after, live & inner.value(test.results[0])

    def _go_on(
        self, inner: Lanes, pairs: Sequence[tuple[Var, Atom]], carried: dict[Var, Any]
    ) -> None:
        """Make the carried values those of the next iteration, on the same lanes."""
        pairs = [(p, a) for p, a in pairs if p in carried and a is not p]
        stored = {p: inner.rows[a] for p, a in pairs if isinstance(a, Var) and a in inner.rows}
        values = {p: inner.full(a, p.type) for p, a in pairs if p not in stored}
        for phi, _ in pairs:
            inner.rows.pop(phi, None)
            inner.values.pop(phi, None)
        inner.rows.update(stored)
        inner.values.update(values)
        inner.forget_elements([p for p, _ in pairs])
