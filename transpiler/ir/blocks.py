"""Definitions, order and first uses of a block's values; insertion and pruning of statements."""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Block, For, Statement, Var, While
from calque.transpiler.ir.dead_code import prune
from calque.transpiler.ir.uses import is_read


def insert_before(block: Block, statement: Statement, new: list[Statement]) -> None:
    """Put statements in front of another."""
    where = next(i for i, s in enumerate(block.statements) if s is statement)
    block.statements[where:where] = new


def definitions_in(block: Block) -> dict[Var, Statement]:
    """The statement that defines each Var of a block and of the blocks within."""
    return {o: s for s in core.walk(block) for o in s.outs}


def ordered_vars(block: Block) -> list[Var]:
    found: list[Var] = []
    for s in core.walk(block):
        found += core.bound_vars(s)
        found += s.outs
    return found


def definition_order(s: For | While) -> dict[Var, int]:
    """The Vars of a loop's inside, numbered in the order of their definition."""
    inside = [*s.phis, *ordered_vars(s.body)]
    return {v: i for i, v in enumerate(inside)}


def first_use(block: Block, value: Var) -> int:
    """The index of the first statement that reads ``value``; the block's length if none does."""
    for where, s in enumerate(block.statements):
        if is_read(s, value):
            return where
    return len(block.statements)


def prune_block(block: Block) -> None:
    prune(block, {r for r in block.results if isinstance(r, Var)})
