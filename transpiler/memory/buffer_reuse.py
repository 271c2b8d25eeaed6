"""Hoist the allocation of arrays that each iteration of a loop makes and drops.

Before::

    for k in range(n):
        out = np.full(m, 0.0)
        for i in range(m):
            out[i] = out[i] + A[k, i] * x[i]
        ...

After: ``out`` is allocated before the loop, which carries its memory between iterations; a loop
fills it where it was allocated. Allocating and freeing memory takes longer than many a small sum.
Each thread needs memory of its own, so nothing is hoisted out of a parallel loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.types import DimLike
from calque.transpiler.ir.undefined_values import unfilled
from calque.transpiler.ir.verdicts import OTHER, Verdict
from calque.transpiler.ir.versions import Versions, of_indexed_stores
from calque.transpiler.loops.backward_slice import early
from calque.transpiler.loops.parallelize import worth_threads
from calque.transpiler.loops.virtual_arrays import stored
from calque.transpiler.primitives.creation import empty, full, ones, zeros

_FILLED = (empty, full, zeros, ones)
_NAMES = ("i", "j", "k", "l", "m", "n")


def reuse_memory(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Hoist allocations out of the loops that ``compiles`` accepts for kernels, in place."""

    def visit(block: Block) -> None:
        for s in list(block.statements):
            if isinstance(s, (For, While)) and compiles(s):
                mover.statement(s, block)
            else:
                for inner in core.blocks_of(s):
                    visit(inner)

    mover = _Mover(builder, unfilled(function.body))
    with builder.active():
        visit(function.body)


@dataclass(eq=False)
class _Mover:
    """Hoists allocations out of loops, and out of branches in them."""

    builder: Builder
    unfilled: set[Var]

    def statement(
        self, s: Statement, around: Block, depth: int = 1, in_thread: bool = False
    ) -> None:
        """Hoist allocations out of a loop or a branch, to before it in the block ``around``.

        ``depth`` counts blocks within the kernel. Only the outermost of nested parallel loops runs
        on threads; ``in_thread`` tells that ``s`` is inside one.
        """
        threads = not in_thread and isinstance(s, For) and worth_threads(s, depth)
        for block in core.blocks_of(s):
            for inner in list(block.statements):
                self.statement(inner, block, depth + 1, in_thread or threads)
        if isinstance(s, (If, For, While)) and not threads:
            for block in [s.then, s.orelse] if isinstance(s, If) else [s.body]:
                inside = {*core.defined_vars(block), *core.bound_vars(s)}
                made = [t for t in block.statements if isinstance(t, Apply)]
                for new in [t for t in made if t.primitive in _FILLED and t.out.type.ndim]:
                    self._move(new, s, block, around, inside)

    def _move(
        self, new: Apply, s: If | For | While, block: Block, around: Block, inside: set[Var]
    ) -> None:
        versions, showing = self._versions(new.out, block)
        sizes = new.args[1:] if new.primitive is full else new.args
        left = None  # the array that the next iteration may write into
        if not showing.isdisjoint(_vars(block.results)):
            left = self._replaced(new.out, versions, showing, s, block)
            if left is None:
                return
        if not all(self._is_size(d) for d in new.out.type.dims):
            return
        with self.builder.block() as before, self.builder.at(new.origin):
            phis = getattr(s, "phis", ())
            inside.update(phis)  # also those of arrays that were moved before this one
            definition = {o: t for t in block.statements for o in t.outs} | dict.fromkeys(phis, s)
            known = [early(a, inside, definition) for a in sizes]
            if None in known:
                return
            start = Var(new.out.type, new.out.name, new.origin)
            make, dtype = empty, {"dtype": new.out.type.dtype}
            self.builder.emit(Apply((start,), make, tuple(known), dtype, new.origin))
        at = around.statements.index(s)
        around.statements[at:at] = before.statements
        last = left or _last(new.out, versions, block)
        taken = self._carried(new.out, last, start, s, block)
        at = block.statements.index(new)
        block.statements[at : at + 1] = filled = self._filled(new, taken)
        if not filled:
            core.substitute(block, {new.out: taken})
        label([*before.statements, *filled], new.phase)

    def _replaced(
        self, new: Var, versions: set[Var], showing: set[Var], s: Statement, block: Block
    ) -> Var | None:
        """The carried array that a new one replaces, whose memory is free; None if still needed."""
        if not isinstance(s, (For, While)):
            return None
        places = [k for k, r in enumerate(block.results) if r in showing]
        old = s.phis[places[0]]
        if old in self.unfilled:
            return None  # the first iteration has no array to write into
        if len(places) > 1 or block.results[places[0]] not in versions:
            return None
        if not self._equal_sizes(old, new):
            return None
        old_versions, old_showing = self._versions(old, block)
        if not old_showing.isdisjoint([*_vars(block.results), *showing]):
            return None
        return _last(old, old_versions, block)

    def _versions(self, array: Var, block: Block) -> tuple[set[Var], set[Var]]:
        """The versions of an array that a block makes; these, and all variables that may alias it.

        A result of a branch or a loop is a version if it has the array's sizes on every path:
        memory of another size cannot hold the next iteration's array.
        """
        linked = Versions.within(block, taken=of_indexed_stores)
        other = {
            var
            for var in linked.made
            for a in linked.sources(var)
            if not isinstance(a, Var) or not self._equal_sizes(a, array)
        }
        showing = Versions.within(block, taken=_shown).later(array)
        return {*linked.later(array, without=other)}, {*showing}

    def _equal_sizes(self, one: Var, other: Var) -> bool:
        dims = self.builder.dims
        return len(one.type.dims) == len(other.type.dims) and all(
            dims.resolve(d) == dims.resolve(e)
            for d, e in zip(one.type.dims, other.type.dims, strict=True)
        )

    def _is_size(self, dim: DimLike) -> bool:
        """True if a size is proven nonnegative: a hoisted one is used even by a zero-trip loop."""
        return self.builder.dims.nonnegative(self.builder.dims.resolve(dim))

    def _carried(
        self, out: Var, last: Var, start: Var, s: If | For | While, block: Block
    ) -> Var:
        """Let a statement carry the memory; return the array that its block writes into."""
        after = Var(out.type, out.name, out.origin)
        s.outs = (*s.outs, after)
        if isinstance(s, If):
            for arm in (s.then, s.orelse):
                arm.results.append(last if arm is block else start)
            return start
        if isinstance(s, For):
            s.parallel = False
            s.verdict = Verdict(OTHER, "each iteration hands the memory of an array to the next")
        taken = Var(out.type, out.name, out.origin)
        s.phis, s.inits = (*s.phis, taken), (*s.inits, start)
        block.results.append(last)
        return taken

    def _filled(self, new: Apply, taken: Var) -> list[Statement]:
        """The loops that fill an array; none for ``np.empty``."""
        if new.primitive is empty:
            return []
        given = new.primitive is full
        value = new.args[0] if given else new.out.type.dtype.type(new.primitive.filled_with)
        with self.builder.block() as made, self.builder.at(new.origin):
            sizes = new.args[1:] if given else new.args
            self._fill(Array(taken), wrap(value), sizes, [])
        last = made.statements[-1]
        assert isinstance(last, (Apply, For))
        last.outs = new.outs
        return made.statements

    def _fill(self, array: Array, value: Any, sizes: Sequence[Atom], index: list[Any]) -> Array:
        depth = len(index)
        if depth == len(sizes):
            return stored(array, value, index)
        if isinstance(sizes[depth], int) and sizes[depth] == 1:
            return self._fill(array, value, sizes, [*index, 0])
        kept = array.atom
        counter = loop_index(0, kept.type.dims[depth] - 1, _NAMES[min(depth, 5)])
        loop = emit_fold(
            *(self.builder, counter.atom, (0, sizes[depth], 1), [kept]),
            lambda phi: [self._fill(Array(phi), value, sizes, [*index, counter])],
            scheduled=True,
        )
        loop.vector = not any(isinstance(t, For) for t in loop.body.statements)
        return Array(loop.outs[0])


def _shown(s: Apply) -> tuple[Atom, ...]:
    """The operands whose memory an array that a statement makes may share."""
    if is_indexed_store(s):
        return s.args[:1]
    return s.args if any(o.type.ndim for o in s.outs) else ()


def _last(array: Var, versions: set[Var], block: Block) -> Var:
    """The last version of an array that a block's own statements define."""
    return next((o for t in block.statements[::-1] for o in t.outs if o in versions), array)


def _vars(atoms: Sequence[Atom]) -> set[Var]:
    return {a for a in atoms if isinstance(a, Var)}
