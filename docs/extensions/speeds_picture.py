"""Pictures of speeds beside JAX's and others', drawn from the tables in benchmarks/results.

They are SVG within the page, and have the colours of the theme, light or dark. Each row of a
picture of ``PICTURES`` is a row of a table; a bar to the right says how many times quicker calque
is, one to the left how many times slower, on a logarithmic scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from drawing import WIDTH, box, figure, line, text
from result_tables import results, seconds


class Row(NamedTuple):
    """A row of a table of results: its file, its first cell, columns of both times, and a label."""

    file: str
    work: str
    ours: str
    theirs: str
    label: str
    peer: str = "JAX"


class Speed(NamedTuple):
    """Two measured times, as the table has them, and how many times quicker calque is."""

    label: str
    ours: str
    theirs: str
    times: float
    peer: str = "JAX"


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
TOOLS = ("calque", "JAX")
HAND = ("calque", "manual")
BY_HAND = "C++"
COLD = ("cold", "JAX")
WARM = ("warm", "JAX")
FIRST_CALLS = {
    "thermodynamics": "equations of state of seawater",
    "rk45": "a Runge-Kutta solver that adapts its steps",
    "kalman": "a Kalman filter",
    "shallow water": "shallow water",
    "skinning": "skinning",
    "dense blocks, 3 times": "three dense blocks",
}
PICTURES = {
    "": ROWS,
    "loops": [
        Row("cpu", "durbin", *LOOPS, "Durbin's recursion for Toeplitz matrices"),
        Row("cpu", "lu", *LOOPS, "LU factorization in loops"),
        Row("families", "while, eight numbers", *FAMILIES, "a while loop over eight numbers"),
        Row("families", "ode, stores", *FAMILIES, "a Runge-Kutta solver with stores"),
        Row("cpu", "heat_3d", *LOOPS, "a heat equation in 3D"),
        Row("families", "lstm, stores", *FAMILIES, "an LSTM over a text, with stores"),
        Row("families", "adaptive, scalars", *FAMILIES, "a solver that adapts its steps"),
        Row("cpu", "fdtd_2d", *LOOPS, "electromagnetic waves in 2D"),
    ],
    "arrays": [
        Row("cpu", "scalar function, one line", *ARRAYS, "a function of one number"),
        Row("cpu", "selu, 10,000 elements", *ARRAYS, "selu of 10,000 numbers"),
        Row("cpu", "selu, 5000 x 5000, float64", *ARRAYS, "selu of 25 million numbers"),
        Row("cpu", "logistic loss, gradient, 10,000 x 100", *ARRAYS, "a logistic loss's gradient"),
        Row("cpu", "hessian of Rosenbrock, 1,000", *ARRAYS, "a Hessian of 1,000 numbers"),
        Row("cpu", STEP, *ARRAYS, "training step of a neural network"),
    ],
    "slower": [
        Row("families", "gmm, scalars", *FAMILIES, "a Gaussian mixture over scalars"),
        Row("families", "doitgen", *FAMILIES, "products along the last of three axes"),
        Row("families", "skinning, matrices", *FAMILIES, "skinning: small matrices of bones"),
        Row("families", "adi, vectors", *FAMILIES, "alternating directions, in rows"),
        Row("families", "correlation", *FAMILIES, "a matrix of correlations"),
    ],
    "cold": [Row("first_calls", name, *COLD, said) for name, said in FIRST_CALLS.items()],
    "warm": [Row("first_calls", name, *WARM, said) for name, said in FIRST_CALLS.items()],
    "gradbench": [
        Row("gradbench", "llsq, n=16392,m=128, gradient", *TOOLS, "llsq: a polynomial"),
        Row("gradbench", "kmeans, k=10,n=10000,d=16, dir", *TOOLS, "kmeans: Newton's method"),
        Row("gradbench", "kmeans, k=1000,n=1000,d=16, cost", *TOOLS, "kmeans: the cost alone"),
        Row("gradbench", "gmm, 64_100_1000, jacobian", *TOOLS, "gmm: a Gaussian mixture"),
        Row("gradbench", "lse, n=320000, gradient", *TOOLS, "lse: log-sum-exp"),
        Row("gradbench", "ode, n=1000,s=100, gradient", *TOOLS, "ode: a Runge-Kutta solver"),
    ],
    "by-hand": [
        Row("gradbench", "det, 10, gradient", *HAND, "det: minors in a recursion", BY_HAND),
        Row("gradbench", "lse, n=320000, gradient", *HAND, "lse: log-sum-exp", BY_HAND),
        Row("gradbench", "gmm, 64_100_1000, jacobian", *HAND, "gmm: a Gaussian mixture", BY_HAND),
        Row("gradbench", "lstm, l=2,c=1024, jacobian", *HAND, "lstm: a recurrent network", BY_HAND),
        Row("gradbench", "kmeans, k=10,n=10000,d=16, dir", *HAND, "kmeans: Newton", BY_HAND),
        Row("gradbench", "llsq, n=16392,m=128, gradient", *HAND, "llsq: a polynomial", BY_HAND),
        Row("gradbench", "ba, ba1_n49_m7776_p31843, jacobian", *HAND, "ba: cameras", BY_HAND),
        Row("gradbench", "ht, hand4_t26_c400, jacobian", *HAND, "ht: a hand's skin", BY_HAND),
    ],
}


def measured(row: Row) -> Speed:
    """Look up one row's times, in the first table that has the row and both columns."""
    columns = {row.ours, row.theirs}
    rows = [r for r in results(row.file) if columns <= r.keys()]
    found = next(r for r in rows if next(iter(r.values())) == row.work)
    ours, theirs = found[row.ours], found[row.theirs]
    times = seconds(theirs) / seconds(ours)
    return Speed(row.label, ours.replace("us", "µs"), theirs.replace("us", "µs"), times, row.peer)


def as_table(speeds: list[Speed]) -> str:
    """Return the times as Markdown, for readers without pictures."""
    lines = [f"| {s.label} | {s.ours} | {s.theirs} |" for s in speeds]
    heading = f"| on two cores | calque | {speeds[0].peer} |"
    return "\n".join([heading, "| --- | --- | --- |", *lines])


HEIGHT = 46  # of a row
TEXT = 230  # the width of what is said behind a bar
UNIT = 76  # the most that a bar of three times quicker is long
LEAST_SLOWER = 3.0  # times, for which there is room to the left


class Scale(NamedTuple):
    """The horizontal scale: the place of the peer's speed, and the length of a factor of three."""

    middle: float
    unit: float

    @classmethod
    def of(cls, speeds: list[Speed]) -> Scale:
        """Return the scale on which the longest bars to both sides have room."""
        slower = math.log(max(LEAST_SLOWER, *(1.0 / s.times for s in speeds)), 3)
        quicker = math.log(max(LEAST_SLOWER, *(s.times for s in speeds)), 3)
        unit = min(UNIT, (WIDTH - TEXT - 14) / (slower + quicker))
        return cls(14 + unit * slower, unit)


def bar(speed: Speed, scale: Scale, top: int) -> str:
    """Draw one row, below ``top``."""
    middle, length = scale.middle, scale.unit * math.log(speed.times, 3)
    kind, far = ("quicker", speed.times) if length > 0 else ("slower", 1.0 / speed.times)
    left, width = (middle, length) if length > 0 else (middle + length, -length)
    said = f"{far:.1f} × {kind}: {speed.ours}, {speed.peer} {speed.theirs}"
    label = text(middle + 6, top + 14, speed.label)
    drawn = box(left, top + 20, width, 14, kind)
    return label + drawn + text(middle + max(length, 0.0) + 6, top + 32, said, "value")


def picture(rows: list[Row]) -> str:
    """Return the picture of some rows as a figure of HTML, in one block of Markdown."""
    speeds = [measured(row) for row in rows]
    scale = Scale.of(speeds)
    bars = "".join(bar(speed, scale, HEIGHT * number) for number, speed in enumerate(speeds))
    bottom = HEIGHT * len(speeds)
    middle = line((scale.middle, 0), (scale.middle, bottom), "same")
    return figure("speeds", bottom, f"Speeds of calque beside {speeds[0].peer}", middle + bars)


def speeds(argument: str, body: str, plain: bool) -> str:
    """Return the part of a page that shows one of ``PICTURES``; the first page's has no name."""
    rows = PICTURES[argument]
    return as_table([measured(row) for row in rows]) if plain else picture(rows)
