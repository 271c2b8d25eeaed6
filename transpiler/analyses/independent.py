"""Loops whose rounds do not touch what others write: they may run at the same time.

Each carried array must be read and written at one place that moves with the counter; nothing else
may be carried::

    for i in range(n):
        out[i] = f(x[i])          # independent
        s[i] = s[i - 1] + x[i]    # not
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler import core
from calque.transpiler.analyses.conflicts import may_meet
from calque.transpiler.analyses.places import (
    INDEXED,
    Place,
    differ,
    place_of,
    steady_symbols,
)
from calque.transpiler.builder import Builder, atom, wrap
from calque.transpiler.core import Apply, Block, Effect, For, If, Statement, Var, While
from calque.transpiler.primitives.base import PRIMITIVES, apply
from calque.transpiler.types import dim_symbols


def mark_parallel(block: Block, builder: Builder) -> None:
    """Note which of a function's loops are independent, and nests in the others, in place."""
    with builder.active():
        _mark(block, builder, False)


def _mark(block: Block, builder: Builder, within: bool) -> None:
    made: list[Statement] = []
    for s in block.statements:
        if isinstance(s, For) and not s.scheduled and (not within or _is_nest(s)):
            if is_independent(s, builder):
                made += upward(s, builder)
                s.parallel = True
        if isinstance(s, (For, While)) and not within and not (isinstance(s, For) and s.parallel):
            _mark(s.body, builder, True)
        made.append(s)
    block.statements[:] = made


def keep_off_threads(
    block: Block,
    compiles: Callable[[Statement], bool],
    refuses: Callable[[Statement], bool],
    divides: Callable[[Statement], bool],
) -> None:
    """Note that no loop of a kernel runs on threads where something may raise, in place.

    No thread can raise; and what runs on one thread can share its memory from round to round.
    ``divides``: whether a statement raises ZeroDivisionError, for numbers that are seldom zero.
    """
    for s in block.statements:
        if isinstance(s, (For, While)) and compiles(s):
            inner = list(core.walk(Block([s], [])))
            if any(map(refuses, inner)):
                for t in inner:
                    if isinstance(t, For):
                        t.parallel = False
            for t in inner:
                if isinstance(t, For) and t.parallel and any(map(divides, core.walk(t.body))):
                    t.parallel = False
        else:
            for b in core.blocks_of(s):
                keep_off_threads(b, compiles, refuses, divides)


def worth_threads(s: For, depth: int) -> bool:
    """Whether a parallel loop runs on threads, ``depth`` blocks deep in a kernel, whose own is 1.

    Loops of the kernel itself do; within a loop, those with loops in them.
    """
    return s.parallel and (depth == 1 or (depth == 2 and _is_nest(s)))


def _is_nest(s: For) -> bool:
    return any(isinstance(t, For) for t in core.walk(s.body))


def upward(s: For, builder: Builder) -> list[Statement]:
    """Let a loop whose order does not matter count upward; the statements of its new bounds."""
    if s.step != -1:
        return []
    with builder.block() as bounds:
        first, last = (
            apply(PRIMITIVES["np.add"], wrap(a), 1) if isinstance(a, Var) else a + 1
            for a in (s.stop, s.start)
        )
    s.start, s.stop, s.step = atom(first), atom(last), 1
    return bounds.statements


def is_independent(s: For, builder: Builder) -> bool:
    """Whether no round needs another's results."""
    if s.index not in builder.dim_values or not s.phis or s.step not in (1, -1):
        return False
    carried = Carried(builder)
    if any(not phi.type.ndim for phi in s.phis):
        return False
    carried.chain = {phi: phi for phi in s.phis}
    if not carried.visit(s.body):
        return False
    results = zip(s.phis, s.body.results, strict=True)
    if any(carried.chain.get(r) is not p for p, r in results):
        return False
    counter = dim_symbols(builder.dim_values[s.index])
    steady = steady_symbols(s, builder) - counter
    return all(carried.apart(p, counter, steady) for p in s.phis)


@dataclass(eq=False)
class Carried:
    """The versions of each carried array within a round, and where they are touched."""

    builder: Builder
    chain: dict[Any, Var] = field(default_factory=dict)
    places: dict[Var, list[Place]] = field(default_factory=dict)
    stored: dict[Var, list[Place]] = field(default_factory=dict)  # those that are not only read

    def visit(self, block: Block) -> bool:
        """Follow versions through a block; False where they cannot be followed."""
        return all(self._statement(s) for s in block.statements)

    def _statement(self, s: Statement) -> bool:
        match s:
            case Effect():
                return False
            case Apply():
                return self._apply(s)
            case If():
                if not (self.visit(s.then) and self.visit(s.orelse)):
                    return False
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    found = {self.chain.get(a) if isinstance(a, Var) else None for a in arms}
                    if len(found) > 1:
                        return False
                    (only,) = found
                    if only is not None:
                        self.chain[out] = only
                return True
            case For() | While():
                return self._loop(s)

    def _loop(self, s: For | While) -> bool:
        owners = [self.chain.get(i) if isinstance(i, Var) else None for i in s.inits]
        for phi, out, owner in zip(s.phis, s.outs, owners, strict=True):
            if owner is not None:
                self.chain[phi] = self.chain[out] = owner
        if not all(self.visit(b) for b in core.blocks_of(s)):
            return False
        results = [self.chain.get(r) if isinstance(r, Var) else None for r in s.body.results]
        return results == owners

    def _apply(self, s: Apply) -> bool:
        held = [a for a in s.args if isinstance(a, Var) and a in self.chain]
        if not held or s.primitive.kind == "size":
            return True
        if s.primitive.name not in INDEXED or held != [s.args[0]] or not s.proven:
            return False
        owner = self.chain[s.args[0]]
        place = place_of(s, self.builder)
        self.places.setdefault(owner, []).append(place)
        if s.primitive.name != "getitem":
            self.stored.setdefault(owner, []).append(place)
            self.chain[s.outs[0]] = owner
        return True

    def apart(self, phi: Var, counter: frozenset[str], steady: frozenset[str]) -> bool:
        """Whether some axis is always indexed by the same expression in the counter.

        Or read at places that are the same in all rounds, which no round stores to. Else what is
        known of the counters may tell: ``d[i, j]`` and ``d[j, i]`` of all ``j < i``.
        """
        places = self.places.get(phi, [])
        known = counter | self.builder.dims.arguments
        for axis in range(phi.type.ndim):
            indices = {p[axis] for p in places}
            moving = [d for d in indices if d is not None and dim_symbols(d) & counter]
            if len(moving) != 1 or not dim_symbols(moving[0]) <= known:
                continue
            others = indices - {moving[0]}
            if any(p[axis] in others for p in self.stored.get(phi, [])):
                continue
            if all(
                d is not None and dim_symbols(d) <= steady and differ(moving[0], d, self.builder)
                for d in others
            ):
                return True
        (name,) = counter
        return all(
            not may_meet(one, two, name, steady, self.builder)
            for one in self.stored.get(phi, [])
            for two in places
        )
