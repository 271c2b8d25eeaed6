"""A word on the terminal about what takes long: never in a pipe, and once in a notebook.

After a second, a line says what is being made and how far it is; it goes when that is done.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calque.transpiler.forking import run_in_children

_LONG = 1.0  # seconds
_AGAIN = 0.5  # seconds between two lines
_telling = threading.Event()  # one line at a time
run_in_children(_telling.clear)


def is_terminal() -> bool:
    """Whether a line on the standard error stream is read as it is written."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False  # there is none, or it is closed


def _is_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")


def say(line: str) -> None:
    """Write a line, on a terminal alone."""
    if is_terminal():
        print(line, file=sys.stderr, flush=True)


@contextmanager
def watched(name: Callable[[], str], doing: Callable[[], str]) -> Iterator[None]:
    """Say from the first second on what is being done, where someone reads it; "" is nothing."""
    terminal = is_terminal()
    if not (terminal or _is_notebook()) or _telling.is_set():
        yield  # within another, or beside it in another thread
        return
    _telling.set()
    over = threading.Event()
    began = time.monotonic()

    def tell() -> None:
        if over.wait(_LONG):
            return
        if not terminal:
            if found := doing():
                print(f"calque: {name()}: {found}", file=sys.stderr, flush=True)
            return
        widest = 0
        while True:
            found = doing()
            seconds = time.monotonic() - began
            line = f"calque: {name()}: {found} ({seconds:.1f} s)" if found else ""
            print(f"\r{line.ljust(widest)}", end="", file=sys.stderr, flush=True)
            widest = max(widest, len(line))
            if over.wait(_AGAIN):
                break
        print(f"\r{' ' * widest}\r", end="", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        _telling.clear()
