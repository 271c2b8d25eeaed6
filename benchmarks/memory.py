"""Gradients of long time loops within a given memory: time, and the memory that they take.

    python benchmarks/memory.py [--write] [--quick]

The program makes steps of a diffusion with decay on a ring. Each row is a process of its own: the
seconds of the program and of its gradient, the least of three runs after one that compiles, and by
how much the process's largest memory grew in them. JAX's row is `jax.checkpoint` around
an inner scan within an outer one, each of about the root of all steps, jitted. Gradients are
compared with those of the first row. `--quick` takes few steps, `--write` keeps the table in
benchmarks/results/memory.md. Exits 1 where gradients differ.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import calque
import measuring
from measuring import shown, table

RESULTS = Path(__file__).resolve().parent / "results" / "memory.md"
CELLS = 10_000
METHOD = (
    f"`python benchmarks/memory.py --write`: {CELLS:,} cells, float64; a state is 80 kB. Each row "
    "is a process of its own; times are the least of three runs, memory is by how much the largest "
    "resident size of the process grew in them. JAX: `jax.checkpoint` around an inner scan within "
    "an outer one, each of the root of all steps."
)


def simulate(u, steps):
    for _ in range(steps):
        change = np.roll(u, 1) - 2 * u + np.roll(u, -1)
        u = u + 0.1 * change - 0.001 * u**3
    return np.sum(u * u)


def by_jax(steps: int) -> tuple[Any, Any]:
    """The program and its gradient, as scans of JAX's."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    inner = round(steps**0.5)

    def step(u, _):
        change = jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)
        return u + 0.1 * change - 0.001 * u**3, None

    @jax.checkpoint
    def segment(u, _):
        return jax.lax.scan(step, u, None, inner)[0], None

    def program(u):
        u = jax.lax.scan(segment, u, None, steps // inner)[0]
        return jnp.sum(u * u)

    def ready(f: Any) -> Any:
        return lambda u: np.asarray(f(u))

    return ready(jax.jit(program)), ready(jax.jit(jax.grad(program)))


def by_calque(steps: int, memory: str) -> tuple[Any, Any]:
    """The program and its gradient within this memory; any, if it is empty."""
    gradient = calque.jit(calque.grad(simulate), memory=memory or None)
    primal = calque.jit(simulate)
    return (lambda u: primal(u, steps)), (lambda u: gradient(u, steps))


def measured(steps: int, memory: str) -> dict[str, Any]:
    """The figures of one row, and a sample of the gradient."""
    u = np.sin(np.linspace(0.0, 6.0, CELLS))
    made = by_jax if memory == "JAX" else by_calque
    few = 100  # compiled so, before memory is measured
    for run in made(*((few,) if memory == "JAX" else (few, memory))):
        run(u)
    primal, gradient = made(*((steps,) if memory == "JAX" else (steps, memory)))
    seconds = least(primal, u)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = least(gradient, u)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    sample = np.asarray(gradient(u))[:: CELLS // 10]
    return {"primal": seconds, "gradient": taken, "grown": grown, "sample": sample.tolist()}


def least(run: Any, u: Any) -> float:
    """The least of three runs' seconds; of one where that takes long."""
    run(u)
    found = []
    for _ in range(3):
        start = time.perf_counter()
        run(u)
        found.append(time.perf_counter() - start)
        if found[0] > 20.0:
            break
    return min(found)


def rows(quick: bool) -> list[tuple[int, str]]:
    """The steps and the memory of each row."""
    if quick:
        return [(900, memory) for memory in ("", "16MB", "2MB", "JAX")]
    many = [(10_000, memory) for memory in ("", "1GB", "100MB", "8MB", "JAX")]
    return [*many, *((1_000_000, memory) for memory in ("1GB", "100MB", "16MB", "JAX"))]


def main() -> int:
    """Measure every row in a process of its own, print the table; return 1 if gradients differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        steps, memory = json.loads(options.row)
        print(json.dumps(measured(steps, memory)))
        return 0
    head = ["steps", "memory", "the program", "its gradient", "ratio", "grown by"]
    lines = []
    samples: dict[int, Any] = {}
    differs = 0
    for steps, memory in rows(options.quick):
        command = [sys.executable, __file__, "--row", json.dumps([steps, memory])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        first = samples.setdefault(steps, found["sample"])
        differs |= not np.allclose(found["sample"], first, 1e-8, 1e-10)
        ratio = found["gradient"] / found["primal"]
        times = [shown(found["primal"]), shown(found["gradient"]), f"{ratio:.1f}"]
        lines.append([f"{steps:,}", memory or "any", *times, f"{found['grown'] / 1e6:,.0f} MB"])
        print(*lines[-1], sep="  ", flush=True)
    text = table(head, lines)
    print(text)
    if options.write:
        title = "# Gradients within a given memory"
        measuring.keep(RESULTS, f"{title}\n\n{METHOD} {measuring.versions()}\n\n{text}")
    return differs


if __name__ == "__main__":
    sys.exit(main())
