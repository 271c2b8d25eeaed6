"""The picture of speeds beside JAX's on the first page, drawn from benchmarks/results.

It is SVG within the page, and has the colours of the theme, light or dark. Each row of ``ROWS`` is
a row of a table; a bar to the right says how many times quicker calque is, one to the left how many
times slower, on a logarithmic scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from drawing import box, figure, line, text
from result_tables import results, seconds


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


def measured(row: Row) -> Speed:
    """Look up one row's times, in the first table that has the row and both columns."""
    columns = {row.ours, row.theirs}
    rows = [r for r in results(row.file) if columns <= r.keys()]
    found = next(r for r in rows if next(iter(r.values())) == row.work)
    ours, theirs = found[row.ours], found[row.theirs]
    times = seconds(theirs) / seconds(ours)
    return Speed(row.label, ours.replace("us", "µs"), theirs.replace("us", "µs"), times)


def as_table(speeds: list[Speed]) -> str:
    """Return the times as Markdown, for readers without pictures."""
    lines = [f"| {s.label} | {s.ours} | {s.theirs} |" for s in speeds]
    return "\n".join(["| on two cores | calque | JAX |", "| --- | --- | --- |", *lines])


HEIGHT = 46  # of a row
MIDDLE = 90  # where JAX's speed stands
UNIT = 76  # the length of a bar that is three times quicker


def bar(speed: Speed, top: int) -> str:
    """Draw one row, below ``top``."""
    length = UNIT * math.log(speed.times, 3)
    kind, far = ("quicker", speed.times) if length > 0 else ("slower", 1.0 / speed.times)
    left, width = (MIDDLE, length) if length > 0 else (MIDDLE + length, -length)
    said = f"{far:.1f} × {kind}: {speed.ours}, JAX {speed.theirs}"
    label = text(MIDDLE + 6, top + 14, speed.label)
    drawn = box(left, top + 20, width, 14, kind)
    return label + drawn + text(MIDDLE + max(length, 0.0) + 6, top + 32, said, "value")


def picture() -> str:
    """Return the picture as a figure of HTML, in one block of Markdown."""
    speeds = [measured(row) for row in ROWS]
    bars = "".join(bar(speed, HEIGHT * number) for number, speed in enumerate(speeds))
    bottom = HEIGHT * len(speeds)
    middle = line((MIDDLE, 0), (MIDDLE, bottom), "same")
    return figure("speeds", bottom, "Speeds of calque beside JAX", middle + bars)


def speeds(argument: str, body: str, plain: bool) -> str:
    """Return the part of a page that shows the speeds."""
    return as_table([measured(row) for row in ROWS]) if plain else picture()
