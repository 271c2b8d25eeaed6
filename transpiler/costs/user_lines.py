"""The lines of the user's to which costs belong."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass

from calque.transpiler.errors import Origin, file_name

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN = tuple(os.path.join(_ROOT, room) + os.sep for room in ("runtime", "transpiler"))


@dataclass(frozen=True, order=True)
class Line:
    """A line of the user's."""

    file: str = ""
    number: int = 0
    text: str = "no line of the function's"

    def __str__(self) -> str:
        return f"{file_name(self.file)}:{self.number}" if self.file else "-"


def line_of(origin: Origin | None, home: Origin | None) -> Line:
    """The line on which the statement begins that an operation belongs to.

    For an operation of calque's own (a polyfill) it is the statement that calls it, if that stands
    in the file of ``home``, where the function is.
    """
    if origin is None:
        return Line()
    lines, start = origin.statement.splitlines(), origin.statement_line
    if origin.file.startswith(_OWN):
        file = origin.file if home is None else home.file
    else:
        file = origin.file if start <= origin.line < start + len(lines) else ""
    if lines and linecache.getline(file, start).strip() == lines[0].strip():
        return Line(file, start, lines[0].strip())
    return Line(origin.file, origin.line, origin.text.strip())
