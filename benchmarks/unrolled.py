"""Transform times of loops that are unrolled, by their number of iterations.

    python benchmarks/unrolled.py [--write] [--only PATTERN] [--sizes 10,40,160]
                                  [--patience SECONDS] [--before FOLDER]

A time is the processor time of `calque.source` in a fresh process that has transformed a small
program before: reading the function, all passes, printing it; no machine code. "grad" is the
gradient's NumPy source, "jit" that of the compiled gradient, kernels and launcher. The last column
of each is how much longer the largest takes than the one before, which has a quarter of the
iterations where the sizes are 10, 40 and 160. A process that has used the seconds of `--patience`
is ended. `--before` measures another checkout, too: FOLDER holds it under the name `calque`.
`--write` keeps the table in benchmarks/results/unrolled.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from measuring import keep, ratio, shown, table
from programs.unrolled import PROGRAMS, X

RESULTS = Path(__file__).resolve().parent / "results" / "unrolled.md"
PATIENCE = 120  # seconds of processor time
MODES = ("grad", "jit")


def measured(name: str, mode: str, iterations: int, patience: int, folder: str) -> float | str:
    """The seconds of one transformation in a process of its own, or why there are none."""
    command = [sys.executable, __file__, "--patience", str(patience)]
    command += ["--run", name, mode, str(iterations)]
    environment = dict(os.environ, PYTHONPATH=folder) if folder else None
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == -signal.SIGXCPU:
        return f"no end in {patience} s"
    lines = (done.stdout if not done.returncode else done.stderr).strip().splitlines()
    return float(lines[-1]) if not done.returncode else lines[-1].partition(":")[0]


def run(name: str, mode: str, iterations: int, patience: int) -> None:
    """In the fresh process: print the seconds of one transformation."""
    resource.setrlimit(resource.RLIMIT_CPU, (patience, patience + 1))
    import calque

    def small(x):
        return np.sum(x * x)

    calque.source(calque.jit(calque.grad(small)), X)  # what is imported, and read, once
    function = calque.grad(PROGRAMS[name](iterations))
    began = time.process_time()
    calque.source(calque.jit(function) if mode == "jit" else function, X)
    print(time.process_time() - began)


def row(name: str, sizes: list[int], patience: int, folder: str) -> list[str]:
    """One program's cells: for each mode the times, and what the last is of the one before."""
    cells = [PROGRAMS[name].__doc__.strip().splitlines()[0].rstrip(".")]  # type: ignore[union-attr]
    for mode in MODES:
        found: list[float | str] = []
        for size in sizes:
            ended = not found or isinstance(found[-1], float)
            found.append(measured(name, mode, size, patience, folder) if ended else "")
        last = found[-2:]
        numbers = [t for t in last if isinstance(t, float)]
        cells += [shown(t) if isinstance(t, float) else t for t in found]
        cells.append(ratio(numbers[1] / numbers[0]) if len(numbers) == 2 else "")
    return cells


def tables(names: list[str], sizes: list[int], patience: int, folder: str) -> str:
    """The table of one version."""
    head = ["program"]
    for mode in MODES:
        head += [f"{mode}, {size}" for size in sizes] + [f"{mode}, last / before"]
    rows = []
    for name in names:
        rows.append(row(name, sizes, patience, folder))
        print(" | ".join(rows[-1]), flush=True)
    return table(head, rows)


def main() -> None:
    """Measure, and print or keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="10,40,160")
    parser.add_argument("--patience", type=int, default=PATIENCE)
    parser.add_argument("--before", default="")
    parser.add_argument("--run", nargs=3, default=None)
    given = parser.parse_args()
    if given.run:
        run(given.run[0], given.run[1], int(given.run[2]), given.patience)
        return
    names = [name for name in PROGRAMS if re.search(given.only, name)]
    sizes = [int(size) for size in given.sizes.split(",")]
    method = " ".join(str(__doc__).split("\n\n")[2].split())
    text = f"# Unrolled loops\n\nBy `benchmarks/unrolled.py`. {method}\n\n"
    text += f"Python {platform.python_version()}, NumPy {np.__version__}, "
    text += f"load average {os.getloadavg()[0]:.1f}.\n\n{tables(names, sizes, given.patience, '')}"
    if given.before:
        text += f"\n## Before\n\n{tables(names, sizes, given.patience, given.before)}"
    if given.write:
        keep(RESULTS, text)


if __name__ == "__main__":
    main()
