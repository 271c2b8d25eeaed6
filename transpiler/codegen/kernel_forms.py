"""Equality of kernels up to renaming of values: equal ones are compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.codegen.text.folding import Folding
from calque.transpiler.ir.core import Statement
from calque.transpiler.ir.phases import answers
from calque.transpiler.ir.statement_forms import Form, Former


def form(statements: Sequence[Statement], folding: Folding) -> Form:
    """The form of statements, including the comments above those that have a line."""

    def said(s: Statement, generated: bool) -> Any:
        quoted = (generated or answers(s.phase)) and not folding.skip(s)
        o = s.origin if quoted else None
        return None if o is None else o.note or o.statement + o.rule

    explained = bool(folding.program.function.kernel_options.get("explained"))
    return Former(said, explained=explained).form(statements)


def period(items: Sequence[Any], least: int) -> int:
    """The period of items that repeat ``least`` times or more; 0 if they do not.

    >>> period("abcabcabc", 3), period("abab", 3)
    (3, 0)
    """
    for size in range(1, len(items) // least + 1):
        if len(items) % size == 0 and all(a == b for a, b in zip(items, items[size:])):
            return size
    return 0
