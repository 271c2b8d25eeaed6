"""Numba's test for BLAS, which imports SciPy, postponed until something needs the answer.

Numba makes the test when it loads its module of array functions, before the first kernel is
compiled: a fifth of a short first call. Only its ``np.correlate`` and ``np.convolve`` need the
answer; its matrix products import SciPy themselves.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ASKING = "numba.np.arraymath"  # the module that asks when it is imported


class Later:
    """The truth of what a function says, asked for when it is needed."""

    def __init__(self, ask: Callable[[], bool]):
        self._ask = functools.cache(ask)

    def __bool__(self) -> bool:
        return self._ask()


@contextmanager
def blas_later() -> Iterator[None]:
    """Within, Numba's module of array functions is imported without it."""
    if ASKING in sys.modules:
        yield
        return
    from numba.np import linalg

    plain: Any = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        yield
    finally:
        linalg.ensure_blas = plain
        module: Any = sys.modules.get(ASKING)
        if module is not None:
            module.ensure_blas = plain
            module._HAVE_BLAS = Later(module._check_blas)
