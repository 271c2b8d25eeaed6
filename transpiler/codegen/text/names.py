"""Names of variables: the user's where there is one, else words that describe the value.

Several values of one name are told apart by what they are: the element ``x_ij``, ``x_before`` a
statement, ``softmax_x`` in an inlined function (``telling_apart.py``). Where no such word is true,
as in ten layers one after another, they are counted: ``second_x``.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.codegen.text.telling_apart import (
    SUMS,
    NamedVersions,
    counted,
    function_of,
    short,
)
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.naming import (
    LONGEST,
    described,
    index_parts,
    index_word,
    joined,
    told,
    word_within,
)
from calque.transpiler.ir.roles import Roles
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.elementwise import astype
from calque.transpiler.primitives.indexing import copy, getitem

_COUNTERS = ("i", "j", "k", "l", "m", "n")
_DEEP = 1000  # more than the blocks around any statement
_BRIEF = 20  # characters of a description that tells versions of a name apart


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
        typed_arrays: bool = False,
    ):
        self.typed = typed  # a variable has one type: a double cannot hold every 64-bit integer
        self.typed_arrays = typed_arrays  # a variable has arrays of one dtype
        self.program, self.groups, self.live = program, groups, live
        self.reserved = {*reserved, "np", "math", "cmath", *keyword.kwlist}
        self.given: dict[int, str] = {}
        self._holders: dict[str, int] = {}  # name -> members of the groups with this name
        self._clashing: dict[str, int] = {}  # name -> values live where these are defined
        self._clashes: dict[int, int] = {}  # group -> values live where its members are defined
        self._functions: dict[str, set[str]] = {}  # name -> the user's functions they come from
        self._depths: dict[str, int] = {}  # name -> the blocks around the first of these
        self._ranks: dict[str, set[int]] = {}  # name -> the ranks of its values
        self._hints: dict[int, str] = {}
        self._along: set[int] = set()  # the counters of loops over elements
        self._stems: dict[int, str] = {}  # group -> the stem of an invented name
        self._versions = NamedVersions(program, groups, self._given_to)
        self._named_so: Counter[str] = Counter()  # how many variables are versions of a name
        for var in program.function.params:
            if var not in paths and var.name is not None:
                self._give(groups.of(var), var.name)
                self._named_so[var.name] += 1
        self._stores, self._loaded = program.once(_accesses)
        self._roles = program.once(_roles)
        order = dict.fromkeys(self._bound(program.body, skip, 0))
        wishes = {group: next(iter(groups.names(group)), None) for group in order}
        self._users = set(self._holders) | {*filter(None, wishes.values())}
        for group in order:  # counters are in others' names
            if group in self._hints and group not in self.given:
                self._invent(group)
        for group, wish in wishes.items():
            if group not in self.given and wish is not None and not _says_little(wish):
                self._choose(group, wish)
        for group, wish in wishes.items():  # lanes are called for their tests, sums for arrays
            if group not in self.given and wish is not None:
                self._choose(group, wish)
            elif group not in self.given:
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
        if (self.typed and self._mixes(held | mine, False)) or (
            self.typed_arrays and self._mixes(held | mine, True)
        ):
            return False
        return not (self._clash(group) & held or self._clashing.get(name, 0) & mine)

    def _mixes(self, members: int, arrays: bool) -> bool:
        """True if the numbers among these values, or the arrays, have several dtypes."""
        found = self.program.members(members)
        return len({v.type.dtype for v in found if bool(v.type.ndim) is arrays}) > 1

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
        members = self._versions.members(group)
        self._functions.setdefault(name, set()).update(map(function_of, members))
        self._depths[name] = min([*self._depths_of(members), self._depths.get(name, _DEEP)])
        self._ranks.setdefault(name, set()).update(v.type.ndim for v in members)

    def _given_to(self, var: Var) -> str | None:
        return self.given.get(self.groups.of(var))

    def _choose(self, group: int, wish: str) -> None:
        others = [f"{wish}_{word}" for word in self._places(group, wish)]
        others += self._elsewhere(group, wish)
        if group in self._along and wish in _COUNTERS:
            others = [*_COUNTERS[_COUNTERS.index(wish) + 1 :]]
        apart = short(
            self._versions.of_the_user(group, wish, self._functions.get(wish, set())), wish
        )
        self._named_so[wish] += 1
        last = itertools.chain(self._inner(group, wish), counted(wish, self._named_so[wish]))
        own = (*others, wish) if wish in SUMS else (wish, *others)
        better = itertools.chain(self._versions.ahead(group, wish), own, apart)
        seen = []
        for candidate in itertools.chain(better, self._told_by(group, wish)):
            seen.append(candidate)
            if self._free_for(candidate, group) and not self._is_of_another_rank(candidate, group):
                self._give(group, candidate)
                return
        free = (c for c in itertools.chain(seen, last) if self._free_for(c, group))
        self._give(group, next(free))

    def _is_of_another_rank(self, name: str, group: int) -> bool:
        """True if a name stands for an array, and the values for numbers, or the other way."""
        ranks = {bool(v.type.ndim) for v in self._versions.members(group)}
        return not {*map(bool, self._ranks.get(name, ()))} <= ranks

    def _told_by(self, group: int, wish: str) -> Iterator[str]:
        """A complete and brief description: ``y_squared`` for a further ``y``."""
        made = self.program.definition.get(self._first(group))
        if isinstance(made, Apply) and "_bar" not in wish:
            whole = told(made, self._named, self.program.definition)
            if whole and len(whole) <= _BRIEF:
                yield whole

    def _inner(self, group: int, wish: str) -> Iterator[str]:
        """``inner_x`` for a value of an inner loop, or of an arm of a branch."""
        depths = self._depths_of(self._versions.members(group))
        if depths and min(depths) > self._depths.get(wish, _DEEP):
            yield f"inner_{wish}"

    def _depths_of(self, members: list[Var]) -> list[int]:
        """The number of blocks around each of the statements that make these values."""
        made = map(self.program.definition.get, members)
        return [self._depth(s) for s in made if s is not None]

    def _depth(self, made: core.Statement | None) -> int:
        depth = 0
        while made is not None and id(made) in self.program.block_of:
            made = self.program.home[id(self.program.block_of[id(made)])][1]
            depth += 1
        return depth

    def _first(self, group: int) -> Var:
        return next(iter(self.program.members(self.groups.members[group])))

    def _places(self, group: int, wish: str) -> list[str]:
        """Suffixes such as ``ij`` for element [i, j], unless one of that name is read before.

        An element may be read, be stored, or be stored when a loop has summed it up.
        """
        members = self._versions.members(group)
        if any(v.type.ndim for v in members):
            return []
        made = [self.program.definition.get(v) for v in members]
        stored = [s for v in members for s in self._stores.get(v, ()) if self._is_of(s, wish)]
        words = [self._index_word(s) for s in stored]
        own = [m for m in made if isinstance(m, Apply) and m.primitive is getitem]
        own = [m for m in own if self._is_of(m, wish)]
        words += map(self._index_word, own)
        block = self._versions.block_of(members[0])
        if block is not None and (restored := self._versions.restored(members[0])):
            parts = index_parts(restored, self.word, self.program.definition)
            return [joined(parts[-max(len(self._around(block)), 1) :])] if parts[1:] else []
        read: set[str] = {""}
        if block is not None:
            loaded = self._loaded.get((id(block), wish), ())
            read.update(self._index_word(s) for s in loaded if s.out not in members)
            if len(members) == 1:
                words.append("".join(self._around(block)))
        if any(s.out.name == wish and len(members) == 1 for s in own):
            read = {""}  # what is read under two names is one value
        return [w for w in words if w not in read]

    def _elsewhere(self, group: int, wish: str) -> Iterator[str]:
        """Names of elements: ``x_of_part`` of a partial sum, ``x_lane_bar`` of an adjoint."""
        members = self._versions.members(group)
        if any(v.type.ndim for v in members):
            return
        for s in (s for v in members for s in self._stores.get(v, ())):
            array = self._named(s.args[0]) or ""
            if array.endswith("_of_parts"):
                yield array.removesuffix("s")
            elif wish in SUMS and array and not array.endswith("_saved"):
                index = self._index_word(s)
                yield from [f"{array}_{index}"] if index != "element" else []
        blocks = filter(None, map(self._versions.block_of, members))
        counters = "".join(next((self._around(block, True) for block in blocks), ()))
        if counters and wish.endswith("_bar") and any(self._ranks.get(wish, ())):
            yield f"{wish.removesuffix('_bar')}_{counters}_bar"

    def _is_of(self, s: Apply, wish: str) -> bool:
        """True for an access to the array of which a value is an element: it has its name."""
        array = s.args[0]
        if not isinstance(array, Var) or (array.name or "").endswith("_saved"):
            return False
        return wish in (array.name, s.out.name, self._given_to(array))

    def _around(self, block: core.Block, lanes: bool = False) -> list[str]:
        """The indices of the loops over elements, or also over lanes, that a block is in."""
        owner = self.program.home[id(block)][1]
        if owner is None:
            return []
        around = self._around(self.program.block_of[id(owner)], lanes)
        if not isinstance(owner, For):
            return around
        along = owner.scheduled or (lanes and owner.index.name == "lane")
        return [*around, *filter(None, [self.word(owner.index) if along else None])]

    def _invent(self, group: int) -> None:
        first = next(iter(self.program.members(self.groups.members[group])))
        members = self.program.members(self.groups.members[group])
        word = next((v.word for v in members if v.word), None)
        wish = self._hints.get(group) or word or self.describe(first)
        self._stems[group] = self._root(first) or wish
        if hasattr(builtins, wish) or not wish.isidentifier() or keyword.iskeyword(wish):
            wish = f"{wish}_value" if wish.isidentifier() else "value"
        letters = _COUNTERS[_COUNTERS.index(wish) :] if group in self._hints else ()
        elements = [f"{wish}_{w}" for w in self._places(group, wish) if not wish.endswith(f"_{w}")]
        made = self.program.definition.get(first)
        if word and isinstance(made, Apply):
            whole = told(made, self._named, self.program.definition)
            elements += [whole] if whole and len(whole) <= LONGEST else []
        apart = short(self._versions.of_ours(group, wish, self._functions.get(wish, set())), wish)
        ahead = self._versions.of_versions(group, wish)
        tail = itertools.chain(ahead, letters, (wish, *elements), apart, counted(wish, 2))
        ranks = {v.type.ndim for v in self._versions.members(group)}
        for candidate in tail:
            if candidate in self._users or not self._ranks.get(candidate, ranks) <= ranks:
                continue
            if self._free_for(candidate, group):
                self._give(group, candidate)
                if group in self._hints:
                    self._stems[group] = candidate
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
            return "choice" if isinstance(made, core.If) else "state"
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


def _says_little(wish: str) -> bool:
    """True for a name of ours that says more beside the names of other values."""
    return wish in ("lanes", *SUMS) or wish.endswith("_lanes")


def _of_the_user(atom: Atom) -> str | None:
    return atom.name if isinstance(atom, Var) else None


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
            made = program.definition.get(s.args[1])
            if isinstance(made, Apply) and made.primitive is astype:
                stores.setdefault(made.args[0], []).append(s)
        elif s.primitive is getitem:
            reads.setdefault((id(program.block_of[id(s)]), s.args[0].name), []).append(s)
    return stores, reads
