"""Checks of kernels on a card: results against NumPy's, and the device tests that are to confirm.

``python benchmarks/gpu.py --quick`` runs them beside short measurements, within six minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

import calque

ROOT = Path(__file__).parent.parent
# what only the emulator has run, the newest first; and what failed on a card without its name
CONFIRMED_BY = (
    *("test_cuda_online_sums.py", "test_cuda_chosen_extrema.py", "test_cuda_scans.py"),
    *("test_cuda_stencils.py", "test_cuda_sums.py", "test_cuda_regressions.py"),
    *("test_golden_cuda.py", "test_cuda_primitives.py", "test_cuda_battery.py"),
)
SHAPES = ((1, 1), (333, 3), (45, 15), (37, 1001), (5, 9001), (3, 30_011))
TOLERANCE = {"float32": 3e-5, "float64": 1e-11}


class Check(NamedTuple):
    """A program, and its arguments for an array of a shape."""

    name: str
    call: Callable[..., Any]
    plain: Callable[..., Any]
    more: tuple[Any, ...] = ()


def lowest(x):
    best = x[0]
    for i in range(1, x.size):
        best = min(best, x[i])
    return best


def normalized(x):
    centered = x - np.mean(x, axis=1, keepdims=True)
    return centered / np.sqrt(np.mean(centered * centered, axis=1, keepdims=True) + 1e-3)


def diffused(u, steps):
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = inner + 0.1 * (around - 4.0 * inner)
    return np.sum(u * u), u


def checks() -> Iterator[Check]:
    """One for each form of kernel."""

    def of_row(x):
        return np.sum(logsumexp(x, axis=1) ** 2)

    def of_values(name: str, f: Callable[..., Any], *more: Any) -> Check:
        return Check(name, calque.jit(f), f, more)

    for axis in (0, 1):
        yield of_values(f"sum, axis {axis}", lambda x, axis=axis: np.sum(x, axis=axis))
        yield of_values(f"logsumexp, axis {axis}", lambda x, axis=axis: logsumexp(x, axis=axis))
        yield of_values(f"softmax, axis {axis}", lambda x, axis=axis: softmax(x, axis=axis))
        yield of_values(f"cumsum, axis {axis}", lambda x, axis=axis: np.cumsum(x, axis=axis))
    yield of_values("running sum of all", lambda x: np.cumsum(x.reshape(-1)) * 0.5)
    yield of_values("layer norm", normalized)
    yield of_values("a chosen minimum", lambda x: lowest(x.reshape(-1)))
    yield of_values("steps of a stencil", diffused, 3)
    yield Check("slope of logsumexp", calque.jit(calque.grad(of_row)), calque.grad(of_row))


def failures(cp: ModuleType, shapes: Iterable[tuple[int, ...]] = SHAPES) -> list[str]:
    """The checks whose results are not NumPy's, each with the largest difference."""
    found = []
    for check in checks():
        for dtype in TOLERANCE:
            for shape in shapes:
                if check.name == "steps of a stencil" and min(shape) < 2:
                    continue
                x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
                try:
                    wrong = difference(cp, check, x)
                except Exception as error:
                    wrong = f"{type(error).__name__}: {error}"
                if wrong:
                    found.append(f"{check.name}, {dtype}{list(shape)}: {wrong}")
    return found


def difference(cp: ModuleType, check: Check, x: np.ndarray) -> str:
    """The distance of results from those of NumPy in float64; empty if they are near enough."""
    given = cp.asarray(x)
    got = check.call(given, *check.more)
    wide = x.astype(np.float64)
    want = check.plain(wide, *check.more)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for one, other in [*pairs, (given, wide)]:  # what the call leaves in its argument, too
        one, other = np.asarray(getattr(one, "get", lambda one=one: one)()), np.asarray(other)
        scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
        far = float(np.max(np.abs(one - other), initial=0.0)) / scale
        if one.shape != other.shape or not far <= TOLERANCE[str(x.dtype)]:
            return f"shape {one.shape}, differs by {far:.2g}"
    return ""


def device_tests(seconds: float) -> str:
    """Run the tests that are to confirm on the card for so long; the lines that say what failed."""
    files = [str(ROOT / "tests" / name) for name in CONFIRMED_BY]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-rf", "--tb=line", *files]
    environment = {**os.environ, "CALQUE_TESTS_ON": "card"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        try:
            text, _ = running.communicate(timeout=max(seconds, 1.0))
        except subprocess.TimeoutExpired:
            running.send_signal(2)  # pytest ends with its report
            text, _ = running.communicate()
    lines = text.decode(errors="replace").splitlines()
    told = [t for t in lines if t.startswith(("FAILED", "ERROR")) or " passed" in t]
    return "\n".join(told or lines[-5:])
