"""What a loop carries from round to round unchanged is read from where it was before the loop.

A sweep back carries every adjoint through every loop, though most only read some of them; a loop
that carries no more than it changes can be seen to be one whose rounds are independent.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Atom, Block, For, Function, Var, While


def drop_unchanged(function: Function) -> None:
    """Let loops carry only what they change, in place."""
    same: dict[Var, Atom] = {}

    def now(atom: Atom) -> Atom:
        while isinstance(atom, Var) and atom in same:
            atom = same[atom]
        return atom

    def visit(block: Block) -> None:
        for s in block.statements:
            for inner in core.blocks_of(s):
                visit(inner)
            if isinstance(s, (For, While)):
                places = range(len(s.phis))
                idle = {k for k in places if now(s.body.results[k]) is s.phis[k]}
                for k in idle:
                    same[s.phis[k]] = same[s.outs[k]] = s.inits[k]
                kept = [k for k in places if k not in idle]
                s.phis, s.outs, s.inits = (
                    tuple(row[k] for k in kept) for row in (s.phis, s.outs, s.inits)
                )
                s.body.results[:] = [s.body.results[k] for k in kept]

    visit(function.body)
    core.substitute(function.body, {var: now(var) for var in same})
