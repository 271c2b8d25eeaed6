"""Indices that are not proven to be inside their array are checked where they are used.

Before::

    y[i] = x[columns[i]]

After: ``y[i] = x[checked_index(columns[i], x.shape[0])]``, which raises IndexError, and counts a
negative number from the end; all other accesses of the kernel do neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler import core
from calque.transpiler.analyses.bounds import in_range
from calque.transpiler.analyses.places import INDEXED
from calque.transpiler.builder import Array, Builder, atom, wrap
from calque.transpiler.core import Apply, Block, For, Function, Slot, Statement, Var, While
from calque.transpiler.primitives.base import PRIMITIVES, apply
from calque.transpiler.primitives.elements import full_template
from calque.transpiler.types import DimLike

Known = dict[tuple[Var, DimLike], Var]  # an index, and the size it was checked for -> the checked


def check_indices(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Let the loops that ``compiles`` takes for kernels check such indices, in place."""

    def visit(block: Block) -> None:
        for s in block.statements:
            if isinstance(s, (For, While)) and compiles(s):
                for inner in core.blocks_of(s):
                    checker.block(inner, {})
            else:
                for inner in core.blocks_of(s):
                    visit(inner)

    checker = _Checker(builder, function.phases)
    with builder.active():
        visit(function.body)


@dataclass(eq=False)
class _Checker:
    builder: Builder
    phases: dict[int, str] = field(default_factory=dict)

    def block(self, block: Block, known: Known) -> None:
        """Check what a block reads and stores; ``known`` has been checked by then."""
        known = dict(known)
        made: list[Statement] = []
        for s in block.statements:
            if isinstance(s, Apply) and s.primitive.name in INDEXED and not s.inside:
                checks = self._checks(s, known)
                self.phases.update((id(t), self.phases.get(id(s), "")) for t in checks)
                made += checks
            for inner in core.blocks_of(s):
                self.block(inner, known)
            made.append(s)
        block.statements[:] = made

    def _checks(self, s: Apply, known: Known) -> list[Statement]:
        """What checks the indices of one access, which then reads the checked ones."""
        first = 1 if s.primitive.name == "getitem" else 2
        base, dynamic = s.args[0], list(s.args[first:])
        if not isinstance(base, Var) or any(d.type.ndim for d in dynamic if isinstance(d, Var)):
            return []
        items = full_template(s.params["index"], [wrap(d) for d in dynamic], base.type.ndim)
        items = [item for item in items if item is not None]
        with self.builder.block() as made, self.builder.at(s.origin):
            for axis, item in enumerate(items):
                index: Any = dynamic[item.position] if isinstance(item, Slot) else item
                if isinstance(item, slice) or self._is_proven(index, base.type.dims[axis]):
                    continue
                if not isinstance(item, Slot):
                    return []
                dynamic[item.position] = self._checked(index, base, axis, known)
        s.args, s.inside = (*s.args[:first], *dynamic), True
        return made.statements

    def _is_proven(self, index: Any, dim: DimLike) -> bool:
        return in_range(index, dim, self.builder, False)

    def _checked(self, index: Var, base: Var, axis: int, known: Known) -> Var:
        dim = self.builder.dims.resolve(base.type.dims[axis])
        if (index, dim) not in known:
            size = dim
            if not isinstance(dim, int):
                size = apply(PRIMITIVES["size of axis"], Array(base), axis=axis)
            found = atom(apply(PRIMITIVES["checked_index"], Array(index), wrap(size)))
            known[index, dim] = known[found, dim] = found
        return known[index, dim]
