"""Array contraction: shrink an array of which each iteration of a loop uses one row to that row.

Before::

    power = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            power[i, j] = exp(x[i, j])
            total = total + power[i, j]
        for j in range(m):
            out[i, j] = power[i, j] / total

After: each iteration makes ``power`` with the size ``m``. It stays in the cache, and no memory as
large as ``x`` is allocated. See Sarkar and Gao, Optimization of Array Accesses by Collective Loop
Transformations, ICS 1991.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, Effect, For, Function, Statement, Var, While
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.uses import direct_readers, is_read
from calque.transpiler.loops.schedule.private_arrays import NEW, ArrayFamilies, row_of

_LEAST = 16  # the fewest elements of a row that iterations of a parallel loop allocate


def contract(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Shrink arrays to the row that an iteration of their loop needs, in place."""

    def visit(block: Block, compiled: bool) -> None:
        made = [s for s in block.statements if isinstance(s, Apply) and s.primitive in NEW]
        users = direct_readers(block) if made else {}
        shrunk: set[For] = set()
        reasons: list[tuple[For, Refused]] = []
        for new in made:
            loop = _only_loop(new.out, block, users)
            if isinstance(loop, Refused):
                carrying = (s for s in users.get(new.out, []) if isinstance(s, For))
                reasons += [(s, loop) for s in carrying]
            elif compiled or compiles(loop):
                refused = _shrink(new, loop, block, builder)
                if refused is not None:
                    reasons.append((loop, refused))
                    continue
                applied(builder, "contract", loop)
                shrunk.add(loop)
                users = direct_readers(block)
        for loop, refused in reasons:
            if loop not in shrunk:
                missed(builder, "contract", loop, refused)
        for s in block.statements:
            inner = compiled or (isinstance(s, (For, While)) and compiles(s))
            for body in core.blocks_of(s):
                visit(body, inner)

    with builder.active():
        visit(function.body, False)


def _only_loop(array: Var, block: Block, users: dict[Var, list[Statement]]) -> For | Refused:
    """The loop that carries ``array`` if nothing else reads it or the loop's result."""
    name, touching = _name(array), users.get(array, [])
    loop = touching[0] if len(touching) == 1 else None
    if array in block.results:
        return Refused(f"{name} is a result, too")
    if not isinstance(loop, For):
        other = next((s.origin for s in touching if not isinstance(s, For)), None)
        if other is None:
            return Refused(f"several loops use {name}")
        return Refused(f"{{0}} uses {name}, too", (other,))
    if loop.inits.count(array) != 1 or array in core.free_vars(loop.body):
        return Refused(f"it uses {name} as it was before")
    after = loop.outs[loop.inits.index(array)]
    if after in users or after in block.results:
        if after in block.results:
            return Refused(f"{name} is a result, too")
        return Refused(f"{{0}} reads {name} after it", (users[after][0].origin,))
    return loop


def _name(array: Var) -> str:
    return array.name or "an array"


def _shrink(new: Apply, loop: For, block: Block, builder: Builder) -> Refused | None:
    """Remove from an array the axis that the loop's counter indexes; the reason if it stays."""
    place, name = loop.inits.index(new.out), _name(new.out)
    if new.out.type.ndim < 2:
        return Refused(f"{name} has one axis")
    effect = next((s for s in core.walk(loop.body) if isinstance(s, Effect)), None)
    if effect is not None:
        return Refused("{0} has an effect besides its results", (effect.origin,))
    phi = loop.phis[place]
    private = ArrayFamilies(loop.body).private(phi, [phi])
    if isinstance(private, Refused):
        return private
    if [r for r in loop.body.results if r in private.versions] != [loop.body.results[place]]:
        return Refused(f"an iteration hands several versions of {name} on")
    unproven = next((s for s in private.accesses if not s.proven), None)
    if unproven is not None:
        said = "{0} has an index that is not proven to be in bounds"
        return Refused(said, (unproven.origin,))
    axis = private.axis_of(loop.index, builder)
    if axis is None:
        return Refused(f"no axis of {name} is indexed by its counter in all accesses")
    rest = new.out.type.dims[:axis] + new.out.type.dims[axis + 1 :]
    known = [size for size in rest if isinstance(size, int)]
    if loop.parallel and len(known) == len(rest) and math.prod(known) < _LEAST:
        return Refused(f"a row of {name} has fewer than {_LEAST} elements")
    made = row_of(new, axis, builder)
    private.versions.add(new.out)
    private.drop_axis(axis)
    _leave_out(loop, place)
    block.statements.remove(new)
    core.substitute(loop.body, {phi: new.out})
    first = next(k for k, s in enumerate(loop.body.statements) if is_read(s, new.out))
    loop.body.statements[first:first] = made
    return None


def _leave_out(loop: For, place: int) -> None:
    """Remove the value carried at position ``place`` from a loop."""
    loop.outs = loop.outs[:place] + loop.outs[place + 1 :]
    loop.phis = loop.phis[:place] + loop.phis[place + 1 :]
    loop.inits = loop.inits[:place] + loop.inits[place + 1 :]
    del loop.body.results[place]
