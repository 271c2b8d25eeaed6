"""The picture of speeds beside JAX's on the first page, drawn from benchmarks/results.

It is SVG within the page, and has the colours of the theme, light or dark. Each row of ``ROWS`` is
a row of a table; a bar to the right says how many times quicker calque is, one to the left how many
times slower, on a logarithmic scale.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results"
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class Row(NamedTuple):
    """A row of a table of results: its file, its first cell, columns of both times, and a label."""

    file: str
    work: str
    ours: str
    theirs: str
    label: str


class Speed(NamedTuple):
    """Two measured times, as the table has them, and how many times quicker calque is."""

    label: str
    ours: str
    theirs: str
    times: float


STEP = "MLP 784-512-512-10, SGD step, batch 128, float32"
LOOPS = ("calque jit", "JAX, best form")
ARRAYS = ("calque jit", "JAX")
FAMILIES = ("calque", "JAX")
ROWS = [
    Row("cpu", "cholesky", *LOOPS, "gradient of a Cholesky factorization in loops"),
    Row("cpu", "seidel_2d", *LOOPS, "gradient of Gauss-Seidel sweeps"),
    Row("families", "ode, stores", *FAMILIES, "gradient of an ODE solver with stores"),
    Row("cpu", "heat_3d", *LOOPS, "gradient of a heat equation in 3D"),
    Row("cpu", "gradient of a 10-vector", *ARRAYS, "gradient of ten numbers, one call"),
    Row(
        "cpu",
        "Newton `while`, vmap over 100,000",
        *ARRAYS,
        "Newton's method, 100,000 at once by vmap",
    ),
    Row("cpu", STEP, *ARRAYS, "training step of a neural network"),
    Row("families", "gmm, scalars", *FAMILIES, "gradient of a Gaussian mixture over scalars"),
    Row("cpu", "MLP step", "jit, cold", "JAX", "first call of the training step, compiled"),
]


def seconds(text: str) -> float:
    """Read a time as the tables write it.

    >>> seconds("1.5 ms")
    0.0015
    """
    number, unit = text.split()
    return float(number) * UNITS[unit]


def table_rows(text: str) -> list[dict[str, str]]:
    """Return the rows of all tables of a page, each by the headings of its columns.

    >>> table_rows("| a | b |\\n| --- | --- |\\n| 1 | 2 |\\n")
    [{'a': '1', 'b': '2'}]
    """
    found = []
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.M):
        lines = [line.strip("|").split("|") for line in table.splitlines()]
        heading, _, *rows = [[cell.strip() for cell in line] for line in lines]
        found += [dict(zip(heading, row)) for row in rows]
    return found


def measured(row: Row) -> Speed:
    """Look up one row's times, in the first table that has the row and both columns."""
    rows = table_rows((RESULTS / f"{row.file}.md").read_text(encoding="utf-8"))
    columns = {row.ours, row.theirs}
    found = next(r for r in rows if next(iter(r.values())) == row.work and columns <= r.keys())
    ours, theirs = found[row.ours], found[row.theirs]
    times = seconds(theirs) / seconds(ours)
    return Speed(row.label, ours.replace("us", "µs"), theirs.replace("us", "µs"), times)


def as_table(speeds: list[Speed]) -> str:
    """Return the times as Markdown, for readers without pictures."""
    lines = [f"| {s.label} | {s.ours} | {s.theirs} |" for s in speeds]
    return "\n".join(["| on two cores | calque | JAX |", "| --- | --- | --- |", *lines])


WIDTH, HEIGHT = 520, 46  # of the picture, of a row
MIDDLE = 90  # where JAX's speed stands
UNIT = 76  # the length of a bar that is three times quicker


def bar(speed: Speed, top: int) -> str:
    """Draw one row, below ``top``."""
    length = UNIT * math.log(speed.times, 3)
    kind, far = ("quicker", speed.times) if length > 0 else ("slower", 1.0 / speed.times)
    left, width = (MIDDLE, length) if length > 0 else (MIDDLE + length, -length)
    said = f"{far:.1f} × {kind}: {speed.ours}, JAX {speed.theirs}"
    return (
        f'<text class="label" x="{MIDDLE + 6}" y="{top + 14}">{speed.label}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{top + 20}" width="{width:.1f}" height="14"/>'
        f'<text class="value" x="{MIDDLE + max(length, 0.0) + 6:.1f}" y="{top + 32}">{said}</text>'
    )


def picture() -> str:
    """Return the picture as a figure of HTML, in one block of Markdown."""
    speeds = [measured(row) for row in ROWS]
    bars = "".join(bar(speed, HEIGHT * number) for number, speed in enumerate(speeds))
    bottom = HEIGHT * len(speeds)
    return (
        '<figure class="speeds">'
        f'<svg viewBox="0 0 {WIDTH} {bottom}" role="img" aria-label="Speeds of calque beside JAX">'
        f'<line class="same" x1="{MIDDLE}" y1="0" x2="{MIDDLE}" y2="{bottom}"/>{bars}</svg>'
        "</figure>"
    )


def speeds(argument: str, body: str, plain: bool) -> str:
    """Return the part of a page that shows the speeds."""
    return as_table([measured(row) for row in ROWS]) if plain else picture()
