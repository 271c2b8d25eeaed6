"""Array expansion: iterations of a parallel loop use parts of one array made before the loop.

Before, where each thread would have to allocate an array::

    for lane in range(n):
        x_saved = np.empty(16)
        while ..:
            x_saved[iterations] = x        # grows where it is full
        ..

After::

    x_saved = np.empty((capacity, n))
    for lane in range(n):
        while ..:
            x_saved[iterations, lane] = x
        ..

A growing array gets the capacity that the largest iteration needs, which a loop before counts. The
iteration is the last index, so that adjacent threads access adjacent elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Slot, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned_loop, emit_fold
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.loops.schedule.private_arrays import ArrayFamilies, PrivateArray
from calque.transpiler.loops.virtual_arrays import load
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty, full, ones, space, zeros
from calque.transpiler.primitives.elementwise import add, to_int
from calque.transpiler.primitives.extrema import maximum
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import getitem, update

MADE = (empty, full, ones, space, zeros)
_COUNT = ArrayType(np.dtype("i8"))


def expand_arrays(function: Function, builder: Builder) -> None:
    """Move the allocation of arrays out of parallel loops, in place, where that is possible."""
    with builder.active():
        _within(function.body, builder)


def _within(block: Block, builder: Builder) -> None:
    made: list[Statement] = []
    for s in block.statements:
        if isinstance(s, For) and s.parallel:
            with builder.block() as before, builder.at(s.origin):
                _expand(s, builder)
            label(before.statements, s.phase)
            made += before.statements
        else:
            for inner in core.blocks_of(s):
                _within(inner, builder)
        made.append(s)
    block.statements[:] = made


def _expand(loop: For, builder: Builder) -> None:
    """Allocate the arrays of a loop before it; change nothing if one of them cannot be moved."""
    applies = [s for s in core.walk(loop.body) if isinstance(s, Apply)]
    found = [s for s in applies if s.primitive in MADE and s.out.type.ndim]
    rooms = [s for s in applies if s.primitive is room]
    private = _private(found, rooms, loop)
    if isinstance(private, Refused):
        missed(builder, "expand_arrays", loop, private)
        return
    grown = [made for made, p in private.items() if any(s.args[0] in p.versions for s in rooms)]
    sizes = {made: _capacity(loop, private[made], made, builder) for made in grown}
    if any(size is None for size in sizes.values()):
        said = Refused("the elements of an array decide how far it grows")
        missed(builder, "expand_arrays", loop, said)
        return
    for made, p in private.items():
        applied(builder, "expand_arrays", loop)
        _move_out(loop, made, p, sizes.get(made))


def _private(
    found: list[Apply], rooms: list[Apply], loop: For
) -> dict[Apply, PrivateArray] | Refused:
    """The arrays that iterations make, or the reason if one cannot be made before the loop."""
    private = {}
    families, inside = ArrayFamilies(loop.body), core.defined_vars(Block([loop]))
    for made in found:
        here = (made.origin,)
        if loop.start != 0 or loop.step != 1:
            return Refused("it does not count by one from zero")
        if made not in loop.body.statements:
            return Refused("{0} makes an array within a loop or a branch", here)
        if not inside.isdisjoint(a for a in made.args if isinstance(a, Var)):
            return Refused("{0} makes an array whose size is computed in the loop", here)
        array = families.private(made.out, [made.out], rooms)
        if isinstance(array, Refused):
            return array
        if not array.versions.isdisjoint(a for a in loop.body.results if isinstance(a, Var)):
            return Refused("{0} makes an array that the next iteration gets", here)
        for s in rooms:
            if s.args[0] in array.versions and (s.params.get("axis") or s.params.get("several")):
                return Refused("{0} adds several elements, or along another axis", (s.origin,))
        private[made] = array
    return private


def _move_out(loop: For, made: Apply, private: PrivateArray, capacity: Any) -> None:
    """Allocate an array before the loop, with the iteration as its last index."""
    sizes = [wrap(a) for a in (made.args if made.primitive is not full else made.args[1:])]
    if capacity is not None:
        sizes[0] = capacity
    value = [made.args[0]] if made.primitive is full else []
    primitive = empty if made.primitive is space else made.primitive
    whole = apply(primitive, *value, *sizes, wrap(loop.stop), dtype=made.out.type.dtype)
    whole.atom.name = made.out.name
    phi, out = (Var(whole.type, made.out.name, loop.origin) for _ in range(2))
    last = phi
    replaced: dict[Var, Any] = {made.out: phi}
    _without(loop.body, made, private.versions, replaced)
    private.append_axis(loop.index, whole.atom)
    core.substitute(loop.body, replaced)
    for s in loop.body.statements:
        last = next((o for o in s.outs if o in private.versions), last)
    loop.phis, loop.inits = (*loop.phis, phi), (*loop.inits, whole.atom)
    loop.outs = (*loop.outs, out)
    loop.body.results.append(last)


def _without(body: Block, made: Apply, versions: set[Var], replaced: dict[Var, Any]) -> None:
    """Remove an array's allocation, and the statements that make room: the capacity suffices."""
    for block in core.every_block(body):
        kept: list[Statement] = []
        for s in block.statements:
            if isinstance(s, Apply) and s.primitive is room and s.args[0] in versions:
                replaced[s.out] = replaced.get(s.args[0], s.args[0])
            elif s is not made:
                kept.append(s)
        block.statements[:] = kept


# the largest capacity that an iteration needs


def _capacity(loop: For, private: PrivateArray, new: Apply, builder: Builder) -> Any:
    """The largest capacity of an iteration, counted by a loop before; None if no loop can."""
    mapping: dict[Var, Any] = {}
    counting = cloned_loop(builder, loop, mapping)
    versions = {mapping[v] for v in private.versions}
    made = mapping[new.out]
    counts = apply(empty, wrap(loop.stop), dtype=_COUNT.dtype)
    counts.atom.name = f"counts_of_{new.out.name or 'each'}"
    phi, out = (Var(counts.type, counts.atom.name, loop.origin) for _ in range(2))
    needed = _count(counting.body, versions, made)
    store = Apply(
        *((Var(counts.type, counts.atom.name, loop.origin),), update),
        *((phi, needed, counting.index), {"index": (Slot(0),)}),
        origin=loop.origin,
        proven=True,
    )
    counting.body.statements.append(store)
    counting.phis, counting.inits, counting.outs = (phi,), (counts.atom,), (out,)
    counting.body.results = [store.out]
    part = Function("count", [], Block([counting], [out]), None)
    remove_dead_code(part)
    statements = list(core.walk(part.body))
    if any(
        versions.intersection(a for a in core.operands(s) if isinstance(a, Var))
        for s in (t for t in statements if isinstance(t, Apply) and t.primitive is getitem)
    ):
        return None
    builder.emit(counting)
    return apply(to_int, _largest(out, loop, builder))


def _count(body: Block, versions: set[Var], made: Var) -> Any:
    """Replace the versions of an array by the capacity needed so far; return the last one."""
    replaced: dict[Var, Any] = {made: np.int64(0)}
    _counted(body, versions, replaced)
    for version in versions:
        version.type = _COUNT
    core.substitute(body, replaced)
    last: Any = np.int64(0)
    for s in body.statements:
        last = next((o for o in s.outs if o in versions), last)
    return last


def _counted(body: Block, versions: set[Var], replaced: dict[Var, Any]) -> None:
    """Replace each growth of an array by a maximum, and drop its other versions."""
    for block in core.every_block(body):
        kept: list[Statement] = []
        for s in block.statements:
            if not isinstance(s, Apply) or s.out not in versions:
                kept.append(s)
            elif s.primitive is room:
                one = Apply((Var(_COUNT, None, s.origin),), add, (s.args[1], np.int64(1)), {})
                kept += [one, Apply(s.outs, maximum, (s.args[0], one.out), {}, s.origin)]
            elif is_plain_store(s):
                replaced[s.out] = s.args[0]
        block.statements[:] = kept


def _largest(counts: Var, loop: For, builder: Builder) -> Any:
    """The largest of an array of counts, 0 if the array is empty."""
    phi = Var(_COUNT, "largest_count", loop.origin)
    index = loop_index(0, builder.dim_of(wrap(loop.stop)) - 1, "i")

    def larger(most: Var) -> list[Any]:
        return [apply(maximum, Array(most), load(Array(counts), [index]))]

    made = emit_fold(
        *(builder, index.atom, (0, loop.stop, 1), [np.int64(0)], larger),
        phis=[phi],
        origin=loop.origin,
        scheduled=True,
        parallel=True,
    )
    return Array(made.outs[0])
