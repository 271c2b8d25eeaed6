"""A picture of sparse derivatives: patterns with the groups of columns that are computed together.

Both are what calque.sparse finds for ``reaction`` and ``coupled``; each cell that can be nonzero
has the number and the colour of its column's group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from drawing import WIDTH, box, figure, text

from calque import sparse

COUNT = 12  # elements of u
SIZE = 19  # of a cell
SHADES = 4  # colours that docs/static has


def reaction(u):
    """Return the change of a diffusing, decaying quantity on a line."""
    v = np.zeros_like(u)
    v[1:-1] = u[2:] - 2.0 * u[1:-1] + u[:-2]
    return v - u**2


def coupled(u):
    """Return an energy of neighbours, in which the first element meets all."""
    return np.sum((u[1:] - u[:-1]) ** 4) + u[0] * np.sum(u**2)


def jacobian() -> Any:
    """Return the coloured pattern of the Jacobian of ``reaction``.

    >>> jacobian().num_colors
    3
    """
    return sparse.jacobian_coloring(reaction, np.ones(COUNT))


def hessian() -> Any:
    """Return the coloured pattern of the Hessian of ``coupled``."""
    return sparse.hessian_coloring(coupled, np.ones(COUNT))


def cell(x: float, y: float, group: int, title: str) -> str:
    """Draw one cell with the number of its group."""
    drawn = box(x, y, SIZE - 1, SIZE - 1, f"group group-{group % SHADES}", title)
    return drawn + text(x + SIZE / 2 - 0.5, y + SIZE - 5.5, str(group + 1), "number", "middle")


def matrix(pattern: Any, left: float, top: float) -> str:
    """Draw a coloured pattern."""
    side = SIZE * COUNT
    parts = [box(left, top, side, side, "frame")]
    for row, column in zip(pattern.sparsity.rows, pattern.sparsity.cols):
        place = left + SIZE * int(column), top + SIZE * int(row)
        parts.append(cell(*place, int(pattern.colors[column]), f"row {row}, column {column}"))
    return "".join(parts)


def compressed(pattern: Any, left: float, top: float) -> str:
    """Draw what is computed: a column for each group, with the entries of its columns."""
    parts = [box(left, top, SIZE * pattern.num_colors, SIZE * COUNT, "frame")]
    for row, column in zip(pattern.sparsity.rows, pattern.sparsity.cols):
        group = int(pattern.colors[column])
        told = f"row {row}, column {column}"
        parts.append(cell(left + SIZE * group, top + SIZE * int(row), group, told))
    return "".join(parts)


def picture() -> str:
    """Return the picture: the Jacobian and what is computed of it above, the Hessian below."""
    first, second = jacobian(), hessian()
    side, top = SIZE * COUNT, 28
    lower = top + side + 56
    body = (
        text(0, 16, f"Jacobian of reaction: {first.num_colors} groups of columns")
        + matrix(first, 0, top)
        + text(side + 16, top + side / 2, "→", "label")
        + compressed(first, side + 44, top)
        + text(side + 44, top + side + 18, f"computed: {COUNT} × {first.num_colors}", "value")
        + text(0, lower - 12, f"Hessian of coupled: {second.num_colors} groups")
        + matrix(second, 0, lower)
        + text(side + 44, lower + 16, f"{second.sparsity.nnz} entries, {COUNT} columns:", "value")
        + text(
            side + 44, lower + 34, f"{second.num_colors} products of Hessian and vector", "value"
        )
    )
    assert side + 44 + SIZE * first.num_colors < WIDTH
    return figure("sparsity", lower + side + 6, alt(), body)


def alt() -> str:
    """Return what the picture shows, in words."""
    first, second = jacobian(), hessian()
    return (
        f"The Jacobian of reaction for {COUNT} elements has {first.sparsity.nnz} entries, and its "
        f"columns are in {first.num_colors} groups. The Hessian of coupled has "
        f"{second.sparsity.nnz} entries, and its columns are in {second.num_colors} groups."
    )


def sparsity(argument: str, body: str, plain: bool) -> str:
    """Return the part of a page that shows the patterns."""
    return alt() if plain else picture()
