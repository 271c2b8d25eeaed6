"""Private arrays: an array of which each iteration uses only elements gains or loses an axis.

Contraction and privatization drop the axis that a loop's counter indexes in all accesses; expansion
adds it. All three are legal where a block uses an array only by single elements, through all its
versions: through stores, loops, branches and copies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Statement, Var, While
from calque.transpiler.ir.effects import is_access, is_plain_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.versions import Versions
from calque.transpiler.loops.accesses import element_index
from calque.transpiler.primitives.creation import (
    empty,
    empty_like,
    full,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import copy

NEW = (empty, zeros, ones, full, empty_like, zeros_like, ones_like)


class ArrayFamilies:
    """The arrays of a block; one family holds all versions that may be the same memory, or copies.

    A family's *origins* are the versions that no store, branch, loop or copy in the block defines.
    """

    def __init__(self, block: Block):
        self.block, self._versions = block, Versions.within(block, taken=_continued)

    def family(self, version: Var) -> frozenset[Var]:
        """All versions of an array that may be the memory of a given one, or copies."""
        return self._versions.family(version)

    def private(
        self, array: Var, origins: Collection[Var], besides: Collection[Statement] = ()
    ) -> PrivateArray | Refused:
        """An array that begins as ``origins`` and is used by elements; or the first other use.

        Statements in ``besides`` may use it otherwise.
        """
        versions = self.family(array)
        new = (v for v in versions if not self._versions.sources(v))
        other = next((v for v in new if v not in origins), None)
        if other is not None:
            name = array.name or "an array"
            return Refused(f"{name} is one of several arrays", (other.origin,))
        accesses = []
        for s in core.walk(self.block):
            used = [a for a in core.operands(s) if isinstance(a, Var) and a in versions]
            if not used or isinstance(s, (If, For, While)) or s in besides:
                continue
            if not isinstance(s, Apply) or not _is_single(s) or used != [s.args[0]]:
                return Refused("{0} uses more than one element", (s.origin,))
            accesses.append(s)
        return PrivateArray({*versions}, accesses)


def _continued(s: Apply) -> tuple[Atom, ...]:
    """The array that a plain store, a copy or room for more elements goes on with."""
    return s.args[:1] if is_plain_store(s) or s.primitive in (copy, room) else ()


def _is_single(s: Apply) -> bool:
    """True if ``s`` reads or stores an array at a number along each axis."""
    if not is_access(s):
        return False
    items, dynamic = s.params["index"], s.args[s.primitive.first_index :]
    plain = all(isinstance(item, (Slot, int)) for item in items)
    numbers = not any(isinstance(a, Var) and a.type.ndim for a in dynamic)
    return plain and numbers and len(items) == s.args[0].type.ndim


@dataclass(eq=False)
class PrivateArray:
    """An array of which a block uses single elements: its versions, and the accesses to them."""

    versions: set[Var]
    accesses: list[Apply]

    def axis_of(self, counter: Var, builder: Builder) -> int | None:
        """The axis that all accesses index by a counter; None if there is none."""
        if counter not in builder.dim_values:
            return None
        here = builder.dims.resolve(builder.dim_values[counter])
        places = [element_index(s, builder) for s in self.accesses]
        rank = len(places[0]) if places else 0
        return next((k for k in range(rank) if all(p[k] == here for p in places)), None)

    def drop_axis(self, axis: int) -> None:
        """Remove an axis from all versions and accesses, in place; ``row_of`` makes the array."""
        for s in self.accesses:
            _without_axis(s, axis)
        for version in self.versions:
            dims = version.type.dims
            version.type = version.type.with_dims(dims[:axis] + dims[axis + 1 :])

    def append_axis(self, counter: Var, whole: Var) -> None:
        """Let all accesses be those at ``counter`` along the last axis of ``whole``, in place."""
        for s in self.accesses:
            slot = Slot(len(s.args) - s.primitive.first_index)
            s.params = {**s.params, "index": (*s.params["index"], slot)}
            s.args, s.proven = (*s.args, counter), True
        for version in self.versions:
            version.type = whole.type


def _without_axis(s: Apply, axis: int) -> None:
    """Drop one axis from the index of an access, in place."""
    items: Sequence[Slot | int] = s.params["index"]
    first = s.primitive.first_index
    kept = [item for k, item in enumerate(items) if k != axis]
    dynamic = [s.args[first + item.position] for item in kept if isinstance(item, Slot)]
    slots = iter(range(len(dynamic)))
    index = tuple(Slot(next(slots)) if isinstance(item, Slot) else item for item in kept)
    s.args = (*s.args[:first], *dynamic)
    s.params = {**s.params, "index": index}


def row_of(new: Apply, axis: int, builder: Builder) -> list[Statement]:
    """The statements that make an array like ``new`` without one of its axes."""
    primitive, dims = new.primitive, new.out.type.dims
    kept = [k for k in range(len(dims)) if k != axis]
    before: tuple[Any, ...] = ()
    with builder.block() as made, builder.at(new.origin):
        if primitive.like is not None:
            like = wrap(new.args[0])
            sizes = [atom(builder.size_of(dims[k], like, k)) for k in kept]
            primitive = primitive.like
        else:
            first = primitive.sizes_from
            before = new.args[:first]
            sizes = [new.args[first + k] for k in kept]
        dtype = {"dtype": new.out.type.dtype}
        builder.emit(Apply(new.outs, primitive, (*before, *sizes), dtype, new.origin))
    return made.statements
