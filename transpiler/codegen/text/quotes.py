"""The user's statements as comments: which ones are quoted, and their lines."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache

from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import Apply, Atom, For, Statement, Var
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.naming import Definitions
from calque.transpiler.primitives.indexing import getitem

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


def remark(s: Apply, definitions: Definitions) -> str:
    """Half a line on a statement of a reverse sweep; empty where there is nothing to say.

    A store that restores says so, one that may add twice to an element, and a sum that undoes a
    broadcast says its shapes.
    """
    if is_store(s):
        made = definitions.get(s.args[1]) if isinstance(s.args[1], Var) else None
        if isinstance(made, Apply) and made.primitive is getitem and _is_saved(made.args[0]):
            return "as it was before this statement"
        return "places may repeat" if s.primitive.repeats else ""
    if s.primitive.reduction is None or s.params.get("axis") is None:
        return ""
    shapes = [_shape(t) for t in (s.args[0], s.out)]
    return " -> ".join(shapes) if all(shapes) else ""


def _is_saved(array: Atom) -> bool:
    return isinstance(array, Var) and (array.name or "").endswith("_saved")


def _shape(value: Atom) -> str:
    """``(n, 1)``; empty if a size has no name that a reader knows."""
    dims = list(map(str, value.type.dims)) if isinstance(value, Var) else ["_"]
    if any("_" in d for d in dims):
        return ""
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
