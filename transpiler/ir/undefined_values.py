"""Values that are undefined on some path: no such path reads them, and no pass may do so."""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import UNDEFINED, Atom, Block, For, If, Var, While


def unfilled(block: Block) -> set[Var]:
    """The phis and results that may be undefined; not even their shapes may be read."""
    found: set[Var] = set()
    _visit(block, found)
    return found


def _visit(block: Block, found: set[Var]) -> None:
    def lacks(*atoms: Atom) -> bool:
        return any(a is UNDEFINED or (isinstance(a, Var) and a in found) for a in atoms)

    for s in block.statements:
        if isinstance(s, (For, While)):
            found.update(p for p, i in zip(s.phis, s.inits, strict=True) if lacks(i))
        for inner in core.blocks_of(s):
            _visit(inner, found)
        if isinstance(s, If):
            ends = zip(s.then.results, s.orelse.results, strict=True)
            found.update(o for o, pair in zip(s.outs, ends, strict=True) if lacks(*pair))
        elif isinstance(s, (For, While)):
            ends = zip(s.inits, s.body.results, strict=True)
            found.update(o for o, pair in zip(s.outs, ends, strict=True) if lacks(*pair))
