"""Tape buffers: arrays that save a value of each iteration, read by the reverse loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.autodiff.tape.trip_counts import (
    apply_operator,
    is_small,
    own_counter,
    wrap_atom,
)
from calque.transpiler.errors import CalqueError, UnsupportedSyntax
from calque.transpiler.frontend.control.value_join import combine, shape_of, size_at_hand
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import first_use, insert_before
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder
from calque.transpiler.ir.core import (
    Apply,
    Block,
    For,
    Function,
    If,
    Slot,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.types import INT, ArrayType, Dim, DimLike, dim_symbols, symbol
from calque.transpiler.ir.undefined_values import unfilled
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import getitem, update

FIRST_CAPACITY = 16


@dataclass(eq=False)
class Buffer:
    """An array that saves one value for each iteration of a loop (or of a nest of loops)."""

    value: Var
    allocation: list[Statement]
    home: Block  # the block of the allocation
    loop: For | While
    store: Apply
    store_block: Block
    reads: list[tuple[Block, Apply, Array]]
    out: Var
    growing: bool
    inserted: list[Statement] = field(default_factory=list)  # the storing code, in store_block
    position: Any = None
    boxed: bool = False  # several loops, an index for each
    top: Var | None = None  # of a flat buffer: where the next outer iteration starts
    arms: list[tuple[If, int]] = field(default_factory=list)  # around the loop, the innermost first


@dataclass(eq=False)
class Buffers:
    """The buffers of one reverse sweep, and the forward program that fills them."""

    builder: Builder
    function: Function
    at_top: set[Var] = field(default_factory=set)
    buffers: dict[Var, Buffer] = field(default_factory=dict)
    loops: list[tuple[For | While, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        defined = {o for s in self.function.body.statements for o in s.outs}
        self.at_top = defined - unfilled(self.function.body)

    def home_of(self, statement: Statement) -> Block:
        """The forward block that holds a statement."""

        def search(block: Block) -> Block | None:
            for s in block.statements:
                if s is statement:
                    return block
                for inner in core.blocks_of(s):
                    found = search(inner)
                    if found is not None:
                        return found
            return None

        found = search(self.function.body)
        if found is None:
            raise KeyError("the statement is not in the forward program")
        return found

    def visible_at(self, statement: Statement) -> list[Var]:
        """The values that a statement of the forward program can read."""
        found = list(self.function.params)

        def search(block: Block) -> bool:
            for s in block.statements:
                if s is statement:
                    return True
                before = len(found)
                found.extend(core.bound_vars(s))
                if any(map(search, core.blocks_of(s))):
                    return True
                found[before:] = s.outs
            return False

        search(self.function.body)
        return found

    def enter(self, loop: For | While, index: Array) -> None:
        """Note that the sweep enters a loop."""
        self.loops.append((loop, index))

    def leave(self) -> None:
        """Note that the sweep leaves the loop."""
        self.loops.pop()

    def sizes(self, t: ArrayType, like: Array) -> tuple[Any, ...]:
        """The sizes of a type from what is at hand; else read from ``like``."""
        try:
            return shape_of(t)
        except CalqueError:
            return like.shape

    @contextmanager
    def forward_of(self, statement: Statement) -> Iterator[None]:
        """Record into the forward program: only sizes computed before ``statement`` are at hand."""
        builder = self.builder
        kept, builder._sizes = builder._sizes, [{}]
        for s in self.function.body.statements:
            if s is statement or any(
                t is statement for b in core.blocks_of(s) for t in core.walk(b)
            ):
                break
            for out in s.outs:
                if out in builder.dim_values:
                    builder._sizes[0].setdefault(builder.dims.resolve(builder.dim_values[out]), out)
        try:
            yield
        finally:
            builder._sizes = kept

    def insert_forward(self, block: Block, statement: Statement, write: Callable[[], Any]) -> Any:
        """Insert what ``write`` records before a statement; returns what it returned."""
        with self.forward_of(statement), self.builder.block() as new:
            result = write()
        insert_before(block, statement, new.statements)
        return result

    def origin_at(self, block: Block, where: int) -> Any:
        return block.statements[where].origin if where < len(block.statements) else None

    def saved_name(self, value: Var) -> str:
        """``s_saved``; for elements that a store overwrites, and sizes, the array's name."""
        made = self.builder.definitions.get(value)
        if value.name is None and isinstance(made, Apply) and made.primitive is getitem:
            return f"{made.args[0].name or 'values'}_saved"
        if value.name is None and is_size(made):
            return f"{made.args[0].name or 'array'}_size_saved"
        word = value.name or value.word or self.builder.described(value)
        return f"{word or 'values'}_saved"

    def sizes_known(self, t: ArrayType) -> bool:
        """True if values of this type can be saved in an array allocated before the loop."""
        if not t.ndim:
            return True
        try:
            with self.builder.block():
                self.sizes_outside(t)
        except CalqueError:
            return False
        return True

    def sizes_outside(self, t: ArrayType) -> tuple[Any, ...]:
        try:
            return tuple(self._nonnegative(size_at_hand(self.upper_bound(d))) for d in t.dims)
        except CalqueError:
            raise UnsupportedSyntax(
                "The reverse phase needs a value whose size changes from iteration to iteration.",
                self.builder.origin,
                "give it a fixed size, or write the loop over its elements",
            ) from None

    def upper_bound(self, dim: Any) -> Any:
        """A bound on a size that depends on loop counters."""
        dims = self.builder.dims
        dim = dims.resolve(dim)
        for _ in range(16):
            if not isinstance(dim, Dim):
                return dim
            inner = [s for s in dim_symbols(dim) if s in dims.ranges]
            if not inner:
                return self._without_largest(dim)
            coefficient = dict(dim.terms)[inner[0]]
            low, high = dims.ranges[inner[0]]
            bound = high if coefficient > 0 else low
            dim = dims.resolve(dim - coefficient * symbol(inner[0]) + coefficient * bound)
        return dim

    def _without_largest(self, dim: Dim) -> DimLike:
        """A bound on a dimension where the larger of two depends on a loop's counter."""
        dims = self.builder.dims
        for name, coefficient in dim.terms:
            choices = [dims.resolve(c) for c in dims.largest.get(name, ())]
            if coefficient < 0 or not any(dim_symbols(c) & dims.ranges.keys() for c in choices):
                continue
            bounds = [self.upper_bound(c) for c in choices]
            # n - 1 may be less than 0, n is not
            more = [b - b.const for b in bounds if isinstance(b, Dim) and b.const < 0]
            for b in [*bounds, *more]:
                if all(dims.nonnegative(b - other) for other in bounds):
                    return self.upper_bound(dim - coefficient * symbol(name) + coefficient * b)
        return dim

    def capacity_of(self, s: For | While) -> Any:
        """A bound on the positions of a loop's iterations, as counted by ``position_of``."""
        assert isinstance(s, For)
        start, stop, step = wrap_atom(s.start), wrap_atom(s.stop), s.step
        if step == 1 and is_small(s.start):
            return self._nonnegative(stop)
        if step == -1 and isinstance(s.stop, int) and s.stop >= -1:
            return self._nonnegative(start + 1)
        span = stop - start if step > 0 else start - stop
        if abs(step) != 1:
            span = (span + (abs(step) - 1)) // abs(step)
        return self._nonnegative(span)

    def _nonnegative(self, size: Any) -> Any:
        dim = self.builder.dim_of(size)
        if self.builder.dims.assume_nonnegative(dim):
            return size
        return FUNCTIONS[np.maximum](size, 0)

    def position_of(self, s: For | While, index: Any) -> Any:
        """The position of an iteration in a buffer."""
        if isinstance(s, While):
            return index
        if s.step == 1 and is_small(s.start):
            return index
        if s.step == -1 and isinstance(s.stop, int) and s.stop >= -1:
            return index
        start = wrap_atom(s.start)
        if s.step == 1:
            return index - start
        return (index - start) // s.step

    def counter_of(self, s: While) -> tuple[Var, Var]:
        """A counter of the iterations of a while: its phi, and its last value."""
        own = own_counter(s)
        if own is not None:
            return own
        phi, out = Var(INT, "iterations", s.origin), Var(INT, "iterations", s.origin)
        with self.builder.block() as block:
            after = apply_operator("add", Array(phi), 1)
        s.body.statements += block.statements
        s.body.results.append(after.atom)
        s.phis, s.inits, s.outs = (*s.phis, phi), (*s.inits, 0), (*s.outs, out)
        return phi, out

    def carry(self, s: For | While, first: Array, value: Var, growing: bool) -> Buffer:
        """Let a loop carry a buffer and store ``value`` into it."""
        t = first.type
        if growing:
            t = t.with_dims((self.builder.dims.fresh(), *t.dims[1:]))
        phi, out = Var(t, first.atom.name, s.origin), Var(t, first.atom.name, s.origin)
        with self.forward_of(s), self.builder.block() as places:
            if isinstance(s, While):
                position: Any = Array(self.counter_of(s)[0])
            else:
                position = self.position_of(s, Array(s.index))
        target, where = self._after_definition(s, value)
        inserted, result = self._storing(phi, position, value, growing, s)
        target.statements[where:where] = places.statements + inserted
        s.phis, s.inits, s.outs = (*s.phis, phi), (*s.inits, first.atom), (*s.outs, out)
        s.body.results.append(result)
        store = inserted[-1]
        assert isinstance(store, Apply)
        return Buffer(value, [], s.body, s, store, target, [], out, growing, inserted, position)

    def _storing(
        self, phi: Var, position: Any, value: Var, growing: bool, s: Statement
    ) -> tuple[list[Statement], Var]:
        """``buffer[position] = value``, in a buffer that is enlarged if ``growing``."""
        with (
            self.forward_of(s),
            self.builder.block() as block,
            self.builder.at(value.origin or s.origin),
        ):
            now = apply(room, Array(phi), position) if growing else Array(phi)
            template, dynamic = self.place_of(position, value.type, forth=True)
            result = apply(update, now, Array(value), *dynamic, index=template)
        block.statements[-1].proven = True  # type: ignore[union-attr]
        result.atom.name = phi.name
        return block.statements, result.atom

    def place_of(
        self, position: Any, t: ArrayType, forth: bool
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """The index of an iteration's value: its position, and slices where it is smaller."""
        dynamic: list[Any] = []

        def slot(value: Any) -> Any:
            if not isinstance(value, Array):
                return value
            dynamic.append(value)
            return Slot(len(dynamic) - 1)

        template: list[Any] = [slot(position)]
        sizes: list[Any] = []
        for dim in t.dims:
            whole = self.builder.dims.same(dim, self.upper_bound(dim))
            sizes.append(
                slice(None) if whole else slice(None, slot(self._size_in_loops(dim, forth)))
            )
        if any(s != slice(None) for s in sizes):
            template += sizes
        return tuple(template), dynamic

    def _size_in_loops(self, dim: Any, forth: bool) -> Any:
        """A size that depends on loop counters, in the forward or in the reverse loop."""
        counters: dict[str, Any] = {}
        for given in self.function.params:  # of an iteration: the counters of loops around it
            known = None if given.type.ndim else self.builder.dim_values.get(given)
            names = [name for name in dim_symbols(known or 0) if symbol(name) == known]
            counters.update(dict.fromkeys(names, Array(given)))
        for loop, index in self.loops:
            counted = own_counter(loop) if isinstance(loop, While) else (loop.index,)
            if counted is not None:
                own = Array(counted[0]) if forth else index
                for name in dim_symbols(self.builder.dim_of(counted[0])):
                    counters[name] = own
        dims = self.builder.dims

        def read(name: str) -> Any:
            if name in counters:
                return counters[name]
            try:
                return size_at_hand(symbol(name))
            except CalqueError:
                made = dims.made_by(name)
                if made is None:
                    raise
                compute, parts = made
                return compute(*[combine(dims.resolve(p), read) for p in parts])

        return combine(dims.resolve(dim), read)

    def _after_definition(self, s: For | While, value: Var) -> tuple[Block, int]:
        for where, t in enumerate(s.body.statements):
            if value in t.outs:
                return s.body, where + 1
        return s.body, 0

    def read_back(self, buffer: Buffer, value: Var, block: Block, index: Array) -> None:
        """Let the reverse loop read the buffer where it first needs the value."""
        where = first_use(block, value)
        with self.builder.block() as new, self.builder.at(self.origin_at(block, where)):
            position = self.position_of(buffer.loop, index)
            template, dynamic = self.place_of(position, value.type, forth=False)
            read = apply(getitem, Array(buffer.out), *dynamic, index=template)
        made = new.statements[-1]
        assert isinstance(made, Apply)
        made.proven = True
        made.outs[0].type = value.type
        made.outs[0].name, made.outs[0].word = value.name, value.word
        block.statements[where:where] = new.statements
        core.substitute(block, {value: read.atom})
        buffer.reads.append((block, made, index))
