"""Shrink arrays made inside a loop to the row that an iteration of a surrounding loop needs.

Before, in an iteration of ``i`` that surrounds the loop over ``k``::

    below = np.empty((n, m))
    for j in range(m):
        below[i, j] = 0.25 * wind[i, j, k]

After: ``below`` has the size ``m``, and ``below[j]`` is stored. Views of rows shrink, too, and so
do arrays chosen by branches. An array with one axis becomes a scalar.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, Slot, Statement, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.loops.schedule.private_arrays import (
    NEW,
    ArrayFamilies,
    PrivateArray,
    row_of,
)
from calque.transpiler.primitives.creation import empty, zeros
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import copy, getitem, update, update_add

_BLANK = (empty, zeros)
_PYTHON = (np.float64, np.int64, np.bool_)  # Python's numbers are these


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
        numbers = self._numbers()
        lines = (s for s in core.walk(self.body) if not numbers.isdisjoint(s.outs))
        other = next((s for s in lines if not self._is_number(s)), None)
        return Refused("{0} has no form for scalars", (other.origin,)) if other else None

    def _numbers(self) -> set[Var]:
        """The arrays with one axis, which become scalars."""
        return {v for v in self.families if v.type.ndim == 1}

    def write(self) -> None:
        """Make rows, of rows, instead of the arrays."""
        numbers = self._numbers()
        self._make()
        for private, axis in {id(p): (p, axis) for p, axis in self.families.values()}.values():
            private.drop_axis(axis)
        if numbers:
            self._write_numbers(self.body, numbers)

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
        for block in core.every_block(body):
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
