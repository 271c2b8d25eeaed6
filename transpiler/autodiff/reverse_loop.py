"""The reverse loop: the loop that the reverse sweep writes for a loop of the forward program.

It carries the adjoints of the values that the forward loop carries and reads. Which of these values
have an adjoint is known only after the body has been reversed: the sweep writes the body with a
guess, and again until the guess holds. An invariant adjoint, as that of a sum, is not carried::

    for i in range(n):                  for i in range(n - 1, -1, -1):
        s = s * x[i]            ->          x_bar[i] += s_bar * s_saved[i]
                                            s_bar = s_bar * x[i]
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.autodiff.tape.restored_versions import current_versions, restorable_versions
from calque.transpiler.autodiff.tape.trip_counts import own_counter, reversed_range
from calque.transpiler.autodiff.unbroadcast import (
    carried_number,
    is_zero,
    or_zero,
    same_adjoint,
)
from calque.transpiler.autodiff.usage_flags import UsageFlags
from calque.transpiler.ir import core
from calque.transpiler.ir.arrays import type_of
from calque.transpiler.ir.builder import Array, loop_index
from calque.transpiler.ir.core import Apply, Atom, Block, For, Var, While
from calque.transpiler.ir.dead_code import prune
from calque.transpiler.ir.rewrite import emit_loop
from calque.transpiler.ir.types import INT, ArrayType
from calque.transpiler.ir.versions import Versions
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.smooth import may_be_infinite

Adjoints = dict[Var, Any]


class LoopAttempt:
    """One attempt at the reverse loop, with a guess at the adjoints that it carries."""

    def __init__(
        self,
        sweep: Any,
        s: For | While,
        seeds: dict[int, Any],
        carried: set[int],
        outer: list[Var],
        restore: set[int],
        adjoints: Adjoints,
        passed: set[int],
        flags: UsageFlags,
    ):
        self.sweep, self.s, self.seeds, self.flags = sweep, s, seeds, flags
        self.carried, self.same = sorted(carried - passed), sorted(passed)
        self.outer, self.restore = outer, sorted(restore)
        self.passed: dict[int, Any] = {}  # the loop-invariant adjoints
        self.adjoints = adjoints
        self.phis: list[Var] = []
        self.sized: dict[Var, ArrayType] = {}
        self.inits: list[Atom] = []
        self.block = Block()

    def run(self) -> None:
        """Write the body of the reverse loop."""
        sweep, s, builder = self.sweep, self.s, self.sweep.builder
        self.saved_state = (dict(sweep.restored), set(sweep.restoring))
        for k in self.same:
            start = carried_number(self._start(k), s.phis[k].type)
            self.passed[k] = Array(start.atom) if isinstance(start, Array) else start
        for k in self.carried:
            self._carry(self._start(k), s.phis[k], builder.name_of_adjoint(s.phis[k]))
            self._let_size_change(k)
            if self.phis[-1] not in self.sized:
                self.flags.carry(k, s.phis[k], self.inits[-1], self.phis[-1], False)
        for var in self.outer:
            self._carry(
                sweep.shadow(dict(self.adjoints), var)
                if var.type.ndim
                else or_zero(self.adjoints.get(var)),
                var,
                builder.name_of_adjoint(var),
            )
            self.flags.carry(var, var, self.inits[-1], self.phis[-1], True)
        for k in self.restore:
            now = sweep.restored.get(s.outs[k], Array(s.outs[k]))
            self._carry(now, s.phis[k], s.phis[k].name)
            sweep.restoring |= restorable_versions(s, k) or set()
        self._note_infinite()
        self.phis += self.flags.phis
        self.inits += self.flags.inits
        with builder.block() as self.block:
            self.index = self._index()
            sweep.recorder.enter(s, self.index)
            self._body()
            sweep.recorder.leave()
        self.live = self._reads()

    def _note_infinite(self) -> None:
        """Note the carried adjoints that an infinite slope in the loop, or after it, may reach."""
        known = self.sweep.builder.selections
        bends = self.sweep.bends(self.s.body)
        for phi, init in zip(self.phis, self.inits, strict=True):
            known.anywhere[phi] = bends or (
                isinstance(init, Var)
                and may_be_infinite(init, (), known.anywhere, by_element=True)
            )

    def _start(self, k: int) -> Any:
        """The adjoint of carried value ``k`` after the forward loop."""
        out, seed = self.s.outs[k], self.seeds.get(k)
        if seed is None or is_zero(seed):
            return self.sweep.zeros(out)
        return self.sweep.whole(out, seed)

    def _carry(self, init: Any, like: Var, name: str | None) -> None:
        t = like.type if not (like.type.weak and isinstance(init, Array)) else init.type
        self.phis.append(Var(t, name, self.s.origin))
        init = carried_number(init, t)
        self.inits.append(init.atom if isinstance(init, Array) else init)

    def _let_size_change(self, k: int) -> None:
        """Give a carried adjoint another size in each iteration, if its primal changes its size."""
        after, dims = self.s.body.results[k], self.sweep.builder.dims
        if not isinstance(after, Var):
            return
        same = [*map(dims.same, after.type.dims, self.s.phis[k].type.dims)]
        if not all(same):
            bar = self.phis[-1]
            pairs = zip(bar.type.dims, same, strict=True)
            sizes = tuple(size if kept else dims.fresh() for size, kept in pairs)
            self.phis[-1] = Var(bar.type.with_dims(sizes), bar.name, bar.origin)
            start = sizes if self._grows(k) else type_of(self.s.inits[k]).dims
            self.sized[self.phis[-1]] = bar.type.with_dims(start)

    def _grows(self, k: int) -> bool:
        """True if iterations enlarge carried array ``k``; its adjoint keeps the final capacity."""
        versions = Versions.within(self.s.body)
        made = map(versions.made.get, versions.later(self.s.phis[k]))
        return any(isinstance(s, Apply) and s.primitive is room for s in made)

    def _index(self) -> Array:
        if isinstance(self.s, For):
            name = self.s.index.name
        else:
            own = own_counter(self.s)
            name = None if own is None else own[0].name
        builder = self.sweep.builder
        if isinstance(self.s, For):
            index = loop_index(0, 0, name)
            builder.dim_values[index.atom] = builder.dim_of(self.s.index)
            return index
        return Array(Var(INT, name, self.s.origin))

    def _body(self) -> None:
        sweep, s = self.sweep, self.s
        local: Adjoints = {}
        bars = [Array(p) for p in self.phis]
        n = len(self.carried)
        for var, bar in zip(self.outer, bars[n : n + len(self.outer)], strict=True):
            local[var] = bar
        self.outer_before = {v: local[v].atom for v in self.outer}
        sweep.summed.update(self.outer)
        for k, bar in zip(self.carried, bars, strict=False):
            sweep.accumulate(local, s.body.results[k], Array(bar.atom))
        for k, start in self.passed.items():
            sweep.accumulate(local, s.body.results[k], start)
        rest = n + len(self.outer)
        for k, bar in zip(self.restore, bars[rest : rest + len(self.restore)], strict=True):
            result = s.body.results[k]
            if isinstance(result, Var):
                sweep.restored[result] = Array(bar.atom)
        around, sweep.here = sweep.here, {*s.phis, *core.outs_of(s.body)}
        sweep.statements(s.body.statements, local)
        self.local, sweep.here = local, around
        for k in self.carried:
            value = local.get(s.phis[k])
            value = sweep.zeros(s.phis[k]) if value is None or is_zero(value) else value
            value = carried_number(sweep.whole(s.phis[k], value), s.phis[k].type)
            self.block.results.append(value.atom if isinstance(value, Array) else value)
        for var in self.outer:
            value = carried_number(sweep.whole(var, local[var]), var.type)
            self.block.results.append(value.atom if isinstance(value, Array) else value)
        for k in self.restore:
            back = sweep.restored.get(s.phis[k])
            self.block.results.append(s.phis[k] if back is None else back.atom)
        inside = core.defined_vars(s.body) | core.defined_vars(self.block)
        inside |= {*core.bound_vars(s), self.index.atom, *self.phis}
        nexts = dict(zip(self.phis, self.block.results, strict=False))
        self.flags.finish_body(self.block, nexts, inside)

    def missing(self) -> set[int]:
        """The positions of carried values that got an adjoint which is not carried."""
        return {k for k, p in enumerate(self.s.phis) if self.local.get(p) is not None}

    def unchanged(self) -> set[int]:
        """The positions of loop-invariant adjoints: ``s_bar`` of a sum ``s`` that is returned."""
        starts = dict(zip(self.carried, map(Array, self.phis), strict=False)) | self.passed
        sized = {k for k, p in zip(self.carried, self.phis, strict=False) if p in self.sized}
        places = starts.keys() - sized
        return {k for k in places if same_adjoint(self.local.get(self.s.phis[k]), starts[k])}

    def unused(self) -> set[Var]:
        """Outer values whose adjoint the body does not change."""
        return {
            v
            for v in self.outer
            if isinstance(self.local[v], Array) and self.local[v].atom is self.outer_before[v]
        }

    def wants_restoring(self) -> set[int]:
        """The positions of carried arrays of which the body reads several old versions."""
        return self.sweep.recorder.wants_restoring(self.s, self.live, self.sweep.restored)

    def _reads(self) -> dict[Var, None]:
        """The primal values from inside the loop that the body of the reverse loop needs."""
        trial = core.clone(self.block, {})
        live = {r for r in trial.results if isinstance(r, Var)}
        prune(trial, live)
        inner = core.defined_vars(self.s.body) | set(self.s.phis)
        return {
            v: None for v in core.free_vars(trial) if v in inner and v not in self.sweep.restored
        }

    def finish(self, inner: set[Var]) -> None:
        """Emit the reverse loop, and let the forward loop record the values that it needs."""
        sweep, s, builder = self.sweep, self.s, self.sweep.builder
        restored_inside, restoring = sweep.restored, sweep.restoring
        sweep.restored, sweep.restoring = self.saved_state
        restored = {v: a for v, a in current_versions(restored_inside).items() if v in inner}
        bounds = sweep.recorder.resolve_loop(s, self.block, self.index, restored, restoring)
        phis, inits = sweep.recorder.states.pop(id(s), ((), ()))
        self.phis += phis
        self.inits += inits
        outs = [Var(self.sized.get(p, p.type), p.name, s.origin) for p in self.phis]
        span = bounds if bounds is not None else reversed_range(builder, s)
        carried = self.phis, self.inits, self.block, outs
        emit_loop(builder, self.index.atom, span, *carried, origin=s.origin)
        self._note_use(dict(zip(self.phis, outs, strict=True)))
        n = len(self.carried)
        starts = [(s.inits[k], Array(out)) for k, out in zip(self.carried, outs, strict=False)]
        starts += [(s.inits[k], start) for k, start in self.passed.items()]
        for start, bar in starts:
            sweep.accumulate(self.adjoints, start, bar)
        for var, out in zip(self.outer, outs[n:], strict=False):
            if any(var is start for start, _ in starts):
                self._merge(var, out, starts)
            else:
                self.adjoints[var] = Array(out)
        rest = n + len(self.outer)
        for k, out in zip(self.restore, outs[rest : rest + len(self.restore)], strict=True):
            if isinstance(s.inits[k], Var):
                sweep.restored[s.inits[k]] = Array(out)

    def _note_use(self, outs: dict[Var, Var]) -> None:
        """Note which elements of the adjoints after the loop some path has used."""
        count = self.sweep.recorder.counter_of(self.s)[1] if isinstance(self.s, While) else None
        self.flags.finish(self.s, count, outs)

    def _merge(self, var: Var, out: Var, starts: list[tuple[Atom, Any]]) -> None:
        """Add both adjoints of a value that the loop both starts from and reads."""
        total: Any = Array(out)
        for start, bar in starts:
            if start is var:
                total = total + bar
        self.adjoints[var] = total
