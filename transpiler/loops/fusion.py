"""Plan which array statements become loops over scalars, and which of them share a loop.

A *root* is an array, or a reduced number, that a loop nest writes. An array that only roots read is
*virtual*: its elements are computed where they are needed. Roots over the same iteration space
share loops as far as each reads elements that the others write in the same iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from calque.transpiler.algebra.bitwise_equality import read_with_extremum
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom, loop_index, type_of, wrap
from calque.transpiler.ir.core import Apply, Block, Statement, Var
from calque.transpiler.ir.effects import has_effects, is_indexed_store, is_size, refuses
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.ir.uses import reads
from calque.transpiler.loops.accesses import is_column
from calque.transpiler.loops.fusion_groups import (
    NAMES,
    Loop,
    Root,
    leaves,
    nest_of,
    value_of,
    weight,
    write_place,
)
from calque.transpiler.loops.fusion_legality import (
    alias_is_known,
    disjoint,
    same_element,
    same_iteration_reads,
    stores_before,
)
from calque.transpiler.loops.in_place import InPlace, Owned, UsesOfOwned
from calque.transpiler.loops.size_agreement import agree
from calque.transpiler.loops.slice_stores import through_view
from calque.transpiler.loops.unit_order import Unit, UnitOrder
from calque.transpiler.loops.virtual_arrays import NoElements, Reader, SizesAtHand, Virtual
from calque.transpiler.primitives.creation import full
from calque.transpiler.primitives.indexing import copy, getitem, update_add
from calque.transpiler.primitives.reductions import prod, sum_
from calque.transpiler.primitives.templates import indexed_dims

_HEAVY = 12  # repeated work per element that is worth keeping an array
_MOST_ARRAYS = 12  # in one nest: with more, the compiler gives up vectorizing
_VAST = 512  # work per element that is never repeated for several readers


class Fusion:
    """The plan of one block: ``units`` are its statements and nests, in a valid order."""

    def __init__(
        self,
        builder: Builder,
        block: Block,
        at_hand: SizesAtHand,
        allowed: Callable[[Apply], bool],
        kept: set[int],
        owned: Owned,
        grid: bool = False,
    ):
        self.builder, self.block, self.at_hand, self.allowed = builder, block, at_hand, allowed
        self.grid = grid
        self.kept = kept  # statements that stay as they are
        self.owned = owned
        self.renewed: dict[int, int] = {}  # new statement id to the id of the one it replaces
        self.placed = True  # whether the index that the last tried root writes is known
        self.stored = self._read_widely()  # arrays kept in memory though they could be virtual
        self.virtual = Virtual()
        self.roots: dict[int, Root] = {}
        self.plan()
        self.uses_of_owned = UsesOfOwned(block, owned)

    # classification of statements

    def plan(self) -> None:
        """Classify and group until the choice of arrays in memory no longer changes."""
        for _ in range(40 + 3 * len(self.block.statements)):
            if self._classify() and self._group() and not self._in_place().write():
                return
        for s in self.block.statements:
            self.kept.add(id(s))
        self._classify()
        self._group()

    def _read_widely(self) -> set[Var]:
        """Expensive arrays with several readers, kept so that no nest repeats the work."""
        found: set[Var] = set()
        costs: dict[Any, int] = {}
        uses = self._uses()
        for s in self.block.statements:
            if self._kind(s) == "map":
                assert isinstance(s, Apply)
                costs[s.out] = weight(s) + sum(costs.get(a, 0) for a in set(s.args))
                several = s.primitive.kind == "elementwise" and uses[s.out] > 1
                if several and costs[s.out] > _VAST:
                    found.add(s.out)
                    costs[s.out] = 0
        return found

    def _in_place(self) -> InPlace:
        return InPlace(
            self.builder, self.block, self.units, self.virtual, self.owned, self.renewed
        )

    def _classify(self) -> bool:
        """Find roots and virtual arrays; False if a statement turned out not to become a loop."""
        self.virtual, self.roots = Virtual(), {}
        escaping = {a for a in self.block.results if isinstance(a, Var)} | self.stored
        kinds: dict[int, str] = {}
        for s in reversed(self.block.statements):
            kind = self._kind(s)
            if kind == "map" and s.outs[0] in escaping and self._better_whole(s):
                kind = ""
            kinds[id(s)] = kind
            if not kind:
                if not is_size(s):
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
                views = None if self.placed or kind != "store" else through_view(s, self.builder)
                if views is None:
                    self._keep(root, s)
                else:
                    self._replace(s, views)
                return False
            self.roots[id(s)] = root
        return not self._overlapping()

    def _keep(self, made: Apply, reader: Apply) -> None:
        """Compute, in a loop if it has one, what ``reader`` cannot read element by element."""
        known = made.primitive.kind == "elementwise" or made.primitive.element is not None
        if made is reader or not known or made.out in self.stored or self._better_whole(made):
            self.kept.add(id(made))
        else:
            self.stored.add(made.out)

    def _overlapping(self) -> bool:
        """Keep values that a store reads elsewhere in its own array in memory; True if any."""
        found = False
        for root in self.roots.values():
            base, value = (*root.statement.args, None)[:2]
            if root.kind != "store" or all(
                v is not base
                or (read == root.written and not root.scattered)
                or disjoint(read, root, self.builder)
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
        if not agree(s, self.builder):
            return ""
        primitive = s.primitive
        if primitive.reduction is not None:
            none = not type_of(wrap(s.args[0])).ndim or s.params["axis"] == ()  # no axis to reduce
            return "reduce" if not none and self._has_elements(s) else ""
        if not s.out.type.ndim or not self.allowed(s):
            return ""
        if is_indexed_store(s):
            return "store" if self._region(s) else ""
        if primitive.kind == "elementwise" or primitive.element is not None:
            return "map"
        return ""

    def _has_elements(self, s: Apply) -> bool:
        """True if loops can compute a reduction: only sums take ``dtype``, no complex extrema."""
        summed = s.primitive in (sum_, prod)
        if not self.allowed(s) or (s.params.get("dtype") is not None and not summed):
            return False
        return s.out.type.dtype.kind != "c" or not s.primitive.reduction.needs_elements

    def _surely_some(self, dim: DimLike) -> bool:
        """True if a size is not 0, if need be under an assumption on argument sizes."""
        return dim > 0 if isinstance(dim, int) else self.builder.dims.assume_nonnegative(dim - 1)

    def _region(self, s: Apply) -> tuple[DimLike, ...]:
        """The dimensions of the region that a store writes; empty if a mask selects it."""
        base, _, *dynamic = s.args
        if not isinstance(base, Var):
            return ()
        if any(isinstance(d, Var) and d.type.dtype.kind == "b" and d.type.ndim for d in dynamic):
            return ()
        dims = indexed_dims(base.type.dims, s.params["index"], [wrap(d) for d in dynamic])
        return tuple(self.builder.dims.resolve(d) for d in dims)

    def _better_whole(self, s: Statement) -> bool:
        """True if NumPy does ``s`` better than a loop: views, copies and allocations."""
        assert isinstance(s, Apply)
        if s.primitive.kind == "creation" or s.primitive in (copy, full):
            return True
        if s.primitive.view_back is None:
            return False
        return not (s.primitive.copies and s.primitive.copies(*map(wrap, s.args), **s.params))

    # roots and what they read

    def _root(self, s: Apply, kind: str) -> Root | Apply:
        """The root of a statement, with its reads; else the statement that no loop can compute."""
        resolve = self.builder.dims.resolve
        if kind == "reduce":
            source = type_of(wrap(s.args[0]))
            axis = s.params["axis"]
            reduced = tuple(range(source.ndim)) if axis is None else tuple(axis)
            space = tuple(resolve(d) for d in source.dims)
            root = Root(s, kind, space, reduced)
            if s.primitive.reduction.needs_elements:
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
        if root.scattered and s.primitive is update_add:
            return s  # NumPy adds once where an index array repeats an index
        # the trial may have used another variable with the value of the one that is written
        named = [a for v, _ in root.computed for a in self._operands(v)]
        read = [*core.free_vars(trial), *named, *s.args]
        root.scalars = {v for v in read if isinstance(v, Var) and not v.type.ndim}
        root.scalars -= set(self.trial_indices)
        return root

    def _replace(self, s: Apply, views: list[Apply]) -> None:
        """Replace a store by a view, a store into all of the view, and the inverse of the view."""
        take, _, back = views[-3:]
        self.kept |= {id(take), id(back)}
        self.at_hand.see(take.outs)
        self.renewed.update((id(v), id(s)) for v in views)
        label(views, s.phase)
        at = self.block.statements.index(s)
        self.block.statements[at : at + 1] = views

    def _try(self, root: Root) -> list[Any]:
        """Write one iteration to note what it reads; return the element and its index."""
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
        self.placed = False
        place = write_place(root, indices, reader)
        self.placed = True
        root.written = tuple(self.builder.dim_of(i) for i in place)
        value = value_of(root, indices, reader)
        root.loads, root.computed = reader.loads, reader.computed
        root.scattered = root.kind == "store" and not self._distinct(root)
        return [atom(v) for v in (value, *place)]

    def _distinct(self, root: Root) -> bool:
        """True if every iteration of a store writes a different element."""
        places = [set(dim_symbols(d)) & set(root.symbols) for d in root.written]
        own = [s for s, d in zip(root.symbols, root.space, strict=True) if d != 1]
        return all(any(p == {s} for p in places) for s in own)

    # grouping of roots into nests

    def _group(self) -> bool:
        """Form nests and order them; False if an array must be kept in memory after all."""
        self.uses = self._uses()
        self.order = UnitOrder()
        maker: dict[Var, Unit] = {}
        readers: dict[Var, list[Unit]] = {}
        guards: list[Unit] = []  # later units may be out of bounds without them
        acted: list[Unit] = []  # the last statement that prints or asserts: these keep their order
        for s in self.block.statements:
            if isinstance(s, Apply) and s.outs[0] in self.virtual:
                continue
            root = self.roots.get(id(s))
            reads = self._reads(s, root)
            needs = [*(maker[v] for v in reads if v in maker), *guards]
            if refuses(s):
                guards.append(s)
            if has_effects(s):
                needs += acted
                acted = [s]
            if root is not None and root.kind == "store":
                base = s.args[0]  # type: ignore[union-attr]
                needs += [u for u in readers.get(base, ()) if u is not maker.get(base)]
            unit = s if root is None else self._place(root, needs)
            self.order.add(unit, needs, root)
            for out in s.outs:
                maker[out] = unit
            for v in reads:
                readers.setdefault(v, []).append(unit)
        if self._too_often(self.order.units):
            return False
        self.units = self.order.sorted()
        return not self._read_too_late()

    def _read_too_late(self) -> bool:
        """Keep virtual arrays that would be read after their source changes; True if any."""
        when: dict[Root, tuple[int, tuple[int, ...]]] = {}
        for number, unit in enumerate(self.units):
            for path, roots in leaves(unit, ()) if isinstance(unit, Loop) else ():
                when.update((root, (number, path)) for root in roots)
        late: set[Var] = set()
        for store in (r for r in when if r.kind == "store"):
            base = store.statement.args[0]
            for root in (r for r in when if when[r] > when[store]):
                if any(v is base for v, _ in root.loads):
                    read = (v for v, _ in root.computed if base in self._operands(v))
                    late.update(v for v in read if v.type.ndim)
        found = bool(late - self.stored)
        self.stored |= late
        return found

    def _operands(self, var: Var) -> tuple[Any, ...]:
        made = self.virtual.get(var)
        return made.args if made is not None else ()

    def _uses(self) -> Counter[Any]:
        """The number of statements and results that read each array, in nested blocks too."""
        count = Counter(a for s in self.block.statements for a in core.operands(s))
        for s in self.block.statements:
            count.update(v for inner in core.blocks_of(s) for v in core.free_vars(inner))
        count.update(self.block.results)
        return count

    def _reads(self, s: Statement, root: Root | None) -> set[Var]:
        if root is not None:
            found = {v for v, _ in root.loads} | root.scalars
            if root.kind == "store":
                found |= {a for a in s.args if isinstance(a, Var)} - set(self.virtual)  # type: ignore[union-attr]
            return found
        return {*reads(s)}

    def _place(self, root: Root, needs: list[Unit]) -> Unit:
        """The nest that a root joins, or a new one."""
        for unit in self.order.sharing(root, needs):
            depth = self._shared(unit, root) if unit.dim == root.space[0] else 0
            if depth:
                self._join(unit, root, depth)
                return unit
        return nest_of(root, 0)

    def _shared(self, unit: Loop, root: Root) -> int:
        """The number of a nest's loops that a root can share."""
        inside = unit.roots()
        arrays = set().union(*(r.arrays() for r in inside))
        # the result of a store and the array it updates are one array
        again = sum(r.kind == "store" for r in (*inside, root))
        if not arrays & root.arrays() or len(arrays | root.arrays()) - again > _MOST_ARRAYS:
            return 0
        if len(root.space) > 1 and any(r.in_turn() != root.in_turn() for r in inside):
            if all(sum(d != 1 for d in v.type.dims) < 2 for v in arrays & root.arrays()):
                return 0  # a parallel loop would become serial, and no memory is saved
        depth, now = 0, unit
        while now.dim == root.space[depth]:
            alone = {r.out for r in now.roots() if self.uses[r.out] == 1}
            beside = now.roots()
            if not all(
                same_iteration_reads(r, root, depth, alone, beside, self.builder) for r in beside
            ):
                break
            depth += 1
            last = now.children[-1]
            if depth == len(root.space) or not isinstance(last, Loop):
                break
            now = last
        if depth == len(root.space):
            leaf = [c for c in now.children if isinstance(c, Root)]
            together = all(same_element(r, root) for r in leaf)
            stores = stores_before(root, leaf)
            depth -= not (together and all(alias_is_known(r, root, self.builder) for r in stores))
        if self.grid and depth < len(root.space):
            # a thread computes one element of the whole space, unless a row is reduced
            return depth if any(r.kind == "reduce" for r in (*inside, root)) else 0
        return depth

    def _join(self, unit: Loop, root: Root, depth: int) -> None:
        now = unit
        for _ in range(depth - 1):
            last = now.children[-1]
            assert isinstance(last, Loop)
            now = last
        now.children.append(nest_of(root, depth) if depth < len(root.space) else root)

    # repeated computation

    def _too_often(self, order: Sequence[Unit]) -> bool:
        """Keep virtual arrays that several nests would compute at some cost; True if any."""
        places: dict[Var, set[Any]] = {}
        for unit in order:
            for leaf, roots in leaves(unit, ()) if isinstance(unit, Loop) else ():
                for root in roots:
                    names: dict[str, DimLike] = dict(zip(root.symbols, map(symbol, NAMES)))
                    for var, index in root.computed:
                        moved = [d for d in index if not isinstance(d, int)]  # no constants
                        at = tuple(str(substitute_dim(d, names)) for d in moved)
                        places.setdefault(var, set()).add((id(unit), leaf, at))
        often = {v for v, found_at in places.items() if len(found_at) > 1}
        exact = read_with_extremum(self.block, self.virtual, often)
        exact |= self._of_columns_again(order)
        self.stored |= exact
        costs: dict[Var, int] = {}
        found = bool(exact)
        for s in self.block.statements:
            if not isinstance(s, Apply) or s.outs[0] not in self.virtual:
                continue
            own = weight(s) + sum(costs.get(a, 0) for a in s.args if isinstance(a, Var))
            costs[s.outs[0]] = own
            times = len(places.get(s.outs[0], ()))
            if times > 1 and own * (times - 1) > _HEAVY and s.out.type.ndim:
                self.stored.add(s.outs[0])
                costs[s.outs[0]] = 0
                found = True
        return found

    def _of_columns_again(self, order: Sequence[Unit]) -> set[Var]:
        """Vectors computed from a matrix column that a nest would compute again for each row."""
        columns: set[Var] = set()
        made: set[Var] = set()
        for var, s in self.virtual.items():
            if var.type.ndim != 1 or isinstance(self.builder.dims.resolve(var.type.dims[0]), int):
                continue
            if s.primitive is getitem and s.args[0] not in self.virtual and is_column(s):
                columns.add(var)
            elif not columns.isdisjoint(s.args):
                (columns if s.primitive is copy else made).add(var)
        if not made:
            return made
        roots = [r for u in order if isinstance(u, Loop) for r in u.roots() if len(r.space) > 1]
        return {
            v
            for r in roots
            for v, (index, *_) in r.computed
            if v in made and r.space[0] != 1 and r.symbols[0] not in dim_symbols(index)
        }
