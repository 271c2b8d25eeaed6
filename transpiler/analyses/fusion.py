"""Which statements on arrays become loops over scalars, and which share a loop.

A *root* is an array, or a reduced number, that a loop nest writes; what only roots read is virtual:
its elements are computed where they are needed. Roots over the same space share their loops as far
as each reads the others' elements of the same round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler import core
from calque.transpiler.analyses.elements import KEEPS_PLACE, NoElements, Reader, SizesAtHand
from calque.transpiler.builder import Array, Builder, atom, loop_index, type_of, wrap
from calque.transpiler.core import Apply, Block, Statement, Var
from calque.transpiler.errors import CalqueError
from calque.transpiler.primitives.elements import ELEMENTS, REDUCTIONS, source_index
from calque.transpiler.types import DimLike, dim_symbols, substitute_dim, symbol

NAMES = ("i", "j", "k", "l", "m", "n")
_WEIGHTS = {"np.add": 1, "np.subtract": 1, "np.multiply": 1, "np.negative": 1, "np.where": 1}
_HEAVY = 12  # work worth an array rather than doing it twice
_MOST_ARRAYS = 12  # in one nest: more, and the compiler gives up vectorizing


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
    work: int = 0
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


Unit = Statement | Loop


class Fusion:
    """Plans one block: ``units`` are its statements and nests, in an order that works."""

    def __init__(
        self,
        builder: Builder,
        block: Block,
        at_hand: SizesAtHand,
        allowed: Callable[[Apply], bool],
        kept: set[int],
    ):
        self.builder, self.block, self.at_hand, self.allowed = builder, block, at_hand, allowed
        self.kept = kept  # statements that stay as they are
        self.stored: set[Var] = set()  # virtual arrays that are better kept in memory
        self.virtual: dict[Var, Apply] = {}
        self.roots: dict[int, Root] = {}
        self.plan()

    # which statement is what

    def plan(self) -> None:
        """Until the choice of what is in memory is settled."""
        for _ in range(40):
            if self._classify() and self._group():
                return
        for s in self.block.statements:
            self.kept.add(id(s))
        self._classify()
        self._group()

    def _classify(self) -> bool:
        """Find roots and virtual arrays; False where one turned out to have no elements."""
        self.virtual, self.roots = {}, {}
        escaping = {a for a in self.block.results if isinstance(a, Var)} | self.stored
        kinds: dict[int, str] = {}
        for s in reversed(self.block.statements):
            kind = self._kind(s)
            if kind == "map" and s.outs[0] in escaping and self._better_whole(s):
                kind = ""
            kinds[id(s)] = kind
            if not kind:
                if not (isinstance(s, Apply) and s.primitive.kind == "size"):
                    escaping.update(a for a in core.operands(s) if isinstance(a, Var))
                for inner in core.blocks_of(s):
                    escaping.update(core.free_vars(inner))
            elif kind == "store":
                assert isinstance(s, Apply)
                if isinstance(s.args[0], Var):
                    escaping.add(s.args[0])
        for s in self.block.statements:
            kind = kinds[id(s)]
            if not kind:
                continue
            assert isinstance(s, Apply)
            if kind == "map" and s.outs[0] not in escaping:
                self.virtual[s.outs[0]] = s
                continue
            root = self._root(s, kind)
            if isinstance(root, Apply):
                self.kept.add(id(root))
                return False
            self.roots[id(s)] = root
        return not self._overlapping()

    def _overlapping(self) -> bool:
        """A store of values that come from other places of its array: all are read first."""
        found = False
        for root in self.roots.values():
            base, value = (*root.statement.args, None)[:2]
            if root.kind != "store" or all(
                v is not base or (read == root.written and not root.scattered)
                for v, read in root.loads
            ):
                continue
            found = True
            if value in self.virtual:
                self.stored.add(value)
            else:
                self.kept.add(id(root.statement))
        return found

    def _kind(self, s: Statement) -> str:
        if not isinstance(s, Apply) or len(s.outs) != 1 or id(s) in self.kept:
            return ""
        name, primitive = s.primitive.name, s.primitive
        if name in REDUCTIONS:
            return "reduce" if type_of(wrap(s.args[0])).ndim and self._has_elements(s) else ""
        if not s.out.type.ndim or not self.allowed(s):
            return ""
        if name in ("update", "update_add", "add_at"):
            return "store" if self._region(s) else ""
        if primitive.kind == "elementwise" or name in ELEMENTS:
            return "map"
        return ""

    def _has_elements(self, s: Apply) -> bool:
        """Whether a reduction without a value for nothing gets something: noted as a condition."""
        summed = s.primitive.name in ("np.sum", "np.prod")
        if not self.allowed(s) or (s.params.get("dtype") is not None and not summed):
            return False
        return s.out.type.dtype.kind != "c" or not REDUCTIONS[s.primitive.name].needs_elements

    def _surely_some(self, dim: DimLike) -> bool:
        """Whether a size is known not to be 0; for arguments, a condition of the program."""
        return dim > 0 if isinstance(dim, int) else self.builder.dims.nonnegative(dim - 1)

    def _region(self, s: Apply) -> tuple[DimLike, ...]:
        """The dimensions of what a store stores."""
        from calque.transpiler.primitives.templates import indexed_dims

        base, _, *dynamic = s.args
        if not isinstance(base, Var):
            return ()
        if any(isinstance(d, Var) and d.type.dtype.kind == "b" and d.type.ndim for d in dynamic):
            return ()
        dims = indexed_dims(base.type.dims, s.params["index"], [wrap(d) for d in dynamic])
        return tuple(self.builder.dims.resolve(d) for d in dims)

    def _better_whole(self, s: Statement) -> bool:
        """Views cost nothing, and allocation is better left to NumPy."""
        assert isinstance(s, Apply)
        if s.primitive.kind == "creation" or s.primitive.name in ("copy", "np.full"):
            return True
        if s.primitive.view_back is None:
            return False
        return not (s.primitive.copies and s.primitive.copies(*map(wrap, s.args), **s.params))

    # what a root reads

    def _root(self, s: Apply, kind: str) -> Root | Apply:
        """A statement and what it reads; else what stands in the way of its elements."""
        resolve = self.builder.dims.resolve
        if kind == "reduce":
            source = type_of(wrap(s.args[0]))
            axis = s.params["axis"]
            reduced = tuple(range(source.ndim)) if axis is None else tuple(axis)
            space = tuple(resolve(d) for d in source.dims)
            root = Root(s, kind, space, reduced)
            if REDUCTIONS[s.primitive.name].needs_elements:
                sizes = [space[k] for k in reduced]
                root.guarded = [d for d in sizes if not self._surely_some(d)]
        elif kind == "store":
            root = Root(s, kind, self._region(s))
        else:
            root = Root(s, kind, tuple(resolve(d) for d in s.out.type.dims))
        try:
            with self.builder.block() as trial:
                trial.results = self._try(root)
        except NoElements as error:
            return error.made if error.made is not None else s
        except CalqueError:
            return s
        if root.scattered and s.primitive.name == "update_add":
            return s  # what an index array names twice counts once
        root.scalars = {v for v in core.free_vars(trial) if not v.type.ndim}
        root.scalars -= set(self.trial_indices)
        root.work = sum(_weight(t) for t in core.walk(trial))
        return root

    def _try(self, root: Root) -> list[Any]:
        """Write one round, to see what it reads; the element and its place."""
        reader = Reader(self.builder, self.virtual, self.at_hand)
        indices = [
            0 if dim == 1 else loop_index(0, dim - 1, NAMES[min(k, 5)])
            for k, dim in enumerate(root.space)
        ]
        for dim in root.space:
            self.at_hand(dim)
        known = self.builder.dim_values
        self.trial_indices = [i.atom for i in indices if isinstance(i, Array)]
        root.symbols = tuple(
            next(iter(dim_symbols(known[i.atom]))) if isinstance(i, Array) else "" for i in indices
        )
        place = write_place(root, indices, reader)
        root.written = tuple(self.builder.dim_of(i) for i in place)
        value = value_of(root, indices, reader)
        root.loads, root.computed = reader.loads, reader.computed
        root.scattered = root.kind == "store" and not self._distinct(root)
        return [atom(v) for v in (value, *place)]

    def _distinct(self, root: Root) -> bool:
        """Whether every round of a store writes another element."""
        places = [set(dim_symbols(d)) & set(root.symbols) for d in root.written]
        own = [s for s, d in zip(root.symbols, root.space, strict=True) if d != 1]
        return all(any(p == {s} for p in places) for s in own)

    # which share loops

    def _group(self) -> bool:
        """Order nests and statements; False where an array should be in memory after all."""
        self.uses = self._uses()
        order: list[Unit] = []
        maker: dict[Var, Unit] = {}
        self.before: dict[int, set[int]] = {}
        self.by_id: dict[int, Unit] = {}
        readers: dict[Var, list[Unit]] = {}
        for s in self.block.statements:
            if isinstance(s, Apply) and s.outs[0] in self.virtual:
                continue
            root = self.roots.get(id(s))
            reads = self._reads(s, root)
            needs = {id(maker[v]) for v in reads if v in maker}
            if root is not None and root.kind == "store":
                base = s.args[0]  # type: ignore[union-attr]
                needs |= {id(u) for u in readers.get(base, ()) if u is not maker.get(base)}
            unit: Unit = s
            if root is not None:
                unit = self._place(root, needs, order)
            if id(unit) not in self.by_id:
                order.append(unit)
                self.by_id[id(unit)] = unit
            self.before.setdefault(id(unit), set()).update(needs - {id(unit)})
            for out in s.outs:
                maker[out] = unit
            for v in reads:
                readers.setdefault(v, []).append(unit)
        if self._too_often(order):
            return False
        self.units = self._sorted(order)
        return True

    def _uses(self) -> dict[Var, int]:
        """How often each array is read, here or in blocks within."""
        count: dict[Var, int] = {}
        for s in self.block.statements:
            read = [a for a in core.operands(s) if isinstance(a, Var)]
            for inner in core.blocks_of(s):
                read += core.free_vars(inner)
            for v in read:
                count[v] = count.get(v, 0) + 1
        for a in self.block.results:
            if isinstance(a, Var):
                count[a] = count.get(a, 0) + 1
        return count

    def _reads(self, s: Statement, root: Root | None) -> set[Var]:
        if root is not None:
            found = {v for v, _ in root.loads} | root.scalars
            if root.kind == "store":
                found |= {a for a in s.args if isinstance(a, Var)} - set(self.virtual)  # type: ignore[union-attr]
            return found
        found = {a for a in core.operands(s) if isinstance(a, Var)}
        for inner in core.blocks_of(s):
            found |= set(core.free_vars(inner))
        return found

    def _place(self, root: Root, needs: set[int], order: list[Unit]) -> Unit:
        """The nest that takes a root in, or a new one."""
        for unit in reversed(order):
            if not isinstance(unit, Loop) or unit.dim != root.space[0]:
                continue
            if any(n != id(unit) and self._after(n, id(unit)) for n in needs):
                continue
            depth = self._shared(unit, root)
            if depth:
                self._join(unit, root, depth)
                return unit
        return _nest(root, 0)

    def _after(self, later: int, earlier: int) -> bool:
        """Whether ``later`` waits, over others, for ``earlier``."""
        pending, seen = [later], set()
        while pending:
            now = pending.pop()
            for before in self.before.get(now, ()):
                if before == earlier:
                    return True
                if before not in seen:
                    seen.add(before)
                    pending.append(before)
        return False

    def _shared(self, unit: Loop, root: Root) -> int:
        """How many of a nest's loops a root can share."""
        inside = unit.roots()
        arrays = set().union(*(r.arrays() for r in inside))
        if not arrays & root.arrays() or len(arrays | root.arrays()) > _MOST_ARRAYS:
            return 0
        depth, now = 0, unit
        while now.dim == root.space[depth]:
            if not all(self._in_step(r, root, depth) for r in now.roots()):
                break
            depth += 1
            last = now.children[-1]
            if depth == len(root.space) or not isinstance(last, Loop):
                break
            now = last
        if depth == len(root.space):
            leaf = [c for c in now.children if isinstance(c, Root)]
            depth -= not all(self._same_element(r, root) for r in leaf)
        return depth

    def _same_element(self, first: Root, second: Root) -> bool:
        """Whether ``second`` reads of ``first`` only the element that the round writes."""
        names: dict[str, DimLike] = dict(zip(second.symbols, map(symbol, first.symbols)))
        reads = [read for var, read in second.loads if var is first.out]
        places = [tuple(substitute_dim(d, names) for d in read) for read in reads]
        return all(place == tuple(first.written) for place in places)

    def _in_step(self, first: Root, second: Root, depth: int) -> bool:
        """Whether ``second`` reads of ``first`` only what the same round of a loop wrote."""
        names: dict[str, DimLike] = dict(zip(second.symbols, map(symbol, first.symbols)))
        mine = first.symbols[depth]

        def same_round(place: Sequence[DimLike], read: Sequence[DimLike]) -> bool:
            spots = [k for k, d in enumerate(place) if mine in dim_symbols(d)]
            return bool(spots) and all(
                place[k] == substitute_dim(read[k], names) for k in spots
            )

        if first.out in second.scalars:
            return False
        base = second.statement.args[0] if second.kind == "store" else None
        if base is first.out:
            return self._next_in_row(first, second, depth)
        if not mine:
            return depth not in first.reduced or all(v is not first.out for v, _ in second.loads)
        for var, read in second.loads:
            if var is first.out and (first.scattered or not same_round(first.written, read)):
                return False
            if first.kind == "store" and var is first.statement.args[0]:
                if not same_round(first.written, read):
                    return False
        if base is not None:
            for var, read in first.loads:
                back: dict[str, DimLike] = dict(zip(first.symbols, map(symbol, second.symbols)))
                if var is base and tuple(substitute_dim(d, back) for d in read) != second.written:
                    return False
        return True

    def _next_in_row(self, first: Root, second: Root, depth: int) -> bool:
        """Whether a store can follow the one before it within each round of an outer loop."""
        inner = min(len(first.space), len(second.space)) - 1
        if depth >= inner or not first.symbols[depth] or self.uses[first.out] != 1:
            return False
        names: dict[str, DimLike] = dict(zip(second.symbols, map(symbol, first.symbols)))
        mine = first.symbols[depth]
        spots = [k for k, d in enumerate(first.written) if mine in dim_symbols(d)]
        return bool(spots) and all(
            first.written[k] == substitute_dim(second.written[k], names) for k in spots
        )

    def _join(self, unit: Loop, root: Root, depth: int) -> None:
        now = unit
        for _ in range(depth - 1):
            last = now.children[-1]
            assert isinstance(last, Loop)
            now = last
        now.children.append(_nest(root, depth) if depth < len(root.space) else root)

    # what is computed too often

    def _too_often(self, order: Sequence[Unit]) -> bool:
        """Put a virtual array in memory that several nests would compute at some cost."""
        places: dict[Var, set[Any]] = {}
        for unit in order:
            for leaf, roots in _leaves(unit, ()) if isinstance(unit, Loop) else ():
                for root in roots:
                    names: dict[str, DimLike] = dict(zip(root.symbols, map(symbol, NAMES)))
                    for var, index in root.computed:
                        at = tuple(str(substitute_dim(d, names)) for d in index)
                        places.setdefault(var, set()).add((id(unit), leaf, at))
        costs: dict[Var, int] = {}
        found = False
        for s in self.block.statements:
            if not isinstance(s, Apply) or s.outs[0] not in self.virtual:
                continue
            own = _weight(s) + sum(costs.get(a, 0) for a in s.args if isinstance(a, Var))
            costs[s.outs[0]] = own
            times = len(places.get(s.outs[0], ()))
            if times > 1 and own * (times - 1) > _HEAVY and s.out.type.ndim:
                self.stored.add(s.outs[0])
                costs[s.outs[0]] = 0
                found = True
        return found

    def _sorted(self, order: Sequence[Unit]) -> list[Unit]:
        """Each after what it needs, else in the order of the program."""
        done: set[int] = set()
        made: list[Unit] = []
        pending = list(order)
        while pending:
            for k, unit in enumerate(pending):
                if self.before[id(unit)] <= done:
                    made.append(unit)
                    done.add(id(unit))
                    del pending[k]
                    break
            else:
                raise CalqueError("the loops wait for each other")
        return made


def _leaves(unit: Loop, path: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[Root]]]:
    found: list[tuple[tuple[int, ...], list[Root]]] = []
    own = [c for c in unit.children if isinstance(c, Root)]
    if own:
        found.append((path, own))
    for k, c in enumerate(unit.children):
        if isinstance(c, Loop):
            found += _leaves(c, (*path, k))
    return found


def _nest(root: Root, depth: int) -> Loop:
    """The loops of one root, from some depth on."""
    inner: Loop | Root = root
    for dim in reversed(root.space[depth:]):
        inner = Loop(dim, [inner])
    assert isinstance(inner, Loop)
    return inner


def _weight(s: Statement) -> int:
    if not isinstance(s, Apply) or s.primitive.kind in ("indexing", "store", "size", "linear"):
        return 0
    if s.primitive.kind == "elementwise" or s.primitive.name == "np.where":
        if s.primitive.name == "np.divide":
            return 3
        scalar = s.primitive.scalar or ""
        return _WEIGHTS.get(s.primitive.name, 1 if "{" in scalar else 8)
    return 2


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
        made = dict(reader.virtual)
        made[place] = s
        reader.virtual = made
        try:
            return reader(Array(place), indices)
        finally:
            reader.virtual = {v: m for v, m in made.items() if v is not place}
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
    for var in reader.virtual:
        if var in wanted:
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
            made.primitive.kind == "elementwise" or made.primitive.name in KEEPS_PLACE
        ):
            return False
    return root.kind == "map"
