"""Compare values of two blocks: do the same operations compute them from the same values?"""

from __future__ import annotations

from collections.abc import Mapping

from calque.transpiler.ir.core import Apply, Atom, Block, Var


def made_in(block: Block, value: object) -> Apply | None:
    """The operation that makes a value in a block; None if there is none."""
    found = next((s for s in block.statements if value in s.outs), None)
    return found if isinstance(found, Apply) else None


def are_alike(
    one: Atom, two: Atom, first: Block, second: Block, same: Mapping[Var, Var] | None = None
) -> bool:
    """True if ``one`` is computed in ``first`` as ``two`` is in ``second``.

    ``same`` gives the values of the first block for those of the second: its loop's counter.
    """
    if one is two or (isinstance(two, Var) and (same or {}).get(two) is one):
        return True
    made, other = made_in(first, one), made_in(second, two)
    if made is None or other is None:
        return not isinstance(one, Var) and type(one) is type(two) and one == two
    if made.primitive is not other.primitive or made.params != other.params:
        return False
    if made.out.type.dtype != other.out.type.dtype or len(made.args) != len(other.args):
        return False
    pairs = zip(made.args, other.args, strict=True)
    return all(are_alike(a, b, first, second, same) for a, b in pairs)
