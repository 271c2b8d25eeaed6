"""Find virtual arrays that must be stored, as they are compared with their own extremum.

LLVM may fuse a product and a sum in one loop and not in another, so that two loops which compute
the same expression may differ in the last bit. Mostly that does not matter; here no element would
equal the maximum::

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
    """The virtual arrays that several nests (``often``) would compute and an extremum reads.

    An array counts only if a later statement reads it together with a result of the extremum.
    """
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
    """The statements of the block that depend on the results of ``s``."""
    made: set[Atom] = set(s.outs)
    found = []
    for t in block.statements[block.statements.index(s) + 1 :]:
        read = [*core.operands(t), *(v for b in core.blocks_of(t) for v in core.free_vars(b))]
        if not made.isdisjoint(read):
            made.update(t.outs)
            found.append(t)
    return found


def _computed(a: Atom, virtual: Mapping[Var, Apply], found: set[Var]) -> None:
    """Add to ``found`` all virtual arrays that an array is computed from, itself included."""
    if isinstance(a, Var) and a in virtual and a not in found:
        found.add(a)
        for b in virtual[a].args:
            _computed(b, virtual, found)


def _nearest(a: Atom, virtual: Mapping[Var, Apply], wanted: set[Var]) -> set[Var]:
    """The first wanted arrays on the paths of operands back from ``a``.

    A path ends at an array that is the result of fewer than two rounding operations.
    """
    if not isinstance(a, Var) or a not in virtual or operations(a, virtual) < 2:
        return set()
    if a in wanted:
        return {a}
    return set().union(*(_nearest(b, virtual, wanted) for b in virtual[a].args))


def operations(a: Atom, definitions: Mapping[Var, core.Statement]) -> int:
    """The number of cheap rounding operations that compute an element; 2 means two or more."""
    s = definitions.get(a) if isinstance(a, Var) and a.type.dtype.kind in "fc" else None
    if not isinstance(s, Apply) or not s.primitive.cheap:
        return 0
    own = s.primitive.kind == "elementwise" and s.primitive not in _EXACT
    if own and s.primitive.scalar and "{" not in s.primitive.scalar:
        return 2  # a function
    return min(2, own + sum(operations(b, definitions) for b in s.args))
