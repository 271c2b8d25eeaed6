"""The compilation stage of each thread, and the line of the user's code that it works on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calque.transpiler.errors import file_name
from calque.transpiler.forking import run_in_children

READING = "reading the function"
WRITING = "writing the text"

raised_limits: list[int] = []  # of recursion: what it was before calque raised it

_stages: dict[int, list[tuple[str, Any]]] = {}  # by thread: the stages, one within another
run_in_children(_stages.clear)


@contextmanager
def stage(name: str, builder: Any = None) -> Iterator[None]:
    """Inside, this thread is at a stage; ``builder`` knows the line of the user's code.

    >>> with stage(READING):
    ...     standing(threading.get_ident())
    'reading the function'
    """
    here = _stages.setdefault(threading.get_ident(), [])
    here.append((name, builder))
    try:
        yield
    finally:
        if here:
            here.pop()
        if not here:
            _stages.pop(threading.get_ident(), None)


def standing(thread: int) -> str:
    """The innermost stage of a thread and its line of the user's code, as text; "" for none."""
    stages = list(_stages.get(thread, ()))
    if not stages:
        return ""
    builders = [builder for _, builder in stages if builder is not None]
    origin = builders[-1].origin if builders else None
    name = stages[-1][0]
    if origin is None:
        return name
    place = f"{file_name(origin.file)}, line {origin.line}, in {origin.function}"
    return f"{name}, at {place}: {origin.text.strip()}"


def recursion_limit() -> int:
    """Python's limit of nested calls as the user has set it."""
    return raised_limits[0] if raised_limits else sys.getrecursionlimit()
