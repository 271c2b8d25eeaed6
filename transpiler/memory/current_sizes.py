"""Read sizes of arrays from their current versions, as stores do not change sizes.

Before, in Core::

    saved.1 = for t in range(0, steps) carrying saved.2 = saved:
        n = size of axis(saved, axis=0)

After: ``size of axis(saved.2, axis=0)``. A read of the version before the loop would force the
stores of the loop to go into a copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Atom, Block, For, Function, Var, While
from calque.transpiler.ir.effects import is_size, is_store


def read_current_sizes(function: Function) -> None:
    """Let reads of sizes within and after loops and stores ask the newest version, in place.

    Arguments are asked as before: their sizes are known before their arrays are copied.
    """
    _visit(function.body, {}, {*function.params})


def _visit(block: Block, known: dict[Var, Var], params: set[Var]) -> None:
    """Follow the statements of a block; ``known`` has the next version of each array."""
    newest = dict(known)

    def note(pairs: Iterable[tuple[Atom, Var]]) -> None:
        for old, new in pairs:
            if isinstance(old, Var) and old not in params and old.type.dims == new.type.dims:
                newest[old] = new

    for s in block.statements:
        if is_size(s):
            array = s.args[0]
            while isinstance(array, Var) and array in newest:
                array = newest[array]
            s.args = (array, *s.args[1:])
        if isinstance(s, (For, While)):
            before = dict(newest)
            note(zip(s.inits, s.phis))
            inside, newest = newest, before
            for inner in core.blocks_of(s):
                _visit(inner, inside, params)
            note(zip(s.inits, s.outs))
            continue
        for inner in core.blocks_of(s):
            _visit(inner, newest, params)
        if is_store(s):
            note([(s.args[0], s.out)])
