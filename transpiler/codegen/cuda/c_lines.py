"""Lines of CUDA C, and queries on the syntax trees that they are printed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gast
import numpy as np

WIDTH = 100
MATHS = {"pi": np.pi, "e": np.e}
_UNIT = 14


@dataclass(frozen=True)
class CCode:
    """C text within a tree; ``level`` is its operator precedence."""

    text: str
    level: int = _UNIT


def raw(text: str, level: int = _UNIT) -> gast.Constant:
    """A tree for C text that is printed unchanged."""
    return gast.Constant(CCode(text, level), None)


def bounds_of(line: Any) -> tuple[Any, Any, Any]:
    """The trees of a loop's start, stop and step; the step is None for 1."""
    args = line.iter.args
    start, stop = (gast.Constant(0, None), args[0]) if len(args) == 1 else args[:2]
    return start, stop, args[2] if len(args) > 2 else None


def assigned_in(body: Sequence[Any]) -> set[str]:
    """The names that statements assign."""
    found: set[str] = set()
    for line in body:
        for tree in gast.walk(line):
            if isinstance(tree, (gast.Assign, gast.AugAssign, gast.For)):
                targets = tree.targets if isinstance(tree, gast.Assign) else [tree.target]
                found |= {n.id for t in targets for n in gast.walk(t) if isinstance(n, gast.Name)}
    return found


def number_in(tree: Any) -> Any:
    """The value of a tree that is a number; else None."""
    match tree:
        case gast.Constant(value=value) if not isinstance(value, CCode):
            return value
        case gast.BinOp(
            left=gast.Constant(value=float() as a), right=gast.Constant(value=complex() as b)
        ):
            return a + b if isinstance(tree.op, gast.Add) else a - b
        case gast.Call(func=gast.Name(id="complex"), args=[one, two]):
            parts = number_in(one), number_in(two)
            return None if None in parts else complex(*parts)
        case gast.UnaryOp(op=gast.USub(), operand=operand):
            inner = number_in(operand)
            return None if inner is None else -inner
        case gast.Attribute(attr="inf"):
            return float("inf")
        case gast.Attribute(attr="nan"):
            return float("nan")
        case gast.Attribute(attr=name) if name in MATHS:
            return MATHS[name]
    return None


def inside_of(checked: list[str]) -> str:
    """The C condition that checked indices, which are -1 if out of bounds, are in bounds."""
    return " && ".join(f"{n} >= 0" for n in checked)


def blocks_in(line: Any) -> Iterator[list[Any]]:
    """The blocks of a statement."""
    for part in ("body", "orelse"):
        block = getattr(line, part, None)
        if isinstance(block, list) and block:
            yield block


def heads_of(line: Any) -> list[Any]:
    """The expressions of a statement outside of its blocks."""
    match line:
        case gast.For(iter=span):
            return [span]
        case gast.If(test=test) | gast.While(test=test):
            return [test]
    return [line]


def names_in(tree: Any) -> set[str]:
    """The names in a tree."""
    return {node.id for node in gast.walk(tree) if isinstance(node, gast.Name)}


def braced(head: str, body: list[str], depth: int) -> list[str]:
    """A head and its block; a single line needs no braces."""
    inner = "    " * (depth + 1)
    alone = len(body) == 1 and body[0].startswith(inner) and not body[0].lstrip().startswith("//")
    if alone and body[0].endswith(";"):
        return [*indented(head, depth), *body]
    return [*indented(f"{head} {{".lstrip(), depth), *body, "    " * depth + "}"]


def indented(text: str, depth: int) -> list[str]:
    """A statement as lines of at most ``WIDTH`` columns."""
    space = "    " * depth
    if len(space + text) <= WIDTH or text.startswith("//"):
        return [space + text]
    lines, inner = [], space
    while len(inner + text) > WIDTH:
        at = _break(text, WIDTH - len(inner))
        if at <= 0:
            break
        lines.append((inner + text[:at]).rstrip())
        text, inner = text[at:].lstrip(), space + "    "
    return [*lines, inner + text]


def _break(text: str, room: int) -> int:
    """The best position to break a line: at an operator or a comma in the fewest brackets."""
    best, found = 99, -1
    depth = 0
    for k, c in enumerate(text[:room]):
        depth += (c in "([") - (c in ")]")
        cut = -1
        if c in ",;" and text[k + 1 : k + 2] == " ":
            cut = k + 1
        elif c == " " and text[k + 1 : k + 3] in ("+ ", "- ", "* ", "/ ", "? ", ": ", "&&", "||"):
            cut = k
        if cut > room // 3 and depth <= best:
            best, found = depth, cut
    return found
