"""Compute elements of arrays that are not in memory, inside the loops that read them.

A ``Reader`` is open while a loop nest is written: ``read(x, index)`` gives one element, loaded if
``x`` is in memory, computed from the elements it depends on if ``x`` is virtual. Elements are read
once in a loop's body; elements that depend on outer indices only are read in the outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.frontend.control.value_join import combine
from calque.transpiler.ir.builder import Array, Builder, atom, current, wrap
from calque.transpiler.ir.core import Apply, Slot, Var
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, symbol
from calque.transpiler.loops.accesses import ElementIndex, apart, positive
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import full, ones, ones_like, zeros, zeros_like
from calque.transpiler.primitives.elementwise import astype, where
from calque.transpiler.primitives.growing import widened
from calque.transpiler.primitives.indexing import copy, getitem, update
from calque.transpiler.primitives.shapes import broadcast_to

KEEPS_PLACE = (
    where, copy, astype, broadcast_to,
    full, zeros, zeros_like, ones, ones_like,
)


class Virtual(dict[Var, Apply]):
    """The arrays that are not in memory, with the statements that compute them, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.place: dict[Var, int] = {}

    def __setitem__(self, var: Var, made: Apply) -> None:
        self.place.setdefault(var, len(self.place))
        super().__setitem__(var, made)


class NoElements(Exception):
    """Elements that cannot be computed one by one, due to a statement or an unknown size."""

    def __init__(self, message: str, made: Apply | None = None, size: Dim | None = None):
        super().__init__(message)
        self.made, self.size = made, size


@dataclass(eq=False)
class LoopBody:
    """One open loop body: its block, and the elements that were read in it."""

    depth: int  # of builder.blocks
    found: dict[tuple[Any, ...], Any] = field(default_factory=dict)


class Reader:
    """Read elements of arrays; ``virtual`` are the arrays that are not in memory."""

    def __init__(
        self, builder: Builder, virtual: Virtual, at_hand: Callable[[DimLike], Any]
    ):
        self.builder, self.virtual, self.at_hand = builder, virtual, at_hand
        self.frames = [LoopBody(len(builder.blocks))]
        self.levels: dict[Var, int] = {}  # depth of loop indices and of values computed from them
        self.versions: dict[Var, Any] = {}  # current versions of arrays that the nest stores into
        self.loads: list[tuple[Var, tuple[DimLike, ...]]] = []
        self.computed: list[tuple[Var, tuple[DimLike, ...]]] = []
        # arrays with an element that this iteration has not stored yet; for a store, base and index
        self.unwritten: dict[Var, tuple[Var, ElementIndex] | None] = {}
        self.flat: dict[Var, Array] | None = None  # flat views, in a one-loop nest
        self._sources: dict[Var, frozenset[Var]] = {}
        self._names: dict[Var, Var] = {}  # an index -> the first one with the same value
        self._first: dict[DimLike, Var] = {}
        self.unsafe = False  # an index comes from the user, and may be out of range
        self.proven = False

    @contextmanager
    def loop(self, index: Var) -> Iterator[None]:
        """A context in which elements are read in the body of a loop, whose block is open."""
        self.levels[index] = len(self.frames)
        self.frames.append(LoopBody(len(self.builder.blocks)))
        try:
            yield
        finally:
            self.frames.pop()

    def size(self, dim: DimLike) -> Any:
        """A size, as an integer of the program."""
        return self.at_hand(dim)

    def __call__(self, x: Any, index: Sequence[Any]) -> Any:
        if not isinstance(x, Array):
            return x
        t = x.type
        if not t.ndim:
            return Array(x.atom)
        if self.flat is None:
            dims = [self.builder.dims.resolve(d) for d in t.dims]
            index = list(index)[len(index) - t.ndim :]
            index = [0 if d == 1 else i for d, i in zip(dims, index, strict=True)]
        key = (x.atom, *map(self._named, index))
        for frame in self.frames:
            if key in frame.found:
                return frame.found[key]
        now = [self.versions[v] for v in self._read_by(x.atom) if v in self.versions]
        level = max([self.level_of(i) for i in [*index, *now]], default=0)
        with self._at(level) as frame:
            value = self._element(x.atom, list(index))
        frame.found[key] = value
        return value

    def whole(self, x: Array) -> Array:
        """An array in memory, any element of which may be read."""
        if x.atom in self.virtual:
            raise NoElements("an array that is read as a whole", self.virtual[x.atom])
        self.loads.append((x.atom, tuple(self.builder.dims.fresh() for _ in x.type.dims)))
        return self.versions.get(x.atom, x)

    def _read_by(self, x: Var) -> frozenset[Var]:
        """The arrays in memory from which an element of ``x`` is computed."""
        pending = [x] if x in self.virtual else []
        while pending and x not in self._sources:
            args = [a for a in self.virtual[pending[-1]].args if isinstance(a, Var)]
            more = [a for a in args if a in self.virtual and a not in self._sources]
            if more:
                pending += more
                continue
            inner = [self._sources[a] if a in self.virtual else {a} for a in args]
            self._sources[pending.pop()] = frozenset().union(*inner)
        return self._sources[x] if x in self.virtual else frozenset([x])

    def keep(self, x: Var, index: Sequence[Any], value: Any) -> None:
        """Record an element that this iteration has computed, and will store after its reads."""
        self.frames[-1].found[(x, *map(self._named, index))] = value

    def _named(self, index: Any) -> Any:
        """A canonical variable for an index, the same one for equal values."""
        value = atom(index)
        if isinstance(value, Var) and value not in self._names:
            self._names[value] = self._first.setdefault(self.builder.dim_of(value), value)
        return self._names[value] if isinstance(value, Var) else value

    def level_of(self, value: Any) -> int:
        """The depth of the loop in whose body a value is defined."""
        value = atom(value)
        if not isinstance(value, Var):
            return 0
        if value in self.levels:
            return self.levels[value]
        made = self.builder.definitions.get(value)
        for level in range(len(self.frames) - 1, 0, -1):
            block = self.builder.blocks[self.frames[level].depth - 1]
            if any(s is made for s in reversed(block.statements)):
                self.levels[value] = level
                return level
        return 0

    @contextmanager
    def _at(self, level: int) -> Iterator[LoopBody]:
        """A context in which statements go into the body of an outer loop."""
        frame = self.frames[level]
        blocks, sizes = self.builder.blocks, self.builder._sizes
        frames = self.frames
        self.builder.blocks, self.builder._sizes = blocks[: frame.depth], sizes[: frame.depth]
        self.frames = frames[: level + 1]
        try:
            yield frame
        finally:
            self.builder.blocks, self.builder._sizes, self.frames = blocks, sizes, frames

    def _element(self, x: Var, index: list[Any]) -> Any:
        dims = tuple(self.builder.dim_of(i) for i in index)
        made = self.virtual.get(x)
        if made is None:
            self.loads.append((x, dims))
            return self._load(x, index)
        self.computed.append((x, dims))
        before = self.unsafe
        with self.builder.at(made.origin):
            value = self._compute(made, index)
        self.unsafe = before
        if isinstance(value, Array) and value.atom.name is None and value.atom not in self.virtual:
            value.atom.name, value.atom.word = x.name, value.atom.word or x.word
        return value

    def _load(self, x: Var, index: list[Any]) -> Any:
        if x in self.unwritten:
            store = self.unwritten[x]
            here = tuple(map(self.builder.dim_of, index))
            if store is None or not apart(store[1], here, self.builder):
                raise NoElements("an element that the same iteration writes")
            return self(Array(store[0]), index)
        if self.flat is not None:
            base = self.flat[x]
        else:
            base = self.versions[x] if x in self.versions else Array(x)
        return load(base, index, not self.unsafe)

    def _compute(self, made: Apply, index: list[Any]) -> Any:
        args = [wrap(a) for a in made.args]
        if made.primitive.kind == "elementwise":
            return apply(made.primitive, *[self(a, index) for a in args], **made.params)
        rule = made.primitive.element
        if rule is None:
            raise NoElements(made.primitive.name, made)
        if self.unsafe and made.primitive not in KEEPS_PLACE:
            self._require_inside(made, index)
            self.unsafe = False
        self.proven = made.proven and made.primitive is getitem
        try:
            return rule(self, args, made.params, index)
        except NotImplementedError as error:
            raise NoElements(str(error), made) from None

    def _require_inside(self, made: Apply, index: Sequence[Any]) -> None:
        """Raise NoElements unless a user's index is proven in bounds of the virtual array."""
        for dim, i in zip(made.out.type.dims, index, strict=True):
            place, size = self.builder.dim_of(i), self.builder.dims.resolve(dim)
            below = positive(size - place, self.builder) or (
                isinstance(place, int) and self.builder.dims.assume_nonnegative(size - 1 - place)
            )
            if not below or not positive(place + 1, self.builder):
                raise NoElements("an index that may be outside", made)


def load(base: Array, index: Sequence[Any], inside: bool = True) -> Any:
    """``base[i, j]``; ``inside``: the index is proven in bounds."""
    template, dynamic = _template(index)
    found = apply(getitem, base, *dynamic, index=template)
    made = current().definitions.get(found.atom)
    if isinstance(made, Apply):
        made.proven = inside
    return found


def stored(base: Any, value: Any, index: Sequence[Any], inside: bool = True) -> Array:
    """``base`` with one element replaced: its next version."""
    template, dynamic = _template(index)
    new = apply(update, base, value, *dynamic, index=template)
    made = current().definitions.get(new.atom)
    if isinstance(made, Apply):
        made.proven = inside
    new.atom.name = new.atom.name or base.atom.name
    return Array(new.atom)


def _template(index: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
    template: list[Any] = []
    dynamic: list[Any] = []
    for i in index:
        if isinstance(i, Array):
            template.append(Slot(len(dynamic)))
            dynamic.append(i)
        else:
            template.append(int(i))
    return tuple(template), dynamic


class SizesAtHand:
    """Sizes as integers of the program, read from whatever array in memory has them."""

    def __init__(self, builder: Builder, vague: set[Var]):
        self.builder = builder
        self.vague = vague  # arrays that have no value on some path
        self.arrays: list[Var] = []
        self.numbers: list[Var] = []

    def see(self, variables: Sequence[Any]) -> None:
        """Record variables that can be read from now on."""
        for var in variables:
            if not isinstance(var, Var) or var in self.vague:
                continue
            if var.type.ndim:
                self.arrays.append(var)
            elif var in self.builder.dim_values:
                self.numbers.append(var)

    def mark(self) -> tuple[int, int]:
        """The numbers of arrays and scalars that can be read now, for ``back``."""
        return len(self.arrays), len(self.numbers)

    def back(self, mark: tuple[int, int]) -> None:
        """Forget the variables seen since ``mark``: their block ends."""
        del self.arrays[mark[0] :], self.numbers[mark[1] :]

    def _arrays_of(self, dim: DimLike) -> list[Var]:
        """The arrays to ask for a size; latest first if it grows, for the current length."""
        if dim_symbols(dim).isdisjoint(self.builder.dims.growing):
            return self.arrays
        made = {v: self.builder.definitions.get(v) for v in reversed(self.arrays)}
        return [  # except widened ones, which are stored into next
            v for v, s in made.items() if not (isinstance(s, Apply) and s.primitive is widened)
        ]

    def __call__(self, dim: DimLike) -> Any:
        builder = self.builder
        dim = builder.dims.resolve(dim)
        if isinstance(dim, int):
            return dim
        if (known := builder.at_hand(dim)) is not None:
            return known
        for var in self._arrays_of(dim):
            for axis, own in enumerate(var.type.dims):
                if builder.dims.resolve(own) == dim:
                    return builder.size_of(dim, Array(var), axis)
        for var in self.numbers:
            if builder.dims.resolve(builder.dim_values[var]) == dim:
                return Array(var)
        if dim == symbol(dim.terms[0][0]):
            raise NoElements(f"the size {dim} is not at hand", size=dim)
        return combine(dim, lambda name: self(symbol(name)))
