"""Skip filling arrays, every element of which is then overwritten.

Before, on a GPU, where filling with zeros is a launch that writes all of the memory::

    out = np.zeros(n)
    for i in range(n):
        out[i] = x[i] * y[i]

After: ``out = np.empty(n)``. Each iteration must store an element of its own, in both arms of a
branch; together they must store the whole array, and no element may be read before.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, Function, Statement
from calque.transpiler.ir.uses import element_readers
from calque.transpiler.loops.cell_nests import FILLED, CellNest, cell_nest, surely_stored
from calque.transpiler.primitives.creation import empty, empty_like, full, ones_like, zeros_like


def skip_initialization(function: Function, builder: Builder) -> None:
    """Allocate fully overwritten arrays by ``np.empty``, in place."""
    with builder.active():
        for block in _blocks(function.body):
            for s in list(block.statements):
                if isinstance(s, For):
                    _of_loop(s, block, builder)


def _blocks(block: Block) -> list[Block]:
    inner = [b for s in block.statements for b in core.blocks_of(s)]
    return [block, *(b for i in inner for b in _blocks(i))]


def _of_loop(loop: For, block: Block, builder: Builder) -> None:
    made = {o: s for s in block.statements for o in s.outs}
    filled = [k for k, i in enumerate(loop.inits) if _is_filled(made.get(i))]
    nest = cell_nest(loop, builder, shared=False) if filled else None
    if not isinstance(nest, CellNest):
        return
    for k in filled:
        s = made[loop.inits[k]]
        assert isinstance(s, Apply)
        if element_readers(block, s.out) == [loop] and surely_stored(nest, k, builder):
            _leave_empty(s)


def _is_filled(s: Statement | None) -> bool:
    return isinstance(s, Apply) and s.primitive in FILLED and bool(s.out.type.ndim)


def _leave_empty(s: Apply) -> None:
    """Let a statement allocate its array without filling it."""
    like = s.primitive in (zeros_like, ones_like)
    s.args = s.args[1:] if s.primitive is full else s.args
    s.primitive, s.params = empty_like if like else empty, {"dtype": s.out.type.dtype}
