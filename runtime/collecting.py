"""Work that makes many objects that stay, without Python's looking through them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
