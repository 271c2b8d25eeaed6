"""Loop nests in which each iteration stores one element of an array that no other one stores.

``u[i + 1, j + 1] = ...`` in loops over i and j is one: the elements form a box, and each belongs to
one iteration. Passes for grids rewrite such nests over other boxes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var
from calque.transpiler.ir.effects import is_access, is_indexed_store, is_plain_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.loops.accesses import element_index, is_element
from calque.transpiler.primitives.creation import full, ones, ones_like, zeros, zeros_like
from calque.transpiler.primitives.indexing import getitem, update

FILLED = (zeros, ones, zeros_like, ones_like, full)
MARGIN = 8  # the most elements that a box may leave out at an end of an axis


@dataclass(frozen=True)
class Box:
    """A range of elements along each axis, and its offset from the loops' counters."""

    axes: tuple[int, ...]  # the axis that each loop's counter indexes
    shifts: tuple[int, ...]  # of each axis: index minus counter
    lows: tuple[DimLike, ...]
    highs: tuple[DimLike, ...]


@dataclass(eq=False)
class CellNest:
    """A loop nest, and the versions of its arrays from the outermost loop to the innermost."""

    loop: For
    loops: list[For] = field(default_factory=list)
    ahead: list[Statement] = field(default_factory=list)  # on numbers, between the loops
    order: list[list[int]] = field(default_factory=list)  # for each loop, the array of each phi

    @property
    def body(self) -> Block:
        """The innermost block."""
        return self.loops[-1].body

    def phi(self, k: int) -> Var:
        """The version of the k-th array at the start of an innermost iteration."""
        return self.loops[-1].phis[self.order[-1].index(k)]

    def result(self, k: int) -> Atom:
        """The version of the k-th array at the end of an innermost iteration."""
        return self.body.results[self.order[-1].index(k)]

    def store(self, k: int) -> Apply | None:
        """The store into the k-th array, if the innermost body accesses it nowhere else."""
        phi, out = self.phi(k), self.result(k)
        touching = [s for s in core.walk(self.body) if phi in core.operands(s)]
        made = touching[0] if len(touching) == 1 else None
        if not is_plain_store(made):
            return None
        if made.args[0] is not phi or made.out is not out or made not in self.body.statements:
            return None
        return None if any(out in core.operands(s) for s in core.walk(self.body)) else made

    def box(self, s: Apply, builder: Builder) -> Box | None:
        """The elements that an access touches; None unless each iteration touches its own."""
        if not is_element(s, builder) or len(self.loops) != s.args[0].type.ndim:
            return None
        place = element_index(s, builder)
        counters = [builder.dim_values[loop.index] for loop in self.loops]
        own = [next(iter(dim_symbols(c))) for c in counters]
        axes: list[int] = []
        found: dict[int, tuple[int, DimLike, DimLike]] = {}
        for loop, counter in zip(self.loops, counters, strict=True):
            for axis, at in enumerate(place):
                shift = builder.dims.resolve(at - counter)  # type: ignore[operator]
                if not isinstance(shift, int) or axis in found:
                    continue
                low, high = (builder.dim_of(wrap(a)) for a in (loop.start, loop.stop))
                if dim_symbols(low) & {*own} or dim_symbols(high) & {*own}:
                    return None
                resolve = builder.dims.resolve
                found[axis] = (shift, resolve(low + shift), resolve(high + shift))
                axes.append(axis)
                break
        if len(axes) != len(self.loops):
            return None
        shifts, lows, highs = zip(*(found[a] for a in range(len(place))), strict=True)
        return Box(tuple(axes), shifts, lows, highs)


def cell_nest(s: Statement, builder: Builder, shared: bool = True) -> CellNest | Refused:
    """The nest of loops at ``s``, with only numbers computed between the loops.

    With ``shared``, all loops must be parallel and carry only arrays.
    """
    if not isinstance(s, For) or not s.phis:
        return Refused("{0} stores into no array, or is no loop", (s.origin,))
    nest = CellNest(s)
    loop, order = s, list(range(len(s.phis)))
    while True:
        here = (loop.origin,)
        if loop.step != 1 or loop.index not in builder.dim_values:
            return Refused("{0} does not count upward by one", here)
        if shared and not loop.parallel:
            return Refused("{0} does not run on threads", here)
        if shared and any(not p.type.ndim for p in loop.phis):
            return Refused("{0} carries a scalar", here)
        nest.loops.append(loop)
        nest.order.append(order)
        inner = [t for t in loop.body.statements if isinstance(t, For)]
        if not inner:
            return nest
        rest = [t for t in loop.body.statements if t is not inner[0]]
        if len(inner) > 1 or inner[0] is not loop.body.statements[-1]:
            return Refused("{0} does not end with its only inner loop", here)
        other = next((t for t in rest if not is_number(t)), None)
        if other is not None:
            return Refused("{0} does more than compute a number between loops", (other.origin,))
        if set(inner[0].inits) != {*loop.phis}:
            return Refused("{0} carries other arrays than its inner loop", here)
        looks = [t for t in rest if isinstance(t, Apply) and t.primitive.kind != "size"]
        reads = next((t for t in looks if any(p in t.args for p in loop.phis)), None)
        if reads is not None:
            return Refused("{0} reads an array that the loop stores into", (reads.origin,))
        if list(loop.body.results) != [inner[0].outs[inner[0].inits.index(p)] for p in loop.phis]:
            return Refused("{0} does not end with the arrays of its inner loop", here)
        nest.ahead += rest
        order = [order[loop.phis.index(i)] for i in inner[0].inits]
        loop = inner[0]


def is_number(s: Statement) -> bool:
    """True if ``s`` computes one number, from numbers, sizes or an element of an array."""
    if not isinstance(s, Apply) or any(o.type.ndim for o in s.outs) or len(s.outs) != 1:
        return False
    arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
    return not arrays or s.primitive.kind == "size" or s.primitive is getitem


def is_whole(box: Box, dims: tuple[DimLike, ...], builder: Builder) -> bool:
    """True if a box covers all elements of an array with dimensions ``dims``."""
    return margins(box, dims, builder) == [(0, 0)] * len(dims)


def margins(
    box: Box, dims: tuple[DimLike, ...], builder: Builder
) -> list[tuple[int, int]] | None:
    """The number of elements a box leaves out at each end of each axis; None if it may be many."""
    found = []
    for low, high, size in zip(box.lows, box.highs, dims, strict=True):
        above = builder.dims.resolve(size - high)
        if not isinstance(low, int) or not isinstance(above, int):
            return None
        if not (0 <= low <= MARGIN and 0 <= above <= MARGIN):
            return None
        found.append((low, above))
    return found


def surely_stored(nest: CellNest, k: int, builder: Builder) -> bool:
    """True if a nest stores every element of its k-th array and reads none before storing it."""
    stored: set[Var] = set()
    versions = {nest.phi(k)}
    boxes: list[Box] = []  # of the stores so far

    def visit(block: Block) -> bool:
        for s in block.statements:
            if isinstance(s, If):
                if not visit(s.then) or not visit(s.orelse):
                    return False
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    if versions.intersection(a for a in arms if isinstance(a, Var)):
                        versions.add(out)
                        stored.update({out} if stored.issuperset(arms) else ())
                continue
            if not versions.intersection(a for a in core.operands(s) if isinstance(a, Var)):
                if any(versions & {*core.free_vars(b)} for b in core.blocks_of(s)):
                    return False
                continue
            if not isinstance(s, Apply) or s.args[0] not in versions:
                return False
            if s.primitive.kind == "size":
                continue
            if not is_access(s) or versions.intersection(s.args[1:]):
                return False
            box = nest.box(s, builder)
            if box is None or not is_whole(box, s.args[0].type.dims, builder):
                return False
            if s.primitive is not update:  # it reads what the same iteration must have stored
                if s.args[0] not in stored or any(other != box for other in boxes):
                    return False
            if is_indexed_store(s):
                boxes.append(box)
                versions.add(s.out)
                stored.add(s.out)
        return True

    return visit(nest.body) and nest.result(k) in stored
