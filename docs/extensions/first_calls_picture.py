"""Two pictures of first calls beside JAX's, drawn from benchmarks/results/first_calls.md.

``first_calls`` has a row for each program, with a mark for each way to a first gradient, on a
logarithmic axis of seconds. ``growth`` has a panel for each program whose body was repeated: how
the time grows from one body to three.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from drawing import WIDTH, box, circle, figure, line, text
from result_tables import results, seconds

NAME = "gradient of"  # the column of programs
WAYS = {"cold": "cold", "NumPy first": "first", "warm": "warm", "JAX": "jax"}  # and their marks
SAID = {
    "cold": "calque, nothing on disk",
    "warm": "calque, kernels on disk",
    "NumPy first": 'calque, first="numpy"',
    "JAX": "JAX",
}
REPEATED = re.compile(r"(?P<program>.+), (?P<times>\d+) times$")
LOW, HIGH = 0.05, 20.0  # seconds at both ends of the axis
TICKS = (0.1, 1.0, 10.0)
LEFT, RIGHT = 150, WIDTH - 15
TOP, ROW = 66, 28


def programs() -> dict[str, dict[str, float]]:
    """Return the seconds of each program by the way to its first gradient.

    >>> sorted(programs()["kalman"])
    ['JAX', 'NumPy first', 'cold', 'warm']
    """
    rows = [row for row in results("first_calls") if WAYS.keys() <= row.keys()]
    return {row[NAME]: {way: seconds(row[way]) for way in WAYS} for row in rows}


def single() -> dict[str, dict[str, float]]:
    """Return the programs whose body stands once."""
    return {name: times for name, times in programs().items() if not REPEATED.match(name)}


def repeated() -> dict[str, list[dict[str, float]]]:
    """Return the programs that were repeated, each with its times for one body, two and three.

    >>> len(repeated()["kalman"])
    3
    """
    found = programs()
    grown = {m["program"]: [found[m["program"]]] for m in map(REPEATED.match, found) if m}
    for name, times in found.items():
        if several := REPEATED.match(name):
            grown[several["program"]].append(times)
    return grown


def across(time: float) -> float:
    """Return where a time stands on the axis.

    >>> across(LOW) == LEFT and across(HIGH) == RIGHT
    True
    """
    return LEFT + (RIGHT - LEFT) * math.log(time / LOW) / math.log(HIGH / LOW)


def mark(way: str, x: float, y: float) -> str:
    """Draw the mark of a way: a circle for calque's, a bar for JAX's."""
    kind = WAYS[way]
    return box(x - 2.5, y - 8, 5, 16, kind) if way == "JAX" else circle(x, y, 6, kind)


def legend(ways: list[str], step: int) -> str:
    """Write which mark stands for which way, two in a row."""
    return "".join(
        mark(way, 10 + WIDTH / 2 * (n % 2), 12 + step * (n // 2))
        + text(24 + WIDTH / 2 * (n % 2), 17 + step * (n // 2), SAID[way])
        for n, way in enumerate(ways)
    )


def first_calls_picture() -> str:
    """Return the picture of first calls."""
    rows = single()
    bottom = TOP + ROW * len(rows)
    parts = [legend(list(WAYS), 22)]
    for tick in TICKS:
        parts.append(line((across(tick), TOP - 8), (across(tick), bottom), "grid"))
        parts.append(text(across(tick), bottom + 16, f"{tick:g} s", "value", "middle"))
    for number, (name, times) in enumerate(rows.items()):
        y = TOP + ROW * number + ROW / 2
        parts.append(text(0, y + 5, name))
        ends = (across(min(times.values())), y), (across(max(times.values())), y)
        parts.append(line(*ends, "span"))
        parts += [mark(way, across(times[way]), y) for way in WAYS]
    told = "Seconds until the first gradient of eight programs: calque in three ways, and JAX"
    return figure("first-calls", bottom + 22, told, "".join(parts))


PANEL, HIGHEST, BETWEEN = 150, 96, 35  # width and height of a panel, and what is between two


def growth_picture() -> str:
    """Return the picture of growth: six panels, three in a row."""
    grown = repeated()
    parts = [legend(["cold", "JAX"], 22)]
    for number, (name, times) in enumerate(grown.items()):
        left = (PANEL + BETWEEN) * (number % 3)
        parts.append(panel(name, times, left, 60 + (HIGHEST + 70) * (number // 3)))
    height = 60 + (HIGHEST + 70) * math.ceil(len(grown) / 3)
    told = "How first calls grow with a program's length: calque and JAX, six programs"
    return figure("growth", height - 20, told, "".join(parts))


def panel(name: str, times: list[dict[str, float]], left: float, top: float) -> str:
    """Draw how one program grows, from its body once to three times."""
    most = max(time[way] for time in times for way in ("cold", "JAX"))
    parts = [text(left, top, name)]
    base = top + 12 + HIGHEST
    parts.append(line((left, base), (left + PANEL, base), "same"))
    xs = [left + 12 + (PANEL - 60) / 2 * n for n in range(len(times))]
    parts += [text(x, base + 16, f"{n}×", "value", "middle") for n, x in enumerate(xs, 1)]
    for way in ("cold", "JAX"):
        ys = [base - HIGHEST * 0.9 * time[way] / most for time in times]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys))
        parts.append(f'<polyline class="{WAYS[way]}" points="{points}"/>')
        parts += [mark(way, x, y) for x, y in zip(xs, ys)]
        parts.append(text(xs[-1] + 10, ys[-1] + 4, f"{times[-1][way]:.2g} s", "value"))
    return "".join(parts)


def as_table(rows: dict[str, dict[str, float]]) -> str:
    """Return seconds as Markdown, for readers without pictures."""
    heading = ["| gradient of | " + " | ".join(SAID[way] for way in WAYS) + " |"]
    heading.append("| --- |" + " --- |" * len(WAYS))
    return "\n".join(
        heading
        + [
            f"| {name} | " + " | ".join(f"{times[way]:.3g} s" for way in WAYS) + " |"
            for name, times in rows.items()
        ]
    )


def _part(
    picture: Callable[[], str], rows: Callable[[], dict[str, dict[str, float]]]
) -> Callable[[str, str, bool], str]:
    return lambda argument, body, plain: as_table(rows()) if plain else picture()


first_calls = _part(first_calls_picture, single)
growth = _part(
    growth_picture,
    lambda: {name: times for name, times in programs().items() if REPEATED.match(name)},
)
