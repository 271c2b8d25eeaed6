"""Queries of GPU passes about a loop: its reductions, scans, trip count and memory order."""

from __future__ import annotations

from dataclasses import dataclass

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, Slot, Statement, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.ir.verdicts import REDUCTION, SCAN
from calque.transpiler.loops.carried_dependences import made_by, of_number
from calque.transpiler.primitives.elementwise import add, multiply, subtract
from calque.transpiler.primitives.extrema import (
    greatest,
    least,
    maximum,
    minimum,
    rescaled_sum,
)
from calque.transpiler.primitives.logic import bitwise_and, bitwise_or
from calque.transpiler.primitives.scalars import max_, min_

# how a reduction combines the values of several iterations
COMBINED = {add: "sum", subtract: "sum", multiply: "product", maximum: "max", minimum: "min"}
COMBINED |= {max_: "max", min_: "min"}
_CHOSEN = {least: "least", greatest: "greatest"}
_OF_TRUTHS = {bitwise_or: "max", bitwise_and: "min"}


@dataclass(frozen=True)
class LoopReduction:
    """A reduction of a loop: the position of its phi, and how it combines: "sum", "max".

    ``relative_to``: of a "rescaled" sum, the position of the maximum that it is relative to.
    """

    position: int
    how: str
    relative_to: int | None = None


def reductions(s: For) -> list[LoopReduction]:
    """The reductions among the scalars that a loop carries."""
    found = [reduction_at(s, k) for k, phi in enumerate(s.phis) if not phi.type.ndim]
    return [r for r in found if r is not None]


def reduction_at(s: For, position: int) -> LoopReduction | None:
    """The reduction of the phi at ``position``; None if threads cannot combine it."""
    for total, largest in online_sums(s):
        if position == total:
            return LoopReduction(total, "rescaled", largest)
        if position == largest:
            return LoopReduction(largest, "max")
    made = made_by(s.body, s.body.results[position])
    chosen = isinstance(made, Apply) and made.primitive in _CHOSEN
    if chosen and isinstance(made, Apply) and made.args[0] is s.phis[position]:
        alone = count_uses(s.body, made.args[0]) == count_uses(s.body, made.out) == 1
        return LoopReduction(position, _CHOSEN[made.primitive]) if alone else None
    if of_number(s, position).kind != REDUCTION:
        return None
    if not isinstance(made, Apply):
        return None
    how = COMBINED.get(made.primitive)
    if how is None and made.out.type.dtype.kind == "b":
        how = _OF_TRUTHS.get(made.primitive)
    return LoopReduction(position, how) if how else None


def online_sums(s: For) -> list[tuple[int, int]]:
    """The positions of each sum of exponentials in a loop, and of the maximum it is relative to."""
    found = []
    for k, (phi, result) in enumerate(zip(s.phis, s.body.results, strict=True)):
        made = next((t for t in s.body.statements if result in t.outs), None)
        if isinstance(made, Apply) and made.primitive is rescaled_sum and made.args[0] is phi:
            found.append((k, next(j for j, p in enumerate(s.phis) if p is made.args[1])))
    return found


@dataclass(frozen=True)
class Scanned:
    """A running sum that each iteration continues and reads: its phi, operation and term."""

    position: int
    how: str
    made: Apply
    term: Atom
    minus: bool = False


def is_scan(s: Statement) -> bool:
    """True if the loop's verdict is that it is a scan, which threads may share."""
    return isinstance(s, For) and s.verdict is not None and s.verdict.kind == SCAN


def scans(s: For) -> list[Scanned]:
    """The running sums of a loop, in the order of its statements."""
    found = [scan_at(s, k) for k, phi in enumerate(s.phis) if not phi.type.ndim]
    known = [r for r in found if r is not None]
    return sorted(known, key=lambda r: s.body.statements.index(r.made))


def scan_at(s: For, position: int) -> Scanned | None:
    """The running sum at the phi ``position``; None if its iterations do more than add and read."""
    phi, result = s.phis[position], s.body.results[position]
    made = next((t for t in s.body.statements if result in t.outs), None)
    if not isinstance(made, Apply) or made.primitive not in COMBINED or made.out.type != phi.type:
        return None
    first, second = made.args
    minus = made.primitive is subtract
    term = second if first is phi else first
    alone = phi in made.args and term is not phi and (first is phi or not minus)
    if not alone or count_uses(s.body, phi) != 1 or count_uses(s.body, result) < 2:
        return None
    if phi.type.dtype.kind not in "fi" or phi.type.dtype.itemsize < 4:
        return None
    return Scanned(position, COMBINED[made.primitive], made, term, minus)


def counts(s: For) -> int | None:
    """The trip count of a loop with constant bounds; otherwise None."""
    ends = (s.start, s.stop, s.step)
    return None if any(isinstance(a, Var) for a in ends) else len(range(*ends))


def along_memory(inner: list[For], outer: For) -> bool:
    """True if the inner loops index the last axes at least as often as the outer one does."""
    along = across = 0
    for loop in inner:
        for s in core.walk(loop.body):
            if is_access(s):
                last = s.params["index"][-1:] or [None]
                moving = (
                    s.args[s.primitive.first_index + last[0].position]
                    if isinstance(last[0], Slot)
                    else None
                )
                along += moves_with(moving, loop.index, loop.body)
                across += moves_with(moving, outer.index, loop.body)
    return along >= across and along > 0


def moves_with(atom: object, counter: Var, block: Block) -> bool:
    """True if an index is the counter, or computed from it by additions and subtractions."""
    if atom is counter:
        return True
    made = next((s for s in core.walk(block) if atom in s.outs), None)
    return (
        isinstance(made, Apply)
        and made.primitive.arithmetic in ("add", "subtract")
        and any(moves_with(a, counter, block) for a in made.args if isinstance(a, Var))
    )
