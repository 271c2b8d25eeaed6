"""Notes on the user's lines: where each runs, and what the reverse phase keeps of it, and why.

``explain`` says the same as one text. What another report knows of a line is one more ``LineNote``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calque.runtime.call.arguments import private_copies
from calque.runtime.call.loading import Program
from calque.runtime.check.bisecting import Fault, compare_statements
from calque.runtime.saving.pass_remarks import remarked
from calque.runtime.transformed import Transformed
from calque.transpiler.diagnostics.placements import CALL, LOOP, placements
from calque.transpiler.errors import CalqueError, Origin
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.late import Late
from calque.transpiler.primitives.function_calls import program_functions

if TYPE_CHECKING:
    from calque.runtime.saving import cost_report
else:
    cost_report = Late("calque.runtime.saving.cost_report")

# the kinds of notes, the strongest first: a line is shaded by its first
WRONG, LOOPS, SAVED, RESTORED, CALLS = "wrong", "loop", "saved", "restored", "call"
# these shade nothing: passes are shown when asked for, costs as a share and for the pointed line
PASSES, COSTS = "passes", "costs"
RECOMPUTED, READ_AGAIN, KERNELS, AT_HAND, RIGHT = "recomputed", "again", "kernel", "hand", "right"
KINDS = {
    WRONG: "wrong",
    LOOPS: "Python loop",
    SAVED: "saved",
    RESTORED: "restored",
    CALLS: "NumPy call",
    RECOMPUTED: "recomputed",
    READ_AGAIN: "read again",
    KERNELS: "kernel",
    AT_HAND: "at hand",
    RIGHT: "checked",
}
_INTERNAL = re.compile("[_#~]")  # in a size whose symbol is no name
_HOW = {"saved": SAVED, "restored": RESTORED, "recomputed": RECOMPUTED, "read again": READ_AGAIN}


@dataclass(frozen=True)
class LineNote:
    """A note on one of the user's lines: its kind, and a sentence, which may be empty.

    ``share`` is that of a cost among those of all lines.
    """

    kind: str
    text: str
    origin: Origin
    share: float = 0.0


def notes_of(program: Program) -> Iterator[LineNote]:
    """The notes on a program's lines: those of placements first, for a compiled one."""
    traced = program.traced
    if traced.compiled:
        yield from _placement_notes(traced)
        yield from _thread_notes(traced)
        for found in program.fallbacks:
            if found.origin is not None:
                hint = f" Instead: {found.hint}." if found.hint else ""
                yield LineNote(LOOPS, f"{found.why}{hint}", found.origin)
    for decision in traced.function.decisions:
        if decision.value.origin is not None:
            text = f"{_named(decision.value)} is {decision.how}: {decision.why}"
            yield LineNote(_HOW.get(decision.how, READ_AGAIN), text, decision.value.origin)


def check_notes(fn: Any, args: tuple[Any, ...], seed: int = 0) -> Iterator[LineNote]:
    """The comparisons of each statement of a plain function with differences, at these values.

    Of a line with several operations it is the worst that is told.
    """
    found: dict[tuple[str, int], list[Fault]] = {}
    for fault in compare_statements(fn, private_copies(args), seed):
        if fault.origin is not None:
            found.setdefault((fault.origin.file, fault.origin.line), []).append(fault)
    for faults in found.values():
        worst = max(faults, key=lambda fault: fault.comparison.error)
        c, origin = worst.comparison, worst.origin
        assert origin is not None
        if c.verdict:
            yield LineNote(WRONG, worst.message, origin)
            continue
        forward = "" if c.forward is None else f"forward {c.forward:.6g}, "
        numbers = f"{forward}reverse {c.reverse:.6g}, differences {c.differences:.6g}"
        others = f"; {len(faults) - 1} more agree" if len(faults) > 1 else ""
        yield LineNote(RIGHT, f"{worst.operation} agrees: {numbers}{others}", origin)


def pass_notes(transformed: Transformed, args: tuple[Any, ...]) -> Iterator[LineNote]:
    """The action of each pass of kernels on a loop, or the reason why it left it as it is."""
    for remark in remarked(transformed, args, "all").remarks or ():
        if remark.loop is not None:
            yield LineNote(PASSES, remark.lines()[0], remark.loop)


def cost_notes(transformed: Transformed, args: tuple[Any, ...]) -> Iterator[LineNote]:
    """The operations of each line, and the bytes that it moves and saves, without kernels.

    There are none for a program whose costs cannot be counted.
    """
    with contextlib.suppress(CalqueError):
        for cost in cost_report.line_costs(transformed, args):
            line = cost.line
            if line.file:
                place = Origin(line.file, line.number, 0, line.number, 0, line.text, "")
                yield LineNote(COSTS, cost.text, place, cost.share)


def _placement_notes(traced: Traced) -> Iterator[LineNote]:
    for place in placements(traced.function, traced.target):
        if place.origin is None:
            continue
        if place.where == CALL:
            yield LineNote(CALLS, f"{place.what} is a call of NumPy's or SciPy's", place.origin)
        elif place.where == LOOP:
            told = (what + (f" (line {at.line})" if at else "") for what, at in place.why)
            reasons = ", ".join(told)
            because = f": no kernel has {reasons}" if reasons else ""
            yield LineNote(LOOPS, f"the loop is Python's{because}", place.origin)
        else:
            yield LineNote(KERNELS, "", place.origin)


def thread_verdicts(traced: Traced) -> Iterator[tuple[Origin, Sequence[str]]]:
    """The user's loops, and whether each runs on threads and why, if ``parallel`` asked for it."""
    function = traced.function
    if not function.kernel_options.get("explained"):
        return
    for s in (s for part in program_functions(function) for s in core.walk(part.body)):
        if isinstance(s, core.For) and s.verdict is not None and s.origin is not None:
            yield s.origin, s.verdict.lines(s.index.name or "the counter")


def _thread_notes(traced: Traced) -> Iterator[LineNote]:
    for origin, lines in thread_verdicts(traced):
        yield LineNote(KERNELS, " ".join(lines), origin)


def _named(value: Var) -> str:
    """``q, float64 (n - 1,),``; by the user's expression where it has no name."""
    return f"{value.name or _expression(value.origin)}, {type_text(value.type)},"


def _expression(origin: Origin | None) -> str:
    """The user's expression at a place, if it stands on one line."""
    if origin is None or origin.line != origin.end_line:
        return "a value"
    return origin.text[origin.column : origin.end_column].strip() or "a value"


def type_text(kind: ArrayType) -> str:
    """A type in words: a dtype and a shape; without the shape if sizes have no names.

    >>> import numpy as np
    >>> type_text(ArrayType(np.dtype(np.float64), (3,)))
    'float64 (3,)'
    """
    if not kind.dims:
        return str(kind)
    dims = list(map(str, kind.dims))
    dims = ["..." if _INTERNAL.search(d) else d for d in dims]
    shape = f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
    return f"{kind.dtype.name} {shape}"
