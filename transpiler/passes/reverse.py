"""Reverse mode: the forward program, followed by the sweep back that accumulates adjoints.

Before::

    y = np.exp(x); yield np.sum(y)

After, for the gradient::

    y = np.exp(x); x_bar = y; yield x_bar

Rules are applied statement by statement, from the last to the first. What the sweep needs of values
that exist only inside a loop or an arm of a branch is found by looking at what it came to read, and
is then recomputed, restored or saved (see calque.transpiler.analyses.recording).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler import core
from calque.transpiler.analyses.activity import varied
from calque.transpiler.analyses.cotangents import (
    is_zero,
    match_dtype,
    materialize,
    or_zero,
    same_adjoint,
    same_dims,
    sum_to,
)
from calque.transpiler.analyses.expanding import expand_calls, put_away
from calque.transpiler.analyses.recording import Recorder
from calque.transpiler.analyses.rounds import own_counter, reversed_range
from calque.transpiler.analyses.unread import drop_unread_stores
from calque.transpiler.analyses.versions import current_versions, restorable_versions, shape_source
from calque.transpiler.builder import FUNCTIONS, Array, Builder, loop_index, type_of, wrap
from calque.transpiler.core import Apply, Atom, Block, For, Function, If, Var, While
from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.primitives.base import Scatter, apply, as_array
from calque.transpiler.primitives.calls import Called
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.indexing import update
from calque.transpiler.types import INT

# linear rearrangements: a cotangent that is one number everywhere passes through them unchanged
_REARRANGING = frozenset(
    "np.reshape np.transpose np.swapaxes np.moveaxis np.expand_dims np.squeeze np.flip np.roll "
    "astype copy np.broadcast_to np.sum np.mean np.where".split()
)

# and of these, the rules that take a cotangent of fewer dimensions as it is
_SPREADING = frozenset("astype copy np.broadcast_to np.sum np.mean np.where".split())

Adjoints = dict[Var, Any]


def reverse(
    function: Function, builder: Builder, wrt: Sequence[int], seeds: dict[int, Any]
) -> list[Any]:
    """Append the reverse sweep to ``function.body``, in place; returns the adjoints of ``wrt``.

    ``seeds`` maps positions of results to their cotangents (numbers or Arrays). An adjoint that is
    zero is None. Statements of the sweep are marked in ``function.phases``.
    """
    body = function.body
    inputs = [function.params[i] for i in wrt]
    expand_calls(function, builder, [v for v in inputs if v.type.is_float])
    sweep = Sweep(builder, function, inputs)
    adjoints: Adjoints = {}
    with builder.block() as back:
        for var, dim in list(builder.dim_values.items()):
            if var in sweep.recorder.at_top:
                builder._sizes[-1].setdefault(builder.dims.resolve(dim), var)
        for position, seed in seeds.items():
            sweep.accumulate(adjoints, body.results[position], seed)
        sweep.statements(list(body.statements), adjoints)
        found = []
        for position in wrt:
            var = function.params[position]
            adjoint = adjoints.get(var)
            with builder.at(None):
                found.append(None if adjoint is None else sweep.whole(var, adjoint))
    of_sweep = set(map(id, back.statements))
    body.statements += back.statements
    instead = put_away(function, [a.atom for a in found if isinstance(a, Array)])
    phase = {True: "reverse", False: "forward"}
    function.phases = {id(s): phase[id(s) in of_sweep] for s in body.statements}
    found = [wrap(instead.get(a.atom, a.atom)) if isinstance(a, Array) else a for a in found]
    kept = [a.atom for a in found if isinstance(a, Array)]
    dropped = drop_unread_stores(function, sweep.restores, kept)
    needless = {sweep.restores[out] for out in dropped}
    function.decisions = [
        d for d in sweep.recorder.decisions if d.how != "restored" or d.value not in needless
    ]
    return found


class Sweep:
    """One reverse sweep: which values are active, and how each kind of statement is reversed."""

    def __init__(self, builder: Builder, function: Function, inputs: Sequence[Var]):
        self.builder = builder
        self.function = function
        self.active = varied(function.body, [v for v in inputs if v.type.is_float])
        self.sources = shape_source(function.body)
        self.recorder = Recorder(builder, function)
        self.restored: dict[Var, Array] = {}  # primal versions put back by this sweep
        self.restoring: set[Var] = set()  # primal versions that must be put back
        self.restores: dict[Var, Var] = {}  # the stores that put back, and what they undo

    # adjoints

    def accumulate(self, adjoints: Adjoints, primal: Atom, cotangent: Any) -> None:
        """Add a cotangent to a value's adjoint."""
        if not isinstance(primal, Var) or primal not in self.active or cotangent is None:
            return
        cotangent = match_dtype(cotangent, primal.type)
        old = adjoints.get(primal)
        if old is None:
            adjoints[primal] = Array(cotangent.atom) if isinstance(cotangent, Array) else cotangent
        elif isinstance(old, Array) and isinstance(cotangent, Array):
            adjoints[primal] = old + cotangent
        else:
            adjoints[primal] = old + cotangent if not is_zero(old) else cotangent
        self._name(primal, adjoints[primal])

    def _name(self, primal: Var, adjoint: Any) -> None:
        if isinstance(adjoint, Array) and adjoint.atom.name is None and primal.name is not None:
            adjoint.atom.name = f"{primal.name}_bar"

    def whole(self, primal: Var, adjoint: Any) -> Array:
        """An adjoint with all its primal's dimensions."""
        result = materialize(adjoint, primal.type, self._like(primal))
        self._name(primal, result)
        return result

    def _like(self, primal: Var) -> Array:
        """An array of the primal's shape that is at hand."""
        return Array(self.sources.get(primal, primal))

    def shadow(self, adjoints: Adjoints, primal: Var) -> Array:
        """The adjoint of an array as an array to add into."""
        old = adjoints.get(primal)
        if old is None or is_zero(old):
            made = self.zeros(primal)
        else:
            made = self.whole(primal, old)
        made = Array(as_array(made).atom)  # of a number too: an index may make an array of it
        self._name(primal, made)
        adjoints[primal] = made
        return made

    def zeros(self, primal: Var) -> Any:
        """Zeros of a value's shape."""
        if not primal.type.ndim:
            return 0.0
        source = self.sources.get(primal, primal)
        if source in self.recorder.at_top or source in self.function.params:
            return FUNCTIONS[np.zeros_like](Array(source), dtype=primal.type.dtype)
        return FUNCTIONS[np.zeros](
            self.recorder.sizes(primal.type, Array(source)), primal.type.dtype
        )

    # statements

    def statements(self, statements: Sequence[core.Statement], adjoints: Adjoints) -> None:
        """Reverse a list of statements."""
        for s in reversed(statements):
            with self.builder.at(s.origin):
                match s:
                    case Apply():
                        self.reverse_apply(s, adjoints)
                    case If():
                        self.reverse_if(s, adjoints)
                    case For() | While():
                        self.reverse_loop(s, adjoints)

    def reverse_apply(self, s: Apply, adjoints: Adjoints) -> None:
        """One primitive, by its rule."""
        if s.primitive.kind == "store" and s.outs[0] in self.restoring:
            self._restore(s)
        cotangents = [adjoints.pop(out, None) for out in s.outs]
        if all(c is None for c in cotangents) or not any(o in self.active for o in s.outs):
            return
        primitive = s.primitive
        if primitive.vjp is None and not isinstance(primitive, Called):
            raise NotDifferentiable(
                f"{primitive.name} has no derivative.", s.origin, "use stop_gradient around it"
            )
        if primitive.kind != "elementwise" and primitive.name not in _REARRANGING:
            cotangents = [
                None if c is None else self.whole(o, c)
                for o, c in zip(s.outs, cotangents, strict=True)
            ]
        elif primitive.name in _REARRANGING and self._passes_through(s, cotangents[0], adjoints):
            return
        elif primitive.name in _REARRANGING - _SPREADING:
            cotangents = [self.whole(s.outs[0], cotangents[0])]
        wanted = [isinstance(a, Var) and a in self.active for a in s.args]
        if isinstance(primitive, Called):
            found = primitive.pull(s, cotangents, self.active)
        else:
            args, outs = tuple(wrap(a) for a in s.args), tuple(Array(o) for o in s.outs)
            found = primitive.vjp(tuple(cotangents), outs, args, s.params)
        for arg, need, cotangent in zip(s.args, wanted, found, strict=True):
            if not need or cotangent is None:
                continue
            if isinstance(cotangent, NotDifferentiable):
                raise cotangent
            if isinstance(cotangent, Scatter):
                cotangent.add(self.shadow(adjoints, arg))
                continue
            self.accumulate(adjoints, arg, self._unbroadcast(s, arg, cotangent))

    def _passes_through(self, s: Apply, cotangent: Any, adjoints: Adjoints) -> bool:
        """A number that stands for the whole cotangent of a rearrangement."""
        out, arg = s.outs[0], s.args[0]
        if s.primitive.name in ("np.sum", "np.mean", "np.where") or not out.type.ndim:
            return False
        if type_of(cotangent).ndim:
            return False
        if s.primitive.name == "np.broadcast_to":
            cotangent = sum_to(cotangent, out.type.dims, type_of(arg).dims, self._like(out))
        self.accumulate(adjoints, arg, cotangent)
        return True

    def _unbroadcast(self, s: Apply, arg: Var, cotangent: Any) -> Any:
        have = type_of(cotangent).dims
        spreads = s.primitive.kind == "elementwise" or s.primitive.name in (
            "np.where",
            "np.broadcast_to",
        )
        spread = s.outs[0].type.dims if spreads else have
        if same_dims(spread, arg.type.dims) or (not spreads and len(have) < arg.type.ndim):
            return cotangent
        if not spreads and not have:
            return cotangent
        like = self._like(s.outs[0]) if spreads else cotangent
        return sum_to(cotangent, spread, arg.type.dims, like)

    def _restore(self, s: Apply) -> None:
        """Put back the elements that a store overwrote."""
        before, after = s.args[0], s.outs[0]
        now = self.restored.get(after, Array(after))
        if before in self.restored or not isinstance(before, Var):
            return
        if s.primitive in (room, widened):
            self.restored[before] = now
            return
        old = self.recorder.overwritten(s)
        if not self.recorder.sizes_known(old.type):
            return  # under a mask: the version before is saved as a whole, if it is needed
        index, dynamic = s.params["index"], [wrap(a) for a in s.args[2:]]
        back = apply(update, now, old, *dynamic, index=index)
        back.atom.name = before.name
        self.restored[before] = back
        self.restores[back.atom] = after

    def reverse_if(self, s: If, adjoints: Adjoints) -> None:
        """Both arms, each under the same test."""
        cotangents = [adjoints.pop(out, None) for out in s.outs]
        restores = [o for o in s.outs if o in self.restoring]
        if all(c is None for c in cotangents) and not restores:
            return
        arms = []
        outside = dict(self.restored)
        for arm in (s.then, s.orelse):
            self.restored = dict(outside)
            for out, result in zip(s.outs, arm.results, strict=True):
                if out in self.restoring and isinstance(result, Var):
                    self.restored.setdefault(result, outside.get(out, Array(out)))
            with self.builder.block() as block:
                local: Adjoints = {
                    v: Array(a.atom) if isinstance(a, Array) else a for v, a in adjoints.items()
                }
                for result, cotangent in zip(arm.results, cotangents, strict=True):
                    self.accumulate(local, result, cotangent)
                self.statements(arm.statements, local)
            inner = core.defined_vars(arm)
            arms.append((block, {v: a for v, a in local.items() if v not in inner}, self.restored))
        self.restored = outside
        self._join_arms(s, arms, adjoints)

    def _join_arms(self, s: If, arms: list[Any], adjoints: Adjoints) -> None:
        (then, first, restored_then), (orelse, second, restored_else) = arms
        outs: list[Var] = []
        changed = []
        for var in {**first, **second}:
            a, b = first.get(var), second.get(var)
            old = adjoints.get(var)
            if same_adjoint(a, old) and same_adjoint(b, old):
                continue
            changed.append(var)
            rank_zero = type_of(or_zero(a)).ndim == type_of(or_zero(b)).ndim == 0
            outs.append(self._arm_out(var, [(then, a), (orelse, b)], rank_zero))
        sources = self._restored_by_arms(s)
        for var in sources:
            out = Var(var.type, var.name, s.origin)
            then.results.append(restored_then.get(var, Array(var)).atom)
            orelse.results.append(restored_else.get(var, Array(var)).atom)
            self.restored[var] = Array(out)
            outs.append(out)
        statement = If(tuple(outs), s.test, then, orelse, s.origin)
        by_arm = (restored_then, restored_else)
        self.recorder.resolve_arms(s, statement, by_arm, self.restoring)
        self.builder.emit(statement)
        for var, out in zip(changed, outs, strict=False):
            adjoints[var] = Array(out)

    def _restored_by_arms(self, s: If) -> list[Var]:
        found: dict[Var, None] = {}
        for position, out in enumerate(s.outs):
            if out in self.restoring:
                source = self.recorder.source_of_branch(s, position)
                if source is not None and source not in self.restored:
                    found[source] = None
        return list(found)

    def _arm_out(self, var: Var, arms: list[tuple[Block, Any]], rank_zero: bool) -> Var:
        t = var.type.with_dims(()) if rank_zero else var.type
        out = Var(t, f"{var.name}_bar" if var.name else None, self.builder.origin)
        for block, value in arms:
            self.builder.blocks.append(block)
            self.builder._sizes.append({})
            value = or_zero(value)
            if not rank_zero:
                value = self.zeros(var) if is_zero(value) else self.whole(var, value)
            block.results.append(value.atom if isinstance(value, Array) else value)
            self.builder.blocks.pop()
            self.builder._sizes.pop()
        return out

    # loops

    def reverse_loop(self, s: For | While, adjoints: Adjoints) -> None:
        """The loop back: adjoints of what it carries, and of what it reads, are carried."""
        seeds = {k: adjoints.pop(out) for k, out in enumerate(s.outs) if out in adjoints}
        forced = {k for k, out in enumerate(s.outs) if out in self.restoring}
        if not seeds and not forced:
            return
        inner = core.defined_vars(s.body) | set(s.phis)
        carried = {k for k in seeds if s.phis[k] in self.active}
        outer = [v for v in core.free_vars(s.body) if v in self.active and v not in inner]
        restore = set(forced)
        builder = self.builder
        marks = len(builder.blocks[-1].statements)
        sizes = dict(builder._sizes[-1])
        back_to_start = self.recorder.state()
        while True:
            attempt = LoopAttempt(self, s, seeds, carried, outer, restore, adjoints)
            attempt.run()
            more, unused = attempt.missing(), attempt.unused()
            wanted = restore | attempt.wants_restoring()
            if more <= carried and not unused and wanted == restore:
                break
            if more <= carried:
                outer = [v for v in outer if v not in unused]
            carried |= more
            restore = wanted
            del builder.blocks[-1].statements[marks:]
            builder._sizes[-1] = dict(sizes)
            back_to_start()
            self.restored, self.restoring = attempt.saved_state
        attempt.finish(inner)


class LoopAttempt:
    """One try at the loop back, with a guess at what it carries."""

    def __init__(
        self,
        sweep: Sweep,
        s: For | While,
        seeds: dict[int, Any],
        carried: set[int],
        outer: list[Var],
        restore: set[int],
        adjoints: Adjoints,
    ):
        self.sweep, self.s, self.seeds = sweep, s, seeds
        self.carried, self.outer, self.restore = sorted(carried), outer, sorted(restore)
        self.adjoints = adjoints
        self.phis: list[Var] = []
        self.inits: list[Atom] = []
        self.block = Block()

    def run(self) -> None:
        """Write the body of the loop back."""
        sweep, s, builder = self.sweep, self.s, self.sweep.builder
        self.saved_state = (dict(sweep.restored), set(sweep.restoring))
        for k in self.carried:
            seed = self.seeds.get(k)
            init = (
                sweep.zeros(s.outs[k])
                if seed is None or is_zero(seed)
                else sweep.whole(s.outs[k], seed)
            )
            self._carry(init, s.phis[k], f"{s.phis[k].name}_bar" if s.phis[k].name else None)
        for var in self.outer:
            self._carry(
                sweep.shadow(dict(self.adjoints), var)
                if var.type.ndim
                else or_zero(self.adjoints.get(var)),
                var,
                f"{var.name}_bar" if var.name else None,
            )
        for k in self.restore:
            now = sweep.restored.get(s.outs[k], Array(s.outs[k]))
            self._carry(now, s.phis[k], s.phis[k].name)
            sweep.restoring |= restorable_versions(s, k) or set()
        with builder.block() as self.block:
            self.index = self._index()
            sweep.recorder.enter(s, self.index)
            self._body()
            sweep.recorder.leave()
        self.live = self._reads()

    def _carry(self, init: Any, like: Var, name: str | None) -> None:
        t = like.type if not (like.type.weak and isinstance(init, Array)) else init.type
        self.phis.append(Var(t, name, self.s.origin))
        self.inits.append(init.atom if isinstance(init, Array) else init)

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
        for k, bar in zip(self.carried, bars, strict=False):
            sweep.accumulate(local, s.body.results[k], Array(bar.atom))
        for k, bar in zip(self.restore, bars[n + len(self.outer) :], strict=True):
            result = s.body.results[k]
            if isinstance(result, Var):
                sweep.restored[result] = Array(bar.atom)
        sweep.statements(s.body.statements, local)
        self.local = local
        for k in self.carried:
            value = local.get(s.phis[k])
            value = sweep.zeros(s.phis[k]) if value is None or is_zero(value) else value
            value = sweep.whole(s.phis[k], value)
            self.block.results.append(value.atom if isinstance(value, Array) else value)
        for var in self.outer:
            value = sweep.whole(var, local[var])
            self.block.results.append(value.atom if isinstance(value, Array) else value)
        for k in self.restore:
            back = sweep.restored.get(s.phis[k])
            self.block.results.append(s.phis[k] if back is None else back.atom)

    def missing(self) -> set[int]:
        """Phis that got an adjoint but are not carried."""
        return {k for k, p in enumerate(self.s.phis) if self.local.get(p) is not None}

    def unused(self) -> set[Var]:
        """Outer values whose adjoint the body leaves alone."""
        return {
            v
            for v in self.outer
            if isinstance(self.local[v], Array) and self.local[v].atom is self.outer_before[v]
        }

    def wants_restoring(self) -> set[int]:
        """Carried arrays of which the body reads old versions at several places."""
        return self.sweep.recorder.wants_restoring(self.s, self.live, self.sweep.restored)

    def _reads(self) -> dict[Var, None]:
        """The primal values of the loop's inside that the body of the loop back needs."""
        from calque.transpiler.analyses.liveness import prune

        trial = core.clone(self.block, {})
        live = {r for r in trial.results if isinstance(r, Var)}
        prune(trial, live)
        inner = core.defined_vars(self.s.body) | set(self.s.phis)
        return {
            v: None for v in core.free_vars(trial) if v in inner and v not in self.sweep.restored
        }

    def finish(self, inner: set[Var]) -> None:
        """Emit the loop back, and let what it needs be recorded by the loop forth."""
        sweep, s, builder = self.sweep, self.s, self.sweep.builder
        restored_inside = sweep.restored
        sweep.restored, sweep.restoring = self.saved_state
        restored = {v: a for v, a in current_versions(restored_inside).items() if v in inner}
        bounds = sweep.recorder.resolve_loop(s, self.block, self.index, restored)
        outs = [Var(p.type, p.name, s.origin) for p in self.phis]
        start, stop, step = bounds if bounds is not None else reversed_range(builder, s)
        builder.emit(
            For(
                tuple(outs),
                self.index.atom,
                start,
                stop,
                step,
                tuple(self.phis),
                tuple(self.inits),
                self.block,
                s.origin,
            )
        )
        n = len(self.carried)
        for k, out in zip(self.carried, outs, strict=False):
            sweep.accumulate(self.adjoints, s.inits[k], Array(out))
        for var, out in zip(self.outer, outs[n:], strict=False):
            previous = self.adjoints.get(var)
            inits = [s.inits[k] for k in self.carried]
            if var in inits:
                self._merge(var, out, previous, inits, outs)
            else:
                self.adjoints[var] = Array(out)
        for k, out in zip(self.restore, outs[n + len(self.outer) :], strict=True):
            if isinstance(s.inits[k], Var):
                sweep.restored[s.inits[k]] = Array(out)

    def _merge(self, var: Var, out: Var, previous: Any, inits: list[Atom], outs: list[Var]) -> None:
        """A value that the loop both starts from and reads: both adjoints count."""
        total: Any = Array(out)
        for init, bar in zip(inits, outs, strict=False):
            if init is var:
                total = total + Array(bar)
        self.adjoints[var] = total
