"""Functions for statements that repeat, and calls in their place.

Before, where ``layer`` was called twice::

    h = np.dot(x, w_0)
    x_1 = np.tanh(h)
    h_1 = np.dot(x_1, w_1)
    x_2 = np.tanh(h_1)

After::

    x_1 = layer(x, w_0)
    x_2 = layer(x_1, w_1)

Statements are parts of one function if they are equal up to the names of values, and come from the
same lines of the user's. What the caller reads is a result: in a derivative, what is saved, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, TypeGuard

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, Function, Statement, Var
from calque.transpiler.ir.effects import has_effects, is_size, is_store
from calque.transpiler.ir.phases import answers
from calque.transpiler.ir.types import DimLike
from calque.transpiler.outlining.callees import BlockUses, Callee
from calque.transpiler.outlining.last_parts import last_part
from calque.transpiler.outlining.part_forms import Occurrence, PartFormer, may_be_renamed, place_of
from calque.transpiler.outlining.repeats import Repeat, has_period, repeats
from calque.transpiler.outlining.sharing_policy import SharingPolicy
from calque.transpiler.primitives.function_calls import is_call


class EqualParts(NamedTuple):
    """Equal parts of a block: their length, their places, and whether a last one has less."""

    length: int
    starts: tuple[int, ...]
    has_last: bool


Plan = list[tuple[int, list[EqualParts]]]  # by block


def plan_functions(
    function: Function, builder: Builder, policy: SharingPolicy, nested: bool = False
) -> Plan:
    """The statements that ``share_functions`` is to make functions of.

    ``policy`` says which statements are worth a function; ``nested``: within loops and branches,
    too. Blocks are told by their number among all blocks of the program.
    """
    letters = Letters()
    numbers = {id(block): k for k, block in enumerate(core.every_block(function.body))}
    plan: Plan = []
    pending = [function.body]
    while pending:
        block = pending.pop()
        sharing = _Sharing(function, block, builder)
        groups = sharing.groups(policy, letters)
        if groups:
            plan.append((numbers[id(block)], sharing.written(groups, policy)))
        taken = {id(s) for parts in groups for p in parts for s in p.statements}
        left = [s for s in block.statements if id(s) not in taken] if nested else []
        pending += [inner for s in left for inner in core.blocks_of(s)]
    return plan


def share_functions(function: Function, builder: Builder, plan: Plan) -> list[Callee]:
    """Put calls in the place of statements that repeat, in place; the functions that are called."""
    taken = {p.name for p in function.signature} | {function.name}
    blocks = core.every_block(function.body)
    made: list[Callee] = []
    for number, found in plan:
        made += _Sharing(function, blocks[number], builder).outlined(found, taken)
    return made


class Letters:
    """A number for each statement, equal for those that may be equal: their forms decide."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self._of: dict[int, int] = {}  # by the ids of statements

    def __call__(self, s: Statement) -> int:
        """The number of a statement."""
        if id(s) not in self._of:
            self._of[id(s)] = self._known.setdefault(self._key(s), len(self._known))
        return self._of[id(s)]

    def _key(self, s: Statement) -> Any:
        if has_effects(s) or any(map(_stays, core.walk(Block([s])))):
            return id(s)
        place = place_of(s, False)
        if isinstance(s, Apply):
            given = tuple([type(a) for a in s.args])
            return s.primitive, s.phase, place, given, s.outs[0].type.ndim
        inner = tuple([tuple(map(self, b.statements)) for b in core.blocks_of(s)])
        return type(s), s.phase, place, inner, len(s.outs)


_TRIED = 8  # times that a statement is looked at, in the mean


class _Sharing:
    """A block of a program, and the sequences of statements in it."""

    def __init__(self, function: Function, block: Block, builder: Builder):
        self.function, self.block, self.builder = function, block, builder
        self.statements = [s for s in block.statements if not self._is_size_of_argument(s)]
        self.former = PartFormer(builder)

    # what repeats

    def groups(self, policy: SharingPolicy, letters: Letters) -> list[list[Occurrence]]:
        """The groups of equal parts that are worth a function, each in order."""
        found: list[list[Occurrence]] = []
        if len(self.statements) < 2 * policy.least:
            return found
        reasons = _Count(map(policy.is_reason, self.statements))
        if not reasons.before[-1]:
            return found
        taken = _Count([False] * len(self.statements))
        room = _TRIED * len(self.statements)
        items = [*map(letters, self.statements)]
        for repeat in sorted(repeats(items, policy.least), key=self._rank):
            if not policy.saves_enough(repeat.length, len(repeat.starts)) or room < 0:
                break
            if has_period(items[repeat.starts[0] :][: repeat.length]):
                continue
            free = [k for k in repeat.starts if not taken.within(k, repeat.length)]
            free = [k for k in free if reasons.within(k, repeat.length)]
            if not policy.saves_enough(repeat.length, len(free)):
                continue
            room -= repeat.length * len(free)
            for parts in self._equal(free, repeat.length):
                if policy.saves_enough(repeat.length, len(parts)) and _is_apart(parts[0]):
                    found.append(parts)
                    taken = taken.with_more(k for p in parts for k in p.places)
        return found

    def _rank(self, repeat: Repeat) -> tuple[Any, ...]:
        """A key by which what saves most comes first, then what begins as the user's function."""
        return -repeat.saved, not self._is_beginning(repeat.starts[0]), repeat.starts

    def _is_beginning(self, k: int) -> bool:
        """True where a sweep comes back to lines that it has been at before, and at the end."""
        if k == len(self.statements):
            return True
        last, s = self.statements[k - 1] if k else None, self.statements[k]
        if last is None or last.phase != s.phase or last.origin is None or s.origin is None:
            return True
        before, now = (o.statement_line or o.line for o in (last.origin, s.origin))
        back = before < now if answers(s.phase) else now < before
        return back or last.origin.function != s.origin.function

    def _equal(self, starts: Sequence[int], length: int) -> list[list[Occurrence]]:
        """The parts of a length at these places that are equal to each other."""
        by_form: dict[Any, list[Occurrence]] = {}
        for start in starts if len(starts) > 1 else ():
            statements = self.statements[start : start + length]
            if len({s.phase for s in statements}) == 1:
                part = Occurrence(start, statements, self.former.part(statements))
                alike = by_form.setdefault(part.form.text, [])
                if not alike or may_be_renamed(
                    self.builder, part.form.renaming_of(alike[0].form)
                ):
                    alike.append(part)
        return [parts for parts in by_form.values() if len(parts) > 1]

    def written(self, groups: list[list[Occurrence]], policy: SharingPolicy) -> list[EqualParts]:
        """The groups in the order of their first parts, with the last parts that have less."""
        groups = sorted(groups, key=lambda parts: parts[0].start)
        found: list[EqualParts] = []
        for k, parts in enumerate(groups):
            starts = tuple([p.start for p in parts])
            part = self._last(groups, k) if len(parts) + 1 >= policy.calls else None
            parts += [part] if part else []
            found.append(EqualParts(len(parts[0].statements), starts, part is not None))
        return found

    def _last(self, groups: list[list[Occurrence]], number: int) -> Occurrence | None:
        start = groups[number][-1].places.stop
        others = [p.start for parts in groups for p in parts if p.start >= start]
        free = self.statements[start : min([*others, len(self.statements)])]
        return last_part(free, groups, number, self.former)

    # sizes

    def _is_size_of_argument(self, s: Statement) -> bool:
        """True for the size of an axis that an argument has, too: it is at hand everywhere."""
        return _is_size_of_axis(s) and self._argument_of(s) is not None

    def _argument_of(self, s: Apply) -> tuple[Var, int] | None:
        size = self.builder.dim_values.get(s.out)
        return None if size is None else self._axes.get(self.builder.dims.resolve(size))

    @cached_property
    def _axes(self) -> dict[DimLike, tuple[Var, int]]:
        """The first argument, and its axis, of each size."""
        axes = ((v, k) for v in self.function.params for k in range(v.type.ndim))
        found: dict[DimLike, tuple[Var, int]] = {}
        for v, k in axes:
            found.setdefault(self.builder.dims.resolve(v.type.dims[k]), (v, k))
        return found

    def _read_sizes_first(self) -> list[Statement]:
        """The statements that read sizes of arguments, from the arguments themselves."""
        first: list[Statement] = []
        for s in filter(_is_size_of_axis, self.block.statements):
            found = self._argument_of(s)
            if found is not None:
                s.args, s.params = (found[0], *s.args[1:]), {**s.params, "axis": found[1]}
                first.append(s)
        return first

    # functions

    def outlined(self, found: Sequence[EqualParts], taken: set[str]) -> list[Callee]:
        """Make a function of each group, with a name that is not taken, and calls of it."""
        groups = [self._equal(g.starts, g.length)[0] for g in found]
        for k, group in enumerate(found):
            part = self._last(groups, k) if group.has_last else None
            groups[k] += [part] if part else []
        uses = BlockUses(
            self.builder,
            self.function.params,
            self._readers(),
            {k: g for g, parts in enumerate(groups) for p in parts for k in p.places},
            taken,
            self.function.origin.function if self.function.origin else self.function.name,
            self._is_beginning,
        )
        kept = self._read_sizes_first()
        callees = [Callee(uses, g, parts) for g, parts in enumerate(groups)]
        calls = {
            part.start: (len(part.statements), callee.call(part))
            for callee in callees
            for part in callee.parts
        }
        k = 0
        while k < len(self.statements):
            length, instead = calls.get(k, (1, [self.statements[k]]))
            kept += instead
            k += length
        self.block.statements = kept
        return callees

    def _readers(self) -> dict[Var, list[int]]:
        """The places of the statements that read a value; the results are read behind all."""
        found: dict[Var, list[int]] = {}
        for k, s in enumerate(self.statements):
            for var in core.free_vars(Block([s])):
                found.setdefault(var, []).append(k)
        for atom in self.block.results:
            if isinstance(atom, Var):
                found.setdefault(atom, []).append(len(self.statements))
        return found


def _stays(s: Statement) -> bool:
    """True for a call of a function, and for what needs the communicator of the program."""
    return is_call(s) or (isinstance(s, Apply) and s.primitive.kind == "collective")


def _is_size_of_axis(s: object) -> TypeGuard[Apply]:
    """True for the size of one axis; not for the number of all elements."""
    return is_size(s) and "axis" in s.params


def _is_apart(part: Occurrence) -> bool:
    """True if no statement stores into an array that is made elsewhere."""
    block = Block(part.statements)
    inside = core.defined_vars(block)
    return all(s.args[0] in inside for s in core.walk(block) if is_store(s))


class _Count:
    """The number of marked items before each place."""

    def __init__(self, marks: Any):
        self.marks = [*marks]
        self.before = [0, *accumulate(map(int, self.marks))]

    def within(self, start: int, length: int) -> int:
        """The number of those in a range."""
        return self.before[start + length] - self.before[start]

    def with_more(self, places: Any) -> _Count:
        """The same, with more items marked."""
        more = {*places}
        return _Count(m or k in more for k, m in enumerate(self.marks))
