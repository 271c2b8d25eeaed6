"""Replace sizes of arrays that the program allocates by the sizes passed to the allocation.

Before, on a GPU, where the launcher runs the loop over time::

    saved = np.empty((steps, n))
    for t in range(steps):
        for i in range(saved.shape[1]):
            saved[t, i] = x[i]

After: ``range(n)``. A read of the array's version before the loop would force the stores to go into
a copy.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, Function, Var
from calque.transpiler.primitives.creation import empty, full, ones, space, zeros
from calque.transpiler.primitives.shapes import size_of_axis

_MADE = (empty, full, ones, space, zeros)


def name_sizes(function: Function) -> None:
    """Replace the sizes of allocated arrays by the arguments of their allocations, in place."""
    made = {
        s.out: s
        for s in core.walk(function.body)
        if isinstance(s, Apply) and s.primitive in _MADE and s.out.type.ndim
    }
    known: dict[Var, Any] = {}

    def visit(block: Block) -> None:
        for s in block.statements:
            for inner in core.blocks_of(s):
                visit(inner)
            if isinstance(s, Apply) and s.primitive is size_of_axis and s.args[0] in made:
                new = made[s.args[0]]
                sizes = new.args[1:] if new.primitive is full else new.args
                size = sizes[s.params["axis"]]
                if not isinstance(size, Var) or size.type == s.out.type:
                    known[s.out] = size
        block.statements[:] = [s for s in block.statements if not known.keys() & {*s.outs}]

    visit(function.body)
    core.substitute(function.body, {v: _last(a, known) for v, a in known.items()})


def _last(atom: Any, known: dict[Var, Any]) -> Any:
    while isinstance(atom, Var) and atom in known:
        atom = known[atom]
    return atom
