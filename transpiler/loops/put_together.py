"""What all rounds of a loop go into, how many there are, and along what: asked for grids."""

from __future__ import annotations

from dataclasses import dataclass

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, Slot, Statement, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.uses import count_uses
from calque.transpiler.ir.verdicts import REDUCTION, SCAN
from calque.transpiler.loops.carried_dependences import made_by, of_number
from calque.transpiler.primitives.elementwise import add, multiply, subtract
from calque.transpiler.primitives.extrema import maximum, minimum
from calque.transpiler.primitives.logic import bitwise_and, bitwise_or
from calque.transpiler.primitives.scalars import max_, min_

# how the numbers of several rounds become one
COMBINED = {add: "sum", subtract: "sum", multiply: "product", maximum: "max", minimum: "min"}
COMBINED |= {max_: "max", min_: "min"}
_OF_TRUTHS = {bitwise_or: "max", bitwise_and: "min"}


@dataclass(frozen=True)
class PutTogether:
    """A number that all rounds of a loop go into: the k-th phi, and how: "sum", "max"."""

    position: int
    how: str


def reductions(s: For) -> list[PutTogether]:
    """The numbers that a loop which threads share puts together."""
    found = [reduction_at(s, k) for k, phi in enumerate(s.phis) if not phi.type.ndim]
    return [r for r in found if r is not None]


def reduction_at(s: For, position: int) -> PutTogether | None:
    """What becomes of the k-th phi, if threads can put it together."""
    if of_number(s, position).kind != REDUCTION:
        return None
    made = made_by(s.body, s.body.results[position])
    if not isinstance(made, Apply):
        return None
    how = COMBINED.get(made.primitive)
    if how is None and made.out.type.dtype.kind == "b":
        how = _OF_TRUTHS.get(made.primitive)
    return PutTogether(position, how) if how else None


@dataclass(frozen=True)
class Scanned:
    """A number that each round continues and reads: the k-th phi, how, where and with what."""

    position: int
    how: str
    made: Apply
    term: Atom
    minus: bool = False


def is_scan(s: Statement) -> bool:
    """Whether threads may share the rounds of a loop that continue sums of those before."""
    return isinstance(s, For) and s.verdict is not None and s.verdict.kind == SCAN


def scans(s: For) -> list[Scanned]:
    """The numbers that a loop's rounds continue, in the order in which a round does."""
    found = [scan_at(s, k) for k, phi in enumerate(s.phis) if not phi.type.ndim]
    known = [r for r in found if r is not None]
    return sorted(known, key=lambda r: s.body.statements.index(r.made))


def scan_at(s: For, position: int) -> Scanned | None:
    """What the k-th phi is, if a round only adds to it and reads what that gives."""
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
    """How many rounds a loop has, where it is known."""
    ends = (s.start, s.stop, s.step)
    return None if any(isinstance(a, Var) for a in ends) else len(range(*ends))


def along_memory(inner: list[For], outer: For) -> bool:
    """Whether the inner loops, rather than the outer one, go along rows of memory."""
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
    """Whether an index is a counter, or a number more or less."""
    if atom is counter:
        return True
    made = next((s for s in core.walk(block) if atom in s.outs), None)
    return (
        isinstance(made, Apply)
        and made.primitive.arithmetic in ("add", "subtract")
        and any(moves_with(a, counter, block) for a in made.args if isinstance(a, Var))
    )
