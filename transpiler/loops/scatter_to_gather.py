"""Turn scatters of the reverse pass into gathers: one sum for each element.

The reverse of a stencil adds each iteration's adjoint to its neighbours: it reads and stores as
many elements as the stencil has points. If an index is a counter plus a constant, the map from
iterations to indices inverts, and each element may gather its terms (Hückelheim, Kukreja,
Narayanan, Luporini, Gorman and Hovland, Automatic differentiation for adjoint stencil loops,
2019)::

    for i in range(n - 2, 0, -1):             for i in range(2, n - 2):
        y_bar[i - 1] += 0.5 * x_bar[i]            y_bar[i] += 0.5 * (x_bar[i + 1] + x_bar[i - 1])
        y_bar[i + 1] += 0.5 * x_bar[i]   ->   y_bar[0] += 0.5 * x_bar[1]
        x_bar[i] = 0.0                        ...
                                              for i in range(n - 2, 0, -1):
                                                  x_bar[i] = 0.0

Elements near the border have fewer terms. Along the last axis they are stored one by one; along the
others, a row near the border adds the terms that reach it. Sums of consecutive loops are joined.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Atom, Block, For, Function, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, missed
from calque.transpiler.loops.nest import LoopNest, build
from calque.transpiler.loops.place_loops import CellLoops, PlaceLoops
from calque.transpiler.loops.scatters import Nest, PlaceSum, ScatterTerms, Term, without


def gather(function: Function, builder: Builder, grid: bool = False) -> frozenset[int]:
    """Turn scatters into gathers in all loops of a function where that is legal, in place.

    Return the ids of the loops that store to elements near the border: these must stay whole. For a
    ``grid`` there are none, since each element tests which terms it has.
    """
    edges: set[int] = set()
    with builder.active():
        _within(function.body, function, builder, edges, grid)
    remove_dead_code(function)
    return frozenset(edges)


def _within(
    block: Block, function: Function, builder: Builder, edges: set[int], grid: bool
) -> None:
    row = _Row(block, function, builder, edges, grid)
    row.write()
    for s in block.statements:
        if id(s) not in row.made:
            for inner in core.blocks_of(s):
                _within(inner, function, builder, edges, grid)


class _Row:
    """The nests of one block, and the sums of their terms."""

    def __init__(
        self, block: Block, function: Function, builder: Builder, edges: set[int], grid: bool
    ):
        self.block, self.function, self.builder = block, function, builder
        self.edges, self.places = edges, CellLoops if grid else PlaceLoops
        self.made: set[int] = set()  # statements written for sums
        self.defined_at = {o: k for k, s in enumerate(block.statements) for o in s.outs}
        self.nests: dict[int, Nest] = {}
        self.now: dict[Var, Atom] = {}  # an array's version -> the one that replaces it

    def write(self) -> None:
        """Rewrite the block with its sums, in place."""
        sums: list[PlaceSum] = []
        for k, s in enumerate(self.block.statements):
            if isinstance(s, For):
                self._join(k, s, sums)
        # stores in the function's own block would run in Python, outside of all kernels
        least = 2 if self.block is self.function.body else 1
        sums = [
            s for s in sums if len(s.terms) > 1 and self.places(s, self.builder).can_be_loops(least)
        ]
        if not sums:
            return
        chosen = {id(term.store) for s in sums for _, term in s.terms}
        made: list[Statement] = []
        for k, s in enumerate(self.block.statements):
            nest = self.nests.get(k)
            if nest is None:
                made.append(s)
                continue
            self.now.update(without(nest.loop, chosen))
            own = [s for s in sums if s.nest is nest]
            # later nests' terms read arrays that include the nest's own sums: these come first
            own.sort(key=lambda s: any(joined is not nest for joined, _ in s.terms))
            for early in (s for s in own if not s.late):
                made += self._early(early)
            if nest.loop.outs:
                made.append(nest.loop)
            for late in (s for s in own if s.late):
                made += self._late(late)
        self.block.statements[:] = made
        core.substitute(self.function.body, {v: self._current(v) for v in self.now})

    def _current(self, version: Atom) -> Atom:
        while isinstance(version, Var) and version in self.now:
            version = self.now[version]
        return version

    # which terms go together

    def _join(self, position: int, loop: For, sums: list[PlaceSum]) -> None:
        model = build(loop, self.builder)
        terms = model if isinstance(model, Refused) else ScatterTerms(model).terms()
        if isinstance(terms, list) and not terms:
            terms = Refused("it adds nothing at indices that move with its counters")
        if isinstance(terms, Refused):
            missed(self.builder, "gather", loop, terms)
            return
        assert isinstance(model, LoopNest)
        nest = Nest(loop, position, terms, loop.inits, loop.outs, model.only_added_to())
        self.nests[position] = nest
        for term in terms:
            for found in sums:
                if found.fits(term, self.builder) and self._joins(found, nest, term):
                    found.terms.append((nest, term))
                    break
            else:
                sums.append(PlaceSum(nest, term.array, term.late, [(nest, term)]))

    def _joins(self, found: PlaceSum, nest: Nest, term: Term) -> bool:
        """True if a term of ``nest`` may be moved to the position of the sum ``found``."""
        if found.nest is nest:
            return found.array == term.array and found.late == term.late
        if term.late or not self._same_array(nest.inits[term.array], found):
            return False
        limit = found.nest.position + found.late
        return all(self.defined_at.get(v, -1) < limit for v in self._reads(nest, term))

    def _same_array(self, version: Atom, found: PlaceSum) -> bool:
        """True if loops between a sum and ``version`` of its array do nothing but add to it."""
        while self._read_once(version) and version is not found.nest.outs[found.array]:
            nest = self.nests.get(self.defined_at.get(version, -1))
            k = nest.outs.index(version) if nest is not None else -1
            if nest is None or k not in nest.adding:
                return False
            version = nest.inits[k]
        return self._read_once(version)

    def _read_once(self, version: Atom) -> bool:
        """True if the only use of an array's version is as the initial value of a nest."""
        uses = [s for s in self.block.statements if version in core.free_vars(Block([s]))]
        return (
            len(uses) == 1
            and version not in self.block.results
            and list(core.operands(uses[0])).count(version) == 1
            and all(version not in core.free_vars(b) for b in core.blocks_of(uses[0]))
        )

    def _reads(self, nest: Nest, term: Term) -> set[Var]:
        """The variables from outside of its loops that a term reads."""
        inside = core.defined_vars(nest.loop.body) | {nest.loop.index}
        atoms = {a for s in (*term.needs, term.store) for a in s.args if isinstance(a, Var)}
        read = {a for s in term.needs for a in s.args if a in term.versions}
        return (atoms - inside - set(nest.loop.phis)) | {
            v for a in read if isinstance(v := nest.inits[term.versions[a]], Var)
        }

    # writing

    def _early(self, found: PlaceSum) -> list[Statement]:
        nest, k = found.nest, found.array
        with self.builder.block() as made:
            version = self._sum(found, self._current(nest.inits[k]))
        if nest.outs[k] in nest.loop.outs:
            at = nest.loop.outs.index(nest.outs[k])
            inits = list(nest.loop.inits)
            inits[at] = version
            nest.loop.inits = tuple(inits)
        else:
            self.now[nest.outs[k]] = version
        nest.inits = (*nest.inits[:k], version, *nest.inits[k + 1 :])
        return made.statements

    def _late(self, found: PlaceSum) -> list[Statement]:
        nest, out = found.nest, found.nest.outs[found.array]
        before = self._current(out)
        if before is out:
            before = Var(out.type, out.name, out.origin)
            nest.loop.outs = tuple(before if o is out else o for o in nest.loop.outs)
        with self.builder.block() as made:
            self.now[out] = self._sum(found, before)
        return made.statements

    def _sum(self, found: PlaceSum, version: Atom) -> Var:
        arrays: dict[int, list[Atom]] = {}
        for nest, term in found.terms:
            versions = nest.outs if term.late else nest.inits
            arrays[id(term)] = [self._current(v) for v in versions]
        block = self.builder.blocks[-1]
        places = self.places(found, self.builder, arrays)
        out = places.write(version)
        self.edges |= places.edges
        self.made.update(map(id, block.statements))
        label(block.statements, "reverse")
        return out
