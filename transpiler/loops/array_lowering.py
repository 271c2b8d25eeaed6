"""Lower whole-array statements to loops over scalars, fused where they share an index space.

Before::

    t = np.exp(x)
    y = np.where(x > 0, x, alpha * t - alpha)
    s = np.sum(y)

After::

    s = 0.0
    for i in range(x.size):
        y = x[i] if x[i] > 0 else alpha * exp(x[i]) - alpha
        s = s + y

Operations that are no loop over elements (matrix products, factorizations) stay statements on
arrays, between the loops. The user's own loops and branches are lowered inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from calque.transpiler.errors import CalqueError, SpecializationNeeded
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.path_conditions import blocks_given, facts_after
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.types import Dim
from calque.transpiler.ir.undefined_values import unfilled
from calque.transpiler.ir.uses import Uses
from calque.transpiler.loops.fusion import Fusion
from calque.transpiler.loops.fusion_groups import Loop
from calque.transpiler.loops.in_place import Owned
from calque.transpiler.loops.nest_builder import NestBuilder
from calque.transpiler.loops.size_agreement import agree
from calque.transpiler.loops.store_sinking import late_stores
from calque.transpiler.loops.trailing_reductions import summed_last, sums_other_axes
from calque.transpiler.loops.unit_order import Unit
from calque.transpiler.loops.virtual_arrays import NoElements, SizesAtHand
from calque.transpiler.primitives import (  # noqa: F401  (fill ``lowering``)
    composed_additions,
    composed_products,
    composed_scipy,
    composed_special,
    einsum_products,
)
from calque.transpiler.primitives.composed import is_small_factorization
from calque.transpiler.primitives.composed_scans import RUNNING, scanned_by_numbers
from calque.transpiler.primitives.elementwise import to_int
from calque.transpiler.primitives.products import dot, matmul
from calque.transpiler.primitives.shapes import broadcast_to, size

Allowed = Callable[[Apply], bool]


def lower_to_loops(
    function: Function, builder: Builder, allowed: Allowed, grid: bool = False
) -> None:
    """Rewrite ``function.body`` as loops over scalars, in place, where ``allowed`` permits it.

    For a ``grid`` of threads, sums go over the last axes, and a full sum is not split by rows.
    """
    at_hand = SizesAtHand(builder, unfilled(function.body))
    with builder.active():
        at_hand.see(function.params)
        writer = Schedule(builder, at_hand, allowed, grid)
        writer.block(function.body, _stored_arguments(function))
    core.substitute(function.body, writer.renamed)
    remove_dead_code(function)


class Schedule:
    """Rewrite blocks with their array statements as loops."""

    def __init__(self, builder: Builder, at_hand: SizesAtHand, allowed: Allowed, grid: bool):
        self.builder, self.at_hand, self.allowed, self.grid = builder, at_hand, allowed, grid
        self.renamed: dict[Var, Any] = {}
        self.depth = 0  # number of surrounding loops
        self.composed: set[int] = set()  # results of decompositions that use the same primitive

    def block(self, block: Block, owned: Owned) -> None:
        """Lower one block, in place; statements that turn out to have no loop form stay."""
        kept: set[int] = set()
        nested = [(b, list(b.statements)) for b in _blocks_within(block)]
        while True:
            mark = self.at_hand.mark()
            try:
                with self.builder.block() as new, self.builder.dims.given([]):
                    stuck = self._statements(block, new, kept, owned)
            finally:
                self.at_hand.back(mark)
            if not stuck:
                break
            kept |= stuck
            for inner, statements in nested:  # they may read sizes of the attempt that is dropped
                inner.statements[:] = statements
            for s in core.walk(block):
                for out in s.outs:
                    self.renamed.pop(out, None)
                    self.builder.definitions[out] = s
        block.statements[:] = new.statements

    def _statements(self, block: Block, new: Block, kept: set[int], owned: Owned) -> set[int]:
        """Rewrite a block; return the ids of statements that were planned but cannot be loops."""
        self._compose(block, kept)
        late_stores(block)
        with self.builder.block():
            planned = self._visible(block)
            fusion = Fusion(self.builder, block, planned, self.allowed, kept, owned, self.grid)
        for new_one, old in fusion.renewed.items():
            if old in self.composed:
                self.composed.add(new_one)
        for unit in fusion.units:
            before = len(new.statements)
            try:
                if isinstance(unit, Loop):
                    self._nest(unit, fusion)
                else:
                    self._keep(unit, fusion)
            except NoElements as error:
                return self._left(unit, fusion, error.size)
            made = unit.roots()[0].statement if isinstance(unit, Loop) else unit
            for s in new.statements[before:]:
                s.phase = s.phase or made.phase
        return set()

    def _left(self, unit: Unit, fusion: Fusion, size: Dim | None) -> set[int]:
        """The ids of statements to leave as they are if a nest, or a size, cannot be written.

        If no array in memory has a needed size, keep the first statement whose result has it: a
        view if there is one, for free. On a GPU the host makes views, which would split a kernel.
        """
        resolve = self.builder.dims.resolve
        made = [s for s in fusion.virtual.values() if s.primitive is not broadcast_to]
        sized = [s for s in made if any(resolve(d) == size for d in s.out.type.dims)]
        views = [s for s in sized if s.primitive.view_back is not None]
        if sized and not self.grid:
            return {id((views or sized)[0])}
        if not isinstance(unit, Loop):
            return {id(fusion.virtual[unit.args[0]])}  # type: ignore[union-attr]
        return {id(r.statement) for r in unit.roots()}

    def _compose(self, block: Block, kept: set[int]) -> None:
        """Replace operations that decompose into simpler ones."""
        made: list[Statement] = []
        pending = block.statements[::-1]
        uses = Uses(block)
        while pending:
            s = pending.pop()
            if self.depth and isinstance(s, Apply) and s.primitive.in_loops is not None:
                small = is_small_factorization([wrap(a) for a in s.args])
                s.proven = small and agree(s, self.builder)
            rule = s.primitive.lowering if isinstance(s, Apply) else None
            if not self.depth and isinstance(s, Apply) and s.primitive in (matmul, dot):
                if uses.count(s.args[0]) > 1 and s.out.type.ndim < 3:
                    rule = None  # the matrix is needed in memory
            if self.grid and isinstance(s, Apply) and s.primitive in RUNNING:
                rule = partial(_by_numbers, s)
            if self.grid and sums_other_axes(s):
                assert isinstance(s, Apply)
                rule = partial(_summed_last, s)
            if rule is None or id(s) in kept or id(s) in self.composed or not self._allows(s):  # type: ignore[arg-type]
                made.append(s)
                continue
            assert isinstance(s, Apply)
            with self.builder.block() as parts, self.builder.at(s.origin):
                try:
                    found = rule([wrap(a) for a in s.args], s.params, self.depth > 0)
                except (CalqueError, SpecializationNeeded):
                    found = None
            if not self._takes_over(s, parts, found):
                made.append(s)
                continue
            label(parts.statements, s.phase)
            own = (p for p in parts.statements if isinstance(p, Apply))
            self.composed.update(id(p) for p in own if p.primitive is s.primitive)
            pending += parts.statements[::-1]
        block.statements[:] = made

    def _takes_over(self, s: Apply, parts: Block, found: Any) -> bool:
        """Let the statements that compute a decomposition define the results of ``s``."""
        results = [atom(f) for f in found] if isinstance(found, tuple) else [atom(found)]
        made = {t.outs[0]: t for t in parts.statements if isinstance(t, Apply | For)}
        if len({*results}) < len(results) or not made.keys() >= {*results}:
            return False
        last = parts.statements[-1]
        if len(results) == 1 and last.outs[0] is not results[0]:
            return False
        for result, out in zip(results, s.outs, strict=True):
            _rename(parts, result.name, out.name)
            own = made[result]
            own.outs = (out, *own.outs[1:])
            self.builder.definitions[out] = own
        return True

    def _allows(self, s: Apply) -> bool:
        return self.allowed(s) and agree(s, self.builder)

    def _visible(self, block: Block) -> SizesAtHand:
        """The sizes of all arrays that the block defines, for planning."""
        found = SizesAtHand(self.builder, self.at_hand.vague)
        found.arrays, found.numbers = list(self.at_hand.arrays), list(self.at_hand.numbers)
        for s in block.statements:
            found.see(s.outs)
        return found

    def _keep(self, s: Statement, fusion: Fusion) -> None:
        """Emit a statement unchanged, except that its blocks are lowered."""
        if is_size(s) and s.args[0] in fusion.virtual:
            self._size_of_virtual(s)
        else:
            for inner, facts in blocks_given(s, self.builder):
                with self.builder.dims.given(facts):
                    match s:
                        case For():
                            self._inside(inner, [s.index, *s.phis], _carried(s), 1)
                        case While():
                            owned = _carried(s) if inner is s.body else {}
                            self._inside(inner, s.phis, owned, 1)
                        case If():
                            owned = fusion.uses_of_owned.in_arm(s, inner)
                            self._inside(inner, [], owned, 0)
            self.builder.emit(s)
            self.builder.dims.facts += facts_after(s, self.builder)
        self.at_hand.see(s.outs)

    def _inside(self, block: Block, bound: Sequence[Var], owned: Owned, loops: int) -> None:
        """Lower an inner block, ``loops`` loops further in."""
        mark = self.at_hand.mark()
        self.at_hand.see(bound)
        self.depth += loops
        self.block(block, owned)
        self.depth -= loops
        self.at_hand.back(mark)

    def _size_of_virtual(self, s: Apply) -> None:
        """Emit a size of an array that is not in memory, under its old name."""
        alike = self._of_same_dims(s.args[0]) if s.primitive is size else None
        if alike is not None:
            self.builder.emit(Apply(s.outs, size, (alike,), {}, s.origin))
            return
        if s.primitive is size:
            count = math.prod(self.at_hand(d) for d in s.args[0].type.dims)
        else:
            count = self.at_hand(self.builder.dim_of(Array(s.out)))
        self.builder.emit(Apply(s.outs, to_int, (atom(count),), {}, s.origin))

    def _of_same_dims(self, virtual: Var) -> Var | None:
        """An array in memory with the same shape; None if there is none."""
        resolve = self.builder.dims.resolve
        dims = tuple(map(resolve, virtual.type.dims))
        arrays = (a for a in self.at_hand.arrays if len(a.type.dims) == len(dims))
        return next((a for a in arrays if tuple(map(resolve, a.type.dims)) == dims), None)

    # nests

    def _nest(self, unit: Loop, fusion: Fusion) -> None:
        roots = unit.roots()
        with self.builder.at(roots[0].statement.origin):
            results = fusion.block.results
            builder = NestBuilder(fusion.virtual, self.at_hand, roots, self.renamed, results)
            builder.in_parts = not self.grid
            builder.write(unit)
        for root in roots:
            self.at_hand.see(root.statement.outs)


def _rename(block: Block, old: str | None, new: str | None) -> None:
    """Rename the variables called ``old`` to ``new``, the user's name."""
    if old is None or new is None:
        return
    for s in core.walk(block):
        for var in (*s.outs, *core.bound_vars(s)):
            var.name = new if var.name == old else var.name


def _by_numbers(s: Apply, args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    return scanned_by_numbers(s, args)


def _summed_last(s: Apply, args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
    return summed_last(s, args, params)


def _carried(s: For | While) -> Owned:
    """The variables that a loop carries, each with its value for the next iteration."""
    return dict(zip(s.phis, s.body.results, strict=True))


def _stored_arguments(function: Function) -> Owned:
    """The arguments that are stored into, each with the value that it must end up holding."""
    return {function.params[k]: function.body.results[r] for k, r in function.written.items()}


def _blocks_within(block: Block) -> list[Block]:
    """The blocks of the statements of a block, at any depth."""
    return [b for s in core.walk(block) for b in core.blocks_of(s)]
