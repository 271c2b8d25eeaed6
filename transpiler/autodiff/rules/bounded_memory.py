"""Loops of which a reverse sweep saves no more states than a given memory holds.

Before::

    for i in range(n): x = step(x)

After::

    for i in range(n): x = iteration(x)

``iteration`` is a call that the reverse sweep runs once more, so that the sweep needs nothing of an
iteration but what the loop carries into it: its state. ``tape.snapshots`` saves as many states as
the memory holds, and runs the loop again from the last one before the one that is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from calque.transpiler.autodiff.activity import varied
from calque.transpiler.autodiff.reverse import reverse
from calque.transpiler.autodiff.rules.checkpoint import CheckpointCall
from calque.transpiler.autodiff.tape.snapshots import state_of
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Block, For, Function, If, Var, While
from calque.transpiler.ir.rewrite import cloned_loop, copy_facts
from calque.transpiler.ir.types import ArrayType, dim_symbols
from calque.transpiler.primitives.called import Part
from calque.transpiler.primitives.creation import space
from calque.transpiler.primitives.indexing import update

_FEW = 16  # a state of so many numbers for each number saved in an iteration is no larger than it


class Iteration(CheckpointCall):
    """One iteration of a loop whose states are saved within ``memory`` bytes."""

    memory = 0

    def again(self, parts: dict[str, Part]) -> Iteration:
        """The same call with other blocks."""
        made = type(self)(self.name, self.count, parts)
        made.memory = self.memory
        return made


def bound_loops(builder: Builder, block: Block, memory: int) -> bool:
    """Let the outermost loops of a block save their states within ``memory`` bytes, in place.

    The loops that save states share the memory evenly; a loop of which an iteration saves less than
    a state is left as it is. A loop leaves half of its share to loops that it holds. True if there
    is a loop that saves states.
    """
    loops = [s for s in outermost_loops(block) if _saves_states(builder, s)]
    for loop in loops:
        share = memory // len(loops)
        if bound_loops(builder, loop.body, share // 2):
            share -= share // 2
        _call_iteration(builder, loop, share)
    return bool(loops)


def outermost_loops(block: Block) -> Iterator[For | While]:
    """The loops of a block that no other loop holds."""
    for s in block.statements:
        match s:
            case For() | While():
                yield s
            case If():
                yield from outermost_loops(s.then)
                yield from outermost_loops(s.orelse)


def _call_iteration(builder: Builder, loop: For | While, memory: int) -> None:
    """Let a loop's body be one call, in place."""
    body = loop.body
    values = [a for a in body.results if isinstance(a, Var)]
    record = Iteration("the iteration", 0, {"value": Part(Block(body.statements, list(values)))})
    record.memory = memory
    outs = {}
    for value in values:
        outs[value] = out = value.again()
        copy_facts(builder, value, out)
    call = Apply(tuple(outs[v] for v in values), record, record.free, {}, loop.origin)
    builder.note(call)
    results = [outs[a] if isinstance(a, Var) else a for a in body.results]
    loop.body = Block([call], results)


def _saves_states(builder: Builder, loop: For | While) -> bool:
    """True if a reverse sweep would save as much of each iteration as the loop carries.

    A sweep is tried on a copy, by all floats that the loop reads.
    """
    if not _keeps_sizes(builder, loop):
        return False
    copy = cloned_loop(builder, loop)
    params = [*core.free_vars(Block([copy]))]
    program = Function("trial", params, Block([copy], list(copy.outs)), None)
    wanted = [k for k, p in enumerate(params) if p.type.is_float]
    active = varied(program.body, [params[k] for k in wanted])
    seeds = {k: Array(Var(o.type)) for k, o in enumerate(copy.outs) if o in active}
    symmetries = builder.symmetries
    try:
        with builder.block():
            reverse(program, builder, wanted, seeds)
    except CalqueError:
        return False  # the sweep that is to come says so, if it comes through here
    finally:
        builder.symmetries = symmetries
    made = [s for s in program.body.statements if isinstance(s, Apply)]
    saved = [s.out for s in made if s.primitive is space]
    types = [v.type for v in saved]
    needed = _needed(loop, copy, saved)
    return bool(saved) and all(_fits(builder, loop.phis[k].type, types) for k in needed)


def _needed(loop: For | While, copy: For | While, saved: Sequence[Var]) -> set[int]:
    """The positions of what a loop carries that the values saved of an iteration depend on.

    ``copy`` is the loop with what saves them; ``saved`` are the arrays that it fills.
    """
    place = {phi: k for k, phi in enumerate(copy.phis[: len(loop.phis)])}
    arrays = {phi for phi, init in zip(copy.phis, copy.inits, strict=True) if init in saved}
    stores = [s for s in copy.body.statements if isinstance(s, Apply) and s.primitive is update]
    values = [s.args[1] for s in stores if s.args[0] in arrays]
    if len(values) < len(saved):  # some are saved by loops within
        return set(place.values())
    body = Block(copy.body.statements, [*copy.body.results, *values])
    ends = set(range(len(copy.body.results), len(body.results)))
    return {k for k in state_of(body, place, ends) if k < len(loop.phis)}


def _keeps_sizes(builder: Builder, loop: For | While) -> bool:
    """True if a loop carries arrays of the same sizes on, so that all states are of one size."""
    for phi, after in zip(loop.phis, loop.body.results, strict=True):
        if phi.type.ndim and isinstance(after, Var):
            if not all(map(builder.dims.same, phi.type.dims, after.type.dims)):
                return False
    return True


def _fits(builder: Builder, state: ArrayType, saved: Sequence[ArrayType]) -> bool:
    """True if a carried value is no larger than what one of the arrays saves in an iteration."""
    symbols, number = _extent(builder, state.dims)
    for t in saved:
        own, size = _extent(builder, t.dims[1:])
        if symbols <= own and number <= _FEW * size:
            return True
    return False


def _extent(builder: Builder, dims: Sequence[Any]) -> tuple[Counter[str], int]:
    """The symbols of dimensions, one of each, and the product of the numbers among them."""
    symbols, number = Counter[str](), 1
    for dim in map(builder.dims.resolve, dims):
        if isinstance(dim, int):
            number *= max(dim, 1)
        else:
            symbols[min(dim_symbols(dim))] += 1
    return symbols, number
