"""Integrals of samples: SciPy's own Python is read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import read_source, twin

read_source("scipy.integrate", "simpson", "cumulative_trapezoid", "cumulative_simpson")
twin("scipy.integrate", "trapezoid")(np.trapezoid)


@twin("scipy.integrate", "romb")
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    """Romberg's rule: a weighted sum of trapezoidal sums with steps of 1, 2, 4, ..."""
    y = np.moveaxis(np.asarray(y), axis, -1)
    intervals = y.shape[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    return y @ _romberg_weights(intervals) * dx


def _romberg_weights(intervals: int) -> np.ndarray:
    """The weight of each sample: the rule is linear in the samples."""
    rows = []
    for level in range(intervals.bit_length()):
        step = intervals >> level
        row = np.zeros(intervals + 1)
        row[::step] = step
        row[0] = row[-1] = step / 2.0
        rows.append(row)
    for order in range(1, len(rows)):
        factor = 1.0 / (4.0**order - 1.0)
        rows = [new + (new - old) * factor for old, new in pairwise(rows)]
    return rows[0]
