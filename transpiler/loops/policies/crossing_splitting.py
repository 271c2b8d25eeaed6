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
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols
from calque.transpiler.loops.accesses import apart, is_element, positive
from calque.transpiler.loops.nest import build_general
from calque.transpiler.loops.schedule.parts import split_at
from calque.transpiler.primitives import elementwise

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
    block.statements[at : at + 1] = parts = split_at(s, where, builder)
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
    nest = build_general(loop, builder)
    if isinstance(nest, Refused):
        return nest
    several = next((a for a in nest.accesses if not is_element(a.statement, builder)), None)
    if several is not None:
        return Refused("{0} has an index that is not followed", (several.statement.origin,))
    for a, b in itertools.combinations(nest.accesses, 2):
        if a.array == b.array and (a.writes or b.writes) and not apart(a.place, b.place, builder):
            for where in _where_equal(a.place, b.place, own):
                found.setdefault(where, a.statement.origin)
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
