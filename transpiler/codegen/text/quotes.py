"""The user's statements as comments: which ones are quoted, and their lines."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache

from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import For, Statement

QUOTED = 88  # columns of a comment
_MOST_QUOTED = 3  # lines
_NARROWEST = 40


def is_compound(line: str) -> bool:
    """True for the head of a statement with a block."""
    first = line.split(" ")[0].rstrip(":(")
    return first in ("if", "elif", "else", "for", "while", "with")


def is_loop_of(s: Statement, origin: Origin) -> bool:
    """True for a loop over numbers that answers a ``while`` of the user's."""
    return isinstance(s, For) and not s.scheduled and origin.statement.startswith("while ")


@lru_cache(maxsize=1024)
def quoted(statement: str, room: int) -> list[str]:
    """The user's statement as lines of a comment; only its head if it has a block."""
    lines = statement.strip().split("\n")
    compound = is_compound(lines[0])
    text = lines[0].strip() if compound else " ".join(statement.split())
    if len(lines) > 1 and not compound:
        text = re.sub(r"([(\[{]) ", r"\1", text)
        text = re.sub(r",? ([)\]}])", r"\1", text)
    return textwrap.wrap(
        text,
        max(room, _NARROWEST),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=_MOST_QUOTED,
        placeholder=" ...",
    )
