"""Remarks: for each loop that a pass considered, what it did, or the reason why it did nothing.

A legality test returns ``Refused`` in place of an answer, with a reason in the user's terms and the
statements that it is about. A pass hands it to ``missed``, with its own name, and ``calque explain
--why`` prints it, if the pass is declared with ``explains``.
Remarks are kept only if someone asked for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calque.transpiler.errors import Origin
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import For, While
from calque.transpiler.ir.verdicts import OTHER


@dataclass(frozen=True)
class Refused:
    """The reason why a schedule does not apply; ``words`` refers to the statements as {0}, {1}."""

    words: str
    statements: tuple[Origin | None, ...] = ()
    kind: str = OTHER  # of a verdict that it would be


@dataclass(frozen=True)
class Remark:
    """The action of a pass on a loop of the user's, or the reason why there was none."""

    policy: str  # the name of the pass
    loop: Origin | None
    counter: str
    refused: Refused | None  # None: the pass applied its schedule
    schedule: str = ""  # of a pass that considers several

    def lines(self) -> list[str]:
        """The remark in words, followed by the user's lines that it names.

        >>> origin = Origin("f.py", 3, 8, 3, 12, "        y[k[i]] += x[i]", "f")
        >>> reason = Refused("{0} has an index that is not affine in the counters", (origin,))
        >>> print(*Remark("interchange", None, "for i", reason).lines(), sep="\\n")
        interchange: for i stays: line 3 has an index that is not affine in the counters
        3: y[k[i]] += x[i]
        """
        place = f"line {self.loop.line}, " if self.loop else ""
        policy = f"{self.policy} ({self.schedule})" if self.schedule else self.policy
        if self.refused is None:
            return [f"{policy}: {place}{self.counter} is rewritten", *_quoted([self.loop])]
        statements = self.refused.statements
        named = [f"line {o.statement_line or o.line}" if o else "a statement" for o in statements]
        told = f"{policy}: {place}{self.counter} stays: {self.refused.words.format(*named)}"
        return [told, *_quoted([*statements, self.loop])]


def _quoted(origins: Sequence[Origin | None]) -> list[str]:
    """The user's lines of some statements, in order."""
    known = {o.statement_line or o.line: (o.statement or o.text).strip() for o in origins if o}
    return [f"{line}: {text.splitlines()[0]}" for line, text in sorted(known.items())]


def missed(
    builder: Builder, policy: str, loop: For | While, refused: Refused, schedule: str = ""
) -> None:
    """Note that a pass leaves a loop as it is, and why."""
    _note(builder, policy, loop, refused, schedule)


def applied(builder: Builder, policy: str, loop: For | While, schedule: str = "") -> None:
    """Note that a pass rewrites a loop."""
    _note(builder, policy, loop, None, schedule)


def _note(
    builder: Builder, policy: str, loop: For | While, refused: Refused | None, schedule: str
) -> None:
    if builder.remarks is not None:
        counter = "while"
        if isinstance(loop, For):
            over = " over elements" if loop.scheduled else ""
            counter = f"for {loop.index.name or '_'}{over}"
        builder.remarks.setdefault(Remark(policy, loop.origin, counter, refused, schedule))


def remark_lines(builder: Builder, policy: str | None = None) -> list[str]:
    """All remarks, or those of one pass, as text: each loop, with the lines that it is about."""
    found = [r for r in builder.remarks or () if policy in (None, r.policy)]
    return [line for r in sorted(found, key=_order) for line in _indented(r.lines())]


def _order(remark: Remark) -> tuple[int, str]:
    return remark.loop.line if remark.loop else 0, remark.policy


def _indented(lines: list[str]) -> list[str]:
    return [lines[0], *(f"    {line}" for line in lines[1:])]
