"""Carry the last element of a list that a loop appends to, instead of reading it from the list.

Before, for ``hs.append(f(hs[-1]))``, where the number of elements depends on values::

    while t < end:
        h = hs[count - 1]
        hs[count] = f(h)
        count += 1
    last = hs[count - 1]

After::

    while t < end:
        h = f(h)
        hs[count] = h
        count += 1
    last = h

A read of the growing array would keep its version before the store alive, and the reverse sweep
would restore what that store overwrote. Where one arm of a branch appends and the other does not,
the last element is one more result of the branch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import definitions_in, insert_before
from calque.transpiler.ir.builder import Builder, type_of
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Slot, Statement, Var, While
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.elementwise import add, subtract
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.indexing import getitem, update

_ONE = (Slot(position=0),)


def carry_last_elements(body: Block, builder: Builder) -> None:
    """Let every loop in a block carry the last elements of lists that it reads, in place."""
    definitions: dict[Var, Statement] = {}
    _visit(body, definitions, builder)


def _visit(block: Block, definitions: dict[Var, Statement], builder: Builder) -> None:
    for s in list(block.statements):
        definitions.update(dict.fromkeys(s.outs, s))
        if isinstance(s, (For, While)):
            for k, phi in enumerate(s.phis):
                if phi.type.ndim:
                    _carry(s, k, block, definitions, builder)
        for inner in core.blocks_of(s):
            _visit(inner, definitions, builder)


def _carry(
    loop: For | While,
    k: int,
    block: Block,
    definitions: dict[Var, Statement],
    builder: Builder,
) -> None:
    """Carry the last element of a loop's array ``k``, if the loop or the code after it reads it."""
    for n, count in enumerate(loop.phis):
        if count.type.ndim or count.type.dtype.kind != "i" or type(loop.inits[n]) is not int:
            continue
        pair = _Appending(loop.phis[k], count, builder)
        if not pair.grows(loop, loop.body.results[k], loop.body.results[n]):
            continue
        pair.read_after(loop.outs[k], loop.outs[n], block)
        if not pair.reads:
            continue
        place = loop.inits[n] - 1
        first = _element(loop.inits[k], place, definitions)
        if first is None:
            continue
        if not pair.fits(first):  # or its sizes are not known to fit
            read = Apply(
                (Var(pair.row),), getitem, (loop.inits[k],), {"index": (place,)}, loop.origin
            )
            insert_before(block, loop, [read])
            builder.definitions[read.out] = read
            first = read.out
        _add(loop, pair, first, loop.body.results[k])
        return


def _add(loop: For | While, pair: _Appending, first: Atom, result: Atom) -> None:
    """Let a loop carry the last element, and replace all reads of it."""
    name = f"{pair.array.name}_last" if pair.array.name else None
    phi, out = Var(pair.row, name, loop.origin), pair.after or Var(pair.row, name, loop.origin)
    loop.phis, loop.inits = (*loop.phis, phi), (*loop.inits, first)
    loop.outs = (*loop.outs, out)
    pair.last[pair.array] = phi
    loop.body.results.append(pair.made(result))
    pair.builder.definitions[out] = loop
    for block, s, which in pair.reads:
        now = out if which is None else pair.last[which]
        if len(s.params["index"]) > 1:
            rest = tuple(
                Slot(i.position - 1) if isinstance(i, Slot) else i for i in s.params["index"]
            )
            s.args, s.params = (now, *s.args[2:]), {**s.params, "index": rest[1:]}
            continue
        block.statements[:] = [each for each in block.statements if each is not s]
        if s.out is not now:
            for around in pair.blocks:
                core.substitute(around, {s.out: now})


def _element(array: Atom, place: int, definitions: dict[Var, Statement]) -> Atom | None:
    """The value stored at a known index of an array before the loop, if stores tell it."""
    made = definitions.get(array) if isinstance(array, Var) else None
    while isinstance(made, Apply) and made.primitive is update:
        index = made.params["index"]
        items = [made.args[2 + i.position] if isinstance(i, Slot) else i for i in index]
        if len(items) != 1 or type(items[0]) is not int or items[0] < 0:
            return None
        if items[0] == place:
            return made.args[1]
        made = definitions.get(made.args[0])
    return None


@dataclass(eq=False)
class _Appending:
    """A carried array that each iteration appends to or leaves alone, and its carried length."""

    array: Var
    count: Var
    builder: Builder
    counts: dict[Var, Atom] = field(default_factory=dict)  # the length of each version
    last: dict[Var, Atom] = field(default_factory=dict)  # the last element of each version
    reads: list[tuple[Block, Apply, Var | None]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)  # in which elements are read
    after: Var | None = None  # the last element after the loop, if it is read there

    @property
    def row(self) -> ArrayType:
        """The type of an element."""
        return self.array.type.with_dims(self.array.type.dims[1:])

    def fits(self, value: Atom) -> bool:
        """True if a value has the type and the sizes of an element of the array."""
        own, row = type_of(value), self.row
        same = own.dtype == row.dtype and own.weak == row.weak and own.ndim == row.ndim
        return same and all(map(self.builder.dims.same, own.dims, row.dims))

    def grows(self, loop: For | While, array: Atom, count: Atom) -> bool:
        """True if an iteration appends to the list or leaves it as it is.

        If so, notes the reads of the last element within the loop.
        """
        blocks = core.blocks_of(loop)
        self.definitions = {v: s for b in blocks for v, s in definitions_in(b).items()}
        if not self._appends(array, count):
            return False
        self.counts[self.array] = self.count
        self.blocks += blocks
        for block in blocks:
            self._find(block)
        return True

    def _appends(self, array: Atom, count: Atom) -> bool:
        if isinstance(array, Var):
            self.counts[array] = count
        if array is self.array and count is self.count:
            return True
        made, counted = self.definitions.get(array), self.definitions.get(count)
        if isinstance(made, If) and made is counted:
            k, n = made.outs.index(array), made.outs.index(count)
            return all(self._appends(a.results[k], a.results[n]) for a in core.blocks_of(made))
        return self._is_store(made) and _more(counted) == (self.count, 1)

    def _is_store(self, made: Statement | None) -> bool:
        """True if a statement stores an element behind the last one of the carried array."""
        if not isinstance(made, Apply) or made.primitive is not update:
            return False
        if made.params["index"] != _ONE or made.args[2] is not self.count:
            return False
        base = self.definitions.get(made.args[0])
        if isinstance(base, Apply) and base.primitive is room:
            return base.args[0] is self.array and self.fits(made.args[1])
        return made.args[0] is self.array and self.fits(made.args[1])

    def _find(self, block: Block) -> None:
        """Note the reads of the last element in a block."""
        for s in block.statements:
            if _reads_one(s) and s.args[0] in self.counts:
                if self._is_last(s.args[1], self.counts[s.args[0]]):
                    self.reads.append((block, s, s.args[0]))
            for inner in core.blocks_of(s):
                self._find(inner)

    def _is_last(self, place: Atom, count: Atom) -> bool:
        known = self.definitions
        return _more(known.get(place)) == (count, -1) or _more(known.get(count)) == (place, 1)

    def read_after(self, array: Var, count: Var, block: Block) -> None:
        """Note the reads of the last element in ``block``, after the loop."""
        after = definitions_in(block)
        found: list[Apply] = []
        for s in block.statements:
            if _reads_one(s) and s.args[0] is array:
                if _more(after.get(s.args[1])) == (count, -1):
                    found.append(s)
        whole = [s for s in found if s.params["index"] == _ONE]
        given = [s for s in whole if s.out in block.results]
        self.reads += [(block, s, None) for s in found if s not in given[1:]]
        self.after = next((s.out for s in (*given, *whole)), None)  # a result keeps its name
        self.blocks.append(block)

    def made(self, array: Atom) -> Atom:
        """The last element of a version within the loop; branches get one more result for it."""
        if array in self.last:
            return self.last[array]
        made = self.definitions[array]
        if isinstance(made, Apply):
            self.last[array] = made.args[1]
            return made.args[1]
        assert isinstance(made, If)
        k = made.outs.index(array)
        out = Var(self.row, self.last[self.array].name, made.origin)
        for arm in core.blocks_of(made):
            arm.results.append(self.made(arm.results[k]))
        made.outs = (*made.outs, out)
        self.builder.definitions[out] = made
        self.last[array] = out
        return out


def _reads_one(s: Statement) -> TypeGuard[Apply]:
    """True if a statement reads an element, or a part of one, at an index that is a variable."""
    if not isinstance(s, Apply) or s.primitive is not getitem or len(s.args) < 2:
        return False
    index = s.params["index"]
    plain = (isinstance(i, (int, Slot)) or i == slice(None) for i in index)
    numbers = not any(isinstance(a, Var) and a.type.ndim for a in s.args[1:])
    return index[:1] == _ONE and numbers and all(plain)


def _more(made: Statement | None) -> tuple[Atom, int] | None:
    """The operand and the integer constant that a statement adds to it; else None."""
    if not isinstance(made, Apply) or made.primitive not in (add, subtract):
        return None
    value, more = made.args
    if type(more) is not int:
        return None
    return value, more if made.primitive is add else -more
