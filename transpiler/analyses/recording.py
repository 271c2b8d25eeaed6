"""What the sweep back needs of values that existed only inside a loop or an arm, and how it gets them.

The policy, for each such value, in this order:

1. *at hand*: defined outside, or the loop's counter;
2. *recomputed*: by cheap operations (elementwise, index arithmetic, reads), from what is at hand or is
   saved anyway;
3. *restored*: old versions of an array that the loop stores into are put back, element by element, if
   the sweep reads them at two places or more: one array saves what each store overwrote;
4. *saved*: in an array indexed by the loop counters, allocated once before the loop nest; for a
   ``while``, in an array that doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler import core
from calque.transpiler.builder import FUNCTIONS, Array, Builder, atom
from calque.transpiler.core import Apply, Atom, Block, For, Function, If, Slot, Statement, Var, While
from calque.transpiler.errors import CalqueError, UnsupportedSyntax
from calque.transpiler.frontend.joining import combine, shape_of, size_at_hand
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.types import INT, ArrayType, Dim, dim_symbols, symbol

FIRST_CAPACITY = 16


@dataclass(eq=False)
class Buffer:
    """An array that saves one value for each round of a loop (or of a nest of loops)."""

    value: Var
    allocation: list[Statement]
    home: Block  # where the allocation stands
    loop: For | While
    store: Apply
    store_block: Block
    reads: list[tuple[Block, Apply, Array]]
    out: Var
    growing: bool
    inserted: list[Statement] = field(default_factory=list)  # what stores, in store_block
    position: Any = None
    boxed: bool = False  # several loops, an index for each
    top: Var | None = None  # of a flat buffer: where the next round of the loop around starts


@dataclass(frozen=True)
class Decision:
    """How one value is had in the sweep back; for ``explain``."""

    value: Var
    how: str  # "recomputed", "restored", "saved"
    why: str


@dataclass(eq=False)
class Recorder:
    """Lets loops and branches of the forward program record what their reverses need."""

    builder: Builder
    function: Function
    at_top: set[Var] = field(default_factory=set)
    buffers: dict[Var, Buffer] = field(default_factory=dict)
    saved_by_store: dict[int, Var] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    loops: list[tuple[For | While, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at_top = {o for s in self.function.body.statements for o in s.outs}

    # where things stand

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

    def enter(self, loop: For | While, index: Array) -> None:
        """The sweep goes into a loop."""
        self.loops.append((loop, index))

    def leave(self) -> None:
        """And out of it."""
        self.loops.pop()

    def state(self) -> Callable[[], None]:
        """A way back to the forward program as it is now."""
        blocks = [self.function.body]
        for s in core.walk(self.function.body):
            blocks += core.blocks_of(s)
        kept = [(b, list(b.statements), list(b.results)) for b in blocks]
        heads: list[tuple[Statement, dict[str, Any]]] = []
        for s in core.walk(self.function.body):
            match s:
                case For() | While():
                    heads.append((s, {"outs": s.outs, "phis": s.phis, "inits": s.inits}))
                case If():
                    heads.append((s, {"outs": s.outs}))
        buffers, stores = dict(self.buffers), dict(self.saved_by_store)
        decided = len(self.decisions)

        def back() -> None:
            for block, statements, results in kept:
                block.statements, block.results = list(statements), list(results)
            for s, values in heads:
                for name, value in values.items():
                    setattr(s, name, value)
            self.buffers, self.saved_by_store = dict(buffers), dict(stores)
            del self.decisions[decided:]

        return back

    def sizes(self, t: ArrayType, like: Array) -> tuple[Any, ...]:
        """The sizes of a type from what is at hand; else read from ``like``."""
        try:
            return shape_of(t)
        except CalqueError:
            return like.shape

    @contextmanager
    def _forward(self, statement: Statement) -> Iterator[None]:
        """Record into the forward program: only sizes computed before ``statement`` are at hand."""
        builder = self.builder
        kept, builder._sizes = builder._sizes, [{}]
        for s in self.function.body.statements:
            if s is statement or any(t is statement for b in core.blocks_of(s) for t in core.walk(b)):
                break
            for out in s.outs:
                if out in builder.dim_values:
                    builder._sizes[0].setdefault(builder.dims.resolve(builder.dim_values[out]), out)
        try:
            yield
        finally:
            builder._sizes = kept

    def _before(self, block: Block, statement: Statement, write: Callable[[], Any]) -> Any:
        """Insert what ``write`` records before a statement; returns what it returned."""
        with self._forward(statement), self.builder.block() as new:
            result = write()
        insert_before(block, statement, new.statements)
        return result

    # restoring

    def overwritten(self, store: Apply) -> Array:
        """The elements a store overwrites, read before it."""
        if id(store) not in self.saved_by_store:
            block = self.home_of(store)
            index, dynamic = store.params["index"], store.args[2:]

            def read() -> Any:
                return apply(getitem, Array(store.args[0]), *map(_wrap, dynamic), index=index)

            with self.builder.at(store.origin):
                old = self._before(block, store, read)
            old.atom.name = None
            self.saved_by_store[id(store)] = old.atom
        return Array(self.saved_by_store[id(store)])

    def source_of_branch(self, s: If, position: int) -> Var | None:
        """The version before an If of an array that its arms only store into."""
        return source_of_branch(s, position)

    def wants_restoring(
        self, s: For | While, live: Iterable[Var], restored: dict[Var, Array]
    ) -> set[int]:
        """The carried arrays of which the sweep needs two old values or more."""
        definitions = definitions_in(s.body)
        found = set()
        for k, phi in enumerate(s.phis):
            if not phi.type.ndim:
                continue
            versions = restorable_versions(s, k)
            if versions is None or len(versions) < 2:
                continue
            needed = [v for v in live if _depends(v, versions, definitions)]
            arrays = [v for v in needed if v in versions or v.type.ndim]
            if arrays or len(needed) >= 2:
                found.add(k)
        return found

    # loops

    def resolve_loop(
        self, s: For | While, block: Block, index: Array, restored: dict[Var, Var]
    ) -> tuple[Atom, Atom, Atom] | None:
        """Let the body of the loop back have what it needs; its bounds, for a while."""
        _prune(block)
        self.loops.append((s, index))
        self._choose(block, s, definition_order(s), definitions_in(s.body), index, restored)
        self.loops.pop()
        if isinstance(s, While):
            count = self._counter(s)[1]
            last = apply_operator("sub", Array(count), 1)
            return atom(last), -1, -1
        return None

    def _choose(
        self,
        block: Block,
        s: For | While,
        order: dict[Var, int],
        definitions: dict[Var, Statement],
        index: Array,
        restored: dict[Var, Var],
    ) -> None:
        at_hand: dict[Var, Atom] = dict(restored)
        counter = s.index if isinstance(s, For) else (own_counter(s) or (None,))[0]
        if counter is not None:
            at_hand[counter] = index.atom
        order = {v: i for v, i in order.items() if v is not counter}
        use_versions(block, at_hand)
        needed = [v for v in core.free_vars(block) if v in order]
        saved = self._to_save(needed, order, definitions)
        saved |= {v for v in needed if not self._in_time(v, block, order, definitions, restored)}
        while True:
            use_versions(block, at_hand)
            pending = [v for v in core.free_vars(block) if v in order]
            if not pending:
                return
            value = max(pending, key=lambda v: order[v])
            made = definitions.get(value)
            if isinstance(made, (If, For, While)) and not self._can_save(value):
                self._run_again(value, made, block)
            elif value in saved or not self._is_cheap(value, definitions):
                self._save(value, s, block, index)
                order = {v: i for v, i in definition_order(s).items() if v is not counter}
                definitions = definitions_in(s.body)
            else:
                self._recompute(value, definitions[value], block)

    def _in_time(
        self,
        value: Var,
        block: Block,
        order: dict[Var, int],
        definitions: dict[Var, Statement],
        restored: dict[Var, Var],
    ) -> bool:
        """Whether the versions that ``value`` is read from are put back before its first use."""
        if not restored:
            return True
        defined = {o: where for where, t in enumerate(block.statements) for o in t.outs}
        defined.update({v: len(block.statements) for v, now in restored.items() if now is v})
        use = first_use(block, value)
        pending, seen = [value], {value}
        while pending:
            made = definitions.get(pending.pop())
            if not isinstance(made, Apply):
                continue
            for a in made.args:
                if isinstance(a, Var) and a in restored and defined.get(restored[a], -1) >= use:
                    return False
                if isinstance(a, Var) and a in order and a not in seen:
                    seen.add(a)
                    pending.append(a)
        return True

    def _to_save(
        self, needed: list[Var], order: dict[Var, int], definitions: dict[Var, Statement]
    ) -> set[Var]:
        """Which of the needed values, or of what they are computed from, are saved."""
        hard = {v for v in needed if not self._is_cheap(v, definitions)}
        soft = [v for v in needed if v not in hard]
        leaves = {v: self._leaves(v, order, definitions) for v in soft}
        new = {leaf for v in soft for leaf in leaves[v]} - hard
        costly = [v for v in soft if leaves[v] - hard]
        if len(new) < len(costly):
            return hard | new
        return hard | set(costly)

    def _is_cheap(self, value: Var, definitions: dict[Var, Statement]) -> bool:
        made = definitions.get(value)
        if not isinstance(made, Apply) or len(made.outs) != 1:
            return False
        return made.primitive.cheap or not self.sizes_known(value.type)

    def _leaves(
        self, value: Var, order: dict[Var, int], definitions: dict[Var, Statement]
    ) -> set[Var]:
        """What must be saved for ``value`` to be recomputed."""
        if not self._is_cheap(value, definitions):
            return {value}
        made = definitions[value]
        inner = [a for a in core.operands(made) if isinstance(a, Var) and a in order]
        return {leaf for a in inner for leaf in self._leaves(a, order, definitions)}

    def _recompute(self, value: Var, made: Statement, block: Block) -> None:
        assert isinstance(made, Apply)
        fresh = Var(value.type, value.name, value.origin)
        if value in self.builder.dim_values:
            self.builder.dim_values[fresh] = self.builder.dim_values[value]
        where = first_use(block, value)
        again = Apply((fresh,), made.primitive, made.args, made.params, self._origin_at(block, where))
        block.statements.insert(where, again)
        self.builder.definitions[fresh] = again
        core.substitute(block, {value: fresh})
        self.decisions.append(Decision(value, "recomputed", "its operands are at hand and it is cheap"))

    def _can_save(self, value: Var) -> bool:
        if self.sizes_known(value.type):
            return True
        buffer = self.buffers.get(value)
        return buffer is not None and not buffer.boxed and self.sizes_known(buffer.value.type)

    def _run_again(self, value: Var, made: Statement, block: Block) -> None:
        """Let the sweep back run a loop or a branch again, when its result cannot be saved."""
        mapping: dict[Var, Atom] = {}
        again = core.clone(Block([made]), mapping).statements[0]
        for old, new in mapping.items():
            if old in self.builder.dim_values and isinstance(new, Var):
                self.builder.dim_values[new] = self.builder.dim_values[old]
        where = min(first_use(block, out) for out in made.outs)
        block.statements.insert(where, again)
        for out in again.outs:
            self.builder.definitions[out] = again
        core.substitute(block, dict(zip(made.outs, again.outs, strict=True)))
        self.decisions.append(Decision(value, "recomputed", "its size changes from round to round"))

    def _origin_at(self, block: Block, where: int) -> Any:
        return block.statements[where].origin if where < len(block.statements) else None

    def _save(self, value: Var, s: For | While, block: Block, index: Array) -> None:
        if value in self.buffers:
            buffer = self.buffers[value]
            if self._hoist(buffer, s, block, index):
                return
            if not buffer.boxed and not self.sizes_known(value.type):
                self._flatten(buffer, s, block)
                return
        self.decisions.append(Decision(value, "saved", "it is overwritten before the sweep reads it"))
        growing = isinstance(s, While)

        def allocate() -> Any:
            sizes = self._sizes_outside(value.type)
            capacity = FIRST_CAPACITY if growing else self._capacity(s)
            return FUNCTIONS[np.empty]((capacity, *sizes), value.type.dtype)

        home = self.home_of(s)
        with self._forward(s), self.builder.block() as allocation:
            first = allocate()
        first.atom.name = self._saved_name(value)
        insert_before(home, s, allocation.statements)
        buffer = self._carry(s, first, value, growing)
        buffer.allocation, buffer.home = allocation.statements, home
        self.buffers[buffer.out] = buffer
        self._read(buffer, value, block, index)

    def _saved_name(self, value: Var) -> str:
        """``s_saved``; for elements that a store overwrites, the array's name."""
        made = self.builder.definitions.get(value)
        if value.name is None and isinstance(made, Apply) and made.primitive is getitem:
            return f"{made.args[0].name or 'values'}_saved"
        return f"{value.name or 'values'}_saved"

    def sizes_known(self, t: ArrayType) -> bool:
        """Whether values of this type can be saved in an array allocated before the loop."""
        if not t.ndim:
            return True
        try:
            with self.builder.block():
                self._sizes_outside(t)
        except CalqueError:
            return False
        return True

    def _sizes_outside(self, t: ArrayType) -> tuple[Any, ...]:
        try:
            return tuple(size_at_hand(self._upper_bound(d)) for d in t.dims)
        except CalqueError:
            raise UnsupportedSyntax(
                "The reverse sweep needs a value whose size changes from round to round.",
                self.builder.origin,
                "give it a fixed size, or write the loop over its elements",
            ) from None

    def _upper_bound(self, dim: Any) -> Any:
        """A bound on a size that depends on loop counters."""
        dims = self.builder.dims
        dim = dims.resolve(dim)
        for _ in range(16):
            if not isinstance(dim, Dim):
                return dim
            inner = [s for s in dim_symbols(dim) if s in dims.ranges]
            if not inner:
                return dim
            coefficient = dict(dim.terms)[inner[0]]
            low, high = dims.ranges[inner[0]]
            bound = high if coefficient > 0 else low
            dim = dims.resolve(dim - coefficient * symbol(inner[0]) + coefficient * bound)
        return dim

    def _capacity(self, s: For | While) -> Any:
        """How many rounds there can be, counted as ``_position`` counts them."""
        assert isinstance(s, For)
        start, stop, step = _wrap(s.start), _wrap(s.stop), s.step
        if step == 1 and _small(s.start):
            return self._nonnegative(stop)
        if step == -1 and isinstance(s.stop, int) and s.stop >= -1:
            return self._nonnegative(start + 1)
        span = stop - start if step > 0 else start - stop
        if abs(step) != 1:
            span = (span + (abs(step) - 1)) // abs(step)
        return self._nonnegative(span)

    def _nonnegative(self, size: Any) -> Any:
        dim = self.builder.dim_of(size)
        if self.builder.dims.nonnegative(dim):
            return size
        return FUNCTIONS[np.maximum](size, 0)

    def _position(self, s: For | While, index: Any) -> Any:
        """The place of a round in a buffer."""
        if isinstance(s, While):
            return index
        if s.step == 1 and _small(s.start):
            return index
        if s.step == -1 and isinstance(s.stop, int) and s.stop >= -1:
            return index
        start = _wrap(s.start)
        if s.step == 1:
            return index - start
        return (index - start) // s.step

    def _counter(self, s: While) -> tuple[Var, Var]:
        """The number of rounds a while has run: its phi, and its last value."""
        own = own_counter(s)
        if own is not None:
            return own
        phi, out = Var(INT, "rounds", s.origin), Var(INT, "rounds", s.origin)
        with self.builder.block() as block:
            after = apply_operator("add", Array(phi), 1)
        s.body.statements += block.statements
        s.body.results.append(after.atom)
        s.phis, s.inits, s.outs = (*s.phis, phi), (*s.inits, 0), (*s.outs, out)
        return phi, out

    def _carry(self, s: For | While, first: Array, value: Var, growing: bool) -> Buffer:
        """Let a loop carry a buffer and store ``value`` into it."""
        t = first.type
        if growing:
            t = t.with_dims((self.builder.dims.fresh(), *t.dims[1:]))
        phi, out = Var(t, first.atom.name, s.origin), Var(t, first.atom.name, s.origin)
        with self._forward(s), self.builder.block() as places:
            if isinstance(s, While):
                position: Any = Array(self._counter(s)[0])
            else:
                position = self._position(s, Array(s.index))
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
        """``buffer[position] = value``, in a buffer that grows if it must."""
        with self._forward(s), self.builder.block() as block, self.builder.at(value.origin or s.origin):
            now = apply(room, Array(phi), position) if growing else Array(phi)
            template, dynamic = self._place(position, value.type, forth=True)
            result = apply(update, now, Array(value), *dynamic, index=template)
        result.atom.name = phi.name
        return block.statements, result.atom

    def _place(self, position: Any, t: ArrayType, forth: bool) -> tuple[tuple[Any, ...], list[Any]]:
        """Where a round's value goes: its position, and slices where its size is not the buffer's."""
        dynamic: list[Any] = []

        def slot(value: Any) -> Any:
            if not isinstance(value, Array):
                return value
            dynamic.append(value)
            return Slot(len(dynamic) - 1)

        template: list[Any] = [slot(position)]
        sizes: list[Any] = []
        for dim in t.dims:
            whole = self.builder.dims.same(dim, self._upper_bound(dim))
            sizes.append(slice(None) if whole else slice(None, slot(self._size_in_loops(dim, forth))))
        if any(s != slice(None) for s in sizes):
            template += sizes
        return tuple(template), dynamic

    def _size_in_loops(self, dim: Any, forth: bool) -> Any:
        """A size that depends on loop counters, in the loop forth or in the loop back."""
        counters: dict[str, Any] = {}
        for loop, index in self.loops:
            if isinstance(loop, For):
                own = Array(loop.index) if forth else index
                for name in dim_symbols(self.builder.dim_of(loop.index)):
                    counters[name] = own
        return combine(
            self.builder.dims.resolve(dim),
            lambda name: counters[name] if name in counters else size_at_hand(symbol(name)),
        )

    def _after_definition(self, s: For | While, value: Var) -> tuple[Block, int]:
        for where, t in enumerate(s.body.statements):
            if value in t.outs:
                return s.body, where + 1
        return s.body, 0

    def _read(self, buffer: Buffer, value: Var, block: Block, index: Array) -> None:
        """Let the loop back read the buffer where it first needs the value."""
        where = first_use(block, value)
        with self.builder.block() as new, self.builder.at(self._origin_at(block, where)):
            position = self._position(buffer.loop, index)
            template, dynamic = self._place(position, value.type, forth=False)
            read = apply(getitem, Array(buffer.out), *dynamic, index=template)
        made = new.statements[-1]
        assert isinstance(made, Apply)
        made.outs[0].type = value.type
        made.outs[0].name = value.name
        block.statements[where:where] = new.statements
        core.substitute(block, {value: read.atom})
        buffer.reads.append((block, made, index))

    def _hoist(self, buffer: Buffer, s: For | While, block: Block, index: Array) -> bool:
        """Make a buffer of an inner loop one of the whole nest, with one more index in front."""
        if buffer.growing or buffer.top or isinstance(s, While) or buffer.home is not s.body:
            return False
        home = self.home_of(s)
        inner = buffer.allocation[-1].outs[0]
        with self._forward(s), self.builder.block() as allocation:
            try:
                sizes = self._sizes_outside(inner.type)
            except CalqueError:
                return False
            first = FUNCTIONS[np.empty]((self._capacity(s), *sizes), inner.type.dtype)
        first.atom.name = inner.name
        insert_before(home, s, allocation.statements)
        phi, out = Var(first.type, inner.name, s.origin), Var(first.type, inner.name, s.origin)
        with self._forward(s), self.builder.block() as places:
            position = atom(self._position(s, Array(s.index)))
        s.body.statements[0:0] = places.statements
        self._take_over(buffer, s, phi, out, first.atom)
        _prepend_index(buffer.store, 2, position)
        with self.builder.block() as places:
            back = atom(self._position(s, index))
        block.statements[0:0] = places.statements
        for _, read, _ in buffer.reads:
            _prepend_index(read, 1, back)
        core.substitute(block, {buffer.out: out})
        del self.buffers[buffer.out]
        buffer.allocation, buffer.home, buffer.loop, buffer.out = allocation.statements, home, s, out
        buffer.boxed = True
        self.buffers[out] = buffer
        return True

    def _take_over(self, buffer: Buffer, s: For | While, phi: Var, out: Var, first: Var) -> None:
        """Let the loop around carry an inner loop's buffer; its own allocation goes."""
        inner = buffer.allocation[-1].outs[0]
        removed = set(map(id, buffer.allocation))
        s.body.statements = [t for t in s.body.statements if id(t) not in removed]
        k = next(k for k, i in enumerate(buffer.loop.inits) if i is inner)
        loop = buffer.loop
        loop.inits = (*loop.inits[:k], phi, *loop.inits[k + 1 :])
        _retype(loop, k, phi.type)
        buffer.store.outs[0].type = phi.type
        s.phis, s.inits, s.outs = (*s.phis, phi), (*s.inits, first), (*s.outs, out)
        s.body.results.append(buffer.out)

    def _flatten(self, buffer: Buffer, s: For | While, block: Block) -> None:
        """Make a buffer of an inner loop one long buffer that grows, when its rounds are no box.

        The loop around carries ``top``, where the inner loop's next rounds go; the sweep back finds
        them by the value ``top`` had, which is a number to save like any other.
        """
        home = self.home_of(s)
        name = buffer.out.name
        with self._forward(s), self.builder.block() as allocation:
            sizes = self._sizes_outside(buffer.value.type)
            first = FUNCTIONS[np.empty]((FIRST_CAPACITY, *sizes), buffer.value.type.dtype)
        first.atom.name = name
        insert_before(home, s, allocation.statements)
        t = first.type.with_dims((self.builder.dims.fresh(), *first.type.dims[1:]))
        phi, out = Var(t, name, s.origin), Var(t, name, s.origin)
        top, top_out = Var(INT, f"{name}_top", s.origin), Var(INT, f"{name}_top", s.origin)
        if buffer.top is None:
            after = self._first_flat(buffer, s, top)
        else:
            after = self._flat_again(buffer, top)
        self._take_over(buffer, s, phi, out, first.atom)
        s.phis, s.inits, s.outs = (*s.phis, top), (*s.inits, 0), (*s.outs, top_out)
        s.body.results.append(after)
        core.substitute(block, {buffer.out: out})
        del self.buffers[buffer.out]
        buffer.allocation, buffer.home, buffer.loop, buffer.out = allocation.statements, home, s, out
        buffer.growing, buffer.top = True, top_out
        self.buffers[out] = buffer

    def _first_flat(self, buffer: Buffer, s: For | While, top: Var) -> Var:
        """Store at ``top + round``; the number that is ``top`` for the next round of ``s``."""
        loop = buffer.loop
        old = buffer.store.outs[0]
        removed = set(map(id, buffer.inserted))
        where = next(i for i, t in enumerate(buffer.store_block.statements) if id(t) in removed)
        phi = loop.phis[loop.body.results.index(old)]
        with self._forward(s), self.builder.block() as places:
            position = Array(top) + self._round(loop, None)
        inserted, result = self._storing(phi, position, buffer.value, True, s)
        kept = [t for t in buffer.store_block.statements if id(t) not in removed]
        kept[where:where] = places.statements + inserted
        buffer.store_block.statements = kept
        loop.body.results = [result if r is old else r for r in loop.body.results]
        store = inserted[-1]
        assert isinstance(store, Apply)
        buffer.store, buffer.inserted = store, inserted
        for block, read, index in buffer.reads:
            with self.builder.block() as places:
                shifted = Array(top) + self._round(loop, index)
            insert_before(block, read, places.statements)
            read.args, read.params = (read.args[0], shifted.atom), {"index": (Slot(0),)}
        with self._forward(s), self.builder.block() as places:
            after = Array(top) + self._rounds(loop)
        at = next(i for i, t in enumerate(s.body.statements) if t is loop)
        s.body.statements[at + 1 : at + 1] = places.statements
        return after.atom

    def _round(self, loop: For | While, index: Array | None) -> Any:
        """The number of a round, counted from 0."""
        if isinstance(loop, While):
            return Array(self._counter(loop)[0]) if index is None else index
        own = Array(loop.index) if index is None else index
        steps = own - _wrap(loop.start)
        return steps if loop.step == 1 else steps // loop.step

    def _rounds(self, loop: For | While) -> Any:
        """How many rounds a loop ran."""
        if isinstance(loop, While):
            return Array(self._counter(loop)[1])
        span = (_wrap(loop.stop) - _wrap(loop.start)) * (1 if loop.step > 0 else -1)
        if abs(loop.step) != 1:
            span = (span + (abs(loop.step) - 1)) // abs(loop.step)
        return self._nonnegative(span)

    def _flat_again(self, buffer: Buffer, top: Var) -> Var:
        """One more loop around a flat buffer: the inner ``top`` starts where the outer one stands."""
        loop = buffer.loop
        k = loop.outs.index(buffer.top)
        loop.inits = (*loop.inits[:k], top, *loop.inits[k + 1 :])
        assert buffer.top is not None
        return buffer.top

    # branches

    def resolve_arms(
        self, s: If, back: If, restored: tuple[dict[Var, Array], ...], restoring: set[Var]
    ) -> None:
        """Let the arms of a reversed branch have what existed only in the forward arms."""
        arms = ((s.then, back.then), (s.orelse, back.orelse))
        for which, (arm, block) in enumerate(arms):
            inside = core.defined_vars(arm)
            versions = {
                v: now for v, now in current_versions(restored[which]).items() if v in inside or v in restoring
            }
            use_versions(block, versions)
            _prune(block)
            order = {v: i for i, v in enumerate(_ordered(arm))}
            definitions = definitions_in(arm)
            missing = {v: v for v in restoring if v not in versions}
            saved = self._to_save([v for v in core.free_vars(block) if v in order], order, definitions)
            while True:
                use_versions(block, versions)
                pending = [v for v in core.free_vars(block) if v in order]
                if not pending:
                    break
                value = max(pending, key=lambda v: order[v])
                made = definitions.get(value)
                if isinstance(made, (If, For, While)) and not self.sizes_known(value.type):
                    self._run_again(value, made, block)
                    continue
                cheap = value not in saved and self._is_cheap(value, definitions)
                if cheap and self._in_time(value, block, order, definitions, {**versions, **missing}):
                    self._recompute(value, definitions[value], block)
                else:
                    core.substitute(block, {value: self._publish(s, which, value)})

    def _publish(self, s: If, which: int, value: Var) -> Var:
        """Make a value of an arm a result of the branch; zero on the other path."""
        out = Var(value.type, value.name, value.origin)
        arm, other = (s.then, s.orelse) if which == 0 else (s.orelse, s.then)
        arm.results.append(value)
        t = value.type
        self.builder.blocks.append(other)
        try:
            with self._forward(s):
                zero = FUNCTIONS[np.zeros](shape_of(t), t.dtype) if t.ndim else t.dtype.type(0)
        except CalqueError:
            zero = core.UNDEFINED
        self.builder.blocks.pop()
        other.results.append(atom(zero))
        s.outs = (*s.outs, out)
        self.decisions.append(Decision(value, "saved", "it is computed in an arm and costly"))
        return out


def insert_before(block: Block, statement: Statement, new: list[Statement]) -> None:
    """Put statements in front of another."""
    where = next(i for i, s in enumerate(block.statements) if s is statement)
    block.statements[where:where] = new


def _wrap(value: Atom) -> Any:
    return Array(value) if isinstance(value, Var) else value


def _small(value: Atom) -> bool:
    return isinstance(value, int) and 0 <= value <= 8


def apply_operator(name: str, left: Any, right: Any) -> Any:
    """``left op right`` on recorded integers."""
    from calque.transpiler.builder import OPERATORS

    return OPERATORS[name](left, right)


def _prune(block: Block) -> None:
    from calque.transpiler.analyses.liveness import prune

    prune(block, {r for r in block.results if isinstance(r, Var)})


def _retype(loop: For | While, k: int, t: ArrayType) -> None:
    """Give a carried buffer another type, in the loops within too."""
    loop.phis[k].type = loop.outs[k].type = t
    for s in core.walk(loop.body):
        if isinstance(s, (For, While)):
            for j, init in enumerate(s.inits):
                if init is loop.phis[k]:
                    _retype(s, j, t)


def _prepend_index(statement: Apply, first: int, position: Atom) -> None:
    """``x[i]`` becomes ``x[position, i]``."""
    head, dynamic = statement.args[:first], statement.args[first:]
    index = statement.params["index"]
    if isinstance(position, Var):
        shifted = tuple(map(_shifted, index))
        statement.args = (*head, position, *dynamic)
        statement.params = {"index": (Slot(0), *shifted)}
    else:
        statement.params = {"index": (position, *index)}


def _shifted(item: Any) -> Any:
    """An index item whose slots stand one further."""
    if isinstance(item, Slot):
        return Slot(item.position + 1)
    if isinstance(item, slice):
        return slice(_shifted(item.start), _shifted(item.stop), item.step)
    return item


def use_versions(block: Block, versions: Mapping[Var, Atom]) -> None:
    """Read each version from the Var it was put back into, from where that Var is defined."""
    here = {o for s in block.statements for o in s.outs}
    waiting: dict[Var, list[Var]] = {}
    active: dict[Var, Atom] = {}
    for version, now in versions.items():
        if now in here:
            waiting.setdefault(now, []).append(version)
        else:
            active[version] = now
    for s in block.statements:
        core.substitute(Block([s]), active)
        for out in s.outs:
            active.update({version: out for version in waiting.get(out, ())})
    rest = Block([], block.results)
    core.substitute(rest, active)
    block.results = rest.results


def current_versions(restored: dict[Var, Array]) -> dict[Var, Var]:
    """For each version that was put back, the Var that holds it in the end."""
    direct = {v: a.atom for v, a in restored.items()}
    closed = {}
    for version, now in direct.items():
        while now in direct and direct[now] is not now:
            now = direct[now]
        if now is not version:
            closed[version] = now
    return closed


def definitions_in(block: Block) -> dict[Var, Statement]:
    """What defines each Var of a block and of the blocks within."""
    return {o: s for s in core.walk(block) for o in s.outs}


def _ordered(block: Block) -> list[Var]:
    found: list[Var] = []
    for s in core.walk(block):
        found += core.bound_vars(s)
        found += s.outs
    return found


def definition_order(s: For | While) -> dict[Var, int]:
    """The Vars of a loop's inside, numbered in the order of their definition."""
    inside = [*s.phis, *_ordered(s.body)]
    return {v: i for i, v in enumerate(inside)}


def first_use(block: Block, value: Var) -> int:
    """The place of the first statement that reads ``value``."""
    for where, s in enumerate(block.statements):
        if value in core.operands(s) or any(value in core.free_vars(b) for b in core.blocks_of(s)):
            return where
    return len(block.statements)


def _depends(value: Var, versions: set[Var], definitions: dict[Var, Statement]) -> bool:
    """Whether a value is read from one of the versions, directly or through cheap operations."""
    if value in versions:
        return True
    made = definitions.get(value)
    if not isinstance(made, Apply) or not made.primitive.cheap:
        return False
    return any(isinstance(a, Var) and _depends(a, versions, definitions) for a in made.args)


def source_of_branch(s: If, position: int) -> Var | None:
    """The version before a branch of an array that its arms only store into; None if they do more."""
    sources = []
    for arm in (s.then, s.orelse):
        chain = _chain(arm, arm.results[position])
        if chain is None:
            return None
        sources.append(chain[0])
    return sources[0] if sources[0] is sources[1] else None


def _chain(block: Block, result: Atom) -> tuple[Var, set[Var]] | None:
    """Follow stores back from a result to a Var of outside; it, and the versions passed."""
    here = {o: s for s in block.statements for o in s.outs}
    versions: set[Var] = set()
    while isinstance(result, Var) and result in here:
        made = here[result]
        versions.add(result)
        match made:
            case Apply(primitive=primitive) if primitive.kind == "store":
                result = made.args[0]
            case For() | While():
                k = made.outs.index(result)
                inner = restorable_versions(made, k)
                if inner is None:
                    return None
                versions |= inner
                result = made.inits[k]
            case If():
                position = made.outs.index(result)
                source = source_of_branch(made, position)
                if source is None:
                    return None
                for arm in (made.then, made.orelse):
                    chain = _chain(arm, arm.results[position])
                    assert chain is not None
                    versions |= chain[1]
                result = source
            case _:
                return None
    return (result, versions) if isinstance(result, Var) else None


def restorable_versions(s: For | While, k: int) -> set[Var] | None:
    """The versions of a carried array, if the loop does nothing to it but store; else None."""
    chain = _chain(s.body, s.body.results[k])
    if chain is None or chain[0] is not s.phis[k]:
        return None
    return chain[1] | {s.phis[k]}


def shape_source(block: Block) -> dict[Var, Var]:
    """For each version of an array at the top, the last one: its shape is always at hand."""
    following: dict[Var, Var] = {}
    for s in block.statements:
        match s:
            case Apply(primitive=primitive) if primitive.kind == "store":
                if isinstance(s.args[0], Var):
                    following[s.args[0]] = s.outs[0]
            case For() | While():
                for init, out in zip(s.inits, s.outs, strict=True):
                    if isinstance(init, Var) and init.type.ndim and init.type.dims == out.type.dims:
                        following[init] = out
    last: dict[Var, Var] = {}
    for var in following:
        end = var
        while end in following:
            end = following[end]
        last[var] = end
    return last


def own_counter(s: While) -> tuple[Var, Var] | None:
    """A carried number that counts the rounds from 0, and its last value, if the loop has one."""
    definitions = {o: t for t in s.body.statements for o in t.outs}
    for phi, init, result, out in zip(s.phis, s.inits, s.body.results, s.outs, strict=True):
        made = definitions.get(result) if isinstance(result, Var) else None
        if type(init) is not int or init != 0 or not isinstance(made, Apply):
            continue
        if made.primitive.name == "np.add" and made.args[0] is phi and made.args[1] == 1:
            return phi, out
    return None


def reversed_range(builder: Builder, s: For | While) -> tuple[Atom, Atom, Atom]:
    """The bounds of a for, walked back."""
    assert isinstance(s, For)
    start, stop, step = _wrap(s.start), _wrap(s.stop), s.step
    if step == 1:
        return atom(stop - 1), atom(start - 1), -1
    if step == -1:
        return atom(stop + 1), atom(start + 1), 1
    one = 1 if step > 0 else -1
    last = start + ((stop - start - one) // step) * step
    return atom(last), atom(start - step), -step
