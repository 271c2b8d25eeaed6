"""A review: what a page shows of a function and of the texts that are generated from it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calque.runtime.call.loading import Program
from calque.runtime.custom import Checkpoint
from calque.runtime.devices.device_source import DeviceSource
from calque.runtime.devices.mapped import Mapped
from calque.runtime.pages.line_notes import (
    AT_HAND,
    KINDS,
    RIGHT,
    LineNote,
    check_notes,
    cost_notes,
    notes_of,
    pass_notes,
)
from calque.runtime.pages.name_meanings import meanings
from calque.runtime.pages.text_differences import ADDED, REMOVED, Against, marked_lines
from calque.runtime.pages.user_files import FunctionPlace, UserLines
from calque.runtime.pages.user_names import user_types
from calque.runtime.saving.provenance import transform_text
from calque.runtime.saving.stage_programs import (
    as_transformed,
    at_stage,
    engine_of,
    program_at,
    refuse_engine,
)
from calque.runtime.saving.titles import title
from calque.runtime.transformed import Transformed
from calque.transpiler import texts
from calque.transpiler.codegen.text.recording import WrittenText, recorded
from calque.transpiler.diagnostics.line_sources import (
    BLANK,
    CODE,
    COMMENT,
    OTHER,
    LineSource,
    line_sources,
)
from calque.transpiler.errors import file_name
from calque.transpiler.ir.phases import answers

# transformations whose results take what their functions take
_OF_THE_SAME = frozenset(
    "identity jit grad value_and_grad jacfwd jacrev jacobian value_and_jacobian hessian"
    " value_and_hessian hessian_diag laplacian".split()
)
_TITLES = {"derivative": "NumPy source", "kernels": "Kernels", "cuda": "CUDA"}


@dataclass(frozen=True)
class PageLine:
    """A line of a generated text, with the keys of the user's statements that it answers.

    ``number`` is 0 for a line that only the committed text has; ``block`` numbers the runs of lines
    that answer one statement, -1 for none; ``mark`` is "+", "-" or empty.
    """

    number: int
    text: str
    source: LineSource
    keys: tuple[str, ...] = ()
    block: int = -1
    mark: str = ""


@dataclass(frozen=True)
class Pane:
    """A generated text: a key for ids, a title for readers, its lines and what its names mean."""

    key: str
    title: str
    lines: tuple[PageLine, ...]
    names: dict[str, dict[str, str]] = field(default_factory=dict)  # by the function around them


@dataclass(frozen=True)
class UserLine:
    """A line of the user's: its statement's key, and notes on it; ``kind`` is what shades it."""

    number: int
    text: str
    key: str
    is_first: bool  # of its statement
    notes: tuple[LineNote, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class ShownFunction:
    """A function of the user's, as a page shows it."""

    name: str
    file: str
    lines: tuple[UserLine, ...]
    names: dict[str, str] = field(default_factory=dict)  # with their types


@dataclass
class Review:
    """All that a page shows. ``against`` is the committed text with which it is compared."""

    title: str
    subtitle: str
    functions: list[ShownFunction]
    panes: list[Pane]
    against: Against | None = None

    @property
    def kinds(self) -> list[str]:
        """The kinds of notes that there are, in the order of the legend."""
        found = {n.kind for f in self.functions for line in f.lines for n in line.notes}
        found |= {line.kind for f in self.functions for line in f.lines}
        return [kind for kind in KINDS if kind in found]


@dataclass
class _Made:
    """A text, the record of its writing, and its program."""

    key: str
    text: str
    written: WrittenText
    program: Program


def review_of(
    fn: Any,
    args: Sequence[Any],
    stage: str | None = None,
    engine: str | None = None,
    against: Against | None = None,
    values: tuple[Any, ...] | None = None,
) -> Review:
    """The review of a transformed (or plain) function for arguments, or their types.

    ``stage`` adds the kernels, or the text for a GPU, where the function is not jitted; ``engine``
    is as for ``source``. With ``values``, arguments of a call, each statement's derivative is
    compared with differences there. Raises what the transformation raises.
    """
    transformed = as_transformed(fn)
    args = tuple(args)
    compared = () if values is None else check_notes(_plain(transformed), values)
    if isinstance(at_stage(fn, stage), Mapped):
        made = [_of_devices(at_stage(fn, stage), args, stage, engine)]
    else:
        refuse_engine(engine)
        made = [_text_at(transformed, args, key) for key in _stages(transformed, stage)]
    if against is not None:
        made = [_compared(made, against)]
    lines = UserLines()
    home = made[0].program.traced.function.origin
    if home is not None:
        lines.key(home.file, home.line)
    panes = [_pane(one, lines, against) for one in made]
    notes = [note for one in made if one.key != "cuda" for note in notes_of(one.program)]
    notes += compared
    types: dict[FunctionPlace, dict[str, str]] = {}
    if not isinstance(transformed, Mapped):
        plain = at_stage(fn, "numpy")
        notes += cost_notes(plain, args)
        types = user_types(plain, args, lines)
    if made[-1].program.traced.compiled and home is not None:
        notes += pass_notes(at_stage(fn, "numpy"), args)
    files = ", ".join(dict.fromkeys(file_name(f.file) for f in lines.shown))
    return Review(
        title(transformed).rstrip("."),
        " · ".join(filter(None, [files, transform_text(transformed)])),
        _functions(lines, notes, panes, types),
        panes,
        against,
    )


def _plain(transformed: Any) -> Any:
    """The function that is transformed, if it can be called with the arguments of a derivative."""
    while isinstance(transformed, (Transformed, Checkpoint)):
        if isinstance(transformed, Checkpoint):
            transformed = transformed.fun
        elif transformed.kind in _OF_THE_SAME:
            transformed = transformed.function
        else:
            kind = transformed.kind
            raise ValueError(f"{kind}(f) has other arguments than f: check f in a page of its own")
    return transformed


def _stages(transformed: Transformed, stage: str | None) -> list[str]:
    """The keys of the texts that a page shows: NumPy source always, then what runs."""
    found = ["derivative"]
    if transformed.compiled or stage == "kernels":
        found.append("kernels")
    return [*found, "cuda"] if stage == "cuda" else found


def _text_at(transformed: Transformed, args: tuple[Any, ...], key: str) -> _Made:
    stage = "numpy" if key == "derivative" else key
    found = at_stage(transformed, stage)
    program = program_at(found, args, stage)
    with recorded() as written:
        text = texts.function_text(program.traced, found.generated_name())
    return _Made(key, text.rstrip("\n"), written, program)


def _of_devices(mapped: Any, args: tuple[Any, ...], stage: str | None, engine: str | None) -> _Made:
    found = DeviceSource(mapped, args, engine_of(mapped, stage, engine))
    with recorded() as written:
        text = found.source()
    key = "cuda" if stage == "cuda" else "kernels" if mapped.compiled else "derivative"
    return _Made(key, text.rstrip("\n"), written, found.program)


def _compared(made: Sequence[_Made], against: Against) -> _Made:
    """The text of a whole module, in place of the functions that it holds."""
    last = made[-1]
    return _Made(last.key, against.now.rstrip("\n"), against.written, last.program)


def _pane(made: _Made, lines: UserLines, against: Against | None) -> Pane:
    sources = line_sources(made.text, made.written)
    now = [
        PageLine(k, text, source, tuple(lines.keys(source.origins)))
        for k, (text, source) in enumerate(zip(made.text.split("\n"), sources), 1)
    ]
    shown = _in_blocks(now)
    if against is not None:
        shown = _marked(shown, against)
    return Pane(made.key, _TITLES[made.key], tuple(shown), meanings(made.written))


def _in_blocks(lines: Iterable[PageLine]) -> list[PageLine]:
    """Number the runs of lines that answer one statement in one phase: a reviewer ticks these."""
    found: list[PageLine] = []
    last, number = None, -1
    for line in lines:
        source = line.source
        if source.kind in (CODE, COMMENT) and line.keys:
            here = source.function, source.phase, line.keys[0]
            number += here != last
            last = here
            line = PageLine(line.number, line.text, source, line.keys, number)
        elif source.kind != BLANK:
            last = None
        found.append(line)
    return found


def _marked(lines: Sequence[PageLine], against: Against) -> list[PageLine]:
    """Mark the lines that the committed text lacks, and insert those that only it has."""
    made: list[PageLine] = []
    rest = iter(lines)
    for mark, text in marked_lines(against.committed, [line.text for line in lines]):
        if mark == REMOVED:
            made.append(PageLine(0, text, LineSource(OTHER), mark=REMOVED))
            continue
        line = next(rest)
        mark = ADDED if mark == ADDED else ""
        made.append(PageLine(line.number, text, line.source, line.keys, line.block, mark))
    return made


def _functions(
    lines: UserLines,
    notes: Sequence[LineNote],
    panes: Sequence[Pane],
    types: dict[FunctionPlace, dict[str, str]],
) -> list[ShownFunction]:
    """The functions that the panes answer, with notes at their lines."""
    by_key: dict[str, list[LineNote]] = {}
    for note in notes:
        key = lines.key_of(note.origin)
        if key is not None and note not in by_key.setdefault(key, []):
            by_key[key].append(note)
    reversed_keys = {
        line.keys[0]
        for pane in panes
        for line in pane.lines
        if line.keys and answers(line.source.phase) and line.source.kind == CODE
    }
    shown = _without_inner(list(lines.shown))
    return [
        replace(_shown(function, lines, by_key, reversed_keys), names=types.get(function, {}))
        for function in shown
    ]


def _without_inner(functions: list[FunctionPlace]) -> list[FunctionPlace]:
    """The functions without those statements that stand in another one."""
    return [
        f
        for f in functions
        if not any(
            o is not f and o.file == f.file and o.first <= f.first and f.last <= o.last
            for o in functions
        )
    ]


def _shown(
    function: FunctionPlace,
    lines: UserLines,
    notes: dict[str, list[LineNote]],
    reversed_keys: set[str],
) -> ShownFunction:
    file = lines.file(function.file)
    head = file.spans.get(function.first) if function.name else None
    made, seen = [], set()
    for number in range(function.first, function.last + 1):
        key = lines.key(function.file, number) or ""
        text = file.lines[number - 1]
        is_first = bool(text.strip()) and key not in seen and number in file.spans
        seen.add(key)
        own = notes.get(key, []) if is_first else []
        kinds = {n.kind for n in notes.get(key, [])}
        kind = next((k for k in KINDS if k in kinds), "")
        if kind in ("", RIGHT) and key in reversed_keys and file.spans.get(number) != head:
            kind = AT_HAND
        kind = kind if number in file.spans and text.strip() else ""
        made.append(UserLine(number, text, key, is_first, tuple(own), kind))
    name = function.name or _first_words(file.lines[function.first - 1])
    return ShownFunction(name, function.file, tuple(made))


def _first_words(line: str) -> str:
    """A name for a statement outside of functions, as ``f`` for ``f = lambda x: x``."""
    try:
        node = ast.parse(line.strip()).body[0]
    except (SyntaxError, IndexError):
        return "a statement"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return "a statement"
