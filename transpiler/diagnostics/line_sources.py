"""The user's places that each line of a generated text answers, and the line's phase.

A comment belongs to the statement below it, a line of a statement that names no place to the
statement around it, and the head of a function to the place where the user's function begins.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from calque.transpiler.codegen.text.origins import statements_in
from calque.transpiler.codegen.text.recording import StatementSource, WrittenText
from calque.transpiler.errors import Origin
from calque.transpiler.ir.phases import PHASES

CODE, COMMENT, PHASE, HEAD, BLANK, OTHER = "code", "comment", "phase", "head", "blank", "other"
_BOTH = "forward and reverse"


@dataclass(frozen=True)
class LineSource:
    """A line of a text: its kind, the generated function around it, and what it answers.

    ``statement`` numbers the statements of the text: all lines of one have its number, and -1
    stands for none. ``origins`` has the nearest place first. Lines of the kind "other" are of what
    calque adds to a text: imports and functions that kernels call.
    """

    kind: str
    function: str = ""
    phase: str = ""
    origins: tuple[Origin, ...] = ()
    statement: int = -1


def line_sources(text: str, written: WrittenText) -> list[LineSource]:
    """The source of each line of a text, whose writing has been recorded.

    ``text`` is what was written, or a module that holds it; ``written`` is the record. Raises
    SyntaxError for a text that is no Python.
    """
    lines = text.split("\n")
    found: list[LineSource | None] = [None] * (len(lines) + 1)
    numbers = iter(range(10**9))
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in written.statements:
            _mark_function(node, written, found, numbers)
    _mark_kernels(lines, written, found, numbers)
    made = [each or LineSource(OTHER) for each in found[:-1]]
    return _with_phases(_with_comments(lines, made))


def _mark_function(
    node: ast.FunctionDef,
    written: WrittenText,
    found: list[LineSource | None],
    numbers: Iterator[int],
) -> None:
    """Mark the lines of a function, where its statements are those that were recorded."""
    statements, sources = list(statements_in(node.body)), written.statements[node.name]
    start = written.starts.get(node.name)  # None of a partial: it begins where its first line does
    first_places = (source.origins[:1] for source in sources if source.origins)
    begin = next(first_places, ()) if start is None else (start,)
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    head = LineSource(HEAD, node.name, "", begin, next(numbers))
    for at in range(first, (node.end_lineno or first) + 1):
        found[at - 1] = head
    if len(statements) != len(sources):
        return
    for s, source in zip(statements, sources):
        around = found[s.lineno - 1] or head
        phase = source.phase or ("" if around.phase == _BOTH else around.phase)
        origins = source.origins or around.origins
        made = LineSource(CODE, node.name, phase, origins, next(numbers))
        for at in range(s.lineno, (s.end_lineno or s.lineno) + 1):
            found[at - 1] = made


def _mark_kernels(
    lines: Sequence[str],
    written: WrittenText,
    found: list[LineSource | None],
    numbers: Iterator[int],
) -> None:
    """Mark the lines of kernels in C, which stand in the text as they were recorded."""
    for texts, sources in written.kernels:
        at = _position(lines, texts)
        if at is None:
            continue
        name = texts[1].partition("(")[0].split()[-1]
        every = [s for s in sources if s is not None and s.origins]
        around = _joined(every)
        known: StatementSource | None = None
        number = -1
        for k, source in enumerate(sources):
            if source is None:
                found[at + k] = LineSource(HEAD, name, around.phase, around.origins)
                continue
            number = number if source is known else next(numbers)
            known = source
            origins = source.origins or around.origins
            found[at + k] = LineSource(CODE, name, source.phase, origins, number)


def _joined(sources: Sequence[StatementSource]) -> StatementSource:
    """The first place of several statements, and their phases."""
    phases = {s.phase for s in sources}
    said = " and ".join(p for p in PHASES if p in phases)
    return StatementSource(sources[0].origins[:1] if sources else (), said)


def _position(lines: Sequence[str], texts: Sequence[str]) -> int | None:
    """The index of the first of some consecutive lines."""
    size = len(texts)
    starts = (k for k, line in enumerate(lines) if line == texts[0])
    return next((k for k in starts if list(lines[k : k + size]) == list(texts)), None)


def _with_comments(lines: Sequence[str], found: list[LineSource]) -> list[LineSource]:
    """Give comments the source of the statement below them, and blank lines none."""
    below = LineSource(OTHER)
    for k in reversed(range(len(lines))):
        text = lines[k].strip()
        if not text:
            found[k] = LineSource(BLANK, found[k].function)
        elif found[k].kind == OTHER or not text.startswith(("# ", "// ")):
            below = found[k]
        elif text.lstrip("#/ ") in (*PHASES, _BOTH):
            found[k] = LineSource(PHASE, found[k].function, text.lstrip("#/ "))
        else:
            found[k] = replace(below, kind=COMMENT)
    return found


def _with_phases(found: list[LineSource]) -> list[LineSource]:
    """Give statements without a phase that of the comment above, as to those that start a sum."""
    function = phase = ""
    for k, line in enumerate(found):
        if line.function != function:
            function, phase = line.function, ""
        if line.kind == PHASE:
            phase = line.phase
        elif line.kind in (CODE, COMMENT) and not line.phase:
            found[k] = replace(line, phase=phase)
    return found
