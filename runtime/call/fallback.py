"""The warning that a jitted function, or a loop of it, is as slow as it is without ``jit``."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Sequence

from calque.runtime.call.loading import with_text
from calque.runtime.tracebacks import level_of_user
from calque.transpiler.codegen.text.origins import origin_of_line
from calque.transpiler.diagnostics.placements import Fallback
from calque.transpiler.errors import CalqueError, Origin
from calque.transpiler.ir.core import Function

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CONTEXT = ("File ", "During: ", "Failed in ", "Overload ", ">>>", "^", "raised from")
_LONGEST = 160  # letters of what a compiler says
_MOST = 3  # reasons in one warning
_given: set[str] = set()


class JitFallback(RuntimeWarning):
    """A function under ``jit``, or a loop of it, runs as NumPy source: no kernel could be made.

    It is given once for each function, with the reason and your line. Results are right, and come
    as slowly as without ``jit``; ``calque.explain`` says the same. To have it raised instead:

    >>> import warnings
    >>> import calque
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", calque.JitFallback)
    ...     calque.jit(lambda x: x * 2)(3.0)
    6.0
    """


def refused_by(error: str, said: str, text: str, title: str, function: Function) -> Fallback:
    """Numba's message about the kernels of a text, and the user's line that it is about.

    ``error`` is the name of its error, ``title`` that of the file of the text.
    """
    said = _COLOURS.sub("", said)
    lines = [line.strip() for line in said.splitlines()]
    told = [line for line in lines if line and not line.startswith(_CONTEXT)]
    why = re.sub(r"\.? Raised from .*", "", told[0]) if told else error
    place = re.search(rf"{re.escape(title)}\S*?[\", ]+(?:line )?\(?(\d+)", said)
    origin = None if place is None else _origin_of(int(place[1]), text, function)
    why = f"Numba refuses a kernel: {why[:_LONGEST].rstrip('.')}."
    return Fallback(why, origin or with_text(function.origin), whole=True)


def _origin_of(line: int, text: str, function: Function) -> Origin | None:
    """The place in the user's source of a line of a text with kernels."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return origin_of_line(text, line, {**function.origins, **function.kernel_origins})
    return None


def is_of_compiler(error: BaseException) -> bool:
    """True for an error of Numba or LLVM while they compile; kernels' own errors are the user's."""
    if type(error).__module__.startswith(("numba", "llvmlite")):
        return True
    compilers = [sys.modules[n].__file__ or "" for n in ("numba", "llvmlite") if n in sys.modules]
    folders = tuple(os.path.dirname(file) + os.sep for file in compilers)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(folders):
            return True
        trace = trace.tb_next
    return False


def message(name: str, found: Sequence[Fallback], library: str = "NumPy") -> str:
    """The text that ``JitFallback`` shows for a function, and ``explain`` too."""
    whole = any(f.whole for f in found)
    head = f"{name if whole else f'A part of {name}'} runs as {library} source"
    shown = [str(CalqueError(f.why, f.origin, f.hint)) for f in found[:_MOST]]
    more = len(found) - len(shown)
    return "\n".join([f"{head}.", *shown, *[f"and {more} more: see calque.explain"] * (more > 0)])


def warn(name: str, found: Sequence[Fallback], library: str) -> str:
    """Give the warning at the user's line that is the reason, or at the one that calls.

    The text is that of the warning, which a method, say, gives once for all instances.
    """
    text = message(name, found, library)
    if text in _given:
        return text
    _given.add(text)
    origin = next((f.origin for f in found if f.origin is not None), None)
    if origin is None:
        warnings.warn(text, JitFallback, stacklevel=level_of_user())
    else:
        warnings.warn_explicit(text, JitFallback, origin.file, origin.line)
    return text


def forget(text: str) -> None:
    """Let a warning be given again: its function's programs are forgotten."""
    _given.discard(text)
