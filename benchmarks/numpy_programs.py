"""Numerical NumPy programs: value and gradient by calque, against JAX and hand-written Numba.

    python benchmarks/numpy_programs.py [--write] [--only PATTERN] [--quick]

The programs are in benchmarks/programs, each in plain NumPy, in JAX's best form and as loops for
Numba. `--quick` takes small inputs, `--write` keeps the tables in
benchmarks/results/numpy_programs.md. Exits 1 where results disagree.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import calque
import measuring
from measuring import copied, shown
from programs import flow, linear_algebra, neural, physics, sequences, stencils
from programs.record import Program

RESULTS = Path(__file__).resolve().parent / "results" / "numpy_programs.md"
FAMILIES = (linear_algebra, stencils, flow, physics, sequences, neural)
PROGRAMS = [program for family in FAMILIES for program in family.PROGRAMS]
JIT: Callable[..., Any] | None = getattr(calque, "jit", None)
# No gradient slower than JAX's, no value slower than this many times hand-written Numba's.
GRADIENT_GOAL, VALUE_GOAL = 1.0, 1.2


def loss_of(function: Callable[..., Any], xp: Any) -> Callable[..., Any]:
    """The sum of squared magnitudes of all results of a program."""

    def loss(*args):
        out = function(*args)
        total = 0.0
        for part in out if isinstance(out, tuple) else (out,):
            if xp.iscomplexobj(part):
                total = total + xp.sum(part.real**2 + part.imag**2)
            else:
                total = total + xp.sum(part * part)
        return total

    loss.__name__ = f"{function.__name__}_loss"
    return loss


def waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    """JAX returns before it is done."""

    def call(*args: Any) -> Any:
        return jax.block_until_ready(function(*args))

    return call


def on_jax(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args)


def value_peers(program: Program) -> dict[str, Callable[..., Any]]:
    """Who computes the value."""
    peers = {
        "NumPy": program.numpy,
        "Numba": program.numba,
        "JAX": waiting(jax.jit(program.jax, static_argnums=program.static())),
    }
    if JIT is not None:
        peers["calque jit"] = JIT(program.numpy)
    return peers


def gradient_peers(program: Program) -> dict[str, Callable[..., Any]]:
    """Who computes the gradient of the loss."""
    peer = jax.grad(loss_of(program.jax, jnp), argnums=program.wrt)
    ours = calque.grad(loss_of(program.numpy, np), argnums=program.wrt)
    peers: dict[str, Callable[..., Any]] = {
        "JAX": waiting(jax.jit(peer, static_argnums=program.static())),
        "calque NumPy": ours,
    }
    if JIT is not None:
        peers["calque jit"] = JIT(ours)
    return peers


def measured(
    peers: dict[str, Callable[..., Any]], args: tuple[Any, ...], reference: str, stores: bool
) -> tuple[dict[str, float], list[str]]:
    """The peers' times, and what is wrong: a peer that fails or disagrees is not timed."""
    results, wrong, runs = {}, [], {}
    for name, peer in peers.items():
        try:
            results[name] = peer(*(on_jax(args) if name == "JAX" else copied(args)))
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    for name, result in results.items():
        what = measuring.difference(result, results[reference])
        if what:
            wrong.append(f"{name} against {reference}: {what}")
        elif name == "JAX":
            runs[name] = measuring.sampled(peers[name], on_jax(args))
        else:
            runs[name] = measuring.sampled(peers[name], args, stores)
    return measuring.times(runs), wrong


def stores_into_arguments(program: Program) -> bool:
    args = program.inputs(program.small)
    given = copied(args)
    program.numpy(*given)
    return any(not np.array_equal(a, b) for a, b in zip(args, given, strict=True))


def value_row(program: Program, size: int) -> tuple[list[str], list[str], float | None]:
    found, wrong = measured(
        value_peers(program), program.inputs(size), "NumPy", stores_into_arguments(program)
    )
    cells = [shown(found.get(name)) for name in ("NumPy", "Numba", "JAX", "calque jit")]
    ratio = None
    if "calque jit" in found and "Numba" in found:
        ratio = found["calque jit"] / found["Numba"]
    kept = "" if ratio is None else "yes" if ratio <= VALUE_GOAL else "NO"
    over = "" if "calque jit" not in found else f"{found['JAX'] / found['calque jit']:.2f}"
    row = [
        program.name,
        *cells,
        "no jit yet" if JIT is None else measuring.ratio(ratio),
        over,
        kept,
    ]
    return row, [f"{program.name}, value: {line}" for line in wrong], ratio


def gradient_row(program: Program, size: int) -> tuple[list[str], list[str], float | None]:
    found, wrong = measured(gradient_peers(program), program.inputs(size), "JAX", False)
    cells = [shown(found.get(name)) for name in ("JAX", "calque NumPy", "calque jit")]
    plain = found["JAX"] / found["calque NumPy"] if "calque NumPy" in found else None
    ratio = found["JAX"] / found["calque jit"] if "calque jit" in found else None
    kept = "" if ratio is None else "yes" if ratio >= GRADIENT_GOAL else "NO"
    last = "no jit yet" if JIT is None else measuring.ratio(ratio)
    row = [program.name, *cells, measuring.ratio(plain), last, kept]
    return row, [f"{program.name}, gradient: {line}" for line in wrong], ratio


def geometric_mean(ratios: list[float | None]) -> str:
    known = [math.log(r) for r in ratios if r is not None]
    return f"{math.exp(sum(known) / len(known)):.2f}" if known else "none"


def report(programs: list[Program], quick: bool) -> tuple[str, list[str]]:
    """Both tables, and what is wrong."""
    values, gradients, problems = [], [], []
    value_ratios: list[float | None] = []
    gradient_ratios: list[float | None] = []
    for program in programs:
        size = program.small if quick else program.large
        row, wrong, ratio = value_row(program, size)
        print("value   ", " | ".join(row), flush=True, file=sys.stderr)
        values.append(row)
        value_ratios.append(ratio)
        problems += wrong
        if program.wrt:
            row, wrong, ratio = gradient_row(program, size)
            print("gradient", " | ".join(row), flush=True, file=sys.stderr)
            gradients.append(row)
            gradient_ratios.append(ratio)
            problems += wrong
    both = ["JAX / jit", "kept"]
    value_head = ["program", "NumPy", "Numba", "JAX", "calque jit", "jit / Numba", *both]
    gradient_head = ["program", "JAX", "calque NumPy", "calque jit", "JAX / NumPy", *both]
    lines = [
        "# Numerical NumPy programs\n",
        f"By `benchmarks/numpy_programs.py`{' --quick' if quick else ''}. {measuring.METHOD} "
        f"{measuring.versions()}\n",
        f"## Value (goal: at most {VALUE_GOAL:g} times hand-written Numba)\n",
        measuring.table(value_head, values),
        f"Geometric mean of jit / Numba: {geometric_mean(value_ratios)}.\n",
        "## Gradient of the sum of squares (goal: no slower than JAX)\n",
        measuring.table(gradient_head, gradients),
        f"Geometric mean of JAX / jit: {geometric_mean(gradient_ratios)}.\n",
    ]
    if problems:
        lines += ["## Wrong or failing\n", *[f"- {line}" for line in problems], ""]
    return "\n".join(lines), problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {RESULTS.name}")
    parser.add_argument("--only", default="", help="a regular expression of program names")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    text, problems = report(
        [program for program in PROGRAMS if re.search(options.only, program.name)], options.quick
    )
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
