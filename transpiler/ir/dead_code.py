"""Dead code elimination, also of loop-carried values and of results of branches.

Before::

    y, z = for i in range(n) carrying y = 0.0, z = 0.0: ...
    yield y

After, the loop no longer carries z if y does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.ir.core import (
    Atom,
    Block,
    For,
    Function,
    If,
    Statement,
    Var,
    While,
    blocks_of,
    operands,
)
from calque.transpiler.ir.effects import has_effects


def remove_dead_code(function: Function) -> Function:
    """Remove, in place, what the results and effects do not need."""
    prune(function.body, set(_vars(function.body.results)))
    return function


def _vars(atoms: Iterable[Atom]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var)]


def prune(block: Block, live: set[Var]) -> None:
    """Keep the statements that ``live`` needs; it becomes what the block reads from outside."""
    kept: list[Statement] = []
    for statement in reversed(block.statements):
        if not _needed(statement, live):
            continue
        match statement:
            case If():
                _prune_if(statement, live)
            case For() | While():
                prune_loop(statement, live)
        live.difference_update(statement.outs)
        live.update(_vars(operands(statement)))
        kept.append(statement)
    block.statements = kept[::-1]


def _needed(statement: Statement, live: set[Var]) -> bool:
    return any(out in live for out in statement.outs) or has_effects(statement)


def _prune_if(statement: If, live: set[Var]) -> None:
    keep = [i for i, out in enumerate(statement.outs) if out in live]
    statement.outs = tuple(statement.outs[i] for i in keep)
    for arm in blocks_of(statement):
        arm.results = [arm.results[i] for i in keep]
        inner = set(_vars(arm.results))
        prune(arm, inner)
        live.update(inner)


def prune_loop(statement: For | While, live: set[Var]) -> None:
    """Stop carrying what neither ``live`` nor another iteration needs; prune the body."""
    body = statement.body
    needed = [out in live for out in statement.outs]
    while True:
        inner = set(_vars(r for r, n in zip(body.results, needed, strict=True) if n))
        reads = read_by(body, inner)
        if isinstance(statement, While):
            reads |= read_by(statement.test, set(_vars(statement.test.results)))
        now = [n or phi in reads for n, phi in zip(needed, statement.phis, strict=True)]
        if now == needed:
            break
        needed = now
    keep = [i for i, n in enumerate(needed) if n]
    statement.outs = tuple(statement.outs[i] for i in keep)
    statement.phis = tuple(statement.phis[i] for i in keep)
    statement.inits = tuple(statement.inits[i] for i in keep)
    body.results = [body.results[i] for i in keep]
    inner = set(_vars(body.results))
    prune(body, inner)
    if isinstance(statement, While):
        test = set(_vars(statement.test.results))
        prune(statement.test, test)
        inner |= test
    live.update(inner - set(statement.phis))


def read_by(block: Block, live: set[Var]) -> set[Var]:
    """The Vars, its own included, that a block reads to compute ``live`` and its effects."""
    live = set(live)
    for statement in reversed(block.statements):
        if not _needed(statement, live):
            continue
        match statement:
            case If():
                for arm in blocks_of(statement):
                    wanted = {
                        r
                        for r, out in zip(arm.results, statement.outs, strict=True)
                        if out in live and isinstance(r, Var)
                    }
                    live |= read_by(arm, wanted)
            case For() | While():
                live |= _read_by_loop(statement, live)
                continue
        live.update(_vars(operands(statement)))
    return live


def _read_by_loop(statement: For | While, live: set[Var]) -> set[Var]:
    needed = {out for out in statement.outs if out in live}
    wanted = [out in needed for out in statement.outs]
    reads: set[Var] = set()
    while True:
        results = {
            r
            for r, n in zip(statement.body.results, wanted, strict=True)
            if n and isinstance(r, Var)
        }
        reads = read_by(statement.body, results)
        if isinstance(statement, While):
            reads |= read_by(statement.test, set(_vars(statement.test.results)))
        now = [n or phi in reads for n, phi in zip(wanted, statement.phis, strict=True)]
        if now == wanted:
            inits = [i for i, n in zip(statement.inits, wanted, strict=True) if n]
            bounds = (
                (statement.start, statement.stop, statement.step)
                if isinstance(statement, For)
                else ()
            )
            return reads.union(_vars((*bounds, *inits)))
        wanted = now
