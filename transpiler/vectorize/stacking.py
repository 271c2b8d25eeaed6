"""Batched examples and their values: the state with which the batching pass writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calque.transpiler.errors import CalqueError, DivergentCollective, Unstackable
from calque.transpiler.frontend.control.value_join import size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import UNDEFINED, Apply, Atom, Block, Effect, If, Var
from calque.transpiler.ir.effects import has_effects
from calque.transpiler.ir.rewrite import cloned, emit_loop
from calque.transpiler.ir.types import INT, ArrayType
from calque.transpiler.ir.versions import Versions
from calque.transpiler.primitives.axis_collectives import OWN
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.batched import (
    counting,
    elementwise_rule,
    lift,
    new_zeros,
    spread,
)
from calque.transpiler.primitives.batched_indexing import of_rows
from calque.transpiler.primitives.elementwise import multiply
from calque.transpiler.primitives.growing import furthest, room, widened
from calque.transpiler.primitives.indexing import getitem
from calque.transpiler.primitives.logic import not_
from calque.transpiler.primitives.shapes import size_of_axis
from calque.transpiler.vectorize.divergence import (
    differs_in_size,
    element,
    has_plain_index,
    over_own_axis,
    read_by_element,
)
from calque.transpiler.vectorize.refused_numbers import refuse
from calque.transpiler.vectorize.serial_regions import split_around


@dataclass
class LaneRows:
    """An array of which these lanes are some rows, read and stored into where they stand."""

    base: Any
    lanes: Any
    root: Var  # what the lanes' array was when they were taken


class Values:
    """Some of the examples, and the values they have: writes statements for all of them at once."""

    def __init__(
        self,
        builder: Builder,
        size: Any,
        values: dict[Var, Any],
        found: set[Var],
        alive: Any = None,
        nested: bool = False,
    ):
        self.builder = builder
        self.size = size
        self.values = dict(values)  # batched Vars of one example -> Arrays of all
        self.rows: dict[Var, LaneRows] = {}
        self.found = found
        self.alive = (
            alive  # a flag: whether there is any example; None where that goes without saying
        )
        self.nested = nested  # lanes of an arm: there may be none
        self.steady = False
        self.looping = False  # within a loop
        self.apart = False  # under a test that differs from one example to the next
        self.shared: dict[Var, Atom] = {}  # results of collectives: what all examples get
        self.lost: dict[Var, Unstackable] = {}  # of no common shape, gone with their loop
        self.read: set[Any] = set()  # elements that all these examples have

    def same(self, looping: bool = False) -> Self:
        """The same lanes, for an inner block."""
        made = type(self)(self.builder, self.size, self.values, self.found, self.alive, self.nested)
        made.steady, made.looping = self.steady, self.looping or looping
        made.apart, made.shared, made.lost = self.apart, self.shared, self.lost
        made.rows = dict(self.rows)
        made.read = set(self.read)
        return made

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Open a block that some examples or iterations run; rows gathered in it stay in it."""
        before = dict(self.values)
        try:
            with self.builder.block() as block:
                yield block
        finally:
            self.values = before

    def is_batched(self, atom: Atom) -> bool:
        """True if an atom has a batched companion here."""
        return isinstance(atom, Var) and (atom in self.values or atom in self.rows)

    def value(self, atom: Atom) -> Any:
        """The value that replaces an atom in the batched program."""
        if isinstance(atom, Var) and atom in self.rows and atom not in self.values:
            rows = self.rows[atom]
            self.values[atom] = self._named(rows.base[rows.lanes], atom)
        if self.is_batched(atom):
            return self.values[atom]
        if isinstance(atom, Var) and atom in self.lost:
            raise self.lost[atom]
        return wrap(self.shared.get(atom, atom) if isinstance(atom, Var) else atom)

    def result(self, atom: Atom) -> tuple[Any, bool]:
        """The value that replaces an atom, and True if it has the batch axis."""
        return self.value(atom), self.is_batched(atom)

    def full(self, atom: Atom, like: ArrayType) -> Any:
        """An atom's values with the batch axis, in the dtype of ``like``."""
        if atom is UNDEFINED:
            return UNDEFINED
        value = self.value(atom)
        if not self.is_batched(atom):
            value = spread(value, self.size)
        return self.cast(value, like)

    def cast(self, value: Any, like: ArrayType) -> Any:
        """A batched value in the dtype of one example's."""
        return FUNCTIONS["cast"](value, like.dtype) if value.dtype != like.dtype else value

    def batched_type(self, t: ArrayType) -> ArrayType:
        """The type of all examples' values."""
        return ArrayType(t.dtype, (self.builder.dim_of(self.size), *t.dims))

    def fresh(self, var: Var) -> Var:
        """A companion for a carried Var."""
        made = var.again(self.batched_type(var.type))
        made.name = self.name_of(var)
        return made

    def name_of(self, var: Var) -> str | None:
        """``x_lanes`` for some examples of ``x``; the user's name for all of them."""
        return f"{var.name}_lanes" if self.nested and var.name else var.name

    def note(self, out: Var, value: Any) -> None:
        """Keep a Var's companion, with its name."""
        value = self.cast(value, out.type)
        if value.atom.name is None and out.name:
            value.atom.name = self.name_of(out)
        value.atom.word = value.atom.word or out.word
        self.values[out] = Array(value.atom)

    def forget_elements(self, changed: Sequence[Var]) -> None:
        """Forget reads at changed indices: a read of ``x[i]`` says nothing of the next ``i``."""
        self.read = {e for e in self.read if not any(arg in changed for arg in e[0])}

    def statements(self, statements: Sequence[core.Statement]) -> None:
        """Emit each for all examples."""
        raise NotImplementedError

    def apply(self, s: Apply) -> None:
        """Write one primitive by its batch rule."""
        batched = tuple(self.is_batched(a) for a in s.args)
        if s.primitive is getitem:
            self.read.add(element(s))
        if over_own_axis(s, self.found):
            self.collective(s)
            return
        for a in s.args:
            if isinstance(a, Var) and a in self.lost:
                raise self.lost[a]
        if not any(batched):
            self.builder.emit(s)
            return
        if self.in_place(s):
            return
        if s.primitive.kind == "size":
            self.sizes(s)
            return
        if differs_in_size(s, self.found):
            raise Unstackable(
                f"vmap of {s.primitive.name}: the size of the result would differ from one example "
                "to the next.",
                s.origin,
                "reduce it to a fixed size, or use np.where with the mask instead",
            )
        rule = s.primitive.batch
        if rule is None and s.primitive.kind == "elementwise":
            rule = elementwise_rule(s.primitive)
        if rule is None:
            raise Unstackable(f"vmap of {s.primitive.name}: it has no rule.", s.origin)
        args, before = tuple(map(self.value, s.args)), self.builder.lanes
        refuse(s, args, batched)
        self.builder.lanes = self
        try:
            found = rule(args, batched, s.params)
        finally:
            self.builder.lanes = before
        found = (found,) if isinstance(found, Array) else tuple(found)
        for out, value in zip(s.outs, found, strict=True):
            self.note(out, value)

    def in_place(self, s: Apply) -> bool:
        """Read or store among the rows of a whole array, if that is where the lanes' array is."""
        rows = self.rows.get(s.args[0]) if isinstance(s.args[0], Var) else None
        if rows is None:
            return False
        batched = tuple(self.is_batched(a) for a in s.args)
        args = [rows.base, *map(self.value, s.args[1:])]
        if s.primitive is room:
            count = apply(furthest, args[1], 0, up=True, axis=None) if batched[1] else args[1]
            params = {**s.params, "axis": s.params.get("axis", 0) + 1}
            found = apply(room, rows.base, count, **params)
        elif has_plain_index(s):
            found = of_rows(s.primitive, args, batched, s.params, rows.lanes)
        else:
            return False
        if s.primitive.kind != "store":
            self.note(s.out, found)
            return True
        found.atom.name = rows.base.atom.name
        self.rows[s.out] = LaneRows(found, rows.lanes, rows.root)
        return True

    def collective(self, s: Apply) -> None:
        """Write a collective over the batch axis, which all examples must reach."""
        if self.apart:
            raise DivergentCollective(
                f"{s.primitive.name} stands where not every example comes: under a test, or in a "
                "loop, that differs from one example to the next.",
                s.origin,
                "call it before the branch, and choose by its result with np.where or if",
            )
        (arg,) = s.args
        value = OWN[s.primitive](self.value(arg), self.is_batched(arg), s.params, self.size)
        if s.out in self.found:
            self.note(s.out, value)
            return
        value = self.cast(value, s.out.type)
        if value.atom.name is None:
            value.atom.name, value.atom.word = s.out.name, s.out.word
        self.shared[s.out] = value.atom

    # one after the other

    def mark(self) -> Any:
        """The present state of the program, to return to by ``back_to``."""
        builder = self.builder
        here = len(builder.blocks[-1].statements), dict(builder._sizes[-1])
        return *here, dict(self.values), dict(self.rows)

    def back_to(self, mark: Any) -> None:
        """Drop what was written since."""
        count, sizes, values, rows = mark
        self.values, self.rows = dict(values), dict(rows)
        del self.builder.blocks[-1].statements[count:]
        self.builder._sizes[-1].clear()
        self.builder._sizes[-1].update(sizes)

    def one_by_one(
        self, statements: Sequence[core.Statement], error: Unstackable
    ) -> tuple[list[core.Statement], Callable[[], list[core.Statement]]]:
        """Put the first statement, and those that must go with it, into a loop over the examples.

        Gives the statements to be written before the loop, and a function that writes it and gives
        those that remain.
        """
        before, together, after = split_around(statements, self._fits)
        inside = (t for t in core.walk(Block(together)) if isinstance(t, Apply))
        if any(t.primitive.kind == "collective" for t in inside):
            raise error

        def write() -> list[core.Statement]:
            made = [o for t in together for o in t.outs]
            rooms = {o: self._room(o, keep=True) for o in made}
            with self.builder.at(together[0].origin):
                self._loop_over_lanes(together, {o: r for o, r in rooms.items() if r is not None})
            self.lost.update((o, error) for o, r in rooms.items() if r is None)
            return after

        return before, write

    def _loop_over_lanes(self, together: list[core.Statement], rooms: dict[Var, Array]) -> None:
        builder, origin = self.builder, together[0].origin
        phis = tuple(Var(r.type, o.name, o.origin) for o, r in rooms.items())
        lane = loop_index(0, builder.dim_of(self.size) - 1, "lane")
        given = {v: self.value(v) for v in core.free_vars(Block(together))}
        with builder.block() as body:
            mapping: dict[Var, Atom] = {}
            for v, value in given.items():
                mapping[v] = atom_of(value[lane] if self.is_batched(v) else value)
                if self.is_batched(v) and mapping[v].name is None and v.name:
                    mapping[v].name = f"{v.name}_lane"
            copied = cloned(builder, Block(together, list(rooms)), mapping)
            for t in copied.statements:
                builder.emit(t)
            for phi, atom in zip(phis, copied.results, strict=True):
                cell = Array(phi)
                cell[lane] = wrap(atom)
                body.results.append(cell.atom)
        span, inits = (0, self.size, 1), list(rooms.values())
        made = emit_loop(builder, lane.atom, span, phis, inits, body, origin=origin)
        for o, out in zip(rooms, made.outs, strict=True):
            self.note(o, Array(out))

    def _fits(self, var: Var) -> bool:
        """True if a value is shared, or has a shape known to be the same for all examples."""
        return var not in self.found or self._room(var) is not None

    def _room(self, var: Var, keep: bool = False) -> Any:
        """A place for a value of every example; None where its shape is not known beforehand."""
        mark = self.mark()
        try:
            shape = (self.size, *map(size_at_hand, var.type.dims))
            return new_zeros(shape, var.type.dtype)
        except CalqueError:
            keep = False
            return None
        finally:
            if not keep:
                self.back_to(mark)

    def sizes(self, s: Apply) -> None:
        """A size of one example is a size of all of them, an axis further on."""
        array, axis_of = self.value(s.args[0]), size_of_axis
        axis = s.params.get("axis", 0 if array.ndim == 2 else None)
        if axis is not None:  # the only axis of one example has its size
            self.builder.emit(Apply(s.outs, axis_of, (array.atom,), {"axis": axis + 1}, s.origin))
            return
        sizes = array.shape[1:]
        total: Any = 1
        for number in sizes[:-1]:
            total = total * number
        last = sizes[-1] if sizes else 1
        args = [x.atom if isinstance(x, Array) else x for x in (total, last)]
        self.builder.emit(Apply(s.outs, multiply, tuple(args), {}, s.origin))

    def effect(self, s: Effect) -> None:
        """Asserted of all examples; printed by each; raised for the first that comes here."""
        args = [self.value(a) for a in s.args]
        batched = [self.is_batched(a) for a in s.args]
        with self.builder.block() as block:
            if s.template.startswith("assert ") and batched[:1] == [True]:
                self._assert_all(s, args, batched)
            elif not any(batched):
                self.builder.effect(s.template, args)
            elif s.template.startswith("print"):
                self.each(s, args, batched)
            else:
                self.builder.effect(s.template, _rows(args, batched, 0))
        if self.alive is None:
            self.builder.blocks[-1].statements += block.statements
        else:
            self.builder.emit(If((), self.alive.atom, block, Block(), s.origin))

    def _assert_all(self, s: Effect, args: Sequence[Any], batched: Sequence[bool]) -> None:
        """Assert that all examples pass a test; the text is that of the first that does not."""
        test, holds = args[0], np.all(args[0])
        if not any(batched[1:]):
            self.builder.effect(s.template, [holds, *args[1:]])
            return
        with self.builder.block() as refused:
            text = s.template.removeprefix("assert {0}, ")
            rows = _rows(args[1:], batched[1:], np.argmin(test))
            self.builder.effect(f"raise AssertionError({text})", [False, *rows])
        self.builder.emit(If((), apply(not_, holds).atom, refused, Block(), s.origin))

    def each(self, s: Effect, args: Sequence[Any], batched: Sequence[bool]) -> None:
        """The effect, once for every example."""
        index = Var(INT, "lane", s.origin)
        with self.builder.block() as body:
            self.builder.effect(s.template, _rows(args, batched, Array(index)))
        emit_loop(self.builder, index, (0, self.size, 1), (), (), body, origin=s.origin)

    def on(
        self,
        lanes: Any,
        blocks: Sequence[Block],
        mask: Any,
        more: dict[Var, Any] | None = None,
        whole: Collection[Var] | None = (),
    ) -> Self:
        """The state for these lanes alone, with the values that the blocks read.

        Arrays of ``whole`` stay where they are, and so do those that are read by element; none do
        if it is None.
        """
        self.builder.lanes_taken = True
        kept = set() if whole is None else {*whole, *read_by_element(blocks)}
        values: dict[Var, Any] = {}
        rows: dict[Var, LaneRows] = {}
        wanted = {v: None for b in blocks for v in core.free_vars(b) if self.is_batched(v)}
        for var in wanted | (more or {}):
            array = (more or {}).get(var)
            array = self.value(var) if array is None else array
            if var in kept:
                rows[var] = LaneRows(array, lanes, var)
            else:
                values[var] = self._named(array[lanes], var)
        alive = np.any(mask) if any(has_effects(s) for b in blocks for s in b.statements) else None
        made = type(self)(self.builder, lanes.shape[0], values, self.found, alive, True)
        made.steady, made.looping, made.rows = self.steady, self.looping, rows
        made.read = set(self.read)
        made.apart, made.shared, made.lost = True, self.shared, self.lost
        return made

    def _named(self, array: Any, var: Var) -> Any:
        if array.atom.name is None and var.name:
            array.atom.name = f"{var.name}_lanes"
        return Array(array.atom)

    def standing_in(
        self, mask: Any, blocks: Sequence[Block], more: dict[Var, Any] | None = None
    ) -> Self:
        """The state with a lane for each example: the mask's first one for those outside of it."""
        rows: Any = np.where(mask, counting(self.size), np.argmax(mask))
        rows.atom.name = "rows"
        inner = self.on(rows, blocks, mask, more, None)
        inner.nested, inner.size, inner.looping = self.nested, self.size, True
        return inner

    def over(self, mask: Any, atom: Atom, before: Any, out: Var) -> Any:
        """``before``, with what the examples of the mask have found."""
        if atom is UNDEFINED:
            return before
        rank = out.type.ndim
        value = lift(self.value(atom), rank) if self.is_batched(atom) else wrap(atom)
        before = self.as_wide(before, value)
        return self.cast(np.where(lift(mask, rank), value, before), out.type)

    def as_wide(self, base: Any, value: Any) -> Any:
        """``base``, widened where the rows copied from it have grown."""
        axis = self.grown_axis(value.atom) if isinstance(value, Array) else None
        return base if axis is None else apply(widened, base, value, axis=axis)

    def grown_axis(self, atom: Atom) -> int | None:
        """The axis along which an array may have got more places since an earlier version of it."""
        versions = Versions(self.builder.definitions)
        made = (versions.made.get(v) for v in versions.earlier(atom) if isinstance(v, Var))
        grown = (s for s in made if isinstance(s, Apply) and s.primitive in (room, widened))
        return next((s.params.get("axis", 0) for s in grown), None)


def atom_of(value: Any) -> Atom:
    return value.atom if isinstance(value, Array) else value


def _rows(args: Sequence[Any], batched: Sequence[bool], example: Any) -> list[Any]:
    """The value that one of the examples has in place of batched values."""
    return [a[example] if b else a for a, b in zip(args, batched, strict=True)]
