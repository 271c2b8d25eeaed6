"""Extrema that a loop chooses by a comparison, as reductions that threads can share.

Before::

    for i in range(n):
        if x[i] < best:
            best = x[i]

After: ``best = least(best, x[i])``, in which NaN never wins, as in Python's ``min(best, x[i])``. Of
integers it is ``np.minimum``. ``min(x[i], best)`` of floats stays: there NaN replaces what was best
before, so that the order of iterations matters.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var
from calque.transpiler.ir.effects import has_effects
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.loops.alike_values import are_alike
from calque.transpiler.primitives.elementwise import where
from calque.transpiler.primitives.extrema import greatest, least, maximum, minimum
from calque.transpiler.primitives.logic import greater, greater_equal, less, less_equal

_BELOW, _ABOVE = (less, less_equal), (greater, greater_equal)


def write_as_extrema(block: Block) -> None:
    """Write the choices of loops that are extrema as such, in place."""
    for s in block.statements:
        for inner in core.blocks_of(s):
            write_as_extrema(inner)
        if isinstance(s, For):
            for phi, result in zip(s.phis, s.body.results, strict=True):
                _rewrite(s.body, phi, result)


def _rewrite(body: Block, phi: Var, result: Atom) -> None:
    chosen = next((s for s in body.statements if result in s.outs), None)
    if phi.type.ndim or not isinstance(result, Var) or chosen is None:
        return
    if count_uses(body, phi) != 2 or count_uses(body, result) != 1:
        return
    arms = _arms(chosen)
    made = {o: s for s in body.statements for o in s.outs}
    test = made.get(arms[0]) if arms is not None else None
    if arms is None or not isinstance(test, Apply) or count_uses(body, arms[0]) != 1:
        return
    found = _extremum_of(test, phi, arms[1], arms[2], body)
    if found is None:
        return
    term, low = found
    if not isinstance(term, Var) or term.type != phi.type or result.type != phi.type:
        return
    whole = phi.type.dtype.kind in "iu"
    primitive = (minimum if low else maximum) if whole else least if low else greatest
    at = body.statements.index(chosen)
    body.statements[at] = Apply((result,), primitive, (phi, term), {}, chosen.origin)
    body.statements.remove(test)


def _arms(chosen: Statement) -> tuple[Var, tuple[Block, Atom], tuple[Block, Atom]] | None:
    """The test of a choice between two values, and both with the blocks that only compute them."""
    if isinstance(chosen, If) and len(chosen.outs) == 1 and isinstance(chosen.test, Var):
        blocks = chosen.then, chosen.orelse
        within = [s for b in blocks for s in b.statements]
        if all(isinstance(s, Apply) and not has_effects(s) for s in within):
            one, other = ((b, b.results[0]) for b in blocks)
            return chosen.test, one, other
    if isinstance(chosen, Apply) and chosen.primitive is where and isinstance(chosen.args[0], Var):
        nothing = Block()
        return chosen.args[0], (nothing, chosen.args[1]), (nothing, chosen.args[2])
    return None


def _extremum_of(
    test: Apply, phi: Var, then: tuple[Block, Atom], orelse: tuple[Block, Atom], body: Block
) -> tuple[Atom, bool] | None:
    """The term of an extremum, and True for a minimum; None if the choice is no extremum."""
    if test.primitive not in (*_BELOW, *_ABOVE) or phi not in test.args:
        return None
    term = test.args[1] if test.args[0] is phi else test.args[0]
    below = (test.primitive in _BELOW) == (test.args[1] is phi)  # the test is "term is below"
    taken = _is(term, then, body) and orelse[1] is phi
    kept = _is(term, orelse, body) and then[1] is phi
    if taken:
        return term, below
    if kept and phi.type.dtype.kind in "iub":  # NaN would be taken
        return term, not below
    return None


def _is(term: Atom, arm: tuple[Block, Atom], body: Block) -> bool:
    """True if an arm gives the term of the test, also if it reads the element again."""
    block, value = arm
    return are_alike(term, value, body, block)
