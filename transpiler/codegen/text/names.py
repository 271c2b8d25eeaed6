"""Names of variables: the user's where there is one, else words that describe the value.

Versions that are otherwise equal are distinguished by words, in the text's order: ``x``, ``x_now``,
``x_then`` for the user's names, ``x_product`` and ``x_product_other`` for invented ones. When the
words run out, as in ten layers one after another, numbers follow: ``x_6``.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
from collections.abc import Callable, Iterable, Iterator, Sequence

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.naming import LONGEST, described, index_word, told, word_within
from calque.transpiler.ir.roles import Roles
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.indexing import copy, getitem

_COUNTERS = ("i", "j", "k", "l", "m", "n")
VERSIONS = ("now", "then", "later")  # for variables that the user assigns again
OTHERS = ("other", "further", "still_further")


class Names:
    """One name for each group of Vars that has a line of its own."""

    def __init__(
        self,
        program: PrintedProgram,
        groups: Groups,
        live: Liveness,
        skip: Callable[[core.Statement], bool],
        paths: set[Var],
        reserved: Iterable[str],
        typed: bool = False,
    ):
        self.typed = typed  # a variable has one type: a double cannot hold every 64-bit integer
        self.program, self.groups, self.live = program, groups, live
        self.reserved = {*reserved, "np", "math", "cmath", *keyword.kwlist}
        self.given: dict[int, str] = {}
        self._holders: dict[str, int] = {}  # name -> members of the groups with this name
        self._clashing: dict[str, int] = {}  # name -> values live where these are defined
        self._functions: dict[str, set[str]] = {}  # name -> the user's functions they come from
        self._clashes: dict[int, int] = {}  # group -> values live where its members are defined
        self._hints: dict[int, str] = {}
        self._along: set[int] = set()  # the counters of loops over elements
        self._stems: dict[int, str] = {}  # group -> the stem of an invented name
        for var in program.function.params:
            if var not in paths and var.name is not None:
                self._give(groups.of(var), var.name)
        self._stores, self._loaded = program.once(_accesses)
        self._roles = program.once(_roles)
        order = list(self._bound(program.body, skip, 0))
        for group in order:
            if group not in self.given and groups.names(group):
                self._choose(group, *groups.names(group))
        self._users = set(self._holders) | {v.name for v in program.vars if v.name}
        for group in order:
            if group not in self.given:
                self._invent(group)

    def __call__(self, var: Var) -> str:
        """The name of a Var that has one."""
        return self.given[self.groups.of(var)]

    def _bound(
        self, block: core.Block, skip: Callable[[core.Statement], bool], depth: int
    ) -> Iterator[int]:
        for s in block.statements:
            if skip(s):
                continue
            for var in core.bound_vars(s):
                if isinstance(s, For) and var is s.index and var.name is None:
                    counter = "k" if var in self.program.own_counters else _COUNTERS[min(depth, 5)]
                    self._hints[self.groups.of(var)] = counter
                elif isinstance(s, For) and var is s.index and s.scheduled:
                    self._along.add(self.groups.of(var))
                yield self.groups.of(var)
            for inner in core.blocks_of(s):
                yield from self._bound(inner, skip, depth + isinstance(s, For))
            for var in s.outs:
                yield self.groups.of(var)

    def _free_for(self, name: str, group: int) -> bool:
        if name in self.reserved:
            return False
        held, mine = self._holders.get(name, 0), self.groups.members[group]
        if self.typed and self._mixes(held | mine):
            return False
        return not (self._clash(group) & held or self._clashing.get(name, 0) & mine)

    def _mixes(self, members: int) -> bool:
        """True if these numbers have several dtypes: a variable would widen some of them."""
        return len({v.type.dtype for v in self.program.members(members) if not v.type.ndim}) > 1

    def _clash(self, group: int) -> int:
        if group not in self._clashes:
            found = 0
            for var in self.program.members(self.groups.members[group]):
                found |= self.live.clash[self.program.index[var]]
            self._clashes[group] = found
        return self._clashes[group]

    def _give(self, group: int, name: str) -> None:
        self.given[group] = name
        self._holders[name] = self._holders.get(name, 0) | self.groups.members[group]
        self._clashing[name] = self._clashing.get(name, 0) | self._clash(group)
        members = self.program.members(self.groups.members[group])
        self._functions.setdefault(name, set()).update(map(_function_of, members))

    def _choose(self, group: int, wish: str) -> None:
        others = [f"{wish}_{word}" for word in self._places(group, wish)]
        if group in self._along and wish in _COUNTERS:
            others = [*_COUNTERS[_COUNTERS.index(wish) + 1 :]]
        apart = self._told_apart(group, wish)
        for candidate in _variants(wish, *others, *apart, words=VERSIONS):
            taken = candidate not in (wish, *others) and candidate in self._holders
            if not taken and self._free_for(candidate, group):
                self._give(group, candidate)
                return
        raise AssertionError(f"no name is free for {wish}")

    def _told_apart(self, group: int, wish: str) -> Iterator[str]:
        """Better names: ``x_before`` for a restored value, ``sigmoid_x`` in inlined ``sigmoid``."""
        first = next(iter(self.program.members(self.groups.members[group])))
        made = self.program.definition.get(first)
        if isinstance(made, Apply) and made.primitive is getitem:
            if (made.args[0].name or "").endswith("_saved"):
                yield f"{wish}_before"
        within = _function_of(first)
        known = {*self._functions.get(wish, ()), self.program.function.name}
        if within.isidentifier() and not any(k.startswith(within) for k in known):
            yield f"{within}_{wish}"

    def _places(self, group: int, wish: str) -> list[str]:
        """Suffixes such as ``ij`` for element [i, j], unless one of that name is read before."""
        var, *others = self.program.members(self.groups.members[group])
        made = self.program.definition.get(var)
        if others or not isinstance(made, Apply) or var.type.ndim:
            return []
        block = self.program.block_of[id(made)]
        read = {"", *map(self._index_word, self._loaded.get((id(block), wish), ()))}
        words = [self._index_word(s) for s in self._stores.get(var, ()) if s.out.name == wish]
        return [w for w in (*words, self._counters(block)) if w not in read]

    def _counters(self, block: core.Block) -> str:
        """The indices of the loops over elements that a block is in."""
        owner = self.program.home[id(block)][1]
        if owner is None:
            return ""
        around = self._counters(self.program.block_of[id(owner)])
        counter = self.word(owner.index) if isinstance(owner, For) and owner.scheduled else None
        return around + (counter or "")

    def _invent(self, group: int) -> None:
        first = next(iter(self.program.members(self.groups.members[group])))
        members = self.program.members(self.groups.members[group])
        word = next((v.word for v in members if v.word), None)
        wish = self._hints.get(group) or word or self.describe(first)
        self._stems[group] = self._root(first) or wish
        if hasattr(builtins, wish) or not wish.isidentifier() or keyword.iskeyword(wish):
            wish = f"{wish}_value" if wish.isidentifier() else "value"
        letters = _COUNTERS[_COUNTERS.index(wish) :] if group in self._hints else ()
        elements = [f"{wish}_{word}" for word in self._places(group, wish)]
        made = self.program.definition.get(first)
        if word and isinstance(made, Apply):
            whole = told(made, self._named, self.program.definition)
            elements += [whole] if whole and len(whole) <= LONGEST else []
        for candidate in itertools.chain(letters, _variants(wish, *elements)):
            if candidate not in self._users and self._free_for(candidate, group):
                self._give(group, candidate)
                return

    # descriptions of values

    def word(self, atom: Atom) -> str | None:
        """The word for an operand inside a longer name."""
        if not isinstance(atom, Var):
            return None
        group = self.groups.of(atom)
        return self._stems.get(group) or self.given.get(group) or self._root(atom)

    def _root(self, var: Var) -> str | None:
        """The user's name from which an unnamed value is computed."""
        groups = self.groups

        def known(v: Var) -> str | None:
            if v is var:
                return v.name
            group = groups.of(v)
            return self._stems.get(group) or self.given.get(group) or v.name

        return word_within(var, known, self.program.definition)

    def _index_word(self, s: Apply) -> str:
        return index_word(s, self.word, self.program.definition)

    def describe(self, var: Var) -> str:
        """A name from the operation that computes a value."""
        made = self.program.definition.get(var)
        if not isinstance(made, Apply):
            return "chosen" if isinstance(made, core.If) else "carried"
        source: Apply = made
        if made.primitive is copy and isinstance(made.args[0], Var):
            inner = self.program.definition.get(made.args[0])
            if isinstance(inner, Apply) and inner.primitive is getitem:
                source = inner
        if source.primitive.infix and told(source, self._named, self.program.definition) is None:
            part = self._roles.of_division(var)
            if part is not None and "_bar" not in part and part not in self._holders:
                return part
        return described(source, self.word, self._named, self.program.definition)

    def _named(self, atom: Atom) -> str | None:
        """The name of a value, or of the array of which it is a part."""
        if not isinstance(atom, Var):
            return None
        if found := self.given.get(self.groups.of(atom)) or atom.name:
            return found
        made = self.program.definition.get(atom)
        if isinstance(made, Apply) and made.primitive is getitem:
            return self._named(made.args[0])
        return None


def _roles(program: PrintedProgram) -> Roles:
    return Roles(program.body, _of_the_user, program.definition)


def _of_the_user(atom: Atom) -> str | None:
    return atom.name if isinstance(atom, Var) else None


def _function_of(var: Var) -> str:
    return var.origin.function if var.origin else ""


def _accesses(
    program: PrintedProgram,
) -> tuple[dict[Var, list[Apply]], dict[tuple[int, str | None], list[Apply]]]:
    """The stores of each value, and the reads of arrays by block and name."""
    stores: dict[Var, list[Apply]] = {}
    reads: dict[tuple[int, str | None], list[Apply]] = {}
    for s in core.walk(program.body):
        if not isinstance(s, Apply) or not s.args or not isinstance(s.args[0], Var):
            continue
        if is_store(s) and "index" in s.params and isinstance(s.args[1], Var):
            stores.setdefault(s.args[1], []).append(s)
        elif s.primitive is getitem:
            reads.setdefault((id(program.block_of[id(s)]), s.args[0].name), []).append(s)
    return stores, reads


def _variants(wish: str, *first: str, words: Sequence[str] = OTHERS) -> Iterator[str]:
    """Candidates for a name: the wish, the ``first`` ones, then variants with words."""
    yield from (wish, *first)
    yield from (f"{wish}_{word}" for word in words)
    for number in itertools.count(len(words) + 2):
        yield f"{wish}_{number}"
