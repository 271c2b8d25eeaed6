"""The phase of every statement: forward or reverse, as the statement around it says.

In the reverse mode of a derivative by reverse mode, the inner sweep is a phase of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.ir.core import Block, Function, Statement, blocks_of

FIRST = "first derivative"
FROM_STATE = "run again from the last state saved"  # the note of a loop that does so
AGAIN = "again: its values were not saved"  # ends the note of statements that a sweep repeats
PHASES = ("forward", FIRST, "reverse")  # in the order of the text


def answers(phase: str) -> bool:
    """True for a phase whose statements answer the user's, which are quoted above them."""
    return phase in ("reverse", FIRST)


def label_before_sweep(statements: Iterable[Statement]) -> None:
    """Set the phase of what a reverse sweep goes back over: an inner sweep is told apart."""
    for statement in statements:
        statement.phase = FIRST if answers(statement.phase) else "forward"
        for inner in blocks_of(statement):
            label_before_sweep(inner.statements)


def label(statements: Iterable[Statement], phase: str) -> None:
    """Set the phase of statements and of all statements within them."""
    for statement in statements:
        statement.phase = phase
        for inner in blocks_of(statement):
            label(inner.statements, phase)


def label_rest(statements: Iterable[Statement], phase: str) -> None:
    """Set the phase of statements without one: a loop may hold statements of both phases."""
    for statement in statements:
        statement.phase = statement.phase or phase
        for inner in blocks_of(statement):
            label_rest(inner.statements, phase)


def spread_phases(function: Function) -> None:
    """Give the phase of a statement to those within it that have none."""

    def visit(block: Block, phase: str) -> None:
        for statement in block.statements:
            statement.phase = statement.phase or phase
            for inner in blocks_of(statement):
                visit(inner, statement.phase)

    visit(function.body, "")


def runs_again(statement: Statement) -> bool:
    """True for a statement that a reverse phase repeats, to have its values anew."""
    return statement.origin is not None and statement.origin.note.endswith(AGAIN)
