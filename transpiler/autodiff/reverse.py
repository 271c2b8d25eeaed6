"""Reverse mode: the forward program, followed by the reverse sweep that accumulates adjoints.

Before::

    y = np.exp(x); yield np.sum(y)

After, for the gradient::

    y = np.exp(x); x_bar = y; yield x_bar

Rules are applied statement by statement, from the last to the first. Values that exist only inside
a loop or an arm of a branch, and that the sweep turned out to read, are then read again,
recomputed, restored or saved (see calque.transpiler.autodiff.tape.policy).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.transpiler.algebra.last_elements import carry_last_elements
from calque.transpiler.algebra.symmetry import symmetries
from calque.transpiler.autodiff.activity import varied
from calque.transpiler.autodiff.dead_stores import remove_dead_stores
from calque.transpiler.autodiff.loop_invariants import hoist_loop_invariants
from calque.transpiler.autodiff.reverse_loop import Adjoints, LoopAttempt
from calque.transpiler.autodiff.rule_expansion import expand_rules, remove_rule_markers
from calque.transpiler.autodiff.tape.policy import Recorder
from calque.transpiler.autodiff.tape.restored_versions import shape_source
from calque.transpiler.autodiff.unbroadcast import (
    carried_number,
    is_zero,
    match_dtype,
    materialize,
    or_zero,
    same_adjoint,
    same_dims,
    sum_to,
)
from calque.transpiler.autodiff.usage_flags import UsageFlags, flag_arms, note_flag, steep_values
from calque.transpiler.errors import NotDifferentiable, Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, type_of, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Var, While
from calque.transpiler.ir.pass_manager import Pass, Work, run_passes
from calque.transpiler.ir.phases import answers, label, label_before_sweep
from calque.transpiler.ir.roles import give_words
from calque.transpiler.ir.target import Target
from calque.transpiler.late import Late
from calque.transpiler.primitives.axes import expand_dims, squeeze, transpose
from calque.transpiler.primitives.base import apply, as_array
from calque.transpiler.primitives.called import Called
from calque.transpiler.primitives.einsum import einsum
from calque.transpiler.primitives.elementwise import astype, where
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.guards import guarded, note_branch
from calque.transpiler.primitives.guards_of_stores import note_selections
from calque.transpiler.primitives.indexing import copy, update
from calque.transpiler.primitives.rearranging import roll
from calque.transpiler.primitives.record import Scatter
from calque.transpiler.primitives.reductions import mean, sum_
from calque.transpiler.primitives.scaling import added, twice_for_two
from calque.transpiler.primitives.selections import selections
from calque.transpiler.primitives.shapes import broadcast_to, reshape
from calque.transpiler.primitives.smooth import is_smooth

if TYPE_CHECKING:
    from calque.transpiler.loops.products import raised_products
else:
    raised_products = Late("calque.transpiler.loops.products.raised_products")

# linear rearrangements: a cotangent with equal elements passes through them as a scalar; the rules
# of the first ones accept a cotangent of fewer dimensions
_SPREADING = (astype, copy, broadcast_to, sum_, mean, where)
_REARRANGING = (*_SPREADING, reshape, transpose, expand_dims, squeeze, roll)


def reverse(
    function: Function, builder: Builder, wrt: Sequence[int], seeds: dict[int, Any]
) -> list[Any]:
    """Append the reverse sweep to ``function.body``, in place; return the adjoints of ``wrt``.

    ``seeds`` maps positions of results to their cotangents (numbers or Arrays). An adjoint that is
    zero is None. Statements are labelled with their phase.
    """
    body = function.body
    inputs = [function.params[i] for i in wrt]
    work = Work(function, builder, Target(), inputs=[v for v in inputs if v.type.is_float])
    run_passes(BEFORE_SWEEP, work)
    builder.symmetries = symmetries(function)
    sweep = Sweep(builder, function, inputs)
    adjoints: Adjoints = {}
    with builder.block() as back, selections():
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
    label_before_sweep(body.statements)
    label(back.statements, "reverse")
    body.statements += back.statements
    function.swept = True
    work.kept = [a.atom if isinstance(a, Array) else a for a in found]
    work.restores = sweep.restores
    run_passes(AFTER_SWEEP, work)
    function.decisions = [
        d for d in sweep.recorder.decisions if d.how != "restored" or d.value not in work.needless
    ]
    return [wrap(k) if isinstance(a, Array) else a for a, k in zip(found, work.kept, strict=True)]


def _origin_of_reverse(s: core.Statement) -> Origin | None:
    """The origin of what answers a statement; it says so where that is of an inner sweep."""
    rule = s.primitive.rule if isinstance(s, Apply) else ""
    if s.origin is None or not (rule or answers(s.phase)):
        return s.origin
    of_derivative = s.origin.of_derivative or answers(s.phase)
    return replace(s.origin, of_derivative=of_derivative, rule=rule)


def _remove_rule_markers(w: Work) -> None:
    instead = remove_rule_markers(w.function, w.kept)
    w.kept = [instead.get(a, a) if isinstance(a, Var) else a for a in w.kept]
    label([s for s in w.function.body.statements if not s.phase], "forward")


def _remove_dead_stores(w: Work) -> None:
    dropped = remove_dead_stores(w.function, w.restores, w.kept)
    w.needless = {w.restores[out] for out in dropped}


def _has_loops(w: Work) -> bool:
    """True if a program has loops over ranges: one without them need not import a pass for them."""
    return any(isinstance(s, For) for s in core.walk(w.function.body))


# facts
RULES = "a call of a function with rules is the statements that its rule records"
NO_MARKERS = "no statement marks a tangent or a result of a rule"

BEFORE_SWEEP = (
    Pass("expand_rules", lambda w: expand_rules(w.function, w.builder, w.inputs), makes=[RULES]),
    Pass(
        "raise_products",
        lambda w: raised_products.raise_products(w.function, w.builder, sizes_known=False),
        needs=[RULES],
        when=_has_loops,
        optional=True,
        reorders=True,
    ),
    Pass(
        *("hoist_loop_invariants", lambda w: hoist_loop_invariants(w.function.body, w.builder)),
        needs=[RULES],
        optional=True,
    ),
    Pass(
        *("carry_last_elements", lambda w: carry_last_elements(w.function.body, w.builder)),
        needs=[RULES],
        optional=True,
    ),
)
AFTER_SWEEP = (
    Pass("remove_rule_markers", _remove_rule_markers, makes=[NO_MARKERS]),
    Pass("remove_dead_stores", _remove_dead_stores, needs=[NO_MARKERS], optional=True),
)


class Sweep:
    """One reverse sweep: which values are active, and how each kind of statement is reversed."""

    def __init__(self, builder: Builder, function: Function, inputs: Sequence[Var]):
        self.builder = builder
        self.function = function
        self.active = varied(function.body, [v for v in inputs if v.type.is_float])
        self.steep = steep_values(function.body, self.active)
        self.here = {*function.params, *core.outs_of(function.body)}  # defined in the present block
        self.sources = shape_source(function.body)
        self.forward = core.defined_vars(function.body)
        self.roles = give_words(function.body, builder.named, builder.definitions)
        self.recorder = Recorder(builder, function)
        self.restored: dict[Var, Array] = {}  # primal versions restored by this sweep
        self.restoring: set[Var] = set()  # primal versions that must be restored
        self.restores: dict[Var, Var] = {}  # the stores that restore, and the stores they undo
        self.summed: set[Var] = set()  # outer values to whose adjoints each iteration adds

    def bends(self, block: Block) -> bool:
        """True if an active operation of a block has a slope that may be infinite."""
        return any(
            isinstance(s, Apply) and not is_smooth(s) and not self.active.isdisjoint(s.outs)
            for s in core.walk(block)
        )

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
            adjoints[primal] = added(old, cotangent)
        else:
            adjoints[primal] = old + cotangent if not is_zero(old) else cotangent
        self._name(primal, adjoints[primal])

    def _name(self, primal: Var, adjoint: Any) -> None:
        if isinstance(adjoint, Array) and adjoint.atom.name is None:
            if adjoint.atom in self.forward:
                return  # the adjoint is a value of the user's program, too
            if primal.name is not None or primal in self.summed:
                adjoint.atom.name = self.builder.name_of_adjoint(primal)
            if adjoint.atom.name is None:
                self.roles.name_beside(primal, adjoint.atom, "bar")

    def whole(self, primal: Var, adjoint: Any) -> Array:
        """An adjoint with all its primal's dimensions."""
        result = materialize(adjoint, primal.type, self._like(primal))
        self._name(primal, result)
        return result

    def _like(self, primal: Var) -> Array:
        """An available array of the primal's shape."""
        return Array(self.sources.get(primal, primal))

    def shadow(self, adjoints: Adjoints, primal: Var) -> Array:
        """The adjoint of an array as an array to add into."""
        old = adjoints.get(primal)
        if old is None or is_zero(old):
            made = self.zeros(primal)
        else:
            made = self.whole(primal, old)
        made = Array(as_array(made).atom)  # also for a scalar: an index may make it an array
        if primal.type.dtype.kind == "c":
            made = FUNCTIONS["cast"](made, primal.type.dtype)
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
            with self.builder.at(_origin_of_reverse(s)):
                match s:
                    case Apply():
                        self.reverse_apply(s, adjoints)
                    case If():
                        self.reverse_if(s, adjoints)
                    case For() | While():
                        self.reverse_loop(s, adjoints)

    def reverse_apply(self, s: Apply, adjoints: Adjoints) -> None:
        """Reverse one primitive, by its rule."""
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
        if primitive.kind != "elementwise" and primitive not in _REARRANGING:
            cotangents = [
                None if c is None else self.whole(o, c)
                for o, c in zip(s.outs, cotangents, strict=True)
            ]
        elif primitive in _REARRANGING and self._passes_through(s, cotangents[0], adjoints):
            return
        elif primitive in _REARRANGING and primitive not in _SPREADING:
            cotangents = [self.whole(s.outs[0], cotangents[0])]
        wanted = [isinstance(a, Var) and a in self.active for a in s.args]
        if isinstance(primitive, Called):
            found = primitive.pull(s, cotangents, self.active)
        else:
            self.builder.selections.reversing = s
            args, outs = tuple(wrap(a) for a in s.args), tuple(Array(o) for o in s.outs)
            found = primitive.vjp(tuple(cotangents), outs, args, s.params)
            note_selections(s, found)
        for arg, need, cotangent in twice_for_two(s.args, wanted, found):
            if not need or cotangent is None:
                continue
            if isinstance(cotangent, NotDifferentiable):
                raise cotangent
            if isinstance(cotangent, Scatter):
                cotangent.add(self.shadow(adjoints, arg))
                continue
            self.accumulate(adjoints, arg, self._unbroadcast(s, arg, guarded(cotangent)))

    def _passes_through(self, s: Apply, cotangent: Any, adjoints: Adjoints) -> bool:
        """Pass a scalar that stands for a whole cotangent through a rearrangement; True if done."""
        out, arg = s.outs[0], s.args[0]
        if s.primitive in (sum_, mean, where) or not out.type.ndim:
            return False
        if type_of(cotangent).ndim:
            return False
        if s.primitive is broadcast_to:
            shapes = out.type.dims, type_of(arg).dims
            cotangent = sum_to(cotangent, *shapes, self._like(out), self._like(arg))
        self.accumulate(adjoints, arg, cotangent)
        return True

    def _unbroadcast(self, s: Apply, arg: Var, cotangent: Any) -> Any:
        if s.primitive.kind == "store" and arg is s.args[0]:
            return cotangent  # the same size, or as many elements as at the end
        have = type_of(cotangent).dims
        spreads = s.primitive.kind == "elementwise" or s.primitive in (where, broadcast_to)
        spread = s.outs[0].type.dims if spreads else have
        if same_dims(spread, arg.type.dims) or (not spreads and len(have) < arg.type.ndim):
            return cotangent
        if not spreads and not have:
            return cotangent
        like = self._like(s.outs[0]) if spreads else cotangent
        if s.primitive is einsum:  # takes its sizes from the other operands
            spread = self.builder.broadcast([have, arg.type.dims])
        whole = spreads or s.primitive.kind == "store"
        return sum_to(cotangent, spread, arg.type.dims, like, self._like(arg), whole)

    def _restore(self, s: Apply) -> None:
        """Restore the elements that a store overwrote."""
        before, after = s.args[0], s.outs[0]
        now = self.restored.get(after, Array(after))
        if before in self.restored or not isinstance(before, Var):
            return
        if s.primitive in (room, widened):
            self.restored[before] = now
            return
        old = self.recorder.overwritten(s)
        if not self.recorder.sizes_known(old.type):
            return  # a store under a mask: the version before is saved as a whole, if needed
        index, dynamic = s.params["index"], [wrap(a) for a in s.args[2:]]
        back = apply(update, now, old, *dynamic, index=index)
        back.atom.name = before.name
        self.restored[before] = back
        self.restores[back.atom] = after

    def reverse_if(self, s: If, adjoints: Adjoints) -> None:
        """Reverse a branch: both arms, each under the same test."""
        cotangents = [adjoints.pop(out, None) for out in s.outs]
        restores = [o for o in s.outs if o in self.restoring]
        if all(c is None for c in cotangents) and not restores:
            return
        arms = []
        outside, around = dict(self.restored), self.here
        own = [(arm, list(arm.results)) for arm in (s.then, s.orelse)]  # saved values follow these
        for arm, results in own:
            self.restored, self.here = dict(outside), core.outs_of(arm)
            for out, result in zip(s.outs, arm.results, strict=True):
                if out in self.restoring and isinstance(result, Var):
                    self.restored.setdefault(result, outside.get(out, Array(out)))
            with self.builder.block() as block:
                local: Adjoints = {
                    v: Array(a.atom) if isinstance(a, Array) else a for v, a in adjoints.items()
                }
                for result, cotangent in zip(results, cotangents, strict=True):
                    self.accumulate(local, result, cotangent)
                self.statements(arm.statements, local)
            inner = core.defined_vars(arm)
            arms.append((block, {v: a for v, a in local.items() if v not in inner}, self.restored))
        self.restored, self.here = outside, around
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
            if a is not None and same_adjoint(a, b):
                adjoints[var] = a  # computed before the branch
                continue
            changed.append(var)
            rank_zero = type_of(or_zero(a)).ndim == type_of(or_zero(b)).ndim == 0
            outs.append(self._arm_out(var, [(then, a), (orelse, b)], rank_zero))
        flags = flag_arms(changed, self, s, then, orelse)
        outs += [flag for _, flag in flags]
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
        for place, flag in flags:
            note_flag(outs[place], flag)
        inner = Block([*s.then.statements, *then.statements], then.results)
        other = Block([*s.orelse.statements, *orelse.statements], orelse.results)
        note_branch(s.test, statement.outs, inner, other)
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
        out = Var(t, self.builder.name_of_adjoint(var), self.builder.origin)
        for block, value in arms:
            self.builder.blocks.append(block)
            self.builder._sizes.append({})
            value = or_zero(value)
            if not rank_zero:
                value = self.zeros(var) if is_zero(value) else self.whole(var, value)
            value = carried_number(value, t)
            block.results.append(value.atom if isinstance(value, Array) else value)
            self.builder.blocks.pop()
            self.builder._sizes.pop()
        return out

    # loops

    def reverse_loop(self, s: For | While, adjoints: Adjoints) -> None:
        """Reverse a loop: the reverse loop carries the adjoints of what ``s`` carries and reads."""
        seeds = {k: adjoints.pop(out) for k, out in enumerate(s.outs) if out in adjoints}
        forced = {k for k, out in enumerate(s.outs) if out in self.restoring}
        if not seeds and not forced:
            return
        inner = core.defined_vars(s.body) | set(s.phis)
        carried = {k for k in seeds if s.phis[k] in self.active}
        outer = [v for v in core.free_vars(s.body) if v in self.active and v not in inner]
        restore = set(forced)
        passed: set[int] = set()
        changed: set[int] = set()  # those assumed to pass unchanged that did change
        flags: dict[Any, str] = {}
        builder = self.builder
        marks = len(builder.blocks[-1].statements)
        sizes = dict(builder._sizes[-1])
        back_to_start = self.recorder.state()
        while True:
            attempt = LoopAttempt(
                self, s, seeds, carried, outer, restore, adjoints, passed, UsageFlags(self, flags)
            )
            attempt.run()
            more, unused = attempt.missing(), attempt.unused()
            wanted = restore | attempt.wants_restoring()
            unchanged = attempt.unchanged()
            changed |= passed - unchanged
            settled = more <= carried and not unused and wanted == restore
            if settled and unchanged - changed == passed and not attempt.flags.missing:
                break
            flags = {**flags, **attempt.flags.missing}
            passed = unchanged - changed
            if more <= carried:
                outer = [v for v in outer if v not in unused]
            carried |= more
            restore = wanted
            del builder.blocks[-1].statements[marks:]
            builder._sizes[-1] = dict(sizes)
            back_to_start()
            self.restored, self.restoring = attempt.saved_state
        attempt.finish(inner)
