"""Verdicts on loops: the reasons why a loop of the user's is parallel or not, and their texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from calque.transpiler.errors import Origin

PARALLEL = "parallel"
WITHIN = "within a parallel loop"  # it could be parallel, within an iteration of one that is
REDUCTION = "reduction"
SCAN = "scan"  # each iteration adds to the sum of those before, and reads it
CARRIED = "carried dependence"
MAY_ALIAS = "may alias"  # two iterations may touch one element: the index does not exclude it
MAY_RAISE = "may raise"
LITTLE = "too little work"
OTHER = "other"

_LONG = 32  # characters of a statement that a comment quotes
_ASSIGNED = re.compile(r"[^=<>!]*?(?<![=<>!])[-+*/]?=(?!=)")


@dataclass(frozen=True)
class Verdict:
    """A decision on a loop and its reason; ``words`` refers to the statements as {0}, {1}."""

    kind: str
    words: str
    statements: tuple[Origin | None, ...] = ()
    distance: int | None = None  # in iterations, of a dependence between the two statements

    @property
    def parallel(self) -> bool:
        """True if the iterations may run at the same time."""
        return self.kind in (PARALLEL, WITHIN)

    def comment(self, counter: str) -> str:
        """The comment above the loop in generated code, which quotes the statements."""
        quoted = [f"`{_short(o)}`" for o in self.statements]
        return f"{counter} {self._is()}: {self.words.format(*quoted)}"

    def lines(self, counter: str) -> list[str]:
        """The verdict with statements named by line, followed by these lines."""
        known = {o.statement_line or o.line: _first_line(o) for o in self.statements if o}
        named = [f"line {o.statement_line or o.line}" if o else "?" for o in self.statements]
        told = f"{counter} {self._is()}: {self.words.format(*named)}"
        return [told, *(f"{line}: {text}" for line, text in sorted(known.items()))]

    def _is(self) -> str:
        said = {PARALLEL: "is parallel", WITHIN: "could be parallel"}
        return said.get(self.kind, "is not parallel")


def element_text(origin: Origin | None) -> str:
    """The text of an access in the user's code: ``u[i - 1, j]``; "an element" if there is none.

    >>> element_text(Origin("f.py", 1, 4, 1, 8, "y = x[i]", "f"))
    'x[i]'
    """
    if origin is None or origin.end_line != origin.line:
        return "an element"
    text = origin.text[origin.column : origin.end_column]
    for sign in ("+=", "-=", "*=", "/="):
        text = text.partition(f" {sign} ")[0]
    return text.replace("{", "{{").replace("}", "}}") if "[" in text else "an element"


def target_text(origin: Origin | None) -> str:
    """The text of a statement's target; "a number" for one that assigns to nothing."""
    found = _ASSIGNED.match(_first_line(origin))
    text = found.group(0).rstrip("=+-*/ ") if found else "a number"
    return text.replace("{", "{{").replace("}", "}}")


def _first_line(origin: Origin | None) -> str:
    if origin is None:
        return "?"
    return (origin.statement or origin.text).strip().split("\n")[0]


def _short(origin: Origin | None) -> str:
    """The text of a statement; of a long one only the target: ``v[i, j] = ..``."""
    text = _first_line(origin)
    found = _ASSIGNED.match(text)
    return f"{found.group(0)} .." if len(text) > _LONG and found else text
