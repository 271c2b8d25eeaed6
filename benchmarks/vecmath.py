"""The vector functions: their largest error on a million points, and their speed against libm's.

    python benchmarks/vecmath.py [--write] [name ...]

Errors are in units in the last place, on a million points: in float32 against float64 NumPy or
SciPy, in float64 against NumPy's long double where that is wider and has the function; then the
worst 2,000 of these against mpmath. Where there is nothing wider, 40,000 points against mpmath.
Speed: a loop over a million elements in one thread, compiled with the flags of calque's kernels,
calling either; the median of interleaved runs, in the thread's own time, so that other work on the
machine counts for neither. `--write` keeps the table in benchmarks/results/vecmath.md.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.special

from calque.runtime import vecmath

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from vecmath_reference import EXACT, TWO_ARGUMENTS, pairs, points, ulps  # noqa: E402

RESULTS = HERE / "results" / "vecmath.md"
FLAGS = {"reassoc", "contract", "nsz"}
POINTS, EXACT_POINTS, RUNS = 1_000_000, 40_000, 15
NAMES = {"pow": "power"} | {n: f"arc{n[1:]}" for n in EXACT if n[0] == "a"}
WIDE = np.finfo(np.longdouble).nmant > 60
# where libm has no such function: what a loop would write instead
INSTEAD = {
    "exp10": lambda x: math.pow(10.0, x),
    "expit": lambda x: 1.0 / (1.0 + math.exp(-x)),
    "log_expit": lambda x: min(x, 0.0) - math.log1p(math.exp(-abs(x))),
    "logit": lambda x: math.log(x / (1.0 - x)),
    "erfcx": lambda x: math.exp(x * x) * math.erfc(x),
    "exp2": lambda x: np.exp2(x),
    "cbrt": lambda x: np.cbrt(x),
    "log2": lambda x: np.log2(x),
    "pow_minus_half": lambda x: x**-0.5,
    "pow_three_halves": lambda x: x**1.5,
    "pow_minus_three_halves": lambda x: x**-1.5,
    "pow_five_halves": lambda x: x**2.5,
    "pow_minus_five_halves": lambda x: x**-2.5,
}


def compiled(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A loop over ``function`` of ``count`` arguments, as calque's kernels are compiled."""
    if count == 2:

        def loop(x, y, out):
            for i in range(out.size):
                out[i] = function(x[i], y[i])

    else:

        def loop(x, out):
            for i in range(out.size):
                out[i] = function(x[i])

    return numba.njit(fastmath=FLAGS)(loop)


# for long doubles, which SciPy has not
WIDER = {
    "exp10": lambda x: np.power(np.longdouble(10), x),
    "expit": lambda x: 1 / (1 + np.exp(-x)),
    "log_expit": lambda x: -np.log1p(np.exp(-x)),
    "logit": lambda x: np.where(x < 0.25, np.log(x / (1 - x)), np.log1p((2 * x - 1) / (1 - x))),
}


def wider(name: str, args: tuple[np.ndarray, ...], dtype: Any) -> np.ndarray | None:
    """The values in a wider type; None where there is no such function."""
    special = getattr(scipy.special, name, None) if dtype is np.float32 else WIDER.get(name)
    function = getattr(np, NAMES.get(name, name), None) or special
    if function is None or (dtype is np.float64 and not WIDE):
        return None
    wide = np.longdouble if dtype is np.float64 else np.float64
    with np.errstate(all="ignore"):
        return function(*(a.astype(wide) for a in args))


def largest_error(name: str, loop: Callable[..., Any], dtype: Any) -> tuple[float, str, int]:
    """The largest error in ulp, where, and on how many points."""
    rng = np.random.default_rng(7)
    many = pairs if name in TWO_ARGUMENTS else points

    def run(count: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        found = many(name, count, dtype, rng)
        args = found if isinstance(found, tuple) else (found,)
        out = np.empty_like(args[0])
        loop(*args, out)
        return args, out

    share = run(6000)[1].size / 6000  # of the points that lie in the domain
    args, out = run(round(1.05 * POINTS / share))
    exact = wider(name, args, dtype)
    if exact is None:
        args, out = run(EXACT_POINTS)
        errors = ulps(name, out, *args)
    else:
        with np.errstate(all="ignore"):
            unit = np.spacing(np.abs(exact.astype(dtype))).astype(exact.dtype)
            errors = np.abs(out.astype(exact.dtype) - exact) / unit
            errors[np.isinf(out) & ~np.isfinite(exact.astype(dtype))] = 0.0
        worst = np.argsort(np.where(np.isnan(errors), np.inf, errors))[-2000:]
        checked = ulps(name, out[worst], *(a[worst] for a in args))
        count = out.size
        args, out, errors = tuple(a[worst] for a in args), out[worst], checked
    place = int(np.argmax(errors))
    where = ", ".join(f"{a[place]:.9g}" for a in args)
    return float(errors[place]), where, out.size if exact is None else count


def speeds(name: str, loops: list[Callable[..., Any]], dtype: Any) -> list[float]:
    """Nanoseconds an element of each loop, interleaved."""
    rng = np.random.default_rng(3)
    low, high = {"logit": (0.01, 0.99), "acosh": (1.01, 10.0)}.get(name, (0.01, 10.0))
    low, high = (-0.99, 0.99) if name in ("asin", "acos", "atanh") else (low, high)
    count = 2 if name in TWO_ARGUMENTS else 1
    args = [rng.uniform(low, high, POINTS).astype(dtype) for _ in range(count)]
    out = np.empty_like(args[0])
    times: list[list[float]] = [[] for _ in loops]
    for repeat in range(RUNS + 1):
        for taken, loop in zip(times, loops):
            start = time.thread_time()
            loop(*args, out)
            if repeat:
                taken.append(time.thread_time() - start)
    return [statistics.median(taken) / POINTS * 1e9 for taken in times]


def row(name: str, dtype: Any) -> str:
    """One line of the table."""
    record = vecmath.FUNCTIONS[name]
    count = 2 if name in TWO_ARGUMENTS else 1
    ours = compiled(record.compiled(dtype), count)
    library = INSTEAD.get(name) or getattr(math, name)
    library = numba.njit(fastmath=FLAGS)(library) if name in INSTEAD else library
    theirs = compiled(library, count)
    error, where, tried = largest_error(name, ours, dtype)
    mine, other = speeds(name, [ours, theirs], dtype)
    return (
        f"| {name} | {dtype.__name__} | {error:.2f} | {where} | {tried:,} "
        f"| {mine:.2f} | {other:.2f} | {other / mine:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(vecmath.FUNCTIONS))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, "
    versions += f"Numba {numba.__version__}"
    lines = [
        "# Vector functions against libm",
        "",
        f"`python benchmarks/vecmath.py --write`, {versions}, {platform.machine()}. Errors in ulp;",
        "thread times in ns an element, a loop over a million in one thread, medians.",
        "",
        "| function | dtype | largest error | at | points | ours | libm | times faster |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print(*lines, sep="\n")
    for name in given.names:
        for dtype in (np.float64, np.float32):
            lines.append(row(name, dtype))
            print(lines[-1], flush=True)
    if given.write:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
