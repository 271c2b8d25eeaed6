"""Values that are undefined on some path: no such path reads them, and no pass may do so."""

from __future__ import annotations

from calque.transpiler.ir.core import UNDEFINED, Block, Var
from calque.transpiler.ir.versions import Versions, of_nothing


def unfilled(block: Block) -> set[Var]:
    """The phis and results that may be undefined; not even their shapes may be read."""
    found = Versions.within(block, taken=of_nothing).later(UNDEFINED)
    return {v for v in found if isinstance(v, Var)}
