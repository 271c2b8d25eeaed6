"""Equality of statements up to renaming of values: their kernels are compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.transpiler.codegen.text.folding import Folding
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, For, Statement, Var


class Form(NamedTuple):
    """A key that is equal for statements that differ in values alone, and the values in order."""

    text: tuple[Any, ...]
    values: tuple[Var, ...]


def form(statements: Sequence[Statement], folding: Folding) -> Form:
    """The form of statements, including the comments above those that have a line."""
    found = _Form(folding)
    text = found.block(Block(list(statements)), False)
    return Form(text, tuple(found.numbers))


def sort(statements: Sequence[Statement]) -> tuple[str, ...]:
    """The primitives and kinds of statements, also of inner ones: equal wherever forms are."""
    inner = core.walk(Block(list(statements)))
    return tuple(t.primitive.name if isinstance(t, Apply) else type(t).__name__ for t in inner)


class _Form:
    def __init__(self, folding: Folding):
        self.folding = folding
        self.explained = bool(folding.program.function.kernel_options.get("explained"))
        self.numbers: dict[Var, int] = {}

    def block(self, block: Block, generated: bool) -> tuple[Any, ...]:
        """The key of a block; ``generated``: within a loop over elements."""
        made = tuple(self._statement(s, generated) for s in block.statements)
        return (*made, self._atoms(block.results))

    def _statement(self, s: Statement, generated: bool) -> tuple[Any, ...]:
        own = generated
        said: Any = None
        quoted = (generated or s.phase == "reverse") and not self.folding.skip(s)
        if quoted and s.origin is not None:
            said = s.origin.note or s.origin.statement
        details: tuple[Any, ...] = ()
        match s:
            case Apply():
                params = tuple((key, _plain(value)) for key, value in s.params.items())
                details = s.primitive, params, s.proven
            case Effect():
                details = (s.template,)
            case For():
                own = s.scheduled
                details = s.scheduled, s.parallel, s.vector
                if self.explained and s.verdict is not None:
                    details += (s.verdict.comment(""),)
        head = type(s).__name__, said, details, self._atoms(core.operands(s))
        bound = self._atoms(core.bound_vars(s))
        inner = tuple(self.block(b, own) for b in core.blocks_of(s))
        return (*head, bound, inner, self._atoms(s.outs))

    def _atoms(self, atoms: Sequence[Atom]) -> tuple[Any, ...]:
        return tuple(self._atom(a) for a in atoms)

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Var):
            number = self.numbers.setdefault(atom, len(self.numbers))
            return number, atom.type.dtype.str, atom.type.ndim, atom.type.weak
        return type(atom).__name__, repr(atom)


def _plain(value: Any) -> Any:
    """A parameter as a value that can be compared and hashed."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)


def period(items: Sequence[Any], least: int) -> int:
    """The period of items that repeat ``least`` times or more; 0 if they do not.

    >>> period("abcabcabc", 3), period("abab", 3)
    (3, 0)
    """
    for size in range(1, len(items) // least + 1):
        if len(items) % size == 0 and all(a == b for a, b in zip(items, items[size:])):
            return size
    return 0
