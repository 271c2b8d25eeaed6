"""Describe dependences between the iterations of a loop: through carried numbers or elements.

``parallelize`` decides which loops are parallel; this module words its reasons.
"""

from __future__ import annotations

from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, If, Statement, Var, While
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.ir.verdicts import (
    CARRIED,
    MAY_ALIAS,
    OTHER,
    REDUCTION,
    Verdict,
    element_text,
    target_text,
)
from calque.transpiler.loops.dependence import dependence_distance
from calque.transpiler.loops.nest import NestAccess
from calque.transpiler.primitives.elementwise import add, multiply, subtract
from calque.transpiler.primitives.extrema import maximum, minimum
from calque.transpiler.primitives.indexing import update_add
from calque.transpiler.primitives.logic import greater, greater_equal, less, less_equal
from calque.transpiler.primitives.record import Primitive
from calque.transpiler.primitives.scalars import max_, min_

_CHOSEN: tuple[Primitive, ...] = ()  # a minimum or maximum written as an if
_REDUCING = (_CHOSEN, (add, subtract), (multiply,), (maximum, max_), (minimum, min_))

_COMPARISONS = (greater, less, greater_equal, less_equal)


def of_numbers(s: For) -> Verdict | None:
    """Why numbers that a loop carries order its iterations; None if it carries no number."""
    found = [of_number(s, k) for k, phi in enumerate(s.phis) if not phi.type.ndim]
    return next((v for v in found if v.kind != REDUCTION), found[0] if found else None)


def of_number(s: For, position: int) -> Verdict:
    phi, out = s.phis[position], s.body.results[position]
    made = made_by(s.body, out)
    name = s.outs[position].name or phi.name or target_text(made.origin if made else None)
    at = (made.origin if made is not None else s.origin,)
    if count_uses(s.body, phi) and _reduces(s.body, phi, out):
        return Verdict(
            REDUCTION, f"{{0}} is a reduction: all iterations combine into {name}", at, 1
        )
    if count_uses(s.body, phi):
        words = f"{{0}} computes {name}, which the next iteration reads (distance 1)"
        return Verdict(CARRIED, words, at, 1)
    return Verdict(OTHER, f"{{0}} computes {name}, whose last value is read after the loop", at)


def made_by(block: Block, value: object) -> Statement | None:
    """The innermost statement that makes a value."""
    for s in block.statements:
        if value not in s.outs:
            continue
        if isinstance(s, (For, While)):
            return made_by(s.body, s.body.results[s.outs.index(value)]) or s
        if isinstance(s, If):
            at = s.outs.index(value)
            arms = [made_by(b, b.results[at]) for b in core.blocks_of(s)]
            return next((a for a in arms if a is not None), s)
        return s
    return None


def _reduces(block: Block, start: Var, end: object) -> bool:
    """True if ``end`` is ``start`` with terms added, and nothing else reads it in between.

    Products, maxima and minima are reductions too; a sum that is also halved is none.
    """
    return any(_reduces_by(which, block, start, end) for which in _REDUCING)


def _reduces_by(which: tuple[Primitive, ...], block: Block, start: Var, end: object) -> bool:
    if end is start:
        return True
    if isinstance(end, Var) and count_uses(block, end) > 1:
        return False
    s = next((s for s in block.statements if end in s.outs), None)
    match s:
        case Apply() if s.primitive in which and not s.out.type.ndim:
            before = s.args[:1] if s.primitive is subtract else s.args
            vars = [a for a in before if isinstance(a, Var) and count_uses(block, a) == 1]
            return any(_reduces_by(which, block, start, a) for a in vars)
        case For():
            at = s.outs.index(end)
            phi, init = s.phis[at], s.inits[at]
            inner = count_uses(s.body, phi) == 1
            inner = inner and _reduces_by(which, s.body, phi, s.body.results[at])
            alone = isinstance(init, Var) and count_uses(block, init) == 1
            return inner and alone and _reduces_by(which, block, start, init)
        case If():
            arms = [b.results[s.outs.index(end)] for b in core.blocks_of(s)]
            chosen = count_uses(block, start) == 2 and start in arms
            if which is _CHOSEN and chosen and _compares(block, s.test, arms):
                return True  # the larger, or the smaller, of two
            return (
                s.test is not start
                and all(
                    count_uses(b, start) == 1 and _reduces_by(which, b, start, a)
                    for b, a in zip(core.blocks_of(s), arms, strict=True)
                )
                and count_uses(block, start) == 2
            )
    return False


def _compares(block: Block, test: object, values: list[object]) -> bool:
    """True if ``test`` is a comparison of exactly these values."""
    made = next((s for s in block.statements if test in s.outs), None)
    known = isinstance(made, Apply) and made.primitive in _COMPARISONS
    return known and isinstance(made, Apply) and set(made.args) == set(values)


def of_elements(
    one: NestAccess, two: NestAccess, loop: For, steady: frozenset[str], builder: Builder
) -> Verdict:
    """The verdict on a store and another access that touch one element in two iterations."""
    distance = distance_of(one, two, loop, steady, builder)
    if distance is None:
        return _may_alias(one, two)
    first, second = (one, two) if distance > 0 else (two, one)
    if not second.writes and not first.writes:
        return _may_alias(one, two)
    does, did = "stores" if second.writes else "reads", "stored" if first.writes else "read"
    iterations = abs(distance)
    ago = "the previous iteration" if iterations == 1 else f"the {iterations}th iteration before"
    ago = {2: "the second iteration before", 3: "the third iteration before"}.get(iterations, ago)
    what = element_text(second.statement.origin)
    if second.statement.origin == first.statement.origin:
        words = f"{{0}} {does} {what} in every iteration (distance {iterations})"
        return Verdict(CARRIED, words, (second.statement.origin,), iterations)
    which = "it" if _same_line(first, second) else "{1}"
    words = f"{{0}} {does} {what}, which {which} {did} in {ago} (distance {iterations})"
    return Verdict(CARRIED, words, _both(second, first), iterations)


def _may_alias(one: NestAccess, two: NestAccess) -> Verdict:
    what = element_text(one.statement.origin)
    if one.statement is two.statement:
        does = "add to" if one.statement.primitive is update_add else "store to"
        words = f"{{0}} may {does} one element in two iterations"
        return Verdict(MAY_ALIAS, words, (one.statement.origin,))
    other, does = element_text(two.statement.origin), "stores" if two.writes else "reads"
    which = "it" if _same_line(one, two) else "{1}"
    words = f"{{0}} stores {what}, which may be {other} that {which} {does} in another iteration"
    return Verdict(MAY_ALIAS, words, _both(one, two))


def _same_line(one: NestAccess, two: NestAccess) -> bool:
    a, b = one.statement.origin, two.statement.origin
    return a is not None and b is not None and (a.statement, a.line) == (b.statement, b.line)


def _both(one: NestAccess, two: NestAccess) -> tuple[Origin | None, ...]:
    own = one.statement.origin
    return (own,) if _same_line(one, two) else (own, two.statement.origin)


def distance_of(
    one: NestAccess, two: NestAccess, loop: For, steady: frozenset[str], builder: Builder
) -> int | None:
    """The dependence distance from ``one`` to ``two``, in iterations; None if it is not known."""
    if None in one.place or None in two.place:
        return None
    counter = builder.dim_values[loop.index]
    found = dependence_distance(one, two, counter, builder)
    if isinstance(found, int) and found:
        assert isinstance(loop.step, int)
        return found * loop.step
    names = {n for d in (*one.place, *two.place) if d is not None for n in dim_symbols(d)}
    if names & dim_symbols(counter) or found is None:
        return None
    inner = [s.index for s in core.walk(loop.body) if isinstance(s, For)]
    values = [builder.dim_values[v] for v in inner if v in builder.dim_values]
    counters = frozenset(n for value in values for n in dim_symbols(value)) - steady
    return 1 if all(_same_in_all(n, steady, counters, builder) for n in names) else None


def _same_in_all(
    name: str, steady: frozenset[str], counters: frozenset[str], builder: Builder
) -> bool:
    """True if a symbol, or an inner loop's counter, takes the same values in all iterations."""
    if name not in counters:
        return name in steady
    bounds: tuple[DimLike, ...] = builder.dims.ranges.get(name, ())
    return bool(bounds) and all(
        _same_in_all(n, steady, counters - {name}, builder)
        for bound in bounds
        for n in dim_symbols(builder.dims.resolve(bound))
    )
