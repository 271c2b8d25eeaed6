"""Loop nests: loops, the element accesses in them in order, and the arrays that they carry.

``build`` follows the versions of each carried array through a nest of ``for`` loops, and returns
the reads and stores of its elements with affine indices, or the reason why the nest has none. The
legality tests of the schedules ask this model, and ``dependence``, rather than the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, For, Var
from calque.transpiler.ir.effects import is_access, is_plain_store, is_size
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.ir.uses import Uses
from calque.transpiler.loops.accesses import ElementIndex, element_index, is_element, steady_symbols
from calque.transpiler.loops.dependence import Access


@dataclass(frozen=True)
class NestAccess(Access):
    """An access to an array that a nest carries; its position is the number in the nest."""

    statement: Apply
    loops: tuple[For, ...]  # surrounding loops of the nest, outermost first


@dataclass(eq=False)
class LoopNest:
    """A loop, all loops in it, and the accesses to the arrays that it carries.

    ``array_of`` gives for each version of a carried array the array's position, ``made_by`` the
    statement that computes a value in the nest, and ``number`` the order of statements by their
    ids. ``others`` are the statements that touch arrays which the nest does not carry.
    """

    loop: For
    builder: Builder
    loops: list[For] = field(default_factory=list)
    accesses: list[NestAccess] = field(default_factory=list)
    others: list[Apply] = field(default_factory=list)
    array_of: dict[Var, int] = field(default_factory=dict)
    made_by: dict[Var, Apply] = field(default_factory=dict)
    number: dict[int, int] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """The positions of the scalars that the outermost loop carries."""
        return [k for k, phi in enumerate(self.loop.phis) if not phi.type.ndim]

    @property
    def uses(self) -> Uses:
        """The readers of every value in the outermost loop's body."""
        return Uses(self.loop.body)

    def counters(self, loops: Iterable[For]) -> frozenset[str]:
        """The symbols of the counters of loops."""
        values = self.builder.dim_values
        return frozenset().union(*(dim_symbols(values[s.index]) for s in loops))

    def invariant(self) -> frozenset[str]:
        """The symbols of values that are the same in all iterations of the nest."""
        return steady_symbols(self.loop, self.builder) - self.counters([self.loop])

    def stored(self) -> set[int]:
        """The positions of the arrays that the nest stores into."""
        return {a.array for a in self.accesses if a.writes}

    def only_added_to(self) -> set[int]:
        """The positions of the carried arrays that the nest only adds to."""
        arrays = set(range(len(self.loop.phis))) - {*self.numbers}
        return arrays - {a.array for a in self.accesses if not a.adds}

    def unsteady(self) -> NestAccess | None:
        """An access whose index depends on more than counters and invariant sizes; or None."""
        known = self.invariant() | self.counters(self.loops)
        moving = (a for a in self.accesses if not _symbols(a.place) <= known)
        return next(moving, None)


def build(loop: For, builder: Builder) -> LoopNest | Refused:
    """The nest of a loop, or the reason why it is none."""
    nest = LoopNest(loop, builder)
    nest.array_of = {phi: k for k, phi in enumerate(loop.phis) if phi.type.ndim}
    now: list[Atom] = list(loop.phis)
    return _Walk(nest, now).loop(loop, ()) or nest


class _Walk:
    """Follows the versions of arrays; ``now`` holds the latest version of each."""

    def __init__(self, nest: LoopNest, now: list[Atom]):
        self.nest, self.now = nest, now

    def loop(self, s: For, around: tuple[For, ...]) -> Refused | None:
        """Follow versions through a loop; the reason if they cannot be followed."""
        nest, here = self.nest, (s.origin,)
        if s.index not in nest.builder.dim_values:
            return Refused("the range of {0} is not known", here)
        nest.loops.append(s)
        carried = [nest.array_of.get(phi) for phi in s.phis]
        refused = self._block(s.body, (*around, s))
        if refused is not None:
            return refused
        for k, result, out in zip(carried, s.body.results, s.outs, strict=True):
            if k is None:
                continue  # a scalar of the outermost loop
            if self.now[k] is not result:
                return Refused("{0} does not end with the latest elements of its arrays", here)
            nest.array_of[out] = k
            self.now[k] = out
        return None

    def _block(self, block: Block, loops: tuple[For, ...]) -> Refused | None:
        for s in block.statements:
            self.nest.number[id(s)] = len(self.nest.number)
            match s:
                case For():
                    refused = self._enter(s) or self.loop(s, loops)
                case Apply():
                    refused = self._apply(s, loops)
                case core.If():
                    refused = Refused("{0} is a branch", (s.origin,))
                case core.While():
                    refused = Refused("{0} is a while loop", (s.origin,))
                case _:
                    refused = Refused("{0} has an effect besides its results", (s.origin,))
            if refused is not None:
                return refused
        return None

    def _enter(self, s: For) -> Refused | None:
        for init, phi in zip(s.inits, s.phis, strict=True):
            k = self.nest.array_of.get(init) if isinstance(init, Var) else None
            if k is None:
                kind = "an array of its own" if phi.type.ndim else "a scalar"
                return Refused(f"{{0}} carries {kind} to its next iteration", (s.origin,))
            if self.now[k] is not init:
                return Refused("{0} begins with old elements of an array", (s.origin,))
            self.nest.array_of[phi] = k
            self.now[k] = phi
        return None

    def _apply(self, s: Apply, loops: tuple[For, ...]) -> Refused | None:
        nest = self.nest
        nest.made_by.update(dict.fromkeys(s.outs, s))
        arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
        held = [a for a in arrays if a in nest.array_of]
        if is_size(s):
            return None
        if not held:
            if arrays or any(out.type.ndim for out in s.outs):
                nest.others.append(s)
            return None
        k = nest.array_of[held[0]]
        if not is_access(s) or arrays != [s.args[0]]:
            return Refused("{0} uses a whole array that the loop changes", (s.origin,))
        if self.now[k] is not arrays[0]:
            return Refused("{0} reads old elements of an array", (s.origin,))
        if not is_element(s, nest.builder):
            return Refused(_why_no_element(s, nest.builder), (s.origin,))
        place = element_index(s, nest.builder)
        writes, adds = is_plain_store(s), s.primitive.adds
        nest.accesses.append(NestAccess(k, place, nest.number[id(s)], writes, adds, s, loops))
        if writes:
            self.now[k] = s.out
            nest.array_of[s.out] = k
        return None


def _why_no_element(s: Apply, builder: Builder) -> str:
    if not s.proven:
        return "{0} has an index that is not proven to be in bounds"
    if None in element_index(s, builder):
        return "{0} has an index that is not affine in the counters"
    return "{0} touches more than one element"


def _symbols(place: ElementIndex) -> frozenset[str]:
    return frozenset().union(*(dim_symbols(d) for d in place if d is not None))
