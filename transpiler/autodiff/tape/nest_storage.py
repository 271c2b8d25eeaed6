"""Tape buffers of loop nests: one more leading index, or one long buffer for ragged nests."""

from __future__ import annotations

from typing import Any

from calque.transpiler.autodiff.tape.storage import FIRST_CAPACITY, Buffer, Buffers
from calque.transpiler.autodiff.tape.trip_counts import wrap_atom
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import insert_before
from calque.transpiler.ir.builder import Array, atom
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Var, While
from calque.transpiler.ir.types import INT, ArrayType
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import space


class Nests(Buffers):
    """Moves the buffer of an inner loop out to the loop around it."""

    def hoist(self, buffer: Buffer, s: For | While, block: Block, index: Array) -> bool:
        """Make a buffer of an inner loop one of the whole nest, with one more index in front."""
        if buffer.growing or buffer.top or isinstance(s, While) or buffer.home is not s.body:
            return False
        home = self.home_of(s)
        inner = buffer.allocation[-1].outs[0]
        with self.forward_of(s), self.builder.block() as allocation:
            try:
                sizes = self.sizes_outside(inner.type)
            except CalqueError:
                return False
            first = apply(space, self.capacity_of(s), *sizes, dtype=inner.type.dtype)
        first.atom.name = inner.name
        insert_before(home, s, allocation.statements)
        phi, out = Var(first.type, inner.name, s.origin), Var(first.type, inner.name, s.origin)
        with self.forward_of(s), self.builder.block() as places:
            position = atom(self.position_of(s, Array(s.index)))
        s.body.statements[0:0] = places.statements
        self._take_over(buffer, s, phi, out, first.atom)
        prepend_index(buffer.store, 2, position)
        with self.builder.block() as places:
            back = atom(self.position_of(s, index))
        block.statements[0:0] = places.statements
        for _, read, _ in buffer.reads:
            prepend_index(read, 1, back)
        core.substitute(block, {buffer.out: out})
        del self.buffers[buffer.out]
        buffer.allocation, buffer.home, buffer.loop, buffer.out = (
            allocation.statements,
            home,
            s,
            out,
        )
        buffer.boxed = True
        self.buffers[out] = buffer
        return True

    def _take_over(self, buffer: Buffer, s: For | While, phi: Var, out: Var, first: Var) -> None:
        """Let the outer loop carry an inner loop's buffer, and remove the inner allocation."""
        inner = buffer.allocation[-1].outs[0]
        removed = set(map(id, buffer.allocation))
        s.body.statements = [t for t in s.body.statements if id(t) not in removed]
        k = next(k for k, i in enumerate(buffer.loop.inits) if i is inner)
        loop = buffer.loop
        loop.inits = (*loop.inits[:k], phi, *loop.inits[k + 1 :])
        retype(loop, k, phi.type)
        given = loop.outs[k]
        for branch, which in buffer.arms:
            arm, other = _own_first(branch, which)
            position = arm.results.index(given)
            other.results[position] = phi
            given = branch.outs[position]
            given.type = phi.type
        buffer.store.outs[0].type = phi.type
        s.phis, s.inits, s.outs = (*s.phis, phi), (*s.inits, first), (*s.outs, out)
        s.body.results.append(buffer.out)

    def lift(self, buffer: Buffer, s: If, which: int, block: Block) -> bool:
        """Let a branch give the buffer of a loop in one of its arms; the other does not fill it."""
        inner, home = buffer.allocation[-1].outs[0], self.home_of(s)
        arm, other = _own_first(s, which)
        if buffer.boxed or buffer.home is not arm:
            return False
        if core.free_vars(Block(buffer.allocation)).keys() & core.defined_vars(arm):
            return False  # its size is known in the arm only
        removed = set(map(id, buffer.allocation))
        arm.statements = [t for t in arm.statements if id(t) not in removed]
        insert_before(home, s, buffer.allocation)
        t = buffer.out.type.with_dims((self.builder.dims.fresh(), *buffer.out.type.dims[1:]))
        out = Var(t, buffer.out.name, s.origin)
        arm.results.append(buffer.out)
        other.results.append(inner)
        s.outs = (*s.outs, out)
        core.substitute(block, {buffer.out: out})
        del self.buffers[buffer.out]
        buffer.home, buffer.out = home, out
        buffer.arms.append((s, which))
        self.buffers[out] = buffer
        return True

    def _through_arms(self, buffer: Buffer, after: Var, top: Var) -> Var:
        """The next value of ``top`` after the branches around the loop; other arms keep it."""
        for s, which in buffer.arms:
            arm, other = _own_first(s, which)
            out = Var(INT, top.name, s.origin)
            arm.results.append(after)
            other.results.append(top)
            s.outs, after = (*s.outs, out), out
        return after

    def flatten(self, buffer: Buffer, s: For | While, block: Block) -> None:
        """Turn the buffer of an inner loop into one long buffer that grows, if the nest is ragged.

        The outer loop carries ``top``, the position of the inner loop's next iterations; the
        reverse sweep finds them by the value of ``top``, which is saved like any other number.
        """
        home = self.home_of(s)
        name = buffer.out.name
        with self.forward_of(s), self.builder.block() as allocation:
            sizes = self.sizes_outside(buffer.value.type)
            first = apply(space, FIRST_CAPACITY, *sizes, dtype=buffer.value.type.dtype)
        first.atom.name = name
        insert_before(home, s, allocation.statements)
        t = first.type.with_dims((self.builder.dims.fresh(), *first.type.dims[1:]))
        phi, out = Var(t, name, s.origin), Var(t, name, s.origin)
        top, top_out = Var(INT, f"{name}_top", s.origin), Var(INT, f"{name}_top", s.origin)
        if buffer.top is None:
            after = self._first_flat(buffer, s, top)
        else:
            after = self._flat_again(buffer, top)
        after = self._through_arms(buffer, after, top)
        self._take_over(buffer, s, phi, out, first.atom)
        buffer.arms.clear()
        s.phis, s.inits, s.outs = (*s.phis, top), (*s.inits, 0), (*s.outs, top_out)
        s.body.results.append(after)
        core.substitute(block, {buffer.out: out})
        del self.buffers[buffer.out]
        buffer.allocation, buffer.home, buffer.loop, buffer.out = (
            allocation.statements,
            home,
            s,
            out,
        )
        buffer.growing, buffer.top = True, top_out
        self.buffers[out] = buffer

    def _first_flat(self, buffer: Buffer, s: For | While, top: Var) -> Var:
        """Store at ``top + iteration``; return the ``top`` of the next iteration of ``s``."""
        loop = buffer.loop
        old = buffer.store.outs[0]
        removed = set(map(id, buffer.inserted))
        where = next(i for i, t in enumerate(buffer.store_block.statements) if id(t) in removed)
        phi = loop.phis[loop.body.results.index(old)]
        with self.forward_of(s), self.builder.block() as places:
            position = Array(top) + self.iteration_of(loop, None)
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
                shifted = Array(top) + self.iteration_of(loop, index)
            insert_before(block, read, places.statements)
            _read_at(read, shifted.atom)
        with self.forward_of(s), self.builder.block() as places:
            after = Array(top) + self.iterations_of(loop)
        body = self.home_of(loop)
        at = next(i for i, t in enumerate(body.statements) if t is loop)
        body.statements[at + 1 : at + 1] = places.statements
        return after.atom

    def iteration_of(self, loop: For | While, index: Array | None) -> Any:
        """The number of an iteration, counted from 0."""
        if isinstance(loop, While):
            return Array(self.counter_of(loop)[0]) if index is None else index
        own = Array(loop.index) if index is None else index
        steps = own - wrap_atom(loop.start)
        return steps if loop.step == 1 else steps // loop.step

    def iterations_of(self, loop: For | While) -> Any:
        """The trip count of a loop."""
        if isinstance(loop, While):
            return Array(self.counter_of(loop)[1])
        span = (wrap_atom(loop.stop) - wrap_atom(loop.start)) * (1 if loop.step > 0 else -1)
        if abs(loop.step) != 1:
            span = (span + (abs(loop.step) - 1)) // abs(loop.step)
        return self._nonnegative(span)

    def _flat_again(self, buffer: Buffer, top: Var) -> Var:
        """Add one more loop around a flat buffer: the inner ``top`` starts at the outer one."""
        loop = buffer.loop
        k = loop.outs.index(buffer.top)
        loop.inits = (*loop.inits[:k], top, *loop.inits[k + 1 :])
        assert buffer.top is not None
        return buffer.top


def _own_first(s: If, which: int) -> tuple[Block, Block]:
    """The arm ``which`` and the other arm of a branch."""
    return (s.then, s.orelse) if which == 0 else (s.orelse, s.then)


def retype(loop: For | While, k: int, t: ArrayType) -> None:
    """Give a carried buffer another type, also in the loops within."""
    loop.phis[k].type = loop.outs[k].type = t
    for s in core.walk(loop.body):
        if isinstance(s, (For, While)):
            for j, init in enumerate(s.inits):
                if init is loop.phis[k]:
                    retype(s, j, t)


def prepend_index(statement: Apply, first: int, position: Atom) -> None:
    """Change ``x[i]`` to ``x[position, i]``."""
    head, dynamic = statement.args[:first], statement.args[first:]
    index = statement.params["index"]
    if isinstance(position, Var):
        shifted = tuple(map(_shifted, index))
        statement.args = (*head, position, *dynamic)
        statement.params = {"index": (Slot(0), *shifted)}
    else:
        statement.params = {"index": (position, *index)}


def _shifted(item: Any) -> Any:
    """An index item with its slots shifted by one."""
    if isinstance(item, Slot):
        return Slot(item.position + 1)
    if isinstance(item, slice):
        return slice(_shifted(item.start), _shifted(item.stop), item.step)
    return item


def _read_at(read: Apply, position: Atom) -> None:
    """Read a buffer at another position, with the same part of its row."""
    template, dynamic = read.params["index"], list(read.args[1:])
    first = template[0]
    if isinstance(first, Slot):
        dynamic[first.position] = position
    else:
        first = Slot(len(dynamic))
        dynamic.append(position)
    read.args, read.params = (read.args[0], *dynamic), {"index": (first, *template[1:])}
