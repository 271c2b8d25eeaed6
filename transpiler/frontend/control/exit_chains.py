"""Chains of branches that may leave, written in sequence instead of nested.

Before, with one level for every iteration of an unrolled loop that may be left::

    s = if stopped: yield s.1
        else:
            s.2 = s.1 * 1.01
            stopped.1 = s.2 > 5.0
            s.3 = if stopped.1: yield s.2
                  else: ...
            yield s.3

After::

    stopped.2, s.3 = if stopped: yield stopped, s.1
                     else:
                         s.2 = s.1 * 1.01
                         stopped.1 = s.2 > 5.0
                         yield stopped.1, s.2
    s = if stopped.2: yield s.3
        else: ...

Each branch gives whether the chain has been left, the chain's results if it has been, and what
later branches read. A path computes what it computed before, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder
from calque.transpiler.ir.core import UNDEFINED, Atom, Block, If, Statement, Var
from calque.transpiler.ir.rewrite import copy_facts

_DEEP = 8  # levels that stay nested, like nested tests of the user's


class Links:
    """The branches that are links of chains, each with the key of its chain."""

    def __init__(self) -> None:
        self.keys: dict[int, tuple[If, Any]] = {}  # by the id of the branch

    def note(self, block: Block, key: Any) -> None:
        """Note the last branch of a block as a link of the chain with this key."""
        last = _tail(block)
        if last is not None:
            self.keys[id(last)] = last, key

    def key(self, branch: If) -> Any:
        """The key of the chain that a branch is a link of; None if it is no link."""
        return self.keys.get(id(branch), (branch, None))[1]


def flatten_exits(block: Block, builder: Builder, links: Links) -> None:
    """Flatten the long chains within a block's last statement, in place."""
    last = block.statements.pop()
    block.statements += _Flattening(builder, links).flat(last)


@dataclass(eq=False)
class _Link:
    """One level of a chain: the statements before its test, and the arm that leaves the chain.

    The results of ``leaving`` are those of the whole chain.
    """

    before: list[Statement]
    test: Var
    leaves_if: bool  # the value of the test with which the chain is left
    leaving: Block
    origin: Origin | None


class _Flattening:
    def __init__(self, builder: Builder, links: Links):
        self.builder, self.key_of = builder, links.key
        self.depths: dict[int, int] = {}  # by the id of a branch

    def flat(self, statement: Statement) -> list[Statement]:
        """A statement, or the statements that replace it."""
        if not isinstance(statement, If) or self._depth(statement) <= _DEEP:
            for block in core.blocks_of(statement):
                block.statements = self._all(block.statements)
            return [statement]
        links, rest = self._links(statement)
        for link in links:
            link.before = self._all(link.before)
            link.leaving.statements = self._all(link.leaving.statements)
        rest.statements = self._all(rest.statements)
        return list(_Chain(self.builder, statement, links, rest).statements())

    def _all(self, statements: list[Statement]) -> list[Statement]:
        return [new for s in statements for new in self.flat(s)]

    def _depth(self, branch: If) -> int:
        """The number of links of the longest chain that begins with a branch."""
        found = self.depths.get(id(branch))
        if found is None:
            inner = [self._next(branch, arm) for arm in core.blocks_of(branch)]
            found = 1 + max(0 if link is None else self._depth(link) for link in inner)
            self.depths[id(branch)] = found
        return found

    def _next(self, branch: If, arm: Block) -> If | None:
        """The link of the same chain that ends an arm; None if there is none."""
        last, key = _tail(arm), self.key_of(branch)
        return None if last is None or key is None or self.key_of(last) != key else last

    def _links(self, first: If) -> tuple[list[_Link], Block]:
        """The links of the longest chain that begins with a branch, and the block at its end."""
        links: list[_Link] = []
        before: list[Statement] = []
        wanted: list[Atom] = list(first.outs)
        at: If | None = first
        while at is not None:
            assert isinstance(at.test, Var)
            nexts = [self._next(at, arm) for arm in (at.then, at.orelse)]
            depths = [0 if link is None else self._depth(link) for link in nexts]
            leaves_if = depths[1] >= depths[0]
            leaving, going_on = (at.then, at.orelse) if leaves_if else (at.orelse, at.then)
            given = Block(leaving.statements, _given(at, leaving, wanted))
            links.append(_Link(before, at.test, leaves_if, given, at.origin))
            wanted = _given(at, going_on, wanted)
            at = nexts[leaves_if]
            before = going_on.statements[:-1]
        return links, Block(going_on.statements, wanted)


def _tail(block: Block) -> If | None:
    """The branch with which a block ends."""
    last = block.statements[-1] if block.statements else None
    return last if isinstance(last, If) else None


def _given(branch: If, arm: Block, wanted: Sequence[Atom]) -> list[Atom]:
    """The results of an arm for atoms, some of which are results of its branch."""
    places = {out: k for k, out in enumerate(branch.outs)}
    return [arm.results[places[a]] if isinstance(a, Var) and a in places else a for a in wanted]


class _Chain:
    """The branches of a chain, one after the other; ``rest`` is where no link leaves it.

    The k-th branch holds the k-th part: what is computed where the first k + 1 links do not leave.
    """

    def __init__(self, builder: Builder, whole: If, links: list[_Link], rest: Block):
        self.builder, self.whole, self.links = builder, whole, links
        self.parts = [*(link.before for link in links[1:]), rest.statements]
        self.ends = [*(link.leaving.results for link in links), rest.results]
        self.needed: list[list[Var]] = [[] for _ in links]  # what later parts read of each
        flags = (j for j in range(len(whole.outs)) if self._is_flag(j))
        self.flag = next(flags, None)  # a result that says whether the chain has been left
        self._find_needed()
        self.results: list[Atom] = list(self.ends[0])  # if the chain has been left by now
        self.settled = [
            max((k for k in range(len(links)) if self._changes(k, j)), default=0)
            for j in range(len(whole.outs))
        ]

    def _changes(self, k: int, j: int) -> bool:
        """True if the k-th part changes the j-th result."""
        return self.ends[k + 1][j] is not self.ends[k][j]

    def _is_flag(self, j: int) -> bool:
        """True if a result is the truth of the test that left the chain."""
        tests = [link.test if link.leaves_if else UNDEFINED for link in self.links]
        return all(end[j] is test for end, test in zip(self.ends, tests, strict=False))

    def _find_needed(self) -> None:
        where: dict[Var, int] = {}
        for k, part in enumerate(self.parts):
            inner = list(part)
            atoms = [end for j, end in enumerate(self.ends[k + 1]) if self._changes(k, j)]
            if k + 1 < len(self.links):
                inner += self.links[k + 1].leaving.statements
                atoms.append(self.links[k + 1].test)
            for var in core.free_vars(Block(inner, atoms)):
                if var in where:
                    self.needed[where.pop(var)].append(var)
            where.update((out, k) for s in part for out in s.outs)

    def statements(self) -> Iterator[Statement]:
        """All branches, in order."""
        moved: dict[Var, Atom] = {}  # what parts define, as what their branches give it
        test, leaves_if = self.links[0].test, self.links[0].leaves_if
        for k, part in enumerate(self.parts):
            leaving = Block(self.links[0].leaving.statements if k == 0 else [])
            going_on = Block(list(part))
            outs: list[Var] = []
            values = self.ends[k + 1]
            if k + 1 < len(self.links):
                values = self._left_next(k, going_on)
            if self.flag is None and k + 1 < len(self.links):
                flag = self._truth(self.links[k + 1], going_on)
                outs.append(self._like(flag))
                leaving.results.append(test if leaves_if else True)
                going_on.results.append(flag)
            outs += self._choices(k, values, leaving, going_on)
            given = dict(zip(reversed(going_on.results), reversed(outs), strict=True))
            for var in self.needed[k]:
                if var not in given or given[var].type != var.type:
                    given[var] = self._like(var)
                    outs.append(given[var])
                    leaving.results.append(UNDEFINED)
                    going_on.results.append(var)
            core.substitute(going_on, moved)
            moved.update((var, given[var]) for var in self.needed[k])
            arms = (leaving, going_on) if leaves_if else (going_on, leaving)
            yield self._defined(If(tuple(outs), test, *arms, self.links[k].origin))
            test, leaves_if = outs[0] if self.flag is None else self.results[self.flag], True

    def _choices(
        self, k: int, values: Sequence[Atom], leaving: Block, going_on: Block
    ) -> list[Var]:
        """Let the k-th branch give those results that its part changes."""
        outs: list[Var] = []
        for j, out in enumerate(self.whole.outs):
            if k != self.settled[j] and not self._changes(k, j):
                continue
            made = out if k == self.settled[j] else self._like(out)
            leaving.results.append(self.results[j])
            going_on.results.append(values[j])
            self.results[j] = made
            outs.append(made)
        return outs

    def _left_next(self, k: int, going_on: Block) -> list[Atom]:
        """The results where the next link leaves the chain; a branch before it computes them."""
        link, values = self.links[k + 1], list(self.ends[k + 1])
        if not link.leaving.statements:
            return values
        inside = core.defined_vars(link.leaving)
        chosen = [j for j, value in enumerate(values) if isinstance(value, Var) and value in inside]
        given = [values[j] for j in chosen]
        arms = Block(link.leaving.statements, given), Block([], [UNDEFINED] * len(given))
        for j in chosen:
            values[j] = self._like(self.whole.outs[j])
        outs = tuple(values[j] for j in chosen)
        then, orelse = arms if link.leaves_if else arms[::-1]
        going_on.statements.append(self._defined(If(outs, link.test, then, orelse, link.origin)))
        return values

    def _truth(self, link: _Link, going_on: Block) -> Var:
        """True if a link leaves the chain."""
        if link.leaves_if:
            return link.test
        with self.builder.at(link.origin), self.builder.block() as block:
            flag = FUNCTIONS[np.logical_not](Array(link.test)).atom
        going_on.statements += block.statements
        return flag

    def _like(self, var: Var) -> Var:
        """A new Var about which the same facts are known."""
        made = var.again()
        copy_facts(self.builder, var, made)
        return made

    def _defined(self, branch: If) -> If:
        self.builder.definitions.update(dict.fromkeys(branch.outs, branch))
        return branch
