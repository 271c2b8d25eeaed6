"""Sum exponentials in the pass that finds their maximum: the sum is rescaled as the maximum grows.

Before, on a grid, where each loop reads the row, or the column, from memory::

    for j in range(n):
        largest = max(largest, x[i, j])
    for j in range(n):
        total = total + exp(x[i, j] - largest)

After::

    for j in range(n):
        total = rescaled_sum(total, largest, x[i, j], 1.0)
        largest = max(largest, x[i, j])

``rescaled_sum`` multiplies the sum by exp(old maximum - new maximum). Threads combine such sums
by the same rule. Where the maximum is infinite or NaN, the sum is what the second loop gave: NaN,
or exp(largest) if an infinite maximum was replaced by 0 before it was subtracted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.loops.alike_values import are_alike, made_in
from calque.transpiler.loops.carried_dependences import made_by
from calque.transpiler.loops.loop_reductions import reductions
from calque.transpiler.primitives.elementwise import add, astype, subtract, where
from calque.transpiler.primitives.extrema import maximum, rescaled_sum

_DTYPES = (np.dtype("f4"), np.dtype("f8"))


def sum_online(function: Function, builder: Builder) -> None:
    """Merge loops that sum exponentials with those of their maxima, in place."""
    with builder.active():
        for s in core.walk(function.body):
            if isinstance(s, For) and s.parallel:
                _within(s.body, builder)
    remove_dead_code(function)


def _within(block: Block, builder: Builder) -> None:
    for second in [s for s in block.statements if isinstance(s, For)]:
        found = _sum_of_exponentials(second)
        if found is None:
            continue
        exponent, shift = found
        first, guarded = _loop_of_maximum(shift, block)
        if first is None:
            missed(builder, "sum_online", second, Refused("what it subtracts is no maximum"))
            continue
        reason = _refusal(first, second, exponent, builder)
        if reason is None:
            applied(builder, "sum_online", second)
            _merge(first, second, guarded, block, builder)
        else:
            missed(builder, "sum_online", second, reason)


def _sum_of_exponentials(loop: For) -> tuple[Var, Var] | None:
    """The exponents that a loop sums, and what it subtracts from them; None of other loops."""
    if len(loop.phis) != 1 or not loop.parallel or loop.phis[0].type.dtype != np.float64:
        return None
    added = made_by(loop.body, loop.body.results[0])
    if not isinstance(added, Apply) or added.primitive is not add or loop.inits[0] != 0.0:
        return None
    if [r.how for r in reductions(loop)] != ["sum"] or loop.phis[0] not in added.args:
        return None
    term = made_in(loop.body, next(a for a in added.args if a is not loop.phis[0]))
    if term is not None and term.primitive is astype:
        term = made_in(loop.body, term.args[0])
    if term is None or term.primitive.function is not np.exp:
        return None
    difference = made_in(loop.body, term.args[0])
    if difference is None or difference.primitive is not subtract:
        return None
    exponent, shift = difference.args
    same = difference.out.type.dtype in _DTYPES
    if not same or not isinstance(exponent, Var) or not isinstance(shift, Var):
        return None
    return exponent, shift


def _loop_of_maximum(shift: Var, block: Block) -> tuple[For | None, bool]:
    """The loop that finds a maximum, and True if it is replaced by 0 where it is not finite."""
    chosen, guarded = made_in(block, shift), False
    if chosen is not None and chosen.primitive is where and chosen.args[2] == 0.0:
        test = made_in(block, chosen.args[0])
        if test is not None and test.primitive.function is np.isfinite:
            guarded = test.args[0] is chosen.args[1]
            shift = chosen.args[1] if guarded else shift
    for s in block.statements:
        if isinstance(s, For) and shift in s.outs and len(s.phis) == 1 and s.parallel:
            return s, guarded
    return None, False


def _refusal(first: For, second: For, exponent: Var, builder: Builder) -> Refused | None:
    """The reason why the loops are not merged; None if the first finds the exponents' maximum."""
    there = (first.origin,)
    one, other = (
        (builder.dim_of(wrap(s.start)), builder.dim_of(wrap(s.stop)), s.step)
        for s in (first, second)
    )
    if one != other:
        return Refused("{0} goes over other elements", there)
    found = made_in(first.body, first.body.results[0])
    alone = [r.how for r in reductions(first)] == ["max"]
    if found is None or found.primitive is not maximum or not alone:
        return Refused("{0} does not only find a maximum", there)
    value = next((a for a in found.args if a is not first.phis[0]), None)
    if not isinstance(value, Var) or value.type.dtype != exponent.type.dtype:
        return Refused("{0} finds the maximum of other numbers", there)
    same = {second.index: first.index}
    if not are_alike(value, exponent, first.body, second.body, same):
        return Refused("{0} finds the maximum of other numbers", there)
    return None


def _merge(first: For, second: For, guarded: bool, block: Block, builder: Builder) -> None:
    """Let the first loop sum, too; put what the second loop gave in its place."""
    phi, out = (Var(second.phis[0].type, second.phis[0].name, second.origin) for _ in range(2))
    total = Var(phi.type, phi.name, second.origin)
    found = made_in(first.body, first.body.results[0])
    assert found is not None
    x = next(a for a in found.args if a is not first.phis[0])
    args = phi, first.phis[0], x, 1.0
    step = Apply((out,), rescaled_sum, args, {}, second.origin)
    first.body.statements.insert(first.body.statements.index(found), step)
    first.body.results = [*first.body.results, out]
    first.phis, first.inits = (*first.phis, phi), (*first.inits, 0.0)
    largest = first.outs[0]
    first.outs = (largest, total)
    with builder.block() as after, builder.at(second.origin):
        m: Any = wrap(largest)
        instead = np.exp(m).astype(np.float64) if guarded else np.nan
        whole: Any = np.where(np.isfinite(m), wrap(total), instead)
        whole.atom.name = second.outs[0].name
    label_rest(after.statements, second.phase)
    made: list[Statement] = after.statements
    k = block.statements.index(second)
    block.statements[k : k + 1] = made
    core.substitute(block, {second.outs[0]: atom(whole)})
