"""Programs that call BLAS or LAPACK run on one of its threads, or on all where that is quicker.

OpenBLAS's threads wait for each other in loops: where a core has other work (Numba's threads,
another program), a product takes ten times as long on all of them as on one. So, as for kernels,
a program is timed on both (``kernels.pace``).
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from calque.transpiler.forking import run_in_children
from calque.transpiler.ir import pytrees

_CALLS = re.compile(
    r" @ |\bnp\.(matmul|dot|vdot|inner|tensordot|einsum|convolve|correlate|linalg\.)"
    r"|\bsolve_triangular\("
)
_SPELLINGS = (
    ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads")  # NumPy's wheels
    + ("openblas_{}_num_threads64_", "openblas_{}_num_threads")
)
_NUMBERS = frozenset([float, bool, complex, np.float64, np.float32, np.complex128])
FROM = 1 << 12  # elements of the largest array from which BLAS may use several threads


def calls_blas(text: str) -> bool:
    """True if a program's text has calls that BLAS or LAPACK serves.

    >>> calls_blas("y = x @ W"), calls_blas("y = np.convolve(x, w)"), calls_blas("y = x + W")
    (True, True, False)
    """
    return _CALLS.search(text) is not None


class Library:
    """The number of threads of NumPy's BLAS, which is one for the whole process."""

    def __init__(self, read: Callable[[], int], write: Callable[[int], Any]):
        self.read, self.write = read, write
        self.calls, self.before = 0, 1  # calls on one thread now; the number before the first
        self.lock = threading.Lock()

    def forget_calls(self) -> None:
        """Reset the count of calls and the lock in a forked child, which has no other threads."""
        self.lock = threading.Lock()
        if self.calls:
            self.calls = 0
            self.write(self.before)

    def enter(self) -> None:
        """Begin a call on one thread."""
        with self.lock:
            self.calls += 1
            if self.calls == 1:
                self.before = self.read()
                self.write(1)

    def leave(self) -> None:
        """End a call on one thread; the last of several at a time puts the number back."""
        with self.lock:
            self.calls = max(0, self.calls - 1)
            if self.calls == 0:
                self.write(self.before)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Inside, there is one."""
        self.enter()
        try:
            yield
        finally:
            self.leave()


@functools.cache
def library() -> Library | None:
    """NumPy's BLAS if it is OpenBLAS, whose threads can be set."""
    try:
        loaded = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None
    for spelling in _SPELLINGS:
        try:
            read, write = (getattr(loaded, spelling.format(way)) for way in ("get", "set"))
        except AttributeError:
            continue
        read.argtypes, read.restype = (), ctypes.c_int
        write.argtypes, write.restype = (ctypes.c_int,), None
        found = Library(read, write)
        run_in_children(found.forget_calls)
        return found
    return None


def on_measured_threads(program: Callable[..., Any]) -> Callable[..., Any]:
    """A program that runs on one thread of BLAS, or on those there are if that is quicker."""
    blas = library()
    if blas is None or blas.read() <= 1:
        return program
    from calque.runtime.kernels.pace import Pace

    paces: dict[int, Pace] = {}  # by the size of the largest array, in powers of two

    def on_one(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        blas.enter()  # without a context manager, which takes longer than a small product
        try:
            return program(*args, **kwargs)
        finally:
            blas.leave()

    def on_all(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return program(*args, **kwargs)

    @functools.wraps(program)
    def launch(*args: Any, **kwargs: Any) -> Any:
        size = _largest((*args, *kwargs.values()) if kwargs else args)
        if size < FROM:
            return program(*args, **kwargs)
        width = size.bit_length()
        if width not in paces:
            paces[width] = Pace(compiles=False)
        return paces[width].run(on_one, on_all, (args, kwargs))

    return launch


def _largest(args: Sequence[Any]) -> int:
    """The elements of the largest array of a call, or ``FROM`` where they cannot be told.

    An integer may be the size of a matrix.

    >>> _largest((np.ones(3), 2.0, 5)), _largest(([np.ones(9), np.ones(6)],)), _largest((100,))
    (25, 9, 4096)
    """
    size = 0 if args else FROM
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            size = max(size, value.size)
        elif kind is int:
            size = max(size, min(value * value, FROM))
        elif kind not in _NUMBERS:
            leaves = pytrees.flatten(value)[0]
            whole = len(leaves) == 1 and leaves[0] is value
            size = max(size, FROM if whole else _largest(leaves) if leaves else 0)
    return size
