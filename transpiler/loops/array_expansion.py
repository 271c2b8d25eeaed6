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

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, If, Slot, Statement, Var, While
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_access, is_plain_store
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.rewrite import cloned_loop, emit_fold
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.loops.virtual_arrays import load
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty, full, ones, space, zeros
from calque.transpiler.primitives.elementwise import add, to_int
from calque.transpiler.primitives.extrema import maximum
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import getitem, update, update_add

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


@dataclass(eq=False)
class _Private:
    """An array that each iteration allocates: the allocation, its versions, whether it grows."""

    made: Apply
    versions: set[Var] = field(default_factory=set)
    grows: bool = False


def _expand(loop: For, builder: Builder) -> None:
    """Allocate the arrays of a loop before it; change nothing if one of them cannot be moved."""
    inside = core.defined_vars(Block([loop]))
    found = [s for s in core.walk(loop.body) if isinstance(s, Apply) and s.primitive in MADE]
    private = [_followed(s, loop) for s in found if s.out.type.ndim]
    if not private or loop.start != 0 or loop.step != 1:
        return
    if any(
        p is None or any(a in inside for p in private if p for a in p.made.args) for p in private
    ):
        return
    known = [p for p in private if p is not None]
    sizes = {id(p): _capacity(loop, p, builder) for p in known if p.grows}
    if any(size is None for size in sizes.values()):
        return
    for p in known:
        _move_out(loop, p, sizes.get(id(p)))


def _followed(made: Apply, loop: For) -> _Private | None:
    """The versions of an array; None if a statement uses more than elements of it."""
    if made not in loop.body.statements:
        return None
    found = _Private(made, {made.out})
    before = 0
    while before != len(found.versions):
        before = len(found.versions)
        for s in core.walk(loop.body):
            _spread(s, found)
    for s in core.walk(loop.body):
        if isinstance(s, Apply) and found.versions.intersection(
            a for a in s.args if isinstance(a, Var)
        ):
            if not _is_element(s, found):
                return None
    if found.versions.intersection(a for a in loop.body.results if isinstance(a, Var)):
        return None
    return found


def _spread(s: Statement, found: _Private) -> None:
    """Add the versions of the array that one statement defines."""
    match s:
        case Apply() if s.primitive in (room, update, update_add) and s.args[0] in found.versions:
            found.versions.add(s.outs[0])
            found.grows |= s.primitive is room
        case For() | While():
            for phi, init, out in zip(s.phis, s.inits, s.outs, strict=True):
                if init in found.versions:
                    found.versions |= {phi, out}
        case If():
            for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                if found.versions.intersection(arms):
                    found.versions.add(out)


def _is_element(s: Apply, found: _Private) -> bool:
    """True if ``s`` accesses one element of the array, or makes room for one."""
    if s.args[0] not in found.versions or any(a in found.versions for a in s.args[1:]):
        return False
    if s.primitive is room:
        return not s.params.get("axis") and not s.params.get("several")
    if not is_access(s):
        return False
    items = s.params["index"]
    plain = not any(isinstance(i, slice) or i is None or i is Ellipsis for i in items)
    dynamic = s.args[s.primitive.first_index :]
    numbers = not any(isinstance(a, Var) and a.type.ndim for a in dynamic)
    return plain and numbers and len(items) == found.made.out.type.ndim


def _move_out(loop: For, private: _Private, capacity: Any) -> None:
    """Allocate an array before the loop, with the iteration as its last index."""
    made = private.made
    sizes = [wrap(a) for a in (made.args if made.primitive is not full else made.args[1:])]
    if capacity is not None:
        sizes[0] = capacity
    value = [made.args[0]] if made.primitive is full else []
    primitive = empty if made.primitive is space else made.primitive
    whole = apply(primitive, *value, *sizes, wrap(loop.stop), dtype=made.out.type.dtype)
    whole.atom.name = made.out.name
    phi, out = (Var(whole.type, made.out.name, loop.origin) for _ in range(2))
    last = phi
    for s in core.walk(loop.body):
        if isinstance(s, Apply) and s.args and s.args[0] in private.versions:
            if s.primitive is not room:
                first = s.primitive.first_index
                s.params = {**s.params, "index": (*s.params["index"], Slot(len(s.args) - first))}
                s.args, s.proven = (*s.args, loop.index), True
    replaced: dict[Var, Any] = {made.out: phi}
    _without(loop.body, {id(made)}, private.versions, replaced)
    for version in private.versions:
        version.type = whole.type
    core.substitute(loop.body, replaced)
    for s in loop.body.statements:
        last = next((o for o in s.outs if o in private.versions), last)
    loop.phis, loop.inits = (*loop.phis, phi), (*loop.inits, whole.atom)
    loop.outs = (*loop.outs, out)
    loop.body.results.append(last)


def _without(block: Block, dropped: set[int], versions: set[Var], replaced: dict[Var, Any]) -> None:
    """Remove an array's allocation, and the statements that make room: the capacity suffices."""
    kept: list[Statement] = []
    for s in block.statements:
        if isinstance(s, Apply) and s.primitive is room and s.args[0] in versions:
            replaced[s.out] = replaced.get(s.args[0], s.args[0])
            continue
        if id(s) in dropped:
            continue
        kept.append(s)
        for inner in core.blocks_of(s):
            _without(inner, dropped, versions, replaced)
    block.statements[:] = kept


# the largest capacity that an iteration needs


def _capacity(loop: For, private: _Private, builder: Builder) -> Any:
    """The largest capacity of an iteration, counted by a loop before; None if no loop can."""
    mapping: dict[Var, Any] = {}
    counting = cloned_loop(builder, loop, mapping)
    versions = {mapping[v] for v in private.versions}
    made = mapping[private.made.out]
    counts = apply(empty, wrap(loop.stop), dtype=_COUNT.dtype)
    counts.atom.name = f"counts_of_{private.made.out.name or 'each'}"
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


def _counted(block: Block, versions: set[Var], replaced: dict[Var, Any]) -> None:
    kept: list[Statement] = []
    for s in block.statements:
        if isinstance(s, Apply) and s.out in versions:
            if s.primitive is room:
                one = Apply((Var(_COUNT, None, s.origin),), add, (s.args[1], np.int64(1)), {})
                most = Apply(s.outs, maximum, (s.args[0], one.out), {}, s.origin)
                kept += [one, most]
            elif is_plain_store(s):
                replaced[s.out] = s.args[0]
            continue
        kept.append(s)
        for inner in core.blocks_of(s):
            _counted(inner, versions, replaced)
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
