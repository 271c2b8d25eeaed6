"""Loops whose rounds do not touch what others write: they may run at the same time.

Each carried array must be read and written at one place that moves with the counter; nothing else
may be carried::

    for i in range(n):
        out[i] = f(x[i])          # independent
        s[i] = s[i - 1] + x[i]    # not
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calque.transpiler import core
from calque.transpiler.analyses.places import INDEXED, Place, place_of
from calque.transpiler.builder import Builder, atom, wrap
from calque.transpiler.core import Apply, Block, Effect, For, If, Statement, Var, While
from calque.transpiler.primitives.base import PRIMITIVES, apply
from calque.transpiler.types import dim_symbols


def mark_parallel(block: Block, builder: Builder) -> None:
    """Note which loops of a block are independent, in place."""
    made: list[Statement] = []
    with builder.active():
        for s in block.statements:
            if isinstance(s, For) and not s.scheduled and is_independent(s, builder):
                made += upward(s, builder)
                s.parallel = True
            made.append(s)
    block.statements[:] = made


def worth_threads(s: For, depth: int) -> bool:
    """Whether a parallel loop runs on threads, ``depth`` blocks deep in a kernel, whose own is 1.

    Loops of the kernel itself do; within a loop, those over all of an array of several axes.
    """
    if depth == 1:
        return s.parallel
    return s.parallel and depth == 2 and any(isinstance(t, For) for t in core.walk(s.body))


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
    return all(carried.apart(p, counter) for p in s.phis)


@dataclass(eq=False)
class Carried:
    """The versions of each carried array within a round, and where they are touched."""

    builder: Builder
    chain: dict[Any, Var] = field(default_factory=dict)
    places: dict[Var, list[Place]] = field(default_factory=dict)

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
        if s.primitive.name not in INDEXED or held != [s.args[0]] or not s.inside:
            return False
        owner = self.chain[s.args[0]]
        self.places.setdefault(owner, []).append(place_of(s, self.builder))
        if s.primitive.name != "getitem":
            self.chain[s.outs[0]] = owner
        return True

    def apart(self, phi: Var, counter: frozenset[str]) -> bool:
        """Whether some axis is always indexed by the same expression in the counter."""
        places = self.places.get(phi, [])
        known = counter | self.builder.dims.arguments
        for axis in range(phi.type.ndim):
            first = places[0][axis] if places else None
            if first is None or not dim_symbols(first) & counter:
                continue
            if dim_symbols(first) <= known and all(p[axis] == first for p in places):
                return True
        return not places
