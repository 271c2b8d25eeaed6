"""Check indices that are not proven to be in bounds where they are used.

Before::

    y[i] = x[columns[i]]

After: ``y[i] = x[checked_index(columns[i], x.shape[0])]``, which raises IndexError and counts a
negative number from the end; all other accesses of the kernel do neither. The indices of an array
statement are checked before the loops over its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Slot, Statement, Var, While
from calque.transpiler.ir.effects import is_access, is_indexed_store
from calque.transpiler.ir.path_conditions import blocks_given, facts_after
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.loops.backward_slice import early, outside
from calque.transpiler.loops.bounds import in_range, is_inside_everywhere
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.indexing import checked_index
from calque.transpiler.primitives.shapes import size_of_axis
from calque.transpiler.primitives.sorting import argsort, take_along_axis

Known = dict[tuple[DimLike, DimLike], Var]  # (index, size) to the checked index


def check_indices(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Add the checks to the loops that ``compiles`` accepts as kernels, in place."""

    def visit(block: Block) -> None:
        for s in list(block.statements):
            if isinstance(s, (For, While)) and compiles(s):
                at = block.statements.index(s)
                block.statements[at:at] = checker.statement(s, [], {})
            else:
                for inner in core.blocks_of(s):
                    visit(inner)

    checker = _Checker(builder)
    with builder.active():
        visit(function.body)


def check_arrays(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Add the checks outside of kernels, where the array library checks no index, in place.

    Before: ``y = z[columns]``. After: ``y = z[checked_index(columns, z.shape[0])]``.
    """

    def visit(block: Block) -> None:
        made: list[Statement] = []
        known: dict[tuple[Var, DimLike], Atom] = {}
        for s in block.statements:
            if isinstance(s, Apply):
                with builder.block() as checks, builder.at(s.origin):
                    s.args = _checked_arrays(s, known, builder)
                    if is_access(s):  # then no kernel needs to check it
                        s.proven = s.proven or is_inside_everywhere(s, builder)
                label(checks.statements, s.phase)
                made += checks.statements
            elif not compiles(s):
                for inner in core.blocks_of(s):
                    visit(inner)
            made.append(s)
        block.statements[:] = made

    with builder.active():
        visit(function.body)


def _checked_arrays(
    s: Apply, known: dict[tuple[Var, DimLike], Atom], builder: Builder
) -> tuple[Atom, ...]:
    """The operands of a statement, with its indices checked in the open block, once each."""
    if s.proven:
        return s.args
    if s.primitive is take_along_axis:
        places = {1: s.params["axis"] % s.args[0].type.ndim}
    elif is_access(s) or is_indexed_store(s):
        places = dict(_axes_of_indices(s))
    else:
        return s.args
    args = list(s.args)
    for at, axis in places.items():
        index = args[at]
        if not isinstance(index, Var) or index.type.weak or index.type.dtype.kind not in "iu":
            continue
        made = builder.definitions.get(index)
        if isinstance(made, Apply) and made.primitive is argsort:
            continue
        dim = builder.dims.resolve(args[0].type.dims[axis])
        if (index, dim) not in known:
            size = dim if isinstance(dim, int) else apply(size_of_axis, wrap(args[0]), axis=axis)
            found = known[index, dim] = atom(apply(checked_index, wrap(index), wrap(size)))
            if isinstance(found, Var) and not found.type.ndim:
                _note_range(found, dim, builder)
        args[at] = known[index, dim]
    return tuple(args)


def _note_range(checked: Var, size: DimLike, builder: Builder) -> None:
    """Record the range of a checked index."""
    (name,) = dim_symbols(builder.dim_of(wrap(checked)))
    builder.dims.ranges[name] = (0, size - 1)


def _axes_of_indices(s: Apply) -> Iterator[tuple[int, int]]:
    """Yield the position and axis of each operand that is an index; a mask has several axes."""
    first, base = s.primitive.first_index, s.args[0]
    dynamic = s.args[first:]

    def width(item: Any) -> int:
        value = dynamic[item.position] if isinstance(item, Slot) else item
        is_mask = isinstance(value, Var) and value.type.dtype.kind == "b"
        return value.type.ndim if is_mask else item is not None

    template = s.params["index"]
    more = sum(width(i) - 1 for i in template if isinstance(i, Slot))
    axis = 0
    for item in full_template(template, dynamic, base.type.ndim - more):
        if isinstance(item, Slot):
            yield first + item.position, axis
        axis += width(item)


@dataclass(eq=False)
class _ElementLoop:
    """A loop over elements, and the statements to insert before it."""

    inside: set[Var]
    made: dict[Var, Statement]
    before: list[Statement] = field(default_factory=list)
    known: Known = field(default_factory=dict)  # indices checked before the loop


@dataclass(eq=False)
class _Checker:
    builder: Builder

    def statement(self, s: Statement, loops: list[_ElementLoop], known: Known) -> list[Statement]:
        """Add checks within a statement; return the statements to insert before it.

        ``loops`` are the enclosing loops over elements.
        """
        if isinstance(s, For) and s.scheduled:
            body = Block([s])
            made = {v: t for t in core.walk(body) for v in (*t.outs, *core.bound_vars(t))}
            loops = [*loops, _ElementLoop(core.defined_vars(body), made)]
            self._block(s.body, loops, known)
            return loops[-1].before
        for block, facts in blocks_given(s, self.builder):
            with self.builder.dims.given(facts):
                self._block(block, [], known)
        return []

    def _block(self, block: Block, loops: list[_ElementLoop], known: Known) -> None:
        known = dict(known)
        made: list[Statement] = []
        for s in block.statements:
            if is_access(s) and not s.proven:
                made += self._checks(s, loops, known)
            made += self.statement(s, loops, known)
            made.append(s)
            self.builder.dims.facts += facts_after(s, self.builder)
        block.statements[:] = made

    def _checks(self, s: Apply, loops: list[_ElementLoop], known: Known) -> list[Statement]:
        """Let one access use checked indices; return the statements that check them."""
        first = s.primitive.first_index
        base, dynamic = s.args[0], list(s.args[first:])
        if not isinstance(base, Var) or any(d.type.ndim for d in dynamic if isinstance(d, Var)):
            return []
        items = list(full_template(s.params["index"], [wrap(d) for d in dynamic], base.type.ndim))
        made: list[Statement] = []
        axes = [at for at, item in enumerate(items) if item is not None]
        for axis, at in enumerate(axes):
            item = items[at]
            index: Any = dynamic[item.position] if isinstance(item, Slot) else item
            dim = base.type.dims[axis]
            if isinstance(item, slice) or in_range(index, dim, self.builder, False):
                continue
            checked, here = self._checked(index, (base, axis), loops, known, s)
            made += here
            if isinstance(item, Slot):
                dynamic[item.position] = checked
            else:  # a literal
                items[at] = Slot(len(dynamic))
                dynamic.append(checked)
        s.params = {**s.params, "index": tuple(items)}
        s.args, s.proven = (*s.args[:first], *dynamic), True
        return made

    def _checked(
        self,
        index: Atom,
        size: tuple[Var, int],
        loops: list[_ElementLoop],
        known: Known,
        s: Apply,
    ) -> tuple[Var, list[Statement]]:
        """A checked index, and the statements to insert for it before the access."""
        dims = self.builder.dims
        place = self.builder.dim_of(wrap(index))
        key = place, dims.resolve(size[0].type.dims[size[1]])
        for checked in (known, *(loop.known for loop in loops)):
            if key in checked:
                return checked[key], []
        made, target = self._check(index, size, None, s), None
        for loop in loops[::-1]:
            moved = self._check(index, size, loop, s)
            if not moved:
                break
            made, target = moved, loop
        found = made[-1].outs[0]
        label(made, s.phase)
        if dims.nonnegative(place):
            self.builder.dim_values[found] = place
        else:
            _note_range(found, key[1], self.builder)
        if target is None:
            known[key] = found
            return found, made
        target.before += made
        target.known[key] = found
        return found, []

    def _check(
        self, index: Atom, size: tuple[Var, int], loop: _ElementLoop | None, s: Apply
    ) -> list[Statement]:
        """The statements that check an index before ``loop``, or in place; none if impossible."""
        base, axis = size
        with self.builder.block() as block, self.builder.at(s.origin):
            place = index
            array: Var | None = base
            if loop is not None:
                place = early(index, loop.inside, loop.made)
                array = outside(base, loop.inside, loop.made)
            if place is None or array is None:
                return []
            dim = self.builder.dims.resolve(base.type.dims[axis])
            number: Any = dim
            if not isinstance(dim, int):
                number = apply(size_of_axis, wrap(array), axis=axis)
            apply(checked_index, wrap(place), wrap(number))
        return block.statements
