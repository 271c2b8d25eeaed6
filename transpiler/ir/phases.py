"""The phase of every statement: forward or reverse, as the statement around it says."""

from __future__ import annotations

from calque.transpiler.ir.core import Block, Function, blocks_of


def spread_phases(function: Function) -> None:
    """Give the phase of a statement to those within it that have none."""

    def visit(block: Block, phase: str) -> None:
        for statement in block.statements:
            statement.phase = statement.phase or phase
            for inner in blocks_of(statement):
                visit(inner, statement.phase)

    visit(function.body, "")
