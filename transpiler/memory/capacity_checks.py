"""Unify the capacity checks of arrays that grow in the same iterations, to the same size.

Before, in a loop::

    if iterations == x_saved.shape[0]:
        x_saved = np.concatenate((x_saved, np.empty_like(x_saved)))
    x_saved[iterations] = x
    if iterations == y_saved.shape[0]:
        y_saved = np.concatenate((y_saved, np.empty_like(y_saved)))
    y_saved[iterations] = y

After::

    if iterations == x_saved.shape[0]:
        x_saved = np.concatenate((x_saved, np.empty_like(x_saved)))
        y_saved = np.concatenate((y_saved, np.empty_like(y_saved)))
    x_saved[iterations] = x
    y_saved[iterations] = y
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.phases import label
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.logic import equal
from calque.transpiler.primitives.shapes import size_of_axis

_Size = tuple[Any, ...]


def unify_capacity_checks(function: Function, builder: Builder) -> None:
    """Replace the checks of arrays that grow together by one check, in place."""
    blocks = [function.body, *(b for s in core.walk(function.body) for b in core.blocks_of(s))]
    grown = [s for b in blocks for s in b.statements if _makes_room(s)]
    if len(grown) < 2:
        return
    sizes = _FirstAxes(function, builder)
    for block in blocks:
        alike: dict[Any, list[Apply]] = defaultdict(list)
        for s in filter(_makes_room, block.statements):
            assert isinstance(s, Apply)
            alike[s.args[1], sizes.of(s.args[0])].append(s)
        for rooms in alike.values():
            _join(block, [s for s in rooms if _may_be_early(block, s, rooms[0])], builder)


def _makes_room(s: Statement) -> bool:
    """True if a statement lets an array grow along its first axis if it is full."""
    return isinstance(s, Apply) and s.primitive is room and not any(s.params.values())


def _may_be_early(block: Block, s: Apply, first: Apply) -> bool:
    """True if the array of ``s`` exists at the ``first`` check and is unused until its own."""
    start, end = block.statements.index(first), block.statements.index(s)
    between = Block(block.statements[start:end])
    array = s.args[0]
    return s is first or array not in (core.free_vars(between).keys() | core.defined_vars(between))


def _join(block: Block, rooms: list[Apply], builder: Builder) -> None:
    """Let all arrays grow in one branch, at the position of the first check."""
    if len(rooms) < 2:
        return
    first = rooms[0]
    at = block.statements.index(first)
    with builder.active(), builder.block() as asking, builder.at(first.origin):
        size = apply(size_of_axis, Array(first.args[0]), axis=0)
        full = apply(equal, Array(first.args[1]), size)
    made = []
    for s in rooms:
        out = s.out.again()
        made.append(Apply((out,), room, s.args, {**s.params, "full": True}, s.origin))
    outs = tuple(s.out for s in rooms)
    then = Block([*made], [s.out for s in made])
    growth = If(outs, full.atom, then, Block([], [s.args[0] for s in rooms]), first.origin)
    new: list[Statement] = [*asking.statements, growth]
    label(new, first.phase)
    builder.definitions.update(dict.fromkeys(outs, growth))
    builder.definitions.update({s.out: s for s in made})
    block.statements[at:at] = new
    block.statements[:] = [s for s in block.statements if not any(s is each for each in rooms)]


class _FirstAxes:
    """Lengths of arrays as terms: arrays with equal terms have equal lengths in every iteration."""

    def __init__(self, function: Function, builder: Builder) -> None:
        self.dims = builder.dims
        self.made: dict[Var, Statement] = {}
        self.loops: dict[Var, tuple[For | While, int]] = {}
        for s in core.walk(function.body):
            self.made.update(dict.fromkeys(s.outs, s))
            if isinstance(s, (For, While)):
                self.loops.update({phi: (s, k) for k, phi in enumerate(s.phis)})
        self.found: dict[Var, _Size] = {}
        self.within = 0

    def of(self, array: Atom) -> _Size:
        """The term of an array's first axis."""
        if not isinstance(array, Var):
            return ("unknown", id(array))
        if array not in self.found:
            self.found[array] = ("unknown", id(array))  # while its term is computed
            self.found[array] = self._term(array)
        return self.found[array]

    def _term(self, array: Var) -> _Size:
        made = self.made.get(array)
        while isinstance(made, Apply) and is_store(made) and made.primitive not in (room, widened):
            array = made.args[0]
            made = self.made.get(array)
        if array in self.loops:
            return self._carried(*self.loops[array])
        match made:
            case Apply(args=args) if _makes_room(made):
                return ("room", args[1], self.of(args[0]))
            case If(outs=outs, then=then, orelse=orelse):
                k = outs.index(array)
                return ("branch", id(made), self.of(then.results[k]), self.of(orelse.results[k]))
            case For(outs=outs) | While(outs=outs):
                return ("after", *self._carried(made, outs.index(array)))
            case Apply() if not is_store(made):
                return ("size", str(self.dims.resolve(array.type.dims[0])))
        return ("unknown", id(array))

    def _carried(self, loop: For | While, k: int) -> _Size:
        """The term of a carried array: its initial length, and the length after an iteration."""
        first = self.of(loop.inits[k])
        kept = dict(self.found)
        self.within += 1
        self.found[loop.phis[k]] = ("carried", self.within)
        then = self.of(loop.body.results[k])
        self.within -= 1
        self.found = kept
        return ("carried", id(loop), first, then)
