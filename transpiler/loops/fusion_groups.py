"""What a loop nest writes: its roots, the loops around them, and what one round computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.ir.builder import Array, Builder, wrap
from calque.transpiler.ir.core import Apply, Statement, Var
from calque.transpiler.ir.types import DimLike, symbol
from calque.transpiler.loops.virtual_arrays import KEEPS_PLACE, NoElements, Reader
from calque.transpiler.primitives.element_forms import source_index
from calque.transpiler.primitives.elementwise import where

NAMES = ("i", "j", "k", "l", "m", "n")


@dataclass(eq=False)
class Root:
    """One array, or number, that a nest computes."""

    statement: Apply
    kind: str  # "map", "store", "reduce"
    space: tuple[DimLike, ...]
    reduced: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()  # of the indices, in the trial
    written: tuple[DimLike, ...] = ()  # the place of the element written, by these symbols
    loads: list[tuple[Var, tuple[DimLike, ...]]] = field(default_factory=list)
    computed: list[tuple[Var, tuple[DimLike, ...]]] = field(default_factory=list)
    scalars: set[Var] = field(default_factory=set)
    guarded: list[DimLike] = field(default_factory=list)  # sizes that must not be 0
    scattered: bool = False  # several rounds may write one element

    @property
    def out(self) -> Var:
        """What it defines."""
        return self.statement.outs[0]

    @property
    def suffix(self) -> int:
        """The loop at which its sum begins: all from there on are reduced."""
        start = len(self.space)
        while start and start - 1 in self.reduced:
            start -= 1
        return start

    def arrays(self) -> set[Var]:
        """The arrays in memory that it touches."""
        base = self.statement.args[:1] if self.kind == "store" else ()
        return {v for v, _ in self.loads} | {self.out, *base}

    def in_turn(self) -> bool:
        """Whether the rounds of the outermost loop add to the same elements."""
        return 0 in self.reduced


@dataclass(eq=False)
class Loop:
    """One loop of a nest; its children run one after the other in each round."""

    dim: DimLike
    children: list[Loop | Root] = field(default_factory=list)

    def roots(self) -> list[Root]:
        """All roots within."""
        return [
            r for c in self.children for r in (c.roots() if isinstance(c, Loop) else [c])
        ]


def leaves(unit: Loop, path: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[Root]]]:
    """The roots of each loop, with the way to it: which child of the loop around, and so on."""
    found: list[tuple[tuple[int, ...], list[Root]]] = []
    own = [c for c in unit.children if isinstance(c, Root)]
    if own:
        found.append((path, own))
    for k, c in enumerate(unit.children):
        if isinstance(c, Loop):
            found += leaves(c, (*path, k))
    return found


def nest_of(root: Root, depth: int) -> Loop:
    """The loops of one root, from some depth on."""
    inner: Loop | Root = root
    for dim in reversed(root.space[depth:]):
        inner = Loop(dim, [inner])
    assert isinstance(inner, Loop)
    return inner


def weight(s: Statement) -> int:
    """What a statement costs for each element, an addition being 1."""
    if not isinstance(s, Apply) or s.primitive.kind in ("indexing", "store", "size", "linear"):
        return 0
    if s.primitive.kind == "elementwise" or s.primitive is where:
        return s.primitive.cost or (1 if "{" in (s.primitive.scalar or "") else 8)
    return s.primitive.cost or 2


# what one round of a root computes


def write_place(root: Root, indices: Sequence[Any], reader: Reader) -> list[Any]:
    """The index of the element of the result that a round writes."""
    s = root.statement
    if root.kind == "map":
        return list(indices)
    if root.kind == "reduce":
        kept = [i for k, i in enumerate(indices) if k not in root.reduced]
        if s.params["keepdims"]:
            return [0 if k in root.reduced else i for k, i in enumerate(indices)]
        return kept
    base, _, *dynamic = [wrap(a) for a in s.args]
    reader.proven = s.proven
    try:
        return source_index(reader, base.type, s.params["index"], dynamic, indices)
    except NotImplementedError as error:
        raise NoElements(str(error)) from None


def value_of(root: Root, indices: Sequence[Any], reader: Reader) -> Any:
    """The element that a round adds or writes."""
    s = root.statement
    if root.kind == "map":
        place = s.outs[0]
        _in_order(root, indices, reader)
        reader.virtual[place] = s
        try:
            return reader(Array(place), indices)
        finally:
            del reader.virtual[place]
    value = wrap(s.args[0] if root.kind == "reduce" else s.args[1])
    _in_order(root, indices, reader)
    return reader(value, indices)


def _in_order(root: Root, indices: Sequence[Any], reader: Reader) -> None:
    """Compute what is needed at the same place in the order of the program, not recursively."""
    pending = [a for a in root.statement.args if isinstance(a, Var)]
    wanted: set[Var] = set()
    while pending:
        var = pending.pop()
        made = reader.virtual.get(var)
        if made is None or var in wanted or len(var.type.dims) != len(root.space):
            continue
        if made.primitive.kind == "elementwise" and _same_space(var, root, reader):
            wanted.add(var)
            pending += [a for a in made.args if isinstance(a, Var)]
    for var in sorted(wanted, key=reader.virtual.place.__getitem__):
        reader(Array(var), indices)


def _same_space(var: Var, root: Root, reader: Reader) -> bool:
    resolve = reader.builder.dims.resolve
    return tuple(resolve(d) for d in var.type.dims) == root.space


def keeps_place(root: Root, virtual: dict[Var, Apply]) -> bool:
    """Whether every element is computed from elements at its own place, and from numbers."""
    index = tuple(symbol(s) for s in root.symbols)
    for var, read in [*root.loads, *root.computed]:
        if tuple(read) != index:
            return False
        made = root.statement if var is root.out else virtual.get(var)
        if made is not None and not (
            made.primitive.kind == "elementwise" or made.primitive in KEEPS_PLACE
        ):
            return False
    return True


def in_order_of_memory(
    roots: Sequence[Root], virtual: dict[Var, Apply], builder: Builder, sums: bool
) -> bool:
    """Whether one loop can go through the elements of arrays of several dimensions.

    Also for ``sums`` of all of them, where its rounds are in no order.
    """
    space = roots[0].space
    all_axes = tuple(range(len(space)))
    if not all(r.kind == "map" or (sums and r.reduced == all_axes) for r in roots):
        return False
    if len(space) < 2 or not all(r.space == space and keeps_place(r, virtual) for r in roots):
        return False
    arrays = {v for r in roots for v, _ in r.loads} - {r.out for r in roots}
    return all(v in builder.contiguous for v in arrays)
