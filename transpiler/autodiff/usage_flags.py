"""Flags that tell at run time which elements of a value some taken path has used.

A slope behind a value may be infinite (``np.sqrt`` at 0), and a path that does not use the value
contributes zero, not zero times infinity. Tests that can be seen at the value are the condition
(see primitives.guards). For those that cannot, because they are computed in an arm of a branch or
in an iteration of a loop, the reverse sweep carries a flag beside the adjoint::

    r = np.sqrt(r2)                      if far: r_bar = 0.0; r_used = False
    if far: ...                          elif near: r_bar = 0.0; r_used = False
    elif near: ...               ->      else: r_bar = 1.0; r_used = True
    else: y = r                          r2_bar += np.where(r_used, r_bar * (0.5 / r), 0.0)

A flag is one truth for the whole value. Of an array whose elements are used under tests within a
loop there is a flag for each element. Flags that no statement reads are dead code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, wrap
from calque.transpiler.ir.core import Apply, Block, For, If, Var, While
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.types import ArrayType, dim_symbols
from calque.transpiler.ir.versions import Versions
from calque.transpiler.primitives.guards import guard_of, note_guard, whole
from calque.transpiler.primitives.selections import NEVER, Selection, both, either, flagged, written
from calque.transpiler.primitives.smooth import is_smooth

_TRUTH = np.dtype(bool)


def steep_values(block: Block, active: Collection[Var]) -> set[Var]:
    """The active values that are computed through an operation whose slope may be infinite."""
    steep: set[Var] = set()
    while True:
        before = len(steep)
        _mark_steep(block, active, steep)
        if len(steep) == before:
            return steep


def _mark_steep(block: Block, active: Collection[Var], steep: set[Var]) -> None:
    for s in block.statements:
        match s:
            case Apply():
                if not is_smooth(s) or any(a in steep for a in s.args if isinstance(a, Var)):
                    steep.update(o for o in s.outs if o in active)
            case If():
                _mark_steep(s.then, active, steep)
                _mark_steep(s.orelse, active, steep)
                _join(s.outs, s.then.results, s.orelse.results, steep)
            case For() | While():
                _join(s.phis, s.inits, s.body.results, steep)
                _mark_steep(s.body, active, steep)
                _join(s.outs, s.phis, s.phis, steep)


def _join(into: Any, one: Any, other: Any, steep: set[Var]) -> None:
    for out, a, b in zip(into, one, other, strict=True):
        if (isinstance(a, Var) and a in steep) or (isinstance(b, Var) and b in steep):
            steep.add(out)


# branches


def flag_arms(
    values: Iterable[Var], sweep: Any, forward: If, then: Block, orelse: Block
) -> list[tuple[int, Var]]:
    """Add flags to the arms of a reversed branch for the adjoints whose use the tests hide.

    The adjoints of ``values`` are the first results of both arms. The result is a list of an
    adjoint's place and its flag, for which each arm has one more result. A value from outside of
    the arm or loop around the branch has a flag, too: there the tests will not be seen.
    """
    inside = set().union(*map(core.defined_vars, (forward.then, forward.orelse, then, orelse)))
    found = []
    for place, value in enumerate(values):
        guards = [guard_of(arm.results[place]) for arm in (then, orelse)]
        if value not in sweep.steep or _same(*guards):
            continue
        hidden = any(g is not None and not g.needs.isdisjoint(inside) for g in guards)
        simple = None in guards or NEVER in guards
        if simple and not hidden and value in sweep.here:
            continue
        alone = all(g is None or g.number for g in guards)
        dims = () if alone else value.type.dims
        flag = Var(ArrayType(_TRUTH, dims), current().name_of_flag(value), forward.origin)
        for arm, guard in zip((then, orelse), guards, strict=True):
            arm.results.append(_at_the_end(arm, guard, None if alone else arm.results[place]))
        found.append((place, flag))
    return found


def _same(one: Selection | None, other: Selection | None) -> bool:
    return one is other or (one is not None and other is not None and one.key == other.key)


def _at_the_end(block: Block, guard: Selection | None, like: Any) -> Any:
    """A selection as flags, written at the end of a block; of the shape of ``like``, if given."""
    builder = current()
    builder.blocks.append(block)
    builder._sizes.append({})
    try:
        return flags_of(guard, like)
    finally:
        builder.blocks.pop()
        builder._sizes.pop()


def flags_of(guard: Selection | None, like: Any) -> Any:
    """A selection as one flag, or as an array of flags of the shape of ``like``."""
    made = True if guard is None else written(guard)
    if like is not None and isinstance(made, Array) and made.ndim:
        made = whole(made, like)
    elif like is not None:
        made = FUNCTIONS[np.full](Array(like).shape, made, dtype=_TRUTH)
    return made.atom if isinstance(made, Array) else made


def note_flag(adjoint: Var, flag: Var, tested: bool = True) -> None:
    """Note that an adjoint is zero where its flag is not set."""
    note_guard(adjoint, flagged(flag, tested))


# loops


class UsageFlags:
    """The flags that a reverse loop carries beside its adjoints.

    ``wanted`` maps keys of adjoints to kinds of flags: ``"number"`` for one flag that tests set,
    ``"iterated"`` for one that tells that there was an iteration, ``"array"`` for a flag for each
    element, ``"none"`` for adjoints that every iteration uses. If ``missing`` has more, the reverse
    loop is written again.
    """

    def __init__(self, sweep: Any, wanted: dict[Any, str]):
        self.sweep, self.wanted = sweep, wanted
        self.missing: dict[Any, str] = {}
        self.phis: list[Var] = []
        self.inits: list[Any] = []
        self._carried: list[_CarriedAdjoint] = []

    def carry(self, key: Any, primal: Var, init: Any, phi: Var, adds: bool) -> None:
        """Let the loop carry the adjoint ``phi`` from ``init``; ``adds``: iterations only add."""
        if primal not in self.sweep.steep:
            return
        start, kind = guard_of(init), self.wanted.get(key)
        carried = _CarriedAdjoint(key, phi, start, kind, adds)
        self._carried.append(carried)
        if kind in (None, "none"):
            current().selections.guards[phi] = None if kind == "none" else start
            return
        dims = phi.type.dims if kind == "array" else ()
        carried.flag = Var(ArrayType(_TRUTH, dims), current().name_of_flag(primal), phi.origin)
        self.phis.append(carried.flag)
        self.inits.append(flags_of(start, init if dims else None))
        note_flag(phi, carried.flag, tested=kind != "iterated")

    def finish_body(self, block: Block, nexts: dict[Var, Any], inside: set[Var]) -> None:
        """Add the flags' next values to the results of the body, and see which are missing."""
        for c in self._carried:
            value = nexts[c.phi]
            c.after = guard_of(value)
            if c.flag is not None:
                if not c.flag.type.ndim and c.kind_of_flag(value) not in (c.kind, "none"):
                    self.missing[c.key] = c.kind_of_flag(value)
                like = value if c.flag.type.ndim else None
                block.results.append(_at_the_end(block, c.after, like))
            elif c.kind is None and not c.stays(inside):
                self.missing[c.key] = c.kind_of_flag(value)

    def finish(self, s: For | While, count: Any, outs: dict[Var, Var]) -> None:
        """Note the selections of the results; ``count`` is the number of iterations of a while."""
        for c in self._carried:
            if c.flag is not None:
                tested = any(g is not None and g.tested for g in (c.start, c.after))
                note_flag(outs[c.phi], outs[c.flag], tested)
            else:
                ran = iterated(s, count, c.phi.type.ndim)
                note_guard(outs[c.phi], c.behind(ran))


@dataclass
class _CarriedAdjoint:
    """An adjoint that a reverse loop carries, and the selections around an iteration."""

    key: Any
    phi: Var
    start: Selection | None  # before the first iteration
    kind: str | None  # the kind of flag that is wanted
    adds: bool  # iterations add to it, and do nothing else with it
    flag: Var | None = None
    after: Selection | None = None  # after an iteration

    def stays(self, inside: set[Var]) -> bool:
        """True if no flag is needed to say which elements are used after any iteration."""
        if self.start is None and self.after is not None and not self.after.number:
            self.after = None  # flags for elements would cost more than they tell
        if self.after is None:
            return self.adds or self.start is None
        if not self.after.needs.isdisjoint(inside):
            return False
        return self.adds or (self.start is not None and self.start.key == self.after.key)

    def kind_of_flag(self, value: Any) -> str:
        """The kind of flag that tells which elements are used."""
        if self.after is None:
            return "none"
        if (self.phi.type.ndim and not self.after.number) or self.is_told_by_element(value):
            return "array"
        return "number" if self.after.tested else "iterated"

    def is_told_by_element(self, value: Any) -> bool:
        """True if tests say which elements are used."""
        if self.after is None or not self.after.tested or not self.phi.type.ndim:
            return False
        return _by_element(value, self.phi)

    def behind(self, ran: Selection | None) -> Selection | None:
        """The selection after the loop, which may have had no iteration."""
        if self.start is None or ran is None:
            return self.after
        return either(ran if self.after is None else both(ran, self.after), self.start)


def _by_element(value: Any, phi: Var) -> bool:
    """True if iterations add to elements, or to parts, of an adjoint."""
    versions = Versions(current().definitions)
    earlier = versions.earlier(value.atom if isinstance(value, Array) else value, until=(phi,))
    stores = (versions.made[v] for v in earlier if v in versions.made)
    return any(
        item not in (None, slice(None))
        for s in stores
        if is_store(s)
        for item in s.params["index"]
    )


def iterated(s: For | While, count: Any, rank: int) -> Selection | None:
    """The selection of what a loop uses in each iteration: None if there is always one.

    ``count`` is the number of iterations of a ``while``. A loop over sizes is taken to have an
    iteration for an array, whose ``rank`` is not zero: most of them go over its own elements.
    """
    builder = current()
    low, high = 0, count
    if isinstance(s, For):
        low, high = (s.start, s.stop) if s.step > 0 else (s.stop, s.start)
        trip = builder.dim_of(wrap(high)) - builder.dim_of(wrap(low))
        of_sizes = dim_symbols(trip) <= builder.dims.arguments
        if builder.dims.always_nonnegative(trip - 1) or (rank and of_sizes):
            return None
    needs = frozenset(a for a in (low, high) if isinstance(a, Var))
    key = ("iterated", low, high)
    return Selection(lambda: wrap(high) > wrap(low), key, True, needs, tested=False)
