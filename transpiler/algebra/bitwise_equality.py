"""Arrays that must be one and the same for the one who reads them and for their extremum.

LLVM may join a product and a sum, and does so in one loop and not in another, so that what two
loops compute alike may differ in its last bit. Mostly that does not matter; here, none is found::

    e = a * b + c * c * d
    best = e == np.max(e)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Var
from calque.transpiler.primitives.elementwise import (
    absolute,
    fabs,
    negative,
    of_number,
    positive,
    where,
)
from calque.transpiler.primitives.reductions import argmax, argmin, max_, min_

EXTREMA = (max_, min_, argmax, argmin)
_EXACT = (absolute, fabs, of_number, negative, positive, where)


def read_with_extremum(
    block: Block, virtual: Mapping[Var, Apply], often: Collection[Var]
) -> set[Var]:
    """The virtual arrays that several nests compute, of which an extremum is taken."""
    found: set[Var] = set()
    for s in block.statements:
        if isinstance(s, Apply) and s.primitive in EXTREMA:
            read: set[Var] = set()
            for user in _after(s, block):
                for a in core.operands(user):
                    _computed(a, virtual, read)
            found |= _nearest(s.args[0], virtual, read & set(often))
    return found


def _after(s: Apply, block: Block) -> list[core.Statement]:
    """The statements that what ``s`` gives goes into."""
    made: set[Atom] = set(s.outs)
    found = []
    for t in block.statements[block.statements.index(s) + 1 :]:
        read = [*core.operands(t), *(v for b in core.blocks_of(t) for v in core.free_vars(b))]
        if not made.isdisjoint(read):
            made.update(t.outs)
            found.append(t)
    return found


def _computed(a: Atom, virtual: Mapping[Var, Apply], found: set[Var]) -> None:
    """Add the virtual arrays that elements of an array are computed from."""
    if isinstance(a, Var) and a in virtual and a not in found:
        found.add(a)
        for b in virtual[a].args:
            _computed(b, virtual, found)


def _nearest(a: Atom, virtual: Mapping[Var, Apply], wanted: set[Var]) -> set[Var]:
    """On each way back from an array the first that is wanted, where it may differ at all."""
    if not isinstance(a, Var) or a not in virtual or operations(a, virtual) < 2:
        return set()
    if a in wanted:
        return {a}
    return set().union(*(_nearest(b, virtual, wanted) for b in virtual[a].args))


def operations(a: Atom, definitions: Mapping[Var, core.Statement]) -> int:
    """How many cheap operations that round an element is the result of; 2 means two or more."""
    s = definitions.get(a) if isinstance(a, Var) and a.type.dtype.kind in "fc" else None
    if not isinstance(s, Apply) or not s.primitive.cheap:
        return 0
    own = s.primitive.kind == "elementwise" and s.primitive not in _EXACT
    if own and s.primitive.scalar and "{" not in s.primitive.scalar:
        return 2  # a function
    return min(2, own + sum(operations(b, definitions) for b in s.args))
