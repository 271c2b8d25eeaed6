"""Derivatives of families of programs: calque against JAX and against derivatives by hand.

    python benchmarks/families.py [--write] [--only PATTERN] [--quick]

Each family is written in several ways (scalars, vectors, lists, matrices), because a user should
not have to know which of them is fast. `--quick` takes small inputs, `--write` keeps the table in
benchmarks/results/families.md. Exits 1 where results disagree.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import jax
from numpy_programs import on_jax, waiting

import calque
import measuring
from measuring import copied, shown
from programs import adaptive, contractions, observations, recurrences, sweeps, windows
from programs.family import Row

FAMILIES = (observations, recurrences, adaptive, sweeps, contractions, windows)
RESULTS = Path(__file__).resolve().parent / "results" / "families.md"
ROWS = [row for family in FAMILIES for row in family.ROWS]


def measured(row: Row, size: int) -> tuple[list[str], str]:
    """The cells of a row, and what is wrong."""
    args = row.inputs(size)
    given = on_jax(args)
    static = tuple(k for k, value in enumerate(args) if type(value) is int)
    theirs = waiting(jax.jit(row.jax, static_argnums=static))
    ours = calque.jit(row.ours)
    expected = theirs(*given)
    wrong = measuring.difference(ours(*copied(args)), expected)
    runs = {"JAX": measuring.sampled(theirs, given), "calque": measuring.sampled(ours, args)}
    if row.hand is not None:
        wrong = wrong or measuring.difference(row.hand(*copied(args)), expected)
        runs["hand"] = measuring.sampled(row.hand, args)
    if row.primal is not None:
        primal = calque.jit(row.primal)
        primal(*copied(args))
        runs["primal"] = measuring.sampled(primal, args)
    found = measuring.times(runs)
    cells = [shown(found.get(name)) for name in ("primal", "hand", "JAX", "calque")]
    over = [found["calque"] / found[name] if name in found else None for name in ("primal", "JAX")]
    return [row.name, *cells, *map(measuring.ratio, over)], wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of rows' names")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    lines, problems = [], []
    for row in ROWS:
        if not re.search(options.only, row.name):
            continue
        cells, wrong = measured(row, row.small if options.quick else row.large)
        print(" | ".join(cells), wrong, flush=True, file=sys.stderr)
        lines.append(cells)
        problems += [f"{row.name}: {wrong}"] if wrong else []
    head = ["program", "primal", "by hand", "JAX", "calque", "calque / primal", "calque / JAX"]
    text = "\n".join(
        [
            "# Families of programs\n",
            f"By `benchmarks/families.py`. {measuring.METHOD} {measuring.versions()}\n",
            measuring.table(head, lines),
            *[f"- {line}" for line in problems],
        ]
    )
    print(text)
    if options.write:
        measuring.keep(RESULTS, text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
