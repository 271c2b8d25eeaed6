"""Facts about integers in the arms of branches, and within and after loops.

Under ``if i > 0`` an index ``i - 1`` is not negative; a counter that a ``while`` loop only raises
is never below its start, and below ``n`` in the iterations of ``while i < n``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.effects import refuses
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, substitute_dim, symbol

Facts = list[DimLike]  # each is at least 0
_OPPOSITE = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "equal": "not_equal",
    "not_equal": "equal",
}
# sign * (right - left) + constant is at least 0; of what is unequal, if never on the other side
SIDES = {
    "less": ((1, -1),),
    "less_equal": ((1, 0),),
    "greater": ((-1, -1),),
    "greater_equal": ((-1, 0),),
    "equal": ((1, 0), (-1, 0)),
    "not_equal": ((1, -1), (-1, -1)),
}


def statements_given(block: Block, builder: Builder) -> Iterator[Statement]:
    """Every statement of a block and of those in it, while ``builder.dims`` knows its facts."""
    with builder.dims.given([]):
        for s in block.statements:
            yield s
            for inner, facts in blocks_given(s, builder):
                with builder.dims.given(facts):
                    yield from statements_given(inner, builder)
            builder.dims.facts += facts_after(s, builder)


def blocks_given(s: Statement, builder: Builder) -> list[tuple[Block, Facts]]:
    """The blocks of a statement, each with the facts that hold in it."""
    if isinstance(s, (For, While)):
        builder.magnitudes.note(s)
    match s:
        case If():
            then, orelse = (facts_where(s.test, holds, builder) for holds in (True, False))
            return [(s.then, then), (s.orelse, orelse)]
        case While():
            running = facts_where(s.test.results[0], True, builder)
            with builder.dims.given(running):
                carried = _carried(s, builder)
            return [(s.test, carried), (s.body, running + carried)]
        case For() if not s.scheduled:
            return [(s.body, _carried(s, builder) + facts_of_iterations(s, builder))]
    return [(block, []) for block in core.blocks_of(s)]


def facts_where(test: Atom, holds: bool, builder: Builder) -> Facts:
    """Facts about integers where a test holds, or where it does not."""
    found: Facts = []
    for comparison, left, right in comparisons_where(test, holds, builder.definitions):
        low, high = (builder.dim_of(wrap(side)) for side in (left, right))
        with builder.dims.given(found):
            if not (builder.dims.is_exact(low) and builder.dims.is_exact(high)):
                continue
        gap = builder.dims.resolve(high - low)
        for sign, more in SIDES[comparison]:
            if comparison != "not_equal" or builder.dims.nonnegative(sign * gap):
                found.append(sign * gap + more)
    return found


def comparisons_where(
    test: Atom, holds: bool, definitions: Mapping[Var, Statement]
) -> list[tuple[str, Atom, Atom]]:
    """The comparisons of integers that are true where a test holds, or where it does not."""
    made = definitions.get(test) if isinstance(test, Var) else None
    match made:
        case Apply(primitive=primitive, args=args):
            kind = primitive.arithmetic
            if kind == "not":
                return comparisons_where(args[0], not holds, definitions)
            if kind == ("and" if holds else "or"):
                return [c for a in args for c in comparisons_where(a, holds, definitions)]
            if kind in _OPPOSITE and all(map(_is_number, args)):
                return [(kind if holds else _OPPOSITE[kind], *args)]
        case If():
            k = made.outs.index(test)
            then, orelse = made.then.results[k], made.orelse.results[k]
            for result, other, taken in ((then, orelse, True), (orelse, then, False)):
                if not isinstance(other, Var) and bool(other) is not holds:
                    which = comparisons_where(made.test, taken, definitions)
                    return which + comparisons_where(result, holds, definitions)
    return []


def facts_after(s: Statement, builder: Builder) -> Facts:
    """Facts after a statement: ``if k > n: raise`` did not raise, or a ``while`` has ended."""
    if isinstance(s, If) and refuses(s):
        return facts_where(s.test, False, builder)
    if not isinstance(s, While):
        return []
    inside, ends = (facts_where(s.test.results[0], holds, builder) for holds in (True, False))
    with builder.dims.given(inside):
        ends += _carried(s, builder)
    last: dict[str, DimLike] = {}
    before: dict[str, DimLike] = {}  # a counter one iteration before its last value
    earlier: dict[str, DimLike] = {}  # its value one iteration before its start, if there were one
    for name, phi, init, result, out in _counters(s, builder):
        last[name], start = builder.dim_of(wrap(out)), builder.dim_of(wrap(init))
        step = builder.dims.resolve(builder.dim_of(wrap(result)) - builder.dim_of(wrap(phi)))
        with builder.dims.given(inside):
            exact = builder.dims.fits(start) and builder.dims.is_exact(builder.dim_of(wrap(result)))
        if isinstance(step, int) and exact:
            before[name], earlier[name] = last[name] - step, start - step
    steady = _steady(s, builder)
    found = [substitute_dim(f, last) for f in ends if dim_symbols(f) <= steady | last.keys()]
    for fact in inside:
        if dim_symbols(fact) <= steady | before.keys():
            if builder.dims.nonnegative(substitute_dim(fact, earlier)):
                found.append(substitute_dim(fact, before))
    return found


def _carried(s: For | While, builder: Builder) -> Facts:
    """Facts about counters that iterations only raise, or only lower, relative to their start."""
    found: Facts = []
    for name, _, init, result, _ in _counters(s, builder):
        for sign in (1, -1) if builder.dims.fits(builder.dim_of(wrap(init))) else ():
            if _never_below(result, sign, symbol(name), builder):
                found.append(sign * (symbol(name) - builder.dim_of(wrap(init))))
    return [builder.dims.resolve(f) for f in found]


def facts_of_iterations(s: For, builder: Builder) -> Facts:
    """Bounds on loop-carried counters: after k iterations a counter has moved at most k * step.

    The bounds contain the index. Its range implies that the loop runs at least once, which is a
    fact about values defined before the loop, too.
    """
    if s.step not in (1, -1) or s.index not in builder.dim_values:
        return []
    start = builder.dim_of(wrap(s.start))
    iterations = s.step * (builder.dim_of(wrap(s.index)) - start)
    found: Facts = []
    for name, _, init, result, _ in _counters(s, builder):
        if not all(map(builder.dims.fits, (start, builder.dim_of(wrap(init))))):
            continue
        step = builder.dims.resolve(builder.dim_of(wrap(result)) - symbol(name))
        most = max(abs(step), 1) if isinstance(step, int) else 1
        for sign in (1, -1):
            if _never_below(result, -sign, symbol(name) + sign * most, builder):
                gone = sign * (symbol(name) - builder.dim_of(wrap(init)))
                found.append(builder.dims.resolve(most * iterations - gone))
    return found


def _never_below(value: Atom, sign: int, bound: DimLike, builder: Builder) -> bool:
    """True if ``sign * value >= sign * bound`` on every path to the value."""
    if not _is_number(value):
        return False
    match builder.definitions.get(value) if isinstance(value, Var) else None:
        case If() as made:
            for arm, facts in blocks_given(made, builder):
                with builder.dims.given(facts):
                    result = arm.results[made.outs.index(value)]
                    if not _never_below(result, sign, bound, builder):
                        return False
            return True
        case For() | While() as made:
            k = made.outs.index(value)
            phi, init, result = made.phis[k], made.inits[k], made.body.results[k]
            own = builder.dim_of(wrap(phi))
            kept = _never_below(result, sign, own, builder)
            return kept and _never_below(init, sign, bound, builder)
    place = builder.dim_of(wrap(value))
    gap = builder.dims.resolve(place - bound)
    return builder.dims.is_exact(place) and builder.dims.nonnegative(sign * gap)


def _counters(s: For | While, builder: Builder) -> Iterator[tuple[str, Var, Atom, Atom, Var]]:
    """The integers that a loop carries: symbol, phi, initial value, next value, final value."""
    for phi, init, result, out in zip(s.phis, s.inits, s.body.results, s.outs, strict=True):
        if all(map(_is_number, (phi, init, result))):
            dim = builder.dim_of(wrap(phi))
            if isinstance(dim, Dim) and dim.const == 0 and dim.terms[0][1:] == (1,):
                if len(dim.terms) == 1:
                    yield dim.terms[0][0], phi, init, result, out


def _steady(s: While, builder: Builder) -> frozenset[str]:
    """The symbols of values defined before a loop, which it does not change."""
    values, resolve = builder.dim_values, builder.dims.resolve
    outside = {v for b in core.blocks_of(s) for v in core.free_vars(b)} - {*s.phis}
    outside |= {v for v in s.inits if isinstance(v, Var)}
    known = (dim_symbols(resolve(values[v])) for v in outside if v in values)
    return frozenset(builder.dims.arguments).union(*known)


def _is_number(value: Atom) -> bool:
    if isinstance(value, Var):
        return not value.type.ndim and value.type.dtype.kind in "iu"
    return type(value) is int
