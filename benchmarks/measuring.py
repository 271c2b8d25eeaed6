"""Times of peers, side by side in one process; agreement of their results; tables.

A time is the least of several medians: in each sweep the peers take turns, each time in another
order (threads of the one before may still spin when the next one starts), and each one's median
of the sweep is taken; the least median of all sweeps is what is shown. Another process
that takes the machine for a while spoils a sweep, not the figure. Short calls are repeated until a
sample lasts 2 ms.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

METHOD = (
    "Peers take turns in one process on the same inputs, each time in another order; a time is "
    "the least of three sweeps' medians. Before timing, the peers' results are compared."
)
NOTES = "\n## Notes\n"
Run = Callable[[], float]


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments that a program may store into."""
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def once(call: Callable[..., Any], args: tuple[Any, ...], stores: bool = False) -> Run:
    """A run that returns the seconds of one call; a call that stores gets copies, off the clock."""

    def run() -> float:
        given = copied(args) if stores else args
        start = time.perf_counter()
        call(*given)
        return time.perf_counter() - start

    return run


def repeated(call: Callable[..., Any], args: tuple[Any, ...], times: int) -> Run:
    """A run of many calls, the seconds of one."""

    def run() -> float:
        turns = range(times)
        start = time.perf_counter()
        for _ in turns:
            call(*args)
        return (time.perf_counter() - start) / times

    return run


def sampled(call: Callable[..., Any], args: tuple[Any, ...], stores: bool = False) -> Run:
    """The run for a call: single, or repeated where one is too short for the clock."""
    single = once(call, args, stores)
    single()
    length = min(single() for _ in range(3))
    if stores or length > 2e-3:
        return single
    return repeated(call, args, max(1, int(2e-3 / max(length, 1e-8))))


def times(
    runs: dict[str, Run], sweeps: int = 3, repeats: int = 9, seconds: float = 4.0
) -> dict[str, float]:
    """The least of the sweeps' medians of each peer; where one is slow, fewer of all."""
    longest = sum(run() for run in runs.values())
    repeats = max(3, min(repeats, int(seconds / (sweeps * max(longest, 1e-6)))))
    if longest > seconds:
        sweeps, repeats = 1, 2
    medians: dict[str, list[float]] = {name: [] for name in runs}
    orders = random.Random(3)
    for _ in range(sweeps):
        samples: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeats):
            for name in orders.sample(sorted(runs), len(runs)):
                samples[name].append(runs[name]())
        for name, found in samples.items():
            medians[name].append(statistics.median(found))
    return {name: min(found) for name, found in medians.items()}


def least_processor_time(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The least processor time of a call, on all threads; short calls are measured together."""
    call()
    began, best, repeats = time.process_time(), float("inf"), 1
    while time.process_time() - began < seconds:
        start = time.process_time()
        for _ in range(repeats):
            call()
        taken = time.process_time() - start
        best = min(best, taken / repeats)
        if taken < 5e-3:
            repeats *= 2
    return best


def leaves(tree: Any) -> list[Any]:
    """The arrays and numbers of nested results, in order."""
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    return [tree]


TOLERANCES = {4: 2e-4, 8: 1e-9}


def difference(found: Any, expected: Any) -> str:
    """Describe how a result differs from the expected one; empty if shapes and numbers agree."""
    mine, other = leaves(found), leaves(expected)
    if len(mine) != len(other):
        return f"{len(mine)} results for {len(other)}"
    for left, right in zip(mine, other, strict=True):
        a, b = np.asarray(left), np.asarray(right)
        if a.shape != b.shape:
            return f"shape {a.shape} for {b.shape}"
        if not a.size:
            continue
        if a.dtype.kind not in "fc":
            if not np.array_equal(a, b):
                return "other integers"
            continue
        width = min(a.real.dtype.itemsize, b.real.dtype.itemsize)
        tolerance = TOLERANCES[width]
        scale = max(1.0, float(np.max(np.abs(b))))
        error = float(np.max(np.abs(a.astype(np.complex128) - b))) / scale
        if not error <= tolerance:
            return f"off by {error:.1e}"
    return ""


def shown(seconds: float | None) -> str:
    """A time in its natural unit."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio(value: float | None) -> str:
    """A ratio, or nothing."""
    return "" if value is None else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(head), *[list(row) for row in rows]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def keep(page: Path, text: str) -> None:
    """Write a page of results; what stands on it from its notes on stays."""
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    _, heading, notes = before.partition(NOTES)
    page.write_text(text.rstrip("\n") + "\n" + heading + notes, encoding="utf-8")


def versions() -> str:
    """The versions of all peers, cores and threads, and how busy the machine is."""
    import jax
    import numba

    threads = os.environ.get("OPENBLAS_NUM_THREADS", "as many as cores")
    return (
        f"Python {platform.python_version()}, NumPy {np.__version__} (BLAS threads: {threads}), "
        f"JAX {jax.__version__} (CPU, x64 on), Numba {numba.__version__}, {os.cpu_count()} cores, "
        f"load average {os.getloadavg()[0]:.1f}."
    )
