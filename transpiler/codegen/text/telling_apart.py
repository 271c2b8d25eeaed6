"""Names that tell values of one name apart: by their places, and what they are made with.

A version of the user's ``x`` is ``x_before`` a statement or ``x_after`` it, ``x_initial`` at the
start of a loop that goes on as ``x``, ``softmax_x`` in an inlined function, ``first_x`` where a
statement runs several times in the text. What is summed up is called for what is summed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var, While, walk
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.naming import LONGEST, ORDINALS, Definitions
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.indexing import copy, getitem

_ADJOINT = re.compile(r"^(.*?)((?:_bar)+(?:_lanes)?)$")
_OF_LANES = re.compile(r"(?:^|_)(lanes_(.+))$")
SUMS = ("total", "found")  # what sums are called where the user has no name for them
_SIGNS = {"plus": "", "minus": "minus_"}
_LONGEST = LONGEST + 8
_FURTHER = 12  # letters that tell a long name apart
_FARTHEST = 12  # operands within a statement

Given = Callable[[Var], "str | None"]  # the name that a value has in the text so far


class NamedVersions:
    """Words for a value whose name another value has; ``given`` are the names so far."""

    def __init__(self, program: PrintedProgram, groups: Groups, given: Given):
        self.program, self.groups, self.given = program, groups, given
        self.definitions: Definitions = program.definition
        self.initial, self.next = program.once(_carried_values)
        self._lanes_given: set[str] = set()
        self._times: Counter[tuple[str, int]] = Counter()  # by name and line, how often in the text
        self._times_in_all: Counter[tuple[str, int]] | None = None

    def members(self, group: int) -> list[Var]:
        """The values that share a variable."""
        return [*self.program.members(self.groups.members[group])]

    def ahead(self, group: int, wish: str) -> Iterator[str]:
        """Names that are better than the user's ``wish``, where it is one of several values."""
        members = self.members(group)
        if self._starts(group, members, wish):
            yield f"{wish}_initial"
        if number := self._turn(members, wish):
            yield next(counted(wish, number))

    def of_the_user(self, group: int, wish: str, functions: set[str]) -> Iterator[str]:
        """Names for a further version of the user's ``wish``, the best first.

        ``functions`` are those from which the values come that are called so.
        """
        members = self.members(group)
        made = self.definitions.get(members[0])
        yield from self._of_loop(group, members, wish)
        yield from self._of_its_kind(made, wish)
        yield from self._of_sums(members, wish)
        yield from self._on_lanes(made, wish)
        yield from self._continued(members, wish)
        yield from self._of_chunk(made, wish)
        if self.restored(members[0]) is not None:
            yield f"{wish}_before"
        yield from self._of_function(members[0], wish, functions)
        yield from self._of_adjoint(members, wish)
        yield from self._after(group, members, wish)
        if made is not None and made.phase == "reverse" and self._is_in_statement(made, wish):
            yield f"{wish}_before"
        yield from self._with(members, wish)

    def of_ours(self, group: int, wish: str, functions: set[str]) -> Iterator[str]:
        """Names for a further value that is described as ``wish``, the best first."""
        members = self.members(group)
        made = self.definitions.get(members[0])
        yield from self._of_its_kind(made, wish)
        yield from self._on_lanes(made, wish)
        yield from self._of_function(members[0], wish, functions)
        yield from self._with(members, wish)

    def of_versions(self, group: int, wish: str) -> Iterator[str]:
        """``first_x_pre_bar`` instead of ``x_pre_bar``, made with ``first_x``."""
        for var in self.members(group) if _ADJOINT.match(wish) else ():
            for read in self._within(var):
                name, stem = self.given(read), read.name
                if stem and name and name.endswith(f"_{stem}") and wish.startswith(f"{stem}_"):
                    yield name + wish.removeprefix(stem)

    def _of_its_kind(self, made: Statement | None, wish: str) -> Iterator[str]:
        """Names for what an operation without arithmetic makes of a value of this name."""
        if not isinstance(made, Apply) or not made.args or not isinstance(made.args[0], Var):
            return
        primitive, first = made.primitive, made.args[0]
        name = self.given(first)
        if wish == "lanes" and len(made.args) == 1 and (test := self._test_name(first)):
            if len(test) <= LONGEST:
                self._lanes_given.add(f"lanes_{test}")  # the examples for which a test holds
                yield f"lanes_{test}"
        if primitive.arithmetic == "where" and name:
            yield f"{wish}_where_{name}"
        elif wish in (name, first.name) and primitive.suffix and "{" not in primitive.suffix:
            yield f"{wish}_{primitive.suffix}"

    def _test_name(self, var: Var) -> str | None:
        """``not_x_above_5`` for the opposite of ``x_above_5``."""
        name, made = self.given(var), self.definitions.get(var)
        if name or not isinstance(made, Apply) or made.primitive.arithmetic != "not":
            return name.removeprefix("logical_") if name else None
        test = self._test_name(made.args[0]) if isinstance(made.args[0], Var) else None
        return f"not_{test}" if test else None

    def _of_sums(self, members: list[Var], wish: str) -> Iterator[str]:
        """``total_e`` for the sum of the values of ``e``."""
        for made in map(self.definitions.get, members):
            if isinstance(made, Apply) and made.primitive.infix in _SIGNS and len(made.args) == 2:
                before, added = made.args
                sign, name = _SIGNS[made.primitive.infix], self._whole_name(added)
                inner = self.definitions.get(added) if isinstance(added, Var) else None
                if isinstance(inner, Apply) and inner.primitive.arithmetic == "negative":
                    sign, name = "" if sign else "minus_", self._whole_name(inner.args[0])
                if not name or not isinstance(before, Var) or before.name != wish:
                    continue
                if name == f"{wish}_of_parts":
                    yield f"{wish}_so_far"
                elif wish in SUMS:
                    yield f"{wish}_{sign}{name}"

    def _whole_name(self, atom: Atom) -> str | None:
        """The name of a value, or of the array of which it is an element."""
        made = self.definitions.get(atom) if isinstance(atom, Var) else None
        if isinstance(atom, Var) and atom.name:
            return atom.name
        if isinstance(made, Apply) and made.primitive is getitem:
            return self._whole_name(made.args[0])
        return None

    def _on_lanes(self, made: Statement | None, wish: str) -> Iterator[str]:
        """``x_lanes_x_above_5``, what is read for such examples, or made of what is."""
        pending: list[Atom] = list(made.args) if isinstance(made, Apply) else []
        for _ in range(_FARTHEST):
            atom = pending.pop() if pending else None
            if not isinstance(atom, Var):
                continue
            name, inner = self.given(atom) or "", self.definitions.get(atom)
            found = _OF_LANES.search(name)
            if found and found[1] in self._lanes_given:
                words = f"{wish.removesuffix('_lanes')}_{found[1]}"
                yield from (w for w in (words, f"{wish}_{found[2]}") if len(w) <= _LONGEST)
            elif not name and isinstance(inner, Apply):
                pending += inner.args

    def _continued(self, members: list[Var], wish: str) -> Iterator[str]:
        """The name of the version that this one is a sum with: the text is ``y_after += x``."""
        for made in map(self.definitions.get, members):
            if isinstance(made, Apply) and not is_store(made) and made.primitive.infix:
                for atom in made.args:
                    if isinstance(atom, Var) and atom.name == wish:
                        found = self.given(atom) or wish
                        if found != wish and not found.endswith(("_before", "_initial")):
                            yield found

    def _of_chunk(self, made: Statement | None, wish: str) -> Iterator[str]:
        """``e_chunk`` for what is made of a chunk of an argument."""
        for atom in made.args if isinstance(made, Apply) else ():
            if isinstance(atom, Var) and (self.given(atom) or "").endswith("_chunk"):
                yield f"{wish}_chunk"

    def _is_in_statement(self, made: Statement, wish: str) -> bool:
        """True if the statement that a value belongs to has this name."""
        name = wish.removesuffix("_lanes")
        return made.origin is not None and bool(re.search(rf"\b{name}\b", made.origin.statement))

    def restored(self, var: Var) -> Apply | None:
        """The read of a saved value, if that is what a value is."""
        made = self.definitions.get(var)
        if not isinstance(made, Apply) or made.primitive is not getitem:
            return None
        saved = isinstance(made.args[0], Var) and (made.args[0].name or "").endswith("_saved")
        return made if saved else None

    def _of_function(self, var: Var, wish: str, functions: set[str]) -> Iterator[str]:
        """``softmax_x`` in an inlined function, if no other ``x`` is one of its values."""
        function = function_of(var)
        known = {self.program.function.name, *functions}
        if function.isidentifier() and not any(k.startswith(function) for k in known):
            yield f"{function}_{wish}"

    def _of_adjoint(self, members: list[Var], wish: str) -> Iterator[str]:
        """``x_before_bar``: in the reverse phase the next adjoint is that of an earlier ``x``."""
        adjoint = _ADJOINT.match(wish)
        if adjoint is None:
            return
        stem, ending = adjoint.groups()
        for var in members:
            for read in self._within(var):
                name = self.given(read)
                if read.name == stem and name and name != stem:
                    yield f"{name}{ending}"
        yield f"{stem}_before{ending}"

    # of loops

    def _starts(self, group: int, members: list[Var], wish: str) -> bool:
        """True if a loop begins with this value, and another variable goes on with its name."""
        blocks = {id(self.block_of(v)) for v in members}
        if len(blocks) > 1 or self.definitions.get(members[0]) is None:
            return False
        phis = [phi for var in members for phi in self.initial.get(var, ())]
        return any(phi.name == wish and self.groups.of(phi) != group for phi in phis)

    def _of_loop(self, group: int, members: list[Var], wish: str) -> Iterator[str]:
        """``u_updated`` in a loop that begins with ``u``; ``u_after`` at an iteration's end."""
        if _ADJOINT.match(wish):
            return
        for var in members:
            if any(i.name == wish and self.groups.of(i) != group for i in self._begun(var)):
                yield f"{wish}_updated"
            phis = self.next.get(var, ())
            if any(phi.name == wish and self.groups.of(phi) != group for phi in phis):
                yield f"{wish}_after"

    def _begun(self, var: Var) -> list[Var]:
        """The value with which a loop's own value begins, or of which that is a copy."""
        init = self.program.carried.get(var, (None, None))[0]
        made = self.definitions.get(init) if isinstance(init, Var) else None
        copied = made.args if isinstance(made, Apply) and made.primitive is copy else ()
        return [a for a in (init, *copied) if isinstance(a, Var)]

    def block_of(self, var: Var) -> Block | None:
        """The block in which a value is made."""
        made = self.definitions.get(var)
        return self.program.block_of.get(id(made)) if made is not None else None

    # by statements

    def _turn(self, members: list[Var], wish: str) -> int:
        """Count the runs of a statement in the text, up to this one; 0 if it stands there once."""
        if self._times_in_all is None:
            self._times_in_all = Counter()
            for first, group in enumerate(self.groups.members):
                own = [*self.program.members(group)] if self._is_group(first) else []
                if own and (key := self._statement(own)):
                    self._times_in_all[key] += 1
        key = self._statement(members)
        if key is None or self._times_in_all[key] < 2:
            return 0
        self._times[key] += 1
        return self._times[key]

    def _is_group(self, first: int) -> bool:
        return self.groups.of(self.program.vars[first]) == first

    def _statement(self, members: list[Var]) -> tuple[str, int] | None:
        """The name and line of an assignment to a whole value in the forward phase."""
        made, name = self.definitions.get(members[0]), members[0].name
        if not isinstance(made, Apply) or name is None or made.phase == "reverse":
            return None
        origin = made.origin
        if len(members) > 1 or origin is None or _ADJOINT.match(name) or is_store(made):
            return None
        again = any(read.name == name for read in self._within(members[0]))
        assigned = origin.text.strip().startswith((f"{name} =", f"{name}:"))
        return (name, origin.line) if again and assigned else None

    def _after(self, group: int, members: list[Var], wish: str) -> Iterator[str]:
        """``x_after``, made from another ``x``."""
        if _ADJOINT.match(wish):
            return
        reads = (read for var in members for read in (*self._stored(var), *self._within(var)))
        known = (wish, f"{wish}_lanes")
        if any(read.name in known and self.groups.of(read) != group for read in reads):
            yield f"{wish}_after"

    def _stored(self, var: Var) -> tuple[Var, ...]:
        made = self.definitions.get(var)
        value = made.args[1] if isinstance(made, Apply) and is_store(made) else None
        return (value,) if isinstance(value, Var) and not value.type.ndim else ()

    def _with(self, members: list[Var], wish: str) -> Iterator[str]:
        """``x_with_gain``, made with a value that the user named so."""
        for var in members:
            for read in reversed([*self._within(var)]):
                name = read.name
                if name and _can_tell_apart(name, wish):
                    yield f"{wish}_with_{name}"
                    return

    def _within(self, var: Var) -> Iterator[Var]:
        """The named values of which a value, or what is stored into it, is computed."""
        pending: list[Atom] = [var]
        for _ in range(_FARTHEST):
            if not pending:
                return
            atom = pending.pop()
            made = self.definitions.get(atom) if isinstance(atom, Var) else None
            if not isinstance(made, Apply) or made.primitive.kind in ("size", "creation"):
                continue
            if is_store(made):
                pending += made.args[1:2]
                continue
            for atom in made.args[:1] if made.primitive is getitem else made.args:
                if isinstance(atom, Var) and atom.name:
                    yield atom
                else:
                    pending.append(atom)


def short(names: Iterator[str], wish: str) -> Iterator[str]:
    """The names that are not much longer than the ``wish`` that they tell apart.

    >>> [*short(iter(["y_where_x", "y_where_" + 9 * "some_"]), "y")]
    ['y_where_x']
    """
    longest = max(_LONGEST, len(wish) + _FURTHER)
    return (name for name in names if len(name) <= longest)


def counted(wish: str, number: int) -> Iterator[str]:
    """``second_x``, ``third_x``, ..., from a number on and without an end."""
    yield from (f"{word}_{wish}" for word in ORDINALS[number - 1 :])
    for k in itertools.count(max(number, len(ORDINALS) + 1)):
        yield f"{wish}_{_ordinal(k)}"


def _can_tell_apart(name: str, wish: str) -> bool:
    """True if the name of an operand says something of a value, and is short."""
    adjoint, number = _ADJOINT.match(name), name[-1].isdigit()
    if name in wish or name.startswith((wish, *SUMS)):
        return False
    return not adjoint and not number and len(wish + name) < LONGEST - 6


def function_of(var: Var) -> str:
    """The user's function that a value comes from."""
    return var.origin.function if var.origin else ""


def _ordinal(number: int) -> str:
    """The digits of an ordinal.

    >>> [_ordinal(n) for n in (13, 21, 22, 111)]
    ['13th', '21st', '22nd', '111th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def _carried_values(program: PrintedProgram) -> tuple[dict[Var, list[Var]], dict[Var, list[Var]]]:
    """The values with which loops begin, and those of an iteration's end, with their phis."""
    initial: dict[Var, list[Var]] = {}
    after: dict[Var, list[Var]] = {}
    for s in walk(program.body):
        if isinstance(s, (For, While)):
            for phi, init, end in zip(s.phis, s.inits, s.body.results, strict=True):
                if isinstance(init, Var):
                    initial.setdefault(init, []).append(phi)
                if isinstance(end, Var):
                    after.setdefault(end, []).append(phi)
    return initial, after
