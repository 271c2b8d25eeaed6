"""Split an innermost loop at the only iteration where two of its accesses touch one element.

The Floyd-Warshall algorithm reads ``path[i, k]`` in every iteration of the loop that stores
``path[i, j]``; both are one element where ``j`` is ``k``::

    for j in range(n):
        path[i, j] = min(path[i, j], path[i, k] + path[k, j])

Before and after that iteration the element is loop-invariant, and the iterations are independent
(index-set splitting: Banerjee, Loop Transformations for Restructuring Compilers, 1993)::

    for j in range(k):
        path[i, j] = min(path[i, j], path[i, k] + path[k, j])
    path[i, k] = min(path[i, k], path[i, k] + path[k, k])
    for j in range(k + 1, n):
        path[i, j] = min(path[i, j], path[i, k] + path[k, j])
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols
from calque.transpiler.loops.accesses import apart, element_index, is_element, positive
from calque.transpiler.primitives import elementwise
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add

_MOST = 40  # the most statements of a body, which is written three times


def split_at_crossing(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Split such loops in kernels, in place."""

    def visit(block: Block, counters: tuple[Var, ...], compiled: bool) -> None:
        for s in list(block.statements):
            inner = compiled or (isinstance(s, (For, While)) and compiles(s))
            outer = (*counters, s.index) if isinstance(s, For) else counters
            for body in core.blocks_of(s):
                visit(body, outer, inner)
            if inner and isinstance(s, For):
                _split(s, block, counters, builder)

    with builder.active():
        visit(function.body, (), False)


def _split(s: For, block: Block, counters: Sequence[Var], builder: Builder) -> None:
    found = _crossing(s, counters, builder)
    if isinstance(found, Refused):
        missed(builder, "split_at_crossing", s, found)
        return
    applied(builder, "split_at_crossing", s)
    s.body, where = found
    at = block.statements.index(s)
    block.statements[at : at + 1] = parts = _parts(s, where, builder)
    label_rest(parts, s.phase)


def _without_branches(body: Block) -> Block | Refused:
    """The body with branches that only choose numbers as ``where``, or the reason against it."""
    made: list[Statement] = []
    for s in body.statements:
        if isinstance(s, Apply):
            made.append(s)
            continue
        if not isinstance(s, If) or s.then.statements or s.orelse.statements:
            return Refused("{0} is a loop, or a branch that holds statements", (s.origin,))
        if any(o.type.ndim for o in s.outs):
            return Refused("{0} chooses between whole arrays", (s.origin,))
        for out, then, orelse in zip(s.outs, s.then.results, s.orelse.results, strict=True):
            args = (s.test, then, orelse)
            made.append(Apply((out,), elementwise.where, args, {}, s.origin))
    if len(made) <= _MOST:
        return Block(made, list(body.results))
    return Refused(f"it has {len(made)} operations, and at most {_MOST} are written three times")


def _crossing(
    loop: For, counters: Sequence[Var], builder: Builder
) -> tuple[Block, Var] | Refused:
    """The body and the outer counter at whose value alone accesses touch one element, if any."""
    if loop.step not in (1, -1) or loop.index not in builder.dim_values:
        return Refused("it does not count by one")
    body = _without_branches(loop.body)
    if isinstance(body, Refused):
        return body
    resolve, values = builder.dims.resolve, builder.dim_values
    own = resolve(values[loop.index])
    found: dict[DimLike, Origin | None] = {}  # with one of the accesses that cross
    for accesses in _accesses(loop, body):
        several = next((s for s in accesses if not is_element(s, builder)), None)
        if several is not None:
            return Refused("{0} has an index that is not followed", (several.origin,))
        for a, b in itertools.combinations(accesses, 2):
            if not is_indexed_store(a) and not is_indexed_store(b):
                continue
            left, right = element_index(a, builder), element_index(b, builder)
            if not apart(left, right, builder):
                for where in _where_equal(left, right, own):
                    found.setdefault(where, a.origin)
    if not found:
        return Refused("no accesses in it cross in one iteration alone")
    if len(found) > 1:
        crossing = next(iter(found.values()))
        return Refused("{0} crosses other accesses in several iterations", (crossing,))
    ((where, origin),) = found.items()
    at = next((v for v in counters if v in values and resolve(values[v]) == where), None)
    if at is None:
        return Refused("{0} crosses another access where no outer counter is", (origin,))
    if not _within(loop, where, builder):
        return Refused(f"its range is not known to hold {at.name or 'the outer counter'}")
    return body, at


def _accesses(loop: For, body: Block) -> list[list[Apply]]:
    """The accesses of each array that the loop carries, through all its versions."""
    chains: dict[Atom, list[Apply]] = {phi: [] for phi in loop.phis if phi.type.ndim}
    for s in body.statements:
        assert isinstance(s, Apply)
        if s.args and s.args[0] in chains:
            chain = chains[s.args[0]]
            chain.append(s)
            if is_indexed_store(s):
                chains[s.outs[0]] = chain
    return list({id(chain): chain for chain in chains.values()}.values())


def _where_equal(
    left: Sequence[DimLike | None], right: Sequence[DimLike | None], own: DimLike
) -> list[DimLike]:
    """The values of the counter ``own`` at which two indices are equal along some axis."""
    found: list[DimLike] = []
    for a, b in zip(left, right, strict=True):
        for moving, still in ((a, b), (b, a)):
            if moving == own and isinstance(still, Dim):
                if dim_symbols(still).isdisjoint(dim_symbols(own)):
                    found.append(still)
    return found


def _within(loop: For, where: DimLike, builder: Builder) -> bool:
    """True if ``where`` is known to be in the range of a loop's counter."""
    start, stop = builder.dim_of(wrap(loop.start)), builder.dim_of(wrap(loop.stop))
    if loop.step == 1:
        return positive(where - start + 1, builder) and positive(stop - where, builder)
    return positive(start - where + 1, builder) and positive(where - stop, builder)


def _parts(loop: For, where: Var, builder: Builder) -> list[Statement]:
    """The loop before the crossing, the iteration at the crossing, and the loop after it."""
    step: int = loop.step
    start, stop = builder.dim_of(wrap(loop.start)), builder.dim_of(wrap(loop.stop))
    here = builder.dim_of(wrap(where))
    with builder.block() as bounds, builder.at(loop.origin):
        after = apply(add, Array(where), step)
    below, above = ((start, here - 1), (here + 1, stop - 1))
    if step == -1:
        below, above = ((here + 1, start), (stop + 1, here - 1))
    first = _part(loop, (loop.start, where), below, loop.inits, builder)
    mapping: dict[Var, Atom] = {loop.index: where, **dict(zip(loop.phis, first.outs, strict=True))}
    middle = _copy(loop, mapping, here, builder)
    last = _part(loop, (atom(after), loop.stop), above, middle.results, builder)
    last.outs = loop.outs
    builder.definitions.update(dict.fromkeys(loop.outs, last))
    return [first, *middle.statements, *bounds.statements, last]


def _part(
    loop: For,
    ends: tuple[Atom, Atom],
    reach: tuple[DimLike, DimLike],
    inits: Sequence[Atom],
    builder: Builder,
) -> For:
    """The loop over a part of its iterations; its counter is known to be within ``reach``."""
    counter = loop_index(*reach, loop.index.name)
    mapping: dict[Var, Atom] = {loop.index: counter.atom}
    here = builder.dim_of(counter)
    phis = renewed(builder, loop.phis, mapping, _counters(loop, here, builder))
    outs = tuple(out.again() for out in loop.outs)  # values after a part of the iterations
    body = _copy(loop, mapping, here, builder)
    parts = {"outs": outs, "phis": phis, "inits": tuple(inits), "body": body}
    made = derived(loop, index=counter.atom, start=ends[0], stop=ends[1], **parts)
    builder.note(made)
    return made


def _copy(loop: For, mapping: dict[Var, Atom], counter: DimLike, builder: Builder) -> Block:
    """A copy of a loop's body with another counter."""
    return cloned(builder, loop.body, mapping, _counters(loop, counter, builder))


def _counters(loop: For, counter: DimLike, builder: Builder) -> dict[str, DimLike]:
    (own,) = dim_symbols(builder.dims.resolve(builder.dim_values[loop.index]))
    return {own: counter}
