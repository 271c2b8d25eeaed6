"""First calls of jitted gradients in fresh processes: calque cold, warm, NumPy first; JAX cold.

    python benchmarks/first_calls.py [--write] [--only PATTERN] [--repeats N] [--mine]

A first call is timed from the call on to its result: `calque`, or `jax`, is imported before; what
these import later counts. Cold is with an empty cache on disk, warm with what the cold call left
there; "NumPy first" is cold, too, with `jit(f, first="numpy")`, and "kernels" the time after
which its kernels were ready. Each is a process of its own; peers take turns, and a time is the
median of the repetitions. In the first one the gradients are compared. `--mine` leaves JAX out;
`--write` keeps the table in benchmarks/results/first_calls.md. Exits 1 where a gradient is wrong,
or a call fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import measuring
from first_work import programs
from measuring import ratio, shown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "first_calls.md"
PATIENCE = 300.0
COLD, WARM, TIERED, JAX = "cold", "warm", "NumPy first", "JAX"
READY = "kernels"  # of NumPy first
PHASES = ("tracing", "passes", "printing", "Numba's Python", "LLVM")


def first_call(name: str, times: int, peer: str, cache: str) -> dict[str, Any]:
    """Time one first call in a fresh process; return the seconds, their parts, and the gradient."""
    command = [sys.executable, __file__, "--run", name, str(times), peer]
    environment = dict(os.environ, CALQUE_CACHE=cache)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "gradient.npz")
        done = subprocess.run(
            [*command, str(file)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1][:200])
        told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        with np.load(file) as found:
            told["gradient"] = [found[key] for key in found.files]
    return told


def run(name: str, times: int, peer: str, file: str) -> None:
    """In the fresh process: one first call."""
    args = programs.arguments(name)
    if peer == JAX:
        seconds, parts, found = _of_jax(name, times, args)
    else:
        seconds, parts, found = _of_calque(name, times, args, peer == TIERED)
    np.savez(file, *[np.asarray(leaf) for leaf in measuring.leaves(found)])
    print(json.dumps({"seconds": seconds, "parts": parts}))


def _of_jax(name: str, times: int, args: tuple[Any, ...]) -> tuple[float, dict[str, float], Any]:
    import jax

    from cpu_work.peers import on_device
    from first_work import jax_programs

    gradient = jax.grad(programs.loss_of(jax_programs.body(name), times))
    static = tuple(k for k, a in enumerate(args) if type(a) is int)
    call, given = jax.jit(gradient, static_argnums=static), on_device(args)
    start = time.perf_counter()
    found = jax.block_until_ready(call(*given))
    return time.perf_counter() - start, {}, found


def _of_calque(
    name: str, times: int, args: tuple[Any, ...], tiered: bool
) -> tuple[float, dict[str, float], Any]:
    import calque
    from calque.transpiler import pipeline, texts

    spent = dict.fromkeys(PHASES, 0.0)
    steps = ((pipeline, "to_core"), (pipeline, "to_kernels"), (texts, "module_text"))
    for phase, (home, step) in zip(PHASES, steps, strict=False):
        setattr(home, step, _timed(getattr(home, step), phase, spent))
    first = "numpy" if tiered else "kernels"
    gradient = calque.grad(programs.loss_of(getattr(programs, name), times))
    call = calque.jit(gradient, first=first)
    start = time.perf_counter()
    if not tiered:
        _time_llvm(spent)
    found = call(*args)
    seconds = time.perf_counter() - start
    call.wait()
    spent[READY] = time.perf_counter() - start
    made = sum(kernel.seconds for kernel in call.cache_info().kernels)
    spent["Numba's Python"] = made - spent["LLVM"]
    return seconds, spent, found


def _timed(step: Any, phase: str, spent: dict[str, float]) -> Any:
    """A function that adds what it takes to a phase."""

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return step(*args, **kwargs)
        finally:
            spent[phase] += time.perf_counter() - start

    return call


def _time_llvm(spent: dict[str, float]) -> None:
    """Count the time spent in Numba's libraries of machine code as LLVM's."""
    from numba.core.codegen import CPUCodeLibrary

    for step in ("add_ir_module", "finalize"):
        setattr(CPUCodeLibrary, step, _timed(getattr(CPUCodeLibrary, step), "LLVM", spent))


def measured(
    name: str, times: int, repeats: int, peers: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, float], str]:
    """Medians by peer, the parts of the cold calls, and what is wrong with a gradient."""
    seconds: dict[str, list[float]] = {peer: [] for peer in peers}
    parts: list[dict[str, float]] = []
    wrong = ""
    for k in range(repeats):
        found: dict[str, list[Any]] = {}
        with tempfile.TemporaryDirectory() as cache:
            for peer in peers:
                given = os.path.join(cache, "tiered") if peer == TIERED else cache
                told = first_call(name, times, peer, given)
                seconds[peer].append(told["seconds"])
                found[peer] = told["gradient"]
                if peer == COLD:
                    parts.append(told["parts"])
                if peer == TIERED:
                    seconds.setdefault(READY, []).append(told["parts"][READY])
        for peer in peers if k == 0 else ():
            what = measuring.difference(found[peer], found[peers[-1]])
            wrong = f"{peer} against {peers[-1]}: {what}" if what else wrong
    medians = {peer: statistics.median(found) for peer, found in seconds.items()}
    return medians, {p: statistics.median(t[p] for t in parts) for p in PHASES}, wrong


def row(name: str, times: int, found: dict[str, float], parts: dict[str, float]) -> list[str]:
    """A line of the table."""
    cold, warm, jax = found[COLD], found[WARM], found.get(JAX)
    label = name.replace("_", " ") + (f", {times} times" if times > 1 else "")
    against = (cold, warm, found[TIERED])
    ratios = [ratio(mine / jax) for mine in against] if jax is not None else [""] * 3
    cells = [label, *map(shown, (*against, found[READY], jax)), *ratios]
    return [*cells, *[f"{parts[phase]:.2f}" for phase in PHASES]]


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mine", action="store_true")
    parser.add_argument("--run", nargs=4, metavar=("NAME", "TIMES", "PEER", "FILE"))
    options = parser.parse_args()
    if options.run:
        name, times, peer, file = options.run
        run(name, int(times), peer, file)
        return 0
    peers = (COLD, WARM, TIERED) if options.mine else (COLD, WARM, TIERED, JAX)
    work = [(name, t) for name in programs.BODIES for t in (1, 2, 3)]
    work = [(n, t) for n, t in work if t == 1 or n in programs.REPEATED]
    rows, problems = [], []
    for name, times in work:
        if not re.search(options.only, f"{name} {times}"):
            continue
        try:
            found, parts, wrong = measured(name, times, options.repeats, peers)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            problems.append(f"{name} {times}: {error}")
            continue
        if wrong:
            problems.append(f"{name} {times}: {wrong}")
        rows.append(row(name, times, found, parts))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ["gradient of", COLD, WARM, TIERED, READY, JAX]
    head += [f"{mine} / JAX" for mine in (COLD, WARM, TIERED)] + [*PHASES]
    text = measuring.table(head, rows)
    print(text + "".join(f"\n{problem}" for problem in problems))
    if options.write:
        method = " ".join(line.strip() for line in __doc__.split("\n\n")[2].splitlines())
        said = f"# First calls\n\nBy `benchmarks/first_calls.py`. {method}\n\n"
        where = "The last columns are seconds of the cold call; the rest is imports.\n"
        measuring.keep(RESULTS, f"{said}{measuring.versions()}\n\n{text}\n{where}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
