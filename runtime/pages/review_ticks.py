"""A reviewer's ticks: one for each run of lines that answers one statement.

A tick's key is of the lines' text and of the statement that they answer. So a tick is kept while
these are the same, wherever they stand, and is gone when one of them changes. The list of ticks is
a file beside the saved module, ``saved.py.reviewed``: comments in the module would be lost when it
is written again, and ``calque verify`` would call it stale.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calque.runtime.pages.reviews import PageLine
from calque.transpiler.diagnostics.line_sources import CODE

SUFFIX = ".reviewed"


@dataclass(frozen=True)
class Tick:
    """A place for a tick: its key, and a text by which a person knows it again."""

    key: str
    text: str


def ticks_of(lines: Sequence[PageLine], words: Mapping[str, str]) -> dict[int, Tick]:
    """The ticks of a text, by the numbers of its blocks; ``words`` name the user's statements."""
    blocks: dict[int, list[PageLine]] = {}
    for line in lines:
        if line.block >= 0:
            blocks.setdefault(line.block, []).append(line)
    seen: Counter[str] = Counter()
    made = {}
    for number, block in blocks.items():
        source = block[0].source
        statement = " ".join(o.statement or o.text for o in source.origins[:1])
        code = [line.text.strip() for line in block]
        text = "\n".join([source.function, source.phase, statement, *code])
        seen[text] += 1
        digest = hashlib.sha256(f"{text}\n{seen[text]}".encode()).hexdigest()[:16]
        first = next((line for line in block if line.source.kind == CODE), block[0])
        place = words.get(block[0].keys[0], "")
        said = f"{source.phase or source.function}, {place}: {first.text.strip()}"
        made[number] = Tick(digest, said)
    return made


def reviewed_in(text: str) -> frozenset[str]:
    """The keys in a list of ticks.

    >>> sorted(reviewed_in("# a comment\\n12ab  reverse, f line 3: x_bar = 1.0\\n"))
    ['12ab']
    """
    lines = (line.split() for line in text.splitlines())
    return frozenset(words[0] for words in lines if words and not words[0].startswith("#"))
