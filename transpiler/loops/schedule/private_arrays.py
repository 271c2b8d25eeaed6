"""Private arrays: an array of which each iteration uses only elements gains or loses an axis.

Contraction and privatization drop the axis that a loop's counter indexes in all accesses; expansion
adds it. All three are legal where a block uses an array only by single elements, through all its
versions: through stores, loops, branches and copies.

``privatize`` drops the axis of all arrays that an iteration makes. Before, in an iteration of ``i``
that surrounds the loop over ``k``::

    below = np.empty((n, m))
    for j in range(m):
        below[i, j] = 0.25 * wind[i, j, k]

After: ``below`` has the size ``m``, and ``below[j]`` is stored. Views of rows shrink, too, and so
do arrays chosen by branches. An array with one axis becomes a scalar.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import copy, getitem, update, update_add

NEW = (empty, zeros, ones, full, empty_like, zeros_like, ones_like)
_BLANK = (empty, zeros)
_PYTHON = (np.float64, np.int64, np.bool_)  # Python's numbers are these


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


# the arrays that an iteration makes


def privatize(body: Block, counter: Var, builder: Builder) -> Refused | None:
    """Remove a counter's axis from all arrays that a loop's body makes, or say which one needs it.

    The counter is that of a surrounding loop.
    """
    made: list[Apply] = []
    for s in core.walk(body):
        if not isinstance(s, Apply) or is_plain_store(s) or not any(o.type.ndim for o in s.outs):
            continue
        if s.primitive not in (*NEW, copy, getitem):
            return Refused("{0} makes an array that cannot be made row by row", (s.origin,))
        made.append(s)
    rows = PrivateRows(body, counter, builder, made)
    refused = rows.refused()
    if refused is None:
        rows.write()
    return refused


@dataclass(eq=False)
class PrivateRows:
    """The arrays that a body makes, by families, and the axis of each that the counter indexes."""

    body: Block
    counter: Var
    builder: Builder
    made: list[Apply]
    families: dict[Var, tuple[PrivateArray, int]] = field(default_factory=dict)  # by version
    views: dict[Apply, tuple[object, ...]] = field(default_factory=dict)  # their new indices
    numbers: set[Var] = field(default_factory=set)  # with one axis: they become scalars

    def refused(self) -> Refused | None:
        """The reason if an array is used otherwise than by elements of its own row."""
        all_families, origins = ArrayFamilies(self.body), {s.out for s in self.made}
        for s in self.made:
            if s.out in self.families:
                continue
            found = all_families.private(s.out, origins, self.made)
            if isinstance(found, Refused):
                return found
            axis = found.axis_of(self.counter, self.builder)
            if axis is None:
                said = "{0} makes an array that the outer counter does not index"
                return Refused(said, (s.origin,))
            self.families.update(dict.fromkeys(found.versions, (found, axis)))
        for s in self.made:
            if s.primitive is getitem:
                index = None if s.args[0] in self.families else self._view(s)
                if index is None:
                    return Refused("{0} makes a view that is not of rows", (s.origin,))
                self.views[s] = index
        self.numbers = {v for v in self.families if v.type.ndim == 1}
        lines = (s for s in core.walk(self.body) if not self.numbers.isdisjoint(s.outs))
        other = next((s for s in lines if not self._is_number(s)), None)
        return Refused("{0} has no form for scalars", (other.origin,)) if other else None

    def write(self) -> None:
        """Make rows, of rows, instead of the arrays."""
        self._make()
        for private, axis in {id(p): (p, axis) for p, axis in self.families.values()}.values():
            private.drop_axis(axis)
        if self.numbers:
            self._write_numbers()

    def _is_number(self, s: Statement) -> bool:
        """True if a statement whose result is an array with one axis has a form for scalars."""
        if not isinstance(s, Apply) or s.primitive in (copy, getitem):
            return True
        if is_plain_store(s):
            value, dtype = s.args[1], s.out.type.dtype
            if isinstance(value, Var):
                return value.type.dtype == dtype and not value.type.ndim
            return type(value) is float and dtype == np.float64
        return s.primitive in _BLANK and s.out.type.dtype.kind in "fib"

    def _write_numbers(self) -> None:
        """Replace stores into arrays that became scalars, and reads of them, by the scalars."""
        same: dict[Var, Atom] = {}
        for block in core.every_block(self.body):
            kept: list[Statement] = []
            for s in block.statements:
                touched = isinstance(s, Apply) and bool(s.args) and s.args[0] in self.numbers
                match s:
                    case Apply() if s.primitive in _BLANK and s.out in self.numbers:
                        zero = s.out.type.dtype.type(0)
                        same[s.out] = zero.item() if s.out.type.dtype in _PYTHON else zero
                    case Apply() if touched and s.primitive is update:
                        same[s.out] = s.args[1]
                    case Apply() if touched and s.primitive in (getitem, copy):
                        same[s.out] = s.args[0]
                    case Apply() if touched and s.primitive is update_add:
                        s.primitive, s.args, s.params = add, s.args[:2], {}
                        kept.append(s)
                    case _:
                        kept.append(s)
            block.statements[:] = kept
        core.substitute(self.body, {v: _last(v, same) for v in same})

    def _view(self, s: Apply) -> tuple[object, ...] | None:
        """The index of a view, with the counter in place of the full slice along its axis."""
        axis = self.families[s.out][1]
        items = full_template(s.params["index"], s.args[1:], s.args[0].type.ndim)
        if not all(i == slice(None) or isinstance(i, (Slot, int)) for i in items):
            return None
        whole = [k for k, item in enumerate(items) if item == slice(None)]
        items[whole[axis]] = Slot(len(s.args) - 1)
        return tuple(items)

    def _make(self) -> None:
        """Let the statements that make the arrays make rows."""
        for s, index in self.views.items():
            s.args = (*s.args, self.counter)
            s.params = {**s.params, "index": index}
            s.proven = True
        new = {s for s in self.made if s.primitive in NEW and s.out.type.ndim > 1}
        for block in core.every_block(self.body):
            written: list[Statement] = []
            for t in block.statements:
                if isinstance(t, Apply) and t in new:
                    written += row_of(t, self.families[t.out][1], self.builder)
                else:
                    written.append(t)
            block.statements[:] = written


def _last(var: Var, same: dict[Var, Atom]) -> Atom:
    value: Atom = var
    while isinstance(value, Var) and value in same:
        value = same[value]
    return value
