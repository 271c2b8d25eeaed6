"""A pause of Python's garbage collector for work that makes many objects that stay."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from calque.transpiler.ir.stages import raised_limits


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles of objects within.

    A function of a thousand lines becomes a million objects, nearly all of which stay until it is
    compiled; each search goes through them all, and through those of the program around it.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_DEPTH = 15_000  # calls within calls: of a sum of thousands of terms, of hundreds of functions


@contextmanager
def deep() -> Iterator[None]:
    """Python's limit of nested calls is high within: the depth of a program is no error.

    The interpreter has a limit of its own for a function that calls itself.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    raised_limits.append(before)
    try:
        yield
    finally:
        raised_limits.pop()
        sys.setrecursionlimit(before)
