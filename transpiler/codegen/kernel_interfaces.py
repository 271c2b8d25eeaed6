"""What a kernel takes and gives back: the names its lines read and write, and who reads them after.

The analysis is on the launcher's syntax tree, where names are what counts: liveness backward,
definite assignment forward.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import gast

from calque.transpiler.codegen.numba.scalar_text import KERNEL_FUNCTIONS, VECTOR_FUNCTIONS

GLOBALS = VECTOR_FUNCTIONS | KERNEL_FUNCTIONS | {
    *("np", "math", "range", "prange", "vrange", "abs", "bool", "int", "float", "complex"),
    *("min", "max"),
    *(n for n in dir(builtins) if n.endswith(("Error", "Exception"))),
    "len",
}


@dataclass(eq=False)
class Launch:
    """One call of a kernel, in the launcher."""

    node: Any
    kernel: Any
    types: dict[str, Any]
    reads: list[str]  # before the lines write them
    writes: set[str]
    sure: set[str]  # written on every path
    kept: list[str] = field(default_factory=list)  # given back
    unset: list[str] = field(default_factory=list)  # nobody has set these before
    live: set[str] = field(default_factory=set)


def names_in(lines: Sequence[Any]) -> tuple[list[str], set[str], set[str]]:
    """The names that statements read first, those they write, and those they write for sure."""
    found = _Names()
    sure: set[str] = set()
    for line in lines:
        found.visit(line, sure)
    return list(found.reads), found.writes, sure


class _Names:
    def __init__(self) -> None:
        self.writes: set[str] = set()
        self.reads: dict[str, None] = {}

    def visit(self, node: Any, sure: set[str]) -> None:
        match node:
            case gast.Name():
                self._name(node, sure)
            case gast.Assign():
                self.visit(node.value, sure)
                for place in node.targets:
                    self.visit(place, sure)
            case gast.AugAssign():
                if isinstance(node.target, gast.Name) and node.target.id not in sure:
                    self.reads.setdefault(node.target.id)
                self.visit(node.value, sure)
                self.visit(node.target, sure)
            case gast.For():
                self.visit(node.iter, sure)
                inner = set(sure)
                self.visit(node.target, inner)
                for line in node.body:
                    self.visit(line, inner)
            case gast.While():
                self.visit(node.test, sure)
                inner = set(sure)
                for line in node.body:
                    self.visit(line, inner)
            case gast.If():
                self.visit(node.test, sure)
                arms = [set(sure), set(sure)]
                for arm, inner in zip((node.body, node.orelse), arms):
                    for line in arm:
                        self.visit(line, inner)
                sure |= arms[0] & arms[1]
            case gast.AST():
                for name in node._fields:
                    self.visit(getattr(node, name, None), sure)
            case list():
                for item in node:
                    self.visit(item, sure)

    def _name(self, node: Any, sure: set[str]) -> None:
        if isinstance(node.ctx, gast.Store):
            self.writes.add(node.id)
            sure.add(node.id)
        elif node.id not in sure and node.id not in GLOBALS and not _is_mark(node.id):
            self.reads.setdefault(node.id)


def _is_mark(text: str) -> bool:
    return text.startswith("note_") and text.endswith("_") and text[5:-1].isdigit()


def is_note(line: Any) -> bool:
    """Whether a line is a comment or empty."""
    value = getattr(line, "value", None)
    return isinstance(line, gast.Expr) and isinstance(value, gast.Name) and _is_mark(value.id)


def form(tree: Any, said: Callable[[str], Any]) -> str:
    """A text that two trees share if they differ in names alone; ``said`` gives a comment's text.

    >>> form(gast.parse("x = y + x"), str) == form(gast.parse("a = b + a"), str)
    True
    """
    numbers: dict[str, int] = {}
    parts: list[str] = []

    def visit(node: Any) -> None:
        match node:
            case gast.Name(id=known) if _is_mark(known):
                parts.append(repr(said(known)))
            case gast.Name(id=known) if known not in GLOBALS:
                parts.append(f"name {numbers.setdefault(known, len(numbers))}")
            case gast.AST():
                parts.append(type(node).__name__)
                for name in node._fields:
                    visit(getattr(node, name, None))
            case list():
                parts.append(f"list {len(node)}")
                for item in node:
                    visit(item)
            case _:
                parts.append(repr(node))

    visit(tree)
    return "\n".join(parts)


def period(items: Sequence[Any], least: int) -> int:
    """After how many items they repeat, ``least`` times or more in all; 0 where they do not.

    >>> period("abcabcabc", 3), period("abab", 3)
    (3, 0)
    """
    for size in range(1, len(items) // least + 1):
        if len(items) % size == 0 and all(a == b for a, b in zip(items, items[size:])):
            return size
    return 0


def settle_launches(body: Sequence[Any], arguments: set[str]) -> list[Launch]:
    """Every launch, with what it takes and what it gives back."""
    launches = list(_launches(body))
    while True:
        before = [(list(launch.reads), set(launch.live)) for launch in launches]
        _Liveness().block(body, set())
        for launch in launches:
            launch.kept = sorted(launch.writes & launch.live)
            more = [n for n in launch.kept if n not in launch.sure and n not in launch.reads]
            launch.reads += more
        if before == [(launch.reads, launch.live) for launch in launches]:
            break
    _assigned(body, set(arguments))
    return launches


def _launches(body: Sequence[Any]) -> Iterator[Launch]:
    for line in body:
        for node in gast.walk(line):
            if hasattr(node, "launch"):
                yield node.launch


class _Liveness:
    """Which names are read later, from the last statement to the first."""

    def __init__(self) -> None:
        self.after_loop: list[set[str]] = []

    def block(self, lines: Sequence[Any], live: set[str]) -> set[str]:
        """What is live before the lines, if ``live`` is after them."""
        for line in reversed(lines):
            live = self._line(line, live)
        return live

    def _line(self, line: Any, live: set[str]) -> set[str]:
        if hasattr(line, "launch"):
            launch = line.launch
            launch.live |= live
            return (live - launch.sure) | set(launch.reads)
        match line:
            case gast.Return():
                return set(names_in([line])[0])
            case gast.Break():
                return set(self.after_loop[-1])
            case gast.If():
                then, orelse = self.block(line.body, live), self.block(line.orelse, live)
                return then | orelse | set(names_in([gast.Expr(line.test)])[0])
            case gast.For() | gast.While():
                head = line.iter if isinstance(line, gast.For) else line.test
                start = set(names_in([gast.Expr(head)])[0])
                around = live | start
                counters = _targets(line)
                while True:
                    self.after_loop.append(live)
                    inside = self.block(line.body, around) - counters  # each round sets them
                    self.after_loop.pop()
                    if inside <= around:
                        return around
                    around = around | inside
        reads, _, sure = names_in([line])
        return (live - sure) | set(reads)


def _assigned(lines: Sequence[Any], sure: set[str]) -> None:
    """Note what a launch takes that may not have been set."""
    for line in lines:
        if hasattr(line, "launch"):
            launch = line.launch
            launch.unset = [n for n in launch.reads if n not in sure]
            sure |= launch.sure | set(launch.reads)
        elif isinstance(line, gast.If):
            arms = [set(sure), set(sure)]
            _assigned(line.body, arms[0])
            _assigned(line.orelse, arms[1])
            if _leaves(line.body):
                arms[0] = arms[1]
            if _leaves(line.orelse):
                arms[1] = arms[0]
            sure |= arms[0] & arms[1]
        elif isinstance(line, (gast.For, gast.While)):
            inner = set(sure)
            _assigned(line.body, inner | _targets(line))
        else:
            sure |= names_in([line])[2]


def _targets(loop: Any) -> set[str]:
    """The names that each round of a ``for`` loop sets."""
    if not isinstance(loop, gast.For):
        return set()
    return names_in([gast.Assign([loop.target], gast.Constant(0, None), None)])[1]


def _leaves(lines: Sequence[Any]) -> bool:
    """Whether control does not come out at the end."""
    return bool(lines) and isinstance(lines[-1], (gast.Raise, gast.Return, gast.Break))


def replace(body: list[Any], old: Any, new: list[Any]) -> None:
    """Put other lines where one stands, at any depth."""
    for k, line in enumerate(body):
        if line is old:
            body[k : k + 1] = new
            return
        for name in ("body", "orelse"):
            inner = getattr(line, name, None)
            if isinstance(inner, list):
                replace(inner, old, new)
