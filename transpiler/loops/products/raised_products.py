"""The pass that writes contractions in loops as products of matrices.

A nest becomes products as a whole (``product_nests``) where each of its statements can be written
for all iterations at once. From other loops a product is hoisted if its operands are known before
the loop (``hoisted_products``), or sunk if its result is needed after the loop only
(``sunk_products``).
"""

from __future__ import annotations

from collections.abc import Sequence

from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import prune_block
from calque.transpiler.ir.builder import Builder, atom
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var
from calque.transpiler.ir.path_conditions import blocks_given
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.loops.products.contractions import PRODUCTS
from calque.transpiler.loops.products.hoisted_products import hoist_products
from calque.transpiler.loops.products.product_nests import NO_PRODUCT, ProductNest
from calque.transpiler.loops.products.sunk_products import sink_products
from calque.transpiler.primitives.elementwise import multiply
from calque.transpiler.primitives.products import outer

NAME = "raise_products"
WHOLE = "whole nest"


def raise_products(function: Function, builder: Builder, sizes_known: bool = True) -> None:
    """Write contractions in the loops of a function as products, in place.

    Before sizes are known, as in a program that is to be differentiated, this is done for dot
    products of a vector and the rows of a matrix only, which are one product of any size.
    """
    with builder.active():
        _raise_nests(function.body, builder, sizes_known)
    if sizes_known:
        hoist_products(function, builder)
        sink_products(function, builder)


def _raise_nests(
    body: Block, builder: Builder, sizes_known: bool, root: Block | None = None
) -> None:
    """Replace nests of loops by products, in place, also in the blocks within a block."""
    root = root or body
    made: list[Statement] = []
    for s in body.statements:
        loops = [t for t in core.walk(Block([s])) if isinstance(t, For)]
        if not any(_may_multiply(loop, sizes_known) for loop in loops):
            made.append(s)
            if isinstance(s, For):
                missed(builder, NAME, s, NO_PRODUCT, WHOLE)
            continue
        new = _raised(s, builder, sizes_known, root) if isinstance(s, For) else None
        if new is None:
            for inner, facts in blocks_given(s, builder):
                with builder.dims.given(facts):
                    _raise_nests(inner, builder, sizes_known, root)
            new = [s]
        made += new
    body.statements[:] = made


def _raised(loop: For, builder: Builder, assume: bool, root: Block) -> list[Statement] | None:
    """The statements that replace a loop; None if it stays."""
    prune_block(loop.body)
    assumed = dict(builder.dims.assumptions)
    with builder.block() as block:
        results = ProductNest(builder, loop, assume).results()
    if isinstance(results, Refused):
        builder.dims.assumptions = assumed
        missed(builder, NAME, loop, results, WHOLE)
        return None
    applied(builder, NAME, loop, WHOLE)
    label(block.statements, loop.phase)
    _define(loop, [*map(atom, results)], block, builder, root)
    return [*block.statements, *_counters(loop)]


def _define(
    loop: For, results: Sequence[Atom], block: Block, builder: Builder, root: Block
) -> None:
    """Let the arrays that ``block`` computes be those of a loop, which it replaces."""
    arrays = (out for out in loop.outs if out.type.ndim)
    for out, result in zip(arrays, results, strict=True):
        made = builder.definitions.get(result) if isinstance(result, Var) else None
        if not isinstance(made, Apply) or len(made.outs) > 1:
            core.substitute(root, {out: result})
        elif made in block.statements and made.out not in loop.outs:
            core.substitute(block, {made.out: out})
            if made.out not in builder.contiguous:
                builder.contiguous.discard(out)
            made.outs = (out,)
            builder.definitions[out] = made
        else:
            core.substitute(root, {out: made.out})  # an array that is several results


def _counters(loop: For) -> list[For]:
    """The loop that is left where it carries counters, which statements after it read."""
    kept = [k for k, phi in enumerate(loop.phis) if not phi.type.ndim]
    loop.outs, loop.phis, loop.inits = (
        tuple(row[k] for k in kept) for row in (loop.outs, loop.phis, loop.inits)
    )
    loop.body.results[:] = [loop.body.results[k] for k in kept]
    loop.body.statements.clear()
    return [loop] if kept else []


def _may_multiply(loop: For, scalars: bool) -> bool:
    """True if a nest has a product of arrays, or is deep enough for one of scalars."""
    found = [s for s in core.walk(Block([loop])) if isinstance(s, Apply)]
    if any(s.primitive in (*PRODUCTS, outer) for s in found):
        return True
    ranks = [s.out.type.ndim for s in found if s.primitive is multiply]
    return scalars and bool(ranks) and _depth(loop) + max(ranks) >= 3


def _depth(loop: For) -> int:
    inner = [_depth(s) for s in loop.body.statements if isinstance(s, For)]
    return 1 + max(inner, default=0)
