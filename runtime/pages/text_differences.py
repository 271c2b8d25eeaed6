"""The difference between a committed text and what calque writes today, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calque.transpiler.codegen.text.recording import WrittenText

ADDED, REMOVED, SAME = "+", "-", " "


@dataclass(frozen=True)
class Against:
    """A committed module with which a page compares what is written ``now``.

    ``reviewed`` are the keys of what a person has ticked before, from the file beside the module.
    """

    name: str
    committed: str
    now: str
    written: WrittenText
    reviewed: frozenset[str] = frozenset()

    @property
    def differs(self) -> bool:
        """True if the texts are not the same."""
        return self.committed.rstrip("\n") != self.now.rstrip("\n")


def marked_lines(committed: str, now: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All lines of both texts in order, each with its mark: ``+``, ``-``, or a blank for both.

    >>> list(marked_lines("a\\nb", ["a", "c"]))
    [(' ', 'a'), ('-', 'b'), ('+', 'c')]
    """
    before = committed.rstrip("\n").split("\n")
    matcher = difflib.SequenceMatcher(None, before, list(now), autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            yield from ((SAME, line) for line in now[k:m])
            continue
        yield from ((REMOVED, line) for line in before[i:j])
        yield from ((ADDED, line) for line in now[k:m])
