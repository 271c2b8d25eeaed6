"""Loop interchange: the loop that goes along rows of memory becomes the inner one.

A column of an array is spread over memory. Where no iteration of the outer loop touches an element
that another writes, each of its inner loops may become the outer one (Allen and Kennedy, Optimizing
Compilers for Modern Architectures, 2001, sections 5.2 and 8.3)::

    for j in range(n):                        for i in range(m):
        for i in range(m):                        for j in range(n):
            R[k, j] += Q[i, k] * A[i, j]              R[k, j] += Q[i, k] * A[i, j]
        for i in range(m):              ->    for i in range(m):
            A[i, j] -= Q[i, k] * R[k, j]          for j in range(n):
                                                      A[i, j] -= Q[i, k] * R[k, j]

Outermost loops are left alone, since they may run on threads.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Block, For, Function, Statement, While
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.loops.accesses import ElementIndex, element_index
from calque.transpiler.loops.nest import build
from calque.transpiler.loops.schedule.permutation import Divides, Permutation
from calque.transpiler.loops.schedule.scalar_expansion import Expansion


def interchange(function: Function, builder: Builder, divides: Divides) -> None:
    """Interchange the loops of a function where that pays, in place.

    ``divides``: whether a statement may raise ZeroDivisionError, which a zero-trip loop must not.
    """
    with builder.active():
        _within(function.body, builder, divides, False)


def _within(block: Block, builder: Builder, divides: Divides, looping: bool) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _within(inner, builder, divides, looping or isinstance(s, (For, While)))
        turned = _turned(s, builder, divides) if looping and isinstance(s, For) else None
        label_rest(turned or (), s.phase)
        made += [s] if turned is None else turned
    block.statements[:] = made


def _turned(s: For, builder: Builder, divides: Divides) -> list[Statement] | None:
    """The interchanged loops that replace ``s``, maybe after splitting its sums off; else None."""
    turned = _interchanged(s, builder, divides)
    if isinstance(turned, Refused):
        split = Expansion(s, builder).split()
        if split is None or isinstance(split, Refused):
            missed(builder, "interchange", s, split or turned)
            return None
        before, summing, rest = split
        turned = _interchanged(summing, builder, divides)
        if isinstance(turned, Refused):
            missed(builder, "interchange", s, turned)
            return None
        turned = [*before, *turned, rest]
    applied(builder, "interchange", s)
    return turned


def _interchanged(s: For, builder: Builder, divides: Divides) -> list[Statement] | Refused:
    nest = build(s, builder)
    if isinstance(nest, Refused):
        return nest
    permutation = Permutation(nest, divides)
    refused = permutation.unfit() or _not_worth(s, builder) or permutation.dependent()
    return refused or [*permutation.written()]


_ALONG, _ACROSS = 1, 4  # the cost of an element


def _not_worth(loop: For, builder: Builder) -> Refused | None:
    """The reason if the accesses do not cost less after interchange than now."""
    gain = 0
    for s in loop.body.statements:
        for t in s.body.statements if isinstance(s, For) else [s]:
            if is_access(t):
                place, each = element_index(t, builder), 2 if t.primitive.adds else 1
                before = _cost(place, s, builder) if isinstance(s, For) else 0
                gain += each * (before - _cost(place, loop, builder))
    if gain > 0:
        return None
    return Refused("its inner loops go along memory at least as well as it would")


def _cost(place: ElementIndex, inner: For, builder: Builder) -> int:
    """The cost of an access with ``inner`` innermost: 0 if invariant, low if contiguous."""
    own = dim_symbols(builder.dim_values[inner.index])
    moving = [axis for axis, d in enumerate(place) if d is None or dim_symbols(d) & own]
    return 0 if not moving else _ALONG if moving == [len(place) - 1] else _ACROSS
