"""Examples batched together, and the values that they have: what the batching pass writes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from calque.transpiler import core
from calque.transpiler.analyses.mapped import over_own_axis
from calque.transpiler.builder import FUNCTIONS, Array, Builder, wrap
from calque.transpiler.core import UNDEFINED, Apply, Atom, Block, Effect, For, If, Var
from calque.transpiler.errors import DivergentCollective, UnsupportedFunction
from calque.transpiler.primitives.base import PRIMITIVES
from calque.transpiler.primitives.batched import counting, elementwise_rule, lift, spread
from calque.transpiler.primitives.collectives import OWN
from calque.transpiler.types import INT, ArrayType


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
        self.found = found
        self.alive = (
            alive  # a flag: whether there is any example; None where that goes without saying
        )
        self.nested = nested  # lanes of an arm: there may be none
        self.steady = False
        self.looping = False  # within a loop
        self.apart = False  # under a test that differs from one example to the next
        self.shared: dict[Var, Atom] = {}  # results of collectives: what all examples get

    def same(self, looping: bool = False) -> Self:
        """The same lanes, for an inner block."""
        made = type(self)(self.builder, self.size, self.values, self.found, self.alive, self.nested)
        made.steady, made.looping = self.steady, self.looping or looping
        made.apart, made.shared = self.apart, self.shared
        return made

    def is_batched(self, atom: Atom) -> bool:
        """Whether an atom has a companion here."""
        return isinstance(atom, Var) and atom in self.values

    def value(self, atom: Atom) -> Any:
        """What stands for an atom."""
        if self.is_batched(atom):
            return self.values[atom]
        return wrap(self.shared.get(atom, atom) if isinstance(atom, Var) else atom)

    def result(self, atom: Atom) -> tuple[Any, bool]:
        """What stands for an atom, and whether it has the batch axis."""
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
        return Var(self.batched_type(var.type), var.name, var.origin)

    def note(self, out: Var, value: Any) -> None:
        """Keep a Var's companion, with its name."""
        value = self.cast(value, out.type)
        if value.atom.name is None and out.name:
            value.atom.name = f"{out.name}_lanes" if self.nested else out.name
        self.values[out] = Array(value.atom)

    def apply(self, s: Apply) -> None:
        """One primitive, by its rule."""
        batched = tuple(self.is_batched(a) for a in s.args)
        if over_own_axis(s, self.found):
            self.collective(s)
            return
        if not any(batched):
            self.builder.emit(s)
            return
        if s.primitive.kind == "size":
            self.sizes(s)
            return
        rule = s.primitive.batch
        if rule is None and s.primitive.kind == "elementwise":
            rule = elementwise_rule(s.primitive)
        if rule is None:
            raise UnsupportedFunction(f"{s.primitive.name} has no batch rule.", s.origin)
        found = rule(tuple(map(self.value, s.args)), batched, s.params)
        found = (found,) if isinstance(found, Array) else tuple(found)
        for out, value in zip(s.outs, found, strict=True):
            self.note(out, value)

    def collective(self, s: Apply) -> None:
        """What the examples tell each other: all of them must be here."""
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
            value.atom.name = s.out.name
        self.shared[s.out] = value.atom

    def sizes(self, s: Apply) -> None:
        """A size of one example is a size of all of them, an axis further on."""
        array, axis_of = self.value(s.args[0]), PRIMITIVES["size of axis"]
        if s.primitive is axis_of:
            self.builder.emit(
                Apply(s.outs, axis_of, (array.atom,), {"axis": s.params["axis"] + 1}, s.origin)
            )
            return
        sizes = array.shape[1:]
        total: Any = 1
        for number in sizes[:-1]:
            total = total * number
        last = sizes[-1] if sizes else 1
        args = [x.atom if isinstance(x, Array) else x for x in (total, last)]
        self.builder.emit(Apply(s.outs, PRIMITIVES["np.multiply"], tuple(args), {}, s.origin))

    def effect(self, s: Effect) -> None:
        """Asserted of all examples; printed by each; raised for the first that comes here."""
        args = [self.value(a) for a in s.args]
        batched = [self.is_batched(a) for a in s.args]
        with self.builder.block() as block:
            if s.template.startswith("assert ") and batched[:1] == [True]:
                args[0], batched[0] = np.all(args[0]), False
            if not any(batched):
                self.builder.effect(s.template, args)
            elif s.template.startswith("print"):
                self.each(s, args, batched)
            else:
                rows = [a[0] if b else a for a, b in zip(args, batched, strict=True)]
                self.builder.effect(s.template, rows)
        if self.alive is None:
            self.builder.blocks[-1].statements += block.statements
        else:
            self.builder.emit(If((), self.alive.atom, block, Block(), s.origin))

    def each(self, s: Effect, args: Sequence[Any], batched: Sequence[bool]) -> None:
        """The effect, once for every example."""
        index = Var(INT, "lane", s.origin)
        with self.builder.block() as body:
            rows = [a[Array(index)] if b else a for a, b in zip(args, batched, strict=True)]
            self.builder.effect(s.template, rows)
        self.builder.emit(For((), index, 0, atom_of(self.size), 1, (), (), body, s.origin))

    def on(
        self, lanes: Any, blocks: Sequence[Block], mask: Any, more: dict[Var, Any] | None = None
    ) -> Self:
        """These lanes alone, with the values that the blocks read."""
        values: dict[Var, Any] = {}
        for block in blocks:
            for var in core.free_vars(block):
                if var in self.values and var not in values:
                    values[var] = self._named(self.values[var][lanes], var)
        for var, array in (more or {}).items():
            values[var] = self._named(array[lanes], var)
        alive = np.any(mask) if any(has_effects(b) for b in blocks) else None
        made = type(self)(self.builder, lanes.shape[0], values, self.found, alive, True)
        made.steady, made.looping = self.steady, self.looping
        made.apart, made.shared = True, self.shared
        return made

    def _named(self, array: Any, var: Var) -> Any:
        if array.atom.name is None and var.name:
            array.atom.name = f"{var.name}_lanes"
        return Array(array.atom)

    def standing_in(
        self, mask: Any, blocks: Sequence[Block], more: dict[Var, Any] | None = None
    ) -> Self:
        """As many lanes as examples: where the mask is false, the first one of the mask."""
        rows: Any = np.where(mask, counting(self.size), np.argmax(mask))
        rows.atom.name = "rows"
        inner = self.on(rows, blocks, mask, more)
        inner.nested, inner.size, inner.looping = self.nested, self.size, True
        return inner

    def over(self, mask: Any, atom: Atom, before: Any, out: Var) -> Any:
        """``before``, with what the examples of the mask have found."""
        if atom is UNDEFINED:
            return before
        rank = out.type.ndim
        value = lift(self.value(atom), rank) if self.is_batched(atom) else wrap(atom)
        return self.cast(np.where(lift(mask, rank), value, before), out.type)


def atom_of(value: Any) -> Atom:
    return value.atom if isinstance(value, Array) else value


def has_effects(block: Block) -> bool:
    return any(isinstance(s, Effect) for s in core.walk(block))
