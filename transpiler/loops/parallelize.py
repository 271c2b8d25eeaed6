"""Find parallel loops: no iteration touches an element that another one writes.

Each carried array must be read and written at one index that moves with the counter; a loop may
carry nothing else::

    for i in range(n):
        out[i] = f(x[i])          # independent
        s[i] = s[i - 1] + x[i]    # not
"""

from __future__ import annotations

from collections.abc import Callable, Set

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Block, For, Statement, Var, While
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.ir.verdicts import (
    CARRIED,
    LITTLE,
    MAY_RAISE,
    OTHER,
    PARALLEL,
    WITHIN,
    Verdict,
    element_text,
)
from calque.transpiler.loops.accesses import differ
from calque.transpiler.loops.carried_dependences import of_elements, of_numbers
from calque.transpiler.loops.dependence import may_alias_across_iterations
from calque.transpiler.loops.nest import LoopNest, NestAccess, build_general
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add


def mark_parallel(block: Block, builder: Builder, explained: bool = False) -> None:
    """Mark the outermost independent loops, and nests directly within other loops, in place.

    ``explained``: also record a verdict for loops that would not run on threads anyway.
    """
    with builder.active():
        _mark(block, builder, [], explained)


def _mark(block: Block, builder: Builder, around: list[For | While], explained: bool) -> None:
    made: list[Statement] = []
    for s in block.statements:
        if isinstance(s, For) and not s.scheduled:
            tried = not around or (len(around) == 1 and not _is_threads(around[0]) and _is_nest(s))
            if tried or explained:
                s.verdict = judged(s, builder)
                _remark(s, s.verdict, builder)
            if tried and s.verdict is not None and s.verdict.parallel:
                made += upward(s, builder)
                s.parallel = True
            elif s.verdict is not None and s.verdict.parallel:
                s.verdict = _kept_off(s, around)
        if isinstance(s, (For, While)):
            if explained or (not around and not _is_threads(s)):
                _mark(s.body, builder, [*around, s], explained)
        elif explained:
            for inner in core.blocks_of(s):
                _mark(inner, builder, around, explained)
        made.append(s)
    block.statements[:] = made


def _remark(s: For, verdict: Verdict, builder: Builder) -> None:
    if verdict.parallel:
        applied(builder, "mark_parallel", s)
    else:
        missed(builder, "mark_parallel", s, Refused(verdict.words, verdict.statements))


def _is_threads(s: For | While) -> bool:
    return isinstance(s, For) and s.parallel


def _kept_off(s: For, around: list[For | While]) -> Verdict:
    """The verdict of an independent loop that does not run on threads: its place in other loops."""
    if any(map(_is_threads, around)):
        return Verdict(WITHIN, "those of a loop around it run at the same time")
    what = f"within {len(around)} others" if _is_nest(s) else "within another, and holds none"
    return Verdict(LITTLE, f"too little work: a loop {what}")


def estimate_parallel_work(
    block: Block, compiles: Callable[[Statement], bool], depth: int = 0
) -> None:
    """Make parallel loops serial, in place, if they do too little work or are not in a kernel.

    ``depth`` is that of the block in a kernel: 0 outside.
    """
    for s in block.statements:
        inside = depth > 0 or (bool(core.blocks_of(s)) and compiles(s))
        if isinstance(s, For) and s.parallel:
            if not inside:
                s.parallel = False
                s.verdict = Verdict(OTHER, "it stays a loop of Python's: no kernel has all it does")
            elif (_trip_count(s) or _WORTH_THREADS) < _WORTH_THREADS:
                s.parallel = False
                s.verdict = Verdict(LITTLE, f"too little work: {_trip_count(s)} iterations")
            elif not worth_threads(s, depth or 1):
                s.verdict = Verdict(LITTLE, "too little work: a loop in a branch that holds none")
        for b in core.blocks_of(s):
            estimate_parallel_work(b, compiles, (depth or 1) + 1 if inside else 0)


_WORTH_THREADS = 1000  # iterations, inner loops included: starting threads takes as long


def _trip_count(s: For) -> int | None:
    """The number of iterations of a loop, times those of its inner loops; None if unknown."""
    if not isinstance(s.start, int) or not isinstance(s.stop, int):
        return None
    inner = [_trip_count(t) if isinstance(t, For) else None for t in _loops(s.body)]
    if None in inner:
        return None
    return max(s.stop - s.start, 0) * max(sum(n for n in inner if n is not None), 1)


def _loops(block: Block) -> list[For | While]:
    """The outermost loops of a block, also those in branches."""
    found: list[For | While] = []
    for s in block.statements:
        if isinstance(s, (For, While)):
            found.append(s)
        else:
            for b in core.blocks_of(s):
                found += _loops(b)
    return found


def demote_parallel_to_serial(
    block: Block,
    compiles: Callable[[Statement], bool],
    refuses: Callable[[Statement], bool],
    divides: Callable[[Statement], bool],
) -> None:
    """Make the loops of a kernel serial, in place, if a statement in the kernel may raise.

    No thread can raise; and loops on one thread can reuse their memory in every iteration.
    ``divides``: whether a statement may raise ZeroDivisionError: only loops around it get serial.
    """
    for s in block.statements:
        if isinstance(s, (For, While)) and compiles(s):
            inner = list(core.walk(Block([s], [])))
            raising = next(filter(refuses, inner), None)
            for t in inner:
                if isinstance(t, For) and raising is not None:
                    _may_raise(t, raising)
            for t in inner:
                if isinstance(t, For) and t.parallel:
                    division = next(filter(divides, core.walk(t.body)), None)
                    if division is not None:
                        _may_raise(t, division)
        else:
            for b in core.blocks_of(s):
                demote_parallel_to_serial(b, compiles, refuses, divides)


def _may_raise(s: For, raising: Statement) -> None:
    if s.verdict is not None and s.verdict.parallel:
        s.verdict = Verdict(MAY_RAISE, "{0} may raise, which no thread can", (raising.origin,))
    s.parallel = False


def worth_threads(s: For, depth: int) -> bool:
    """True if a parallel loop should run on threads, given its block's depth in the kernel.

    At depth 1, the kernel's own block, all do; at depth 2, those that contain loops.
    """
    return s.parallel and (depth == 1 or (depth == 2 and _is_nest(s)))


def _is_nest(s: For) -> bool:
    return any(isinstance(t, For) for t in core.walk(s.body))


def upward(s: For, builder: Builder) -> list[Statement]:
    """Let an order-independent loop count upward; return the statements of its new bounds."""
    if s.step != -1:
        return []
    with builder.block() as bounds:
        first, last = (
            apply(add, wrap(a), 1) if isinstance(a, Var) else a + 1
            for a in (s.stop, s.start)
        )
    s.start, s.stop, s.step = atom(first), atom(last), 1
    return bounds.statements


def judged(s: For, builder: Builder) -> Verdict:
    """The verdict whether iterations are independent, with the reason."""
    if s.step not in (1, -1):
        return Verdict(OTHER, f"it counts by {s.step}, and threads by 1")
    if s.index not in builder.dim_values or not s.phis:
        return Verdict(OTHER, "the results of its iterations are not known")
    return of_numbers(s) or of_arrays(s, builder)


def of_arrays(s: For, builder: Builder, added: Set[Var] = frozenset()) -> Verdict:
    """The verdict on the arrays that a loop carries, regardless of carried scalars.

    ``added`` are arrays whose elements iterations may share, since they only add to them.
    """
    nest = build_general(s, builder)
    if isinstance(nest, Refused):
        return Verdict(nest.kind, nest.words, nest.statements)
    arrays = [k for k, phi in enumerate(s.phis) if phi.type.ndim]
    if any(nest.array_of.get(s.body.results[k]) != k for k in arrays):
        return Verdict(
            CARRIED, "each iteration hands a whole array to the next (distance 1)", (), 1
        )
    steady = nest.invariant()
    for k in (k for k in arrays if s.phis[k] not in added):
        shared = _shared(nest, k, steady)
        if shared is not None:
            return of_elements(*shared, s, steady, builder)
    return Verdict(PARALLEL, _alone(nest), ())


def _alone(nest: LoopNest) -> str:
    """The reason why a loop is parallel, in words: the elements that each iteration stores."""
    arrays = dict.fromkeys(a.array for a in nest.accesses)
    stores = [a.statement for k in arrays for a in nest.accesses_to(k) if a.writes]
    texts = dict.fromkeys(element_text(s.origin) for s in stores)
    known = [text for text in texts if text != "an element"] or ["its own elements"]
    return f"no two iterations share an element, and one stores {', '.join(known)}"


def _shared(
    nest: LoopNest, k: int, steady: frozenset[str]
) -> tuple[NestAccess, NestAccess] | None:
    """A store and another access to the k-th array that may touch one element in two iterations.

    There is none if some axis is always indexed by the same expression in the counter, except
    reads at invariant indices that are never stored to. Otherwise the ranges of the counters
    may rule it out: ``d[i, j]`` and ``d[j, i]`` of all ``j < i``.
    """
    builder, accesses = nest.builder, nest.accesses_to(k)
    counter = nest.counters([nest.loop])
    stored = [a for a in accesses if a.writes]
    known = counter | builder.dims.arguments
    for axis in range(nest.loop.phis[k].type.ndim):
        indices = {a.place[axis] for a in accesses}
        moving = [d for d in indices if d is not None and dim_symbols(d) & counter]
        if len(moving) != 1 or not dim_symbols(moving[0]) <= known:
            continue
        others = indices - {moving[0]}
        if any(a.place[axis] in others for a in stored):
            continue
        if all(
            d is not None and dim_symbols(d) <= steady and differ(moving[0], d, builder)
            for d in others
        ):
            return None
    (name,) = counter
    for one in stored:
        for two in accesses:
            if may_alias_across_iterations(one.place, two.place, name, steady, builder):
                return one, two
    return None
