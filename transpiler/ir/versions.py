"""The versions of arrays: what a value comes from by stores, loops and branches, and becomes.

A store makes the next version of an array, a loop carries versions from iteration to iteration, and
a branch gives one of two. In::

    x.1: float64[n] = for i in range(0, n, 1) carrying x.2: float64[n] = x:
        x.3: float64[n] = update(x.2, 0.0, i, index=(Slot(position=0),))
        yield x.3

``x.3`` comes from ``x.2``, ``x.2`` from ``x`` and ``x.3``, and ``x.1`` from all three. So
``earlier(x.1)`` yields ``x.1, x.2, x, x.3`` and ``origins(x.1)`` only ``x``; all four are in
``later(x)``; and ``before(x.1)`` is ``x``, as the loop does nothing but store into the array.
``uses`` tells which of them are read, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.effects import is_indexed_store, is_plain_store, is_store


def of_stores(s: Apply) -> tuple[Atom, ...]:
    """The array that any store goes on with, which may be one that makes room for more elements."""
    return s.args[:1] if is_store(s) else ()


def of_indexed_stores(s: Apply) -> tuple[Atom, ...]:
    """The array that a store at an index goes on with, or ``np.add.at``."""
    return s.args[:1] if is_indexed_store(s) else ()


def of_plain_stores(s: Apply) -> tuple[Atom, ...]:
    """The array that ``x[index] = v`` or ``x[index] += v`` goes on with."""
    return s.args[:1] if is_plain_store(s) else ()


def of_nothing(s: Apply) -> tuple[Atom, ...]:
    """No array: versions are followed through loops and branches only."""
    return ()


class Versions:
    """The versions of values, by the statements that define or bind them.

    ``taken`` gives the operands that the results of an operation go on with: the array of a store
    and, where views and copies count, of those. ``later`` and ``family`` ask the statements once:
    they are not kept current when the program changes.
    """

    def __init__(
        self,
        made: Mapping[Var, Statement],
        taken: Callable[[Apply], Iterable[Atom]] = of_stores,
    ):
        self.made, self.taken = made, taken

    @classmethod
    def within(
        cls, block: Block, taken: Callable[[Apply], Iterable[Atom]] = of_stores
    ) -> Versions:
        """The versions that a block defines or binds, at any depth."""
        made: dict[Var, Statement] = {}
        for s in core.walk(block):
            if not isinstance(s, core.Kernel):  # its results are those of its statements
                made.update(dict.fromkeys((*s.outs, *core.bound_vars(s)), s))
        return cls(made, taken)

    # one step

    def sources(self, var: Atom) -> tuple[Atom, ...]:
        """The values one of which ``var`` is, or goes on with; none if it is a new value."""
        s = self.made.get(var) if isinstance(var, Var) else None
        match s:
            case Apply():
                return tuple(self.taken(s))
            case If():
                k = s.outs.index(var)
                return s.then.results[k], s.orelse.results[k]
            case For() | While() if var in s.outs:
                k = s.outs.index(var)
                return s.phis[k], s.inits[k], s.body.results[k]
            case For() | While() if var in s.phis:
                k = s.phis.index(var)
                return s.inits[k], s.body.results[k]
        return ()

    @cached_property
    def _targets(self) -> dict[Atom, list[Var]]:
        found: dict[Atom, list[Var]] = {}
        for var in self.made:
            for source in self.sources(var):
                if isinstance(source, Var) or source is core.UNDEFINED:
                    found.setdefault(source, []).append(var)
        return found

    def before(self, var: Atom) -> Var | None:
        """The version before the statement that defines ``var``, if that only stores into it.

        None if on some path it goes on with another array, or with another version of this one.
        """
        s = self.made.get(var) if isinstance(var, Var) else None
        found: list[Atom] = []
        match s:
            case Apply():
                found = [*self.taken(s)]
            case If():
                k = s.outs.index(var)
                one, two = (self.start(arm, arm.results[k]) for arm in (s.then, s.orelse))
                found = [one] if one is two else []
            case For() | While() if var in s.outs:
                k = s.outs.index(var)
                same = self.start(s.body, s.body.results[k]) is s.phis[k]
                found = [s.inits[k]] if same else []
        return found[0] if found and isinstance(found[0], Var) else None

    # all steps

    def earlier(self, atom: Atom, until: Container[Atom] = ()) -> Iterator[Atom]:
        """Yield a value and all that it may come from; ``until``: values not to be followed."""
        pending, seen = [atom], set[Var]()
        while pending:
            now = pending.pop()
            if isinstance(now, Var):
                if now in seen:
                    continue
                seen.add(now)
            yield now
            if now not in until:
                pending += self.sources(now)[::-1]

    def origins(self, atom: Atom) -> Iterator[Atom]:
        """Yield the values that ``atom`` comes from, which come from no others themselves."""
        return (a for a in self.earlier(atom) if not self.sources(a))

    def later(self, atom: Atom, without: Container[Var] = ()) -> list[Atom]:
        """A value, and all that may come from it by ways that pass none of ``without``."""
        found, seen = [atom], {atom}
        for now in found:
            new = dict.fromkeys(v for v in self._targets.get(now, ()) if v not in without)
            found += [v for v in new if v not in seen]
            seen |= new.keys()
        return found

    def start(self, block: Block, result: Atom) -> Var | None:
        """The version on entry to a block of which ``result`` comes by stores alone, on every path.

        None if there is no single one.
        """
        own = core.outs_of(block)
        now = result if isinstance(result, Var) else None
        while now in own:
            now = self.before(now)
        return now

    def stores(self, array: Atom) -> list[Apply]:
        """The stores right behind a version, one into the result of the other, latest first."""
        found: list[Apply] = []
        while isinstance(array, Var) and is_store(s := self.made.get(array)):
            found.append(s)
            array = s.args[0]
        return found

    # alias sets

    def family(self, var: Var) -> frozenset[Var]:
        """All values that are linked with ``var`` in either direction."""
        return self._families.get(var) or frozenset([var])

    @cached_property
    def _families(self) -> dict[Var, frozenset[Var]]:
        links = {var: [a for a in self.sources(var) if isinstance(a, Var)] for var in self.made}
        found: dict[Var, frozenset[Var]] = {}
        for var in links:
            if var not in found:
                pending, members = [var], {var}
                while pending:
                    now = pending.pop()
                    new = {*links.get(now, ()), *self._targets.get(now, ())} - members
                    members |= new
                    pending += new
                found |= dict.fromkeys(members, frozenset(members))
        return found
