"""Batching: one program for many examples, which stand along a leading axis.

Before::

    y = w @ x + b                     x differs from one example to the next

After::

    y = x @ w.T + b

Straight-line code is written for all examples at once, by each primitive's batch rule. Where a
test differs between examples, an arm that is total and cheap runs for all of them under
``np.where``, any other on its own lanes: ``lanes = np.flatnonzero(test)``, its inputs gathered, its
results stored. A loop that ends at a different round for each example keeps the set of the examples
that still live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler import core
from calque.transpiler.analyses.lanes import Values, atom_of
from calque.transpiler.analyses.mapped import is_total, mapped, own_pace
from calque.transpiler.builder import FUNCTIONS, Array, Builder, wrap
from calque.transpiler.core import (
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
from calque.transpiler.errors import Unstackable
from calque.transpiler.frontend.joining import size_at_hand
from calque.transpiler.primitives.base import PRIMITIVES, apply
from calque.transpiler.primitives.batched import (
    lift,
    new_zeros,
)
from calque.transpiler.primitives.growing import room
from calque.transpiler.types import BOOL, INT


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
    in every round of a loop, because a reverse sweep is to come. ``axis``: the batch's own named
    axis, if it has a name. ``within``: another batch is to come, whose examples may differ in
    what this one does, so that no number of lanes may depend on the data.
    """
    found = mapped(function.body, [*companions, *([] if axis is None else [axis])])
    lanes = Lanes(builder, size, companions, found)
    lanes.steady, lanes.looping = steady, within
    with builder.block() as block:
        lanes.statements(function.body.statements)
        results = [lanes.result(atom) for atom in function.body.results]
    function.body.statements = block.statements
    core.substitute(function.body, lanes.shared)
    return [(wrap(lanes.shared.get(atom_of(v), atom_of(v))), has) for v, has in results]


class Lanes(Values):
    """Some of the examples, and the values they have: writes statements for all of them at once."""

    # values

    # statements

    def statements(self, statements: Sequence[core.Statement]) -> None:
        """Emit each for all examples; what cannot be written for all, for one after the other."""
        waiting = list(statements)
        while waiting:
            s, rest = waiting[0], waiting[1:]
            mark = self.mark()
            try:
                with self.builder.at(s.origin):
                    self.statement(s)
            except Unstackable as error:
                self.back_to(mark)
                before, write = self.one_by_one(waiting, error)
                self.statements(before)
                rest = write()
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

    # branches

    def branch(self, s: If) -> None:
        """An ``if``: one for all, or each example its own."""
        if not self.is_batched(s.test):
            self.shared_branch(s)
        elif is_total(s.then) and is_total(s.orelse):
            self.chosen(s)
        elif self.steady and self.looping:
            self.steady_branch(s)
        else:
            self.split(s)

    def steady_branch(self, s: If) -> None:
        """Each arm for all examples, those that do not take it standing in for one that does."""
        test = self.value(s.test)
        now: list[Any] = [None] * len(s.outs)
        arms = [(s.then, test), (s.orelse, np.logical_not(test))]
        arms.sort(key=lambda a: bool(a[0].statements))  # what is at hand first
        for arm, mask in arms:
            if not arm.statements:
                now = [
                    None if a is UNDEFINED else self.full(a, o.type)
                    for a, o in zip(arm.results, s.outs)
                ]
                continue
            start = [self.vacant(o) if n is None else n for n, o in zip(now, s.outs, strict=True)]
            with self.builder.block() as block:
                inner = self.standing_in(mask, [arm])
                inner.statements(arm.statements)
                block.results = [
                    atom_of(inner.over(mask, a, before, o))
                    for a, before, o in zip(arm.results, start, s.outs, strict=True)
                ]
            outs = tuple(self.fresh(o) for o in s.outs)
            other = Block([], list(map(atom_of, start)))
            self.builder.emit(If(outs, atom_of(np.any(mask)), block, other, s.origin))
            now = [Array(o) for o in outs]
        for out, value in zip(s.outs, now, strict=True):
            self.note(out, value)

    def vacant(self, out: Var) -> Any:
        """A place for results, before any arm has run."""
        return new_zeros((self.size, *map(size_at_hand, out.type.dims)), out.type.dtype)

    def shared_branch(self, s: If) -> None:
        """All examples take the same arm."""
        arms = []
        for arm in (s.then, s.orelse):
            inner = self.same()
            with self.builder.block() as block:
                inner.statements(arm.statements)
                block.results = [
                    atom_of(inner.full(a, o.type) if o in self.found else inner.value(a))
                    for a, o in zip(arm.results, s.outs, strict=True)
                ]
            arms.append(block)
        outs = tuple(self.fresh(o) if o in self.found else o for o in s.outs)
        self.builder.emit(If(outs, atom_of(self.value(s.test)), arms[0], arms[1], s.origin))
        for out, new in zip(s.outs, outs, strict=True):
            if new is not out:
                self.values[out] = Array(new)

    def chosen(self, s: If) -> None:
        """Both arms for all examples, and the right result for each."""
        test = self.value(s.test)
        self.statements(s.then.statements)
        self.statements(s.orelse.statements)
        for out, a, b in zip(s.outs, s.then.results, s.orelse.results, strict=True):
            self.note(out, self.either(test, a, b, out))

    def either(self, test: Any, a: Atom, b: Atom, out: Var) -> Any:
        """``np.where(test, a, b)``, the test broadcast to the rank of one example."""
        if a is UNDEFINED or b is UNDEFINED:
            return self.full(b if a is UNDEFINED else a, out.type)
        if a is b:
            return self.full(a, out.type)
        rank = out.type.ndim
        values = [lift(self.value(x), rank) if self.is_batched(x) else wrap(x) for x in (a, b)]
        return np.where(lift(test, rank), *values)

    def split(self, s: If) -> None:
        """Each arm on its own lanes."""
        test = self.value(s.test)
        parts: list[Any] = []
        for arm, mask in ((s.then, test), (s.orelse, None)):
            if not arm.statements:
                parts.append(None)
                continue
            mask = np.logical_not(test) if mask is None else mask
            lanes = _lanes_of(mask)
            inner = self.on(lanes, [arm], mask)
            inner.statements(arm.statements)
            parts.append((lanes, [inner.result(a) for a in arm.results]))
        for k, out in enumerate(s.outs):
            self.note(out, self.joined(s, k, out, parts, test))

    def joined(self, s: If, k: int, out: Var, parts: list[Any], test: Any) -> Any:
        """One result of a branch, put together from its lanes."""
        results = s.then.results[k], s.orelse.results[k]
        outside = [
            p is None or _is_outside(a, arm)
            for p, a, arm in zip(parts, results, (s.then, s.orelse))
        ]
        if all(outside):
            return self.either(test, *results, out)
        computed = [None if o else p[1][k] for o, p in zip(outside, parts)]
        base: Any = None
        for atom, is_outer in zip(results, outside, strict=True):
            if is_outer and atom is not UNDEFINED:
                base = self.full(atom, out.type)
        if base is None:
            base = self.room(out, next(c for c in computed if c is not None))
        for part, found in zip(parts, computed, strict=True):
            if found is not None and found[0] is not UNDEFINED:
                base = self.stored(base, part[0], found[0])
        return base

    def room(self, out: Var, found: tuple[Any, bool]) -> Any:
        """A new array for a result; its sizes are those that some lanes found."""
        value, has = found
        dims: tuple[Any, ...] = ()
        if out.type.ndim:
            dims = value.shape[has:]
        return new_zeros((self.size, *dims), out.type.dtype)

    def stored(self, base: Any, lanes: Any, value: Any) -> Any:
        """``base`` with what some lanes found."""
        if isinstance(value, Array) and value.dtype != base.dtype:
            value = FUNCTIONS["cast"](value, base.dtype)
        return _update(base, lanes, value)

    # loops

    def loop(self, s: For | While) -> None:
        """All examples go round together."""
        pairs = list(zip(s.phis, s.inits, strict=True))
        inits = [self.full(i, p.type) if p in self.found else self.value(i) for p, i in pairs]
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
            self.builder.emit(While(outs, phis, atoms, test, body, s.origin))
        else:
            start, stop, step = (atom_of(self.value(a)) for a in (s.start, s.stop, s.step))
            made = For(outs, s.index, start, stop, step, phis, atoms, body, s.origin)
            self.builder.emit(made)
        for out, new in zip(s.outs, outs, strict=True):
            if new is not out:
                self.values[out] = Array(new)

    def own_paced(self, s: For | While) -> None:
        """Each example goes round its own number of times."""
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
        body = Block([*s.body.statements, *block.statements], [*s.body.results, atom_of(after)])
        core.substitute(body, {s.index: counter})
        self.found.update(mapped(test, self.found) | mapped(body, self.found))
        return While((*s.outs, last), (*s.phis, counter), (*s.inits, s.start), test, body, s.origin)

    def for_alive(self, s: For) -> None:
        """As many rounds as the longest example needs; in each the examples that still go on."""
        stop = self.value(s.stop)
        reduction = PRIMITIVES["np.max" if s.step > 0 else "np.min"]
        first = s.start if type(s.start) is int else 0  # the end, where there are no examples
        end = apply(reduction, stop, axis=None, keepdims=False, initial=first)

        def round_of(carried: dict[Var, Any]) -> tuple[list[Any], Any]:
            index = Array(s.index)
            live = index < stop if s.step > 0 else index > stop
            return self.one_round(s.body, None, s.phis, carried, live)[0], None

        phis, inits = self.carried(s)
        with self.builder.block() as body:
            after, _ = round_of({p: Array(n) for p, n in zip(s.phis, phis) if n is not p})
            body.results = list(map(atom_of, after))
        outs = tuple(self.fresh(o) if n is not p else o for o, p, n in zip(s.outs, s.phis, phis))
        bounds = atom_of(self.value(s.start)), atom_of(end), s.step
        self.builder.emit(For(outs, s.index, *bounds, phis, inits, body, s.origin))
        self._keep(s, outs)

    def while_alive(self, s: While) -> None:
        """Rounds as long as any example goes on; in each the examples that do."""
        phis, inits = self.carried(s)
        mapping: dict[Var, Any] = {}
        first = core.clone(s.test, mapping)
        self._copy_facts(mapping)
        start = self.same()
        start.values.update((p, Array(i)) for p, n, i in zip(s.phis, phis, inits) if n is not p)
        start.statements(first.statements)
        live = self.cast(start.full(first.results[0], BOOL), BOOL)
        flag = Var(self.batched_type(BOOL), "live", s.origin)
        with self.builder.block() as test:
            test.results = [atom_of(np.any(Array(flag)))]
        with self.builder.block() as body:
            own = {p: Array(n) for p, n in zip(s.phis, phis) if n is not p}
            after, now = self.one_round(s.body, s.test, s.phis, own, Array(flag))
            body.results = [*map(atom_of, after), atom_of(now)]
        outs = tuple(self.fresh(o) if n is not p else o for o, p, n in zip(s.outs, s.phis, phis))
        done = Var(flag.type, "live", s.origin)
        self.builder.emit(
            While((*outs, done), (*phis, flag), (*inits, atom_of(live)), test, body, s.origin)
        )
        self._keep(s, outs)

    def _keep(self, s: For | While, outs: Sequence[Var]) -> None:
        for out, new in zip(s.outs, outs, strict=True):
            if new is not out:
                self.values[out] = Array(new)

    def _copy_facts(self, mapping: dict[Var, Atom]) -> None:
        """What is known of the Vars of a cloned block holds of the clones."""
        for old, new in mapping.items():
            if old in self.found and isinstance(new, Var):
                self.found.add(new)
            if old in self.builder.dim_values and isinstance(new, Var):
                self.builder.dim_values[new] = self.builder.dim_values[old]

    def carried(self, s: For | While) -> tuple[tuple[Var, ...], tuple[Atom, ...]]:
        """The carried Vars of a loop with a batch axis, and what they begin with."""
        phis = tuple(self.fresh(p) if p in self.found else p for p in s.phis)
        inits = []
        for phi, init in zip(s.phis, s.inits, strict=True):
            if phi not in self.found:
                inits.append(atom_of(self.value(init)))
            elif init is UNDEFINED and not phi.type.ndim:
                inits.append(atom_of(new_zeros(self.size, phi.type.dtype)))
            else:
                inits.append(atom_of(self.full(init, phi.type)))
        return phis, tuple(inits)

    def one_round(
        self,
        body: Block,
        test: Block | None,
        phis: Sequence[Var],
        carried: dict[Var, Any],
        live: Any,
    ) -> tuple[list[Any], Any]:
        """The next values of carried Vars, for the living examples alone; and who lives on."""
        blocks = [body] if test is None else [body, test]
        carried = self.with_room(body, carried)
        if all(map(is_total, blocks)):
            return self._masked_round(body, test, phis, carried, live)
        if self.steady:
            return self._steady_round(body, test, phis, carried, live)
        lanes = _lanes_of(live)
        inner = self.on(lanes, blocks, live, carried)
        inner.statements(body.statements)
        after: list[Any] = []
        for phi, atom in zip(phis, body.results, strict=True):
            if phi not in carried:
                after.append(inner.value(atom))
                continue
            value = inner.value(atom)
            if atom is not phi and isinstance(value, Array) and value.dtype != phi.type.dtype:
                value = FUNCTIONS["cast"](value, phi.type.dtype)
            after.append(carried[phi] if atom is phi else _update(carried[phi], lanes, value))
        if test is None:
            return after, None
        inner.values.update(self._next(inner, phis, body.results, carried))
        inner.statements(test.statements)
        return after, _update(live, lanes, inner.value(test.results[0]))

    def with_room(self, body: Block, carried: dict[Var, Any]) -> dict[Var, Any]:
        """Carried arrays that grow have their new place before some lanes are taken from them."""
        grown = dict(carried)
        for s in body.statements:
            if isinstance(s, Apply) and s.primitive is room and s.args[0] in carried:
                array, count = s.args
                places = grown[count] if count in grown else self.value(count)
                if (
                    isinstance(count, Var)
                    and count not in grown
                    and count in core.defined_vars(body)
                ):
                    continue
                batched = count in grown or self.is_batched(count)
                places = np.max(places) if batched else places
                grown[array] = apply(room, grown[array], places, axis=1)
        return grown

    def _steady_round(
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
        inner.values.update(self._next(inner, phis, body.results, carried))
        inner.statements(test.statements)
        return after, live & inner.value(test.results[0])

    def _masked_round(
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
        inner.statements(test.statements)
        return after, live & inner.value(test.results[0])

    def _next(
        self, inner: Lanes, phis: Sequence[Var], results: Sequence[Atom], carried: dict[Var, Any]
    ) -> dict[Var, Any]:
        """The carried values of the next round, on the same lanes."""
        pairs = [(p, a) for p, a in zip(phis, results, strict=True) if p in carried]
        return {p: inner.full(a, p.type) for p, a in pairs}


def _lanes_of(mask: Any) -> Any:
    """The numbers of the examples for which a test holds."""
    lanes: Any = np.flatnonzero(mask)
    lanes.atom.name = "lanes"
    return lanes


def _update(base: Any, lanes: Any, value: Any) -> Any:
    """``base[lanes] = value``, as the next version."""
    cell = Array(base.atom)
    cell[lanes] = value
    return Array(cell.atom)


def _is_outside(atom: Atom, block: Block) -> bool:
    return not isinstance(atom, Var) or atom not in core.defined_vars(block)
