"""Estimates of the width of expressions, and the choice of subexpressions to name in wide lines.

To print text costs far more than to add lengths, and derivatives of derivatives have lines that
must be split dozens of times: so lengths are bounded by the templates, from below and from above,
once for each value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import gast

from calque.transpiler.codegen.text.expression_writer import ExpressionWriter
from calque.transpiler.codegen.text.layout import WIDTH, to_text
from calque.transpiler.codegen.text.spelling import template
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, If, Statement, Var

_SLOT = re.compile(r"\{(\d+)\}")
_LITERAL = 32  # for np.float32(...) around a number
_NAME = 20  # the typical length of a new name


class Width(NamedTuple):
    """Bounds on the length of a text, and its likely length."""

    least: int
    most: int
    likely: int


def _together(parts: Sequence[Width], own: int) -> Width:
    """The width of operands with the text between them, and maybe brackets or casts."""
    return Width(
        sum(p.least for p in parts),
        sum(p.most + 2 for p in parts) + own + len("complex()"),
        sum(p.likely for p in parts) + own,
    )


class Candidate(NamedTuple):
    """A folded value in an expression; those within it precede it in the list, from ``first``."""

    var: Var
    first: int


class Widths:
    """The widths of a program's expressions."""

    def __init__(self, expressions: ExpressionWriter):
        self.expressions = expressions
        self._known: dict[Var, Width] = {}

    def atom(self, atom: Atom) -> Width:
        """The width of an operand."""
        if not isinstance(atom, Var):
            length = len(repr(getattr(atom, "item", lambda: atom)()))
            return Width(1, length + _LITERAL, length)
        if atom not in self._known:
            self._known[atom] = self._of(atom)
        return self._known[atom]

    def _of(self, var: Var) -> Width:
        if var in self.expressions.paths:
            length = len(to_text(self.expressions.paths[var][0]))
            return Width(length, length, length)
        if var in self.expressions.folding.folded:
            return self.statement(self.expressions.program.definition[var])
        length = len(self.expressions.names(var))
        return Width(length, length, length)

    def statement(self, s: Statement) -> Width:
        """The width of the expression of a statement."""
        if isinstance(s, If):
            parts = [self.atom(a) for a in (s.test, s.then.results[0], s.orelse.results[0])]
            return _together(parts, len(" if  else "))
        assert isinstance(s, Apply)
        text = template(s.primitive, s.args, s.params)
        slots = [self.atom(s.args[int(k)]) for k in _SLOT.findall(text)]
        return _together(slots, len(_SLOT.sub("", text)))

    # the choice of values to name

    def to_name(self, candidates: Sequence[Candidate], width: int, room: int) -> list[Var]:
        """The folded values of a line that is too long which get lines of their own.

        One at a time, so that each choice is based on the new text; several if the line is far too
        long.
        """
        if width > 2 * WIDTH:
            found = self._several(candidates, width, room)
            if found:
                return found
        return [self._largest([c.var for c in candidates], room)]

    def _largest(self, candidates: Sequence[Var], room: int) -> Var:
        """The candidate with the longest text that fits; if none fits, the longest."""
        best, found = 0, None
        for var in sorted(candidates, key=lambda v: -self.atom(v).most):
            bounds = self.atom(var)
            if bounds.most < best:
                break
            if bounds.least > room:
                continue
            length = len(to_text(gast.Expr(self.expressions.atom(var))))
            before = found is not None and length == best
            if length <= room and (
                length > best or (before and candidates.index(var) < candidates.index(found))
            ):
                best, found = length, var
        return max(candidates, key=lambda v: self.atom(v).most) if found is None else found

    def _several(self, candidates: Sequence[Candidate], width: int, room: int) -> list[Var]:
        """Choose the largest that fits repeatedly, each time with a name in place of the last."""
        left = [self.atom(c.var).likely for c in candidates]
        picked: list[int] = []
        while width > WIDTH:
            fitting = [k for k, n in enumerate(left) if 2 * _NAME < n <= room]
            if not fitting:
                break
            now = max(fitting, key=lambda k: left[k])
            saved = left[now] - _NAME
            picked.append(now)
            width -= saved
            for k, candidate in enumerate(candidates):
                if k > now and candidate.first <= now:
                    left[k] -= saved
            for k in range(candidates[now].first, now + 1):
                left[k] = 0
        return [candidates[k].var for k in picked]


def candidates_within(
    atoms: Sequence[Atom], expressions: ExpressionWriter, worth: Callable[[Apply], bool]
) -> list[Candidate]:
    """The folded values in an expression that would be worth a line, inner ones first."""
    found: list[Candidate] = []

    def visit(atom: Atom) -> None:
        if not isinstance(atom, Var) or atom not in expressions.folding.folded:
            return
        made, first = expressions.program.definition[atom], len(found)
        if not isinstance(made, If):
            for inner in core.operands(made):
                visit(inner)
        if isinstance(made, If) or (isinstance(made, Apply) and worth(made)):
            found.append(Candidate(atom, first))

    for atom in atoms:
        visit(atom)
    return found
