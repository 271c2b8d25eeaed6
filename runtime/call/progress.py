"""Progress of work that takes long: on the terminal after a second, in the log after five.

On a terminal a line says what is being made and how far it is; it goes when that is done. A
notebook gets one line. Wherever the output goes, the logger ``calque`` warns after five
seconds, and again after ten, twenty, and so on: which function, which stage, which line. The
command `calque` does without the log: in a pipe it says nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calque.transpiler.forking import run_in_children
from calque.transpiler.ir.stages import standing

_LONG = 1.0  # seconds
_AGAIN = 0.5  # seconds between two lines
_LOGGED = 5.0  # seconds
_telling = threading.Event()  # one line at a time
run_in_children(_telling.clear)
_log = logging.getLogger("calque")


def is_terminal() -> bool:
    """True if the standard error stream is a terminal, read as it is written."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False  # there is none, or it is closed


def _is_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")


def quiet_log() -> None:
    """Keep the log off the standard error stream, unless the program's own settings ask for it."""
    if not _log.handlers:
        _log.addHandler(logging.NullHandler())


def _columns() -> int:
    """The columns of a line that can be written again: the last one may wrap."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal of the system's
        columns = 0
    return columns - 1 if columns else 200


def shortened(text: str, length: int) -> str:
    """A text of one line, cut where it is too long.

    >>> shortened("abcdefgh", 8), shortened("abcdefghi", 8)
    ('abcdefgh', 'abcde...')
    """
    return text if len(text) <= length else text[: max(0, length - 3)] + "..."


def say(line: str) -> None:
    """Write a line, on a terminal alone."""
    if is_terminal():
        print(line, file=sys.stderr, flush=True)


@contextmanager
def watched(name: Callable[[], str], doing: Callable[[], str]) -> Iterator[None]:
    """Say what is being done where someone reads it, and log it; "" is nothing."""
    if _telling.is_set():
        yield  # within another, or beside it in another thread
        return
    _telling.set()
    teller = _Teller(name, doing)
    teller.start()
    try:
        yield
    finally:
        teller.over.set()
        teller.join()
        _telling.clear()


class _Teller(threading.Thread):
    """Tells what the thread that starts it does, until that is over."""

    def __init__(self, name: Callable[[], str], doing: Callable[[], str]):
        super().__init__(daemon=True)
        self.over = threading.Event()
        self._called, self._doing = name, doing
        self._maker = threading.get_ident()
        self._began = time.monotonic()
        self._shown = 0  # letters of the line on the terminal
        self._next = _LOGGED

    def run(self) -> None:
        """Wait, and tell; the terminal is told often, a notebook once."""
        terminal = is_terminal()
        if terminal or _is_notebook():
            if self.over.wait(_LONG):
                return
            if not terminal:
                if found := self._doing():
                    print(f"calque: {self._called()}: {found}", file=sys.stderr, flush=True)
            while terminal:
                self._show()
                if self.over.wait(_AGAIN):
                    self._clear()
                    return
                self._log()
        while not self.over.wait(max(0.0, self._next - self._seconds())):
            self._log()

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _show(self) -> None:
        """Write the line again: which function, what is done, and at which of the user's lines."""
        found, line = self._now(), ""
        if found:
            seconds = f" ({self._seconds():.1f} s)"
            line = shortened(f"calque: {self._called()}: {found}", _columns() - len(seconds))
            line += seconds
        print(f"\r{line.ljust(self._shown)}", end="", file=sys.stderr, flush=True)
        self._shown = max(self._shown, len(line))

    def _now(self) -> str:
        """The step and its place as text; "" for nothing that is to be told."""
        found = self._doing()
        where = standing(self._maker) if found else ""
        return f"{found}, {where}" if where else found

    def _clear(self) -> None:
        print(f"\r{' ' * self._shown}\r", end="", file=sys.stderr, flush=True)

    def _log(self) -> None:
        if self._seconds() < self._next:
            return
        self._next *= 2.0
        found = self._now()
        if not found:
            return
        if self._shown:
            self._clear()
        _log.warning("calque: %s: %s (%.0f s so far)", self._called(), found, self._seconds())
