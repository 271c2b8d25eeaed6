"""Writes statements as syntax trees, with the user's statements as comments above them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import gast

from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.codegen.text.expression_writer import ExpressionWriter
from calque.transpiler.codegen.text.layout import WIDTH, Notes, at_most, to_text
from calque.transpiler.codegen.text.origins import placed
from calque.transpiler.codegen.text.quotes import QUOTED, is_compound, is_loop_of, quoted, remark
from calque.transpiler.codegen.text.signature import result_tree
from calque.transpiler.codegen.text.spelling import (
    call,
    constant,
    fill,
    name,
    target,
    without_quotes,
)
from calque.transpiler.codegen.text.unpacking import Unpacking, unpackings
from calque.transpiler.codegen.text.widths import Widths, candidates_within
from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.core import (
    UNDEFINED,
    Apply,
    Atom,
    Block,
    Effect,
    For,
    If,
    Kernel,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.phases import answers
from calque.transpiler.memory.alias import viewed
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.function_calls import is_call
from calque.transpiler.primitives.shapes import reused

_AUGMENTING = (gast.Add, gast.Sub, gast.Mult, gast.Div, gast.BitAnd, gast.BitOr)


class StatementWriter:
    """Writes the statements of a program; ``too_long`` are folded values to name instead."""

    def __init__(
        self,
        program: PrintedProgram,
        groups: Groups,
        expressions: ExpressionWriter,
        choices: set[int],
        notes: Notes,
        comments: bool,
        earlier: StatementWriter | None = None,
    ):
        self.program, self.groups, self.expressions = program, groups, expressions
        self.choices, self.notes, self.comments = choices, notes, comments
        self.memory = expressions.folding.memory
        self.widths = Widths(expressions)
        self.too_long: list[Var] = []
        self.body: list[Any] = []
        self._quoted: Any = None  # the statement of the last comment
        self._noted = ""  # the last comment, if it was a note
        self._rules = {""}  # rules of derivatives that a comment of this function says
        self._uses = program.uses()
        self.earlier = earlier  # of the same program, with other values folded
        self._lines: dict[int, list[Any]] = {}  # of statements without blocks, all short enough

    def function_body(self) -> list[Any]:
        """All statements, and the return."""
        body = self._block(self.program.body, 1)
        returned = self._returned()
        for position in self.program.results:
            atom = self.program.body.results[position]
            self._fitting(gast.Return(self.expressions.atom(atom)), [atom], 1)
        if returned is not None:
            body.append(placed(gast.Return(returned), self._origin_of(self.program.body.results)))
        return body or [gast.Return(constant(None))]

    def finish(self, body: list[Any]) -> None:
        """Change the statements of a function whose lines have their final lengths, in place."""

    def phase_of(self, s: Statement) -> str:
        """The phase of a statement."""
        return s.phase

    def _origin_of(self, atoms: Sequence[Atom]) -> Origin | None:
        """The origin of the folded values that a ``return`` or an assignment computes."""
        folded = self.expressions.folding.folded
        return _only_origin([self.program.definition[a] for a in atoms if a in folded])

    def _returned(self) -> Any:
        results = self.program.body.results
        tree = self.program.function.result
        if tree is None:
            return None
        return result_tree(tree, self.program.function, lambda k: self.expressions.atom(results[k]))

    # blocks

    def _block(self, block: Block, depth: int) -> list[Any]:
        made: list[Any] = []
        phase, self._quoted = "", self._header()
        found = unpackings(block, self.program, self.expressions.folding)
        unpacked = {id(u.elements[0]): u for u in found}
        within = {id(s) for u in found for s in u.instead_of()}
        for s in block.statements:
            if id(s) in within:
                continue
            together = unpacked.get(id(s))
            lines = self._unpack(together, depth) if together else self._statement(s, depth)
            if not lines:
                continue
            if depth == 1 and s.phase and s.phase != phase:
                made += self._phase(s.phase, bool(made))
                phase = s.phase
            noted = s.origin is not None and s.origin.note
            made += self._comment(s, depth) if noted or answers(s.phase) else []
            made += lines
            if core.blocks_of(s):  # the statements after it may belong to the same head
                self._quoted = self._header() if answers(s.phase) else None
        return made

    def _header(self) -> Any:
        """The head of a loop or a branch, if it was the last comment: the block belongs to it."""
        return self._quoted if self._quoted and is_compound(self._quoted[1]) else None

    def _unpack(self, together: Unpacking, depth: int) -> list[Any]:
        names = [target(name(self._target_name(s.out))) for s in together.elements]
        if together.made is None:
            value = self.expressions.atom(together.array)
            return [gast.Assign([gast.Tuple(names, gast.Store())], value, None)]
        value = self.expressions.value(together.made)
        made = gast.Assign([gast.Tuple(names, gast.Store())], value, None)
        line = self._fitting(made, together.made.args, depth, together.made)
        return [placed(line, together.made.origin, together.made)]

    def _phase(self, phase: str, separate: bool) -> list[Any]:
        if not self.comments or self.program.function.phase == "forward":
            return []
        blank = [self.notes.blank()] if separate else []
        return [*blank, self.notes.comment(phase)]

    def _comment(self, s: Statement, depth: int) -> list[Any]:
        origin = s.origin
        if not self.comments or origin is None or not origin.statement:
            return []
        if not isinstance(s, (Apply, Effect)) and not origin.note and not is_loop_of(s, origin):
            return []
        if isinstance(s, Apply) and s.primitive in (empty, reused):
            return []  # memory that several statements may share
        if is_call(s):
            self._quoted, self._noted = None, ""  # its name says what it answers
            return []
        line = origin.statement_line or (origin.file, origin.line)
        key = (line, origin.statement, origin.of_derivative)
        if origin.note:
            said = self._noted == origin.note
            self._quoted, self._noted = None, origin.note
            return [] if said else [self.notes.comment(origin.note)]
        rule = [] if origin.rule in self._rules else [origin.rule]
        self._rules.add(origin.rule)
        if key == self._quoted:
            return [self.notes.comment(line) for line in rule]
        within = self._function_within(origin)
        self._quoted, self._noted = key, ""
        first, *more = quoted(origin.statement, QUOTED - 2 - 4 * depth - len(within))
        return [self.notes.comment(line) for line in (within + first, *more, *rule)]

    def _function_within(self, origin: Origin) -> str:
        """A comment's prefix, as ``softmax: ``, for statements of a function that was inlined."""
        name, own = origin.function, self.program.function.name
        called = name.isidentifier() and own != name and not own.startswith(f"{name}_")
        lines = [line.strip() for line in origin.statement.splitlines()]
        of = "derivative of: " if origin.of_derivative else ""
        return of + (f"{name}: " if called and origin.text.strip() in lines else "")

    def _statement(self, s: Statement, depth: int) -> list[Any]:
        origin = _only_origin(s.body.statements) if isinstance(s, Kernel) else s.origin
        return [placed(line, origin, s) for line in self._unplaced(s, depth)]

    def _unplaced(self, s: Statement, depth: int) -> list[Any]:
        if self.expressions.folding.skip(s):
            return []
        match s:
            case Effect():
                made = without_quotes(fill(s.template, self.expressions.operands(s.args)))
                return [self._fitting(made, s.args, depth, s)]
            case Apply():
                return self._kept_lines(s, depth)
            case If() if id(s) in self.choices:
                return [self._assign(s, depth)]
            case If():
                return self._if(s, depth)
            case For():
                return self._for(s, depth)
            case While():
                return self._while(s, depth)
            case Kernel():
                return self._kernel(s, depth)

    # single lines

    def _kept_lines(self, s: Apply, depth: int) -> list[Any]:
        """The lines of a statement: the earlier writer's, if all that they show is the same."""
        lines = self.earlier and self.earlier._lines.get(id(s))
        if not lines or not self._shows_the_same(s):
            before = len(self.too_long)
            lines = self._apply(s, depth)
            if len(self.too_long) > before or any(map(self.notes.is_note, lines)):
                return lines
        self._lines[id(s)] = lines
        return lines

    def _shows_the_same(self, s: Statement) -> bool:
        """True if the earlier writer folded the same values into a statement, with equal names."""
        assert self.earlier is not None
        now, before = self.expressions, self.earlier.expressions

        def is_same(atom: Atom) -> bool:
            if not isinstance(atom, Var):
                return True
            if atom in now.paths:
                return not now.inside  # a leaf's name in kernels is given where it is first written
            if (atom in now.folding.folded) != (atom in before.folding.folded):
                return False
            if atom not in now.folding.folded:
                group = self.groups.of(atom)
                return now.names.given.get(group) == before.names.given.get(group)
            return are_same(self.program.definition[atom])

        def are_same(s: Statement) -> bool:
            results = (a for block in core.blocks_of(s) for a in block.results)
            return all(map(is_same, core.operands(s))) and all(map(is_same, results))

        return self.groups is self.earlier.groups and are_same(s) and all(map(is_same, s.outs))

    def _apply(self, s: Apply, depth: int) -> list[Any]:
        if is_store(s):
            return self._store(s, depth) + self._remark(s)
        if len(s.outs) > 1:
            targets = [target(name(self._target_name(out), out)) for out in s.outs]
            if is_call(s) and s.primitive.starred_outs:
                targets[-1] = gast.Starred(targets[-1], gast.Store())
            value = self.expressions.value(s)
            made = gast.Assign([gast.Tuple(targets, gast.Store())], value, None)
            return [self._fitting(made, s.args, depth, s)]
        lines = [self._assign(s, depth)]
        if self.comments and id(s) in self.program.kept_arguments:
            lines.append(self.notes.trailing("the argument is kept as it is"))
        return lines + self._remark(s)

    def _remark(self, s: Apply) -> list[Any]:
        """Half a line behind a statement of the reverse phase: what is restored, shapes of sums."""
        text = ""
        if self.comments and answers(s.phase) and not self.expressions.inside:
            text = remark(s, self.program.definition)
        return [self.notes.trailing(text)] if text else []

    def _target_name(self, out: Var) -> str:
        used = out in self._all_read
        return self.expressions.names(out) if used else "_"

    @cached_property
    def _all_read(self) -> set[Var]:
        atoms: list[Atom] = list(self.program.body.results)
        for s in core.walk(self.program.body):
            atoms += core.operands(s)
            for block in core.blocks_of(s):
                atoms += block.results
        return {a for a in atoms if isinstance(a, Var)}

    def _assign(self, s: Statement, depth: int) -> Any:
        out = s.outs[0]
        atoms = list(core.operands(s))
        for block in core.blocks_of(s):
            atoms += block.results
        return self._fitting(self._assigned(out, s), atoms, depth, s)

    def _assigned(self, out: Var, s: Statement) -> Any:
        """The statement ``out = ...``, or an equal in-place one."""
        own = self.expressions.names(out)
        place = target(name(own, out))
        tree = self.expressions.value(s)
        augmented = self._augmented(own, s, tree) if isinstance(s, Apply) else None
        if augmented is None:
            return gast.Assign([place], tree, None)
        operator, added, value = augmented
        return self.expressions.shortest(gast.AugAssign(place, operator, added), value)

    def _augmented(self, own: str, s: Apply, tree: Any) -> tuple[Any, Any, Atom] | None:
        """The parts of ``s += v``; None if the user wrote ``s = s + v``.

        None in a kernel that casts the sum to its dtype: Numba computes ``+=`` in a wider one.
        """
        text = s.origin.statement if s.origin else ""
        reverse = s.phase == "reverse"
        if not isinstance(tree, gast.BinOp) or not isinstance(tree.op, _AUGMENTING):
            return None
        if (not reverse and text.startswith(f"{own} = ")) or len(s.args) != 2:
            return None
        before, value = s.args
        commutes = isinstance(tree.op, (gast.Add, gast.Mult))
        if commutes and reverse and not self._is_called(own, before):
            before, value = value, before
        sides = [tree.left, tree.right]
        if commutes and not _is_name(sides[0], own):
            sides.reverse()  # a number stands first
        if not self._is_called(own, before) or not _is_name(sides[0], own):
            return None
        array = s.out.type.ndim or self.memory.at(before)
        if array and not self._is_only_here(before, s):
            return None
        return tree.op, sides[1], value

    def _is_only_here(self, before: Atom, s: Apply) -> bool:
        """True if an operand has its own memory and no other reader: it may be changed in place."""
        made = self.program.definition.get(before) if isinstance(before, Var) else None
        if not isinstance(made, Apply) or self.expressions.inside or id(made) in self.memory.backs:
            return False
        if made.primitive.view_back is not None or made.primitive.aliases or viewed(made):
            return False
        near = self.program.block_of[id(made)] is self.program.block_of[id(s)]
        alike = before.type.dtype == s.out.type.dtype and before.type.dims == s.out.type.dims
        return near and alike and self._uses[before] == 1

    def _is_called(self, own: str, atom: Atom) -> bool:
        """True if an operand is held by the variable ``own``."""
        if not isinstance(atom, Var) or atom in self.expressions.paths:
            return False
        return not self.expressions.folding.hidden(atom) and self.expressions.names(atom) == own

    def _store(self, s: Apply, depth: int) -> list[Any]:
        base = s.args[0]
        alias = not self.groups.together(s.out, base)
        moved = alias and base not in self.expressions.folding.folded
        lines = [self._move(s.out, base)] if moved else []
        if id(s) in self.memory.backs:
            return lines
        changed = self.expressions.changed(s)
        atoms = s.args if changed is None else [changed[2]]
        return [self._fitting(self.expressions.store(s), atoms, depth, s), *lines]

    def _move(self, out: Var, atom: Atom) -> Any:
        if isinstance(atom, Var) and atom in self.expressions.folding.folded:
            return self._assigned(out, self.program.definition[atom])
        value = self.expressions.atom(atom)
        return gast.Assign([target(name(self.expressions.names(out), out))], value, None)

    def _moves(self, outs: tuple[Var, ...], atoms: list[Atom], depth: int) -> list[Any]:
        """Assign several variables at once: in an order that works, else as one tuple."""
        pending = [
            (out, atom)
            for out, atom in zip(outs, atoms, strict=True)
            if atom is not UNDEFINED and not self.groups.together(out, atom)
        ]
        lines: list[Any] = []
        while pending:
            for k, (out, atom) in enumerate(pending):
                others = pending[:k] + pending[k + 1 :]
                if not any(self.expressions.names(out) in self._names_read(a) for _, a in others):
                    line = self._fitting(self._move(out, atom), [atom], depth)
                    origin = self._origin_of([atom])  # else that of the loop, or of the branch
                    lines.append(line if origin is None else placed(line, origin))
                    del pending[k]
                    break
            else:
                targets = [target(name(self.expressions.names(o), o)) for o, _ in pending]
                values = [self.expressions.atom(atom) for _, atom in pending]
                made = gast.Assign(
                    [gast.Tuple(targets, gast.Store())], gast.Tuple(values, gast.Load()), None
                )
                lines.append(self._fitting(made, [a for _, a in pending], depth))
                break
        return lines

    def _names_read(self, atom: Atom) -> set[str]:
        """The variables that the text of an atom mentions."""
        leaves = self.program.members(self.expressions.folding.reads(atom))
        return {self.expressions.names(v) for v in leaves if v not in self.expressions.paths}

    # statements with blocks

    def _arm(self, block: Block, outs: tuple[Var, ...], depth: int) -> list[Any]:
        lines = self._block(block, depth)
        return lines + self._moves(outs, block.results, depth)

    def _if(self, s: If, depth: int) -> list[Any]:
        test = self.expressions.atom(s.test)
        then = self._arm(s.then, s.outs, depth + 1)
        orelse = self._arm(s.orelse, s.outs, depth + 1)
        if not then and not orelse:
            return []
        if not then:
            test, then, orelse = _opposite(test), orelse, []
        head = gast.If(test, [gast.Pass()], [])
        self._fitting(head, [s.test], depth, s)
        return [gast.If(test, then, orelse)]

    def _for(self, s: For, depth: int) -> list[Any]:
        lines = self._moves(s.phis, list(s.inits), depth)
        bounds = [self.expressions.atom(a) for a in (s.start, s.stop, s.step)]
        if _is_known(s.step, 1):
            bounds.pop()
            if _is_known(s.start, 0):
                bounds.pop(0)
        counter = target(name(self._counter(s)))
        span = call(name("range"), *bounds)
        body = self._block(s.body, depth + 1)
        body += self._moves(s.phis, s.body.results, depth + 1)
        if not body:
            return lines
        head = gast.For(counter, span, [gast.Pass()], [], None)
        self._fitting(head, [s.start, s.stop, s.step], depth, s)
        lines.append(gast.For(counter, span, body, [], None))
        return lines + self._moves(s.outs, list(s.phis), depth)

    def _counter(self, s: For) -> str:
        read = s.index in self._all_read
        return self.expressions.names(s.index) if read or s.index.name not in (None, "_") else "_"

    def _while(self, s: While, depth: int) -> list[Any]:
        lines = self._moves(s.phis, list(s.inits), depth)
        test_lines = self._block(s.test, depth + 1)
        test = self.expressions.atom(s.test.results[0])
        body = self._block(s.body, depth + 1)
        body += self._moves(s.phis, s.body.results, depth + 1)
        if test_lines:
            leave = gast.If(_opposite(test), [gast.Break()], [])
            body = [*test_lines, leave, *body]
            test = constant(True)
        lines.append(gast.While(test, body or [gast.Pass()], []))
        return lines + self._moves(s.outs, list(s.phis), depth)

    def _kernel(self, s: Kernel, depth: int) -> list[Any]:
        """The statements of a kernel, for targets that compile none."""
        return self._block(s.body, depth)

    # line length

    def _fitting(self, made: Any, atoms: Any, depth: int, s: Statement | None = None) -> Any:
        """The statement; if its line is too long, note which folded values deserve a name."""
        room = WIDTH - 4 * depth
        if at_most(made) <= room:
            return made
        width = self._width(to_text(made).split("\n")[0])
        if width > room and not self._long_by_choice(s):
            candidates = candidates_within(atoms, self.expressions, self._worth_a_line)
            if candidates:
                self.too_long += self.widths.to_name(candidates, width, room - 20)
        return made

    def _width(self, line: str) -> int:
        """The width of a printed line."""
        return len(line)

    def _long_by_choice(self, s: Statement | None) -> bool:
        """True if the user's own statement is as long as a line that is too long."""
        if s is None or s.origin is None or s.phase == "reverse":
            return False
        return len(" ".join(s.origin.statement.split())) > WIDTH - 16

    def _worth_a_line(self, made: Apply) -> bool:
        return made.primitive.kind != "size" and bool(self.program.block_of.get(id(made)))


def _is_known(atom: Atom, value: int) -> bool:
    return not isinstance(atom, Var) and atom == value


def _opposite(test: Any) -> Any:
    if isinstance(test, gast.UnaryOp) and isinstance(test.op, gast.Not):
        return test.operand
    return gast.UnaryOp(gast.Not(), test)


def _is_name(tree: Any, identifier: str) -> bool:
    return isinstance(tree, gast.Name) and tree.id == identifier


def _only_origin(statements: Sequence[Statement]) -> Origin | None:
    """The origin of statements from one line of the user's; None if they are from several."""
    found = [s.origin for s in statements if s.origin is not None]
    return found[0] if len({(o.file, o.line) for o in found}) == 1 else None
