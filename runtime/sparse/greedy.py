"""Greedy colourings of sparse matrices, as plain loops over index arrays, which ``jit`` compiles.

The columns of a Jacobian may share a colour where no row has a nonzero in both: a colouring of
distance 2 of the rows' and columns' graph. The columns of a Hessian may where every nonzero can be
read from one of the two columns that symmetry gives it: a star colouring. See Gebremedhin, Manne
and Pothen, "What color is your Jacobian?", SIAM Review 47 (2005), algorithms 3.1 and 4.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def column_colors(row_starts: Any, columns: Any, column_starts: Any, rows: Any, order: Any) -> Any:
    """A colour for each column: in this order, the least that no column in a row with it has."""
    count = len(column_starts) - 1
    colors = np.full(count, -1)
    refused = np.full(count + 1, -1)  # by colour, the last column that must not have it
    for j in order:
        for k in range(column_starts[j], column_starts[j + 1]):
            row = rows[k]
            for m in range(row_starts[row], row_starts[row + 1]):
                other = colors[columns[m]]
                if other >= 0:
                    refused[other] = j
        color = 0
        while refused[color] == j:
            color += 1
        colors[j] = color
    return colors


def star_colors(starts: Any, neighbours: Any, order: Any) -> Any:
    """A colour for each node of a graph: neighbours differ, and no path of four has two colours."""
    count = len(starts) - 1
    colors = np.full(count, -1)
    refused = np.full(count + 1, -1)  # by colour, the last node that must not have it
    for v in order:
        for k in range(starts[v], starts[v + 1]):
            w = neighbours[k]
            between = colors[w]
            if between >= 0:
                refused[between] = v
            for m in range(starts[w], starts[w + 1]):
                x = neighbours[m]
                other = colors[x]
                if x == v or other < 0 or refused[other] == v:
                    continue
                if between < 0:
                    refused[other] = v
                    continue
                for p in range(starts[x], starts[x + 1]):
                    y = neighbours[p]
                    if y != w and colors[y] == between:
                        refused[other] = v
                        break
        color = 0
        while refused[color] == v:
            color += 1
        colors[v] = color
    return colors


def smallest_last(starts: Any, neighbours: Any) -> Any:
    """The nodes of a graph, so that each has few neighbours before it: the last has the fewest.

    Nodes of the least degree are taken out one after the other, each from the graph that is left.
    """
    count = len(starts) - 1
    degree = starts[1:] - starts[:-1]
    most = 0
    for v in range(count):
        most = max(most, degree[v])
    first = np.zeros(most + 2, dtype=np.int64)  # where nodes of a degree begin in ``sorted``
    for v in range(count):
        first[degree[v] + 1] += 1
    for d in range(1, most + 2):
        first[d] += first[d - 1]
    begin = first.copy()
    place, node = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for v in range(count):
        place[v] = first[degree[v]]
        node[place[v]] = v
        first[degree[v]] += 1
    for k in range(count):
        v = node[k]
        for m in range(starts[v], starts[v + 1]):
            w = neighbours[m]
            if degree[w] > degree[v] and place[w] > k:
                d = degree[w]
                head = max(begin[d], k + 1)
                other = node[head]
                node[place[w]], place[other] = other, place[w]
                node[head], place[w] = w, head
                begin[d] = head + 1
                degree[w] = d - 1
    return node[::-1].copy()
