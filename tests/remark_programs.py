"""Programs on which a pass rewrites a loop, or leaves it as it is and says why.

``PROGRAMS`` lists for each pass functions with their arguments, the words that the remark must have
after the loop's line, with * for other lines' numbers, and a line of the function that it quotes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

REWRITTEN = "is rewritten"
MATRIX, VECTOR = np.ones((12, 12)), np.ones(12)


def leapfrog(x, v):
    for _ in range(7):
        x = x + 0.1 * v
        v = v - 0.1 * np.sin(x)
    return x * v


def mean_subtracted(x):
    for _ in range(7):
        x = x - 0.1 * np.mean(x)
    return x


def shrinking(x):
    for _ in range(7):
        x = 0.5 * x
        x[1:] = x[1:] + 1.0
    return x


def picked(x, k):
    for t in range(4):
        x = 0.5 * x[k]
    return x


PROGRAMS: list[tuple[str, Callable[..., Any], tuple[Any, ...], str, str]] = [
    ("interchange_outward", leapfrog, (VECTOR, VECTOR), REWRITTEN, "for _ in range(7):"),
    (
        *("interchange_outward", mean_subtracted, (VECTOR,)),
        *("stays: * sums over elements", "x = x - 0.1 * np.mean(x)"),
    ),
    (
        *("interchange_outward", shrinking, (VECTOR,)),
        *("stays: * and * go over different ranges of elements", "x[1:] = x[1:] + 1.0"),
    ),
    (
        *("interchange_outward", picked, (VECTOR, np.arange(12))),
        *("stays: * has an index that is not proven to be in bounds", "x = 0.5 * x[k]"),
    ),
]
