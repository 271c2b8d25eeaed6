"""Remove the loop-carried variables that no iteration changes: uses read the initial value.

The reverse pass carries every adjoint through every loop, although most loops only read some of
them. Once a loop carries only what it changes, its iterations can be seen to be independent.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Atom, Block, For, Function, Var, While


def remove_invariant_phis(function: Function) -> None:
    """Remove invariant phis from all loops of a function, in place."""
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
