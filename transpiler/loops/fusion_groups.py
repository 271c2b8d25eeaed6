"""Loop nests of fused statements: their roots, their loops, and the value of one iteration."""

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
    """An array, or a number, that a nest computes."""

    statement: Apply
    kind: str  # "map", "store", "reduce"
    space: tuple[DimLike, ...]
    reduced: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()  # of the loop counters, in the trial
    written: tuple[DimLike, ...] = ()  # the index of the written element, in these symbols
    loads: list[tuple[Var, tuple[DimLike, ...]]] = field(default_factory=list)
    computed: list[tuple[Var, tuple[DimLike, ...]]] = field(default_factory=list)
    scalars: set[Var] = field(default_factory=set)
    guarded: list[DimLike] = field(default_factory=list)  # sizes that must not be 0
    scattered: bool = False  # several iterations may write one element

    @property
    def out(self) -> Var:
        """The variable that the root's statement defines."""
        return self.statement.outs[0]

    @property
    def suffix(self) -> int:
        """The depth of the first of the innermost loops that all reduce an axis."""
        start = len(self.space)
        while start and start - 1 in self.reduced:
            start -= 1
        return start

    def arrays(self) -> set[Var]:
        """The arrays in memory that the root reads or writes."""
        base = self.statement.args[:1] if self.kind == "store" else ()
        return {v for v, _ in self.loads} | {self.out, *base}

    def in_turn(self) -> bool:
        """True if the iterations of the outermost loop add to the same elements."""
        return 0 in self.reduced


@dataclass(eq=False)
class Loop:
    """One loop of a nest; its children run one after the other in each iteration."""

    dim: DimLike
    children: list[Loop | Root] = field(default_factory=list)

    def roots(self) -> list[Root]:
        """All roots in the loop and its inner loops."""
        return [
            r for c in self.children for r in (c.roots() if isinstance(c, Loop) else [c])
        ]


def leaves(unit: Loop, path: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[Root]]]:
    """The roots directly in each loop, with its path: the child position at each level."""
    found: list[tuple[tuple[int, ...], list[Root]]] = []
    own = [c for c in unit.children if isinstance(c, Root)]
    if own:
        found.append((path, own))
    for k, c in enumerate(unit.children):
        if isinstance(c, Loop):
            found += leaves(c, (*path, k))
    return found


def nest_of(root: Root, depth: int) -> Loop:
    """The loops of one root, from ``depth`` inward."""
    inner: Loop | Root = root
    for dim in reversed(root.space[depth:]):
        inner = Loop(dim, [inner])
    assert isinstance(inner, Loop)
    return inner


def weight(s: Statement) -> int:
    """The cost of a statement per element; an addition costs 1."""
    if not isinstance(s, Apply) or s.primitive.kind in ("indexing", "store", "size", "linear"):
        return 0
    if s.primitive.kind == "elementwise" or s.primitive is where:
        return s.primitive.cost or (1 if "{" in (s.primitive.scalar or "") else 8)
    return s.primitive.cost or 2


# one iteration of a root


def write_place(root: Root, indices: Sequence[Any], reader: Reader) -> list[Any]:
    """The index of the element of the result that an iteration writes."""
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
    """The element that an iteration adds or writes."""
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
    """Compute operands at the same index in program order, rather than recursively."""
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
    """True if every element is computed only from elements at its own index and numbers."""
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
    """True if one loop can compute roots of several dimensions, element by element in memory.

    With ``sums``, roots may also be sums over all axes, whose iterations are in no order.
    """
    space = roots[0].space
    all_axes = tuple(range(len(space)))
    if not all(r.kind == "map" or (sums and r.reduced == all_axes) for r in roots):
        return False
    if len(space) < 2 or not all(r.space == space and keeps_place(r, virtual) for r in roots):
        return False
    arrays = {v for r in roots for v, _ in r.loads} - {r.out for r in roots}
    return all(v in builder.contiguous for v in arrays)
