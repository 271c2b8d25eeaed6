"""Tracebacks that name the user's files: frames of calque's own are dropped on the way out.

An error that generated code raises gets a note with the user's line of which that code is.

``CALQUE_DEBUG=1`` keeps them, and so does an error that calque did not mean to raise.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from types import TracebackType

from calque.transpiler.codegen.text.origins import origin_of_line
from calque.transpiler.errors import CalqueError, CoreError, Origin
from calque.transpiler.ir import debug

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = tuple(os.path.join(_ROOT, name) + os.sep for name in ("runtime", "transpiler"))
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})

_RAISE = dis.opmap["RAISE_VARARGS"]  # a `raise`: other errors in calque's files are defects
_REFUSALS = (TypeError, ValueError, NotImplementedError)

_UNNUMBERED = "index is out of bounds"  # said by kernels, which know no more
_CALLED = re.compile(r"(\w+)\(")
_COMPLEX = re.compile(r"Cannot cast \w+ data from dtype\('complex\d+'\) to dtype\('float\d+'\)")

# By the file of generated functions: where the statements of each stand in the user's source.
# None for a file that serves functions of several places.
_written: dict[str, dict[str, tuple[Origin | None, ...]] | None] = {}
_in_kernels: dict[str, dict[str, tuple[Origin | None, ...]] | None] = {}


def remember_origins(
    file: str,
    origins: Mapping[str, Sequence[Origin | None]],
    kernel_origins: Mapping[str, Sequence[Origin | None]] | None = None,
) -> None:
    """Tell where the statements of generated functions, and kernels, stand in the user's source."""
    for known, given in ((_written, origins), (_in_kernels, kernel_origins or {})):
        found = {name: tuple(of_one) for name, of_one in given.items()}
        if known.setdefault(file, found) != found:
            known[file] = None


def forget_origins(file: str) -> None:
    """A generated function is gone."""
    _written.pop(file, None)
    _in_kernels.pop(file, None)


def origin_of(file: str, line: int) -> Origin | None:
    """The user's place that a line of generated code is written for; None if it is not known."""
    found = _written.get(file)
    return None if found is None else origin_of_line("".join(linecache.getlines(file)), line, found)


def note_origin(error: BaseException) -> None:
    """Give an error from generated code a note with the user's line, if it does not show one.

    What the user raises is as plain Python has it.
    """
    if isinstance(error, CalqueError):
        return
    origin, trace, indexed = None, error.__traceback__, list[Origin]()
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _written.get(file) is not None:
            if trace.tb_next is None and _raises(trace):
                return
            origin = origin_of(file, trace.tb_lineno)
            indexed = _indexed_lines(error, file, trace.tb_lineno)
        trace = trace.tb_next
    note = "" if origin is None else str(CalqueError("", origin)).rstrip()
    if indexed:
        note = _said_of_indices(indexed)
    if note and isinstance(error, TypeError) and _COMPLEX.match(str(error)):
        note += "\nInstead: give a complex array (`A.astype(complex)`); here the result is complex."
    if note and note not in getattr(error, "__notes__", []):
        error.add_note(note)


def _indexed_lines(error: BaseException, file: str, line: int) -> list[Origin]:
    """The user's places that index within the kernels that a generated line calls.

    There are none for another error than a kernel's, whose message has no numbers.
    """
    if type(error) is not IndexError or str(error) != _UNNUMBERED:
        return []
    whole, kernels = "".join(linecache.getlines(file)), _in_kernels.get(file) or {}
    functions = {n.name: n for n in ast.parse(whole).body if isinstance(n, ast.FunctionDef)}
    pending, seen, found = [(line, line + 1)], set[str](), dict[tuple[str, int], Origin]()
    while pending:
        for number in range(*pending.pop()):
            text = linecache.getline(file, number)
            for name in functions.keys() & {*_CALLED.findall(text)} - seen:
                called = functions[name]
                seen.add(name)
                pending.append((called.lineno + 1, (called.end_lineno or called.lineno) + 1))
            indexes = "checked_index(" in text
            if indexes and (place := origin_of_line(whole, number, kernels)) is not None:
                found.setdefault((place.file, place.line), place)
    return list(found.values())


def _said_of_indices(places: Sequence[Origin]) -> str:
    more = "A kernel does not say more: a call without jit shows the index and its line."
    if len(places) == 1:
        return f"{str(CalqueError('', places[0])).rstrip()}\n{more}"
    files: dict[str, set[int]] = {}
    for place in places:
        files.setdefault(place.file, set()).add(place.line)
    lines = (f"{file}: {', '.join(map(str, sorted(found)))}" for file, found in files.items())
    return f"At one of the lines of {'; '.join(lines)}\n{more}"


def hide_own_frames(error: BaseException) -> None:
    """Drop calque's frames, and those of libraries that it called, from an error that leaves it."""
    # to be followed by a bare `raise`, which adds no frame
    note_origin(error)
    if debug.level() or not _is_meant(error):
        return
    error.__traceback__ = _without_own(error.__traceback__)
    context = error.__context__
    if context is not None and not error.__suppress_context__:
        context.__traceback__ = _without_own(context.__traceback__)
        error.__suppress_context__ = context.__traceback__ is None and error.__cause__ is None


def _is_meant(error: BaseException) -> bool:
    """True if an error is of calque's classes, raised by a statement, or of others' code."""
    if isinstance(error, CalqueError):
        return not isinstance(error, CoreError)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_code.co_filename.startswith(_OWN):
        return True
    said = _raises(last) and isinstance(error, _REFUSALS)
    return said or hasattr(error, "calque_placed")


def _raises(trace: TracebackType) -> bool:
    """True if an error comes from a ``raise`` at this location."""
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    kept, dropping = [], False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        dropping = file.startswith(_OWN) or (dropping and _is_library(file))
        if not dropping:
            kept.append(trace)
        trace = trace.tb_next
    for step, after in zip(kept, [*kept[1:], None]):
        step.tb_next = after
    return kept[0] if kept else None


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen")) or "site-packages" in file


def level_of_user() -> int:
    """The number of calls up to the user's code, for ``warnings.warn`` in the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame, level = frame.f_back, level + 1
    return level
