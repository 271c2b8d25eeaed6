"""Equality of statements up to renaming of values: one text, or one kernel, serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, For, Statement, Var


class Form(NamedTuple):
    """A key that is equal for statements that differ in values alone, and the values in order."""

    text: tuple[Any, ...]
    values: tuple[Var, ...]


# what a key holds of a statement beside what it computes; the flag: within a loop over elements
Said = Callable[[Statement, bool], Any]


def sort(statements: Sequence[Statement]) -> tuple[str, ...]:
    """The primitives and kinds of statements, also of inner ones: equal wherever forms are."""
    inner = core.walk(Block(list(statements)))
    return tuple(t.primitive.name if isinstance(t, Apply) else type(t).__name__ for t in inner)


def kind_of(var: Var) -> tuple[Any, ...]:
    """The dtype and the rank of a value: what its name stands for in a text."""
    return var.type.dtype.str, var.type.ndim, var.type.weak


class Former:
    """Makes keys of statements; ``said`` and ``kind`` are what is to be equal beside operations."""

    def __init__(
        self, said: Said, kind: Callable[[Var], Any] = kind_of, explained: bool = False
    ):
        self.said, self.kind, self.explained = said, kind, explained
        self.numbers: dict[Var, int] = {}

    def form(self, statements: Sequence[Statement]) -> Form:
        """The form of statements, in which values are numbered by their first occurrence."""
        self.numbers = {}
        text = self.block(Block(list(statements)), False)
        return Form(text, tuple(self.numbers))

    def block(self, block: Block, generated: bool) -> tuple[Any, ...]:
        """The key of a block; ``generated``: within a loop over elements."""
        made = tuple(self.statement(s, generated) for s in block.statements)
        return (*made, self._atoms(block.results))

    def statement(self, s: Statement, generated: bool) -> tuple[Any, ...]:
        """The key of one statement and of all that it holds."""
        own = generated
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
        said = self.said(s, generated)
        head = type(s).__name__, said, details, self._atoms(core.operands(s))
        bound = self._atoms(core.bound_vars(s))
        inner = tuple(self.block(b, own) for b in core.blocks_of(s))
        return (*head, bound, inner, self._atoms(s.outs))

    def _atoms(self, atoms: Sequence[Atom]) -> tuple[Any, ...]:
        return tuple(self._atom(a) for a in atoms)

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Var):
            return self.numbers.setdefault(atom, len(self.numbers)), self.kind(atom)
        return type(atom).__name__, repr(atom)


def _plain(value: Any) -> Any:
    """A parameter as a value that can be compared and hashed."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)
