"""The user's source lines of generated statements, for tracebacks through generated code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calque.transpiler.codegen.text.layout import Notes
from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import Statement


def placed(line: Any, origin: Origin | None, made: Statement | None = None) -> Any:
    """A line with its origin in the user's source set, and its statement, unless it has them."""
    if not hasattr(line, "origin"):
        line.origin, line.made = origin, made
    return line


def origins_in(body: Sequence[Any]) -> list[Origin | None]:
    """The origins of the statements of a function's body, in the order of ``statements_in``."""
    lines = [s for s in statements_in(body) if not Notes.is_note(s)]
    return [getattr(line, "origin", None) for line in lines]


def statements_in(body: Sequence[Any]) -> Iterator[Any]:
    """The statements of a body, heads before their blocks.

    >>> [type(s).__name__ for s in statements_in(ast.parse("if a:\\n    b = 1\\nc = 2").body)]
    ['If', 'Assign', 'Assign']
    """
    for line in body:
        yield line
        for block in ("body", "handlers", "orelse", "finalbody"):
            yield from statements_in(getattr(line, block, []))


def origin_of_line(
    text: str, line: int, origins: Mapping[str, Sequence[Origin | None]]
) -> Origin | None:
    """The origin of the innermost statement on a line of a text; ``origins`` are by function.

    None if it is not known: the text may have been changed since ``origins`` were recorded.
    """
    functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    found = next((n for n in functions if n.lineno <= line <= (n.end_lineno or n.lineno)), None)
    lines = list(statements_in(found.body)) if found is not None else []
    known = origins.get(found.name, ()) if found is not None else ()
    if len(lines) != len(known):
        return None
    around = [o for s, o in zip(lines, known) if s.lineno <= line <= (s.end_lineno or s.lineno)]
    return around[-1] if around else None
