"""A picture of a stencil and of its adjoint, drawn from the Jacobian that calque.sparse finds.

``step`` is one iteration of the loop on the first page. An arrow leads from an element that the
step reads to one that it writes; the adjoint's arrows are those of the function that calque
generates for the reverse phase. Beside the arrows of the middle element stand the entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from drawing import WIDTH, box, figure, line, text

import calque

CELLS = 7
SIZE = 40  # of a cell
LEFT = 100  # of the first cell's middle
GAP = (WIDTH - LEFT - SIZE) / (CELLS - 1)  # between the middles of two cells
HIGH = 120  # between the middles of two rows of cells
BODY = "u[1:-1] += k * (u[:-2] - 2.0 * u[1:-1] + u[2:])"


def step(u):
    """Change an array by one iteration of the loop."""
    k = 0.1
    u[1:-1] += k * (u[:-2] - 2.0 * u[1:-1] + u[2:])
    return u


def step_back(u_bar):
    """Pull an adjoint back through the step, by the generated code."""
    return calque.vjp(step, np.ones(CELLS))[1](u_bar)[0]


class Entry(NamedTuple):
    """The weight of an element that is read in one that is written."""

    read: int
    written: int
    factor: float


def entries(function: Callable[..., Any]) -> list[Entry]:
    """Return the entries of a function's Jacobian, by the pattern that calque.sparse detects.

    >>> [entry for entry in entries(step) if entry.written == 0]
    [Entry(read=0, written=0, factor=1.0)]
    """
    found = calque.sparse.jacobian(function, np.ones(CELLS), format="coo")(np.ones(CELLS))
    row, column = found.coords
    return [Entry(int(c), int(r), float(f)) for r, c, f in zip(row, column, found.data)]


def picture() -> str:
    """Return the picture: the step above, the reverse phase below."""
    middle = CELLS // 2
    forward = [(e, e.written == middle) for e in entries(step)]
    back = [(e, e.read == middle) for e in entries(step_back)]
    marker = (
        '<defs><marker id="stencil-tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="5" '
        'markerHeight="5" orient="auto"><path d="M0 0 8 4 0 8z" fill="context-stroke"/>'
        "</marker></defs>"
    )
    body = (
        marker
        + rows(forward, 0, f"The step: {BODY}", ("u before", "u after"))
        + rows(back, HIGH + 90, "The reverse phase: arrows turned", ("ū after", "ū before"))
    )
    return figure("stencil", 2 * HIGH + 150, alt(), body)


def rows(arrows: list[tuple[Entry, bool]], top: float, title: str, names: tuple[str, str]) -> str:
    """Draw two rows of cells and the arrows between them, those of the middle element last."""
    upper, lower = top + 44, top + 44 + HIGH
    parts = [text(0, top + 16, title)]
    for name, y in zip(names, (upper, lower)):
        parts.append(text(0, y + 5, name, "value"))
        for cell in range(CELLS):
            kind = "cell chosen" if touched(arrows, cell, y == upper) else "cell"
            parts.append(box(LEFT + GAP * cell - SIZE / 2, y - 13, SIZE, 26, kind))
            parts.append(text(LEFT + GAP * cell, y + 5, str(cell), "value", "middle"))
    for entry, chosen in sorted(arrows, key=lambda arrow: arrow[1]):
        start = LEFT + GAP * entry.read, upper + 15
        end = LEFT + GAP * entry.written, lower - 15
        kind = "arrow chosen" if chosen else "arrow"
        parts.append(line(start, end, kind, ' marker-end="url(#stencil-tip)"'))
        if chosen:
            apart = 0.25 if upper_is_many(arrows) else 0.6  # where the arrows stand apart
            place = [a + apart * (b - a) for a, b in zip(start, end)]
            parts.append(box(place[0] - 13, place[1] - 8, 26, 16, "behind"))
            parts.append(text(place[0], place[1] + 5, f"{entry.factor:g}", "label", "middle"))
    return "".join(parts)


def upper_is_many(arrows: list[tuple[Entry, bool]]) -> bool:
    """Return True if the arrows of the middle element start at different elements."""
    return len({entry.read for entry, chosen in arrows if chosen}) > 1


def touched(arrows: list[tuple[Entry, bool]], cell: int, read: bool) -> bool:
    """Return True if an arrow of the middle element starts, or ends, at a cell."""
    return any(chosen and (e.read if read else e.written) == cell for e, chosen in arrows)


def alt() -> str:
    """Return what the picture shows, in words."""
    middle = CELLS // 2
    reads = sorted(e.read for e in entries(step) if e.written == middle)
    adds = sorted(e.written for e in entries(step_back) if e.read == middle)
    return (
        f"In the step {BODY}, element {middle} after it depends on {listed(reads)} before it. "
        f"In reverse, the adjoint of element {middle} is added to those of {listed(adds)}."
    )


def listed(numbers: list[int]) -> str:
    """Write numbers as a list in words.

    >>> listed([2, 3, 4])
    'elements 2, 3 and 4'
    """
    return f"elements {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def stencil(argument: str, body: str, plain: bool) -> str:
    """Return the part of a page that shows the stencil."""
    return alt() if plain else picture()
