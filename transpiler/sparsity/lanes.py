"""All iterations of a loop over numbers at once, each a *lane*: one by one they take longer.

A loop is followed so if its statements are on numbers, if no iteration reads an element that
another one stores, and if numbers that it carries are only added to. Values have a first axis then,
with an element for each lane; a loop within a loop has lanes for all pairs of iterations, an arm of
a branch those that take it. What does not fit raises NotInLanes, and the loop is followed one
iteration after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.primitives.indexing import getitem, update
from calque.transpiler.primitives.templates import concrete_index
from calque.transpiler.sparsity.place_rules import scattered
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, union
from calque.transpiler.sparsity.rules import Coarse, Question, reached
from calque.transpiler.sparsity.unknown_sizes import is_in_part

MOST = 4_000_000  # lanes at a time
FEWEST = 2  # iterations of a loop for which lanes are worth it
_LARGEST = 2.0**62  # of the integers that are computed for all lanes
_GROWING = (np.add, np.subtract, np.multiply, np.power, np.left_shift, np.negative)


class NotInLanes(Exception):
    """A loop must be followed one iteration after the other."""


@dataclass(eq=False)
class LaneValues:
    """A number of each lane: known ones, or what they reach."""

    value: Any  # an array, or ReachedInputs, with one axis


@dataclass(frozen=True, eq=False)
class Latest:
    """The last store into an array: the place and the sets of each lane."""

    places: Any
    sets: ReachedInputs


_ELSEWHERE = Latest(None, none((0,), 0))  # in some lanes, or an addition


@dataclass(frozen=True, eq=False)
class ElementAccess:
    """An element of each lane: the lanes' numbers, the flat places; of a store what is stored.

    ``replaces``: what was there before is gone then.
    """

    lanes: Any
    places: Any
    sets: ReachedInputs
    replaces: bool = False


@dataclass(eq=False)
class StoredArray:
    """An array that a loop stores into: its sets before, and all that is stored."""

    base: Any
    shape: tuple[int, ...]
    stores: list[ElementAccess] = field(default_factory=list)
    reads: list[ElementAccess] = field(default_factory=list)
    latest: Latest | None = None  # the last store, if it was in all lanes at hand
    known: bool = False  # all its elements are numbers that are known, before and afterwards


class LaneRun:
    """One loop followed in lanes; ``outer`` are the values from outside it."""

    def __init__(self, outer: dict[Var, Any], inputs: int, coarse: list[Coarse]):
        self.outer, self.inputs, self.coarse = outer, inputs, coarse
        self.certain = True  # no arm is followed that may not be taken
        self.lanes = np.zeros(0, int)  # the numbers of those that are followed
        self.numbered = 0

    def loop(self, s: For, start: int, stop: int, step: int) -> list[Any]:
        """The results of a loop: arrays with all that was stored, and sums."""
        index = np.arange(start, stop, step)
        if len(index) < FEWEST or len(index) > MOST:
            raise NotInLanes
        values: dict[Var, Any] = {}
        for phi, init in zip(s.phis, s.inits, strict=True):
            before = self._outside(init)
            if phi.type.ndim:
                shape = before.shape if isinstance(before, ReachedInputs) else np.shape(before)
                values[phi] = StoredArray(before, shape, known=type(before) is not ReachedInputs)
            else:
                _check_only_added(phi, s)
                values[phi] = none((), self.inputs)
        values[s.index] = LaneValues(index)
        self.lanes, self.numbered = np.arange(len(index)), len(index)
        results = self.block(s.body, values, len(index))
        found = []
        for phi, init, after in zip(s.phis, s.inits, results, strict=True):
            if phi.type.ndim:
                if after is not values[phi]:
                    raise NotInLanes
                found.append(self._stored(after))
            else:
                total = self._spread(after, len(index)).over([0])
                found.append(union([self._sets(self._outside(init), ()), total], ()))
        return found

    def block(self, block: Block, values: dict[Var, Any], count: int) -> list[Any]:
        """The results of a block for so many lanes."""
        for s in block.statements:
            for var, value in zip(s.outs, self.results(s, values, count), strict=True):
                values[var] = value
        return [self.read(atom, values) for atom in block.results]

    def read(self, atom: Atom, values: dict[Var, Any]) -> Any:
        """The value of an atom: of each lane, or the same for all."""
        if not isinstance(atom, Var):
            return atom
        return values[atom] if atom in values else self._outside(atom)

    def results(self, s: Statement, values: dict[Var, Any], count: int) -> list[Any]:
        """The results of one statement."""
        match s:
            case Apply():
                return self._applied(s, values, count)
            case If():
                return self._branch(s, values, count)
            case For():
                return self._inner(s, values, count)
        raise NotInLanes

    # operations on numbers

    def _applied(self, s: Apply, values: dict[Var, Any], count: int) -> list[Any]:
        operands = [self.read(a, values) for a in s.args]
        if is_store(s):
            return [self._store(s, operands, count)]
        if s.primitive.kind == "size" and isinstance(operands[0], StoredArray):
            operands[0] = np.broadcast_to(0, operands[0].shape)
        if any(var.type.ndim for var in s.outs):
            raise NotInLanes
        if s.primitive is getitem and isinstance(operands[0], StoredArray):
            return [LaneValues(self._read_stored(s, operands, count))]
        if any(isinstance(a, StoredArray) for a in operands):
            raise NotInLanes
        if s.primitive is getitem:
            return [self._element(s, operands, count)]
        if not any(isinstance(a, (LaneValues, ReachedInputs)) for a in operands):
            found = s.primitive.function(*operands, **s.params)
            return [*found] if isinstance(found, tuple) else [found]
        given = [a.value if isinstance(a, LaneValues) else a for a in operands]
        if any(isinstance(a, ReachedInputs) for a in given):
            if any(
                np.ndim(_shaped(a)) > isinstance(b, LaneValues)
                for a, b in zip(given, operands, strict=True)
            ):
                raise NotInLanes
            question = Question(s, given, ((count,),) * len(s.outs), self.inputs, self.coarse)
            return [LaneValues(found) for found in reached(question)]
        return self._computed(s, operands, count)

    def _computed(self, s: Apply, operands: Sequence[Any], count: int) -> list[Any]:
        """Known numbers of all lanes."""
        function = s.primitive.function
        given = [a.value if isinstance(a, LaneValues) else a for a in operands]
        if isinstance(function, np.ufunc) and not s.params:
            found = function(*given)
            if function in _GROWING and np.asarray(found).dtype.kind in "iu":
                rough = function(*(np.asarray(a, float) for a in given))
                if not np.all(np.abs(rough) < _LARGEST):
                    raise NotInLanes  # Python's numbers have no bounds
            return [LaneValues(f) for f in (found if isinstance(found, tuple) else (found,))]
        if any(
            np.ndim(a) and not isinstance(b, LaneValues)
            for a, b in zip(given, operands, strict=True)
        ):
            raise NotInLanes
        columns = [a.value.tolist() if isinstance(a, LaneValues) else [a] * count for a in operands]
        try:
            rows = [function(*row, **s.params) for row in zip(*columns, strict=True)]
        except (ArithmeticError, ValueError):  # in an arm, perhaps, that no run takes
            raise NotInLanes from None
        if len(s.outs) == 1:
            return [LaneValues(np.array(rows))]
        return [LaneValues(np.array(column)) for column in zip(*rows, strict=True)]

    # elements of arrays

    def _places(self, s: Apply, dynamic: Sequence[Any], shape: tuple[int, ...], count: int) -> Any:
        """The flat place of the element that each lane reads or stores."""
        given = [a.value if isinstance(a, LaneValues) else a for a in dynamic]
        if any(isinstance(a, (ReachedInputs, StoredArray)) for a in given):
            raise NotInLanes
        if any(np.ndim(g) > isinstance(a, LaneValues) for a, g in zip(dynamic, given, strict=True)):
            raise NotInLanes  # several elements in each lane
        place = concrete_index(s.params["index"], given)
        if any(item is None or item is Ellipsis or isinstance(item, slice) for item in place):
            raise NotInLanes
        if len(place) != len(shape):
            raise NotInLanes  # a row
        try:
            found = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)[place]
        except IndexError:
            raise NotInLanes from None
        if np.ndim(found) > 1 or (np.ndim(found) == 1 and len(found) != count):
            raise NotInLanes
        return np.broadcast_to(found, (count,))

    def _element(self, s: Apply, operands: Sequence[Any], count: int) -> Any:
        base, *dynamic = operands
        if isinstance(base, LaneValues):
            raise NotInLanes
        places = self._places(s, dynamic, np.shape(_shaped(base)), count)
        if isinstance(base, ReachedInputs):
            return LaneValues(base.reshaped((base.size,)).moved(lambda plane: plane[places]))
        return LaneValues(np.asarray(base).reshape(-1)[places])

    def _store(self, s: Apply, operands: Sequence[Any], count: int) -> StoredArray:
        array, value, *dynamic = operands
        if not isinstance(array, StoredArray):
            raise NotInLanes
        places = self._places(s, dynamic, array.shape, count)
        sets = self._spread(value, count)
        inner = value.value if isinstance(value, LaneValues) else value
        array.known &= self.certain and not isinstance(inner, ReachedInputs)
        replaces = s.primitive is update
        array.stores.append(ElementAccess(self.lanes, places, sets, self.certain and replaces))
        array.latest = Latest(places, sets) if replaces else _ELSEWHERE
        return array

    def _read_stored(self, s: Apply, operands: Sequence[Any], count: int) -> ReachedInputs:
        """An element that only this lane stores to: what it stored, or the element before."""
        array, *dynamic = operands
        places = self._places(s, dynamic, array.shape, count)
        array.reads.append(ElementAccess(self.lanes, places, none((count,), self.inputs)))
        if array.latest is not None:
            if array.latest is _ELSEWHERE or not _same(array.latest.places, places):
                raise NotInLanes
            return array.latest.sets
        base = self._sets(array.base, array.shape)
        return base.reshaped((base.size,)).moved(lambda plane: plane[places])

    def _stored(self, array: StoredArray) -> ReachedInputs:
        """The sets of an array after the loop."""
        size = int(np.prod(array.shape, dtype=int))
        self._check_reads(array, size)
        if array.known:
            raise NotInLanes  # its numbers may decide something
        base = self._sets(array.base, array.shape).reshaped((size,))
        kept = np.ones(size, bool)
        for store in array.stores:
            kept[store.places] &= not store.replaces
        parts = [base.masked(kept)]
        parts += [scattered(store.sets, store.places, (size,)) for store in array.stores]
        return union(parts, (size,)).reshaped(array.shape)

    def _check_reads(self, array: StoredArray, size: int) -> None:
        """Raise NotInLanes if a lane reads an element that another lane stores."""
        if not array.reads:
            return
        first, last = np.full(size, self.numbered), np.full(size, -1)
        for store in array.stores:
            np.minimum.at(first, store.places, store.lanes)
            np.maximum.at(last, store.places, store.lanes)
        for read in array.reads:
            stored = last[read.places] >= 0
            own = (first[read.places] == read.lanes) & (last[read.places] == read.lanes)
            if not np.all(own | ~stored):
                raise NotInLanes

    # branches and loops within

    def _branch(self, s: If, values: dict[Var, Any], count: int) -> list[Any]:
        test = self.read(s.test, values)
        if not isinstance(test, (LaneValues, ReachedInputs)):
            return self.block(s.then if bool(test) else s.orelse, values, count)
        if isinstance(test, ReachedInputs) or isinstance(test.value, ReachedInputs):
            certain, self.certain = self.certain, False
            every = np.arange(count)
            arms = self._some([(s.then, every, {}), (s.orelse, every, {})], values)
            self.certain = certain
            return [self._either(a, b, count) for a, b in zip(*arms, strict=True)]
        taken = np.asarray(test.value) != 0
        chosen = (np.nonzero(taken)[0], np.nonzero(~taken)[0])
        arms = self._some([(s.then, chosen[0], {}), (s.orelse, chosen[1], {})], values)
        return [self._merged(a, b, taken, count) for a, b in zip(*arms, strict=True)]

    def _some(
        self, blocks: Sequence[tuple[Block, Any, dict[Var, Any]]], values: dict[Var, Any]
    ) -> list[list[Any]]:
        """The results of blocks, each for some of the lanes, and with values of its own."""
        arrays = [value for value in values.values() if isinstance(value, StoredArray)]
        before = [array.latest for array in arrays]
        stored, found = set(), []
        lanes = self.lanes
        for block, chosen, own in blocks:
            entries = [_latest_of(latest, chosen) for latest in before]
            for array, entry in zip(arrays, entries, strict=True):
                array.latest = entry
            inside = {var: _taken(value, chosen) for var, value in values.items()}
            self.lanes = lanes[chosen]
            if own:  # of a loop: each of its iterations is a lane
                self.lanes = self.numbered + np.arange(len(chosen))
                self.numbered += len(chosen)
            found.append(self.block(block, inside | own, len(chosen)))
            pairs = zip(arrays, entries, strict=True)
            stored |= {id(array) for array, entry in pairs if array.latest is not entry}
        for array, latest in zip(arrays, before, strict=True):
            array.latest = _ELSEWHERE if id(array) in stored else latest
        self.lanes = lanes
        return found

    def _inner(self, s: For, values: dict[Var, Any], count: int) -> list[Any]:
        """A loop in each lane: lanes for all pairs, put together again afterwards."""
        bounds = [self.read(b, values) for b in (s.start, s.stop, s.step)]
        given = [b.value if isinstance(b, LaneValues) else b for b in bounds]
        if any(isinstance(b, ReachedInputs) for b in given):
            raise NotInLanes
        starts, stops, steps = (np.broadcast_to(np.asarray(b, int), (count,)) for b in given)
        lengths = np.maximum(0, -((starts - stops) // steps))
        if lengths.sum() > MOST:
            raise NotInLanes
        parents = np.repeat(np.arange(count), lengths)
        turn = np.arange(len(parents)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        more: dict[Var, Any] = {s.index: LaneValues(starts[parents] + turn * steps[parents])}
        inits = [self.read(i, values) for i in s.inits]
        for phi, init in zip(s.phis, inits, strict=True):
            if phi.type.ndim and not isinstance(init, StoredArray):
                raise NotInLanes
            if not phi.type.ndim:
                _check_only_added(phi, s)
            more[phi] = init if phi.type.ndim else none((), self.inputs)
        (results,) = self._some([(s.body, parents, more)], values)
        found = []
        for phi, init, after in zip(s.phis, inits, results, strict=True):
            if phi.type.ndim:
                found.append(after)
                continue
            sums = scattered(self._spread(after, len(parents)), parents, (count,))
            found.append(LaneValues(union([sums, self._spread(init, count)], (count,))))
        return found

    # values

    def _outside(self, atom: Atom) -> Any:
        value = self.outer[atom] if isinstance(atom, Var) else atom
        if is_in_part(value):
            raise NotInLanes
        return value

    def _sets(self, value: Any, shape: tuple[int, ...]) -> ReachedInputs:
        return value if isinstance(value, ReachedInputs) else none(shape, self.inputs)

    def _spread(self, value: Any, count: int) -> ReachedInputs:
        """The sets of a number, or of each lane's number, for all lanes."""
        inner = value.value if isinstance(value, LaneValues) else value
        if isinstance(inner, StoredArray) or np.ndim(_shaped(inner)) > isinstance(
            value, LaneValues
        ):
            raise NotInLanes
        return self._sets(inner, np.shape(_shaped(inner))).broadcast((count,))

    def _either(self, a: Any, b: Any, count: int) -> Any:
        """The value of a branch that both arms may make."""
        if a is b:
            return a
        return LaneValues(union([self._spread(a, count), self._spread(b, count)], (count,)))

    def _merged(self, a: Any, b: Any, taken: Any, count: int) -> Any:
        """The value of a branch, of which some lanes take one arm and others the other one."""
        if a is b:
            return a
        if isinstance(a, StoredArray) or isinstance(b, StoredArray):
            raise NotInLanes
        known = [v.value if isinstance(v, LaneValues) else v for v in (a, b)]
        if not any(isinstance(v, ReachedInputs) for v in known):
            found = np.empty(count, np.result_type(*known))
            found[taken], found[~taken] = known
            return LaneValues(found)
        places = (np.nonzero(taken)[0], np.nonzero(~taken)[0])
        parts = [
            scattered(self._spread(v, len(p)), p, (count,))
            for v, p in zip((a, b), places, strict=True)
        ]
        return LaneValues(union(parts, (count,)))


def _shaped(value: Any) -> Any:
    return np.broadcast_to(0, value.shape) if isinstance(value, ReachedInputs) else value


def _taken(value: Any, chosen: Any) -> Any:
    """A value for some of the lanes."""
    if not isinstance(value, LaneValues):
        return value
    if isinstance(value.value, ReachedInputs):
        return LaneValues(value.value.moved(lambda plane: plane[chosen]))
    return LaneValues(value.value[chosen])


def _latest_of(latest: Latest | None, chosen: Any) -> Latest | None:
    """The last store, of some of the lanes."""
    if latest is None or latest is _ELSEWHERE:
        return latest
    return Latest(latest.places[chosen], latest.sets.moved(lambda plane: plane[chosen]))


def _same(a: Any, b: Any) -> bool:
    return a is b or np.array_equal(a, b)


def _check_only_added(phi: Var, s: For) -> None:
    """Raise NotInLanes if a carried number has another use than in what is carried on."""
    if phi.type.dtype.kind not in "fc":  # its value may be asked for after the loop
        raise NotInLanes
    place = s.phis.index(phi)
    if not _only_flows(s.body, {phi}, place):
        raise NotInLanes


def _only_flows(block: Block, own: set[Var], place: int | None) -> bool:
    """True if these numbers are only used in operations whose result goes to one result."""
    for s in block.statements:
        match s:
            case Apply():
                if any(isinstance(a, Var) and a in own for a in s.args):
                    if s.primitive.kind not in ("elementwise", "linear") or is_store(s):
                        return False
                    own |= {*s.outs}
            case If():
                if isinstance(s.test, Var) and s.test in own:
                    return False
                for arm in (s.then, s.orelse):
                    inside = set(own)
                    if not _only_flows(arm, inside, None):
                        return False
                    flows = [r in inside for r in arm.results]
                    own |= {v for v, f in zip(s.outs, flows, strict=True) if f}
            case For():
                if any(isinstance(a, Var) and a in own for a in (s.start, s.stop, s.step)):
                    return False
                inside = own | {
                    phi
                    for phi, i in zip(s.phis, s.inits, strict=True)
                    if isinstance(i, Var) and i in own
                }
                if not _only_flows(s.body, inside, None):
                    return False
                ends = zip(s.outs, s.inits, s.body.results, strict=True)  # without iterations too
                own |= {v for v, i, r in ends if r in inside or (isinstance(i, Var) and i in own)}
            case _:
                return False
    if place is None:
        return True
    return all(k == place or r not in own for k, r in enumerate(block.results))
