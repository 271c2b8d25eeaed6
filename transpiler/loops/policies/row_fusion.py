"""Fuse loops over the same rows, if an iteration uses only its own row of earlier results.

Before::

    for i in range(n):
        top[i] = max of x[i, :]
    for i in range(n):
        y[i, :] = exp(x[i, :] - top[i])

After, on a GPU, where each loop is a launch that reads the row from memory again::

    for i in range(n):
        largest = max of x[i, :]
        y[i, :] = exp(x[i, :] - largest)

A result that only its own row reads needs no array: ``row_values`` computes its elements again.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import has_effects
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.loops.loop_reductions import along_memory
from calque.transpiler.loops.row_values import compute_rows_again
from calque.transpiler.loops.schedule.body_fusion import crossing_iterations, join


def fuse_rows(function: Function, builder: Builder) -> None:
    """Fuse the loops over rows of a function, in place."""
    _drop_stops(function)
    remove_dead_code(function)
    for block in _blocks(function.body):
        while _fuse_two(block, builder):
            pass
        for s in block.statements:
            if isinstance(s, For) and s.parallel and _sums(s):
                compute_rows_again(s, function.body, builder)
    remove_dead_code(function)


def _drop_stops(function: Function) -> None:
    """Replace ``stop_gradient(x)`` by ``x``, since all derivatives are taken by now."""
    replaced: dict[Var, Any] = {}
    for s in core.walk(function.body):
        if isinstance(s, Apply) and _is_identity(s):
            replaced[s.out] = replaced.get(s.args[0], s.args[0])
    if replaced:
        core.substitute(function.body, replaced)


def _is_identity(s: Apply) -> bool:
    """True if a statement returns its argument unchanged, and only stops its gradient."""
    p = s.primitive
    plain = p.arithmetic == "same" and p.nondifferentiable and p.view_back is not None
    return plain and isinstance(s.args[0], Var) and s.args[0].type == s.out.type


def _blocks(block: Block) -> list[Block]:
    """A block and those within it, but none in parallel loops."""
    found = [block]
    for s in block.statements:
        if not (isinstance(s, For) and s.parallel):
            for inner in core.blocks_of(s):
                found += _blocks(inner)
    return found


def _fuse_two(block: Block, builder: Builder) -> bool:
    """Fuse one pair of loops; return False if there is none."""
    for k, first in enumerate(block.statements):
        if not isinstance(first, For) or not first.parallel:
            continue
        given = set(first.outs)
        for j in range(k + 1, len(block.statements)):
            second = block.statements[j]
            between = block.statements[k + 1 : j]
            if isinstance(second, For):
                reason = _refusal(first, second, between, builder)
                if reason is None:
                    applied(builder, "fuse_rows", first)
                    join(first, second, builder)
                    block.statements[k : j + 1] = [*between, first]
                    return True
                missed(builder, "fuse_rows", first, reason)
                if _is_unrelated(second, first):
                    continue
            if not isinstance(second, Apply) or has_effects(second):
                break
            shaped = second.primitive.kind == "size" or second.primitive.like is not None
            if shaped and second.args[0] in given:
                before = first.inits[first.outs.index(second.args[0])]
                second.args = (before, *second.args[1:])  # of the same shape
            if given.intersection(a for a in second.args if isinstance(a, Var)):
                break  # it must stay after the first loop, and so must its readers
    return False


def _is_unrelated(loop: For, first: For) -> bool:
    """True if ``first`` may run after a loop that it precedes: neither needs the other's arrays."""
    needed = {*core.free_vars(Block([loop]))}
    kept = {i for i in loop.inits if isinstance(i, Var) and i.type.ndim}
    pure = not any(has_effects(s) for s in core.walk(loop.body))
    read = core.free_vars(Block([first]))
    return pure and needed.isdisjoint(first.outs) and kept.isdisjoint(read)


def _refusal(
    first: For, second: For, between: list[Statement], builder: Builder
) -> Refused | None:
    """The reason why two loops stay apart; None if they fuse with their rows' sums along memory."""
    loops = first, second
    there = (second.origin,)
    ends = [(s.start, builder.dim_of(wrap(s.stop)), s.step) for s in loops]
    if not second.parallel:
        return Refused("the iterations of {0} depend on each other", there)
    if ends[0] != ends[1] or first.step != 1:
        return Refused("{0} goes over other rows", there)
    sums = [_sums(first), _sums(second)]
    if not any(sums):
        return Refused("neither it nor {0} sums a row", there)
    if any(own and not along_memory(own, s) for own, s in zip(sums, loops, strict=True)):
        # threads along the rows of memory share a column's sum (sums_in_parts)
        return Refused("it or {0} sums columns, which threads share", there)
    return crossing_iterations(first, second, between)


def _sums(loop: For) -> list[For]:
    """The inner loops that reduce to scalars: a row's threads then share all of its work."""
    inner = [s for s in loop.body.statements if isinstance(s, For)]
    return [s for s in inner if any(not p.type.ndim for p in s.phis)]
