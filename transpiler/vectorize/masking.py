"""Branches of a batched program: each example takes the arm that it would take alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.transpiler.errors import CalqueError, Origin, Unstackable
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, wrap
from calque.transpiler.ir.core import UNDEFINED, Atom, Block, For, If, Var, While
from calque.transpiler.primitives.batched import lift, new_zeros
from calque.transpiler.vectorize.divergence import is_total, needs_lanes, stored_roots
from calque.transpiler.vectorize.stacking import LaneRows, Values, atom_of

_OPPOSITE: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


class Arms(Values):
    """Writes the branches."""

    def branch(self, s: If) -> None:
        """An ``if``: one for all, or each example its own."""
        if not self.is_batched(s.test):
            self.shared_branch(s)
        elif _of_other_sizes(s):
            raise Unstackable("vmap of a branch whose arms make arrays of other sizes.", s.origin)
        elif self.all_may_run((s.then, s.orelse)):
            self.chosen(s)
        elif (self.steady and self.looping) or self.guarded(s):
            self.arm_by_arm(s)
        else:
            self.split(s)

    def all_may_run(self, blocks: Sequence[Block]) -> bool:
        """True if blocks may run for examples that do not take them."""
        if self.builder.whole_batches:
            return True
        return all(is_total(block, self.read, self.steady) for block in blocks)

    def guarded(self, s: If) -> bool:
        """True if an arm must not run at all where no example takes it."""
        if not any(needs_lanes(arm, {*self.values, *self.rows}) for arm in (s.then, s.orelse)):
            return False
        inner = core.defined_vars(s.then) | core.defined_vars(s.orelse)
        with self.builder.block():
            try:
                for out, *results in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    if out.type.ndim and all(r is UNDEFINED or r in inner for r in results):
                        self.vacant(out)
            except CalqueError:
                return False  # only its lanes can tell the size of a result
        return True

    def arm_by_arm(self, s: If) -> None:
        """Each arm only if an example takes it, on its lanes.

        Under a reverse sweep to come, where loops want sizes that stay: for all examples, those
        that do not take it standing in for one that does.
        """
        test = self.value(s.test)
        now: list[Any] = [None] * len(s.outs)
        held = [_left_as_it_was(s, k) for k in range(len(s.outs))]
        arms = [(s.then, test), (s.orelse, np.logical_not(test))]
        arms.sort(key=lambda a: bool(a[0].statements))  # what is at hand first
        for arm, mask in arms:
            if not arm.statements:
                held = arm.results
                now = [
                    None if a is UNDEFINED else self.full(a, o.type)
                    for a, o in zip(held, s.outs, strict=True)
                ]
                continue
            start = [
                n if n is not None else self.vacant(o) if h is UNDEFINED else self.full(h, o.type)
                for n, o, h in zip(now, s.outs, held, strict=True)
            ]
            with self.block() as block, self.builder.at(origin_of_arm(s, arm)):
                other_arm = s.orelse if arm is s.then else s.then
                whole = set() if other_arm.statements else in_place(s, arm)
                after = self.arm_results(arm, mask, start, s.outs, whole, held)
                block.results = list(map(atom_of, after))
            outs = tuple(self.fresh(o) for o in s.outs)
            other = Block([], list(map(atom_of, start)))
            self.builder.emit(If(outs, atom_of(np.any(mask)), block, other, s.origin))
            now = [Array(o) for o in outs]
        for out, value in zip(s.outs, now, strict=True):
            self.note(out, value)

    def arm_results(
        self,
        arm: Block,
        mask: Any,
        start: Sequence[Any],
        outs: Sequence[Var],
        whole: set[Var],
        held: Sequence[Atom],
    ) -> list[Any]:
        """The values before the branch, with an arm's results for the examples of the mask.

        ``held``: the values that ``start`` has for these examples, which need not be stored again.
        """
        triples = list(zip(arm.results, start, outs, strict=True))
        loops = any(isinstance(s, For | While) for s in core.walk(arm))
        if self.steady and (self.looping or loops):
            inner = self.standing_in(mask, [arm])
            inner.statements(arm.statements)
            return [inner.over(mask, a, before, o) for a, before, o in triples]
        lanes = lanes_of(mask)
        inner = self.on(lanes, [arm], mask, whole=whole)
        inner.statements(arm.statements)
        after = []
        for (atom, before, out), there in zip(triples, held, strict=True):
            if atom is UNDEFINED or atom is there:
                after.append(before)
            elif isinstance(atom, Var) and atom in inner.rows:
                after.append(inner.rows[atom].base)
            elif _is_outside(atom, arm):
                after.append(self.either(mask, atom, before, out))
            else:
                after.append(self.stored(before, lanes, inner.value(atom)))
        return after

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
            with self.builder.at(origin_of_arm(s, arm)):
                mask = np.logical_not(test) if mask is None else mask
                lanes = lanes_of(mask)
                inner = self.on(lanes, [arm], mask, whole=in_place(s, arm))
                inner.statements(arm.statements)
                parts.append((lanes, [_found(inner, a) for a in arm.results]))
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
        for found in computed:
            if isinstance(found, LaneRows):
                return found.base
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
        return stored_rows(self.as_wide(base, value), lanes, value)


def _of_other_sizes(s: If) -> bool:
    """True if one arm has size 1 along an axis, which would be broadcast, the other another."""
    resolve = current().dims.resolve
    for out, *results in zip(s.outs, s.then.results, s.orelse.results, strict=True):
        arrays = [r.type.dims for r in results if isinstance(r, Var)]
        if len(arrays) == 2 and out.type.ndim:
            pairs = (set(map(resolve, pair)) for pair in zip(*arrays, strict=False))
            if any(len(pair) == 2 and 1 in pair for pair in pairs):
                return True
    return False


def origin_of_arm(s: If, arm: Block) -> Origin | None:
    """The origin of an arm: that of a second one is quoted as ``else: (x <= 0.5)``."""
    first = s.origin.statement.split("\n")[0] if s.origin else ""
    head = re.match(r"(?:el)?if\b([^#]*):\s*(?:#.*)?$", first)
    if s.origin is None or head is None or arm is s.then:
        return s.origin
    test = ast.parse(head[1].strip(), mode="eval").body
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        opposite = _OPPOSITE[type(test.ops[0])]()
        said = ast.unparse(ast.Compare(test.left, [opposite], test.comparators))
    else:
        said = ast.unparse(ast.UnaryOp(ast.Not(), test))
    return replace(s.origin, note=f"else: ({said})")


def _left_as_it_was(s: If, k: int) -> Atom:
    """The outer value that an arm returns unchanged as result ``k``; UNDEFINED if none does."""
    for arm in (s.then, s.orelse):
        atom = arm.results[k]
        if atom is not UNDEFINED and _is_outside(atom, arm):
            return atom
    return UNDEFINED


def lanes_of(mask: Any) -> Any:
    """The numbers of the examples for which a test holds."""
    lanes: Any = np.flatnonzero(mask)
    lanes.atom.name = "lanes"
    return lanes


def stored_rows(base: Any, lanes: Any, value: Any) -> Any:
    """``base[lanes] = value``, as the next version."""
    cell = Array(base.atom)
    cell[lanes] = value
    return Array(cell.atom)


def in_place(s: If, arm: Block) -> set[Var]:
    """Arrays that an arm stores into and the other one leaves alone."""
    other = s.orelse if arm is s.then else s.then
    roots = stored_roots(arm)
    pairs = [
        (roots[a], b)
        for a, b in zip(arm.results, other.results, strict=True)
        if isinstance(a, Var) and a in roots
    ]
    read = core.free_vars(Block(other.statements, []))
    once = [root for root, _ in pairs]
    return {r for r, b in pairs if r is b and r not in read and once.count(r) == 1}


def _found(inner: Values, atom: Atom) -> Any:
    if isinstance(atom, Var) and atom in inner.rows:
        return inner.rows[atom]
    return inner.result(atom)


def _is_outside(atom: Atom, block: Block) -> bool:
    return not isinstance(atom, Var) or atom not in core.defined_vars(block)
