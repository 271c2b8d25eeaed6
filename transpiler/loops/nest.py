"""Loop nests: loops, the element accesses in them in order, and the arrays that they carry.

``build`` follows the versions of each carried array through a nest of ``for`` loops, and returns
the reads and stores of its elements with affine indices, or the reason why the nest has none.
``build_general`` also follows branches, ``while`` loops, carried scalars, old versions, and unknown
indices, which have None in place of the index. The legality tests of the schedules ask this model,
and ``dependence``, rather than the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, For, If, Statement, Var, While
from calque.transpiler.ir.effects import ends_call, is_access, is_plain_store, is_size
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.ir.uses import Uses
from calque.transpiler.ir.verdicts import CARRIED, MAY_RAISE, element_text
from calque.transpiler.loops.accesses import ElementIndex, element_index, is_element, steady_symbols
from calque.transpiler.loops.dependence import Access


@dataclass(frozen=True)
class NestAccess(Access):
    """An access to an array that a nest carries; its position is the number in the nest."""

    statement: Apply
    loops: tuple[For, ...]  # surrounding loops of the nest, outermost first

    def known_by(self, symbols: frozenset[str]) -> NestAccess:
        """The access with None for indices that depend on other symbols, as ``k // 2``."""
        place = (None if d is None or not dim_symbols(d) <= symbols else d for d in self.place)
        return replace(self, place=tuple(place))


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

    def accesses_to(self, k: int) -> list[NestAccess]:
        """The accesses to the k-th array that the loop carries, in order."""
        return [a for a in self.accesses if a.array == k]

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
    walk = _Walk(LoopNest(loop, builder), general=False)
    return walk.enter(loop, ()) or walk.nest


def build_general(loop: For, builder: Builder) -> LoopNest | Refused:
    """The accesses of any loop's iteration, or the reason if an array is used otherwise."""
    walk = _Walk(LoopNest(loop, builder), general=True)
    walk.nest.loops.append(loop)
    return walk.block(loop.body, (loop,)) or walk.nest


class _Walk:
    """Follows the versions of arrays; ``now`` holds the latest version of each."""

    def __init__(self, nest: LoopNest, general: bool):
        self.nest, self.general = nest, general
        self.now: list[Atom] = list(nest.loop.phis)
        nest.array_of = {phi: k for k, phi in enumerate(nest.loop.phis) if phi.type.ndim}

    def enter(self, s: For | While, around: tuple[For, ...]) -> Refused | None:
        """Follow versions through a loop; the reason if they cannot be followed."""
        nest, here = self.nest, (s.origin,)
        if isinstance(s, For):
            if s.index not in nest.builder.dim_values and not self.general:
                return Refused("the range of {0} is not known", here)
            nest.loops.append(s)
            around = (*around, s)
        for inner in core.blocks_of(s):
            if (refused := self.block(inner, around)) is not None:
                return refused
        for phi, result, out in zip(s.phis, s.body.results, s.outs, strict=True):
            k = self._array(phi)
            if self._array(result) != k:
                return Refused("{0} hands whole arrays on", here)
            if k is None:
                continue  # a scalar
            if self.now[k] is not result and not self.general:
                return Refused("{0} does not end with the latest elements of its arrays", here)
            self._goes_on(k, out)
        return None

    def _array(self, value: Atom) -> int | None:
        return self.nest.array_of.get(value) if isinstance(value, Var) else None

    def _goes_on(self, k: int, version: Var) -> None:
        self.nest.array_of[version] = k
        self.now[k] = version

    def block(self, block: Block, loops: tuple[For, ...]) -> Refused | None:
        """Follow versions through a block within some loops."""
        for s in block.statements:
            self.nest.number[id(s)] = len(self.nest.number)
            here = (s.origin,)
            match s:
                case Apply():
                    refused = self._apply(s, loops)
                case If() if self.general:
                    refused = self._branch(s, loops)
                case If():
                    refused = Refused("{0} is a branch", here)
                case While() if not self.general:
                    refused = Refused("{0} is a while loop", here)
                case For() | While():
                    refused = self._begin(s) or self.enter(s, loops)
                case Effect() if ends_call(s):
                    refused = Refused("{0} may raise, which no thread can", here, MAY_RAISE)
                case _:
                    refused = Refused("{0} happens in the order of iterations", here)
            if refused is not None:
                return refused
        return None

    def _begin(self, s: For | While) -> Refused | None:
        """Let the values that a loop carries be the versions that it begins with."""
        for init, phi in zip(s.inits, s.phis, strict=True):
            k = self._array(init)
            if k is not None and (self.general or self.now[k] is init):
                self._goes_on(k, phi)
            elif k is not None:
                return Refused("{0} begins with old elements of an array", (s.origin,))
            elif not self.general:
                kind = "an array of its own" if phi.type.ndim else "a scalar"
                return Refused(f"{{0}} carries {kind} to its next iteration", (s.origin,))
        return None

    def _branch(self, s: If, loops: tuple[For, ...]) -> Refused | None:
        """Follow versions through both arms, which must end with versions of one array."""
        for arm in core.blocks_of(s):
            if (refused := self.block(arm, loops)) is not None:
                return refused
        for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
            found = {self._array(a) for a in arms}
            if len(found) > 1:
                return Refused("{0} chooses between whole arrays", (s.origin,))
            (k,) = found
            if k is not None:
                self._goes_on(k, out)
        return None

    def _apply(self, s: Apply, loops: tuple[For, ...]) -> Refused | None:
        nest, here = self.nest, (s.origin,)
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
        if not is_access(s) or held != [s.args[0]]:
            words = f"{{0}} reads {held[0].name or 'an array'} as a whole"
            return Refused(f"{words}, which each iteration changes", here, CARRIED)
        if not s.proven:
            what = element_text(s.origin)
            return Refused(f"{{0}}: {what} is not proven to be inside its array", here, MAY_RAISE)
        place = element_index(s, nest.builder)
        if not self.general:
            if self.now[k] is not held[0]:
                return Refused("{0} reads old elements of an array", here)
            if None in place:
                return Refused("{0} has an index that is not affine in the counters", here)
            if not is_element(s, nest.builder):
                return Refused("{0} touches more than one element", here)
        writes, adds = is_plain_store(s), s.primitive.adds
        nest.accesses.append(NestAccess(k, place, nest.number[id(s)], writes, adds, s, loops))
        if writes:
            self._goes_on(k, s.out)
        return None


def last_versions(statements: Iterable[Statement]) -> dict[Var, Var]:
    """The version that stores and loops among statements go on with, by the version before them.

    Arrays are in the order of their last stores.
    """
    found: dict[Var, Var] = {}
    first: dict[Var, Var] = {}  # of each version, the one before the statements
    for s in statements:
        pairs: Iterable[tuple[Atom, Var]] = ()
        if is_plain_store(s):
            pairs = ((s.args[0], s.out),)
        elif isinstance(s, For):
            pairs = zip(s.inits, s.outs, strict=True)
        for old, new in pairs:
            if not isinstance(old, Var):
                continue
            begun = first[new] = first.get(old, old)
            found.pop(begun, None)
            found[begun] = new
    return found


def _symbols(place: ElementIndex) -> frozenset[str]:
    return frozenset().union(*(dim_symbols(d) for d in place if d is not None))
