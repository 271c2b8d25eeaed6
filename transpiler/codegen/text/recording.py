"""A record of each statement that a text is written from, kept while someone asks for it.

A page that shows a text beside the user's functions asks. Other texts are written without it::

    with recorded() as written:
        text = function_text(traced, name)
    written.statements["loss_grad"]  # in the order of ``statements_in``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gast

from calque.transpiler.codegen.text.layout import Notes
from calque.transpiler.codegen.text.origins import statements_in
from calque.transpiler.errors import Origin
from calque.transpiler.ir import core
from calque.transpiler.ir.core import If, Statement, Var
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.types import ArrayType

if TYPE_CHECKING:
    from calque.transpiler.codegen.text.statement_writer import StatementWriter


@dataclass(frozen=True)
class StatementSource:
    """The user's places that a generated statement answers, nearest first, and its phase."""

    origins: tuple[Origin, ...] = ()
    phase: str = ""


@dataclass
class WrittenText:
    """The record of one text, by the names of its functions.

    ``kernels`` are texts in C, each with the sources of its lines: None if a line has none.
    """

    statements: dict[str, list[StatementSource]] = field(default_factory=dict)
    names: dict[str, dict[str, list[ArrayType]]] = field(default_factory=dict)
    starts: dict[str, Origin | None] = field(default_factory=dict)  # where the functions begin
    kernels: list[tuple[list[str], list[StatementSource | None]]] = field(default_factory=list)


_record: ContextVar[WrittenText | None] = ContextVar("record", default=None)


class RecordedLine(str):
    """A line of C, and the source of its statement."""

    source: StatementSource | None = None


@contextmanager
def recorded() -> Iterator[WrittenText]:
    """Inside, what this thread writes is recorded."""
    made = WrittenText()
    token = _record.set(made)
    try:
        yield made
    finally:
        _record.reset(token)


def record_functions(trees: Sequence[Any], writer: StatementWriter) -> None:
    """Record functions that a writer has written, if someone asks."""
    record = _record.get()
    if record is None:
        return
    function = writer.program.function
    for tree in trees:
        lines = [s for s in statements_in(tree.body) if not Notes.is_note(s)]
        record.statements[tree.name] = [source_of_line(line, writer) for line in lines]
        record.starts[tree.name] = function.origin
        found = record.names[tree.name] = {}
        nodes = (node for line in [tree.args, *lines] for node in gast.walk(line))
        for node in nodes:
            shown = getattr(node, "shows", None)
            if isinstance(node, gast.Name) and shown is not None:
                _add(found, node.id, shown.type)
    for name, var in ((p.name, p) for p in function.params if p.name):
        _add(record.names[trees[-1].name], name, var.type)


def record_kernel(text: Sequence[str]) -> None:
    """Record the text of a kernel in C, of ``RecordedLine``s, if someone asks."""
    record = _record.get()
    if record is not None:
        parts = [(part, line) for line in text for part in line.split("\n")]
        sources = [getattr(line, "source", None) for _, line in parts]
        record.kernels.append(([part for part, _ in parts], sources))


def with_source(texts: list[str], line: Any, writer: StatementWriter) -> list[str]:
    """Lines of C that are written from a statement's tree, with their source, if someone asks."""
    if _record.get() is None or Notes.is_note(line) or not hasattr(line, "origin"):
        return texts
    source = source_of_line(line, writer)
    made: list[str] = []
    for text in texts:
        if not isinstance(text, RecordedLine):  # else it is of a statement within this one
            text = RecordedLine(text)
            text.source = source
        made.append(text)
    return made


def _add(found: dict[str, list[ArrayType]], name: str, kind: ArrayType) -> None:
    known = found.setdefault(name, [])
    if kind not in known:
        known.append(kind)


def source_of_line(line: Any, writer: StatementWriter) -> StatementSource:
    """The source of a statement's tree: its own place, then those of values folded into it."""
    origin, made = getattr(line, "origin", None), getattr(line, "made", None)
    found = [] if origin is None else [origin]
    if made is not None:
        found += _origins(made, writer)
    whole = writer.program.function.phase  # of a part of a program
    phase = whole if made is None else writer.phase_of(made) or whole
    return StatementSource(tuple(dict.fromkeys(found)), phase)


def _origins(s: Statement, writer: StatementWriter) -> Iterator[Origin]:
    """The places of a statement and of the values that are folded into its line, without sizes."""
    if is_size(s):
        return
    if isinstance(s, core.Kernel):
        found = [t.origin for t in core.walk(s.body) if t.origin is not None and not is_size(t)]
        count = Counter((o.file, o.line) for o in found)
        yield from sorted(found, key=lambda o: -count[o.file, o.line])
        return
    if s.origin is not None:
        yield s.origin
    atoms = list(core.operands(s))
    if isinstance(s, If) and id(s) in writer.choices:
        atoms += [a for block in core.blocks_of(s) for a in block.results]
    folded = writer.expressions.folding.folded
    for atom in atoms:
        if isinstance(atom, Var) and atom in folded:
            yield from _origins(writer.program.definition[atom], writer)
