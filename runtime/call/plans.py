"""Plans: the programs made for one key of a call, and the values that became part of the key.

Numbers and sizes that interpretation asked for are part of the key, as are choices that the sizes
of a call decide. The function is traced once for each key of a trace: variants for other choices,
or with small sizes written into them, are made of copies of one traced program.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calque.runtime.call.argument_keys import Identity, integers_of, known_value
from calque.runtime.call.loading import Program, Surroundings, conditions_of
from calque.transpiler.diagnostics.placements import Fallback
from calque.transpiler.frontend.captures import Capture
from calque.transpiler.frontend.paths import Path
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.frontend.values.memory_questions import memory_of
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.ir.dims import Bound, InnerSizes, is_small_product
from calque.transpiler.ir.types import Dim, substitute_dim
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.transpiler.loops import size_specialization
else:
    size_specialization = Late("calque.transpiler.loops.size_specialization")

_MOST_READ = 16  # traced programs kept at one time: each takes the room of a program


class Key(NamedTuple):
    """The key by which a call finds its program in a plan."""

    known: frozenset[int]
    values: tuple[Any, ...]
    pinned: tuple[tuple[str, int | None], ...]
    written: bool  # small sizes are in it
    chosen: tuple[bool, ...]

    @property
    def traced(self) -> tuple[Any, ...]:
        """The part of the key that the trace depends on."""
        return self[:3]


class ReadOnce:
    """A traced program for what its trace depends on, as long as what it read is what it was."""

    def __init__(self, traced: Traced, key: tuple[Any, ...], function: Any):
        traced.builder.machine = None  # it holds the arrays that were captured
        self.traced, self.key = traced, key
        self.surroundings = Surroundings.of(traced, function)
        self.conditions, _ = conditions_of(traced)

    def serves(self, key: tuple[Any, ...], sizes: dict[str, int], function: Any) -> bool:
        """True if a program for a call with these sizes can be made of this trace."""
        if self.key != key or not self.surroundings.still_valid(function):
            return False
        known = {**sizes, **capture_sizes(self.surroundings.captures, function)}
        return all(condition(known) for condition in self.conditions)


@dataclass(eq=False)
class Plan:
    """The values and sizes that became part of one key, and the programs made for it so far."""

    leaves: frozenset[int] = frozenset()
    symbols: frozenset[str] = frozenset()
    signs: frozenset[Dim] = frozenset()  # sums of arguments' integers of whose signs is asked
    memory: frozenset[int] = frozenset()  # leaves of which programs ask where they lie
    captures: dict[str, Capture] = field(default_factory=dict)  # where known sizes are read
    choices: dict[Bound, bool] = field(default_factory=dict)  # sizes that decided on a program
    inner: InnerSizes = field(default_factory=dict)  # what loops of these programs go over
    few: dict[str, int] = field(default_factory=dict)  # sizes written into a program of their own
    programs: dict[Any, Program] = field(default_factory=dict)
    uncompiled: bool = False  # Numba could not take it
    left: set[Any] = field(default_factory=set)  # keys of programs that no kernels are made for
    refused: tuple[Fallback, ...] = ()  # why it, or a loop of it, has no kernels any more
    comparing: bool = True  # sizes that only a run knows, in loops (loops.shape_guards)
    former: dict[Any, deque[Program]] = field(default_factory=dict)  # for other captured values
    why: str = ""  # the next program is needed, where the call does not tell
    read: ReadOnce | None = None  # of which programs for further calls can be made

    def note_captures(self, captures: list[Capture]) -> None:
        """Take in where the sizes of captured arrays are read."""
        self.captures = {**self.captures, **{c.name: c for c in captures}}

    def full_key(self, leaves: list[Any], sizes: dict[str, int], function: Any) -> Key:
        """The key that tells a call's program from others of the plan."""
        values = tuple([_hashable(known_value(leaves[i])) for i in sorted(self.leaves)])
        if self.choices and self.captures:
            sizes = {**(self.captured_sizes(function) or {}), **sizes}
        chosen = tuple([is_small_product(c, sizes) for c in self.choices])
        written = self.writes_few(sizes, function)
        pinned = tuple([(s, self.size(s, sizes, function)) for s in sorted(self.symbols)])
        if self.signs:
            known = {**sizes, **integers_of(leaves)}
            values += tuple([(d, is_nonnegative(d, known)) for d in sorted(self.signs, key=str)])
        if self.memory:
            values += tuple([(i, memory_of(leaves[i])) for i in sorted(self.memory)])
        return Key(self.leaves, values, pinned, written, chosen)

    def rename(self, full: Key, sizes: dict[str, int], function: Any) -> bool:
        """Let a program that was made before another one chose have the key of a call it is for.

        False if there is none. A key has all choices of the plan; a program made some of them.
        """
        known = {**(self.captured_sizes(function) or {}), **sizes} if self.captures else sizes
        for key, program in self.programs.items():
            asked = program.traced.choices.items()
            chose = key[:-1] == full[:-1] and len(key[-1]) < len(full[-1])
            if chose and all(is_small_product(c, known) == chosen for c, chosen in asked):
                del self.programs[key]
                self.programs[full] = program
                return True
        return False

    def note_signs(self, traced: Traced) -> None:
        """Take in of what the signs are taken for granted that a program does not have."""
        asked = (d for d in traced.assumptions if d.symbols() & traced.builder.dims.integers.keys())
        self.signs |= frozenset(asked)

    def writes_few(self, sizes: dict[str, int], function: Any) -> bool:
        """True if a call has the small sizes that were written into one of the programs."""
        few = self.few.items()
        return bool(few) and all(self.size(s, sizes, function) == n for s, n in few)

    def has_few(self, sizes: dict[str, int], function: Any) -> bool:
        """True if this call is the first that is worth a program with its small sizes in it.

        There is one such program for a plan: calls with other small sizes share the general one.
        """
        if self.few or not self.inner:
            return False
        captured = self.captured_sizes(function)
        if captured is None:
            return False  # what was captured is no longer there: the function is read again
        self.few = size_specialization.few_and_often(self.inner, {**captured, **sizes})
        return bool(self.few)

    def size(self, name: str, sizes: dict[str, int], function: Any) -> int | None:
        """The present size of an argument's axis, or of a captured array's."""
        if name in sizes:
            return sizes[name]
        label, _, axis = name.rpartition(".")
        if label not in self.captures:
            return None
        try:
            shape = _shape(self.captures[label].path.read(function))
        except Exception:
            return None  # this call's function has captured something else
        return int(shape[int(axis)]) if int(axis) < len(shape) else None

    def captured_sizes(self, function: Any) -> dict[str, int] | None:
        """The present sizes of captured arrays' axes, by their symbols; None if one is not there.

        Functions of one code that are made anew share a plan: what one of them has captured, a
        later one may lack in any way, and reading it may raise whatever a user's code does.
        """
        try:
            return capture_sizes([(c.name, c.path) for c in self.captures.values()], function)
        except Exception:
            return None


@dataclass(frozen=True)
class Request:
    """The call for which a program of a plan is made."""

    plan: Plan
    leaves: list[Any]
    structure: Any
    sizes: dict[str, int]

    def full_key(self, root: Any) -> Key:
        """The key that tells the call's program from others of the plan."""
        return self.plan.full_key(self.leaves, self.sizes, root)

    def pinned(self, root: Any) -> dict[str, int]:
        """The sizes that are written into the program."""
        found = {s: self.plan.size(s, self.sizes, root) for s in self.plan.symbols}
        return {s: size for s, size in found.items() if size is not None}


_recent: weakref.WeakKeyDictionary[Plan, None] = weakref.WeakKeyDictionary()  # the oldest first


def keep(plan: Plan, read: ReadOnce) -> None:
    """Keep a traced program with its plan; the one that was kept first is dropped for it."""
    plan.read = read
    _recent.pop(plan, None)
    _recent[plan] = None
    if len(_recent) > _MOST_READ:
        oldest = next(_recent.keys())
        oldest.read = None
        del _recent[oldest]


def drop_unless_kept(plan: Plan) -> None:
    """Let go of the traced program of a plan that makes no variants of it."""
    if plan not in _recent:
        plan.read = None


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Identity(value)
    if isinstance(value, (float, complex, np.inexact)):
        return (type(value), repr(value))  # 0.0 is not -0.0, and nan is itself
    return (type(value), value)


def _shape(captured: Any) -> tuple[int, ...]:
    """The shape of what was an array when the program was made."""
    held = isinstance(captured, np.ndarray) or is_device_array(captured)
    return captured.shape if held else ()


def is_nonnegative(dim: Dim, known: dict[str, int]) -> bool:
    """True if a sum of sizes and integers is zero or more; for what is not known, too."""
    value = substitute_dim(dim, dict(known))
    return not isinstance(value, int) or value >= 0


def capture_sizes(captures: Iterable[tuple[str, Path]], function: Any) -> dict[str, int]:
    """The present sizes of captured arrays' axes, by their symbols."""
    found = {}
    for name, path in captures:
        for axis, size in enumerate(_shape(path.read(function))):
            found[f"{name}.{axis}"] = int(size)
    return found
