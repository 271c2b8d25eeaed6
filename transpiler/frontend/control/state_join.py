"""The join of the two states that the arms of a run-time branch leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.control.value_join import (
    coerce,
    fresh_leaf,
    stand_in,
    widen,
)
from calque.transpiler.frontend.machine import Completion, Machine
from calque.transpiler.frontend.values.containers.container_kinds import (
    MISSING,
    is_mutable,
    kind_of,
)
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.descriptions import (
    DEAD,
    Clash,
    Constant,
    Description,
    Leaf,
    describe,
    is_number,
    same_type,
)
from calque.transpiler.frontend.values.heap import Snapshot, partners_of, shown_name
from calque.transpiler.frontend.values.key_presence import note_unsure, unsure_key
from calque.transpiler.frontend.values.kinds import kinds_of
from calque.transpiler.frontend.values.list_arrays import GrowingRows
from calque.transpiler.frontend.values.nested_lists import hold_again, holder
from calque.transpiler.frontend.values.optional import Maybe, Mismatch, Presence
from calque.transpiler.frontend.values.tagged import TaggedStructure, TaggedValue, can_be_tagged
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, atom, link, type_of
from calque.transpiler.ir.core import Block, Var
from calque.transpiler.ir.types import ArrayType


@dataclass(eq=False)
class Outcome:
    """One arm, interpreted."""

    block: Block
    value: Any
    after: Snapshot
    dead: bool


class Join:
    """Joins two outcomes of a branch, location by location."""

    def __init__(
        self, machine: Machine, base: Snapshot, outcomes: list[Outcome], node: Any, test: Any
    ):
        self.machine = machine
        self.base = base
        self.outcomes = outcomes
        self.node = node
        self.test = test
        self.outs: list[Var] = []
        self.arrays: list[tuple[Array, list[Any]]] = []  # what was joined, and its cell in each arm
        self.rebuilt: list[
            tuple[Any, list[Any]]
        ] = []  # containers that were rebuilt, and from what
        self.leaves: list[tuple[Any, Any]] = []
        self.memo: dict[tuple[int, int], Any] = {}
        self.flags: dict[Any, Maybe] = {}  # by the flags of both arms
        self.kept: list[Any] = []  # keeps ids in the memo alive
        self.name: str | None = None
        self.earlier: Any = None  # what the place held before the branch

    def run(self, test: Array) -> Any:
        """The joined value of the arms; afterwards the state is the joined state."""
        machine, (one, two) = self.machine, self.outcomes
        writes = self._changed_locations() + self._changed_cells()
        completion = self._join_values(one, two)
        for which, outcome in enumerate(self.outcomes):
            outcome.after.restore()
            builder = machine.builder
            builder.blocks.append(outcome.block)
            builder._sizes.append({})
            for out, pair in zip(self.outs, self.leaves, strict=True):
                value = DEAD if outcome.dead else pair[which]
                if value is DEAD and not outcome.dead:  # never read
                    value = stand_in(out.type)
                outcome.block.results.append(coerce(value, out.type))
            builder.blocks.pop()
            builder._sizes.pop()
        self.base.restore()
        machine._emit_if(test, self.outcomes, self.outs, [], self.node)
        for write in writes:
            write()
        self._link()
        self._mark_rebuilt()
        return completion

    def _join_values(self, one: Outcome, two: Outcome) -> Any:
        if isinstance(one.value, Completion) or isinstance(two.value, Completion):
            live = two if one.dead else one
            if one.dead or two.dead:
                if live.value is None:
                    return None
                if not isinstance(live.value, Completion):  # of a conditional expression
                    return self.join(*self._pair(live, live.value))
                return Completion(live.value.kind, self.join(*self._pair(live, live.value.value)))
            if one.value is None or two.value is None:
                return one.value or two.value
            value = self.join(one.value.value, two.value.value)
            if isinstance(value, Mismatch):
                return value
            return Completion(one.value.kind, value)
        return self.join(one.value, two.value)

    def _pair(self, live: Outcome, value: Any) -> tuple[Any, Any]:
        return (DEAD, value) if live is self.outcomes[1] else (value, DEAD)

    def _changed_locations(self) -> list[Callable[[], None]]:
        writes: list[Callable[[], None]] = []
        one, two = self.outcomes
        live, origin = [o.after for o in (one, two) if not o.dead], self.machine.origin(self.node)
        for key, (container, content) in self.base.contents.items():
            if any(key not in m.contents for m in live) or self.base.kept(key, *live):
                continue  # nothing leads there any more, or nothing is changed
            kind = kind_of(container)
            states = [m.contents[key][1] for m in live]
            kind.join(container, content, states, origin)
            before = self.base.locations(key)
            first = before if one.dead else one.after.locations(key)
            second = before if two.dead else two.after.locations(key)
            for place in {**first, **second, **before}:
                a, b = first.get(place, MISSING), second.get(place, MISSING)
                if one.dead:
                    a = b if b is before.get(place, MISSING) else DEAD
                if two.dead:
                    b = a if a is before.get(place, MISSING) else DEAD
                if a is b and a is before.get(place, MISSING):
                    continue
                self.name = (
                    place if isinstance(place, str) and isinstance(container, Frame) else None
                )
                self.earlier = before.get(place)
                default = kind.lacking(container)
                value = self.join(*(default if v is MISSING else v for v in (a, b)))
                if place == "count" and isinstance(container, GrowingRows):
                    self._note_count(value, a, b)
                if any(unsure_key(self.machine, container, place, v) for v in (a, b)):
                    note_unsure(self.machine, container, place, value)
                writes.append(partial(kind.store, container, place, value))
        self.name = self.earlier = None
        return writes

    def _note_count(self, value: Any, left: Any, right: Any) -> None:
        """A list that is equally long on both paths has that length after them."""
        if isinstance(value, Array) and left is not DEAD and right is not DEAD:
            dim_of, dims = self.machine.builder.dim_of, self.machine.builder.dims
            if dims.same(dim_of(left), dim_of(right)):
                self.machine.builder.dim_values[value._value] = dim_of(left)

    def _changed_cells(self) -> list[Callable[[], None]]:
        writes: list[Callable[[], None]] = []
        one, two = self.outcomes
        for key, (cell, state) in self.base.contents.items():
            if not isinstance(cell, Array):
                continue
            states = [
                state if o.dead else o.after.contents.get(key, (cell, state))[1] for o in (one, two)
            ]
            if all(s[0] is state[0] and s[4] == state[4] and s[5] is state[5] for s in states):
                continue
            poison = next((s[5] for s in states if s[5] is not None), None)
            partners = states[0][4] | states[1][4]
            writes.append(partial(_mark, cell, poison, partners))
            if state[1] is not None or all(s[0] is state[0] for s in states):
                continue
            first, second = states[0][0], states[1][0]
            t = self._cell_type(first.type, second.type)
            out = fresh_leaf(t, self.outs, state[0].name)
            pair = [
                DEAD if o.dead else Array(v)
                for o, v in zip((one, two), (first, second), strict=True)
            ]
            self._note_contiguous(out, (pair[0], pair[1]))
            self.leaves.append((pair[0], pair[1]))
            writes.append(partial(_set_version, cell, out))
        return writes

    def _cell_type(self, left: ArrayType, right: ArrayType) -> ArrayType:
        if left.dims == right.dims:
            return left
        dims = self.machine.builder.dims
        return left.with_dims(tuple(map(dims.join, left.dims, right.dims)))

    def join(self, left: Any, right: Any) -> Any:
        """One value for both paths; a Mismatch if the values do not fit together."""
        if left is right:
            return left
        key = (id(left), id(right))
        if key in self.memo:
            return self.memo[key]
        self.kept += [left, right]
        sources = [left, right]
        left, right = self.outcomes[0].after.frozen(left), self.outcomes[1].after.frozen(right)
        left, right = self._told(left, True), self._told(right, False)
        self.kept += [left, right]
        start = right if left is DEAD or left is MISSING else left
        other = left if start is right else right
        description = describe(start)
        covers = isinstance(description, TaggedStructure) and description.part_of(other) is not None
        if other is MISSING and self._is_plain_name() and not covers and self._can_tag(description):
            message = "it has no value on one path"
            self.memo[key] = self._of_two_kinds(left, right, message)
            return self.memo[key]
        if other is DEAD or other is MISSING:
            if other is MISSING and self._is_plain_name() and is_number(start):
                description = Leaf(type_of(start))
            alone = self._on_one_path(start, other, description)
            if alone is not None:
                self.memo[key] = alone[0]
                return alone[0]
        else:
            description = widen(description, other, spread=False)
        if self.machine.uniform and description.leaf_type() is not None:
            self._require_uniform(left, right)
        if isinstance(description, Clash):
            self.memo[key] = self._of_two_kinds(left, right, description.message)
            return self.memo[key]
        pair = (description.leaf_values(left), description.leaf_values(right))
        made: list[Array] = []
        result = description.instantiate(lambda t: self._leaf(t, made), lambda m: Mismatch(m, None))
        tagged = isinstance(result, TaggedValue)
        of_two = tagged or isinstance(result, Maybe)
        for array, first, second in zip(made, *pair, strict=True):
            leaves = self._from_before(array, first, second) if of_two else (first, second)
            self._note_leaf(array, *leaves, tagged)
        if isinstance(result, Maybe):
            self._unite(result, left, right)
        hold_again(result, holder(sources))
        if not isinstance(result, (Array, Maybe)):
            self.rebuilt.append((result, sources))
        self.memo[key] = result
        return result

    def _can_tag(self, *descriptions: Description) -> bool:
        """True if values of two kinds are asked for, and these may be of one."""
        return self.machine.settings.tagging and all(map(can_be_tagged, descriptions))

    def _of_two_kinds(self, left: Any, right: Any, message: str) -> Any:
        """A tagged value; a Mismatch if none is asked for, or if a store could change it."""
        where = self.machine.origin(self.node)
        if not self.machine.settings.tagging:
            return Mismatch(message, where, self.test)
        values: list[Any] = []
        for which, value in enumerate((left, right)):
            self._ask_for_tags(value)
            part = Constant(value) if value is MISSING else describe(value)
            made: list[Array] = []
            if value is not MISSING and not can_be_tagged(part):
                values.append(Mismatch(message, where, self.test))
                continue
            if all(self._was_there(leaf, which) for leaf in part.leaf_values(value)):
                values.append(value)
                continue
            leaf = partial(self._leaf, made=made)
            values.append(part.instantiate(leaf, lambda m: Mismatch(m, None)))
            for array, own in zip(made, part.leaf_values(value), strict=True):
                self._note_leaf(array, *((DEAD, own) if which else (own, DEAD)))
        return TaggedValue(self.test, values[0], values[1], message)

    def _from_before(self, array: Array, first: Any, second: Any) -> tuple[Any, Any]:
        """Two leaves of one of two values; one from before the branch stands in for none."""
        leaf, which = (second, 1) if first is DEAD else (first, 0)
        if not isinstance(leaf, Array) or (first is not DEAD and second is not DEAD):
            return first, second
        if self._was_there(leaf, which):
            return leaf, leaf
        earlier = isinstance(self.earlier, (Array, Maybe, TaggedValue))
        held = describe(self.earlier).leaf_values(self.earlier) if earlier else ()
        dims = self.machine.builder.dims
        fits = (v for v in held if isinstance(v, Array) and same_type(v.type, array.type, dims))
        other = next(fits, DEAD)
        return (other, leaf) if which else (leaf, other)

    def _was_there(self, value: Any, which: int) -> bool:
        """True if a value of an arm is from before the branch."""
        if not isinstance(value, Array):
            return True
        if id(value) in self.base.contents:
            return True
        inside = core.defined_vars(self.outcomes[which].block)
        return value.is_lasting_number() and value._value not in inside

    def _is_plain_name(self) -> bool:
        return self.name is not None and not self.name.startswith("%")

    def _on_one_path(self, value: Any, other: Any, description: Any) -> tuple[Any] | None:
        """The value to keep, in a tuple, if the other path lacks it; None if both are joined."""
        where = self.machine.origin(self.node)
        if other is MISSING and self.name is None:
            return (Mismatch("it exists on one path only", where, self.test, absent=True),)
        if description.has_leaves():
            return None
        if other is MISSING and self._is_plain_name():
            return (Mismatch("it has no value on one path", where, self.test, True),)
        return (value,)

    def _note_leaf(self, array: Array, first: Any, second: Any, tagged: bool = False) -> None:
        """Record the facts about a joined value that follow from its values in the arms.

        ``tagged``: it belongs to a value whose tag says where it is there.
        """
        one, two = (o.after for o in self.outcomes)
        self.leaves.append((first, second))
        array.poison = one.poison_of(first) or two.poison_of(second)
        self._note_contiguous(array, (first, second))
        cells = [v if isinstance(v, Array) else None for v in (first, second)]
        array.kinds = kinds_of(first) | kinds_of(second) or None
        if array.ndim or any(c is not None and c.is_buffer for c in cells):
            array.is_buffer = not array.ndim
            self.arrays.append((array, [None if c is None else c.root() for c in cells]))
        if tagged:
            self._ask_for_tags(first)
            self._ask_for_tags(second)
        else:
            self._note_unsure(array, (first, second))

    def _ask_for_tags(self, value: Any) -> None:
        """Refuse an alternative that a loop may leave unset: loops tag what they set, if asked."""
        if isinstance(value, Array) and not self.machine.settings.loops_tag:
            self.machine.checked(value, self.name or "", self.node)

    def _unite(self, result: Maybe, left: Any, right: Any) -> None:
        """Unite the flags of values that, in both arms, are None together."""
        of = self.machine.flags.of
        key = (None if left is DEAD else of(left), None if right is DEAD else of(right))
        self.machine.flags.unite([self.flags.setdefault(key, result), result])

    def _told(self, value: Any, holds: bool) -> Any:
        """A value that may be None, resolved if the outcome of the test decides it."""
        return self.machine.decided(value, (atom(self.test), holds))

    def _require_uniform(self, *values: Any) -> None:
        kinds = {type_of(v).dtype for v in values if isinstance(v, Array) or is_number(v)}
        if len(kinds) > 1:
            raise BranchMismatch(
                "np.vectorize makes its result of the first element's dtype, and paths here give "
                f"{' and '.join(sorted(map(str, kinds)))}.",
                self.machine.origin(self.node),
                "give one dtype on every path, or say otypes=[float]",
            )

    def _leaf(self, t: ArrayType, made: list[Array]) -> Array:
        array = fresh_leaf(t, self.outs, shown_name(self.name))
        made.append(array)
        return array

    def _note_contiguous(self, array: Array, values: tuple[Any, Any]) -> None:
        contiguous = self.machine.builder.contiguous
        live = [v for v in values if v is not DEAD and v is not MISSING]
        whole = (
            isinstance(v, Array) and (v._value in contiguous if v.packed is None else v.packed)
            for v in live
        )
        if live and all(whole):
            contiguous.add(array._value)

    def _note_unsure(self, array: Array, values: tuple[Any, Any]) -> None:
        """A name that one path leaves without a value."""
        if not self._is_plain_name():
            return
        unsure = self.machine.unsure
        for value in values:
            if value is MISSING:
                unsure[array._value] = self.test
            elif self.machine.is_unsure(value):
                unsure[array._value] = unsure[value._value]
        if array._value in unsure:
            self.machine.presence[array._value] = (atom(self.test), *map(self._presence, values))

    def _presence(self, value: Any) -> Presence:
        """The paths of an arm that give a name this value: all, none, or those that tests tell."""
        if not self.machine.is_unsure(value):
            return value is not MISSING
        return self.machine.presence.get(value._value, False)

    def _link(self) -> None:
        """Link joined arrays with the cells of either arm whose memory they may share."""
        for which, outcome in enumerate(self.outcomes):
            holders: dict[int, list[Array]] = {}
            for array, roots in self.arrays:
                if roots[which] is None:
                    continue
                cells = partners_of(roots[which], outcome.after)
                others = [other for cell in cells for other in holders.get(id(cell), ())]
                link(array, *(c for c in cells if id(c) in self.base.contents), *others)
                holders.setdefault(id(roots[which]), []).append(array)

    def _mark_rebuilt(self) -> None:
        """Mark containers made anew for both arms, whose originals another name may hold."""
        pairs = [(new, s) for new, sources in self.rebuilt for s in sources if is_mutable(s)]
        if not any(id(s) in self.base.contents for _, s in pairs):
            return
        now = Snapshot(self.machine.roots(), self.machine.owned)
        for new, source in pairs:
            if id(source) in now.contents:
                self.machine.undecided[id(new)] = new
                self.machine.undecided[id(source)] = source


def poison_of(value: Any) -> Any:
    """The origin of a store that may, or may not, have changed an array; else None."""
    return value.poisoned if isinstance(value, Array) else None


def _mark(cell: Array, poison: Any, partners: int) -> None:
    cell.poison = poison
    cell.add_partners(partners)


def _set_version(cell: Array, out: Array) -> None:
    cell._value = out._value
