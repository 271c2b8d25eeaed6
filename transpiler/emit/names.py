"""Names: the user's where there is one, else words that say what a value is; never a number."""

from __future__ import annotations

import builtins
import itertools
import keyword
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from calque.transpiler import core
from calque.transpiler.core import Apply, Atom, For, Slot, Var
from calque.transpiler.emit.groups import Groups
from calque.transpiler.emit.liveness import Liveness
from calque.transpiler.emit.program import Program, is_store

_LONGEST = 28
_BINARY = {
    "np.add": "plus",
    "np.subtract": "minus",
    "np.multiply": "times",
    "np.divide": "over",
    "np.matmul": "dot",
    "np.power": "power",
}
_SUFFIXED = {
    "checked_index": "checked",
    "np.transpose": "transposed",
    "np.reshape": "reshaped",
    "np.broadcast_to": "spread",
    "copy": "copy",
    "np.size": "size",
    "astype": "cast",
    "np.where": "chosen",
    "update": "new",
    "update_add": "new",
    "add_at": "new",
}
_COMPARISONS = {
    "np.less": "below",
    "np.less_equal": "at_most",
    "np.greater": "above",
    "np.greater_equal": "at_least",
    "np.equal": "equal",
    "np.not_equal": "unequal",
    "is largest": "equal",
    "is smallest": "equal",
}
_AXES = {0: "rows", 1: "columns"}
_COUNTERS = ("i", "j", "k", "l", "m", "n")
_LETTERS = "bcdefghijklmnopqrstuvwxyz"


class Names:
    """One name for each group of Vars that has a line of its own."""

    def __init__(
        self,
        program: Program,
        groups: Groups,
        live: Liveness,
        skip: Callable[[core.Statement], bool],
        paths: set[Var],
        reserved: Iterable[str],
    ):
        self.program, self.groups, self.live = program, groups, live
        self.reserved = {*reserved, "np", "math", *keyword.kwlist}
        self.given: dict[int, str] = {}
        self._holders: dict[str, int] = {}  # name -> members of the groups called so
        self._clashing: dict[str, int] = {}  # and what lives where these are defined
        self._hints: dict[int, str] = {}
        self._stems: dict[int, str] = {}  # what an invented name is made from
        for var in program.function.params:
            if var not in paths and var.name is not None:
                self._give(groups.of(var), var.name)
        self._stores, self._loaded = _accesses(program)
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
                    self._hints[self.groups.of(var)] = _COUNTERS[min(depth, 5)]
                yield self.groups.of(var)
            for inner in core.blocks_of(s):
                yield from self._bound(inner, skip, depth + isinstance(s, For))
            for var in s.outs:
                yield self.groups.of(var)

    def _free_for(self, name: str, group: int) -> bool:
        if name in self.reserved:
            return False
        held, mine = self._holders.get(name, 0), self.groups.members[group]
        return not (self._clash(group) & held or self._clashing.get(name, 0) & mine)

    def _clash(self, group: int) -> int:
        found = 0
        for var in self.program.members(self.groups.members[group]):
            found |= self.live.clash[self.program.index[var]]
        return found

    def _give(self, group: int, name: str) -> None:
        self.given[group] = name
        self._holders[name] = self._holders.get(name, 0) | self.groups.members[group]
        self._clashing[name] = self._clashing.get(name, 0) | self._clash(group)

    def _choose(self, group: int, wish: str) -> None:
        for candidate in _variants(wish, *self._places(group, wish), "_new"):
            taken = candidate != wish and candidate in self._holders
            if not taken and self._free_for(candidate, group):
                self._give(group, candidate)
                return
        raise AssertionError(f"no name is free for {wish}")

    def _places(self, group: int, wish: str) -> Iterator[str]:
        """``_ij`` where elements of the name are stored at [i, j], and not read there before."""
        for var in self.program.members(self.groups.members[group]):
            for store in self._stores.get(var, ()):
                array, word = store.args[0], _index_word(store, self.word)
                block = self.program.block_of[id(store)]
                read = self._loaded.get((id(block), array.name), ())
                if array.name == wish and word not in (_index_word(s, self.word) for s in read):
                    yield f"_{word}"

    def _invent(self, group: int) -> None:
        first = next(iter(self.program.members(self.groups.members[group])))
        wish = self._hints.get(group) or self.describe(first)
        self._stems[group] = self._root(first) or wish
        if wish in dir(builtins) or not wish.isidentifier() or keyword.iskeyword(wish):
            wish = f"{wish}_value" if wish.isidentifier() else "value"
        letters = _COUNTERS[_COUNTERS.index(wish) :] if group in self._hints else ()
        for candidate in itertools.chain(letters, _variants(wish, "_next")):
            if candidate not in self._users and self._free_for(candidate, group):
                self._give(group, candidate)
                return

    # what a value is

    def word(self, atom: Atom) -> str | None:
        """What to call an operand inside a longer name."""
        if not isinstance(atom, Var):
            return None
        group = self.groups.of(atom)
        return self._stems.get(group) or self.given.get(group) or self._root(atom)

    def _root(self, var: Var) -> str | None:
        """The user's name from which an unnamed value is made."""
        if var.name:
            return var.name
        made = self.program.definition.get(var)
        return self._operand_word(made) if isinstance(made, Apply) else None

    def _operand_word(self, s: Apply) -> str | None:
        for atom in s.args:
            found = self.word(atom)
            if found:
                return found
        return None

    def describe(self, var: Var) -> str:
        """A name from the operation that makes a value."""
        made = self.program.definition.get(var)
        if not isinstance(made, Apply):
            return "chosen" if isinstance(made, core.If) else "carried"
        source: Apply = made
        if made.primitive.name == "copy" and isinstance(made.args[0], Var):
            inner = self.program.definition.get(made.args[0])
            if isinstance(inner, Apply) and inner.primitive.name == "getitem":
                source = inner
        operand = self._operand_word(made)
        name = _describe(source, operand, self.word)
        return name if len(name) <= _LONGEST else f"{operand}_term"


def _describe(s: Apply, operand: str | None, word: Callable[[Atom], str | None]) -> str:
    kind = s.primitive.name
    if kind in ("and", "or"):
        return {"and": "both", "or": "either"}[kind]
    if operand is None:
        return kind.split(".")[-1] if kind.startswith("np.") else "value"
    if kind == "np.power" and not isinstance(s.args[1], Var) and s.args[1] == 2:
        return f"{operand}_squared"
    if kind in _BINARY:
        left, right = word(s.args[0]), word(s.args[1])
        if s.args[0] is s.args[1] and kind == "np.multiply":
            return f"{operand}_squared"
        if left and right and left != right:
            return f"{left}_{_BINARY[kind]}_{right}"
        if kind == "np.divide" and not left:
            return f"inverse_{operand}"
        return f"{operand}_{'shifted' if kind in ('np.add', 'np.subtract') else 'scaled'}"
    if kind in _COMPARISONS:
        right = word(s.args[1])
        return f"{operand}_{_COMPARISONS[kind]}" + (
            f"_{right}" if right and right != operand else ""
        )
    if kind in _SUFFIXED:
        return f"{operand}_{_SUFFIXED[kind]}"
    if kind == "size of axis":
        return f"{operand}_{_AXES.get(s.params['axis'], 'length')}"
    if kind == "getitem":
        return f"{operand}_{_index_word(s, word)}"
    if kind == "np.negative":
        return f"minus_{operand}"
    stem = kind.split(".")[-1]
    return f"{stem}_{operand}" if stem.isidentifier() else f"{operand}_value"


def _accesses(
    program: Program,
) -> tuple[dict[Var, list[Apply]], dict[tuple[int, str | None], list[Apply]]]:
    """The stores of each value, and the reads of arrays by block and name."""
    stores: dict[Var, list[Apply]] = {}
    reads: dict[tuple[int, str | None], list[Apply]] = {}
    for s in core.walk(program.body):
        if not isinstance(s, Apply) or not s.args or not isinstance(s.args[0], Var):
            continue
        if is_store(s) and "index" in s.params and isinstance(s.args[1], Var):
            stores.setdefault(s.args[1], []).append(s)
        elif s.primitive.name == "getitem":
            reads.setdefault((id(program.block_of[id(s)]), s.args[0].name), []).append(s)
    return stores, reads


def _index_word(s: Apply, word: Callable[[Atom], str | None]) -> str:
    parts = []
    for item in s.params["index"]:
        found: Any = None
        if isinstance(item, Slot):
            found = word(s.args[1 + is_store(s) + item.position])
        elif isinstance(item, int):
            found = {0: "first", -1: "last", 1: "second", 2: "third"}.get(item)
        if not found:
            return "part"
        parts.append(found)
    if not parts:
        return "part"
    return ("" if all(len(p) == 1 for p in parts) else "_").join(parts)


def _variants(wish: str, *first: str) -> Iterator[str]:
    yield wish
    yield from (f"{wish}{ending}" for ending in first)
    for letter in _LETTERS:
        yield f"{wish}_{letter}"
    for length in itertools.count(2):
        for letters in itertools.product(_LETTERS, repeat=length):
            yield f"{wish}_{''.join(letters)}"
