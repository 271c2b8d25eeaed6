"""Shrink arrays made inside a loop to the row that an iteration of a surrounding loop needs.

Before, in an iteration of ``i`` that surrounds the loop over ``k``::

    below = np.empty((n, m))
    for j in range(m):
        below[i, j] = 0.25 * wind[i, j, k]

After: ``below`` has the size ``m``, and ``below[j]`` is stored. Views of rows shrink, too, and so
do arrays chosen by branches. An array with one axis becomes a scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Statement, Var
from calque.transpiler.ir.effects import is_access, is_plain_store
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
from calque.transpiler.primitives.indexing import copy, getitem, update, update_add

NEW = (empty, zeros, ones, full, empty_like, zeros_like, ones_like)
_BLANK = (empty, zeros)
_PYTHON = (np.float64, np.int64, np.bool_)  # Python's numbers are these


@dataclass(eq=False)
class PrivatizedRows:
    """The arrays that a loop's body makes, grouped by stores, loops, branches and copies."""

    builder: Builder
    counter: Var  # of the surrounding loop
    carried: set[Var]  # phis of the inner loop: these arrays stay as they are
    joined: dict[Var, Var] = field(default_factory=dict)

    def leave_out(self, body: Block) -> bool:
        """Remove the counter's axis from all arrays that a block makes; False if one needs it."""
        made: list[Apply] = []
        for s in core.walk(body):
            if isinstance(s, Apply) and any(o.type.ndim for o in s.outs):
                if is_plain_store(s):
                    self._join(s.outs[0], s.args[0])
                elif s.primitive in (*NEW, copy, getitem):
                    made.append(s)
                    if s.primitive is copy:
                        self._join(s.outs[0], s.args[0])
                else:
                    return False
            elif isinstance(s, If):
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    for arm in arms:
                        self._join(out, arm)
            elif isinstance(s, For):
                for several in zip(s.outs, s.phis, s.inits, s.body.results, strict=True):
                    for other in several[1:]:
                        self._join(several[0], other)
        own = {self._first(s.out) for s in made}
        if not own.isdisjoint(map(self._first, self.carried)):
            return False
        inside = {o for s in core.walk(body) for o in (*s.outs, *core.bound_vars(s))}
        if not own.isdisjoint(self._first(v) for v in core.free_vars(body) if v.type.ndim):
            return False  # one of the arrays is from outside
        return self._shrink(body, made, own, {v for v in inside if self._first(v) in own})

    def _first(self, var: Var) -> Var:
        while var in self.joined:
            var = self.joined[var]
        return var

    def _join(self, a: Var, b: Atom) -> None:
        if isinstance(b, Var) and b.type.ndim:
            first, other = self._first(a), self._first(b)
            if first is not other:
                self.joined[first] = other

    def _shrink(self, body: Block, made: list[Apply], own: set[Var], members: set[Var]) -> bool:
        """Find each group's axis, and remove it from creations, types and accesses."""
        accesses: dict[Var, list[Apply]] = {first: [] for first in own}
        for s in core.walk(body):
            touched = [a for a in core.operands(s) if isinstance(a, Var) and a in members]
            if not touched or isinstance(s, (If, For)) or s in made:
                continue
            items = s.params.get("index", ()) if isinstance(s, Apply) else ()
            if not is_access(s):
                return False
            if touched != [s.args[0]]:
                return False
            whole = len(items) == s.args[0].type.ndim
            if not whole or not all(isinstance(item, (Slot, int)) for item in items):
                return False
            accesses[self._first(s.args[0])].append(s)
        axes = {first: self._axis(found) for first, found in accesses.items()}
        views = {s: self._view(s, axes[self._first(s.out)]) for s in made
                 if s.primitive is getitem and s.args[0] not in members}
        known = {first: axis for first, axis in axes.items() if axis is not None}
        indices = {s: index for s, index in views.items() if index is not None}
        if len(known) < len(axes) or len(indices) < len(views):
            return False
        if any(s.primitive is getitem and s not in views for s in made):
            return False
        numbers = {v for v in members if v.type.ndim == 1}
        if not all(self._is_number(s) for s in core.walk(body) if not numbers.isdisjoint(s.outs)):
            return False
        for found in accesses.values():
            for s in found:
                if s.args[0] not in numbers:
                    without_axis(s, known[self._first(s.args[0])])
        self._make(body, made, known, indices)
        for v in members:
            axis = known[self._first(v)]
            v.type = v.type.with_dims(v.type.dims[:axis] + v.type.dims[axis + 1 :])
        if numbers:
            self._write_numbers(body, numbers)
        return True

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

    def _write_numbers(self, body: Block, numbers: set[Var]) -> None:
        """Replace stores into arrays that became scalars, and reads of them, by the scalars."""
        same: dict[Var, Atom] = {}
        for block in (body, *(b for s in core.walk(body) for b in core.blocks_of(s))):
            kept: list[Statement] = []
            for s in block.statements:
                touched = isinstance(s, Apply) and bool(s.args) and s.args[0] in numbers
                match s:
                    case Apply() if s.primitive in _BLANK and s.out in numbers:
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
        core.substitute(body, {v: _last(v, same) for v in same})

    def _axis(self, accesses: list[Apply]) -> int | None:
        """The axis that all accesses index by the counter; None if there is none."""
        counter = self.builder.dims.resolve(self.builder.dim_values[self.counter])
        places = [element_index(s, self.builder) for s in accesses]
        rank = len(places[0]) if places else 0
        axes = (k for k in range(rank) if all(p[k] == counter for p in places))
        return next(axes, None)

    def _view(self, s: Apply, axis: int | None) -> tuple[object, ...] | None:
        """The index of a view, with the counter in place of the full slice along ``axis``."""
        items = full_template(s.params["index"], s.args[1:], s.args[0].type.ndim)
        if axis is None or not all(i == slice(None) or isinstance(i, (Slot, int)) for i in items):
            return None
        whole = [k for k, item in enumerate(items) if item == slice(None)]
        items[whole[axis]] = Slot(len(s.args) - 1)
        return tuple(items)

    def _make(
        self,
        body: Block,
        made: list[Apply],
        axes: dict[Var, int],
        views: dict[Apply, tuple[object, ...]],
    ) -> None:
        """Let the statements that make the arrays make rows."""
        for s in made:
            if s in views:
                s.args = (*s.args, self.counter)
                s.params = {**s.params, "index": views[s]}
                s.proven = True
        new = {s for s in made if s.primitive in NEW and s.out.type.ndim > 1}
        for block in (body, *(b for s in core.walk(body) for b in core.blocks_of(s))):
            written: list[Statement] = []
            for t in block.statements:
                if isinstance(t, Apply) and t in new:
                    written += row_of(t, axes[self._first(t.out)], self.builder)
                else:
                    written.append(t)
            block.statements[:] = written


def _last(var: Var, same: dict[Var, Atom]) -> Atom:
    value: Atom = var
    while isinstance(value, Var) and value in same:
        value = same[value]
    return value


def row_of(new: Apply, axis: int, builder: Builder) -> list[Statement]:
    """The statements that make an array like ``new`` without one of its axes."""
    primitive, dims = new.primitive, new.out.type.dims
    kept = [k for k in range(len(dims)) if k != axis]
    no_value: tuple[Atom, ...] = ()
    with builder.block() as made, builder.at(new.origin):
        if primitive.like is not None:
            like = wrap(new.args[0])
            sizes = [atom(builder.size_of(dims[k], like, k)) for k in kept]
            primitive, before = primitive.like, no_value
        else:
            first = primitive.sizes_from
            before = new.args[:first]
            sizes = [new.args[first + k] for k in kept]
        dtype = {"dtype": new.out.type.dtype}
        builder.emit(Apply(new.outs, primitive, (*before, *sizes), dtype, new.origin))
    return made.statements


def without_axis(s: Apply, axis: int) -> None:
    """Drop one axis from the index of an access, in place."""
    items: Sequence[Slot | int] = s.params["index"]
    first = s.primitive.first_index
    kept = [item for k, item in enumerate(items) if k != axis]
    dynamic = [s.args[first + item.position] for item in kept if isinstance(item, Slot)]
    slots = iter(range(len(dynamic)))
    index = tuple(Slot(next(slots)) if isinstance(item, Slot) else item for item in kept)
    s.args = (*s.args[:first], *dynamic)
    s.params = {**s.params, "index": index}
