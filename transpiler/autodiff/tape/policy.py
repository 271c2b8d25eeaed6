"""The policy by which the reverse sweep gets values from inside a loop or an arm of a branch.

For each such value, the first of these that is possible:

1. *at hand*: defined outside, the loop's counter, or an induction variable;
2. *read again*: the array that it was read from, or stored into, still holds it at the end;
3. *recomputed*: by cheap operations (elementwise, index arithmetic, reads), from values that are
   at hand or saved anyway;
4. *restored*: old versions of an array that the loop stores into are restored, element by element,
   if the sweep reads two of them or more: one array saves the elements that stores overwrote;
5. *saved*: in an array indexed by the loop counters, allocated once before the loop nest; for a
   ``while``, in an array that doubles.

A loop whose states take a given memory is another matter: see ``snapshots``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.transpiler.algebra.bitwise_equality import operations
from calque.transpiler.autodiff.tape.counters import count_again, counters_of
from calque.transpiler.autodiff.tape.ragged_storage import FlatSaves
from calque.transpiler.autodiff.tape.restored_versions import (
    current_versions,
    restorable_versions,
    source_of_branch,
    use_versions,
)
from calque.transpiler.autodiff.tape.storage import FIRST_CAPACITY
from calque.transpiler.autodiff.tape.trip_counts import apply_operator, own_counter, wrap_atom
from calque.transpiler.autodiff.tape.unsaved_elements import KeptElements, Sources
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import (
    definition_order,
    definitions_in,
    first_use,
    insert_before,
    ordered_vars,
    prune_block,
)
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.rewrite import cloned
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.late import Late
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.called import memory_of
from calque.transpiler.primitives.creation import space
from calque.transpiler.primitives.indexing import getitem

if TYPE_CHECKING:
    from calque.transpiler.autodiff.tape import snapshots
else:
    snapshots = Late("calque.transpiler.autodiff.tape.snapshots")


@dataclass(frozen=True)
class Decision:
    """The way in which the reverse sweep gets one value, reported by ``explain``."""

    value: Var
    how: str  # "read again", "recomputed", "restored", "saved"
    why: str


@dataclass(eq=False)
class Recorder(FlatSaves):
    """Lets loops and branches of the forward program record what their reverses need."""

    saved_by_store: dict[int, Var] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    # of a loop whose states are saved: what the reverse loop carries for them, and its inits
    states: dict[int, tuple[list[Var], list[Atom]]] = field(default_factory=dict)
    # results of a branch to which an arm (branch id, arm number) contributes only a placeholder
    vacant: dict[tuple[int, int], list[Var]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kept = KeptElements(self.function, self.builder)

    def state(self) -> Callable[[], None]:
        """A function that resets the forward program to its present state."""
        blocks = [self.function.body]
        for s in core.walk(self.function.body):
            blocks += core.blocks_of(s)
        kept = [(b, list(b.statements), list(b.results)) for b in blocks]
        heads: list[tuple[Statement, dict[str, Any]]] = []
        for s in core.walk(self.function.body):
            match s:
                case For() | While():
                    heads.append((s, {"outs": s.outs, "phis": s.phis, "inits": s.inits}))
                case If():
                    heads.append((s, {"outs": s.outs}))
        buffers, stores = dict(self.buffers), dict(self.saved_by_store)
        decided = len(self.decisions)
        vacant = {key: list(outs) for key, outs in self.vacant.items()}

        def back() -> None:
            for block, statements, results in kept:
                block.statements, block.results = list(statements), list(results)
            for s, values in heads:
                for name, value in values.items():
                    setattr(s, name, value)
            self.buffers, self.saved_by_store = dict(buffers), dict(stores)
            del self.decisions[decided:]
            self.vacant = {key: list(outs) for key, outs in vacant.items()}

        return back

    def overwritten(self, store: Apply) -> Array:
        """The elements a store overwrites, read before it."""
        if id(store) not in self.saved_by_store:
            block = self.home_of(store)
            index, dynamic = store.params["index"], store.args[2:]

            def read() -> Any:
                return apply(getitem, Array(store.args[0]), *map(wrap_atom, dynamic), index=index)

            with self.builder.at(store.origin):
                old = self.insert_forward(block, store, read)
            old.atom.name = None
            why = "the reverse phase reads what it was; each store saves what it overwrites"
            self.decisions.append(Decision(store.outs[0], "restored", why))
            self.saved_by_store[id(store)] = old.atom
        return Array(self.saved_by_store[id(store)])

    def source_of_branch(self, s: If, position: int) -> Var | None:
        """The version before an If of an array that its arms only store into."""
        return source_of_branch(s, position)

    def wants_restoring(
        self, s: For | While, live: Iterable[Var], restored: dict[Var, Array]
    ) -> set[int]:
        """The positions of carried arrays of which the sweep needs two old versions or more."""
        sources = Sources(definitions_in(s.body), self.kept)
        found = set()
        for k, phi in enumerate(s.phis):
            if not phi.type.ndim:
                continue
            versions = restorable_versions(s, k)
            if versions is None or len(versions) < 2:
                continue
            needed = [v for v in live if _depends(v, versions, sources)]
            arrays = [v for v in needed if v in versions or v.type.ndim]
            if arrays or len(needed) >= 2:
                found.add(k)
        return found

    def resolve_loop(
        self,
        s: For | While,
        block: Block,
        index: Array,
        restored: dict[Var, Var],
        restoring: set[Var],
    ) -> tuple[Atom, Atom, Atom] | None:
        """Provide the values that the body of the reverse loop needs; return the loop's bounds."""
        restored = _kept(restored, block)
        self.loops.append((s, index))
        memory = memory_of(s.body)
        if memory is not None:
            states = snapshots.Snapshots(self, s, memory, block, index)
            self.states[id(s)] = states.resolve()
            why = f"as many states as {snapshots.amount(memory)} hold; the others are run again"
            self.decisions += [Decision(s.phis[k], "saved", why) for k in states.state]
        else:
            sources = Sources(definitions_in(s.body), self.kept, restored, restoring)
            self._choose(block, s, definition_order(s), sources, index, restored)
        self.loops.pop()
        if isinstance(s, While):
            count = self.counter_of(s)[1]
            last = apply_operator("sub", Array(count), 1)
            return atom(last), -1, -1
        return None

    def _choose(
        self,
        block: Block,
        s: For | While,
        order: dict[Var, int],
        sources: Sources,
        index: Array,
        restored: dict[Var, Var],
    ) -> None:
        definitions = sources.definitions
        at_hand: dict[Var, Atom] = dict(restored)
        counter = s.index if isinstance(s, For) else (own_counter(s) or (None,))[0]
        if counter is not None:
            at_hand[counter] = index.atom
        counters, counted = counters_of(s, definitions), dict[Var, Atom]()
        known = {counter, *counters}
        order = {v: i for v, i in order.items() if v not in known}
        done: dict[int, Apply] = {}
        use_versions(block, at_hand, done)
        if self._sizes_forth(block, s, order):
            order = {v: i for v, i in definition_order(s).items() if v not in known}
            sources.definitions = definitions_in(s.body)
        needed = [v for v in core.free_vars(block) if v in order]
        saved = self._to_save(needed, order, sources)
        saved |= {v for v in needed if not self._in_time(v, block, order, sources, restored)}
        while True:
            use_versions(block, at_hand, done)
            count_again(counters, s, block, index, self, counted)
            pending = [v for v in core.free_vars(block) if v in order]
            if not pending:
                return
            value = max(pending, key=lambda v: order[v])
            made = sources.get(value)
            if isinstance(made, (If, For, While)) and not self._can_save(value):
                self._run_again(value, made, block)
            elif value in saved or not self._is_cheap(value, sources):
                self._save(value, s, block, index)
                order = {v: i for v, i in definition_order(s).items() if v not in known}
                sources.definitions = definitions_in(s.body)
            else:
                self._recompute(value, sources, block)

    def _sizes_forth(self, block: Block, s: For | While, order: dict[Var, int]) -> bool:
        """Let the forward loop read the sizes of arrays that change size; True if there are any."""
        found: dict[tuple[Var, str], Var] = {}
        for inner in [block, *(b for t in core.walk(block) for b in core.blocks_of(t))]:
            for t in list(inner.statements):
                if not is_size(t):
                    continue
                array = t.args[0]
                if not isinstance(array, Var) or array not in order or self.sizes_known(array.type):
                    continue
                key = (array, repr(t.params))
                if key not in found:
                    size = Var(t.outs[0].type, None, t.origin)
                    read = Apply((size,), t.primitive, t.args, t.params, t.origin)
                    target, where = self._after_definition(s, array)
                    target.statements.insert(where, read)
                    self.builder.definitions[size] = read
                    found[key] = size
                inner.statements.remove(t)
                core.substitute(block, {t.outs[0]: found[key]})
        return bool(found)

    def _in_time(
        self,
        value: Var,
        block: Block,
        order: dict[Var, int],
        sources: Sources,
        restored: dict[Var, Var],
    ) -> bool:
        """True if the versions that ``value`` is read from are restored before its first use."""
        if not restored:
            return True
        defined = {o: where for where, t in enumerate(block.statements) for o in t.outs}
        defined.update({v: len(block.statements) for v, now in restored.items() if now is v})
        use = first_use(block, value)
        pending, seen = [value], {value}
        while pending:
            made = sources.get(pending.pop())
            if not isinstance(made, Apply):
                continue
            for a in made.args:
                if isinstance(a, Var) and a in restored and defined.get(restored[a], -1) >= use:
                    return False
                if isinstance(a, Var) and a in order and a not in seen:
                    seen.add(a)
                    pending.append(a)
        return True

    def _to_save(
        self, needed: list[Var], order: dict[Var, int], sources: Sources
    ) -> set[Var]:
        """The values to save: some of those ``needed``, or of their operands."""
        hard = {v for v in needed if not self._is_cheap(v, sources)}
        soft = [v for v in needed if v not in hard]
        leaves: dict[Var, set[Var]] = {}
        for v in soft:
            self._leaves(v, order, sources, leaves)
        new = {leaf for v in soft for leaf in leaves[v]} - hard
        costly = [v for v in soft if leaves[v] - hard]
        if len(new) < len(costly):
            return hard | new
        again = [v for v in costly if not self._can_save(v)]
        return hard | (set(costly) - set(again)) | {leaf for v in again for leaf in leaves[v]}

    def _is_cheap(self, value: Var, sources: Sources) -> bool:
        if sources.holds(value):
            return True
        made, definitions = sources.get(value), sources.definitions
        if not isinstance(made, Apply) or len(made.outs) != 1:
            return False
        if made.primitive.kind == "size" and not self.sizes_known(made.args[0].type):
            return False  # the number is saved, not the array
        if not self.sizes_known(value.type):
            return True
        machine = self.builder.machine  # None where ``calque.check`` checks one statement
        if value.type.dtype.kind in "biu" and machine is not None and machine.settings.compiled:
            # a recomputed test or index must have the same value: see same_bits
            if any(operations(a, definitions) > 1 for a in made.args):
                return False
        return made.primitive.cheap

    def _leaves(
        self,
        value: Var,
        order: dict[Var, int],
        sources: Sources,
        known: dict[Var, set[Var]],
    ) -> set[Var]:
        """The values to save so that ``value`` can be recomputed; also noted in ``known``."""
        if value not in known:
            known[value] = {value}
            if self._is_cheap(value, sources):
                args = core.operands(sources[value])
                inner = [a for a in args if isinstance(a, Var) and a in order]
                found = [self._leaves(a, order, sources, known) for a in inner]
                known[value] = set().union(*found)
        return known[value]

    def _recompute(self, value: Var, sources: Sources, block: Block) -> None:
        made, held = sources[value], sources.holds(value)
        assert isinstance(made, Apply)
        fresh = value.again()
        if value in self.builder.dim_values:
            self.builder.dim_values[fresh] = self.builder.dim_values[value]
        where = first_use(block, value)
        origin, proven = self.origin_at(block, where), held and made.proven
        again = Apply((fresh,), made.primitive, made.args, made.params, origin, proven)
        block.statements.insert(where, again)
        self.builder.definitions[fresh] = again
        core.substitute(block, {value: fresh})
        if value.type.is_float:
            how, why = "recomputed", "its operands are at hand and it is cheap"
            if held:
                how, why = "read again", "its array holds it to the end"
            self.decisions.append(Decision(value, how, why))

    def _can_save(self, value: Var) -> bool:
        buffer = self.buffers.get(value)
        if buffer is None or self.sizes_known(value.type):
            return True
        return not buffer.boxed and self.sizes_known(buffer.value.type)

    def _run_again(self, value: Var, made: Statement, block: Block) -> None:
        """Let the reverse sweep run a loop or a branch again whose result cannot be saved."""
        (again,) = cloned(self.builder, Block([made]), {}).statements
        where = min(first_use(block, out) for out in made.outs)
        block.statements.insert(where, again)
        core.substitute(block, dict(zip(made.outs, again.outs, strict=True)))
        self.decisions.append(Decision(value, "recomputed", "its size changes between iterations"))

    def _save(self, value: Var, s: For | While, block: Block, index: Array) -> None:
        if value in self.buffers:
            buffer = self.buffers[value]
            if self.hoist(buffer, s, block, index):
                return
            if not buffer.boxed and not self.sizes_known(value.type):
                self.flatten(buffer, s, block)
                return
        why = "it is overwritten before the reverse phase reads it"
        self.decisions.append(Decision(value, "saved", why))
        if not self.sizes_known(value.type):
            self.save_flat(value, block)
            return
        growing = isinstance(s, While)

        def allocate() -> Any:
            sizes = self.sizes_outside(value.type)
            capacity = FIRST_CAPACITY if growing else self.capacity_of(s)
            return apply(space, capacity, *sizes, dtype=value.type.dtype)

        home = self.home_of(s)
        with self.forward_of(s), self.builder.block() as allocation:
            first = allocate()
        first.atom.name = self.saved_name(value)
        insert_before(home, s, allocation.statements)
        buffer = self.carry(s, first, value, growing)
        buffer.allocation, buffer.home = allocation.statements, home
        self.buffers[buffer.out] = buffer
        self.read_back(buffer, value, block, index)

    def resolve_arms(
        self, s: If, back: If, restored: tuple[dict[Var, Array], ...], restoring: set[Var]
    ) -> None:
        """Provide the arms of a reversed branch with values from inside the forward arms."""
        arms = ((s.then, back.then), (s.orelse, back.orelse))
        for which, (arm, block) in enumerate(arms):
            inside = core.defined_vars(arm)
            versions = {
                v: now
                for v, now in current_versions(restored[which]).items()
                if v in inside or v in restoring
            }
            use_versions(block, versions)
            versions = _kept(versions, block)
            order = {v: i for i, v in enumerate(ordered_vars(arm))}
            sources = Sources(definitions_in(arm), self.kept, versions, restoring)
            missing = {v: v for v in restoring if v not in versions}
            saved = self._to_save(
                [v for v in core.free_vars(block) if v in order], order, sources
            )
            done: dict[int, Apply] = {}
            while True:
                use_versions(block, versions, done)
                pending = [v for v in core.free_vars(block) if v in order]
                if not pending:
                    break
                value = max(pending, key=lambda v: order[v])
                made = sources.get(value)
                if isinstance(made, (If, For, While)) and not self.sizes_known(value.type):
                    buffer = self.buffers.get(value)
                    if buffer is None and self.loops:
                        self.save_flat(value, block)
                        order = {v: i for i, v in enumerate(ordered_vars(arm))}
                    elif buffer is None or not self.lift(buffer, s, which, block):
                        self._run_again(value, made, block)
                    continue
                cheap = value not in saved and self._is_cheap(value, sources)
                if cheap and self._in_time(
                    value, block, order, sources, {**versions, **missing}
                ):
                    self._recompute(value, sources, block)
                elif self.loops and not self.sizes_known(value.type):
                    self.save_flat(value, block)
                    order = {v: i for i, v in enumerate(ordered_vars(arm))}
                else:
                    core.substitute(block, {value: self._publish(s, which, value)})

    def _publish(self, s: If, which: int, value: Var) -> Var:
        """Make a value of an arm a result of the branch; return it. It is zero on the other path.

        Values of the same name and type in both arms share one result, as only one arm runs.
        """
        arm, other = (s.then, s.orelse) if which == 0 else (s.orelse, s.then)
        vacant = self.vacant.setdefault((id(s), which), [])
        for out in vacant:
            if out.name == value.name and self._same_type(out.type, value.type):
                vacant.remove(out)
                arm.results[s.outs.index(out)] = value
                self.decisions.append(Decision(value, "saved", "as in the other arm"))
                return out
        out = value.again()
        self.vacant.setdefault((id(s), 1 - which), []).append(out)
        arm.results.append(value)
        t = value.type
        self.builder.blocks.append(other)
        with self.forward_of(s):
            try:
                sizes = tuple(self._size_in_loops(d, True) for d in t.dims)
            except CalqueError:
                sizes = (0,) * t.ndim  # no path reads the zero, but it may be saved
                out.type = t.with_dims([self.builder.dims.fresh() for _ in sizes])
            zero = FUNCTIONS[np.zeros](sizes, t.dtype) if sizes else t.dtype.type(0)
        self.builder.blocks.pop()
        other.results.append(atom(zero))
        s.outs = (*s.outs, out)
        self.decisions.append(Decision(value, "saved", "it is computed in an arm and costly"))
        return out

    def _same_type(self, left: ArrayType, right: ArrayType) -> bool:
        resolve = self.builder.dims.resolve
        same = (left.dtype, left.weak) == (right.dtype, right.weak)
        return same and [*map(resolve, left.dims)] == [*map(resolve, right.dims)]


def _kept(versions: dict[Var, Var], block: Block) -> dict[Var, Var]:
    """Prune the block; return the versions that it still restores."""
    before = {out for s in block.statements for out in s.outs}
    prune_block(block)
    gone = before - {out for s in block.statements for out in s.outs}
    return {version: now for version, now in versions.items() if now not in gone}


def _depends(value: Var, versions: set[Var], sources: Sources) -> bool:
    """True if a value is read from one of the versions, directly or by cheap operations."""
    if value in versions:
        return True
    made = sources.get(value)
    if not isinstance(made, Apply) or not made.primitive.cheap:
        return False
    return any(isinstance(a, Var) and _depends(a, versions, sources) for a in made.args)
