"""The user's files: their lines, statements and functions, by the places that origins name."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from calque.transpiler.errors import Origin
from calque.transpiler.frontend.source import UNQUOTED


@dataclass(frozen=True)
class FunctionPlace:
    """A function of the user's, or a statement outside of functions: its name, file and lines."""

    name: str
    file: str
    first: int
    last: int


@dataclass
class UserFile:
    """The lines of one file, with the first and last line of the statement on each.

    Of a statement with a block, these are the lines of its head.
    """

    path: str
    lines: list[str]
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    functions: list[FunctionPlace] = field(default_factory=list)
    lines_of: dict[str, list[int]] = field(default_factory=dict)  # that assign a name

    @classmethod
    def read(cls, path: str) -> UserFile:
        """A file as ``linecache`` has it, as a notebook's cell; without lines if it has none."""
        made = cls(path, [line.rstrip("\n") for line in linecache.getlines(path)])
        try:
            tree = ast.parse("\n".join(made.lines))
        except (SyntaxError, ValueError):
            return made
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                made._mark(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                made.lines_of.setdefault(node.id, []).append(node.lineno)
        made.functions = list(_functions(tree.body, path))
        return made

    def _mark(self, node: ast.stmt) -> None:
        first, last = _first(node), node.end_lineno or node.lineno
        inner = [n.lineno for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node]
        if inner:
            last = max(node.lineno, min(inner) - 1)
        for line in range(first, last + 1):
            known = self.spans.get(line)
            if known is None or known[0] <= first:  # the inner of two
                self.spans[line] = first, last

    def around(self, line: int) -> FunctionPlace:
        """The outermost function around a line, or the statement that it is of."""
        for function in self.functions:
            if function.first <= line <= function.last:
                return function
        first, last = self.spans.get(line, (line, line))
        return FunctionPlace("", self.path, first, last)

    def assigns(self, place: FunctionPlace, name: str) -> bool:
        """True if a function assigns a name."""
        return any(place.first <= line <= place.last for line in self.lines_of.get(name, ()))


def _first(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _functions(body: Iterable[ast.stmt], path: str, owner: str = "") -> Iterator[FunctionPlace]:
    """The functions of a file that stand in no other one; methods are named with their class."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            last = node.end_lineno or node.lineno
            yield FunctionPlace(owner + node.name, path, _first(node), last)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, path, f"{owner}{node.name}.")
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _functions(getattr(node, block, []), path, owner)


class UserLines:
    """The files that a program's origins name, and the statements in them.

    A statement is known by a key: ``u0-12`` stands on line 12, and perhaps on more, of the first
    file.
    """

    def __init__(self) -> None:
        self.files: dict[str, UserFile] = {}
        self.shown: dict[FunctionPlace, None] = {}

    def file(self, path: str) -> UserFile:
        """A file, read when it is first asked for."""
        if path not in self.files:
            self.files[path] = UserFile.read(path)
        return self.files[path]

    def key(self, path: str, line: int) -> str | None:
        """The key of the statement on a line; None for no line, or one of a file of calque's."""
        if path in UNQUOTED or not 1 <= line <= len(self.file(path).lines):
            return None
        file = self.file(path)
        self.shown.setdefault(file.around(line), None)
        number = list(self.files).index(path)
        return f"u{number}-{file.spans.get(line, (line, line))[0]}"

    def key_of(self, origin: Origin) -> str | None:
        """The key of a place; None if the file has another text now than when it was read."""
        lines = [] if origin.file in UNQUOTED else self.file(origin.file).lines
        if not 1 <= origin.line <= len(lines):
            return None
        if origin.text and lines[origin.line - 1].strip() != origin.text.strip():
            return None
        return self.key(origin.file, origin.line)

    def keys(self, origins: Iterable[Origin]) -> list[str]:
        """The keys of the places of some origins, nearest first, and of calls on the way there."""
        places = list(origins)
        calls = [call for place in places for call in place.calls()]
        found = dict.fromkeys(map(self.key_of, [*places, *calls]))
        return [key for key in found if key is not None]

    def number(self, key: str) -> int:
        """The line number in a key."""
        return int(key.partition("-")[2])
