"""Snapshots: as many states of a loop as a given memory holds; others are computed again.

The forward loop saves its state now and then. The reverse loop starts from the last state saved,
runs the iterations that lie between again, saves further states on the way, in the places that have
become free, and gets to the state that it needs::

    for i in range(n):                             for i in range(n - 1, -1, -1):
        if i == next_saved:                            last = saved - 1
            x_saved[saved] = x                         x = x_saved[last]
            saved_at[saved] = i            ->          for j in range(saved_at[last], i):
            saved = saved + 1                              (saves as the forward loop does)
            next_saved = i + ...                           x = step(x)
        x = step(x)                                    x_bar = ...

With ``free`` places for states of ``rest`` iterations, the next state is saved after
``max(1, 2 * rest // (free + 2))`` iterations: at once if there is a place for each; else in steps
that fall as the free places do, so that each iteration is run again once if the places are about as
many as the root of twice the iterations, and about as seldom as in any schedule if they are fewer
(Griewank and Walther, Algorithm 799: revolve, 2000, has the fewest; this is within a tenth of it
down to the cube root).

A ``while`` does not know how many iterations are to come: it saves at even steps, and where no
place is left it gives up every second state, and doubles the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.transpiler.autodiff.tape.storage import Buffers
from calque.transpiler.autodiff.tape.trip_counts import apply_operator, wrap_atom
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import (
    definition_order,
    definitions_in,
    first_use,
    insert_before,
    prune_block,
)
from calque.transpiler.ir.builder import Array, atom, current
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Var, While
from calque.transpiler.ir.phases import FROM_STATE
from calque.transpiler.ir.quotients import is_symbol
from calque.transpiler.ir.rewrite import cloned, emit_loop, inlined, rename_symbols, symbols_of
from calque.transpiler.ir.types import INT, ArrayType, dim_symbols
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.called import bounded_call
from calque.transpiler.primitives.creation import empty, space
from calque.transpiler.primitives.indexing import getitem, update

_POSITION = 8  # bytes of the number that says of which iteration a state is


def amount(memory: int) -> str:
    """A number of bytes for readers.

    >>> amount(500_000_000), amount(1536), amount(2**31)
    ('500 MB', '1536 bytes', '2147483648 bytes')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if memory % size == 0:
            return f"{memory // size} {unit}"
    return f"{memory} bytes"


def state_of(body: Block, place: Mapping[Var, int], needed: set[int]) -> set[int]:
    """The positions of carried values from which a loop's body computes those that are needed.

    ``place`` has the positions of the carried values; ``body.results`` are their next values.
    """
    while True:
        step = core.clone(Block(body.statements, [body.results[k] for k in sorted(needed)]), {})
        prune_block(step)
        more = {place[v] for v in core.free_vars(step) if v in place}
        if more <= needed:
            return needed
        needed = needed | more


@dataclass(eq=False)
class SavedStates:
    """The values that the loops carry for the states saved."""

    arrays: list[Var]  # one for each value of the state, and one for the iterations they are of
    saved: Var  # the number of states
    next_saved: Var  # the iteration whose state is saved next
    stride: Var  # the iterations from one state saved to the next, where their number is not known

    @property
    def all(self) -> list[Var]:
        """All of it, in order."""
        return [*self.arrays, self.saved, self.next_saved, self.stride]

    def again(self) -> SavedStates:
        """The same with Vars of its own."""
        new = [var.again() for var in self.all]
        return SavedStates(new[:-3], *new[-3:])


@dataclass(eq=False)
class Snapshots:
    """The states saved of one loop: how they are saved, and how the reverse loop gets to others."""

    recorder: Buffers
    loop: For | While
    memory: int
    block: Block  # the body of the reverse loop
    index: Array  # its counter

    def __post_init__(self) -> None:
        self.builder = self.recorder.builder
        self.counter = self._counter()
        self.body = self._opened(self.loop.body)
        self.phis = self.loop.phis

    def resolve(self) -> tuple[list[Var], list[Atom]]:
        """Write all that is needed; return what the reverse loop carries for it, and its inits."""
        self._compute_again()
        self.state = self._needed_state()
        if not self.state:
            return [], []
        kept = self._save_forth()
        phis = kept.again()
        self.block.results += self._run_again(phis)
        return phis.all, list(kept.all)

    def _noting(self, text: str) -> Any:
        """Let generated code say this in place of the user's statement."""
        origin = self.loop.origin
        return self.builder.at(None if origin is None else replace(origin, note=text))

    def _rename_symbols(self, step: Block, counter: Atom) -> None:
        """Give sizes and counters that an iteration defines other symbols: it is an earlier one."""
        builder = self.builder
        inner = symbols_of(builder, [*core.defined_vars(step), self.counter])
        inner -= symbols_of(builder, self.recorder.visible_at(self.loop))
        renamed: dict[str, Any] = {name: builder.dims.fresh() for name in sorted(inner)}
        own = builder.dim_of(self.counter)
        if is_symbol(own):
            renamed[next(iter(dim_symbols(own)))] = builder.dim_of(counter)
        rename_symbols(builder, step, renamed)

    # the state

    def _opened(self, body: Block) -> Block:
        """The loop's body with the statements of the call that it is."""
        copy = cloned(self.builder, body, {})
        opened = Block([], copy.results)
        mapping: dict[Var, Any] = {}
        for s in copy.statements:
            called = bounded_call(s)
            if called is None or not isinstance(s, Apply):
                opened.statements.append(s)
                continue
            made = inlined(self.builder, called.parts["value"].block, called.actual(s))
            opened.statements += made.statements
            mapping.update(zip(s.outs, made.results, strict=True))
        core.substitute(opened, mapping)
        return opened

    def _counter(self) -> Var:
        """The loop's counter: the reverse loop has its own in place of it."""
        if isinstance(self.loop, For):
            return self.loop.index
        return self.recorder.counter_of(self.loop)[0]

    def _compute_again(self) -> None:
        """Let the reverse loop compute what it needs of an iteration from the state before it."""
        core.substitute(self.block, {self.counter: self.index.atom})
        order = definition_order(self.loop)
        made = definitions_in(self.loop.body)
        while True:
            pending = [v for v in core.free_vars(self.block) if v in made]
            if not pending:
                return
            value = max(pending, key=lambda v: order[v])
            (again,) = cloned(self.builder, Block([made[value]]), {}).statements
            self.block.statements.insert(first_use(self.block, value), again)
            core.substitute(self.block, dict(zip(made[value].outs, again.outs, strict=True)))
            core.substitute(self.block, {self.counter: self.index.atom})

    def _needed_state(self) -> list[int]:
        """The positions of the carried values from which iterations can be run again."""
        place = {phi: k for k, phi in enumerate(self.phis) if phi is not self.counter}
        needed = {place[v] for v in core.free_vars(self.block) if v in place}
        return sorted(state_of(self.body, place, needed))

    def _step(self, state: Sequence[int], mapping: dict[Var, Any]) -> Block:
        """The statements of one iteration that give these carried values."""
        results = [self.body.results[k] for k in state]
        made = cloned(self.builder, Block(self.body.statements, results), mapping)
        prune_block(made)
        return made

    # positions of iterations, from 0

    def _position(self, index: Array) -> Any:
        if isinstance(self.loop, While):
            return index
        start, step = wrap_atom(self.loop.start), self.loop.step
        ended: Any = index if type(start) is int and not start else index - start
        return ended if step == 1 else -ended if step == -1 else ended // step

    def _index_at(self, position: Array) -> Any:
        if isinstance(self.loop, While):
            return position
        start, step = wrap_atom(self.loop.start), self.loop.step
        more = position if step == 1 else position * step
        return more if type(start) is int and not start else start + more

    def _iterations(self) -> Any:
        assert isinstance(self.loop, For)
        start, stop, step = wrap_atom(self.loop.start), wrap_atom(self.loop.stop), self.loop.step
        span = stop - start if step > 0 else start - stop
        return span if abs(step) == 1 else (span + (abs(step) - 1)) // abs(step)

    # the forward loop

    def _save_forth(self) -> SavedStates:
        """Let the forward loop save states; return what holds them after it."""
        s, state = self.loop, [self.phis[k] for k in self.state]
        saving = self._noting(f"at most {amount(self.memory)} of states are saved")
        with self.recorder.forward_of(s), self.builder.block() as head, saving:
            self.places = _named("places", self._places())
            arrays = [self._space(p) for p in state]
            at = _named("saved_at", apply(empty, self.places, dtype=np.dtype(int)))
            iterations = None if isinstance(s, While) else self._iterations()
        insert_before(self.recorder.home_of(s), s, head.statements)
        numbers = [Var(INT, name, s.origin) for name in ("saved", "next_saved", "stride")]
        phis = SavedStates([a.atom.again() for a in (*arrays, at)], *numbers)
        inits: list[Any] = [*arrays, at, 0, 0, 1]
        with self.builder.block() as code, self.builder.at(s.origin):
            position = self._position(Array(self.counter))
            rest = None if iterations is None else iterations - position
            after = self._save(position, rest, state, phis)
        s.body.statements[:0] = code.statements
        s.body.results += after.all
        outs = phis.again()
        s.phis, s.outs = (*s.phis, *phis.all), (*s.outs, *outs.all)
        s.inits = (*s.inits, *map(atom, inits))
        return outs

    def _space(self, value: Var) -> Array:
        sizes = self.recorder.sizes_outside(value.type)
        made: Array = apply(empty, self.places, *sizes, dtype=value.type.dtype)
        return _named(self.recorder.saved_name(value), made)

    def _places(self) -> Any:
        """The number of states that the memory holds."""
        types = [self.phis[k].type for k in self.state]
        numbers = sum(t.dtype.itemsize for t in types if not t.ndim) + _POSITION
        alike: dict[Any, list[ArrayType]] = {}  # arrays of the same sizes
        for t in types:
            alike.setdefault((*map(self.builder.dims.resolve, t.dims),), []).append(t)
        arrays = [self._bytes(*same) for sizes, same in alike.items() if sizes]
        size = sum(arrays, start=0) + numbers
        left = self.memory - self._bytes_of_an_iteration()
        if isinstance(self.loop, While):
            return _larger(left // size, 2)
        return _larger(_smaller(left // size, self._iterations()), 1)

    def _bytes(self, *types: ArrayType) -> Any:
        """The bytes of arrays of the same sizes together."""
        product: Any = sum(t.dtype.itemsize for t in types)
        for size in self.recorder.sizes_outside(types[0]):
            product = product * size
        return product

    def _bytes_of_an_iteration(self) -> Any:
        """The bytes that the reverse loop itself saves in one iteration."""
        made = [s for s in self.block.statements if isinstance(s, Apply) and s.primitive is space]
        types = [s.out.type for s in made if self.recorder.sizes_known(s.out.type)]
        return sum(map(self._bytes, types), start=0)

    def _save(
        self, position: Any, rest: Any, state: Sequence[Var], kept: SavedStates
    ) -> SavedStates:
        """Write ``if position == next_saved:`` save the state; return what is kept after that.

        ``rest`` is the number of iterations for whose states there are places, from this one on;
        None if it is not known.
        """
        builder = self.builder
        with builder.block() as then:
            given = kept if rest is not None else self._thinned(kept)
            values = [*map(Array, state), position]
            places = zip(given.arrays, values, strict=True)
            stored = [_stored(array, given.saved, value) for array, value in places]
            saved: Any = _named("saved", Array(given.saved) + 1)
            step: Any = Array(given.stride)
            if rest is not None:
                step = _larger(2 * rest // (self.places - saved + 2), 1)
            following = _named("next_saved", position + step)
            then.results = [atom(v) for v in (*stored, saved, following, given.stride)]
        after = kept.again()
        test = apply_operator("eq", position, Array(kept.next_saved))
        otherwise = Block([], list(kept.all))
        builder.emit(If(tuple(after.all), atom(test), then, otherwise, self.loop.origin))
        return after

    def _thinned(self, kept: SavedStates) -> SavedStates:
        """Write that every second state is given up where no place is left; what is kept then."""
        builder, arrays = self.builder, kept.arrays
        with builder.block() as then:
            half = _named("saved", (Array(kept.saved) + 1) // 2)
            place = Var(INT, "place", builder.origin)
            phis = [a.again() for a in arrays]
            with builder.block() as body:
                other = Array(place) + Array(place)
                body.results = [atom(_stored(a, place, _read(a, other))) for a in phis]
            moved = emit_loop(builder, place, (1, half, 1), phis, arrays, body)
            stride = _named("stride", Array(kept.stride) + Array(kept.stride))
            then.results = [*moved.outs, atom(half), kept.next_saved, atom(stride)]
        after = kept.again()
        full = apply_operator("eq", Array(kept.saved), self.places)
        otherwise = Block([], list(kept.all))
        builder.emit(If(tuple(after.all), atom(full), then, otherwise, builder.origin))
        return after

    # the reverse loop

    def _run_again(self, kept: SavedStates) -> list[Atom]:
        """Write how the reverse loop gets to its state; return what is saved then, for ``kept``."""
        builder, count = self.builder, len(self.state)
        with builder.block() as code, self._noting("the last state saved"):
            position = self._position(self.index)
            last = _named("last", Array(kept.saved) - 1)
            first = _named("first", _read(kept.arrays[-1], last))
            state = [self.phis[k].again() for k in self.state]
            values = [_read(array, last) for array in kept.arrays[:-1]]
            for value, var in zip(values, state, strict=True):
                value.atom.type = var.type  # that of a Python number, too
            inner = kept.again()
            phis = [*state, *inner.all]
            inits = [*values, *kept.arrays, last, first, kept.stride]
            earlier = Var(INT, "earlier", self.loop.origin)
            builder.dim_values[earlier] = builder.dims.fresh()
            with builder.block() as body:
                saved = self._save(Array(earlier), position - Array(earlier), state, inner)
                now = zip((self.phis[k] for k in self.state), state, strict=True)
                mapping: dict[Var, Any] = dict(now)
                mapping[self.counter] = atom(self._index_at(Array(earlier)))
                step = self._step(self.state, mapping)
                self._rename_symbols(step, mapping[self.counter])
                body.statements += step.statements
                body.results = [*step.results, *saved.all]
            with self._noting(FROM_STATE):
                made = emit_loop(builder, earlier, (first, position, 1), phis, inits, body)
        reached = zip((self.phis[k] for k in self.state), made.outs[:count], strict=True)
        core.substitute(self.block, dict(reached))
        self.block.statements[:0] = code.statements
        return list(made.outs[count:])


def _named(name: str, value: Any) -> Any:
    if isinstance(value, Array) and value.atom.name is None:
        value.atom.name = name
    return value


def _larger(left: Any, right: Any) -> Any:
    known = not isinstance(left, Array) and not isinstance(right, Array)
    return max(left, right) if known else np.maximum(left, right)


def _smaller(left: Any, right: Any) -> Any:
    known = not isinstance(left, Array) and not isinstance(right, Array)
    return min(left, right) if known else np.minimum(left, right)


def _stored(array: Var, place: Var, value: Any) -> Any:
    """The array with a value in a place, which is one of its places."""
    found = apply(update, Array(array), value, Array(place), index=(Slot(0),))
    return _proven(_named(array.name or "", found))


def _read(array: Var, place: Any) -> Any:
    return _proven(apply(getitem, Array(array), place, index=(Slot(0),)))


def _proven(value: Any) -> Any:
    made = current().definitions[value.atom]
    assert isinstance(made, Apply)
    made.proven = True
    return value
