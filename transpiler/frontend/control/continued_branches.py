"""Two branches on one test, one after the other, written as one.

Before::

    w = if far: yield v * 2.0
        else:   yield undefined
    s = if far: yield w * k
        else:   yield 3.0 * k

After::

    w, s = if far:
               w.1 = v * 2.0
               yield w.1, w.1 * k
           else:
               yield undefined, 3.0 * k
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import UNDEFINED, Block, If, Statement, Var


def continued(first: Statement, second: If) -> bool:
    """Let a branch do what the next one does, too; False if that is another statement's."""
    if not isinstance(first, If) or first.test is not second.test:
        return False
    pairs = list(zip(core.blocks_of(first), core.blocks_of(second), strict=True))
    if not all(_fits(first, arm, more) for arm, more in pairs):
        return False
    for arm, more in pairs:
        core.substitute(more, _given(first, arm))
        arm.statements += more.statements
        arm.results += more.results
    first.outs += second.outs
    return True


def _given(branch: If, arm: Block) -> dict[Var, core.Atom]:
    """The results of a branch, each with the value that an arm gives for it."""
    return dict(zip(branch.outs, arm.results, strict=True))


def _fits(branch: If, arm: Block, more: Block) -> bool:
    """True if statements may read what an arm gives in the place of its branch's results."""
    read = core.free_vars(more)
    pairs = [(out, given) for out, given in _given(branch, arm).items() if out in read]
    return all(
        given is not UNDEFINED and (not isinstance(given, Var) or given.type == out.type)
        for out, given in pairs
    )
