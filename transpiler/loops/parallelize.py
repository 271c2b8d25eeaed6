"""Find parallel loops: no iteration touches an element that another one writes.

Each carried array must be read and written at one index that moves with the counter; a loop may
carry nothing else::

    for i in range(n):
        out[i] = f(x[i])          # independent
        s[i] = s[i - 1] + x[i]    # not
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Block, Effect, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import ends_call, is_access
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
from calque.transpiler.loops.accesses import differ, element_index, steady_symbols
from calque.transpiler.loops.carried_dependences import Touch, of_elements, of_numbers
from calque.transpiler.loops.dependence import may_alias_across_iterations
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import getitem


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
    arrays = [(p, r) for p, r in zip(s.phis, s.body.results, strict=True) if p.type.ndim]
    carried = CarriedArrays(builder)
    carried.chain = {phi: phi for phi, _ in arrays}
    if not carried.visit(s.body):
        return carried.lost or Verdict(OTHER, "an array of another iteration is read whole")
    if any(carried.chain.get(r) is not p for p, r in arrays):
        return Verdict(
            CARRIED, "each iteration hands a whole array to the next (distance 1)", (), 1
        )
    counter = dim_symbols(builder.dim_values[s.index])
    steady = steady_symbols(s, builder) - counter
    for phi in (phi for phi, _ in arrays if phi not in added):
        shared = carried.shared(phi, counter, steady)
        if shared is not None:
            return of_elements(*shared, s, steady, builder)
    return Verdict(PARALLEL, carried.alone(), ())


@dataclass(eq=False)
class CarriedArrays:
    """The versions of each carried array within an iteration, and the accesses to them."""

    builder: Builder
    chain: dict[Any, Var] = field(default_factory=dict)
    touches: dict[Var, list[Touch]] = field(default_factory=dict)
    lost: Verdict | None = None  # where versions could not be followed

    def visit(self, block: Block) -> bool:
        """Follow versions through a block; False where they cannot be followed."""
        return all(self._statement(s) for s in block.statements)

    def _statement(self, s: Statement) -> bool:
        match s:
            case Effect():
                return self._lose(MAY_RAISE if ends_call(s) else OTHER, _EFFECTS[ends_call(s)], s)
            case Apply():
                return self._apply(s)
            case If():
                if not (self.visit(s.then) and self.visit(s.orelse)):
                    return False
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    found = {self.chain.get(a) if isinstance(a, Var) else None for a in arms}
                    if len(found) > 1:
                        return self._lose(OTHER, "{0} chooses between whole arrays", s)
                    (only,) = found
                    if only is not None:
                        self.chain[out] = only
                return True
            case For() | While():
                return self._loop(s)
            case Kernel():
                return self.visit(s.body)

    def _loop(self, s: For | While) -> bool:
        owners = [self.chain.get(i) if isinstance(i, Var) else None for i in s.inits]
        for phi, out, owner in zip(s.phis, s.outs, owners, strict=True):
            if owner is not None:
                self.chain[phi] = self.chain[out] = owner
        if not all(self.visit(b) for b in core.blocks_of(s)):
            return False
        results = [self.chain.get(r) if isinstance(r, Var) else None for r in s.body.results]
        if results != owners:
            return self._lose(OTHER, "{0} hands whole arrays on", s)
        return True

    def _apply(self, s: Apply) -> bool:
        held = [a for a in s.args if isinstance(a, Var) and a in self.chain]
        if not held or s.primitive.kind == "size":
            return True
        if not is_access(s) or held != [s.args[0]]:
            name = held[0].name or "an array"
            words = f"{{0}} reads {name} as a whole, which each iteration changes"
            return self._lose(CARRIED, words, s)
        if not s.proven:
            what = element_text(s.origin)
            return self._lose(MAY_RAISE, f"{{0}}: {what} is not proven to be inside its array", s)
        owner = self.chain[s.args[0]]
        self.touches.setdefault(owner, []).append(Touch(element_index(s, self.builder), s))
        if s.primitive is not getitem:
            self.chain[s.outs[0]] = owner
        return True

    def _lose(self, kind: str, words: str, s: Statement) -> bool:
        self.lost = self.lost or Verdict(kind, words, (s.origin,))
        return False

    def alone(self) -> str:
        """The reason why a loop is parallel, in words: the elements that each iteration stores."""
        stores = [t.statement for found in self.touches.values() for t in found if t.stores]
        texts = dict.fromkeys(element_text(s.origin) for s in stores)
        known = [text for text in texts if text != "an element"] or ["its own elements"]
        return f"no two iterations share an element, and one stores {', '.join(known)}"

    def shared(
        self, phi: Var, counter: frozenset[str], steady: frozenset[str]
    ) -> tuple[Touch, Touch] | None:
        """A store and another access that may touch one element in two iterations.

        There is none if some axis is always indexed by the same expression in the counter, except
        reads at invariant indices that are never stored to. Otherwise the ranges of the counters
        may rule it out: ``d[i, j]`` and ``d[j, i]`` of all ``j < i``.
        """
        touches = self.touches.get(phi, [])
        stored = [t for t in touches if t.stores]
        known = counter | self.builder.dims.arguments
        for axis in range(phi.type.ndim):
            indices = {t.place[axis] for t in touches}
            moving = [d for d in indices if d is not None and dim_symbols(d) & counter]
            if len(moving) != 1 or not dim_symbols(moving[0]) <= known:
                continue
            others = indices - {moving[0]}
            if any(t.place[axis] in others for t in stored):
                continue
            if all(
                d is not None and dim_symbols(d) <= steady and differ(moving[0], d, self.builder)
                for d in others
            ):
                return None
        (name,) = counter
        for one in stored:
            for two in touches:
                if may_alias_across_iterations(one.place, two.place, name, steady, self.builder):
                    return one, two
        return None


_EFFECTS = {
    True: "{0} may raise, which no thread can",
    False: "{0} happens in the order of iterations",
}
