"""Bufferization: assign memory to values, with few copies so that stores can be in place.

Stores in Core make new versions; printed stores write in place. ``Memory`` follows each value to
the memory that may hold it, given a set of copies, and finds the first conflict: a store that would
change a value that is still needed. ``settle`` adds copies until there is no conflict, then removes
those that were not needed.

Memory is named by the Var that introduced it: a parameter, a fresh result, a loop's carried value.
A carried value that is stored into is *owned*: at entry and in each iteration it takes over the
memory of a value that is not needed otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from calque.transpiler.errors import CoreError
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import is_store
from calque.transpiler.memory.alias import WriteBack, surely_view, viewed, write_backs
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram, indices
from calque.transpiler.memory.statement_ranges import StatementRanges
from calque.transpiler.primitives.indexing import copy
from calque.transpiler.primitives.shapes import read_only


class CopyLocation(NamedTuple):
    """A program point where memory is copied.

    ``store``: the base, before a store. ``view``: a view, after it is taken. ``base``: the base of
    a write-back. ``init``, ``next``: a carried value, at entry or after an iteration. ``copy``: a
    copy that the program itself has.
    """

    kind: str
    number: int
    place: int = 0


Starts = dict[Atom, tuple[For | While, int]]  # an initial value -> its loop and position


class MemoryFacts:
    """Facts about a program that do not depend on its copies, shared by all trials."""

    def __init__(self, program: PrintedProgram):
        self.statements = list(core.walk(program.body))
        applies = [s for s in self.statements if isinstance(s, Apply)]
        self.stores = [s for s in applies if is_store(s)]
        self.viewed = {id(s): viewed(s) for s in applies}
        self.sure = {id(s) for s in applies if is_store(s) or _is_copy(s) or surely_view(s)}
        self.loops = [s for s in self.statements if isinstance(s, (For, While))]
        self.inside = {id(s): program.defined(s) for s in self.loops}
        self.sources: dict[Var, list[Atom]] = {}  # sources of memory if there are no copies


class Memory:
    """The memory of every Var, if copies are made at ``copies``."""

    def __init__(
        self,
        program: PrintedProgram,
        live: Liveness,
        backs: dict[int, WriteBack],
        copies: frozenset[CopyLocation],
        facts: MemoryFacts | None = None,
    ):
        self.program, self.live, self.backs, self.copies = program, live, backs, copies
        self.facts = facts or MemoryFacts(program)
        self._kinds = {site.kind for site in copies}
        self.takes = {id(b.take): b for b in backs.values()}
        self._backs: dict[Var, tuple[WriteBack, ...]] = {}
        self.unwritable = 1 << len(program.vars)
        self.of = [0] * len(program.vars)
        self._placed = 0  # the Vars that lie in any memory
        self.sources = self._sources()
        self.needed = self._ownership()
        for position, var in enumerate(program.function.params):
            given = position in program.function.written
            self._set(var, program.bit(var) | (0 if given else self.unwritable))
        self._visit(program.body)

    def at(self, atom: Atom) -> int:
        """The set of memories that may hold an atom."""
        return self.of[self.program.index[atom]] if isinstance(atom, Var) else 0

    def copied(self, kind: str, statement: Statement, place: int = 0) -> bool:
        """True if a copy of this kind is made at a statement."""
        if kind not in self._kinds:
            return False
        return CopyLocation(kind, self.program.number[id(statement)], place) in self.copies

    def owned(self, phi: Var) -> bool:
        """True if a carried value owns its memory, because it is stored into."""
        return bool(self.needed & self.program.bit(phi))

    def writes(self, s: Statement) -> int:
        """The set of memories that a statement changes, also inside its blocks."""
        found = 0
        if isinstance(s, Apply) and is_store(s) and id(s) not in self.backs:
            found |= self.at(s.args[0])
        if isinstance(s, (For, While)):
            for phi, init in zip(s.phis, s.inits, strict=True):
                found |= self.at(init) if self.owned(phi) else 0
        for block in core.blocks_of(s):
            for inner in block.statements:
                found |= self.writes(inner)
        return found & ~self.unwritable

    @cached_property
    def changes(self) -> StatementRanges:
        """The names that statements bind, and the memory that they change."""
        return StatementRanges(lambda s: (self.program.defined(s), self.writes(s)))

    # ownership

    def _ownership(self) -> int:
        pending = [s.args[0] for s in self.facts.stores if not self.copied("store", s)]
        found = 0
        while pending:
            var = pending.pop()
            bit = self.program.bit(var)
            if bit and not found & bit:
                found |= bit
                pending.extend(self.sources.get(var, ()))
        return found

    def _sources(self) -> dict[Var, list[Atom]]:
        """The atoms from which each Var takes its memory, one step back."""
        if not self.facts.sources:
            kinds, self._kinds = self._kinds, set()
            self.facts.sources = self._sources_of(self.facts.statements)
            self._kinds = kinds
        copied = {site.number for site in self.copies}
        copied |= {
            self.program.number[id(b.final)]
            for b in self.backs.values()
            if self.copied("base", b.take)
        }
        changed = [self.facts.statements[number] for number in copied]
        return {**self.facts.sources, **self._sources_of(changed)}

    def _sources_of(self, statements: Iterable[Statement]) -> dict[Var, list[Atom]]:
        found: dict[Var, list[Atom]] = {}
        for s in statements:
            match s:
                case Apply():
                    for out in s.outs:
                        found[out] = list(self._taken(s))
                case If():
                    for k, out in enumerate(s.outs):
                        found[out] = [s.then.results[k], s.orelse.results[k]]
                case For() | While():
                    for k, (out, phi) in enumerate(zip(s.outs, s.phis, strict=True)):
                        found[out] = [phi]
                        found[phi] = []
                        if not self.copied("init", s, k):
                            found[phi].append(s.inits[k])
                        if not self.copied("next", s, k):
                            found[phi].append(s.body.results[k])
        return found

    def _taken(self, s: Apply) -> tuple[Atom, ...]:
        """The operands whose memory a statement's result takes over or aliases."""
        if id(s) in self.backs:
            return () if self.copied("base", self.backs[id(s)].take) else s.args[:1]
        if is_store(s):
            return () if self.copied("store", s) else s.args[:1]
        if s.primitive is copy:
            return () if self.copied("copy", s) else s.args
        if self.copied("view", s) or self.copied("base", s):
            return ()
        return self.facts.viewed[id(s)]

    # propagation of memory

    def _set(self, var: Var, memory: int) -> None:
        self.of[self.program.index[var]] = memory
        if memory:
            self._placed |= self.program.bit(var)

    def _visit(self, block: Block) -> None:
        for s in block.statements:
            match s:
                case Apply():
                    self._apply(s)
                case If():
                    self._visit(s.then)
                    self._visit(s.orelse)
                    for k, out in enumerate(s.outs):
                        self._set(out, self.at(s.then.results[k]) | self.at(s.orelse.results[k]))
                case For() | While():
                    self._loop(s)
                case Kernel():
                    self._visit(s.body)

    def _apply(self, s: Apply) -> None:
        back = self.backs.get(id(s)) or self.takes.get(id(s))
        if back is not None and self.copied("base", back.take):
            fresh = self.program.bit(back.final.out)
            self._set(s.out, fresh)
            return
        taken = self._taken(s)
        memory = 0
        for atom in taken:
            memory |= self.at(atom)
            if not isinstance(atom, Var):
                memory |= self.unwritable
        if s.primitive.view_back is read_only and not self.copied("view", s):
            memory |= self.unwritable
        sure = taken and id(s) in self.facts.sure
        if s.primitive.aliases and len(s.outs) > 1:  # they may lie in each other's memory
            memory |= self.program.mask([out for out in s.outs if out.type.ndim])
        for out in s.outs:
            own = s.primitive.kind == "creation" or bool(out.type.ndim)
            self._set(out, memory | (self.program.bit(out) if own and not sure else 0))

    def _loop(self, s: For | While) -> None:
        inside = self.facts.inside[id(s)]
        own = {phi: self.program.bit(phi) for phi in s.phis}
        for k, phi in enumerate(s.phis):
            start = 0 if self.owned(phi) else self.at(s.inits[k])
            self._set(phi, (own[phi] | start) if phi.type.ndim or start else 0)
        while True:
            for block in core.blocks_of(s):
                self._visit(block)
            changed = False
            for k, phi in enumerate(s.phis):
                if not self.owned(phi):
                    reached = self.at(s.body.results[k])
                    shared = (self.at(phi) | (reached & ~inside)) | (own[phi] if reached else 0)
                    changed = changed or shared != self.at(phi)
                    self._set(phi, shared)
            if not changed:
                break
        self._leave(s)

    def _leave(self, s: For | While) -> None:
        """Set the memory of a loop's results: any carried value of earlier iterations."""
        reach = {
            self.program.bit(phi): self.at(phi) | self.at(s.body.results[k])
            for k, phi in enumerate(s.phis)
            if not self.owned(phi)
        }
        for k, (out, phi) in enumerate(zip(s.outs, s.phis, strict=True)):
            memory = self.at(phi)
            if not self.owned(phi):
                memory |= self.at(s.body.results[k])
                before = 0
                while memory != before:
                    before = memory
                    for bit, more in reach.items():
                        memory |= more if memory & bit else 0
            self._set(out, memory)

    # conflicts

    def conflict(self) -> frozenset[CopyLocation] | None:
        """The copies that resolve the first conflict; None if there is no conflict."""
        for store in self.facts.stores:
            sites = self._store_conflict(store)
            if sites:
                return sites
        for loop in reversed(self.facts.loops):
            sites = self._loop_conflict(loop)
            if sites:
                return sites
        return self._returned_conflict()

    def _loop_conflict(self, s: For | While) -> frozenset[CopyLocation]:
        """The copies that resolve the first conflict of an owned value of a loop."""
        owned = [k for k, phi in enumerate(s.phis) if self.owned(phi)]
        kept = [
            k
            for k in owned
            if isinstance(s.inits[k], Var)
            and self.at(s.inits[k]) & self.unwritable
            and not self.copied("init", s, k)
        ]
        if kept:
            return frozenset(CopyLocation("init", self.program.number[id(s)], k) for k in kept)
        shared = {kind: self._shared(s, kind) for kind in ("init", "next")} if owned else {}
        return next(filter(None, (self._carry_conflict(s, k, shared) for k in owned)), frozenset())

    def _shared(self, s: For | While, kind: str) -> int:
        """The memory that carried values may share with each other and with other live values."""
        found = once = 0
        for i in indices(self.live.around(s) & self._placed):
            found |= self.of[i]
        for k, atom in enumerate(s.inits if kind == "init" else s.body.results):
            if not self.copied(kind, s, k):
                found |= once & self.at(atom)
                once |= self.at(atom)
        return found

    def _returned_conflict(self) -> frozenset[CopyLocation] | None:
        """The copy that must be kept because its result is returned and may be stored into."""
        results = [r for r in dict.fromkeys(self.program.body.results) if isinstance(r, Var)]
        once = twice = 0
        for result in results:
            twice |= once & self.at(result)
            once |= self.at(result)
        twice |= self.program.mask(self.program.function.params) | self.unwritable
        for result in results:
            others = twice | (once & ~self.at(result))
            for made in self._copies_behind(result):
                if not self.copied("copy", made) and self.at(made.args[0]) & others:
                    return frozenset([CopyLocation("copy", self.program.number[id(made)])])
        return None

    def _copies_behind(self, result: Atom) -> Iterator[Apply]:
        """Yield the copies on all paths to a result: through views, stores, branches and loops."""
        pending, seen = [result], set[Var]()
        while pending:
            var = pending.pop()
            if isinstance(var, Var) and var not in seen:
                seen.add(var)
                pending += self.sources.get(var, ())
                made = self.program.definition.get(var)
                if isinstance(made, Apply) and _is_copy(made):
                    yield made

    def _store_conflict(self, s: Apply) -> frozenset[CopyLocation]:
        if id(s) in self.backs or self.copied("store", s):
            return frozenset()
        base = s.args[0]
        own = CopyLocation("store", self.program.number[id(s)])
        if not isinstance(base, Var) or self.at(base) & self.unwritable:
            return frozenset([own])
        live = self.live.after(s) & ~self.program.bit(s.out) & ~self._suspended(base, s)
        return self._resolve(self.overlapping(live, self.at(base)), own)

    def _suspended(self, base: Var, store: Apply) -> int:
        """The bases of unfinished write-backs through ``base``, which are not read meanwhile."""
        if not self.takes:
            return 0
        number, found = self.program.number, 0
        for back in self._backs_behind(base):
            if number[id(store)] < number[id(back.final)]:
                found |= self.program.bit(back.base)
        return found

    def _backs_behind(self, var: Var) -> tuple[WriteBack, ...]:
        """The write-backs on the path to a Var that have not ended before it is defined."""
        number, known, way = self.program.number, self._backs, list[tuple[Var, Apply]]()
        now: Atom = var
        while isinstance(now, Var) and now not in known:
            made = self.program.definition.get(now)
            if not isinstance(made, Apply):
                break
            way.append((now, made))
            taken = made.args[:1] if is_store(made) else viewed(made)[:1]
            now = taken[0] if taken else None
        found = known.get(now, ()) if isinstance(now, Var) else ()
        for now, made in reversed(way):
            found = tuple(b for b in found if number[id(made)] < number[id(b.final)])
            if (back := self.takes.get(id(made))) is not None:
                found = (*found, back)
            known[now] = found
        return found

    def overlapping(self, live: int, memory: int) -> list[Var]:
        """The live Vars that may be in a set of memories."""
        memory &= ~self.unwritable
        return [self.program.vars[i] for i in indices(live & self._placed) if self.of[i] & memory]

    def _carry_conflict(
        self, s: For | While, k: int, shared: dict[str, int]
    ) -> frozenset[CopyLocation]:
        number = self.program.number[id(s)]
        around = self.live.around(s)
        for kind, atoms in (("init", s.inits), ("next", tuple(s.body.results))):
            atom, own = atoms[k], CopyLocation(kind, number, k)
            if own in self.copies or not isinstance(atom, Var):
                continue
            if self.at(atom) & self.unwritable:
                return frozenset([own])
            if not self.at(atom) & shared[kind]:
                continue
            others = [a for j, a in enumerate(atoms) if j != k and not self.copied(kind, s, j)]
            if any(other is atom for other in others):
                return frozenset([own])
            sites = self._resolve(
                self.overlapping(around | self.program.mask(others), self.at(atom)), own
            )
            if sites:
                return sites
        return frozenset()

    def _resolve(self, needed: list[Var], own: CopyLocation) -> frozenset[CopyLocation]:
        """Copy at most two views that are still needed, or otherwise the whole at ``own``."""
        if not needed:
            return frozenset()
        made = [self.program.definition.get(v) for v in needed]
        views = [m for m in made if isinstance(m, Apply) and self._small_view(m)]
        if len(views) == len(needed) and len(views) <= 2:
            return frozenset(CopyLocation("view", self.program.number[id(m)]) for m in views)
        return frozenset([own])

    def _small_view(self, made: Apply) -> bool:
        free = id(made) not in self.takes and not self.copied("view", made)
        return bool(free and made.primitive.view_back is not None and viewed(made))

    def is_forced(self, site: CopyLocation, s: Statement, starts: Starts) -> bool:
        """True if a loop stores into an argument that must be kept: the copy is unavoidable."""
        match site.kind, s:
            case "init", For() | While():
                source, loop, k = s.inits[site.place], s, site.place
            case "copy", Apply() if s.out in starts and not self.program.depth[id(s)]:
                source, (loop, k) = s.args[0], starts[s.out]
                if self.copied("init", loop, k):
                    return False
            case _:
                return False
        kept = source in self.program.function.params and bool(self.at(source) & self.unwritable)
        return kept and self.owned(loop.phis[k])

    def weight(self, site: CopyLocation) -> float:
        """The cost of a copy: ten times more in each loop, half for a view."""
        s = self.facts.statements[site.number]
        depth = self.program.depth[id(s)] + (site.kind == "next")
        return 10.0**depth * (0.5 if site.kind in ("view", "copy") else 1.0)

    def cost(self, copies: frozenset[CopyLocation]) -> float:
        """The total cost of copies."""
        return sum(map(self.weight, copies))


def settle(program: PrintedProgram) -> Memory:
    """The memory of a program without conflicts, with few copies (greedily minimized)."""
    live = program.once(Liveness)
    backs = write_backs(program, live)
    facts = MemoryFacts(program)
    statements = facts.statements
    start = {CopyLocation("copy", n) for n, s in enumerate(statements) if _is_copy(s)}
    start |= {CopyLocation("base", program.number[id(b.take)]) for b in backs.values()}
    first = _resolved(program, live, backs, frozenset(start), facts)
    assert first is not None
    best: Memory = first
    starts: Starts = {init: (s, k) for s in facts.loops for k, init in enumerate(s.inits)}
    for site in sorted(best.copies, key=lambda c: (-best.weight(c), c)):
        forced = best.is_forced(site, statements[site.number], starts)
        if site in best.copies and not forced:
            bound = best.cost(best.copies)
            trial = _resolved(program, live, backs, best.copies - {site}, facts, bound)
            if trial is not None:
                best = trial
    return best


def settled_again(memory: Memory) -> Memory:
    """The same memory for the same program after its Vars and statements were renumbered."""
    program = memory.program
    copies = [s for s in core.walk(program.body) if _is_copy(s)]
    sites = frozenset(CopyLocation("copy", program.number[id(s)]) for s in copies)
    return Memory(program, program.once(Liveness), memory.backs, sites)


def _resolved(
    program: PrintedProgram,
    live: Liveness,
    backs: dict[int, WriteBack],
    copies: frozenset[CopyLocation],
    facts: MemoryFacts,
    bound: float = math.inf,
) -> Memory | None:
    """A memory without conflicts, with copies added if needed; None if they cost ``bound``."""
    while True:
        memory = Memory(program, live, backs, copies, facts)
        more = memory.conflict()
        if more is None:
            return memory
        if more <= copies:
            raise CoreError("a store has no memory of its own")
        copies = copies | more
        if memory.cost(copies) >= bound:
            return None


def _is_copy(s: Statement) -> bool:
    return isinstance(s, Apply) and s.primitive is copy


def copy_locations(memory: Memory) -> Iterator[tuple[CopyLocation, Statement]]:
    """Yield the copies with their statements, in program order."""
    statements = list(core.walk(memory.program.body))
    for site in sorted(memory.copies, key=lambda c: (c.number, c.kind, c.place)):
        yield site, statements[site.number]
